"""A key store, in files and in a database: what is committed is whole, and nobody's edit counts."""

from __future__ import annotations

import errno
import json
import os
import stat
from copy import copy
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cardsign.errors import FileFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import private_blob
from cardsign.keys.signers import check_possession
from cardsign.keys.store import FolderStore, StoreUser, create_store, open_store
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.elsewhere import refusal
from tests.keys.states import NOON, after, public

PASSPHRASE = b"correct horse battery staple"
NEXT = b"another one altogether"


@in_each_store
def test_what_was_committed_is_read_by_the_next_process(
    store: Any, es256: PrivateKey, rs256: PrivateKey
) -> None:
    """Keys with their kids, holders and times, and private keys that sign."""
    store.add(es256, holder="ann")
    store.add(rs256, roles=("release",), now=after(7.9))
    again = store.again()
    assert again.state == store.state
    first, second = again.state.keys
    assert (first.state, first.holder, first.created) == ("active", "ann", NOON)
    assert (second.alg, second.created) == ("RS256", after(7))
    for record, private in ((first, es256), (second, rs256)):
        signer = again.signer(record, PASSPHRASE)
        check_possession(signer)
        assert signer.public == private.public


@in_each_store
def test_of_two_who_decide_on_one_state_the_second_decides_again(
    store: Any, es256: PrivateKey
) -> None:
    """Nothing that the first has done is lost, and nothing is done twice."""
    store.add(es256)
    other = store.again()
    other.apply(agenda.enter, public("two"), now=after(1), custody="exec:/x")
    store.apply(agenda.enter, public("three"), now=after(2), custody="exec:/x")
    assert [key.state for key in store.state.keys] == ["active", "prepublished", "prepublished"]
    assert refusal(store.add, PrivateKey.generate("ES256"), expect_seq=1) == ("keystore.changed")
    assert store.again().state == store.state


@in_each_store
def test_a_key_that_is_here_is_not_entered_twice(store: Any, es256: PrivateKey) -> None:
    """Nor another one under its kid."""
    store.add(es256)
    assert refusal(store.add, es256) == "keystore.duplicate_key"
    named = PrivateKey.generate("ES256", kid=es256.public.kid)
    assert refusal(store.add, named) == "keystore.duplicate_key"
    assert store.list_blobs() == store.state.private_blobs()


@in_each_store
def test_a_blob_that_is_missing_or_another_is_refused(store: Any, es256: PrivateKey) -> None:
    """By its digest, before it is opened."""
    record = store.add(es256)
    name = private_blob(record.blob)
    store.drop_blobs([name])
    assert refusal(store.signer, record, PASSPHRASE) == "file.not_found"
    other = json.dumps({"ciphertext": "x"}).encode()
    store.append(store.state.seq + 1, [b"{}"], {name: other})
    digest = "its digest is another"
    assert refusal(store.signer, record, PASSPHRASE, match=digest) == "keystore.corrupt"


@in_each_store
def test_the_private_key_of_an_ended_key_is_gone(store: Any, es256: PrivateKey) -> None:
    """At once, and its record stays."""
    record = store.add(es256, roles=("root",))
    store.apply(agenda.revoke, record.kid, reason="ceased", now=after(1))
    assert store.state.find(record.kid).private == "destroyed"
    assert store.list_blobs() == frozenset()
    assert store.again().state.keys[0].kid == record.kid


@in_each_store
def test_keys_of_one_passphrase_are_in_one_custody(
    store: Any, es256: PrivateKey, another_es256: PrivateKey, rs256: PrivateKey
) -> None:
    """Whoever has the passphrase and the files has them all; another passphrase is another."""
    one = store.add(es256)
    two = store.add(another_es256, roles=("release",))
    three = store.add(rs256, roles=("root",), passphrase=NEXT)
    assert one.custody == two.custody != three.custody
    (moved,) = store.change_passphrase([two], PASSPHRASE, b"a third one of its own", now=after(9))
    assert store.state.find(moved.kid).custody not in (one.custody, three.custody)


@in_each_store
def test_a_stolen_passphrase_is_known_again_whatever_ended(
    store: Any, es256: PrivateKey, another_es256: PrivateKey
) -> None:
    """The sealed key is kept for that: nothing new is made under it."""
    record = store.add(es256)
    store.apply(agenda.revoke, record.kid, reason="compromised", now=after(1))
    assert refusal(store.add, another_es256) == "keystore.same_custody"
    assert store.add(another_es256, passphrase=NEXT).state == "prepublished"


@in_each_store
def test_a_weak_passphrase_makes_nothing(store: Any, es256: PrivateKey) -> None:
    """No store either."""
    assert refusal(store.add, es256, passphrase=b"short") == "passphrase.unfit"
    assert (store.read_lines(), store.load().seq) == ([], 0)


