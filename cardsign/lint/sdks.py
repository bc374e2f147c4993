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
    why="The resolver of @a2a-js/sdk drops them before it verifies (a2a-js#663): it refuses every "
    "signature by others, and does not notice a changed scheme under its own.",
    mend="None without changing who may call. Have that client verify the plain JSON instead.",
)
def security_schemes(spot: Spot) -> str | None:
    """Schemes at all, in either spelling."""
    at_root = len(spot.tokens) == 1 and spot.name in _SCHEMES
    return "the card has security schemes" if at_root and spot.value else None


@rule(
    "js-resolver.proto-name",
    summary="A member that is called `__proto__`.",
    why="JavaScript takes the name for the object's prototype, and @a2a-js/sdk loses the member. "
    "It refuses the signature by its plain path too, where it verifies every other portable "
    "card.",
    mend="Choose another name.",
)
def proto_name(spot: Spot) -> str | None:
    """A name that is none to JavaScript."""
    return f"is called {_PROTO}" if spot.name == _PROTO else None


# ------------------------------------------------------------------ a2a-sdk 1.0.0 to 1.1.3
# Its names go in the order of code points. That needs no rule: in ASCII it is RFC 8785's.


@rule(
    "py-1.1.non-ascii",
    summary="A name or text that is not ASCII throughout (U+007F counts as well).",
    why="a2a-sdk before 1.1.4 signs such characters as \\u escapes, and sorts their names "
    "otherwise.",
    mend="None but other words. Readers of 1.1.4 and later have no such trouble.",
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
    summary="A number that Python prints otherwise than RFC 8785 does, such as 5, 1e-7 or -0.",
    why="a2a-sdk before 1.1.4 prints every number of `params` as a Python float: 5 as 5.0.",
    mend="Write the number as a string, if the extension may read it so.",
)
def number(spot: Spot) -> str | None:
    """What Python prints otherwise."""
    value = spot.value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    printed = repr(float(value))
    return None if printed == jcs(value).decode() else f"Python prints it as {printed}"
