"""A rehearsal says what peers would say, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cardsign.config import ProjectCard, ProjectConfig
from cardsign.errors import SigningRefused
from cardsign.issuer import (
    IssuerPassphrases,
    Work,
    init_issuer,
    init_keys,
    needed_keyset,
    open_recovery_key,
    publish_keyset,
    recover,
    rotate_keys,
)
from cardsign.keys import TimelineSettings
from cardsign.keys.stores import DirectoryStore
from cardsign.publish import load_current
from cardsign.publish.generation import MAX_STATEMENT_AGE
from cardsign.rehearsal import Rehearsal, rehearse
from tests.support import PORTABLE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORIGIN = "https://tides.example"
SECRET = b"one passphrase for all"
RECOVERY = b"another horse entirely"

pytestmark = pytest.mark.usefixtures("cheap")


def begun(folder: Path, *, rooted: bool) -> tuple[DirectoryStore, ProjectConfig]:
    """An issuer that has published its card."""
    (folder / "card.json").write_text(json.dumps(PORTABLE))
    cards = (ProjectCard(folder / "card.json", folder / "signed.json"),)
    timeline = TimelineSettings(rotate_every=4 * 24 * 3600)
    config = ProjectConfig(ORIGIN, folder / "keys", folder / "public", timeline, cards)
    if rooted:
        secrets = IssuerPassphrases(SECRET, SECRET, SECRET, RECOVERY)
        init_issuer(
            folder,
            folder / "keys",
            lambda: secrets,
            origin=ORIGIN,
            now=NOW,
            root_keystore=folder / "usb",
            recovery_out=folder / "recovery.key",
        )
        roots = Work(DirectoryStore.open(folder / "usb"), NOW, access=SECRET)
    else:
        init_keys(folder, folder / "keys", lambda: SECRET, now=NOW, origin=ORIGIN)
        roots = None
    store = DirectoryStore.open(folder / "keys")
    rotate_keys(Work(store, NOW, config, SECRET, roots, folder / "next.json"))
    return store, config


def told(folder: Path, *stolen: str, rooted: bool) -> Rehearsal:
    """What a rehearsal says an hour after the publication."""
    store, config = begun(folder, rooted=rooted)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    apart = folder / "rehearsal"
    apart.mkdir()
    roles = {key.roles[0]: key.kid for key in store.state.keys if key.state == "active"}
    kids = tuple(roles[role] for role in stolen)
    now = NOW + timedelta(hours=1)
    rehearsal = rehearse(store, config, now=now, folder=apart, revoke=kids)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if apart not in path.parents} == before
    return rehearsal


@pytest.mark.parametrize("rooted", [True, False], ids=["keysets", "key set alone"])
def test_a_rotation_breaks_the_card_for_pinned_keys_alone(tmp_path: Path, rooted: bool) -> None:
    """Those never ask again; who does never notices. A person comes a day after being asked."""
    rehearsal = told(tmp_path, rooted=rooted)
    assert rehearsal.holds, rehearsal
    assert not rehearsal.left
    (broken,) = rehearsal.refusals("pinned keys") or (None,)
    done = [event.what.split()[0] for event in rehearsal.events]
    assert {"activated", "retired"} <= set(done)
    asked = next(one.at for one in rehearsal.events if one.what.startswith("activated card key"))
    visits = [one.at for one in rehearsal.events if one.who == "person"]
    assert visits[0] == asked + timedelta(days=1)
    if broken is not None:  # the next key was published, and so pinned, before it signs
        assert broken.start > rehearsal.start
    assert ("keyset" in rehearsal.beliefs) is rooted


def test_a_thief_of_a_card_key_is_believed_for_as_long_as_each_peer_keeps_what_it_has(
    tmp_path: Path,
) -> None:
    """For ever, for a day, and until it asks again."""
    rehearsal = told(tmp_path, "card", rooted=True)
    start, settings = rehearsal.start, ProjectConfig().timeline
    keeps, follows = (rehearsal.fooled_until(peer) for peer in ("JWK Set", "keyset"))
    assert rehearsal.fooled_until("pinned keys") == rehearsal.end
    # It is revoked after five minutes, and a peer that asked just before keeps what it got.
    assert keeps == start + timedelta(seconds=300 + settings.worst_cache)
    assert follows == start + timedelta(seconds=300 + MAX_STATEMENT_AGE)
    assert not rehearsal.refusals("keyset")
    assert {one.at.minute for one in rehearsal.events if one.who == "cron"} == {0}  # each hour


def test_a_theft_of_everything_leaves_something_for_a_person(tmp_path: Path) -> None:
    """The keyset peer sees no other keyset where no root can sign one."""
    store, config = begun(tmp_path, rooted=True)
    (tmp_path / "rehearsal").mkdir()
    stolen = [key.kid for key in store.state.keys if key.state == "active"]
    rehearsal = rehearse(
        store,
        config,
        now=NOW + timedelta(hours=1),
        folder=tmp_path / "rehearsal",
        revoke=stolen,
    )
    assert rehearsal.fooled_until("keyset") is not None


def test_without_a_card_key_or_a_card_there_is_nothing_to_rehearse(tmp_path: Path) -> None:
    """And it is said before anything is written."""
    store, config = begun(tmp_path, rooted=False)
    bare = replace(config, publish=None, cards=())
    with pytest.raises(SigningRefused, match="no card is published"):
        rehearse(store, bare, now=NOW, folder=tmp_path)


def test_what_was_stored_with_a_stolen_key_is_stolen_too(tmp_path: Path) -> None:
    """As for `keys revoke`: the release key lay beside the card key, and the root did not."""
    store, config = begun(tmp_path, rooted=True)
    (kid,) = [key.kid for key in store.state.active_keys("card")]
    options = {"now": NOW + timedelta(hours=1), "revoke": [kid]}
    events = {}
    for both in (True, False):
        folder = tmp_path / f"rehearsal-{both}"
        folder.mkdir()
        told = rehearse(store, config, folder=folder, stored_with=both, **options)
        events[both] = " ".join(one.what for one in told.events)
        assert told.holds
    assert "revoked release key" in events[True]
    assert "revoked release key" not in events[False]
    assert "revoked root key" not in events[True]


@pytest.mark.parametrize("gives_up", [True, False], ids=["a new recovery key", "the old one"])
def test_the_keysets_of_a_new_epoch_are_counted_on(tmp_path: Path, gives_up: bool) -> None:
    """After a recovery the next one is 2.2 or later, never of the epoch before."""
    store, config = begun(tmp_path, rooted=True)
    at, draft = NOW + timedelta(hours=1), tmp_path / "next.json"
    work = Work(store, at, config, SECRET, draft=draft)
    recovered, _ = recover(
        work,
        lambda: (open_recovery_key(tmp_path / "recovery.key", RECOVERY), RECOVERY),
        passphrase=lambda _: SECRET,
        new_recovery_out=tmp_path / "another.key" if gives_up else None,
    )
    publish_keyset(work, recovered.statement)
    rotate_keys(work)
    newest = needed_keyset(store)
    assert newest.epoch == 2
    (tmp_path / "rehearsal").mkdir()
    told = rehearse(store, config, now=at, folder=tmp_path / "rehearsal")
    (first, *_) = [one.what for one in told.events if "signed keyset" in one.what]
    assert f"keyset 2.{newest.version + 1} " in first


def test_the_keysets_are_counted_on_from_the_newest(tmp_path: Path) -> None:
    """So that what it says can be held against what comes."""
    rehearsal = told(tmp_path, rooted=True)
    version = max(int(number[2:]) for number in load_current(tmp_path / "public").keysets)
    (first, *_) = [one.what for one in rehearsal.events if "signed keyset" in one.what]
    assert f"keyset 1.{version + 1}" in first
