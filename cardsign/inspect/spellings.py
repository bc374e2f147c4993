"""Common ways to write a card that are not canonical: what a signature that fits nothing may fit.

A signature that fits such bytes proves that the card was not changed: its signer wrote it in
another way. It counts for nothing all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from cardsign.card.schema import CARD_0_3, Field, respelled
from cardsign.card.values import Json, jcs
from cardsign.errors import CanonicalizationError

#: What writes so, what the signer should change, and the bytes.
Spelling: TypeAlias = tuple[str, str, bytes]

_write_compact: Final = partial(json.dumps, sort_keys=True, separators=(",", ":"))
_write_utf8: Final = partial(_write_compact, ensure_ascii=False)
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_DUMPS: Final = "Python's json.dumps"
_NOT_DUMPS: Final = "Sign what rfc8785.dumps(card) returns, not what json.dumps does."


def write_spellings(members: dict[str, Json]) -> list[Spelling]:
    """Return a card without its signatures as common signers write it; none without a form."""
    try:
        return [(name, advice, write(members).encode()) for name, advice, write in SPELLINGS]
    except CanonicalizationError:
        return []


def _spell_in_python(field: Field) -> str:
    return "in_" if field.name == "in" else field.snake_name


#: In the order in which they are tried; of two that write the same bytes the first is named.
SPELLINGS: Final[tuple[tuple[str, str, Callable[[dict[str, Json]], str]], ...]] = (
    (
        "members sorted by code points",
        "Sort member names by their UTF-16 code units, as RFC 8785 says.",
        _write_utf8,
    ),
    (_DUMPS, _NOT_DUMPS, _write_compact),
    (_DUMPS, _NOT_DUMPS, partial(json.dumps, sort_keys=True)),
    (_DUMPS, _NOT_DUMPS, partial(json.dumps, separators=(",", ":"))),
    (_DUMPS, _NOT_DUMPS, json.dumps),
    (
        "Go's encoding/json",
        "Sign the RFC 8785 form: json.Marshal escapes <, > and &, and sorts by code points.",
        lambda members: _write_utf8(members).translate(_HTML),
    ),
    (
        "a trailing newline",
        "Sign the bytes without the newline behind them.",
        lambda members: jcs(members).decode() + "\n",
    ),
    (
        "crewAI's snake_case members",
        "Sign the card as it is served, with its camelCase members: cardsign sign CARD.",
        lambda members: _write_compact(respelled(members, CARD_0_3, spell=_spell_in_python)),
    ),
)
