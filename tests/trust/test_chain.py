"""Walks: from what is trusted to the newest, whatever else comes along (K5 to K11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardsign.findings import Finding
from cardsign.jose.keys import PublicKey
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    RootAnchor,
    check_first,
    check_recovery,
    check_successor,
    read_keyset,
)
from cardsign.statements.release import read_release
from cardsign.trust.lock import Floor, recovery_digest
from cardsign.trust.walk import MAX_CHAIN_BYTES, MAX_STEPS, Walk, read_statements
from tests.statements.making import NOW, entry, forged_entry, quorum, thumbprint
from tests.trust.establishing import codes, pin_of
from tests.trust.histories import (
    History,
    after,
    digest_of,
    keyset,
    opened,
    payload_of,
    release,
    with_entries,
)

SKEW = timedelta(seconds=300)


ONE = keyset("ann", "bob")
TWO = after(ONE)
THREE = after(TWO)


class Trip:
    """One refresh of a verifier, and what became of it."""

    def __init__(
        self,
        anchor: KeysetId | RootAnchor,
        statements: Iterable[bytes],
        *,
        held: KeysetStatement | None = None,
        floor: Floor | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.held, self.refused = held, None
        keysets = read_statements(statements, read_keyset, [])
        walk = Walk(keysets, floor or Floor(), NOW, SKEW, max_steps=max_steps)
        try:
            self.held = held or walk.begin(anchor, None)
            if self.held is not None:
                self.held = walk.onward(self.held)
        except StatementRefused as refusal:
            self.refused = refusal.code
            self.held = walk.passed[-1] if walk.passed else self.held
        self.number = None if self.held is None else self.held.number
        self.steps = [passed.number for passed in walk.passed]
        self.reasons = codes(walk.reasons)
        self.messages = [reason.message for reason in walk.reasons]


def other(statement: bytes, *signers: str) -> bytes:
    """Another successor of a statement."""
    return after(statement, *signers, revoked=[thumbprint("lost")])


# ------------------------------------------------------------------ the first


def test_the_lowest_that_a_root_set_means_is_the_first() -> None:
    """So every rotation is walked, and what has revoked is seen."""
    trip = Trip(RootAnchor.of(read_keyset(ONE).root), [THREE, TWO, ONE])

    assert trip.steps == [(1, 1), (1, 2), (1, 3)]
    assert trip.reasons == []


def test_what_the_anchor_does_not_mean_is_told_once() -> None:
    """Where nothing better came; beside what it means it is not worth a word."""
    trip = Trip(pin_of(THREE), [ONE, TWO])
    assert (trip.number, trip.reasons) == (None, ["statement.anchor"])
    assert "the oldest here is keyset 1.1" in trip.messages[0]
    assert Trip(pin_of(THREE), [ONE, TWO, THREE]).reasons == []


# ------------------------------------------------------------------ onwards


def test_a_gap_is_named_once() -> None:
    """The nearest statement that nothing leads to, and not what lies beyond it."""
    trip = Trip(pin_of(ONE), [ONE, after(THREE), THREE])

    assert (trip.number, trip.reasons) == ((1, 1), ["statement.gap"])
    assert trip.messages[0].startswith("keyset 1.3 is here")
    assert Trip(pin_of(ONE), [ONE, THREE, after(THREE), TWO]).number == (1, 4)


def test_what_was_refused_is_no_gap() -> None:
    """It is reported for what it is."""
    assert Trip(pin_of(ONE), [ONE, after(ONE, "ann", "eve")]).reasons == ["statement.unsigned"]


# ------------------------------------------------------------------ floors


def test_the_first_is_no_other_than_the_floor() -> None:
    """A root set may have signed two firsts, of which one was seen."""
    pin = RootAnchor.of(read_keyset(ONE).root)
    theirs = keyset("bob", "cat", revoked=[thumbprint("lost")])
    floor = Floor(pin_of(ONE))

    alone = Trip(pin, [theirs], floor=floor)
    assert (alone.number, alone.reasons) == (None, ["statement.fork"])
    assert Trip(pin, [theirs, ONE], floor=floor).held == read_keyset(ONE)


def test_what_is_held_against_a_floor() -> None:
    """A memory that is another history than the floor's is no evidence of anything."""
    held = read_keyset(other(ONE))

    trip = Trip(pin_of(ONE), [], held=held, floor=Floor(pin_of(TWO)))
    assert (trip.number, trip.refused) == ((1, 2), "statement.fork")
    assert Trip(pin_of(ONE), [], held=read_keyset(TWO), floor=Floor(pin_of(TWO))).refused is None


