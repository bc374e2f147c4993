"""Canonical JSON (RFC 8785) of parsed cards, beside rfc8785, with the extra `fast` and without."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final
from unittest.mock import patch

import rfc8785
from documents import portable_card
from measuring import Broken, Times, Turn, cpu_seconds, in_turns

from cardsign.card import jcs, serialize

DEFINITION: Final = "rfc8785"
PLAIN: Final = "cardsign"
FAST: Final = "cardsign[fast]"

#: Skills of a card whose canonical bytes are of about this size.
SIZES: Final = {"2 KB": 8, "10 KB": 48, "100 KB": 490}
_BLOCK: Final = 0.02  # seconds of one turn


def canonicalizing(rounds: int) -> Mapping[str, Times]:
    """How long it takes from a parsed card to its bytes, by size; seconds of CPU."""
    return {size: _of(json.loads(portable_card(skills=n)), rounds) for size, n in SIZES.items()}


def _of(card: object, rounds: int) -> Times:
    wanted = rfc8785.dumps(card)
    turns = {DEFINITION: cpu_seconds(lambda: rfc8785.dumps(card), of_about=_BLOCK)}
    for name in (PLAIN, FAST):
        if name == PLAIN or find_spec("orjson"):
            with _encoder(name):
                if jcs(card) != wanted:
                    raise Broken(f"{name} writes other bytes than rfc8785")
                turn = cpu_seconds(lambda: jcs(card), of_about=_BLOCK)
            turns[name] = _by(name, turn)
    return in_turns(turns, rounds)


def _by(name: str, turn: Turn) -> Turn:
    def with_encoder() -> float:
        with _encoder(name):
            return turn()

    return with_encoder


class _encoder:
    """The encoder of this installation, or the one of an installation without the extra."""

    def __init__(self, name: str) -> None:
        self._without = patch.dict(sys.modules, {"orjson": None} if name == PLAIN else {})

    def __enter__(self) -> None:
        self._without.start()
        serialize._encoder.cache_clear()

    def __exit__(self, *_: object) -> None:
        self._without.stop()
        serialize._encoder.cache_clear()
