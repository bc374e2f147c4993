"""Walks: from what is trusted to the newest, whatever else comes along (K5 to K11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
from hypothesis import given
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
from cardsign.trust.lock import Floor, LockedRelease, recovery_digest
from cardsign.trust.walk import MAX_CHAIN_BYTES, MAX_STEPS, Walk, choose_release, read_statements
from tests.jose.statement_making import (
    DAY,
    NOW,
    T0,
    entry,
    forged_entry,
    quorum,
    thumbprint,
)
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


class Trip:
    """One refresh of a verifier, and what became of it."""

    def __init__(
        self,
        anchor: KeysetId | RootAnchor,
        statements: Iterable[bytes],
        *,
        held: KeysetStatement | None = None,
        issuer: str | None = None,
        floor: Floor | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.held = held
        self.refused: str | None = None
        keysets = read_statements(statements, read_keyset, [])
        walk = Walk(keysets, floor or Floor(), NOW, SKEW, max_steps=max_steps)
        self.kept = walk.passed
        try:
            if self.held is None:
                self.held = walk.begin(anchor, issuer)
            if self.held is not None:
                self.held = walk.onward(self.held)
        except StatementRefused as refusal:
            self.refused = refusal.code
            self.held = self.kept[-1] if self.kept else self.held
        self.reasons = codes(walk.reasons)
        self.messages = [reason.message for reason in walk.reasons]

    @property
    def number(self) -> tuple[int, int] | None:
        """Where it has ended."""
        return None if self.held is None else self.held.number

    @property
    def steps(self) -> list[tuple[int, int]]:
        """What was kept, in order."""
        return [one.number for one in self.kept]


@pytest.fixture(scope="module")
def one() -> bytes:
    """Version 1."""
    return keyset("ann", "bob")


@pytest.fixture(scope="module")
def two(one: bytes) -> bytes:
    """Version 2."""
    return after(one)


@pytest.fixture(scope="module")
def three(two: bytes) -> bytes:
    """Version 3."""
    return after(two)


def other(statement: bytes, *signers: str) -> bytes:
    """Another successor of a statement."""
    return after(statement, *signers, revoked=[thumbprint("lost")])


# ------------------------------------------------------------------ the first


def test_the_lowest_that_a_root_set_means_is_the_first(
    one: bytes, two: bytes, three: bytes
) -> None:
    """So every rotation is walked, and what has revoked is seen."""
    trip = Trip(RootAnchor.of(read_keyset(one).root), [three, two, one])

    assert trip.steps == [(1, 1), (1, 2), (1, 3)]
    assert trip.reasons == []


def test_two_firsts_of_one_root_set_are_a_fork(one: bytes) -> None:
    """Whichever comes first: the order in which they are received decides nothing."""
    pin = RootAnchor.of(read_keyset(one).root)
    mine, theirs = one, keyset("bob", "cat", revoked=[thumbprint("lost")])

    for statements in ([mine, theirs], [theirs, mine, after(theirs)]):
        trip = Trip(pin, statements)
        assert (trip.number, trip.refused, trip.kept) == (None, "statement.fork", [])


FIRSTS_REFUSED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "too few have signed": (
        lambda one: with_entries(one, [forged_entry(payload_of(one), "ann", thumbprint("ann"))]),
        "statement.unsigned",
    ),
    "another root set": (lambda one: keyset("ann", root=quorum(1, "ann")), "statement.anchor"),
    "another issuer": (
        lambda one: keyset("ann", "bob", issuer="lamp.example"),
        "statement.issuer",
    ),
    "of the future": (
        lambda one: keyset("ann", "bob", iat=T0 + 301, exp=T0 + DAY),
        "statement.not_yet",
    ),
}


@pytest.mark.parametrize(("make", "code"), FIRSTS_REFUSED.values(), ids=FIRSTS_REFUSED)
def test_what_is_no_first(one: bytes, make: Callable[[bytes], bytes], code: str) -> None:
    """It is reported; and beside the first it is no hindrance."""
    pin = RootAnchor.of(read_keyset(one).root)
    refused = make(one)

    alone = Trip(pin, [refused], issuer="tides.example")
    assert (alone.number, alone.reasons, alone.kept) == (None, [code], [])
    assert Trip(pin, [refused, one], issuer="tides.example").number == (1, 1)


def test_the_issuer_is_the_one_of_the_anchor(one: bytes) -> None:
    """Where it names none, the statement's own is taken."""
    assert Trip(pin_of(one), [one], issuer="tides.example").number == (1, 1)
    assert Trip(pin_of(one), [one], issuer="lamp.example").number is None
    assert Trip(pin_of(one), [one]).number == (1, 1)


