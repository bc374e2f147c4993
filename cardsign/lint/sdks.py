"""What a portable card needs besides for two SDKs whose readings are none of the defaults."""

from __future__ import annotations

from typing import Final

from cardsign.card.serialize import jcs
from cardsign.card.walk import Spot
from cardsign.lint.rules import rule

_PROTO: Final = "__proto__"
_SCHEMES: Final = ("securitySchemes", "security_schemes")


# ------------------------------------------------------------------ @a2a-js/sdk 1.0.1 to 1.3.0


@rule(
    "js-resolver.security-schemes",
    summary="The card has security schemes.",
    why="The resolver of @a2a-js/sdk drops them before it verifies (a2a-js#663). It refuses every "
    "signature that covers them. Under one that does not, it does not notice a changed scheme.",
    fix="No fix keeps the meaning of the card. Let that client verify the plain JSON instead.",
)
def security_schemes(spot: Spot) -> str | None:
    """Schemes at all, in either spelling."""
    at_root = len(spot.tokens) == 1 and spot.name in _SCHEMES
    return "the card has security schemes" if at_root and spot.value else None


@rule(
    "js-resolver.proto-name",
    summary="A member that is called `__proto__`.",
    why="JavaScript takes the name for the object's prototype, so @a2a-js/sdk loses the member. "
    "It then refuses the signature, even where it is given the plain JSON.",
    fix="Choose another name.",
)
def proto_name(spot: Spot) -> str | None:
    """A name that is none to JavaScript."""
    return f"is called {_PROTO}" if spot.name == _PROTO else None


# ------------------------------------------------------------------ a2a-sdk 1.0.0 to 1.1.3
# Its names go in the order of code points. That needs no rule: in ASCII it is RFC 8785's.


@rule(
    "py-1.1.non-ascii",
    summary="A name or text with a character that is not ASCII, or with U+007F.",
    why="a2a-sdk before 1.1.4 signs such characters as \\u escapes, and sorts such names in "
    "another order.",
    fix="Use ASCII only. a2a-sdk 1.1.4 and later does not need that.",
)
def non_ascii(spot: Spot) -> str | None:
    """What Python's JSON writer spells otherwise; controls it escapes alike."""
    name, text = (
        isinstance(one, str) and not (one.isascii() and "\x7f" not in one)
        for one in (spot.name, spot.value)
    )
    if name and text:
        return "neither the name nor the text is ASCII"
    return "the name is not ASCII" if name else "the text is not ASCII" if text else None


@rule(
    "py-1.1.number",
    summary="A number that Python and RFC 8785 write differently, such as 5, 1e-7 or -0.",
    why="a2a-sdk before 1.1.4 writes every number in `params` as a Python float: 5 as 5.0.",
    fix="Write the number as a string, if the extension accepts that.",
)
def number(spot: Spot) -> str | None:
    """What Python prints otherwise."""
    value = spot.value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    printed = repr(float(value))
    return None if printed == jcs(value).decode() else f"Python prints it as {printed}"
