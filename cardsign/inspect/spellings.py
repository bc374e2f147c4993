"""Common ways to write a card that are not canonical: what a signature that fits nothing may fit.

A signature that fits such bytes proves that the card was not changed: its signer wrote it in
another way. It counts for nothing all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cardsign.card.schema import CARD_0_3, Message
from cardsign.card.values import Json, jcs
from cardsign.errors import SignatureRefused

_Members: TypeAlias = dict[str, Json]

_COMPACT: Final = (",", ":")
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a card.

    Attributes:
        name: What writes so, or what is peculiar to it.
        write: Returns the bytes of a card's members; several where there are settings.
        advice: What the signer should change.
    """

    name: str
    write: Callable[[_Members], Iterable[bytes]]
    advice: str


def find_spellings(
    checks: Mapping[int, Callable[[bytes], None]], members: _Members
) -> dict[int, Spelling]:
    """Return the known spelling of a card that each signature was made over, if it is one.

    Args:
        checks: For each signature that fits no payload of the card, by its index, what raises
            unless it fits some bytes.
        members: The card without its signatures; it has an RFC 8785 form.
    """
    fitting: dict[int, Spelling] = {}
    for spelling in SPELLINGS if checks else ():
        for data in spelling.write(members):
            for index in checks.keys() - fitting.keys():
                with suppress(SignatureRefused):
                    checks[index](data)
                    fitting[index] = spelling
    return fitting


def _dump(members: _Members) -> Iterable[bytes]:
    for is_sorted in (True, False):
        for separators in (_COMPACT, None):
            yield json.dumps(members, sort_keys=is_sorted, separators=separators).encode()


def _sort(value: Json) -> str:
    """RFC 8785 in all but the order of members: by code points, not by UTF-16 units."""
    if isinstance(value, dict):
        members = (f"{_sort(name)}:{_sort(value[name])}" for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_sort, value)) + "]"
    # The two write the same but for fractions, and one call of rfc8785 for each value is slow.
    return (
        jcs(value).decode() if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    )


def _snake(value: Any, message: Message) -> Any:
    """The same with the names that fields have in Python; keys of maps are no names."""
    if isinstance(value, list):
        return [_snake(element, message) for element in value]
    if not isinstance(value, dict):
        return value
    renamed = {}
    for name, child in value.items():
        field = message.fields.get(name)
        if field is not None and field.message is not None:
            below = field.message
            if field.shape == "map" and isinstance(child, dict):
                child = {key: _snake(element, below) for key, element in child.items()}
            else:
                child = _snake(child, below)
        snake_name = name if field is None else field.snake_name
        renamed["in_" if snake_name == "in" else snake_name] = child
    return renamed


def _dump_snake(members: _Members) -> Iterable[bytes]:
    return [json.dumps(_snake(members, CARD_0_3), sort_keys=True, separators=_COMPACT).encode()]


#: In the order in which they are tried; of two that write the same bytes the first is named.
SPELLINGS: Final = (
    Spelling(
        "members sorted by code points",
        lambda members: [_sort(members).encode()],
        "Sort member names by their UTF-16 code units, as RFC 8785 says.",
    ),
    Spelling(
        "Python's json.dumps",
        _dump,
        "Sign what rfc8785.dumps(card) returns, not what json.dumps does.",
    ),
    Spelling(
        "Go's encoding/json",
        lambda members: [_sort(members).translate(_HTML).encode()],
        "Sign the RFC 8785 form: json.Marshal escapes <, > and &, and sorts by code points.",
    ),
    Spelling(
        "a trailing newline",
        lambda members: [jcs(members) + b"\n"],
        "Sign the bytes without the newline behind them.",
    ),
    Spelling(
        "crewAI's snake_case members",
        _dump_snake,
        "Sign the card as it is served, with its camelCase members: cardsign sign CARD.",
    ),
)
