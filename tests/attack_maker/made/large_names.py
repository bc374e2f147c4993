"""Attack 402: cards that are small to send and were large to hold."""

from __future__ import annotations

import json

from tests.attack_maker.attack import Attack, issuer, pinned
from tests.attack_maker.signing import CARD, Json, ec_key, entry, payload_of

_NAME = 150_000
_VALUES = 4_900


def attack() -> Attack:
    """A copied signature is enough to have such a card read; a good one makes it an honest card."""
    attack = Attack(
        402,
        "large-names",
        "A long name over many values",
        "A verifier that keeps the whole path of each value holds the name as often as there are "
        "values: 85 KB became gigabytes. The card is not trusted, and the process goes on.",
    )
    key = ec_key("harbour-1")
    attack.policy(issuer(pinned(key)))
    attack.tests("tests/card/test_growth.py::test_memory_of_the_largest_card")
    # The signature fits what an SDK reads, which leaves out a member that no schema knows.
    bad = ("untrusted", "coverage.uncovered", "no yes unknown no")
    copied = entry(payload_of(CARD), key)
    attack.attack("array", "Over an array", _written("[", "7", "]", copied), *bad)
    attack.attack("objects", "Over an array of objects", _written("[", '{"":7}', "]", copied), *bad)
    countless = _written("[", "7", "]", copied, 2 * _VALUES + 200)
    unread = ("invalid", "json.too_many_values", "no unknown unknown unknown")
    attack.attack("countless", "Over more values than any card has", countless, *unread)
    good = {**CARD, "n" * _NAME: [7] * _VALUES}
    attack.twin("signed", "The same, signed", _written("[", "7", "]", entry(payload_of(good), key)))
    return attack


def _written(opened: str, value: str, closed: str, signature: Json, values: int = _VALUES) -> Json:
    """The card with that member as an input that is too large to write out."""
    pieces: list[Json] = [
        {"text": f'{json.dumps(CARD)[:-1]}, "'},
        {"text": "n", "times": _NAME},
        {"text": f'": {opened}'},
        {"text": f"{value},", "times": values - 1},
        {"text": f"{value}{closed}, {json.dumps({'signatures': [signature]})[1:]}"},
    ]
    return {"pieces": pieces}
