"""Where judges do not accept what we sign: what a run finds, held against exceptions.json.

The file says by verifier, and by what would satisfy it, how many cards of each class there are,
and because of what. It is written down before the run that counts: `table.py --propose` fills in
the numbers, a person the explanations.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.interop.trial import ACCEPTED, ALL, Row

FILE: Final = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True)
class Exempt:
    """Cards that one verifier does not accept for one reason.

    Attributes:
        because: For people, in half a sentence.
        cards: How many, by class.
    """

    because: str
    cards: Mapping[str, int]


#: Verifier -> what :class:`trial.Row` says of the card.
Exceptions: TypeAlias = Mapping[str, Mapping[str, Exempt]]


def load() -> Exceptions:
    """What was written down."""
    written = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        verifier: {why: Exempt(**one) for why, one in whys.items()}
        for verifier, whys in written.items()
    }


def found_in(rows: Sequence[Row], written: Exceptions) -> Exceptions:
    """What a run has found, with the explanations that were written down."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        for verifier, why in row.judged.items():
            classes = counts.setdefault(verifier, {})
            if why != ACCEPTED:
                cards = classes.setdefault(why, {})
                cards[row.group] = cards.get(row.group, 0) + 1
    return {
        verifier: {
            why: Exempt(_because(written, verifier, why), cards)
            for why, cards in sorted(whys.items())
        }
        for verifier, whys in counts.items()
    }


def save(found: Exceptions) -> None:
    """Write a run's numbers down; what is new has an empty explanation."""
    plain = {
        verifier: {why: {"because": one.because, "cards": one.cards} for why, one in whys.items()}
        for verifier, whys in found.items()
    }
    FILE.write_text(json.dumps(plain, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def deviations(found: Exceptions, written: Exceptions, sampled: Collection[str]) -> Iterator[str]:
    """In what a run differs from what was written down, for the verifiers that it asked.

    Args:
        found: What the run has found.
        written: What it is held against.
        sampled: The classes of which it has tried only some cards.
    """
    for verifier, whys in found.items():
        expected = written.get(verifier, {})
        for why in {**expected, **whys}:
            was, now = (all_.get(why, Exempt("", {})).cards for all_ in (expected, whys))
            for group in {**was, **now}:
                count, limit = now.get(group, 0), was.get(group, 0)
                if count > limit or (count < limit and group not in sampled):
                    yield f"{verifier}: {why}: {group}: {count} cards, expected {limit}"
            if why in expected and not expected[why].because:
                yield f"{verifier}: {why}: {FILE.name} does not say because of what"


def _because(written: Exceptions, verifier: str, why: str) -> str:
    """The explanation; with ``--compat all`` the same as by default, if there is no other."""
    known = written.get(verifier, {}).get(why)
    if known is None and verifier.endswith(ALL):
        return _because(written, verifier.removesuffix(ALL), why)
    return known.because if known else ""
