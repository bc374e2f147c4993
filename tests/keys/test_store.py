"""A key store, in files and in a database: what is committed is whole, and nobody's edit counts."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import private_blob
from cardsign.keys.signers import Access, check_possession
from cardsign.keys.store import FolderStore, StoreUser, create_store, open_store
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.elsewhere import refusal
from tests.keys.states import FIRST, NOON, SECOND, after, public
from tests.publish.publications import failing_after

PASSPHRASE = b"correct horse battery staple"
CARD, RELEASE, NEXT = b"of the card keys", b"of the release keys", b"of the next year"


def enter(store: Any, *names: str) -> None:
    """Enter keys that are elsewhere."""
    for name in names:
        store.commit(agenda.enter, public(name), now=after(1), custody="exec:/x")


@in_each_store
def test_what_was_committed_is_read_by_the_next_process(store: Any, rs256: PrivateKey) -> None:
    """Keys with their kids, holders and times, and private keys that sign."""
    store.add(FIRST, holder="ann")
    store.add(rs256, roles=("release",), now=after(7.9))
    again = store.again()
    assert again.state == store.state
    first, second = again.state.keys
    assert (first.state, first.holder, first.created) == ("active", "ann", NOON)
    assert (second.alg, second.created) == ("RS256", after(7))
    for record, private in ((first, FIRST), (second, rs256)):
        signer = again.signer(record, PASSPHRASE)
        check_possession(signer)
        assert signer.public == private.public


@in_each_store
def test_of_two_who_decide_on_one_state_the_second_decides_again(store: Any) -> None:
    """Nothing that the first has done is lost, and nothing is done twice."""
    store.add(FIRST)
    enter(store.again(), "two")
    enter(store, "three")
    assert [key.state for key in store.state.keys] == ["active", "prepublished", "prepublished"]
    assert refusal(store.add, PrivateKey.generate("ES256"), expect_seq=1) == "keystore.changed"
    assert not store.append(1, [b"{}"], {}), "others were faster"
    assert store.again().state == store.state


@in_each_store
def test_a_key_that_does_not_fit_is_not_entered(store: Any) -> None:
    """Under a weak passphrase, a second time, or under the kid of another one."""
    assert refusal(store.add, FIRST, passphrase=b"short") == "passphrase.unfit"
    assert (store.read_lines(), store.load().seq) == ([], 0)
    store.add(FIRST)
    named = PrivateKey.generate("ES256", kid=FIRST.public.kid)
    assert [refusal(store.add, key) for key in (FIRST, named)] == ["keystore.duplicate_key"] * 2
    assert store.list_blobs() == store.state.private_blobs()


@in_each_store
def test_a_blob_that_is_missing_or_another_is_refused(store: Any) -> None:
    """By its digest, before it is opened."""
    record = store.add(FIRST)
    name = private_blob(record.blob)
    store.drop_blobs([name])
    assert refusal(store.signer, record, PASSPHRASE) == "file.not_found"
    other = json.dumps({"ciphertext": "x"}).encode()
    store.append(store.state.seq + 1, [b"{}"], {name: other})
    digest = "its digest is another"
    assert refusal(store.signer, record, PASSPHRASE, match=digest) == "keystore.corrupt"


@in_each_store
def test_the_private_key_of_an_ended_key_is_gone(store: Any) -> None:
    """At once, and its record stays."""
    record = store.add(FIRST, roles=("root",))
    store.commit(agenda.revoke, record.kid, reason="ceased", now=after(1))
    assert store.again().state.find(record.kid).private == "destroyed"
    assert store.list_blobs() == frozenset()


# What a passphrase opens.


@in_each_store
def test_a_stolen_passphrase_is_known_again_whatever_ended(store: Any) -> None:
    """The sealed key is kept for that: nothing new is made under it."""
    record = store.add(FIRST)
    store.commit(agenda.revoke, record.kid, reason="compromised", now=after(1))
    assert refusal(store.add, SECOND) == "keystore.same_custody"
    assert store.add(SECOND, passphrase=NEXT).state == "prepublished"


@in_each_store
def test_each_role_opens_with_its_own_secret(store: Any) -> None:
    """The other role's is never tried, and each passphrase is a custody."""
    asked: list[str] = []

    def of(role: str, secret: bytes) -> Any:
        return lambda kind, name: (asked.append(role), secret)[1]

    card = store.add(FIRST, passphrase=CARD)
    root = store.add(PrivateKey.generate("ES256"), passphrase=CARD, roles=("root",))
    release = store.add(SECOND, passphrase=RELEASE, roles=("release",))
    assert card.custody == root.custody != release.custody
    access = Access(of("all", CARD), by_role={"release": of("release", RELEASE)})
    for record in (card, release):
        store.signer(record, access)
    assert asked == ["all", "release"]


