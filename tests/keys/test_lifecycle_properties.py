"""Whatever is done with a store's keys in whatever order: no state that must not be.

Each wait is held against a plain definition that looks at the whole history, slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cardsign.keys import agenda
from cardsign.keys.agenda import steps, take
from cardsign.keys.ledger import (
    TRANSITIONS,
    Event,
    HeldStatement,
    KeyRecord,
    KeyTimes,
    Publication,
    StoreState,
    custody_group,
    read_line,
    write_line,
)
from cardsign.statements.keyset import KeysetId
from tests.keys.states import BLOB, EMPTY, NOON, QUICK, public, published

CACHES = timedelta(seconds=210)
CARDS = timedelta(seconds=60)
MARKS = ("seen", "relieved", "dropped")
CUSTODIES = (None, None, "exec:/usr/local/bin/sign")
PLACES = ("https://a.example/", "https://b.example/")

which = st.integers(0, 5)
commands = st.one_of(
    st.tuples(st.just("enter"), st.sampled_from(CUSTODIES)),
    st.tuples(st.just("revoke"), which, st.sampled_from(["compromised", "ceased"])),
    st.tuples(st.just("publish"), st.sampled_from(PLACES), st.integers(0, 5)),
    st.tuples(st.just("publish"), st.just(PLACES[0]), st.just(0)),
    st.tuples(st.just("withdraw"), st.sampled_from(PLACES)),
    st.tuples(st.just("tick"), st.booleans()),
    st.tuples(st.just("keyset"), which),
)
pauses = st.sampled_from([0, 1, 49, 60, 61, 209, 210, 211, 260, 1000])
#: Chance alone hardly ever retires a key; parts of this are strewn in.
ROTATION: list[tuple[int, tuple[Any, ...]]] = [
    (1, ("enter", None)),
    (1, ("publish", PLACES[0], 0)),
    (210, ("tick", True)),
    (1, ("publish", PLACES[0], 0)),
    (270, ("publish", PLACES[0], 0)),
    (61, ("tick", True)),
    (1, ("publish", PLACES[0], 0)),
    (210, ("tick", True)),
]
parts = st.integers(2, len(ROTATION)).map(lambda end: ROTATION[:end])
strewn = st.lists(st.tuples(pauses, commands), max_size=3)
histories = st.lists(st.one_of(parts, strewn), max_size=20).map(
    lambda chunks: [one for chunk in chunks for one in chunk]
)


@dataclass(frozen=True)
class Moment:
    """How things stood after a command that changed something."""

    at: datetime
    published: tuple[Publication, ...]
    state: StoreState

    def all_hold(self, kid: str) -> bool:
        """Every newest publication has the key."""
        return bool(self.published) and all(kid in one.kids for one in self.published)

    def all_resigned(self, kid: str) -> bool:
        """Every newest card is signed by a key that is active in the place of a retiring one, and
        none by that one."""
        key = self.state.find(kid)
        active = {k.kid for k in self.state.keys if k.state == "active" and k.succeeds(key)}
        cards = [card for one in self.published for card in one.cards]
        return (
            key.state == "retiring"
            and bool(cards)
            and all(active & {*c.kids} and kid not in c.kids for c in cards)
        )


@dataclass
class History:
    """A store's state, and everything that ever happened to it."""

    state: StoreState = EMPTY
    now: datetime = NOON
    newest: dict[str, Publication] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    log: list[bytes] = field(default_factory=list)

    def key(self, index: int) -> KeyRecord | None:
        """One of the keys, if there are any."""
        return self.state.keys[index % len(self.state.keys)] if self.state.keys else None

    def note(self, events: list[Event]) -> None:
        """Go on from a new state, which is committed with its line of the log."""
        if events:
            line = write_line(self.state, events, self.now, "ann@host")
            self.state, _ = read_line(self.state, line, "log")
            self.log.append(line)
        self.moments.append(Moment(self.now, tuple(self.newest.values()), self.state))

    def held_for(self, holds: Callable[[Moment], bool], span: timedelta) -> bool:
        """Whether something has been true without a break for that long."""
        start = None
        for moment in self.moments:
            start = (start or moment.at) if holds(moment) else None
        return start is not None and start + span <= self.now


def plainly_lawful(history: History, key: KeyRecord, step: str) -> bool:
    """Whether a step is lawful, by the words of the documentation."""
    kid, state = key.kid, history.state
    if step == "activate":
        stolen = [k for k in state.keys if k.revoked_because == "compromised"]
        suspect = any(k.custody[:4] == key.custody[:4] for k in stolen)
        rival = any(k.state == "active" for k in state.keys)
        seen = history.held_for(lambda m: kid in names(m) and m.all_hold(kid), CACHES)
        return key.state == "prepublished" and not suspect and (seen or not rival)
    done = key.times.stops_signing is not None and key.times.stops_signing <= history.now
    resigned = history.held_for(lambda m: kid in names(m) and m.all_resigned(kid), CARDS)
    return key.state == "retiring" and done and resigned


