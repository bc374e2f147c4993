"""Where the four default profiles part: the structural rules of portability.

A document is clean here exactly if :data:`cardsign.card.canonical.DEFAULT_PROFILES` all make
the same bytes of it. No payload is computed. The reason that these rules suffice: prune-empty
changes a document exactly where it is not clean; rule 1 drops nothing that prune-empty keeps;
and in what prune-empty leaves alone a2a-sdk's rewriting finds no 0.3 member.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cardsign.card.canonical import jcs
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Kind, Shape, fold
from cardsign.card.strictjson import Json, append, split
from cardsign.lint.rules import RULES, Finding

# Beside these, what it means that a 1.0 member is there, be it as null, hangs on the quirks of
# a2a-sdk's rewriting (cardsign.card.profiles.prune).
_REWRITTEN: Final = frozenset(
    {
        "url",
        "preferredTransport",
        "protocolVersion",
        "additionalInterfaces",
        "supportsAuthenticatedExtendedCard",
        "security",
        "type",
    }
)
_HANG_ON_THEM: Final = frozenset({"portable.null", "portable.snake-case"})

_CONTAINERS: Final[dict[Shape, type]] = {"list": list, "map": dict}
_TYPES: Final[dict[Kind, type]] = {"string": str, "bool": bool, "message": dict, "free": dict}
_WORDING: Final = {str: "a string", bool: "true or false", dict: "an object", list: "a list"}


def check_portable(document: Mapping[str, Json]) -> Iterator[Finding]:
    """Find every place where the default profiles part, in document order.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it; its `signatures`
            are not looked at.
    """
    members = {name: value for name, value in document.items() if name != "signatures"}
    findings = tuple(_members(members, "", _Place(CARD_1_0.fields, CARD_0_3.fields, False)))
    rewritten = any(_is_rewritten(finding) for finding in findings)
    for finding in findings:
        if rewritten and (finding.rule.id in _HANG_ON_THEM or _is_of_rewriting(finding)):
            yield replace(finding, mendable=False)
        else:
            yield finding


def _is_rewritten(finding: Finding) -> bool:
    return _is_of_rewriting(finding) and not finding.mendable


def _is_of_rewriting(finding: Finding) -> bool:
    """Whether it is a 0.3 member that the rewriting reads: its null, too, is not its absence."""
    is_legacy = finding.rule.id == "portable.legacy-member"
    return is_legacy and split(finding.pointer)[-1] in _REWRITTEN


@dataclass(frozen=True, slots=True)
class _Place:
    """What the members of an object may be called, in 1.0 and in 0.3."""

    fields: Mapping[str, Field]
    old_fields: Mapping[str, Field]
    security: bool

    def find(self, name: str) -> Field | None:
        """The 1.0 field of that name in either proto3 JSON spelling."""
        snake = (field for field in self.fields.values() if field.snake_name == name)
        return self.fields.get(name) or next(snake, None)

    def below(self, field: Field) -> _Place:
        """The place of the messages that a 1.0 field holds."""
        return _Place(
            _fields(field),
            _fields(self.old_fields.get(field.name)),
            self.security or field.security,
        )


def _fields(field: Field | None) -> Mapping[str, Field]:
    return field.message.fields if field is not None and field.message is not None else {}


def _members(value: dict[str, Json], pointer: str, place: _Place) -> Iterator[Finding]:
    chosen: str | None = None
    for name, child in value.items():
        where = append(pointer, name)
        field = place.find(name)
        if field is None:
            yield _stranger(name, child, where, place)
            continue
        if field.name != name:
            spelling = f"the protobuf spelling of {field.name}"
            yield Finding(RULES["portable.snake-case"], where, spelling, mendable=True)
        if field.oneof and child is not None:
            if chosen is not None:
                both = f"{chosen} and {field.name} in one object"
                yield Finding(RULES["portable.oneof"], where, both)
            chosen = field.name
        yield from _member(child, where, field, place.below(field))


def _stranger(name: str, value: Json, pointer: str, place: _Place) -> Finding:
    """A member that A2A 1.0 does not define at this place."""
    old = place.old_fields.get(name)
    if old is not None:
        says_nothing = value is None and not (place.security or old.security)
        message = "a null member of A2A 0.3" if value is None else "a member of A2A 0.3"
        return Finding(RULES["portable.legacy-member"], pointer, message, mendable=says_nothing)
    meant = next((known for known in place.fields if fold(known) == fold(name)), None)
    hint = f"; did you mean {meant}?" if meant is not None else ""
    message = f"A2A 1.0 defines no such member here{hint}"
    return Finding(RULES["portable.unknown-member"], pointer, message)


def _member(value: Json, pointer: str, field: Field, place: _Place) -> Iterator[Finding]:
    if value is None and not place.security:
        yield Finding(RULES["portable.null"], pointer, "is null", mendable=True)
    elif field.is_default(value) and not (field.required or place.security):
        message = f"is {json.dumps(value)}, its default"
        yield Finding(RULES["portable.default"], pointer, message, mendable=True)
    else:
        yield from _value(value, pointer, field, field.shape, place)


def _value(
    value: Json, pointer: str, field: Field, shape: Shape, place: _Place
) -> Iterator[Finding]:
    """What a field holds; its elements and entries again, each in the shape ``one``."""
    kind = _CONTAINERS.get(shape) or _TYPES[field.kind]
    if value is not None and not isinstance(value, kind):
        yield Finding(RULES["portable.wrong-type"], pointer, f"expected {_WORDING[kind]}")
    elif _is_empty(value) or (value is False and not field.presence):
        rule = RULES[_empty_rule(field, place)]
        yield Finding(rule, pointer, f"is {json.dumps(value)}")
    elif shape != "one":
        for token, child in _children(value):
            yield from _value(child, append(pointer, token), field, "one", place)
    elif field.kind == "free":
        yield from _free(value, pointer)
    elif isinstance(value, dict):
        yield from _members(value, pointer, place)


def _empty_rule(field: Field, place: _Place) -> str:
    if place.security:
        return "portable.empty-security"
    return "portable.empty-params" if field.kind == "free" else "portable.empty-value"


def _free(value: Json, pointer: str) -> Iterator[Finding]:
    if _is_empty(value):
        yield Finding(RULES["portable.empty-params"], pointer, f"is {json.dumps(value)}")
    for token, child in _children(value):
        yield from _free(child, append(pointer, token))


def _is_empty(value: Json) -> bool:
    return value is None or value in ("", [], {})


def _children(value: Json) -> Iterable[tuple[str | int, Json]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


# What a portable card needs besides for two SDKs whose readings are none of the defaults.


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
