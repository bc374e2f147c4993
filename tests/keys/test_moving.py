"""A key store that moved: one place signs, at no time two."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CardsignError, FileFault, StoreFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.address import parse_database_url
from cardsign.keys.doctor import examine_store
from cardsign.keys.folder import FolderStore
from cardsign.keys.model import private_blob
from cardsign.keys.opening import move_store, open_store
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.states import NOON, after

PASSPHRASE = b"correct horse battery staple"


append = FolderStore.append


def leave(store: Any, to: str) -> None:
    """Mark a store as moved, as a move does that is then cut off."""
    store.commit(lambda _: [{"event": "left", "to": to}], now=NOON)


def refusal(attempt: Any) -> StoreFault:
    """What the attempt is refused with."""
    with pytest.raises(StoreFault) as caught:
        attempt()
    return caught.value


@in_each_store
def test_the_new_place_signs_and_the_old_one_names_it(
    store: Any, es256: PrivateKey, tmp_path: Path
) -> None:
    """Every command opens or loads the store, and is told where the new one is."""
    record = store.add(es256)
    old = store.url if hasattr(store, "url") else store.path
    new = move_store(store, tmp_path / "new", now=after(10))

    assert new.signer(new.state.find(record.kid), PASSPHRASE).public == es256.public
    assert new.state.moved_to is None
    new.apply(lifecycle.revoke, record.kid, reason="ceased", now=after(20))
    for attempt in (
        store.load,
        lambda: open_store(old),
        lambda: store.apply(lifecycle.revoke, record.kid, reason="ceased", now=after(20)),
        lambda: store.add(PrivateKey.generate("ES256")),
    ):
        fault = refusal(attempt)
        assert (fault.code, str(tmp_path / "new") in fault.message) == ("keystore.moved", True)
    found = examine_store(store)
    assert [(one.code, one.severity) for one in found] == [("doctor.moved", "error")]


@pytest.mark.needs_postgres
def test_a_store_moves_into_a_database(
    postgres: Any, store: Any, es256: PrivateKey, tmp_path: Path
) -> None:
    """The log goes on, and the message shows no password."""
    store.add(es256)
    url = postgres.new_url()
    new = move_store(store, parse_database_url(url), now=after(10))

    events = [event["event"] for line in new.read_log() for event in line.events]
    assert events == ["entered", "left", "left"]
    fault = refusal(store.load)
    assert postgres.password not in f"{fault.message} {fault.hint}"
    named = parse_database_url(url).to_file()
    assert f"moved to {named};" in fault.message
    assert fault.hint == f"Use the new one: --keystore {named}."
    assert parse_database_url(named).username == parse_database_url(url).username


@pytest.mark.parametrize("cut", ["before it is there", "after it is there"])
def test_a_move_that_was_cut_off_is_taken_up(
    store: Any, es256: PrivateKey, tmp_path: Path, cut: str
) -> None:
    """The old store is marked first; the same call on it does what is left."""
    store.add(es256)
    place = tmp_path / "new"
    if cut == "before it is there":
        leave(store, str(place.resolve()))
    else:
        move_store(store, place, now=after(5))
    again = move_store(open_store(store.path, moved=True), place, now=after(10))

    assert again.state.moved_to is None
    assert [key.public for key in again.state.keys] == [es256.public]


def test_a_taken_place_is_refused_and_nothing_is_marked(
    store: Any, es256: PrivateKey, another_es256: PrivateKey, tmp_path: Path
) -> None:
    """Another store there is kept, also if the old one says that it moved there."""
    store.add(es256)
    QuickStore(tmp_path / "new").add(another_es256)

    assert refusal(lambda: move_store(store, tmp_path / "new", now=NOON)).code == "keystore.exists"
    assert store.load().moved_to is None
    leave(store, str((tmp_path / "new").resolve()))
    assert refusal(lambda: move_store(store, tmp_path / "new", now=NOON)).code == "keystore.exists"


@pytest.mark.parametrize("hindrance", ["a file", "a file above", "a full disk"])
def test_a_move_to_where_nothing_can_be_leaves_the_store_as_it_was(
    store: Any, es256: PrivateKey, tmp_path: Path, hindrance: str, monkeypatch: Any
) -> None:
    """The old one goes on, and may move elsewhere: there is no other store."""
    record = store.add(es256)
    (tmp_path / "taken").write_text("something else")
    place = tmp_path / "taken" / ("below" if hindrance == "a file above" else "")
    with monkeypatch.context() as patch:
        if hindrance == "a full disk":
            place = tmp_path / "full"
            patch.setattr(FolderStore, "append", full)
        with pytest.raises(FileFault):
            move_store(store, place, now=after(5))
    assert store.load().moved_to is None
    assert store.signer(record, PASSPHRASE).public == es256.public
    new = move_store(store, tmp_path / "new", now=after(10))
    assert [key.public for key in new.state.keys] == [es256.public]
    assert refusal(store.load).code == "keystore.moved"


def full(store: Any, *_: Any) -> bool:
    """As where the new place has no room."""
    if store.path.name == "keys":
        return bool(append(store, *_))
    raise FileFault("file.unwritable", "no space left on device")


def test_a_mark_of_an_earlier_call_stays_where_the_place_is_gone(
    store: Any, es256: PrivateKey, tmp_path: Path
) -> None:
    """There may be a store on a disk that is not mounted now: two would sign."""
    store.add(es256)
    (tmp_path / "not").touch()
    gone = tmp_path / "not" / "mounted"
    leave(store, str(gone))
    marked = open_store(store.path, moved=True)
    with pytest.raises(FileFault):
        move_store(marked, gone, now=after(5))
    assert refusal(store.load).code == "keystore.moved"


@pytest.mark.parametrize("inside", ["new", "private/new", "../keys/new"])
def test_a_store_does_not_move_into_its_own_folder(
    store: Any, es256: PrivateKey, tmp_path: Path, inside: str
) -> None:
    """Who then deletes the old one would delete the new one; nothing is marked."""
    store.add(es256)
    folder = store.path / inside.replace("../keys", f"../{store.path.name}")

    assert refusal(lambda: move_store(store, folder, now=NOON)).code == "usage.conflict"
    assert store.load().moved_to is None
    beside = store.path.with_name(f"{store.path.name}2")
    assert move_store(store, beside, now=NOON).state.moved_to is None


def test_the_doctor_of_a_moved_store_names_what_a_thief_still_finds(
    store: Any, es256: PrivateKey, tmp_path: Path
) -> None:
    """The private keys, and how to destroy them; once they are gone, nobody has to act."""
    store.add(es256)
    move_store(store, tmp_path / "new", now=after(10))

    def told() -> tuple[str, str, str]:
        moved = open_store(store.path, moved=True)
        (one,) = examine_store(moved)
        return one.code, one.severity, one.message

    code, level, message = told()
    assert (code, level) == ("doctor.moved", "error")
    assert str(tmp_path / "new") in message
    assert "its private keys (1) still lie here, encrypted" in message
    assert f"delete {store.path / 'private'}/*.key" in message

    for file in (store.path / "private").iterdir():
        file.unlink()
    code, level, message = told()
    assert (code, level) == ("doctor.moved", "note")
    assert "private" not in message


def test_a_store_moves_to_one_place(store: Any, es256: PrivateKey, tmp_path: Path) -> None:
    """Else two would sign."""
    store.add(es256)
    leave(store, "other-host:/srv/keys")
    attempt = lambda: move_store(store, tmp_path / "new", now=NOON)  # noqa: E731

    assert "other-host:/srv/keys" in refusal(attempt).message


def test_a_key_file_that_holds_another_key_moves_nowhere(
    store: Any, es256: PrivateKey, another_es256: PrivateKey, tmp_path: Path
) -> None:
    """It would be found only when the key is to sign; the store stays where it is."""
    one, other = store.add(es256), store.add(another_es256)
    files = [store.path / private_blob(record.blob) for record in (one, other)]
    files[0].write_bytes(files[1].read_bytes())

    fault = refusal(lambda: move_store(store, tmp_path / "new", now=NOON))
    assert (fault.code, fault.path) == ("keystore.corrupt", str(files[0]))
    assert store.load().moved_to is None
    assert not (tmp_path / "new").exists()


def test_an_encrypted_store_works_after_a_checkout(
    store: Any, es256: PrivateKey, another_es256: PrivateKey, tmp_path: Path
) -> None:
    """git keeps neither empty folders nor mode 0600, and leaves out the empty lock file."""
    store.add(es256)
    clone = tmp_path / "clone"
    for file in sorted(store.path.rglob("*")):
        if file.is_file() and file.stat().st_size:
            target = clone / file.relative_to(store.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o644)
    checked_out = QuickStore(clone)
    checked_out.load()

    record = checked_out.state.keys[0]
    assert checked_out.signer(record, PASSPHRASE).public == es256.public
    checked_out.add(another_es256)
    changed = checked_out.change_passphrase([record], PASSPHRASE, b"another good one", now=after(9))
    assert changed == (record,)
    found = examine_store(checked_out, fix=True)
    assert not [one for one in found if one.severity == "error"]
    assert move_store(checked_out, tmp_path / "new", now=after(11)).state.keys


@pytest.mark.parametrize("killed", ["replace", "fsync"])
def test_a_new_passphrase_that_was_cut_off_leaves_every_key_openable(
    store: Any, es256: PrivateKey, another_es256: PrivateKey, monkeypatch: Any, killed: str
) -> None:
    """All keys open with the old one, or all with the new one."""
    records = [store.add(es256, roles=("release",)), store.add(another_es256)]
    new, real = b"another good one", getattr(os, killed)
    for calls in range(20):
        left = iter(range(calls))

        def failing(*arguments: Any, left: Any = left, **named: Any) -> Any:
            if next(left, None) is None:
                raise OSError(28, "disk full")
            return real(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(os, killed, failing)
            with suppress(CardsignError):
                store.change_passphrase(records, PASSPHRASE, new, now=after(calls))
        opened = {
            one: {code_of(store, store.load().find(record.kid), one) for record in records}
            for one in (PASSPHRASE, new)
        }
        if opened[new] == {""}:
            break
        assert opened == {PASSPHRASE: {""}, new: {"passphrase.wrong"}}
    assert calls > 1
    assert opened == {PASSPHRASE: {"passphrase.wrong"}, new: {""}}
    assert store.change_passphrase(store.state.keys, PASSPHRASE, new, now=after(99)) == ()


def code_of(store: Any, record: Any, passphrase: bytes) -> str:
    """Why a passphrase does not open a key; empty if it does."""
    try:
        store.signer(record, passphrase)
    except CardsignError as exc:
        return exc.code
    return ""
