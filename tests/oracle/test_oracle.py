"""What 2eae91f said of attacks, mutated cards, vectors and worlds is said today.

The attack's outcomes are compared where the attacks are run, by the two tests of the corpus, and
crash points where commands are crashed. CARDSIGN_ORACLE=all looks at every mutant and world,
else at a sample.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import adapter
from tests.oracle.adapter import CODES, RENAMED, AttackCase
from tests.oracle.check import (
    ALL,
    CHUNK,
    FOLDER,
    GONE,
    STRIDE,
    Changes,
    attack_faults,
    changes,
    chunk,
    chunk_faults,
    corpus_faults,
    joined_codes,
    recorded,
    result_faults,
)

#: The files were written once. Nobody changes them: an intended change stands in changes.toml.
DIGESTS = {
    "attacks": "56cc35f65275e9d1fac447781bd69b759a72b894918b9188f15de0668e02f1cc",
    "bases": "ad68f000c49f5c664bbcd1f2c633b767fb1aa475cd5f61d13db4031210951dae",
    "crash": "8ba9547e96bdde355ee491c4e783e6cfdaa75261f090e18bb5e0b5e67cf81a5a",
    "mutated": "0e362a71d3c7b656236294dd280a72f7761df8bb2721cfc5620b8a389718c30e",
    "simulation": "7eab47f7385eedc3edb32a8ef9f07889d6bb8d783e0e58d44019735ca329a0a3",
    "vectors": "a3f580c4aa27c67ed9ebd767b4506007ee039d79872bfcbc70469ac5957ecd15",
}
ATTACKS = recorded("attacks")
CASES = list(adapter.attack_cases())
HELD_CASES = [(case, inner) for case, inner in CASES if case.id in ATTACKS]
MUTATED = recorded("mutated")
#: Bases whose policies begin a first contact, which no policy can any more (F5).
GONE_BASES = {"059-first-use-met", "120-first-contact-bare"}
NUMBERED = [
    (name, at)
    for name, lines in MUTATED["outcomes"].items()
    if name not in GONE_BASES
    for at in range(len(lines))
]
WORLDS = list(recorded("simulation"))
SAMPLED_WORLDS = WORLDS if ALL else ["5"]  # a quick one


# ------------------------------------------------------------------ the files


@pytest.mark.parametrize("name", DIGESTS)
def test_the_files_are_those_that_were_written(name: str) -> None:
    """To the byte."""
    data = (FOLDER / f"{name}.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGESTS[name]


# ------------------------------------------------------------------ the attacks


def test_the_corpus_holds_every_case_as_it_was() -> None:
    """Its kind, its inputs, and a twin and an attack of each number that had them."""
    assert corpus_faults(ATTACKS, [case for case, _ in CASES], changes()) == []


def test_no_codes_were_joined_that_an_attack_tells_apart() -> None:
    """Neither by a new name nor by entries of changes.toml; but for one pair (F6, L3).

    Nothing is remembered but in the lock, so there is one fault where its entry is missing.
    """
    assert joined_codes(ATTACKS, RENAMED, changes(), CODES) == [
        "attack 118 tells state.missing and state.none apart, which are lock.missing today"
    ]
    assert set(RENAMED.values()) <= CODES
    assert not set(RENAMED) & CODES


@pytest.mark.parametrize(
    ("case", "inner"),
    HELD_CASES[::97],
    ids=[f"attack-{case.id}" for case, _ in HELD_CASES[::97]],
)
def test_a_sample_of_attacks(case: AttackCase, inner: Any) -> None:
    """All of them are compared where they are run; these show that the comparison can be made."""
    assert attack_faults(case, adapter.run(inner)) == []
    assert attack_faults(case, ["trusted no/no/no/no json.syntax"]) != []


# ------------------------------------------------------------------ mutated cards


@pytest.mark.parametrize(("name", "number"), NUMBERED[STRIDE // 2 :: STRIDE])
def test_mutants_come_out_as_they_did(name: str, number: int) -> None:
    """A hundred at a time."""
    base = recorded("bases")[name]
    mutants = chunk(name, base64.b64decode(base["card"]), number)
    examine = adapter.examiner(base)
    faults = chunk_faults(name, number, mutants, examine, MUTATED, changes())
    assert not faults, f"{len(faults)} mutants:\n" + "\n".join(faults)


# ------------------------------------------------------------------ vectors, worlds, crashes


def vector_faults(
    found: Iterable[tuple[str, str, Any]], prefix: tuple[str, ...], excused: Changes
) -> list[str]:
    """Of the vectors whose names begin so; those that the oracle lacks may come out anyhow."""
    now = {name: (put, result) for name, put, result in found}
    held = [name for name in recorded("vectors") if name.startswith(prefix)]
    faults = (
        result_faults("vectors", name, *now.get(name, (GONE, None)), excused) for name in held
    )
    return [one for some in faults for one in some]


def test_our_own_vectors() -> None:
    """Verdicts, signatures and payloads; of statements what the file expects."""
    own = list(adapter.own_vectors())
    assert not (faults := vector_faults(own, ("own/",), changes())), "\n".join(faults)
    assert vector_faults(own[1:], ("own/",), {}) != []


@pytest.mark.needs_shared
def test_vectors_and_cards_of_others(shared: Path) -> None:
    """Verdicts under each profile, what signing makes of them, and each payload."""
    others = ("a2a-card-sign/", "interop/", "jcs/", "interop-card/", "corpus-card/")
    found = adapter.other_vectors(shared)
    assert not (faults := vector_faults(found, others, changes())), "\n".join(faults)


@pytest.mark.parametrize("seed", SAMPLED_WORLDS)
def test_worlds_come_out_as_they_did(seed: str) -> None:
    """Each count, and each longest time."""
    faults = result_faults("simulation", seed, seed, adapter.world(int(seed)), changes())
    assert not faults, "\n".join(faults)


def test_no_command_is_crashed_no_more() -> None:
    """Unless an entry says so."""
    gone = set(recorded("crash")) - set(adapter.crash_commands())
    assert {one for one in gone if f"crash/{one}" not in changes()} == set()


def test_every_entry_names_what_the_oracle_holds() -> None:
    """A misspelt one would excuse nothing, and nobody would see it."""
    parts = {
        f"mutated/{name}/{at}"
        for name, number in NUMBERED
        for at in range(number * CHUNK, (number + 1) * CHUNK)
    }
    for kind in ("vectors", "simulation"):
        for name, was in recorded(kind).items():
            told = was["result"] if isinstance(was["result"], dict) else {"": ""}
            parts |= {f"{kind}/{name}" + (f"/{part}" if part else "") for part in told}
    parts |= {f"crash/{one}" for one in recorded("crash")} | set(ATTACKS)
    added = {one for one in changes().values() if one.old == GONE}
    assert {one for one in changes() if one not in parts} - {one.case for one in added} == set()
