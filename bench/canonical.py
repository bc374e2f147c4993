"""Canonical JSON (RFC 8785) of parsed cards, beside rfc8785, with the extra `fast` and without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import rfc8785
from documents import portable_card
from measuring import CARDSIGN, FAST, Broken, Times, by_encoder, cpu_seconds, encoder, in_turns

from cardsign.card import jcs

DEFINITION: Final = "rfc8785"

#: Skills of a card whose canonical bytes are of about this size.
SIZES: Final = {"2 KB": 8, "10 KB": 48, "100 KB": 490}
_BLOCK: Final = 0.02  # seconds of one turn


def canonicalizing(rounds: int) -> Mapping[str, Times]:
    """How long it takes from a parsed card to its bytes, by size; seconds of CPU."""
    return {size: _of(json.loads(portable_card(skills=n)), rounds) for size, n in SIZES.items()}


def _of(card: object, rounds: int) -> Times:
    wanted = rfc8785.dumps(card)
    turns = {DEFINITION: cpu_seconds(lambda: rfc8785.dumps(card), of_about=_BLOCK)}
    for name in (CARDSIGN, FAST):
        with encoder(name):
            if jcs(card) != wanted:
                raise Broken(f"{name} writes other bytes than rfc8785")
        turns[name] = by_encoder(name, lambda: jcs(card), of_about=_BLOCK)
    return in_turns(turns, rounds)
