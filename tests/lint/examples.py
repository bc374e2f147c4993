"""The examples of lint rules: the cards that ``codes.toml`` shows, as cards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.card.values import split, value_at

#: The cards that examples change, by name: of A2A 1.0, of 0.3 (both without any finding), and a
#: contract card.
BASES: Final = json.loads(Path(__file__).with_name("bases.json").read_text())
_NAMED: Final = {
    "a card of A2A 1.0": "1.0",
    "a card of A2A 0.3": "0.3",
    "a contract card": "contract",
}
#: Of the rules about bytes that are no JSON of a card: such bytes, which TOML cannot hold.
UNREADABLE: Final[dict[str, bytes]] = {
    "json.too_large": b" " * (MAX_CARD_BYTES + 1),
    "json.too_many_values": b'{"a": [' + b"0, " * 20_000 + b"0]}",
    "json.not_utf8": b'{"name": "\xff"}',
    "json.bom": b'\xef\xbb\xbf{"name": "a"}',
    "json.syntax": b"{'name': 1}",
    "json.duplicate_member": b'{"name": "a", "name": "b"}',
    "json.number": b'{"a": NaN}',
    "json.integer_range": b'{"a": 9007199254740993}',
    "json.surrogate": b'{"a": "\\ud800"}',
    "json.depth": b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
    "json.trailing": b"{} {}",
    "json.not_object": b"[]",
    "card.two_spellings": b'{"iconUrl": "a", "icon_url": "b"}',
    "card.signatures_shape": b'{"signatures": {}}',
    "card.signatures_too_many": b'{"signatures": [' + b"{}, " * 16 + b"{}]}",
}


def example_card(changes: Mapping[str, Any], base: str = "1.0") -> dict[str, Any]:
    """Return a sound card with changes: values by JSON pointer, where `...` takes one away."""
    document: dict[str, Any] = json.loads(json.dumps(BASES[base]))
    for pointer, value in changes.items():
        *above, last = split(pointer)
        owner: Any = value_at(document, above)
        if value is ...:
            del owner[int(last) if isinstance(owner, list) else last]
        elif isinstance(owner, list):
            owner.insert(int(last), value)
        else:
            owner[last] = value
    return document


def read_example(lines: Sequence[str]) -> tuple[bytes, dict[str, Any]]:
    """Return the card that an example of ``codes.toml`` describes, and its settings of lint.

    A line is ``a contract card``, ``without POINTER``, ``POINTER: JSON`` or ``SETTING = VALUE``.
    """
    changes: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    base = "1.0"
    for line in lines:
        if line in _NAMED:
            base = _NAMED[line]
        elif line.startswith("without "):
            changes[line.removeprefix("without ")] = ...
        elif line.startswith("/"):
            pointer, _, value = line.partition(": ")
            changes[pointer] = json.loads(value)
        else:
            name, _, value = line.partition(" = ")
            settings[name] = value == "true" or date.fromisoformat(value)
    return json.dumps(example_card(changes, base), ensure_ascii=False).encode(), settings
