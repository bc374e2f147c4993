"""What a portable card needs besides for two SDKs whose readings are none of the defaults.

Both sets of rules presuppose :func:`cardsign.card.lint.portable.check_portable`: a document that
breaks none of either has, under that SDK's reading, the bytes of the default profiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cardsign.card.canonical import jcs
from cardsign.card.lint.findings import Finding
from cardsign.card.lint.rules import RULES
from cardsign.card.pointer import append
from cardsign.card.strictjson import Json

_PROTO: Final = "__proto__"


def check_js_resolver(document: Mapping[str, Json]) -> Iterator[Finding]:
    """Find what the resolver of @a2a-js/sdk (1.0.1 to 1.3.0) loses of a portable card."""
    for member in ("securitySchemes", "security_schemes"):
        if document.get(member):
            rule = RULES["js-resolver.security-schemes"]
            yield Finding(rule, append("", member), "the card has security schemes")
    for pointer, name, _ in _walk(document):
        if name == _PROTO:
            yield Finding(RULES["js-resolver.proto-name"], pointer, f"is called {_PROTO}")


def check_py_1_1(document: Mapping[str, Json]) -> Iterator[Finding]:
    """Find what a2a-sdk before 1.1.4 signs otherwise in a portable card.

    Its names go in the order of code points. That needs no rule: in ASCII it is RFC 8785's.
    """
    for pointer, name, value in _walk(document):
        if name is not None and not _is_plain(name):
            yield Finding(RULES["py-1.1.non-ascii"], pointer, "the name is not ASCII")
        if isinstance(value, str) and not _is_plain(value):
            yield Finding(RULES["py-1.1.non-ascii"], pointer, "the text is not ASCII")
        if isinstance(value, int | float) and not isinstance(value, bool):
            printed = repr(float(value))
            if printed != jcs(value).decode():
                message = f"Python prints it as {printed}"
                yield Finding(RULES["py-1.1.number"], pointer, message)


def _is_plain(text: str) -> bool:
    """Whether Python's JSON writer and RFC 8785 spell it alike; both escape controls alike."""
    return text.isascii() and "\x7f" not in text


def _walk(document: Mapping[str, Json]) -> Iterator[tuple[str, str | None, Json]]:
    """Pointer, name and value of all members and elements; elements have no name."""
    for name, value in document.items():
        if name != "signatures":
            yield from _below(append("", name), name, value)


def _below(pointer: str, name: str | None, value: Json) -> Iterator[tuple[str, str | None, Json]]:
    yield pointer, name, value
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _below(append(pointer, key), key, child)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _below(append(pointer, index), None, element)
