"""What doctor finds, what it fixes, and that it leaves everything else alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cardsign.errors import FileFault, StoreFault
from cardsign.findings import Finding
from cardsign.keys import lifecycle
from cardsign.keys.doctor import examine_store
from cardsign.keys.folder import FolderStore
from cardsign.keys.model import private_blob
from cardsign.keys.opening import locate_store
from tests.keys.states import after


def examine(store: FolderStore, *, fix: bool = False) -> list[Finding]:
    """What is wrong with its files."""
    return [*examine_store(locate_store(store.path), fix=fix)]


def leftover(store: FolderStore) -> Path:
    path = store.path / f".log.jsonl.{'0' * 16}.tmp"
    path.write_bytes(b"{")
    return path


def orphan(store: FolderStore) -> Path:
    path = store.path / "private" / f"{'0' * 64}.key"
    path.write_bytes(b"{")
    path.chmod(0o600)
    return path


def open_key(store: FolderStore) -> Path:
    (path,) = (store.path / "private").glob("*.key")
    path.chmod(0o644)
    return path


def open_log(store: FolderStore) -> Path:
    path = store.path / "log.jsonl"
    path.chmod(0o640)
    return path


def writable_log(store: FolderStore) -> Path:
    path = store.path / "log.jsonl"
    path.chmod(0o620)
    return path


def open_folder(store: FolderStore) -> Path:
    (store.path / "private").chmod(0o755)
    return store.path / "private"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (leftover, "doctor.leftover"),
        (orphan, "doctor.leftover"),
        (open_key, "doctor.permissions"),
        (open_log, "doctor.permissions"),
        (open_folder, "doctor.permissions"),
        (writable_log, "doctor.permissions"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_safe_to_fix_is_fixed(
    store, es256, spoil: Callable[[FolderStore], Path], code: str
) -> None:
    """Only where it was asked for; then nothing is left to find, and the key still signs."""
    record = store.add(es256)
    assert examine(store) == []
    path = spoil(store)

    (told,) = examine(store)
    (fixed,) = examine(store, fix=True)

    level = "error" if spoil in (orphan, writable_log) else "note"
    assert (told.code, told.severity, told.path) == (code, level, str(path))
    assert (fixed.code, fixed.severity) == (code, "note")
    assert fixed.message == f"fixed: {told.message}"
    assert examine(store) == []
    assert store.signer(record, b"correct horse battery staple").sign(b"x")


def test_behind_what_is_published_no_private_key_is_a_leftover(store, es256) -> None:
    """An older log may have been put back; the newest one names the key."""
    store.add(es256)
    path = orphan(store)
    for fix in (True, False):
        (told,) = examine_store(locate_store(store.path), fix=fix, is_behind=True)
        assert (told.code, told.severity, told.path) == ("doctor.leftover", "error", str(path))
        assert "Put back the newest log" in told.hint
    assert path.exists()


def test_what_a_killed_process_left_is_no_alarm_for_ever(store, es256, monkeypatch) -> None:
    """Also beside the statements; what a living process writes is waited for."""
    store.add(es256)
    (store.path / "statements").mkdir()
    files = [leftover(store), store.path / "statements" / f".1.1.json.{'0' * 16}.tmp"]
    files[1].write_bytes(b"{")

    assert {(one.severity, one.path) for one in examine(store)} == {
        ("note", str(file)) for file in files
    }
    assert all("--fix" in one.hint for one in examine(store))
    monkeypatch.setattr("cardsign.keys.folder._PATIENCE", 0.05)
    with store.alone(), pytest.raises(StoreFault) as caught:
        examine(store, fix=True)
    assert caught.value.code == "file.busy"
    assert all(file.exists() for file in files)
    examine(store, fix=True)
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("state", ["revoked", "active"])
def test_an_ended_key_may_be_without_its_private_key(store, es256, state: str) -> None:
    """Nobody needs it any more; that of an active one is missed."""
    record = store.add(es256)
    if state == "revoked":
        store.apply(lifecycle.revoke, record.kid, reason="ceased", now=after(1))
    store.drop_blobs(store.list_blobs())

    missed = [one.code for one in examine(store) if one.code == "doctor.private_missing"]

    assert missed == (["doctor.private_missing"] if state == "active" else [])


def lost(store: FolderStore) -> None:
    """A private key is gone."""
    (path,) = (store.path / "private").glob("*.key")
    path.unlink()


def linked(store: FolderStore) -> None:
    """It is a link now."""
    (path,) = (store.path / "private").glob("*.key")
    path.rename(store.path.parent / "elsewhere")
    path.symlink_to(store.path.parent / "elsewhere")


def edited(store: FolderStore) -> None:
    """A line of the log was written by hand."""
    store.log.write_bytes(store.log.read_bytes().replace(b'"card"', b'"root"') + b"{}\n")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lost, "doctor.private_missing"),
        (linked, "doctor.symlink"),
        (edited, "keystore.corrupt"),
    ],
    ids=["a lost private key", "a link in its place", "a log that was edited"],
)
def test_what_a_person_has_to_judge_is_told_and_not_fixed(
    store, es256, spoil: Callable[[FolderStore], None], code: str
) -> None:
    """An alarm, with or without --fix."""
    store.add(es256)
    spoil(store)
    before = sorted(store.path.rglob("*"))

    findings = [finding for _ in range(2) for finding in examine(store, fix=True)]

    assert {(finding.code, finding.severity) for finding in findings} == {(code, "error")}
    assert sorted(store.path.rglob("*")) == before


def test_what_is_not_ours_is_left_alone(store, es256) -> None:
    """A note says that it is there."""
    store.add(es256)
    for path in (store.path / "README.md", store.path / "private" / "notes.txt"):
        path.write_text("mine")
        path.chmod(0o600)

    findings = examine(store, fix=True)

    assert {(finding.code, finding.severity) for finding in findings} == {
        ("doctor.stranger", "note")
    }
    assert (store.path / "README.md").read_text() == "mine"


def test_a_private_folder_that_is_a_link_is_neither_read_nor_written(
    store, es256, another_es256
) -> None:
    """What lies behind it stays as it is; as the folder itself it is used."""
    record = store.add(es256)
    folder, elsewhere = store.path / "private", store.path.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    refused = [
        lambda: store.signer(record, b"correct horse battery staple"),
        lambda: store.read_blob(private_blob(record.blob)),
        lambda: store.drop_blobs([private_blob(record.blob)]),
        lambda: store.add(another_es256),
    ]

    for attempt in refused:
        with pytest.raises(FileFault) as caught:
            attempt()
        assert caught.value.code == "file.not_plain"
    assert [one.name for one in elsewhere.iterdir()] == [f"{record.blob}.key"]
    assert "doctor.symlink" in [finding.code for finding in examine(store)]

    folder.unlink()
    elsewhere.rename(folder)
    assert store.signer(record, b"correct horse battery staple").sign(b"x")
    assert store.add(another_es256).private == "held"
