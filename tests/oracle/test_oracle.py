"""What 2eae91f said of attacks, mutated cards, vectors and worlds is said today.

The attack's outcomes are compared where the attacks are run, by the two tests of the corpus, and
crash points where commands are crashed: both call the checks that are tried here on records that
were tampered with. CARDSIGN_ORACLE=all looks at every mutant and world, else at a sample.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import adapter, check
from tests.oracle.adapter import CODES, RENAMED, AttackCase
from tests.oracle.check import (
    ALL,
    CHUNK,
    FOLDER,
    GONE,
    STRIDE,
    Change,
    Changes,
    Told,
    attack_faults,
    changes,
    chunk,
    chunk_faults,
    corpus_faults,
    crash_faults,
    joined_codes,
    parse_changes,
    recorded,
    result_faults,
    stray,
    today,
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
#: The cases as they were then, whatever the corpus holds today.
AS_IT_WAS = [
    AttackCase(was["attack"], name, was["told"].partition(" ")[0], was["digest"])
    for name, was in ATTACKS.items()
]
MUTATED = recorded("mutated")
NUMBERED = [(name, at) for name, lines in MUTATED["outcomes"].items() for at in range(len(lines))]
WORLDS = list(recorded("simulation"))
SAMPLED_WORLDS = WORLDS if ALL else ["5"]  # a quick one


# ------------------------------------------------------------------ the files


@pytest.mark.parametrize("name", DIGESTS)
def test_the_files_are_those_that_were_written(name: str) -> None:
    """To the byte."""
    data = (FOLDER / f"{name}.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGESTS[name]


def test_no_file_is_without_a_digest() -> None:
    """Nor a digest without a file."""
    ours = {path.stem for path in FOLDER.glob("*.json")} - {"mutants-2eae91f"}
    assert ours == set(DIGESTS)


def test_the_oracle_is_as_large_as_it_was_meant() -> None:
    """So many cases, mutants, worlds and commands; and mutants of every verdict."""
    assert len(ATTACKS) == 1845
    assert sum(MUTATED["counts"].values()) == len(NUMBERED) * CHUNK == 50_000
    assert min(MUTATED["counts"][one] for one in ("trusted", "untrusted", "invalid")) > 4_000
    assert len(WORLDS) == 12
    assert len(recorded("crash")) == 23


# ------------------------------------------------------------------ the attacks


def test_the_corpus_holds_every_case_as_it_was() -> None:
    """Its kind, its inputs, and a twin and an attack of each number that had them."""
    assert corpus_faults(ATTACKS, [case for case, _ in CASES], changes()) == []


def test_no_codes_were_joined_that_an_attack_tells_apart() -> None:
    """Neither by a new name nor by entries of changes.toml."""
    assert joined_codes(ATTACKS, RENAMED, changes(), CODES) == []
    assert set(RENAMED.values()) <= CODES
    assert not set(RENAMED) & CODES


@pytest.mark.parametrize(
    ("case", "inner"), CASES[::97], ids=[f"attack-{case.id}" for case, _ in CASES[::97]]
)
def test_a_sample_of_attacks(case: AttackCase, inner: Any) -> None:
    """All of them are compared where they are run; these show that the comparison can be made."""
    assert attack_faults(case, adapter.run(inner)) == []
    assert attack_faults(case, ["trusted no/no/no/no json.syntax"]) != []


def test_a_case_that_disappears_is_seen() -> None:
    """Unless an entry names it."""
    gone, *left = AS_IT_WAS
    [fault] = corpus_faults(ATTACKS, left, {})
    assert f'case = "{gone.id}"' in fault
    excused = parse_changes(fault.replace('""', '"E0"'))
    assert corpus_faults(ATTACKS, left, excused) == []


def test_a_kind_that_flips_is_seen() -> None:
    """An attack that is called honest now, or the other way round."""
    first, *others = AS_IT_WAS
    flipped = replace(first, kind={"attack": "twin", "twin": "attack"}[first.kind])
    assert any("was of kind" in one for one in corpus_faults(ATTACKS, [flipped, *others], {}))


def test_a_missing_twin_is_seen_whatever_the_entries_say() -> None:
    """Each case that has gone may be excused; that an attack has no twin may not."""
    left = [case for case in AS_IT_WAS if (case.attack, case.kind) != (1, "twin")]
    faults = corpus_faults(ATTACKS, left, {})
    excused = parse_changes("\n".join(one for one in faults if "[[" in one).replace('""', '"E0"'))
    assert corpus_faults(ATTACKS, left, excused) == ["attack 1 has no twin"]


def test_other_inputs_are_seen() -> None:
    """And are excused by an entry with both digests only."""
    first, *others = AS_IT_WAS
    old = ATTACKS[first.id]
    other = replace(first, inputs="0" * 64)
    entry = Change(first.id, old["told"], old["told"], old["digest"], other.inputs, "E0", "why")
    assert corpus_faults(ATTACKS, [other, *others], {}) != []
    assert corpus_faults(ATTACKS, [other, *others], {first.id: entry}) == []
    half = replace(entry, new_digest="1" * 64)
    assert corpus_faults(ATTACKS, [other, *others], {first.id: half}) != []


def test_another_number_is_seen() -> None:
    """A case stays with its attack."""
    first, *others = AS_IT_WAS
    moved = replace(first, attack=first.attack + 1)
    assert any("belonged to" in one for one in corpus_faults(ATTACKS, [moved, *others], {}))


@pytest.mark.parametrize(
    "outcome",
    [
        "trusted yes/yes/unknown/yes sig.none",
        "untrusted yes/yes/unknown/yes sig.none",
        "untrusted no/yes/unknown/yes sig.bad",
        "untrusted no/yes/unknown/yes sig.none,sig.bad",
    ],
)
def test_another_verdict_answer_or_code_is_seen(outcome: str) -> None:
    """Each alone."""
    told = "attack | untrusted no/yes/unknown/yes sig.none"
    assert stray("1/a", Told(told, "0"), Told(told, "0"), {}) == []
    assert stray("1/a", Told(told, "0"), Told(f"attack | {outcome}", "0"), {}) != []


def test_joined_codes_are_seen() -> None:
    """Two codes of one attack become one: by a name, or by an entry."""
    old = {
        "1/a": {"attack": 1, "digest": "0", "told": "attack | invalid - sig.one"},
        "1/b": {"attack": 1, "digest": "0", "told": "attack | invalid - sig.two"},
        "2/a": {"attack": 2, "digest": "0", "told": "attack | invalid - sig.three"},
    }
    entry = Change("1/a", old["1/a"]["told"], "attack | invalid - sig.two", "0", "0", "E0", "why")
    apart = {"sig.two", "sig.three"}
    [fault] = joined_codes(old, {"sig.one": "sig.two"}, {}, apart)
    assert fault == "attack 1 tells sig.one and sig.two apart, which are sig.two today"
    assert joined_codes(old, {}, {"1/a": entry}, apart) == [fault]
    assert joined_codes(old, {"sig.one": "sig.three"}, {}, apart) == []
    assert joined_codes(old, {}, {"1/a": entry}, {*apart, "sig.one"}) == []  # another verdict


def test_a_new_name_of_a_code_changes_nothing_else() -> None:
    """In an outcome of several steps, and in that of a mutant."""
    names = {"sig.one": "sig.first"}
    told = "attack | invalid - sig.two,sig.one | none - sig.one"
    assert today(told, names) == "attack | invalid - sig.two,sig.first | none - sig.first"
    assert today("invalid no/no/no/no sig.one", names) == "invalid no/no/no/no sig.first"


# ------------------------------------------------------------------ changes.toml


ENTRY = """[[change]]
case = "1/a"
old = "x"
new = "y"
old_digest = "0"
new_digest = "0"
decision = "E0"
why = "because"
"""


def test_an_entry_is_read() -> None:
    """And excuses what it says, to the letter."""
    excused = parse_changes(ENTRY)
    assert stray("1/a", Told("x", "0"), Told("y", "0"), excused) == []
    assert stray("1/a", Told("x", "0"), Told("z", "0"), excused) != []
    assert stray("1/a", Told("x", "1"), Told("y", "0"), excused) != []
    assert stray("1/b", Told("x", "0"), Told("y", "0"), excused) != []


def test_an_entry_of_what_has_not_changed_is_seen() -> None:
    """It would excuse a change to come."""
    assert stray("1/a", Told("x", "0"), Told("x", "0"), parse_changes(ENTRY)) != []


@pytest.mark.parametrize(
    "text",
    [
        ENTRY.replace('"E0"', '""'),
        ENTRY.replace('"because"', '" "'),
        ENTRY.replace('"1/a"', '"1/*"'),
        ENTRY + ENTRY,
    ],
    ids=["no decision", "no reason", "a wildcard", "twice"],
)
def test_an_entry_that_says_too_little_or_too_much_is_refused(text: str) -> None:
    """Each has all members, and names one case."""
    with pytest.raises(ValueError, match=r"empty member|no name of one|two entries"):
        parse_changes(text)


# ------------------------------------------------------------------ mutated cards


@pytest.mark.parametrize(("name", "number"), NUMBERED[STRIDE // 2 :: STRIDE])
def test_mutants_come_out_as_they_did(name: str, number: int) -> None:
    """A hundred at a time."""
    base = recorded("bases")[name]
    mutants = chunk(name, base64.b64decode(base["card"]), number)
    examine = adapter.examiner(base)
    faults = chunk_faults(name, number, mutants, examine, MUTATED, changes())
    assert not faults, f"{len(faults)} mutants:\n" + "\n".join(faults)


def test_a_mutant_that_comes_out_otherwise_is_named() -> None:
    """And one whose bytes are others is not compared at all."""
    name, number = NUMBERED[0]
    mutants = chunk(name, base64.b64decode(recorded("bases")[name]["card"]), number)
    outcomes = check.unpacked(MUTATED["outcomes"][name][number], MUTATED["legend"])
    told = dict(zip(mutants, outcomes, strict=True))
    assert chunk_faults(name, number, mutants, told.__getitem__, MUTATED, {}) == []
    told[mutants[7]] = "trusted yes/yes/yes/yes -!"
    [fault, *_] = chunk_faults(name, number, mutants, told.__getitem__, MUTATED, {})
    assert f"mutated/{name}/" in fault
    others = [mutants[0] + b" ", *mutants[1:]]
    [fault] = chunk_faults(name, number, others, told.__getitem__, MUTATED, {})
    assert "does not hold the mutants" in fault


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


def test_a_vector_that_comes_out_otherwise_is_seen() -> None:
    """Each part of its result, and its inputs."""
    name, was = next(iter(recorded("vectors").items()))
    result, put = was["result"], was["digest"]
    assert result_faults("vectors", name, put, result, {}) == []
    assert result_faults("vectors", name, "0" * 64, result, {}) != []
    for part in result:
        [fault] = result_faults("vectors", name, put, {**result, part: "sig.bad"}, {})
        assert f"vectors/{name}/{part}" in fault


@pytest.mark.parametrize("seed", SAMPLED_WORLDS)
def test_worlds_come_out_as_they_did(seed: str) -> None:
    """Each count, and each longest time."""
    faults = result_faults("simulation", seed, seed, adapter.world(int(seed)), changes())
    assert not faults, "\n".join(faults)


def test_fewer_crash_points_are_seen() -> None:
    """More are welcome, and a command that is new."""
    name, steps = next(iter(recorded("crash").items()))
    assert crash_faults(name, steps, {}) == []
    assert crash_faults(name, [*steps, "rename a b"], {}) == []
    assert crash_faults("a new one", [], {}) == []
    [fault] = crash_faults(name, steps[1:], {})
    assert f"crash/{name}" in fault


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
