"""The vectors of statements that we publish, put to our steps, to our walk, and to a slow judge.

The slow judge is written from docs/concepts/statements.md alone, by other libraries: joserfc looks
at one signature at a time, rfc8785 at the payload. It knows yes and no, and asks what a step needs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import rfc8785
from joserfc import errors, jwk, jws

from cardsign.statements import (
    KeysetId,
    KeysetStatement,
    ReleaseStatement,
    RootAnchor,
    StatementRefused,
    check_first,
    check_past,
    check_recovery,
    check_release,
    check_successor,
    check_times,
    effective_revoked,
    read_keyset,
    read_release,
)
from cardsign.trust import RollbackFloor, Walk, choose_release, receive

FILES = sorted((Path(__file__).parents[1] / "vectors" / "statements").glob("*.json"))
MEMBERS = {"id", "says", "anchor", "now", "skew", "steps", "end", "at_once"}
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
    keysets, _, _ = receive(statements, ())
    kept: list[KeysetStatement] = []
    walk = Walk(_now(vector), _skew(vector), kept.append)
    try:
        if held is None:
            held = walk.from_anchor(_anchor(vector), None, keysets)
        if held is not None:
            held = walk.onwards(held, keysets)
    except StatementRefused as refusal:
        return (kept[-1] if kept else None), refusal.code, kept
    return held, None, kept


@every_vector
def test_a_walk_that_gets_one_statement_after_another_ends_where_the_vector_does(
    path: Path,
) -> None:
    """A refresh for each step: what is refused changes nothing."""
    vector = _read(path)
    held: KeysetStatement | None = None
    for step in vector["steps"]:
        if step["kind"] == "keyset":
            before = held
            held, refusal, kept = _walk(vector, [step["statement"].encode()], held)
            assert refusal is None
            assert _keyset(held) == step.get("accepted", _keyset(before))
            assert [_keyset(one) for one in kept] == [step["accepted"] for _ in kept]
            assert bool(kept) == ("accepted" in step)
    assert _keyset(held) == vector["end"]["keyset"]


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
            offered = receive((), releases)[1]
            release = choose_release(
                None, offered, keyset, RollbackFloor(), now=_now(vector), skew=_skew(vector)
            ).release
        assert vector["at_once"] == {
            "keyset": _keyset(keyset),
            "release": _release(release),
            "revoked": _revoked(keyset, release),
            "refused": refusal,
        }
        numbers = [one.number for one in kept]
        assert numbers == sorted(set(numbers))


# ------------------------------------------------------------------ by a slow judge


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Slow:
    """A statement, taken apart by other libraries."""

    def __init__(self, text: str, typ: str) -> None:
        self.document = json.loads(text)
        self.payload = _unpadded(self.document["payload"])
        self.typ = typ
        self.digest = hashlib.sha256(self.payload).hexdigest()
        self.says = json.loads(self.payload)

    @property
    def is_canonical(self) -> bool:
        """The payload is the JCS of what it says."""
        return rfc8785.dumps(self.says) == self.payload

    def has_signed(self, public: dict[str, str]) -> bool:
        """Some signature under the key's thumbprint is good."""
        known = jwk.import_key(public)
        for one in self.document["signatures"]:
            header = json.loads(_unpadded(one["protected"]))
            if header != {"alg": public["alg"], "kid": known.thumbprint(), "typ": self.typ}:
                continue
            flat = {"payload": self.document["payload"], **one}
            try:
                jws.deserialize_json(flat, known, algorithms=["ES256", "RS256"])
            except errors.BadSignatureError:
                continue
            return True
        return False

    def is_agreed(self, quorum: dict[str, Any]) -> bool:
        """So many holders have signed."""
        signed = {one["holder"] for one in quorum["keys"] if self.has_signed(one["public"])}
        return len(signed) >= quorum["threshold"]

    def is_the_first(self, anchor: Vector) -> bool:
        """K8."""
        root = self.says["root"]
        if "pin" in anchor:
            number = {name: self.says[name] for name in ("epoch", "version")}
            meant = anchor["pin"] == {**number, "digest": self.digest}
        else:
            holders = [
                [jwk.import_key(one["public"]).thumbprint(), one["holder"]] for one in root["keys"]
            ]
            meant = anchor["root"] == {"threshold": root["threshold"], "holders": sorted(holders)}
        return meant and self.is_agreed(root)

    def follows(self, held: Slow) -> bool:
        """K6 or K7."""
        mine, theirs = self.says, held.says
        if mine["issuer"] != theirs["issuer"] or not self.is_agreed(mine["root"]):
            return False
        if mine["epoch"] == theirs["epoch"] + 1:
            recovery = theirs["recovery"]
            return mine["version"] == 1 and bool(recovery) and self.is_agreed(recovery)
        return (
            mine["epoch"] == theirs["epoch"]
            and mine["version"] == theirs["version"] + 1
            and mine["prev"] == held.digest
            and mine["iat"] >= theirs["iat"]
            and set(mine["revoked"]) >= set(theirs["revoked"])
            and self.is_agreed(theirs["root"])
            and (
                mine["recovery"] == theirs["recovery"]
                or (theirs["recovery"] is not None and self.is_agreed(theirs["recovery"]))
            )
        )

    def is_released_under(self, keyset: Slow, previous: Slow | None, vector: Vector) -> bool:
        """K10 and K11."""
        mine = self.says
        named = {name: keyset.says[name] for name in ("epoch", "version")}
        if mine["issuer"] != keyset.says["issuer"]:
            return False
        if mine["keyset"] != {**named, "digest": keyset.digest}:
            return False
        thumbprints = {jwk.import_key(one["public"]).thumbprint() for one in keyset.says["keys"]}
        signers = {
            jwk.import_key(one["public"]).thumbprint()
            for one in keyset.says["keys"]
            if "release" in one["roles"]
            and one["nbf"] - vector["skew"] <= vector["now"] < one["exp"]
            and self.has_signed(one["public"])
        }
        revoked = set(mine["revoked"])
        if not revoked <= thumbprints or not signers - revoked:
            return False
        return previous is None or self._is_later_than(previous)

    def _is_later_than(self, previous: Slow) -> bool:
        mine, theirs = self.says, previous.says
        if self._order <= previous._order:
            return False
        same = mine["keyset"] == theirs["keyset"]
        fallen = [
            url for url, least in theirs["floor"].items() if mine["floor"].get(url, 0) < least
        ]
        return not (same and fallen)

    @property
    def _order(self) -> tuple[int, int, int]:
        keyset = self.says["keyset"]
        return keyset["epoch"], keyset["version"], self.says["seq"]


