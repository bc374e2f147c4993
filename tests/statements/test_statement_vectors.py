"""The vectors of statements that we publish, put to our steps and to our walk."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from cardsign.statements.envelope import StatementRefused, check_past, check_times
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    RootAnchor,
    check_first,
    check_recovery,
    check_successor,
    read_keyset,
)
from cardsign.statements.release import (
    ReleaseStatement,
    check_release,
    effective_revoked,
    read_release,
)
from cardsign.trust.lock import Floor
from cardsign.trust.walk import Walk, choose_release, read_statements

FILES = sorted((Path(__file__).parents[1] / "vectors" / "statements").glob("*.json"))
#: In how many orders the statements of a vector are put to a verifier at once.
ORDERS = 12

Vector: TypeAlias = dict[str, Any]

every_vector = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])


def _read(path: Path) -> Vector:
    vector: Vector = json.loads(path.read_text())
    return vector


def _now(vector: Vector) -> datetime:
    return datetime.fromtimestamp(vector["now"], UTC)


def _skew(vector: Vector) -> timedelta:
    return timedelta(seconds=vector["skew"])


def _anchor(vector: Vector) -> KeysetId | RootAnchor:
    if "pin" in vector["anchor"]:
        return KeysetId(**vector["anchor"]["pin"])
    root = vector["anchor"]["root"]
    return RootAnchor(root["threshold"], frozenset((thumb, who) for thumb, who in root["holders"]))


def _keyset(found: KeysetStatement | None) -> Vector | None:
    if found is None:
        return None
    return {"epoch": found.epoch, "version": found.version, "digest": found.digest}


def _release(found: ReleaseStatement | None) -> Vector | None:
    return None if found is None else {"seq": found.seq, "digest": found.digest}


def _revoked(keyset: KeysetStatement | None, release: ReleaseStatement | None) -> list[str]:
    return sorted(effective_revoked(keyset, release)) if keyset else []


def _steps(vector: Vector, kind: str) -> list[bytes]:
    return [step["statement"].encode() for step in vector["steps"] if step["kind"] == kind]


# ------------------------------------------------------------------ step by step


def _check_keyset(vector: Vector, held: KeysetStatement | None, text: bytes) -> KeysetStatement:
    offered = read_keyset(text)
    if held is None:
        check_first(offered, _anchor(vector))
    elif offered.epoch > held.epoch:
        check_recovery(held, offered)
    else:
        check_successor(held, offered)
    check_past(offered.iat, _now(vector), _skew(vector))
    return offered


@every_vector
def test_each_step_is_accepted_or_refused_as_the_vector_says(path: Path) -> None:
    """The code of every refusal, the number and digest of what is accepted, and the end."""
    vector = _read(path)
    now, skew = _now(vector), _skew(vector)
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    said: list[Vector] = []
    for step in vector["steps"]:
        text = step["statement"].encode()
        try:
            if step["kind"] == "keyset":
                keyset = _check_keyset(vector, keyset, text)
                said.append({"accepted": _keyset(keyset)})
            else:
                offered = read_release(text)
                assert keyset is not None
                check_release(offered, keyset, release, now=now, skew=skew)
                check_past(offered.iat, now, skew)
                release = offered
                said.append({"accepted": _release(release)})
        except StatementRefused as refusal:
            said.append({"refused": refusal.code})

    expected = [
        {k: v for k, v in s.items() if k in ("accepted", "refused")} for s in vector["steps"]
    ]
    assert said == expected
    times = None
    if keyset is not None:
        try:
            check_times(keyset.iat, keyset.exp, now=now, skew=skew)
        except StatementRefused as refusal:
            times = refusal.code
    assert vector["end"] == {
        "keyset": _keyset(keyset),
        "release": _release(release),
        "revoked": _revoked(keyset, release),
        "times": times,
    }


# ------------------------------------------------------------------ by the walk


def _walk(vector: Vector, statements: list[bytes], held: KeysetStatement | None) -> tuple[Any, ...]:
    """What is held after a refresh, its refusal, and the steps that were kept on the way."""
    keysets = read_statements(statements, read_keyset, [])
    walk = Walk(keysets, Floor(), _now(vector), _skew(vector))
    try:
        if held is None:
            held = walk.begin(_anchor(vector), None)
        if held is not None:
            held = walk.onward(held)
    except StatementRefused as refusal:
        return (walk.passed[-1] if walk.passed else None), refusal.code, walk.passed
    return held, None, walk.passed


@every_vector
def test_a_walk_that_gets_all_at_once_ends_there_in_any_order(path: Path) -> None:
    """Order and repetition of what is received mean nothing."""
    vector = _read(path)
    keysets, releases = _steps(vector, "keyset"), _steps(vector, "release")
    for order in range(ORDERS):
        shuffle = random.Random(order)
        shuffle.shuffle(keysets)
        shuffle.shuffle(releases)
        keyset, refusal, kept = _walk(vector, [*keysets, *keysets[:3]], None)
        release = None
        if keyset is not None:
            offered = read_statements(releases, read_release, [])
            release, *_ = choose_release(
                None, offered, keyset, Floor(), [], now=_now(vector), skew=_skew(vector)
            )
        assert vector["at_once"] == {
            "keyset": _keyset(keyset),
            "release": _release(release),
            "revoked": _revoked(keyset, release),
            "refused": refusal,
        }
        numbers = [one.number for one in kept]
        assert numbers == sorted(set(numbers))
