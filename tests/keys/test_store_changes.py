"""Changes of a store: each is committed with its line of the log, or not at all."""

from __future__ import annotations

import contextlib

import pytest

from cardsign.errors import FileFault, StoreFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.audit import verify_chain
from cardsign.keys.lifecycle import TimelineSettings
from cardsign.keys.stores.base import KeyStore
from tests.keys.conftest import in_each_store
from tests.keys.states import NOON, QUICK, after, published

AT_ONCE = TimelineSettings(0, 0, 0, 0, 0)


@pytest.fixture
def pair(store, es256, another_es256):
    """`one` is active, `two` prepublished, both published."""
    for kid, private in (("one", es256), ("two", another_es256)):
        store.add(PrivateKey.from_pkcs8_der(private.to_pkcs8_der(), kid=kid), now=NOON)
    store.record_publication(published(NOON, ["one", "two"]), now=NOON)
    return store


def events(store: KeyStore) -> list[str]:
    """What the log says has happened."""
    lines, _, aborted = verify_chain(store.read_audit(), store.load().audit, where="log")
    assert aborted == 0
    return [line.event for line in lines]


def private_keys(store: KeyStore) -> list[str]:
    """Of which keys the store has the private key."""
    found = []
    for key in store.load().keys:
        with contextlib.suppress(FileFault):
            store.read_private(key.thumbprint)
            found.append(key.thumbprint)
    return found


@in_each_store
def test_a_whole_life_is_kept_and_logged(pair):
    """From the disk, at each step."""
    pair.apply(lifecycle.activate, "two", now=after(210), settings=QUICK)
    two = pair.state.find("two")
    pair.record_publication(published(after(220), ["one", "two"]), now=after(220))
    pair.record_publication(published(after(470), ["one", "two"], ["two"]), now=after(470))
    pair.apply(lifecycle.retire, "one", now=after(530), settings=QUICK)
    pair.record_publication(published(after(540), ["two"]), now=after(540))
    one = pair.destroy("one", now=after(750), settings=QUICK)

    assert pair.again().state == pair.state
    assert (one.private, one.state, two.state) == ("destroyed", "retired", "active")
    assert private_keys(pair) == [two.thumbprint]
    assert events(pair) == [
        *("key-entered", "key-entered", "publication-recorded"),
        *("key-activated", "key-retiring", "publication-recorded"),
        *("publication-recorded", "key-retired", "publication-recorded", "key-destroyed"),
    ]


@in_each_store
def test_revoking_and_withdrawing_are_logged_as_well(pair):
    """With the reason."""
    pair.apply(
        lifecycle.revoke, "one", reason="compromised", now=after(1), same_custody_accepted=True
    )
    pair.apply(lifecycle.withdraw, "https://tides.example/a2a", now=after(2))

    assert events(pair)[3:] == ["key-revoked", "key-activated", "publication-withdrawn"]
    assert [key.kid for key in pair.state.signing_keys(after(3))] == ["two"]


@in_each_store
def test_what_is_refused_changes_nothing(pair):
    """Neither state nor log."""
    before = (pair.load(), pair.read_audit(), private_keys(pair))

    for attempt in (
        lambda: pair.apply(lifecycle.activate, "two", now=after(209), settings=QUICK),
        lambda: pair.apply(lifecycle.retire, "one", now=after(10**6), settings=QUICK),
        lambda: pair.destroy("one", now=after(10**6), settings=QUICK),
    ):
        with pytest.raises(StoreFault):
            attempt()

    assert before == (pair.load(), pair.read_audit(), private_keys(pair))


@in_each_store
def test_a_publication_that_is_recorded_is_not_committed_again(pair):
    """So a publishing loop does not fill the log."""
    generation = pair.load().generation
    pair.record_publication(published(NOON, ["one", "two"]), now=after(5))

    assert pair.load().generation == generation


@in_each_store
def test_a_tick_takes_one_due_step_and_then_none(pair):
    """However often it comes."""
    assert pair.tick(now=after(900), settings=QUICK) is None

    step = pair.tick(now=after(1000), settings=QUICK)

    assert step is not None
    assert (step.action, step.key and step.key.kid) == ("activate", "two")
    assert [pair.tick(now=after(1000), settings=QUICK) for _ in range(3)] == [None] * 3


@in_each_store
def test_a_tick_destroys_what_is_over(pair):
    """The file goes as well."""
    pair.apply(lifecycle.revoke, "one", reason="ceased", now=after(1))
    pair.record_publication(published(after(2), ["two"]), now=after(2))

    step = pair.tick(now=after(52), settings=AT_ONCE)

    assert step is not None
    assert step.action == "destroy"
    assert len(private_keys(pair)) == 1


@in_each_store
def test_a_decision_from_an_old_state_is_made_anew(pair, monkeypatch):
    """Somebody commits between our reading and our writing."""
    other, real = pair.again(), pair.load
    calls = []

    def overtaken():
        state = real()
        if not calls:
            calls.append(1)
            other.record_publication(published(after(300), ["two", "one"]), now=after(300))
        return state

    with monkeypatch.context() as patch:
        patch.setattr(type(pair), "load", lambda self: overtaken() if self is pair else real())
        pair.apply(lifecycle.activate, "two", now=after(210), settings=QUICK)

    assert (pair.state.generation, len(pair.state.publications)) == (5, 2)


@in_each_store
def test_a_store_that_others_change_without_end_is_busy(pair, monkeypatch):
    """We give up, and say why."""

    def changed(*arguments, **named):
        raise StoreFault("keystore.changed", "somebody was faster")

    monkeypatch.setattr(type(pair), "commit", changed)

    with pytest.raises(StoreFault) as caught:
        pair.apply(lifecycle.revoke, "one", reason="ceased", now=after(1))

    assert caught.value.code == "file.busy"


def test_a_log_that_is_a_link_is_not_written_through(pair, tmp_path):
    """It would add lines to a file of somebody's choice."""
    log = pair.path / "audit.jsonl"
    log.rename(tmp_path / "elsewhere")
    log.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()

    with pytest.raises(FileFault):
        pair.apply(lifecycle.revoke, "one", reason="ceased", now=after(1))

    assert (tmp_path / "elsewhere").read_bytes() == before
    assert pair.load().find("one").state == "active"


def test_a_torn_line_does_not_spoil_the_next_one(pair):
    """An append was killed half-way."""
    with open(pair.path / "audit.jsonl", "ab") as log:
        log.write(b'{"actor":"')

    pair.apply(lifecycle.revoke, "one", reason="ceased", now=after(1))

    lines, _, aborted = verify_chain(pair.read_audit(), pair.load().audit, where="log")
    assert (len(lines), aborted) == (5, 1)


@in_each_store
def test_a_store_elsewhere_needs_only_the_primitives(pair):
    """The protocol is what the operations call."""
    kept: KeyStore = pair

    assert kept.load() == pair.state
    assert kept.read_private(pair.state.find("one").thumbprint).startswith(b"{")
    assert lifecycle.withdraw(kept.load(), "https://tides.example/a2a", now=NOON)
