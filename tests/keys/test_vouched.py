"""A state counts only if its log vouches for it, and a log only if it continues what was seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CardsignError
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.audit import SeenHeads
from cardsign.keys.doctor import examine_store
from cardsign.keys.lifecycle import DEFAULT_SETTINGS
from cardsign.keys.model import AuditHead, KeyRecord, StoreState, dump_state
from cardsign.keys.stores.directory import DirectoryStore
from cardsign.keys.stores.opening import seen_head
from tests.keys.conftest import Quick, in_each_store
from tests.keys.states import NOON, QUICK, after, cut, forge, public, published


def lived(store: Any, one: PrivateKey, two: PrivateKey) -> Any:
    """`one` is revoked, `two` active, `three` waits in outside custody; all were published."""
    for kid, private in (("one", one), ("two", two)):
        store.add(PrivateKey.from_pkcs8_der(private.to_pkcs8_der(), kid=kid), now=NOON)
    store.record_publication(published(after(9), ["one", "two"]), now=after(20))
    store.apply(lifecycle.activate, "two", now=after(220), settings=QUICK)
    store.apply(lifecycle.revoke, "one", reason="compromised", now=after(230))
    store.add_remote_key(public("three"), "exec:/usr/bin/sign", now=after(240), holder="ann")
    store.record_publication(published(after(241), ["two", "three"], generation=2), now=after(242))
    return store


def code_of(attempt: Callable[[], object]) -> str:
    """The code of what `attempt` raises; empty if it succeeds."""
    try:
        attempt()
    except CardsignError as exc:
        return exc.code
    return ""


def key(name: str, change: Callable[[KeyRecord], KeyRecord]) -> Callable[[StoreState], StoreState]:
    """The state with one key edited."""
    return lambda state: state.replacing([change(state.find(name))])


def unrevoked(record: KeyRecord) -> KeyRecord:
    """As if it had been retired in good order."""
    ended = record.at("retired", revoked=None, retired=after(225), stops_signing=after(225))
    return replace(ended, revoked_because=None)


def injected(state: StoreState) -> StoreState:
    """With a key that nobody has entered."""
    theirs = replace(state.find("three"), public=public("four"), custody="exec:/tmp/theirs")
    return state.with_key(theirs)


EDITS: dict[str, Callable[[StoreState], StoreState]] = {
    "a revoked key that is only retired": key("one", unrevoked),
    "a theft that is called a replacement": key(
        "one", lambda record: replace(record, revoked_because="superseded")
    ),
    "a key seen earlier than it was": key("three", lambda record: record.at(seen=after(1))),
    "a key in another custody": key("three", lambda record: replace(record, custody="exec:/t")),
    "a key with one more role": key(
        "three", lambda record: replace(record, roles=("root", "card"))
    ),
    "a key of another holder": key("three", lambda record: replace(record, holder="mallory")),
    "a key without its holder": key("three", lambda record: replace(record, holder=None)),
    "a key that nobody has entered": injected,
    "a key that is gone": lambda state: replace(state, keys=state.keys[1:]),
    "a publication that is gone": lambda state: replace(state, publications=()),
    "a release that nobody signed": lambda state: replace(
        state, statements=replace(state.statements, release_seq=9)
    ),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_state_that_was_edited_is_refused(store, es256, another_es256, edit) -> None:
    """By whatever opens it to sign, to publish or to change it; an edit that changes nothing is
    none, also if it is written in another way."""
    lived(store, es256, another_es256)
    file, state = store.path / "keystore.json", store.state
    file.write_text(json.dumps(json.loads(dump_state(state))))
    assert store.again().state == state

    file.write_bytes(dump_state(edit(state)))
    before = store.read_audit()

    assert code_of(store.again) == "keystore.audit_broken"
    assert code_of(store.load) == "keystore.audit_broken"
    assert code_of(lambda: store.add_remote_key(public("five"), "exec:/x", now=after(300)))
    assert (file.read_bytes(), store.read_audit()) == (dump_state(edit(state)), before)


@in_each_store
def test_a_state_that_nobody_has_edited_is_vouched_for(store, es256, another_es256) -> None:
    """After every kind of change."""
    lived(store, es256, another_es256)

    assert store.again().state == store.state


def test_a_state_of_another_generation_was_put_back(store, es256, another_es256) -> None:
    """Backwards or forwards."""
    lived(store, es256, another_es256)
    for step in (-1, 1):
        edited = replace(store.state, generation=store.state.generation + step)
        (store.path / "keystore.json").write_bytes(dump_state(edited))
        assert code_of(store.again) == "keystore.rolled_back"


def test_a_state_without_a_log_is_refused(store, es256) -> None:
    """Be it that the state names no line; a new store has none."""
    assert store.again().state == StoreState(0, ())
    store.add(es256)

    edited = replace(store.state, audit=AuditHead())
    (store.path / "keystore.json").write_bytes(dump_state(edited))

    assert code_of(store.again) == "keystore.audit_broken"


def test_a_log_that_was_cut_is_refused(store, es256, another_es256) -> None:
    """The newest line that counts is what vouches; a torn one after it hinders nobody."""
    lived(store, es256, another_es256)
    file, log = store.path / "audit.jsonl", store.read_audit()

    file.write_bytes(log + b'{"half": ')
    assert code_of(store.again) == ""
    for lines in (0, 1, len(log.splitlines()) - 1):
        file.write_bytes(cut(log, lines))
        assert code_of(store.again) == "keystore.audit_broken"


def test_the_newest_line_is_found_behind_many_attempts(store, es256) -> None:
    """The end of the log that is read first may hold nothing but lines of killed processes."""
    store.add(es256)
    with (store.path / "audit.jsonl").open("ab") as log:
        log.write(b'{"attempt": "that came to nothing"}\n' * 20_000)

    assert code_of(store.again) == ""


def test_the_log_of_another_store_vouches_for_nothing(
    store, es256, another_es256, tmp_path
) -> None:
    """Nor does the state of another store."""
    other = type(store).create(tmp_path / "other")
    store.add(es256)
    other.add(another_es256)

    (store.path / "audit.jsonl").write_bytes(other.read_audit())

    assert code_of(store.again) == "keystore.audit_broken"


def test_doctor_tells_all_the_same(store, es256, another_es256) -> None:
    """An alarm, and none for the store as it was."""

    def alarms() -> list[str]:
        again = DirectoryStore.open(store.path, vouched=False)
        found = examine_store(again, settings=DEFAULT_SETTINGS, now=after(400))
        return [one.code for one in found if one.code.startswith("keystore.")]

    lived(store, es256, another_es256)
    assert alarms() == []
    edited = EDITS["a key of another holder"](store.state)
    (store.path / "keystore.json").write_bytes(dump_state(edited))
    assert alarms() == ["keystore.audit_broken"]


# --- what this user saw before ------------------------------------------------------------


class SeenStore(Quick, DirectoryStore):
    """A store that is remembered."""


@pytest.fixture
def told() -> list[str]:
    """What the user is told."""
    return []


@pytest.fixture
def seen(tmp_path: Path, told: list[str]) -> SeenHeads:
    """What the user has seen of the store in `keys`."""
    found = seen_head(tmp_path / "keys", SeenHeads(tmp_path / "state", told.append))
    assert found is not None
    return found


@pytest.fixture
def watched(tmp_path: Path, seen: SeenHeads, es256: PrivateKey) -> SeenStore:
    """A store whose every change its user has made."""
    store = SeenStore.create(tmp_path / "keys", seen=seen)
    store.add(es256)
    return store


def opened(store: DirectoryStore) -> Callable[[], object]:
    return lambda: DirectoryStore.open(store.path, seen=store.seen)


def without_holder(state: StoreState) -> StoreState:
    return state.replacing([replace(state.keys[0], holder="mallory")])


def test_state_and_log_that_were_edited_together_are_refused(watched, another_es256) -> None:
    """From its first line on, or from any other; who has never seen the store cannot tell."""
    watched.add(another_es256)
    lines = watched.state.audit.seq
    for kept in range(lines):
        forge(watched, without_holder, kept)
        assert code_of(opened(watched)) == "keystore.other_history"
        assert code_of(lambda: DirectoryStore.open(watched.path)) == ""
        assert code_of(lambda: watched.add_remote_key(public("x"), "exec:/x", now=after(9)))


def test_what_continues_the_log_that_was_seen_is_accepted(watched, another_es256, seen) -> None:
    """The twin: other users and machines commit as well, by git or on one file system."""
    elsewhere = DirectoryStore.open(watched.path)
    for name in ("a", "b", "c"):
        elsewhere.add_remote_key(public(name), "exec:/x", now=after(9))
    known = seen.read()

    assert code_of(opened(watched)) == ""
    assert known.seq < seen.read().seq == elsewhere.state.audit.seq


def test_a_store_that_was_put_back_whole_is_refused(watched, another_es256) -> None:
    """State and log of an earlier day agree; the user has seen a later one."""
    files = [watched.path / name for name in ("keystore.json", "audit.jsonl")]
    earlier = [file.read_bytes() for file in files]
    watched.add(another_es256)
    later = [file.read_bytes() for file in files]

    for contents, code in ((earlier, "keystore.other_history"), (later, "")):
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        assert code_of(opened(watched)) == code


@pytest.mark.parametrize("files", [["keystore.json"], ["keystore.json", "audit.jsonl"]])
def test_doctor_removes_no_key_by_the_word_of_a_store_that_was_put_back(
    watched, another_es256, files: list[str]
) -> None:
    """An older state names fewer keys: the newer ones are genuine, and stay."""
    places = [watched.path / name for name in files]
    earlier = [place.read_bytes() for place in places]
    record = watched.add(another_es256)
    later = [place.read_bytes() for place in places]

    for place, content in zip(places, earlier, strict=True):
        place.write_bytes(content)
    found = examined(watched, fix=True)
    assert "keystore.other_history" in found
    assert "doctor.leftover" not in found

    for place, content in zip(places, later, strict=True):
        place.write_bytes(content)
    assert {"doctor.private_missing", "doctor.leftover"}.isdisjoint(examined(watched))
    assert watched.private_keys() >= {record.thumbprint}


def test_a_private_key_of_nobody_is_still_removed(watched) -> None:
    """The twin: the log vouches for a state that does not name it."""
    stray = watched.path / "private" / f"{'A' * 43}.key"
    stray.parent.mkdir(mode=0o700, exist_ok=True)
    stray.write_bytes(b"{")
    assert "doctor.leftover" in examined(watched)
    examined(watched, fix=True)
    assert not stray.exists()


def examined(store: DirectoryStore, *, fix: bool = False) -> set[str]:
    """The codes of what doctor finds."""
    opened = DirectoryStore.open(store.path, seen=store.seen, vouched=False)
    found = examine_store(opened, settings=DEFAULT_SETTINGS, now=after(9), fix=fix)
    return {finding.code for finding in found}


def test_a_store_that_was_emptied_is_refused(watched) -> None:
    """A new store's state, and no log."""
    (watched.path / "keystore.json").write_bytes(dump_state(StoreState(0, ())))
    (watched.path / "audit.jsonl").unlink()

    assert code_of(opened(watched)) == "keystore.other_history"