def test_recovery_passes_a_floor_of_the_epoch_before() -> None:
    """What was seen may have been the thief's, and recovery ends that (K7).

    From below the floor only by the recovery keys that were in force there.
    """
    floor = Floor(KeysetId(1, 9, "0" * 64), recovery=recovery_digest(read_keyset(ONE)))

    assert Trip(pin_of(ONE), [ONE, opened(ONE)], floor=floor).refused is None
    for other_keys in (None, "0" * 64):
        replaced = Floor(KeysetId(1, 9, "0" * 64), recovery=other_keys)
        assert Trip(pin_of(ONE), [ONE, opened(ONE)], floor=replaced).refused == "statement.rollback"
    floor = Floor(KeysetId(2, 1, "0" * 64))
    assert Trip(pin_of(ONE), [ONE, opened(ONE)], floor=floor).refused == "statement.rollback"


# ------------------------------------------------------------------ bounds


def test_junk_is_reported_and_left() -> None:
    """Nothing that is no statement ends a reading."""
    junk = [b"", b"{}", b"\xff", TWO[:-9], release(ONE), ONE.replace(b"payload", b"PAYLOAD")]

    reasons: list[Finding] = []
    keysets = read_statements([*junk, ONE, TWO, ONE], read_keyset, reasons)
    releases = read_statements([release(ONE), ONE, b"[]"], read_release, reasons)
    assert keysets == [read_keyset(ONE), read_keyset(TWO)]
    assert releases == [read_release(release(ONE))]
    assert {"statement.shape", "statement.typ"} == set(codes(reasons))
    assert len(reasons) == len(junk) + 2


ROOM = MAX_CHAIN_BYTES // 1024 - 1  # statements of the least size beside one, in one refresh
CROWDS = {
    "crumbs, as many as are read": ([b"{%d}" % number for number in range(ROOM - 4)], False),
    "more crumbs": ([b"{%d}" % number for number in range(ROOM + 2)], True),
    "one and the same": ([b"{}"] * 10_000, False),
    "too large to be statements": ([bytes([number]) * 70_000 for number in range(40)], False),
    "as large as statements may be": ([bytes([number]) * 65_536 for number in range(40)], True),
}


@pytest.mark.parametrize(("crowd", "beyond"), CROWDS.values(), ids=CROWDS)
def test_so_much_is_read(crowd: list[bytes], beyond: bool) -> None:
    """K9: 2 MiB in one refresh; what comes twice, or can be no statement, takes no room."""
    reasons: list[Finding] = []
    keysets = read_statements([*crowd, ONE], read_keyset, reasons)

    assert (len(keysets) == 0) == beyond
    assert ("statement.too_many" in codes(reasons)) == beyond


