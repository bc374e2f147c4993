"""The vectors of statements that we publish, put to our steps and to our walk."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from cardsign.statements import release as releases
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
from cardsign.trust.lock import Floor
from cardsign.trust.walk import Walk, choose_release, read_statements

FILES = sorted((Path(__file__).parents[1] / "vectors" / "statements").glob("*.json"))
#: In how many orders the statements of a vector are put to a verifier at once.
ORDERS = 12

Vector: TypeAlias = dict[str, Any]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def vector(request: pytest.FixtureRequest) -> Vector:
    """One of our vectors."""
    vector: Vector = json.loads(request.param.read_text())
    vector["now"] = datetime.fromtimestamp(vector["now"], UTC)
    vector["skew"] = timedelta(seconds=vector["skew"])
    return vector


def _anchor(vector: Vector) -> KeysetId | RootAnchor:
    if "pin" in vector["anchor"]:
        return KeysetId(**vector["anchor"]["pin"])
    root = vector["anchor"]["root"]
    return RootAnchor(root["threshold"], frozenset((thumb, who) for thumb, who in root["holders"]))


def _shown(statement: KeysetStatement | releases.ReleaseStatement | None) -> Vector | None:
    names = ("epoch", "version") if isinstance(statement, KeysetStatement) else ("seq",)
    return statement and {name: getattr(statement, name) for name in (*names, "digest")}


def _ends(keyset: KeysetStatement | None, release: releases.ReleaseStatement | None) -> Vector:
    revoked = sorted(releases.effective_revoked(keyset, release)) if keyset else []
    return {"keyset": _shown(keyset), "release": _shown(release), "revoked": revoked}


def _check_keyset(vector: Vector, held: KeysetStatement | None, text: bytes) -> KeysetStatement:
    offered = read_keyset(text)
    if held is None:
        check_first(offered, _anchor(vector))
    elif offered.epoch > held.epoch:
        check_recovery(held, offered)
    else:
        check_successor(held, offered)
    check_past(offered.iat, vector["now"], vector["skew"])
    return offered


def test_each_step_is_accepted_or_refused_as_the_vector_says(vector: Vector) -> None:
    """The code of every refusal, the number and digest of what is accepted, and the end."""
    clock = {"now": vector["now"], "skew": vector["skew"]}
    keyset: KeysetStatement | None = None
    release: releases.ReleaseStatement | None = None
    answer: Vector
    for step in vector["steps"]:
        text = step["statement"].encode()
        try:
            if step["kind"] == "keyset":
                keyset = _check_keyset(vector, keyset, text)
            else:
                offered = releases.read_release(text)
                assert keyset is not None
                releases.check_release(offered, keyset, release, **clock)
                check_past(offered.iat, *clock.values())
                release = offered
            answer = {"accepted": _shown(keyset if step["kind"] == "keyset" else release)}
        except StatementRefused as refusal:
            answer = {"refused": refusal.code}
        assert answer.items() <= step.items()
    times = None
    try:
        if keyset is not None:
            check_times(keyset.iat, keyset.exp, **clock)
    except StatementRefused as refusal:
        times = refusal.code
    assert vector["end"] == {**_ends(keyset, release), "times": times}


def _walk(vector: Vector, statements: list[bytes]) -> tuple[Any, ...]:
    """What is held after a refresh, its refusal, and the steps that were kept on the way."""
    keysets = read_statements(statements, read_keyset, [])
    walk = Walk(keysets, Floor(), vector["now"], vector["skew"])
    try:
        held = walk.begin(_anchor(vector), None)
        return held and walk.onward(held), None, walk.passed
    except StatementRefused as refusal:
        return (walk.passed[-1] if walk.passed else None), refusal.code, walk.passed


def test_a_walk_that_gets_all_at_once_ends_there_in_any_order(vector: Vector) -> None:
    """Order and repetition of what is received mean nothing."""
    received = dict[str, list[bytes]](keyset=[], release=[])
    for step in vector["steps"]:
        received[step["kind"]].append(step["statement"].encode())
    for order in range(ORDERS):
        for statements in received.values():
            random.Random(order).shuffle(statements)
        keysets = received["keyset"]
        keyset, refused, kept = _walk(vector, [*keysets, *keysets[:3]])
        release = None
        if keyset is not None:
            offered = read_statements(received["release"], releases.read_release, [])
            clock = {"now": vector["now"], "skew": vector["skew"]}
            release, *_ = choose_release(None, offered, keyset, Floor(), [], **clock)
        assert vector["at_once"] == {**_ends(keyset, release), "refused": refused}
        numbers = [one.number for one in kept]
        assert numbers == sorted(set(numbers))