# ------------------------------------------------------------------ onwards


def test_what_came_too_few_signed_and_then_signed_is_reported_no_more(
    one: bytes, two: bytes
) -> None:
    """A reason is about what could not be accepted in the end."""
    few = with_entries(two, [forged_entry(payload_of(two), "ann", thumbprint("ann"))])

    trip = Trip(pin_of(one), [one, few, two])
    assert (trip.number, trip.reasons) == ((1, 2), [])
    assert Trip(pin_of(one), [one, few]).reasons == ["statement.unsigned"]


def test_one_lawful_successor_in_two_envelopes_is_no_fork(one: bytes, two: bytes) -> None:
    """Signatures may be added later; the statement is the same."""
    more = after(one, "ann", "bob", "cat")

    assert digest_of(more) == digest_of(two)
    assert Trip(pin_of(one), [one, two, more]).number == (1, 2)


def test_recovery_ends_a_thief_s_rotations(one: bytes) -> None:
    """Wherever on his chain it finds the verifier."""
    stolen = [after(one, "ann", "bob", "eve", root=quorum(1, "eve"))]
    for _ in range(9):
        stolen.append(after(stolen[-1], "eve"))
    back = opened(one)

    assert Trip(pin_of(one), [one, *stolen]).number == (1, 11)
    for held in (None, *map(read_keyset, (one, stolen[0], stolen[-1]))):
        trip = Trip(pin_of(one), [*stolen, one, back], held=held)
        assert trip.number == (2, 1)


def test_recovery_keys_may_change_on_the_way(one: bytes, two: bytes) -> None:
    """Those that the last version names open the epoch; those before it open nothing."""
    changed = after(two, "ann", "bob", "rita", recovery=quorum(1, "rosa"))
    last = after(changed)
    statements = [one, two, changed, last]
    by_the_old, by_the_new = opened(last, "dan", "rita"), opened(last, "dan", "rosa")

    assert Trip(pin_of(one), [*statements, by_the_old]).number == (1, 4)
    assert Trip(pin_of(one), [by_the_new, *statements]).number == (2, 1)
    thief = opened(one, "eve", "rita", root=quorum(1, "eve"))
    assert Trip(pin_of(one), [thief, by_the_new, *statements]).held == read_keyset(by_the_new)


def test_two_recoveries_are_a_fork(one: bytes, two: bytes) -> None:
    """The recovery key itself was stolen: nothing can be believed."""
    theirs = opened(one, "eve", "rita", root=quorum(1, "eve"))

    trip = Trip(pin_of(one), [one, two, opened(one), theirs])
    assert (trip.number, trip.refused) == ((1, 2), "statement.fork")


def test_a_fork_of_what_is_held_is_shown_and_changes_nothing(one: bytes, two: bytes) -> None:
    """What is held stays (K8); without the root's signatures it is no fork but a forgery."""
    held = read_keyset(two)
    forged = after(one, "ann", "eve", revoked=[thumbprint("lost")])

    trip = Trip(pin_of(one), [other(one)], held=held)
    assert (trip.number, trip.reasons, trip.kept) == ((1, 2), ["statement.fork"], [])
    assert Trip(pin_of(one), [forged], held=held).reasons == ["statement.unsigned"]
    assert Trip(pin_of(one), [two], held=held).reasons == []


def test_a_gap_is_named_once(one: bytes, two: bytes, three: bytes) -> None:
    """The nearest statement that nothing leads to, and not what lies beyond it."""
    trip = Trip(pin_of(one), [one, after(three), three])

    assert (trip.number, trip.reasons) == ((1, 1), ["statement.gap"])
    assert trip.messages[0].startswith("keyset 1.3 is here")
    assert Trip(pin_of(one), [one, three, after(three), two]).number == (1, 4)


def test_what_was_refused_is_no_gap(one: bytes) -> None:
    """It is reported for what it is."""
    assert Trip(pin_of(one), [one, after(one, "ann", "eve")]).reasons == ["statement.unsigned"]


def test_what_is_issued_in_the_future_is_not_kept(one: bytes) -> None:
    """Not even a second beyond the skew; the statement at its edge is."""
    early, edge = (after(one, iat=T0 + 300 + ahead, exp=T0 + DAY) for ahead in (1, 0))

    trip = Trip(pin_of(one), [one, early, after(early, iat=T0 + 301)])
    assert trip.steps == [(1, 1)]
    assert "statement.not_yet" in trip.reasons
    assert Trip(pin_of(one), [one, edge]).steps == [(1, 1), (1, 2)]