@in_each_store
def test_a_passphrase_is_changed_for_the_keys_of_a_role(store: Any) -> None:
    """All or none, and never to that of another role: with it cron could sign cards."""
    card, release = store.add(FIRST, passphrase=CARD), store.add(SECOND, roles=("release",))
    change, now = store.change_passphrase, {"now": after(10)}
    assert refusal(change, [release, card], PASSPHRASE, NEXT, **now) == "passphrase.wrong"
    unfit = ((release, PASSPHRASE, b"short"), (release, PASSPHRASE, CARD), (card, CARD, PASSPHRASE))
    for record, old, new in unfit:
        assert refusal(change, [record], old, new, **now) == "passphrase.unfit"
        store.signer(record, old)
    assert change([release], PASSPHRASE, NEXT, **now) == (release,)
    release = store.state.find(release.kid)
    assert change([release], PASSPHRASE, NEXT, **now) == (), "it has that one by now"
    store.signer(release, NEXT)
    store.signer(card, CARD)
    assert release.custody != card.custody
    events = [event for line in map(json.loads, store.read_lines()) for event in line["events"]]
    resealed = [event["key"] for event in events if event["event"] == "resealed"]
    assert resealed == [release.thumbprint]
    store.drop_blobs([private_blob(card.blob)])
    assert change([release], NEXT, CARD, **now) == (release,), "what is not here cannot tell"


# In a folder.


def test_private_keys_are_closed_to_others_and_nothing_shows_them(store: QuickStore) -> None:
    """Whatever the umask."""
    store.add(FIRST)
    for file in (store.path / "private").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert FIRST.to_pkcs8_der()[36:68] not in file.read_bytes()
    assert stat.S_IMODE((store.path / "private").stat().st_mode) == 0o700
    assert "PRIVATE" not in repr(store.state)


def test_a_store_that_is_held_is_busy(store: QuickStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some seconds, and readers do not wait."""
    store.add(FIRST)
    monkeypatch.setattr("cardsign.keys.store._PATIENCE", 0.05)
    with FolderStore(store.path).alone():
        assert refusal(store.add, PrivateKey.generate("ES256")) == "file.busy"
        assert store.again().state == store.state
    monkeypatch.setattr(store, "append", lambda *_: False)  # others are always faster
    assert refusal(enter, store, "two", match="gave up after") == "file.busy"


def test_a_commit_that_fails_leaves_nothing(store: QuickStore) -> None:
    """Not even a blob, as far as that goes."""
    store.add(FIRST)
    with failing_after(1, "replace"):  # the line of the log
        assert refusal(store.add, SECOND) == "file.unwritable"
    assert store.list_blobs() == store.load().private_blobs()


# What the user has seen before.


def watch(folder: Path) -> tuple[Path, StoreUser]:
    """A store with three lines, and a user who has seen them, with a folder of what was seen."""
    ann = StoreUser("ann@host", folder / "state")
    enter(create_store(folder / "keys", ann), "one", "two", "three")
    return folder / "keys", ann


def test_what_continues_the_log_that_was_seen_is_accepted(tmp_path: Path) -> None:
    """Another machine may have gone further; a new store may be made in an emptied place."""
    watched, ann = watch(tmp_path)
    enter(open_store(watched), "four")
    assert open_store(watched, ann).state.seq == 4
    (watched / "log.jsonl").unlink()
    assert refusal(open_store, watched, ann, match="this machine saw one") == "keystore.missing"
    enter(create_store(watched, ann), "five")
    assert open_store(watched, ann).state.seq == 1


def test_a_store_is_known_by_whatever_path_it_is_named(tmp_path: Path) -> None:
    """A link to it is it; and what is remembered must be ours."""
    watched, ann = watch(tmp_path)
    link, log = watched.parent / "link", watched / "log.jsonl"
    link.symlink_to(watched)
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert refusal(open_store, link, ann) == "keystore.other_history"
    assert ann.folder
    (file,) = ann.folder.iterdir()
    file.write_text('{"format": 1}')
    assert refusal(open_store, watched, ann) == "keystore.corrupt"


def test_a_home_that_takes_nothing_hinders_nobody(tmp_path: Path) -> None:
    """As in a container."""
    (tmp_path / "state").write_text("no folder")
    store, ann = watch(tmp_path)
    assert open_store(store, ann).state.seq == 3
    assert refusal(open_store, tmp_path / "none") == "keystore.missing"