def test_private_keys_are_closed_to_others_and_nothing_shows_them(
    store: QuickStore, es256: PrivateKey
) -> None:
    """Whatever the umask."""
    store.add(es256)
    for file in (store.path / "private").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert es256.to_pkcs8_der()[36:68] not in file.read_bytes()
    assert stat.S_IMODE((store.path / "private").stat().st_mode) == 0o700
    assert "PRIVATE" not in repr(store.state)


@pytest.mark.parametrize("failing", ["fsync", "write", "replace"])
def test_a_disk_that_takes_nothing_leaves_the_store_as_it_was(
    store: QuickStore, es256: PrivateKey, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """No line, and no private key that nobody names."""
    store.add(es256)
    before, log = store.state, store.log.read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with pytest.raises(FileFault):
            store.add(PrivateKey.generate("ES256"))
    assert (store.load(), store.log.read_bytes()) == (before, log)
    assert store.list_blobs() == before.private_blobs()


def test_a_store_that_is_held_is_busy(
    store: QuickStore, es256: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some seconds, and readers do not wait."""
    store.add(es256)
    monkeypatch.setattr("cardsign.keys.store._PATIENCE", 0.05)
    with FolderStore(store.path).alone():
        assert refusal(store.add, PrivateKey.generate("ES256")) == "file.busy"
        assert store.again().state == store.state


@in_each_store
def test_of_many_that_make_and_change_a_store_none_loses_anything(store: Any) -> None:
    """Each decides again on what the others have committed."""

    def enter(name: str) -> None:
        other = copy(store)
        for number in range(3):
            key = public(f"{name}-{number}")
            other.apply(agenda.enter, key, now=after(number), custody="exec:/x")

    threads = [Thread(target=enter, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    state = store.load()
    assert (state.seq, len(state.keys), len(state.active_keys())) == (18, 18, 1)


def test_where_no_store_is_it_is_missing(tmp_path: Path) -> None:
    """A store begins with its first key."""
    assert refusal(open_store, tmp_path / "keys") == "keystore.missing"


# --- what the user has seen before --------------------------------------------------------


@pytest.fixture
def ann(tmp_path: Path) -> StoreUser:
    """The user's own folder of what was seen."""
    return StoreUser("ann@host", tmp_path / "state", pytest.fail)


@pytest.fixture
def watched(tmp_path: Path, ann: StoreUser, es256: PrivateKey) -> Path:
    """A store with three lines, which the user has seen."""
    store = create_store(tmp_path / "keys", ann)
    store.add_key(es256, PASSPHRASE, now=NOON)
    for name in ("two", "three"):
        store.apply(agenda.enter, public(name), now=after(1), custody="exec:/x")
    return tmp_path / "keys"


def test_a_log_that_was_put_back_is_refused(watched: Path, ann: StoreUser) -> None:
    """An older copy may lack a revocation; without a memory it looks whole."""
    log = watched / "log.jsonl"
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole[:2]))
    assert refusal(open_store, watched, ann, match="line 3") == "keystore.other_history"
    assert open_store(watched).state.seq == 2


def test_a_log_that_was_written_anew_is_refused(watched: Path, ann: StoreUser) -> None:
    """Its chain is right; it is not the one that was seen."""
    log = watched / "log.jsonl"
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole[:2]))
    forger = open_store(watched)
    for name in ("mallory", "another", "third"):
        forger.apply(agenda.enter, public(name), now=after(1), custody="exec:/x")
    assert refusal(open_store, watched, ann) == "keystore.other_history"


def test_what_continues_the_log_that_was_seen_is_accepted(watched: Path, ann: StoreUser) -> None:
    """Another machine may have gone further; a new store may be made in an emptied place."""
    open_store(watched).apply(agenda.enter, public("four"), now=after(2), custody="exec:/x")
    assert open_store(watched, ann).state.seq == 4
    (watched / "log.jsonl").unlink()
    assert refusal(open_store, watched, ann, match="this machine saw one") == "keystore.missing"
    create_store(watched, ann).apply(agenda.enter, public("five"), now=after(2), custody="exec:/x")
    assert open_store(watched, ann).state.seq == 1


def test_a_store_is_known_by_whatever_path_it_is_named(watched: Path, ann: StoreUser) -> None:
    """A link to it is it; and what is remembered must be ours."""
    link, log = watched.parent / "link", watched / "log.jsonl"
    link.symlink_to(watched)
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert refusal(open_store, link, ann) == "keystore.other_history"
    assert ann.folder
    (file,) = ann.folder.iterdir()
    file.write_text('{"format": 1}')
    assert refusal(open_store, watched, ann) == "keystore.corrupt"


def test_a_home_that_takes_nothing_is_told_and_hinders_nobody(tmp_path: Path) -> None:
    """As in a container."""
    told: list[str] = []
    (tmp_path / "state").write_text("no folder")
    ann = StoreUser("ann@host", tmp_path / "state", told.append)
    store = create_store(tmp_path / "keys", ann)
    store.apply(agenda.enter, public("one"), now=NOON, custody="exec:/x")
    assert open_store(tmp_path / "keys", ann).state.seq == 1
    assert any("cannot be remembered" in line for line in told)
