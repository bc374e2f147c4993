"""What somebody forges with code or a stolen key: a log, a release, a publication of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import keep_release, kept_keyset
from cardsign.keys.ledger import StoreState, read_line, write_line
from cardsign.keys.store import open_store
from cardsign.publish.generation import load_current
from cardsign.statements.release import read_release, sign_release
from cardsign.testing import FakeIssuer
from cardsign.times import read_stamp
from tests.cli.conftest import PASSPHRASE, Cardsign, run
from tests.cli.test_transcripts import list_files
from tests.publish.publications import fast_forward, put_in_place
from tests.support import PORTABLE

ISSUER = "https://tides.example"
NEW = "a passphrase that no thief has"
CRON = {"CARDSIGN_RELEASE_PASSPHRASE": "that of cron's releases"}
KNOWING_ALL = {**CRON, "CARDSIGN_ROOT_PASSPHRASE": PASSPHRASE, "CARDSIGN_PASSPHRASE": NEW}
REVOKE = ("keys", "revoke", "--reason", "compromised", "--yes")
PUBLIC = Path("public")

pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def issuer(cardsign: Cardsign) -> Cardsign:
    """Set up, with a passphrase of its own for cron, and published by one command."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    words = ("--card", "card.json", "--recovery-out", "recovery.key")
    recovery = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}
    run(cardsign("init", "--issuer", ISSUER, *words, **CRON, **recovery))
    run(cardsign("keys", "rotate", **CRON))
    return cardsign


def active(role: str) -> str:
    """The kid of the key that signs for a role."""
    keys = open_store(Path("keys")).state.active_keys(role)  # type: ignore[arg-type]
    return keys[0].kid


def publish_last_release() -> int:
    """By a thief of the release key: no release can follow this one; the number before it."""
    store = open_store(Path("keys"))
    release = store.state.find(active("release"))
    return fast_forward(PUBLIC, store.signer(release, CRON["CARDSIGN_RELEASE_PASSPHRASE"].encode()))


def test_a_thief_who_publishes_the_last_release_is_ended_by_one_command(issuer: Cardsign) -> None:
    """No release can follow it; the next keyset ends it, and its release begins where ours was."""
    kid, newest = active("release"), publish_last_release()
    for command in (("keys", "rotate"), ("release", "renew", "--force")):
        refused = issuer(*command, **CRON)
        assert (refused.status, "revoke the release key" in refused.err) == (1, True)

    issuer(*REVOKE, kid, CARDSIGN_RELEASE_PASSPHRASE=NEW)

    release = read_release(load_current(PUBLIC).release or b"")
    assert (release.keyset.label, release.seq) == ("1.3", newest + 1)


def newer_format(public: Path) -> None:
    """A generation of a later cardsign, or one that says so."""
    (public / "current").write_text('{"format": 2}')


def pipe(public: Path) -> None:
    """What is opened here, waits for ever, so it is refused."""
    (public / "current").unlink()
    os.mkfifo(public / "current")


def endless_card(public: Path) -> None:
    """More than any card may have."""
    os.truncate(public / "000001/agent-card.json", 50 * 2**20)


def strangers_chain(public: Path) -> None:
    """Statements whose numbers nobody here has ever used."""
    eve = FakeIssuer(datetime.now(UTC), origin=ISSUER)
    keyset = eve.keyset("ann", "bob", epoch=9)
    generation = load_current(public)
    files = {name: data for name, data in generation.files.items() if "/" not in name}
    files.pop("release.json")
    put_in_place(public, replace(generation, files={**files, "keyset/9.1.json": keyset}))


@pytest.mark.parametrize("hinder", [newer_format, pipe, endless_card, strangers_chain])
def test_nothing_published_stops_a_revocation(
    issuer: Cardsign, hinder: Callable[[Path], None]
) -> None:
    """Whatever lies there: the key is revoked in the store, and what is left is said."""
    stolen = active("card")
    hinder(PUBLIC)

    ended = issuer(*REVOKE, stolen, **KNOWING_ALL)

    store = open_store(Path("keys"))
    assert store.state.find(stolen).state == "revoked"
    assert (ended.status, "ELSEWHERE" in ended.err) == (1, True), ended.err
    assert kept_keyset(store).label == "1.3"  # type: ignore[union-attr]


@pytest.mark.parametrize("file", ["extended/eve.json", "agent-card.json"])
def test_no_card_that_lies_there_stops_a_revocation(issuer: Cardsign, file: str) -> None:
    """Nor hides what was done; also where no settings name the cards."""
    stolen, generation = active("card"), load_current(PUBLIC)
    (PUBLIC / generation.folder / file).parent.mkdir(exist_ok=True)
    put_in_place(PUBLIC, replace(generation, files={**generation.files, file: b"{"}))
    settings = Path("cardsign.toml").read_text().partition("[[card]]")[0]
    Path("cardsign.toml").write_text(settings)
    ended = issuer(*REVOKE, stolen, **KNOWING_ALL)
    assert (ended.status, "stored keyset 1.3" in ended.err) == (1, True), ended.err
    assert stolen not in load_current(PUBLIC).kids


def test_no_refusal_of_statements_keeps_a_stolen_key_published(issuer: Cardsign) -> None:
    """No release can follow the thief's, and no root is here: the key set goes out all the same."""
    stolen = active("card")
    publish_last_release()
    slip = {**CRON, "CARDSIGN_ROOT_PASSPHRASE": "a slip of the pen"}
    assert issuer(*REVOKE, stolen, **slip).status == 1
    assert stolen not in load_current(PUBLIC).kids


def test_cron_signs_nothing_of_what_nobody_has_signed(issuer: Cardsign) -> None:
    """A release that somebody wrote into the log is no release before the next one."""
    newest = read_release(load_current(PUBLIC).release or b"")
    claims = json.loads(newest.envelope.payload) | {"seq": 3, "cards": [], "floor": {}}
    payload = json.dumps(claims, sort_keys=True, separators=(",", ":")).encode()
    forged = sign_release(payload, [PrivateKey.generate("ES256")])
    keep_release(open_store(Path("keys")), read_release(forged), forged, now=datetime.now(UTC))
    before = list_files()
    ended = issuer("release", "renew", "--force", **CRON)
    assert (newest.seq, ended.status, "keystore.audit_broken" in ended.err) == (2, 2, True)
    assert list_files() == before


def test_a_log_that_was_written_anew_is_betrayed_by_the_release(
    issuer: Cardsign, tmp_path: Path
) -> None:
    """Chain and state agree; what was published does not, to somebody who is new here."""
    log = Path("keys/log.jsonl")
    lines, state = log.read_bytes().splitlines(), StoreState()
    log.write_bytes(b"")
    for line in lines:  # each as it is, but for its actor and what follows from that
        events = json.loads(line)["events"]
        written = write_line(state, events, read_stamp(json.loads(line)["time"]), "mallory")
        state = read_line(state, written, "log")
        log.write_bytes(log.read_bytes() + written + b"\n")
    ended = issuer("keys", "doctor", HOME=str(tmp_path / "other"))
    assert (ended.status, "keystore.audit_broken" in ended.err) == (1, True)
    assert "release 2 names" in ended.err