@pytest.mark.parametrize("size", [1024, MAX_STATEMENT_BYTES])
def test_no_broken_statement_is_read_by_the_slow_reader(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """2 MiB of broken ones cost 7 s of CPU to find out where each is broken."""

    def offsets(*_: object, **__: object) -> None:
        raise AssertionError("the slow reader was asked")

    monkeypatch.setattr("cardsign.card.strictjson.offsets", offsets)
    broken = [
        b'{"n":%d,"x":[' % at + b"0," * ((size - 20) // 2) for at in range(MAX_CHAIN_BYTES // size)
    ]
    reasons: list[Finding] = []
    assert read_statements(broken, read_keyset, reasons) == []
    assert codes(reasons) == ["statement.shape"] * len(broken)


def test_so_many_steps_are_made() -> None:
    """K9: then the walk ends, but for recovery, which no chain is long enough to hide (K7)."""
    history = History()
    for _ in range(5):
        history.renew()
    statements = history.statements

    tired = Trip(pin_of(statements[0]), statements, max_steps=3)
    assert (tired.number, "statement.too_many" in tired.reasons) == ((1, 4), True)
    enough = Trip(pin_of(statements[0]), statements[:4], max_steps=3)
    assert (enough.number, "statement.too_many" in enough.reasons) == ((1, 4), False)
    back = opened(statements[-1])
    assert Trip(pin_of(statements[0]), [*statements, back], max_steps=3).number == (2, 1)


def test_junk_costs_a_bounded_number_of_verifications(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recoveries of 64 bad signatures are not verified anew at every step of a chain.

    Counted, not timed: one for each signature that was sent, and four for each honest step.
    """
    calls = 0
    check = PublicKey.check

    def counted(self: PublicKey, protected: str, payload: bytes, signature: bytes) -> None:
        nonlocal calls
        calls += 1
        check(self, protected, payload, signature)

    history = History()
    for _ in range(11):
        history.renew()
    bad = forged_entry(b"{}", "rita", thumbprint("rita"))
    junk = [
        with_entries(opened(history.newest, revoked=[thumbprint(f"x{number}")]), [bad] * 64)
        for number in range(22)
    ]
    assert len(read_statements(junk, read_keyset, [])) == len(junk)  # all within the bounds
    monkeypatch.setattr(PublicKey, "check", counted)

    trip = Trip(pin_of(history.statements[0]), [*history.statements, *junk])
    assert trip.number == (1, 12)
    assert calls <= 64 * len(junk) + 4 * len(history.statements)


# ------------------------------------------------------------------ random histories


def reachable(anchor: KeysetId, statements: list[KeysetStatement]) -> set[str]:
    """Everything that some lawful steps lead to, found slowly: every pair is tried."""
    pending = [one for one in statements if is_lawful(partial(check_first, one, anchor))]
    found = {one.digest for one in pending}
    while pending:
        held = pending.pop()
        for following in statements:
            if following.digest not in found and (
                is_lawful(partial(check_successor, held, following))
                or is_lawful(partial(check_recovery, held, following))
            ):
                found.add(following.digest)
                pending.append(following)
    return found


def is_lawful(check: Callable[[], object]) -> bool:
    """Whether a step refuses nothing."""
    try:
        check()
    except StatementRefused:
        return False
    return True


MOVES: tuple[Callable[[History], None], ...] = (
    History.renew,
    History.replace_root,
    History.move_threshold,
    History.revoke,
    History.replace_recovery,
    History.recover,
)

JUNK: tuple[Callable[[bytes], bytes], ...] = (
    lambda one: b"{}",
    lambda one: one[: len(one) // 2],
    lambda one: with_entries(one, [forged_entry(payload_of(one), "eve", thumbprint("ann"))] * 3),
    lambda one: with_entries(one, [forged_entry(payload_of(one), "eve", thumbprint("eve"))]),
    lambda one: after(one, "eve", "mal"),
    lambda one: opened(one, "eve", "mal", root=quorum(1, "eve")),
    lambda one: after(one, "eve", "mal", issuer="lamp.example"),
    lambda one: keyset("eve", "mal", root=quorum(2, "eve", "mal")),
    lambda one: after(one, "eve", version=200, keys=[entry("evil", "card")]),
)


@st.composite
def published(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """An honest history, and junk that was made of it."""
    history = History()
    for move in draw(st.lists(st.sampled_from(MOVES), max_size=9)):
        move(history)
    made = st.tuples(st.sampled_from(JUNK), st.sampled_from(history.statements))
    junk = [make(one) for make, one in draw(st.lists(made, max_size=5))]
    return history.statements, junk


@settings(max_examples=40)
@given(published(), st.data())
def test_an_honest_history_is_walked_to_its_end(
    history: tuple[list[bytes], list[bytes]], data: st.DataObject
) -> None:
    """In any order, with junk and repetitions, in one refresh or in several."""
    statements, junk = history
    anchor = pin_of(statements[0])
    everything = data.draw(st.permutations([*statements, *junk, *statements[:2]]))
    some = st.lists(st.sampled_from(everything), max_size=len(everything))
    refreshes = data.draw(st.lists(some, max_size=3))

    held: KeysetStatement | None = None
    for received in [*refreshes, everything]:
        trip = Trip(anchor, received, held=held)
        assert trip.refused is None
        assert trip.steps == sorted(trip.steps)
        held = trip.held
    assert held is not None
    assert held.digest == digest_of(statements[-1])


@settings(max_examples=40)
@given(published(), st.data())
def test_a_statement_withheld_ends_the_walk_before_it(
    history: tuple[list[bytes], list[bytes]], data: st.DataObject
) -> None:
    """Just where the slow definition ends: nothing is skipped, and nothing lawful is left."""
    statements, junk = history
    anchor = pin_of(statements[0])
    withheld = data.draw(st.integers(0, len(statements) - 1))
    rest = [*statements[:withheld], *statements[withheld + 1 :]]
    received = data.draw(st.permutations([*rest, *junk]))

    trip = Trip(anchor, received)
    readable = read_statements(received, read_keyset, [])
    lawful = reachable(anchor, readable)
    ends = [one.number for one in readable if one.digest in lawful]
    assert trip.refused is None
    assert trip.number == max(ends, default=None)
    if trip.held is not None and trip.held.digest != digest_of(statements[-1]):
        before = statements[withheld - 1]
        assert trip.held.digest == digest_of(before)
