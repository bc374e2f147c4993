"""Compares what the program says today with what 2eae91f said; only changes.toml excuses a change.

Every function returns the faults that it found, each as the entry of changes.toml that would
excuse it. Whoever copies one there has to add the decision that allows the change.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.oracle.adapter import RENAMED, AttackCase
from tests.oracle.mutating import mutant

FOLDER: Final = Path(__file__).resolve().parent
GONE: Final = "gone"
#: Mutants whose inputs share a digest and whose outcomes share a line.
CHUNK: Final = 100
#: Every chunk, or one in so many, so that a default run looks at 2,000 mutants.
ALL: Final = os.environ.get("CARDSIGN_ORACLE") == "all"
STRIDE: Final = 1 if ALL else 25
#: The payloads of profiles that went (decision F2), of every vector; and the base of mutants that
#: one of them signed. Each other difference has an entry of its own.
PARTS_THAT_WENT: Final = frozenset(
    {"payload rule-1-descriptor-scope", "payload sdk-0.3", "payload sdk-1.0-legacy"}
)
UNKNOWN_RULE: Final = "25-opt-in-sdk-0.3"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of a case.

    Attributes:
        told: The kind and each step's outcome, or a count, or a result, as text.
        digest: Of all that was put to the program.
    """

    told: str
    digest: str


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of changes.toml, whose comment says what the members are."""

    case: str
    old: str
    new: str
    old_digest: str
    new_digest: str
    decision: str
    why: str


Changes = Mapping[str, Change]


def parse_changes(text: str) -> dict[str, Change]:
    """The entries by case.

    Raises:
        ValueError: Two entries name one case, or one has an empty member, or a wildcard.
    """
    entries = [Change(**one) for one in tomllib.loads(text).get("change", [])]
    for one in entries:
        if not all(getattr(one, name).strip() for name in Change.__slots__):
            raise ValueError(f"the entry of {one.case!r} has an empty member")
        if any(sign in one.case for sign in "*?["):
            raise ValueError(f"{one.case!r} is no name of one case")
    by_case = {one.case: one for one in entries}
    if len(by_case) < len(entries):
        raise ValueError("two entries name one case")
    return by_case


@cache
def changes() -> Changes:
    """The entries of changes.toml."""
    return parse_changes((FOLDER / "changes.toml").read_text("utf-8"))


@cache
def recorded(name: str) -> Any:
    """One of the oracle's files."""
    return json.loads((FOLDER / f"{name}.json").read_bytes())


def stray(case: str, old: Told, new: Told | None, excused: Changes) -> list[str]:
    """Nothing, if a case is as it was, or as its entry says; else the entry that it lacks."""
    new = new or Told(GONE, GONE)
    same = new.digest == old.digest and new.told == today(old.told)
    entry = excused.get(case)
    if entry is None and same:
        return []
    members = {
        "case": case,
        "old": old.told,
        "new": new.told,
        "old_digest": old.digest,
        "new_digest": new.digest,
    }
    if same:
        return [f"{case} has not changed, but changes.toml has an entry"]
    if entry and all(getattr(entry, name) == value for name, value in members.items()):
        return []
    lines = [f"{name} = {json.dumps(value)}" for name, value in members.items()]
    return ["\n".join(["[[change]]", *lines, 'decision = ""', 'why = ""', ""])]


def today(told: str, renamed: Mapping[str, str] = RENAMED) -> str:
    """The same text with the names that codes have today."""
    steps = []
    for step in told.split(" | "):
        *rest, codes = step.split(" ")
        steps.append(" ".join((*rest, ",".join(renamed.get(one, one) for one in codes.split(",")))))
    return " | ".join(steps)


# ------------------------------------------------------------------ attacks


def attack_told(kind: str, lines: Iterable[str]) -> str:
    """Kind and outcomes as one text."""
    return " | ".join([kind, *lines])


def attack_faults(
    case: AttackCase, lines: Iterable[str], excused: Changes | None = None
) -> list[str]:
    """Whether an attack's case comes out as it did; a case that is new may come out anyhow."""
    old = recorded("attacks").get(case.id)
    if old is None:
        return []
    new = Told(attack_told(case.kind, lines), case.inputs)
    was = Told(old["told"], old["digest"])
    return stray(case.id, was, new, changes() if excused is None else excused)


def corpus_faults(
    old: Mapping[str, Any], cases: Iterable[AttackCase], excused: Changes
) -> list[str]:
    """What is missing or was altered in the corpus, whatever the program makes of it."""
    now = {case.id: case for case in cases}
    faults = []
    for name, was in old.items():
        case, entry = now.get(name), excused.get(name)
        kind = was["told"].partition(" ")[0]
        if case is None:
            faults += stray(name, Told(was["told"], was["digest"]), None, excused)
        elif case.attack != was["attack"]:
            faults.append(f"{name} belonged to attack {was['attack']}")
        elif case.kind != kind and not (entry and entry.new.partition(" ")[0] == case.kind):
            faults.append(f"{name} was of kind {kind}")
        elif case.inputs != was["digest"] and not (
            entry and (entry.old_digest, entry.new_digest) == (was["digest"], case.inputs)
        ):
            faults.append(f"the inputs of {name} are not those that they were")
    kinds = {(case.attack, case.kind) for case in now.values()}
    gone = {was["attack"] for was in old.values()} - {case.attack for case in now.values()}
    for attack in {was["attack"] for was in old.values()} - gone:  # a whole one has its entries
        had = {was["told"].partition(" ")[0] for was in old.values() if was["attack"] == attack}
        faults += [f"attack {attack} has no {kind}" for kind in had if (attack, kind) not in kinds]
    unknown = [name for name in excused if "/" not in name]
    return faults + [f"changes.toml names {name}, which is no case" for name in unknown]