def names(moment: Moment) -> frozenset[str]:
    """The keys that there were."""
    return moment.state.ever_held_kids()


def carry_out(history: History, command: tuple[Any, ...]) -> None:
    """Carry a command out, and compare whether it was lawful with the plain definition."""
    name, *rest = command
    state, now = history.state, history.now
    if name == "enter":
        if len(state.keys) < 6:
            new = public(f"key {len(state.keys)}")
            how = {"custody": rest[0]} if rest[0] else {"custody": "file:one", "blob": BLOB}
            if custody_group(str(how["custody"])) not in state.stolen:
                history.note(agenda.enter(state, new, **how))
    elif name == "publish":
        publish(history, *rest)
    elif name == "withdraw":
        (place,) = {*PLACES} - {rest[0]}
        publish(history, place, 0, replaced=history.newest.get(rest[0]))
    elif name == "keyset":
        keep_keyset(history, rest[0])
    elif name == "tick":
        settings = replace(QUICK, rotate_every=0) if rest[0] else QUICK
        step = next(iter(steps(state, settings, now)), None)
        if step is not None and step.is_due(now):
            history.note(take(state, step, QUICK, now))
    elif key := history.key(rest[0]):
        history.note(agenda.revoke(state, key.kid, reason=rest[1]))


def check_steps(history: History) -> None:
    """Every step that is due is lawful by the plain definition, and what must end is due."""
    found = steps(history.state, replace(QUICK, rotate_every=0), history.now)
    due = {(step.action, step.key) for step in found if step.is_due(history.now)}
    for action, key in due:
        assert key is None or plainly_lawful(history, key, action), (action, key)
    for key in history.state.keys:
        assert not plainly_lawful(history, key, "retire") or ("retire", key) in due, key


def keep_keyset(history: History, omitted: int) -> None:
    """The roots list every key but one that does not sign yet."""
    keys = history.state.keys
    listed = {key.thumbprint for key in keys if key.kid != f"key {omitted}"}
    version = (history.state.keyset or KeysetId(1, 0, "")).version + 1
    held = HeldStatement((1, version), f"{version:064}", BLOB)
    history.listed |= listed
    history.note(agenda.keep_keyset(history.state, held, listed))


def publish(
    history: History, place: str, omitted: int, replaced: Publication | None = None
) -> None:
    """Publish the key set, now and then without one of its keys, signed by those that sign."""
    kids = [key.kid for key in history.state.published_keys()]
    if omitted:
        kids = [kid for kid in kids if kid != f"key {omitted}"]
    signers = [key.kid for key in history.state.signing_keys(history.now) if key.kid in kids]
    one = published(history.now, kids, signers, series=place, generation=len(history.moments))
    events = agenda.record_publication(history.state, one, replaced=replaced)
    if events:
        history.newest.pop(place, None)
        history.newest.pop(replaced.series if replaced else place, None)
        history.newest[place] = one
        history.note(events)


def check_invariants(before: StoreState, after: StoreState) -> None:
    """What holds of every state, and of every two that follow one another."""
    assert len(after.active_keys()) <= 1
    for old, new in zip(before.keys, after.keys, strict=False):
        assert old.thumbprint == new.thumbprint
        assert new.state == old.state or new.state in reachable(old.state)
        assert not (old.private == "destroyed" and new.private != "destroyed")
        assert (new.private == "held") is (new.blob is not None and can_be_needed(new))
        for name in (one.name for one in fields(KeyTimes) if one.name not in MARKS):
            was = getattr(old.times, name)
            assert was is None or was == getattr(new.times, name)
        if new.state in ("retired", "revoked"):
            assert not new.signs_at(NOON)
            assert new not in after.published_keys()


def can_be_needed(key: KeyRecord) -> bool:
    """Whether a sealed key is kept: to sign, or to know its passphrase again."""
    return key.times.retired is None


def reachable(state: str) -> set[str]:
    """The states into which a key may still come."""
    found: set[str] = set()
    for one in reversed(TRANSITIONS):
        if one == state:
            found.update(TRANSITIONS[one])
            for way in TRANSITIONS[one]:
                found |= reachable(way)
    return found


@given(histories)
def test_no_history_leads_to_an_unlawful_state(history):
    """One active key, nothing comes back, every wait runs from a record; no step is refused that
    the plain definition allows; and the log tells of each state just what it says."""
    story = History()
    for pause, command in history:
        story.now += timedelta(seconds=pause)
        before = story.state
        carry_out(story, command)
        check_steps(story)
        check_invariants(before, story.state)
        for old, new in zip(before.keys, story.state.keys, strict=False):
            if (old.state, new.state) == ("generated", "prepublished"):
                assert new.thumbprint in story.listed
    replayed = EMPTY
    for line in story.log:
        replayed, _ = read_line(replayed, line, "log")
    assert replayed == story.state