# ------------------------------------------------------------------ floors


def test_a_floor_is_reached(one: bytes, two: bytes, three: bytes) -> None:
    """At it, or above."""
    floor = Floor(pin_of(two))

    for statements in ([one, two], [one, two, three]):
        trip = Trip(pin_of(one), statements, floor=floor)
        assert (trip.refused, trip.reasons) == (None, [])


def test_below_a_floor_the_walk_is_a_rollback(one: bytes, two: bytes) -> None:
    """What was seen must be shown again."""
    trip = Trip(pin_of(one), [one, two], floor=Floor(KeysetId(1, 3, "0" * 64)))

    assert (trip.number, trip.refused) == ((1, 2), "statement.rollback")


def test_a_branch_never_passes_a_floor(one: bytes, two: bytes) -> None:
    """A root that was retired founds another history: not at the floor, and not above it either.

    Without a floor this is what old root keys can do to who remembers nothing (threat 2).
    """
    theirs = [other(one, "bob", "cat")]
    theirs.append(after(theirs[0], "bob", "cat"))
    theirs.append(after(theirs[1], "bob", "cat"))

    assert Trip(pin_of(one), [one, *theirs]).number == (1, 4)
    trip = Trip(pin_of(one), [one, *theirs], floor=Floor(pin_of(two)))
    assert (trip.steps, trip.refused) == ([(1, 1)], "statement.rollback")
    assert "statement.fork" in trip.reasons
    assert Trip(pin_of(one), [one, two, *theirs], floor=Floor(pin_of(two))).number == (1, 2)


def test_the_first_is_no_other_than_the_floor(one: bytes) -> None:
    """A root set may have signed two firsts, of which one was seen."""
    pin = RootAnchor.of(read_keyset(one).root)
    theirs = keyset("bob", "cat", revoked=[thumbprint("lost")])
    floor = Floor(pin_of(one))

    alone = Trip(pin, [theirs], floor=floor)
    assert (alone.number, alone.reasons) == (None, ["statement.fork"])
    assert Trip(pin, [theirs, one], floor=floor).held == read_keyset(one)


def test_what_is_held_against_a_floor(one: bytes, two: bytes) -> None:
    """A memory that is another history than the floor's is no evidence of anything."""
    held = read_keyset(other(one))

    trip = Trip(pin_of(one), [], held=held, floor=Floor(pin_of(two)))
    assert (trip.number, trip.refused) == ((1, 2), "statement.fork")
    assert Trip(pin_of(one), [], held=read_keyset(two), floor=Floor(pin_of(two))).refused is None


def test_recovery_passes_a_floor_of_the_epoch_before(one: bytes) -> None:
    """What was seen may have been the thief's, and recovery ends that (K7).

    From below the floor only by the recovery keys that were in force there.
    """
    floor = Floor(KeysetId(1, 9, "0" * 64), recovery=recovery_digest(read_keyset(one)))

    assert Trip(pin_of(one), [one, opened(one)], floor=floor).refused is None
    for other_keys in (None, "0" * 64):
        replaced = Floor(KeysetId(1, 9, "0" * 64), recovery=other_keys)
        assert Trip(pin_of(one), [one, opened(one)], floor=replaced).refused == "statement.rollback"
    floor = Floor(KeysetId(2, 1, "0" * 64))
    assert Trip(pin_of(one), [one, opened(one)], floor=floor).refused == "statement.rollback"


# ------------------------------------------------------------------ bounds


def test_junk_is_reported_and_left(one: bytes, two: bytes) -> None:
    """Nothing that is no statement ends a reading."""
    junk = [b"", b"{}", b"\xff", two[:-9], release(one), one.replace(b"payload", b"PAYLOAD")]

    reasons: list[Finding] = []
    keysets = read_statements([*junk, one, two, one], read_keyset, reasons)
    releases = read_statements([release(one), one, b"[]"], read_release, reasons)
    assert keysets == [read_keyset(one), read_keyset(two)]
    assert releases == [read_release(release(one))]
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
def test_so_much_is_read(one: bytes, crowd: list[bytes], beyond: bool) -> None:
    """K9: 2 MiB in one refresh; what comes twice, or can be no statement, takes no room."""
    reasons: list[Finding] = []
    keysets = read_statements([*crowd, one], read_keyset, reasons)

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


# ------------------------------------------------------------------ releases