def joined_codes(
    old: Mapping[str, Any], renamed: Mapping[str, str], excused: Changes, known: Iterable[str]
) -> list[str]:
    """Codes that are one today, although an attack's cases tell them apart.

    A code is one with another where :data:`RENAMED` says so, or where the entries of changes.toml
    put one in its place and it is no longer in the list of codes.
    """
    known, faults = set(known), []
    for attack in sorted({was["attack"] for was in old.values()}):
        became: dict[str, set[str]] = {}
        for name, was in old.items():
            if was["attack"] != attack:
                continue
            entry = excused.get(name)
            if entry and entry.new != GONE:
                for code, now in _paired(was["told"], entry.new):
                    if code not in known and now != "-":
                        became.setdefault(now, set()).add(code)
            for code in _codes(was["told"]):
                if code in renamed or code in known:
                    became.setdefault(renamed.get(code, code), set()).add(code)
        faults += [
            f"attack {attack} tells {' and '.join(sorted(codes))} apart, which are {now} today"
            for now, codes in became.items()
            if len(codes) > 1
        ]
    return faults


def _steps(told: str) -> list[list[str]]:
    return [step.split(" ")[2].split(",") for step in told.split(" | ")[1:]]


def _codes(told: str) -> set[str]:
    return {code for step in _steps(told) for code in step} - {"-"}


def _paired(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Which code stands today where another one stood."""
    for before, after in zip(_steps(old), _steps(new), strict=False):
        if len(before) == len(after):
            yield from zip(before, after, strict=True)
        else:
            left = [code for code in before if code not in after]
            come = [code for code in after if code not in before]
            yield from ((code, come[0]) for code in left if len(come) == 1)


# ------------------------------------------------------------------ mutated cards


def packed(outcomes: Sequence[str], legend: list[str]) -> str:
    """Two characters for each outcome; what the legend lacks is added to it."""
    line = ""
    for outcome in outcomes:
        if outcome not in legend:
            legend.append(outcome)
        high, low = divmod(legend.index(outcome), len(_DIGITS))
        line += _DIGITS[high] + _DIGITS[low]
    return line


def unpacked(line: str, legend: Sequence[str]) -> list[str]:
    """The outcomes of such a line."""
    pairs = [line[at : at + 2] for at in range(0, len(line), 2)]
    return [legend[_DIGITS.index(a) * len(_DIGITS) + _DIGITS.index(b)] for a, b in pairs]


def chunk(name: str, document: bytes, number: int) -> list[bytes]:
    """The mutants of a chunk."""
    return [mutant(name, document, one) for one in range(number * CHUNK, (number + 1) * CHUNK)]


def inputs_digest(mutants: Iterable[bytes]) -> str:
    """One digest for the bytes of them all."""
    whole = hashlib.sha256()
    for one in mutants:
        whole.update(hashlib.sha256(one).digest())
    return whole.hexdigest()[:16]


def under_an_unknown_rule(outcome: str) -> str:
    """Return what is said today of a signature by a rule that went: it covers nothing."""
    *_, joined = outcome.split(" ")
    codes = joined.split(",")
    if codes[0] != "sig.other_profile":
        return outcome
    left = [code for code in codes if not code.startswith("coverage.")]
    renamed = ("sig.bad" if code == "sig.other_profile" else code for code in left)
    return f"invalid no/unknown/unknown/unknown {','.join(renamed)}"


def chunk_faults(
    name: str,
    number: int,
    mutants: Sequence[bytes],
    examine: Callable[[bytes], str],
    was: Mapping[str, Any],
    excused: Changes,
) -> list[str]:
    """Whether the mutants of a chunk are the same, and come out as they did."""
    if inputs_digest(mutants) != was["inputs"][name][number]:
        return [f"chunk {number} of {name} does not hold the mutants that it held"]
    faults = []
    outcomes = unpacked(was["outcomes"][name][number], was["legend"])
    if name == UNKNOWN_RULE:
        outcomes = [under_an_unknown_rule(outcome) for outcome in outcomes]
    for index, (data, outcome) in enumerate(zip(mutants, outcomes, strict=True)):
        put = hashlib.sha256(data).hexdigest()
        case = f"mutated/{name}/{number * CHUNK + index}"
        faults += stray(case, Told(outcome, put), Told(examine(data), put), excused)
    return faults


# ------------------------------------------------------------------ everything else


def result_faults(kind: str, name: str, put: str, result: Any, excused: Changes) -> list[str]:
    """Whether a vector or a simulated world is there, and comes out as it did; one entry a part."""
    old = recorded(kind)[name]
    then, now = _parts(old["result"]), {} if put == GONE else _parts(result)
    faults = []
    for part in sorted({*then, *now} - PARTS_THAT_WENT):
        case = f"{kind}/{name}" + (f"/{part}" if part else "")
        was = Told(then.get(part, GONE), old["digest"])
        faults += stray(case, was, Told(now.get(part, GONE), put), excused)
    return faults


def _parts(result: Any) -> dict[str, str]:
    if isinstance(result, dict):
        return {
            part: one if isinstance(one, str) else json.dumps(one, sort_keys=True)
            for part, one in result.items()
        }
    return {"": result if isinstance(result, str) else json.dumps(result, sort_keys=True)}


def crash_faults(command: str, steps: Sequence[str], excused: Changes | None = None) -> list[str]:
    """Whether a command has fewer crash points than it had; more are welcome."""
    old = recorded("crash").get(command)
    if old is None or len(steps) >= len(old):
        return []
    was, now = (
        Told(f"{len(one)} changes", hashlib.sha256("\n".join(one).encode()).hexdigest())
        for one in (old, steps)
    )
    return stray(f"crash/{command}", was, now, changes() if excused is None else excused)
