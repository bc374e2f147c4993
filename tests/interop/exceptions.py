"""Where judges do not accept what we sign: what a run finds, held against exceptions.json.

The file says by verifier, and by what would satisfy it, how many cards of each class there are,
and because of what. It is written down before the run that counts: `table.py --propose` fills in
the numbers, a person the explanations.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.interop.trial import ACCEPTED, ALL, Row

FILE: Final = Path(__file__).with_suffix(".json")

#: Verifier -> what :class:`trial.Row` says of the card -> ``because``, for people, in half a
#: sentence, and ``cards``, how many there are of each class.
Exceptions: TypeAlias = dict[str, dict[str, dict[str, Any]]]


def load() -> Exceptions:
    """What was written down."""
    written: Exceptions = json.loads(FILE.read_text(encoding="utf-8"))
    return written


def found_in(rows: Sequence[Row], written: Exceptions) -> Exceptions:
    """What a run has found, with the explanations that were written down."""
    found: Exceptions = {}
    for row in rows:
        for verifier, why in row.judged.items():
            whys = found.setdefault(verifier, {})
            if why != ACCEPTED:
                new = {"because": _because(written, verifier, why), "cards": {}}
                cards = whys.setdefault(why, new)["cards"]
                cards[row.group] = cards.get(row.group, 0) + 1
    return {verifier: dict(sorted(whys.items())) for verifier, whys in found.items()}


def save(found: Exceptions) -> None:
    """Write a run's numbers down; what is new has an empty explanation."""
    FILE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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
            was, now = (all_[why]["cards"] if why in all_ else {} for all_ in (expected, whys))
            for group in {**was, **now}:
                count, limit = now.get(group, 0), was.get(group, 0)
                if count > limit or (count < limit and group not in sampled):
                    yield f"{verifier}: {why}: {group}: {count} cards, expected {limit}"
            if why in expected and not expected[why]["because"]:
                yield f"{verifier}: {why}: {FILE.name} does not say because of what"


def _because(written: Exceptions, verifier: str, why: str) -> str:
    """The explanation; with ``--compat all`` the same as by default, if there is no other."""
    names = (verifier, verifier.removesuffix(ALL))
    known = [written[name][why]["because"] for name in names if why in written.get(name, {})]
    return str(known[0]) if known else ""