def newest(
    releases: Iterable[bytes],
    under: bytes,
    *,
    held: bytes | None = None,
    floor: LockedRelease | None = None,
) -> tuple[int | None, list[str]]:
    """The number of the newest release that speaks, and why others do not."""
    chosen = choose_release(
        None if held is None else read_release(held),
        [read_release(one) for one in releases],
        read_keyset(under),
        floor,
        now=NOW,
        skew=SKEW,
    )
    return (None if chosen.release is None else chosen.release.seq), codes(chosen.notes)


def test_the_highest_release_is_the_newest(one: bytes) -> None:
    """In whatever order they come."""
    five, six, nine = (release(one, seq=seq) for seq in (5, 6, 9))

    assert newest([nine, five, six], one) == (9, [])
    assert newest([], one) == (None, [])
    assert newest([five, six], one, held=nine) == (9, ["statement.rollback"] * 2)
    assert newest([six], one, held=five) == (6, [])
    assert newest([five], one, held=five) == (5, [])


def test_what_speaks_under_another_keyset_is_left(one: bytes, two: bytes) -> None:
    """A release of the version before stays held, as what it is."""
    old, new = release(one, seq=9), release(two, seq=6)

    assert newest([old, new], two) == (6, ["statement.keyset"])
    assert newest([new], two, held=old) == (6, [])
    assert newest([old], two, held=old) == (9, [])
    assert newest([new], one) == (None, ["statement.keyset"])


def test_two_releases_of_one_number_are_a_fork(one: bytes) -> None:
    """Neither is believed, whatever comes first; what is held stays, and a higher one ends it."""
    mine, theirs = release(one, seq=6), release(one, seq=6, audit_head="0" * 64)

    for both in ([mine, theirs], [theirs, mine]):
        assert newest(both, one) == (None, ["statement.fork"])
        assert newest([release(one), *both], one) == (5, ["statement.fork"])
        assert newest(both, one, held=mine) == (6, ["statement.fork"])
        assert newest([*both, release(one, seq=7)], one) == (7, ["statement.fork"])


def test_a_bad_release_is_no_hindrance(one: bytes) -> None:
    """Neither by a stranger, nor of the future, nor one that revokes its signer."""
    bad = [
        release(one, "eve", seq=9),
        release(one, seq=8, iat=T0 + 301),
        release(one, seq=7, revoked=[thumbprint("rel")]),
    ]

    assert newest([*bad, release(one)], one) == (
        5,
        ["statement.revoked", "statement.not_yet", "statement.unsigned"],
    )


def test_a_release_below_a_floor(one: bytes) -> None:
    """Rollback below it, fork beside it; at it and above it all is well."""
    six = release(one, seq=6)
    floor = LockedRelease((1, 1, 6), digest_of(six))

    assert newest([release(one)], one, floor=floor) == (None, ["statement.rollback"])
    assert newest([release(one, seq=6, audit_head="0" * 64)], one, floor=floor) == (
        None,
        ["statement.fork"],
    )
    assert newest([six], one, floor=floor) == (6, [])
    assert newest([release(one, seq=7)], one, floor=floor) == (7, [])


def test_a_new_keyset_is_above_a_floor(one: bytes, two: bytes) -> None:
    """The floor of a thief's fast-forward ends with the version."""
    floor = LockedRelease((1, 1, 2**53 - 1), "0" * 64)

    assert newest([release(two)], two, floor=floor) == (5, [])
    assert newest([release(one)], one, floor=floor) == (None, ["statement.rollback"])


# ------------------------------------------------------------------ random histories


def reachable(anchor: KeysetId, statements: list[KeysetStatement]) -> set[str]:
    """Everything that some lawful steps lead to, found slowly: all pairs, until nothing is new."""
    found = {
        one.digest for one in statements if is_lawful(lambda one=one: check_first(one, anchor))
    }
    while True:
        more = {
            following.digest
            for held in statements
            if held.digest in found
            for following in statements
            if is_lawful(lambda: check_successor(held, following))  # noqa: B023
            or is_lawful(lambda: check_recovery(held, following))  # noqa: B023
        }
        if more <= found:
            return found
        found |= more


def is_lawful(check: Callable[[], object]) -> bool:
    """Whether a step refuses nothing."""
    try:
        check()
    except StatementRefused:
        return False
    return True


def number_of(statement: KeysetStatement) -> tuple[int, int]:
    """What statements are ordered by."""
    return statement.epoch, statement.version


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
    ends = [number_of(one) for one in readable if one.digest in lawful]
    assert trip.refused is None
    assert trip.number == max(ends, default=None)
    if trip.held is not None and trip.held.digest != digest_of(statements[-1]):
        before = statements[withheld - 1]
        assert trip.held.digest == digest_of(before)
