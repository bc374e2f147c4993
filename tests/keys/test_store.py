"""A key store, in files and in a database: what is committed, moved, and wrong with it."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CardsignError, PassphraseFault
from cardsign.issuer.doctor import examine_store
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import private_blob
from cardsign.keys.signers import Access, check_possession
from cardsign.keys.store import (
    FolderStore,
    KeyStore,
    StoreUser,
    create_store,
    locate_store,
    move_store,
    open_store,
    read_place,
)
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.elsewhere import fault, refusal
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
    store.add(rs256, role="release", now=after(7.9))
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
    """By its digest, before it is opened; and one of another key."""
    record, other = store.add(FIRST), store.add(SECOND)
    event = {"event": "resealed", "key": record.kid, "custody": other.custody, "blob": other.blob}
    store.commit(lambda _: [event], now=after(1))
    assert refusal(store.signer, store.state.keys[0], PASSPHRASE) == "signer.wrong_key"
    name = private_blob(record.blob)
    store.drop_blobs([name])
    assert refusal(store.signer, record, PASSPHRASE) == "file.not_found"
    store.append(store.state.seq + 1, [b"{}"], {name: json.dumps({"ciphertext": "x"}).encode()})
    digest = "its digest is another"
    assert refusal(store.signer, record, PASSPHRASE, match=digest) == "keystore.corrupt"


def test_a_mark_that_stays_costs_no_new_record(store: QuickStore) -> None:
    """Each publication looks at the marks of all keys, for years."""
    record = store.add(FIRST)
    assert record.at(seen=record.times.seen) is record


@in_each_store
def test_the_private_key_of_an_ended_key_is_gone(store: Any) -> None:
    """At once, and its record stays."""
    record = store.add(FIRST, role="root")
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
    root = store.add(PrivateKey.generate("ES256"), passphrase=CARD, role="root")
    release = store.add(SECOND, passphrase=RELEASE, role="release")
    assert card.custody == root.custody != release.custody
    access = Access(of("all", CARD), by_role={"release": of("release", RELEASE)})
    for record in (card, release):
        store.signer(record, access)
    assert asked == ["all", "release"]


@in_each_store
def test_a_passphrase_is_changed_for_the_keys_of_a_role(store: Any) -> None:
    """All or none, and never to that of another role: with it cron could sign cards."""
    card, release = store.add(FIRST, passphrase=CARD), store.add(SECOND, role="release")
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
        assert refusal(examine, store) == "file.busy", "what a living process writes is no leftover"
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


# A store that moved: one place signs, at no time two.


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
    assert (refused.code, "the copy that" in refused.hint) == ("keystore.exists", True)
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
    records = [store.add(FIRST, role="release"), store.add(SECOND)]
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


# What is wrong with its files, and what a person does about it.


def examine(store: FolderStore) -> list[tuple[str, str, str]]:
    """What is wrong with its files: code, severity and path."""
    findings = examine_store(locate_store(store.path))
    return [(finding.code, finding.severity, finding.path) for finding in findings]


def orphan(key: Path) -> Path:
    """A key that nothing names."""
    other = key.with_name(f"{'0' * 64}.key")
    other.touch(0o600)
    return other


def link(key: Path) -> None:
    """The key elsewhere, and a link to it."""
    key.symlink_to(key.rename(key.parents[2] / "elsewhere"))


def edit_log(key: Path) -> Path:
    """Another role in the log, and a line more."""
    log = key.parents[1] / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"card"', b'"root"') + b"{}\n")
    return log.parent


#: What is done to a store of one key, and the code; the path is that of the key or returned.
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "an orphan": (orphan, "doctor.leftover"),
    "a lost key": (Path.unlink, "doctor.private_missing"),
    "an empty key": (lambda key: key.write_bytes(b""), "doctor.private_missing"),
    "a linked key": (link, "doctor.private_missing"),
    "an edited log": (edit_log, "keystore.corrupt"),
}


@pytest.mark.parametrize(("spoil", "code"), SPOILT.values(), ids=SPOILT)
def test_what_is_wrong_is_told_and_left_to_a_person(
    store: Any, spoil: Callable[[Path], object], code: str
) -> None:
    """A store that is well has no finding, nor has one with a file of somebody else."""
    store.add(FIRST)
    (store.path / "README.md").write_text("mine")
    assert examine(store) == []
    (key,) = (store.path / "private").glob("*.key")
    path = spoil(key) or key
    files = sorted(store.path.rglob("*"))
    assert examine(store) == [(code, "error", str(path))]
    assert sorted(store.path.rglob("*")) == files


@pytest.mark.parametrize(
    ("name", "mode", "severity"),
    [
        ("private/*.key", 0o644, "note"),  # it is encrypted
        ("log.jsonl", 0o640, "note"),
        ("log.jsonl", 0o620, "error"),
        ("private", 0o755, "note"),
    ],
)
def test_what_others_can_reach_is_closed_by_the_command_that_is_told(
    store: Any, name: str, mode: int, severity: str
) -> None:
    """The key still signs."""
    record = store.add(FIRST)
    (path,) = store.path.glob(name)
    path.chmod(mode)
    (finding,) = examine_store(store)
    assert (finding.code, finding.severity) == ("doctor.permissions", severity)
    assert finding.path == str(path)
    subprocess.run(shlex.split(finding.fix.removeprefix("Run: ")), check=True)
    assert examine(store) == []
    assert store.signer(record, PASSPHRASE).sign(b"x")


def test_an_ended_key_may_be_without_its_private_key(store: Any) -> None:
    """Nobody needs it any more, also that of a thief."""
    record = store.add(FIRST)
    store.commit(agenda.revoke, record.kid, reason="compromised", now=after(1))
    assert examine(store) == []
    store.drop_blobs(store.list_blobs())
    assert examine(store) == []


def test_a_private_folder_that_is_a_link_is_neither_read_nor_written(store: Any) -> None:
    """What lies behind it stays as it is; as the folder itself it is used."""
    record = store.add(FIRST)
    folder, elsewhere = store.path / "private", store.path.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert refusal(store.signer, record, PASSPHRASE) == "file.not_plain"
    assert refusal(store.drop_blobs, [private_blob(record.blob)]) == "file.not_plain"
    assert refusal(store.add, SECOND) == "file.not_plain"
    assert [path.name for path in elsewhere.iterdir()] == [f"{record.blob}.key"]
    assert "doctor.private_missing" in [code for code, _, _ in examine(store)]
    folder.unlink()
    elsewhere.rename(folder)
    assert store.add(SECOND).private == "held"
