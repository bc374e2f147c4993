"""What is wrong with the files of a key store, and what a person does about it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardsign.issuer.doctor import examine_store
from cardsign.keys import agenda
from cardsign.keys.ledger import private_blob
from cardsign.keys.store import FolderStore, locate_store
from tests.keys.elsewhere import refusal
from tests.keys.states import FIRST, SECOND, after


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
    assert store.signer(record, b"correct horse battery staple").sign(b"x")


def test_a_store_that_is_being_changed_is_not_judged(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a living process writes is no leftover."""
    store.add(FIRST)
    monkeypatch.setattr("cardsign.keys.store._PATIENCE", 0.05)
    with store.alone():
        assert refusal(examine, store) == "file.busy"


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
    assert refusal(store.signer, record, b"correct horse battery staple") == "file.not_plain"
    assert refusal(store.drop_blobs, [private_blob(record.blob)]) == "file.not_plain"
    assert refusal(store.add, SECOND) == "file.not_plain"
    assert [path.name for path in elsewhere.iterdir()] == [f"{record.blob}.key"]
    assert "doctor.private_missing" in [code for code, _, _ in examine(store)]
    folder.unlink()
    elsewhere.rename(folder)
    assert store.add(SECOND).private == "held"
