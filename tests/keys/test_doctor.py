"""What doctor finds, what it fixes, and that it leaves everything else alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cardsign.errors import FileFault, StoreFault
from cardsign.findings import Finding
from cardsign.keys import lifecycle
from cardsign.keys.doctor import examine_store
from cardsign.keys.folder import FolderStore
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.model import private_blob
from cardsign.keys.opening import locate_store, open_store
from tests.keys.states import NOON, after, published


def examine(store: FolderStore, **options: object) -> list[Finding]:
    """Everything but what is due, and what a lone key lacks."""
    arguments = {"settings": DEFAULT_SETTINGS, "now": after(60), **options}
    found = examine_store(locate_store(store.path), **arguments)  # type: ignore[arg-type]
    usual = ("doctor.due", "doctor.no_standby")
    return [finding for finding in found if finding.code not in usual]


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


def test_a_fresh_store_is_healthy(store, es256) -> None:
    """Nothing is an alarm on the day of its making, nor for who asks two weeks ahead."""
    store.add(es256)
    for span in (0, 14):
        options = {"settings": DEFAULT_SETTINGS, "expires_within": timedelta(days=span)}
        found = examine_store(open_store(store.path), now=after(60), **options)
        assert {one.severity for one in found} <= {"note"}
    late = {**options, "now": after(60 + 80 * 24 * 3600)}
    severities = {one.severity for one in examine_store(open_store(store.path), **late)}
    assert "error" in severities


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


def test_a_clock_that_was_set_back_is_an_alarm(store, es256) -> None:
    """By more than the skew."""
    store.add(es256)
    store.record_publication(published(after(3600), ["one"]), now=after(3600))

    assert examine(store, now=after(3300)) == []
    (finding,) = examine(store, now=after(3299))
    assert (finding.code, finding.severity) == ("doctor.clock", "error")


def test_settings_below_the_defaults_are_noted(store, es256) -> None:
    """Each of those that others' caches depend on."""
    store.add(es256)

    findings = examine(store, settings=TimelineSettings(0, 0, 0, 0, 0))

    assert [finding.message.split()[0] for finding in findings] == [
        "timeline.max_age",
        "timeline.worst_cache",
        "timeline.card_max_age",
        "timeline.skew",
        "timeline.rotate_every",
    ]


@pytest.mark.parametrize(
    ("reason", "code", "level"),
    [
        ("compromised", "doctor.no_active_key", "error"),
        ("superseded", "doctor.no_active_key", "error"),
        ("ceased", "doctor.ended", "note"),
    ],
)
def test_a_store_in_which_no_key_signs_is_an_alarm(
    store, es256, reason: str, code: str, level: str
) -> None:
    """Nothing can be published; where its owner said that it ends, nothing has to be."""
    store.add(es256, now=NOON)
    store.apply(lifecycle.revoke, es256.public.kid, reason=reason, now=after(1))

    assert [(finding.code, finding.severity) for finding in examine(store)] == [(code, level)]


def test_what_will_be_due_is_an_alarm_for_who_asks(store, es256, another_es256) -> None:
    """Within the span only."""
    store.add(es256)
    store.add(another_es256)
    kids = [es256.public.kid, another_es256.public.kid]
    store.record_publication(published(NOON, kids), now=NOON)

    def due(days: int) -> list[Finding]:
        span = timedelta(days=days)
        options = {"settings": DEFAULT_SETTINGS, "now": NOON, "expires_within": span}
        found = examine_store(open_store(store.path), **options)
        return [one for one in found if one.code != "doctor.no_standby"]

    assert due(0) == due(59) == []
    (finding,) = due(60)
    assert (finding.code, finding.severity) == ("doctor.due", "error")
    assert another_es256.public.kid in finding.message


@pytest.mark.parametrize(("reason", "alarms"), [("ceased", False), ("superseded", True)])
def test_the_end_of_an_issuer_leaves_no_alarm(store, es256, reason: str, alarms: bool) -> None:
    """Cron destroys the keys that caches may still hold; no person has to."""
    store.add(es256, now=NOON)
    store.record_publication(published(NOON, [es256.public.kid]), now=NOON)
    store.apply(lifecycle.revoke, es256.public.kid, reason=reason, now=after(1))
    store.record_publication(published(after(1), []), now=after(1))

    span = timedelta(days=14)
    again = open_store(store.path)
    findings = examine_store(again, settings=DEFAULT_SETTINGS, now=after(1), expires_within=span)

    assert any(one.severity == "error" for one in findings) is alarms, findings


def test_waits_that_are_shorter_than_usual_are_noted(store, es256) -> None:
    """Each by its name; the usual ones are not."""
    store.add(es256)
    short = TimelineSettings(skew=DEFAULT_SETTINGS.skew - 1)

    assert [finding.code for finding in examine(store, settings=short)] == ["doctor.timeline"]
    assert examine(store) == []


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