# What the slow judge does not look at: the form of what is no statement in the first place.
OF_FORM = {
    *("statement.shape", "statement.header", "statement.typ", "statement.not_canonical"),
    *("statement.format", "statement.members", "statement.time_span", "statement.threshold"),
    "statement.bad_key",
}


@every_vector
def test_a_slow_judge_with_other_libraries_says_the_same(path: Path) -> None:
    """Every step that has the form of a statement, yes or no."""
    vector = _read(path)
    latest = vector["now"] + vector["skew"]
    keyset: Slow | None = None
    release: Slow | None = None
    for step in vector["steps"]:
        if step.get("refused") in OF_FORM or _lies_above_itself(step):
            continue
        offered = Slow(step["statement"], f"cardsign-{step['kind']}+jws")
        assert offered.is_canonical
        if step["kind"] == "release":
            assert keyset is not None
            lawful = offered.is_released_under(keyset, release, vector)
        else:
            lawful = offered.follows(keyset) if keyset else offered.is_the_first(vector["anchor"])
        lawful = lawful and offered.says["iat"] <= latest
        assert lawful == ("accepted" in step)
        if lawful and step["kind"] == "release":
            release = offered
        elif lawful:
            keyset = offered


def _lies_above_itself(step: Vector) -> bool:
    """A floor above the release's own number is a matter of form as well."""
    if step.get("refused") != "statement.floor":
        return False
    says = json.loads(_unpadded(json.loads(step["statement"])["payload"]))
    return max(says["floor"].values()) > says["seq"]


# ------------------------------------------------------------------ the set


def test_the_set_is_whole_and_shows_both_sides() -> None:
    """The form of the README, no private key, and neither yes nor no to everything would do."""
    vectors = [_read(path) for path in FILES]
    assert len(vectors) >= 40
    assert all(set(vector) == MEMBERS for vector in vectors)
    said = Counter(step.get("refused", "accepted") for v in vectors for step in v["steps"])
    assert said["accepted"] >= 80
    assert said.total() - said["accepted"] >= 80
    assert "statement.expired" in {vector["end"]["times"] for vector in vectors}
    statements = {step["statement"] for vector in vectors for step in vector["steps"]}
    assert not any('"d"' in _unpadded(json.loads(one)["payload"]).decode() for one in statements)


def test_every_refusal_of_a_statement_has_a_vector() -> None:
    """Each code that reading or a step can give, and some besides of the walk's own."""
    met = {step.get("refused") for path in FILES for step in _read(path)["steps"]}
    expected = OF_FORM | {
        f"statement.{name}"
        for name in (
            *("anchor", "unsigned", "issuer", "fork", "rollback", "gap", "prev", "unrevoked"),
            *("recovery", "keyset", "revoked", "floor", "not_yet"),
        )
    }
    assert met - {None} == expected
