"""A key store that moved: one place signs, at no time two."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CardsignError, PassphraseFault
from cardsign.issuer.doctor import examine_store
from cardsign.keys import agenda
from cardsign.keys.store import KeyStore, move_store, open_store, read_place
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.elsewhere import fault, refusal
from tests.keys.states import FIRST, NOON, SECOND, after
from tests.publish.publications import failing_after

PASSPHRASE = b"correct horse battery staple"


@in_each_store
def test_the_new_place_signs_and_the_old_one_names_it(store: Any, tmp_path: Path) -> None:
    """Every command opens or loads the store, and is told where the new one is."""
    record = store.add(FIRST)
    new = move_store(store, tmp_path / "new", now=after(10))
    assert new.signer(new.state.find(record.kid), PASSPHRASE).public == FIRST.public
    assert new.state.moved_to is None
    commit = partial(store.commit, agenda.revoke, record.kid, reason="ceased", now=after(20))
    for attempt in (store.load, store.again, commit):
        assert refusal(attempt, match=str(tmp_path / "new")) == "keystore.moved"


@pytest.mark.needs_postgres
def test_a_store_moves_into_a_database(postgres: Any, store: Any) -> None:
    """The log goes on, and the message shows no password."""
    store.add(FIRST)
    place = read_place(postgres.new_url())
    new = move_store(store, place, now=after(10))
    lines = map(json.loads, new.read_lines())
    events = [event["event"] for line in lines for event in line["events"]]
    assert events == ["entered", "left", "left"]
    moved = fault(store.load)
    assert postgres.password not in f"{moved.message} {moved.hint}"
    assert moved.hint == f"Use the new one: --keystore '{place}'"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_move_that_was_cut_off_is_taken_up(store: Any, tmp_path: Path, failing: str) -> None:
    """Whatever was written last: the same call does what is left, and never do two sign."""
    record, place = store.add(FIRST), tmp_path / "new"
    for calls in range(40):
        with failing_after(calls, failing), suppress(CardsignError):
            move_store(open_store(store.path, moved=True), place, now=after(5))
        signing = []
        for path in (store.path, place):
            with suppress(CardsignError):
                signing.append(open_store(path).signer(record, PASSPHRASE))
        assert len(signing) <= 1
        if (place / "log.jsonl").exists() and open_store(place, moved=True).state.moved_to is None:
            break
    assert calls
    again = move_store(open_store(store.path, moved=True), place, now=after(10))
    assert again.state.moved_to is None
    assert [key.public for key in again.state.keys] == [FIRST.public]
    elsewhere = (move_store, store, tmp_path / "other")
    assert refusal(*elsewhere, now=NOON, match=str(place)) == "keystore.moved"


def test_a_place_that_is_taken_is_refused_and_nothing_is_marked(store: Any, tmp_path: Path) -> None:
    """By another store, also if the old one says that it moved there, and by a file."""
    record, taken, place = store.add(FIRST), tmp_path / "taken", tmp_path / "new"
    taken.write_text("something else")
    QuickStore(place).add(SECOND)
    for refused in (place, taken, taken / "below"):
        code = refusal(move_store, store, refused, now=NOON)
        assert code.partition(".")[0] == ("keystore" if refused is place else "file")
        assert store.load().moved_to is None
    assert store.signer(record, PASSPHRASE).public == FIRST.public
    store.commit(lambda _: [{"event": "left", "to": str(place.resolve())}], now=NOON, moved=True)
    assert refusal(move_store, store, place, now=NOON) == "keystore.moved"


def test_a_store_does_not_move_back_over_what_it_left(store: Any) -> None:
    """The old copy is named as what it is, and the store goes on where it is."""
    store.add(FIRST)
    new = move_store(store, store.path.with_name(f"{store.path.name}2"), now=after(10))
    refused = fault(move_store, new, store.path, now=after(20))
    assert (refused.code, "delete the old copy" in refused.hint) == ("keystore.exists", True)
    assert new.load().moved_to is None


def test_the_doctor_of_a_moved_store_names_what_a_thief_still_finds(
    store: Any, tmp_path: Path
) -> None:
    """The private keys, and how to destroy them; once they are gone, nobody has to act."""
    store.add(FIRST)
    move_store(store, tmp_path / "new", now=after(10))
    (alarm,) = examine_store(open_store(store.path, moved=True))
    assert (alarm.code, alarm.severity) == ("doctor.moved", "error")
    assert str(tmp_path / "new") in alarm.message
    assert f"delete {store.path / 'private'}/*.key" in alarm.fix
    for file in (store.path / "private").iterdir():
        file.unlink()
    (note,) = examine_store(open_store(store.path, moved=True))
    assert (note.code, note.severity, "private" in note.message) == ("doctor.moved", "note", False)


@pytest.mark.parametrize("killed", ["replace", "fsync"])
def test_a_new_passphrase_that_was_cut_off_leaves_every_key_openable(
    store: Any, killed: str
) -> None:
    """All keys open with the old one, or all with the new one."""
    records = [store.add(FIRST, roles=("release",)), store.add(SECOND)]
    new = b"another good one"
    for calls in range(20):
        with failing_after(calls, killed), suppress(CardsignError):
            store.change_passphrase(records, PASSPHRASE, new, now=after(calls))
        opened = [opens(store, PASSPHRASE), opens(store, new)]
        if opened[1] == {True}:
            break
        assert opened == [{True}, {False}]
    assert calls > 1
    assert opened == [{False}, {True}]


def opens(store: KeyStore, passphrase: bytes) -> set[bool]:
    """Whether a passphrase opens the keys of a store."""
    results = set[bool]()
    for record in store.load().keys:
        try:
            results.add(bool(store.signer(record, passphrase)))
        except PassphraseFault:
            results.add(False)
    return results