def test_another_store_in_its_place_is_refused(watched, tmp_path, another_es256) -> None:
    """With state, log and private keys of its own; a store made here by the user begins anew."""
    other = SeenStore.create(tmp_path / "other")
    other.add(another_es256)
    other.path.rename(tmp_path / "theirs")
    watched.path.rename(tmp_path / "mine")
    (tmp_path / "theirs").rename(watched.path)
    assert code_of(opened(watched)) == "keystore.other_history"

    watched.path.rename(tmp_path / "theirs")
    again = SeenStore.create(watched.path, seen=watched.seen)
    again.add(another_es256)
    assert code_of(opened(again)) == ""


def test_a_store_is_known_by_whatever_path_it_is_named(watched, tmp_path, told) -> None:
    """Links and relative paths are followed; a moved store is seen for the first time."""
    (tmp_path / "link").symlink_to(watched.path)
    heads = SeenHeads(tmp_path / "state", told.append)
    files = {
        seen_head(place, heads).file
        for place in (watched.path, tmp_path / "link", watched.path / ".." / "keys")
    }

    assert files == {watched.seen.file}
    assert seen_head(tmp_path / "moved", heads).file not in files


def test_a_home_that_takes_nothing_is_told_and_hinders_nobody(tmp_path, told, es256) -> None:
    """Once for each command."""
    (tmp_path / "state").write_text("no folder")
    seen = seen_head(tmp_path / "keys", SeenHeads(tmp_path / "state", told.append))

    store = SeenStore.create(tmp_path / "keys", seen=seen)
    store.add(es256)

    assert code_of(opened(store)) == ""
    assert len(told) == 1
    assert "file." in told[0]


def test_a_file_of_heads_that_is_not_ours_is_refused(watched) -> None:
    """It may be that of another store; the path is in the error."""
    document = json.loads(watched.seen.file.read_bytes())
    for changed in ({**document, "store": "/elsewhere"}, {**document, "more": 1}, {}):
        watched.seen.file.write_text(json.dumps(changed))
        assert code_of(opened(watched)) == "keystore.corrupt"


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/cardsign/keystores"),
        ({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/cardsign/keystores"),
        ({"HOME": "/h"}, "/h/.local/state/cardsign/keystores"),
        ({}, None),
    ],
)
def test_heads_lie_in_the_users_own_state_folder(environment, folder) -> None:
    """By the XDG rules; without a home nothing is remembered."""
    found = SeenHeads.find(environment, print)

    assert (found and found.folder) == (folder and Path(folder))
