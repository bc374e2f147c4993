"""What the commands publish together, withhold, leave out and put on record."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import ServeFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import keep_release
from cardsign.keys.ledger import StoreState
from cardsign.keys.store import open_store
from cardsign.publish.generation import Generation, load_current
from cardsign.server.settings import read_server_settings
from cardsign.statements.envelope import TYP_RELEASE
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.statements.signing import sign_statement
from tests.cli.conftest import Cardsign, revoke_in_log, run
from tests.cli.test_transcripts import list_files
from tests.support import PORTABLE

ISSUER = "https://tides.example"


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def issuer(cardsign: Cardsign) -> Cardsign:
    """A folder set up in the full form, whose card is published."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    run(cardsign("init", "--issuer", ISSUER, "--recovery-out", "recovery.key"))
    run(cardsign("sign", "card.json", "-o", "signed.json"))
    run(cardsign("release", "renew", "--card", "signed.json"))
    run(cardsign("publish", "signed.json"))
    return cardsign


def state() -> StoreState:
    """What the key store knows."""
    return open_store(Path("keys")).state


def published() -> Generation:
    """The newest generation."""
    return load_current(Path("public"))


def release() -> ReleaseStatement:
    """The published release."""
    data = published().release
    assert data is not None
    return read_release(data)


def signed_keyset(cardsign: Cardsign, number: str, *options: str) -> str:
    """Draft the next keyset statement and sign it; the name of the file."""
    digest = run(cardsign("keyset", "draft", *options)).text.strip()
    run(cardsign("keyset", "sign", f"keyset-{number}.json", "--digest", digest))
    return f"keyset-{number}.json"


# ------------------------------------------------------------------ keysets and releases


def test_a_keyset_waits_where_the_release_key_cannot_be_opened(issuer: Cardsign) -> None:
    """Kept, and withheld until cron renews the release; cards are published meanwhile."""
    before = published()
    run(issuer("keys", "generate"))
    draft = signed_keyset(issuer, "1.2")
    kept = issuer("keyset", "publish", draft, "--json", CARDSIGN_PASSPHRASE=None)
    assert (kept.status, kept.json["done"]) == (1, ["kept keyset 1.2 as the newest"])
    assert kept.json["left"][0]["what"].startswith("renew the release")
    assert published() == before
    standby = state().keys[-1].kid
    run(issuer("publish", "signed.json", "--max-age", "60"))
    assert (standby in published().kids, published().number) == (False, before.number + 1)
    run(issuer("release", "renew"))
    assert list(published().keysets) == ["1.1", "1.2"]
    run(issuer("publish", "signed.json"))
    assert standby in published().kids
    assert published().max_age == 60  # as it was asked for last


def test_a_revoked_key_leaves_the_published_key_set_with_the_next_release(issuer: Cardsign) -> None:
    """The card that needs it waits for a new signature, and that is said."""
    key = published().kids[0]
    revoke_in_log(key, "superseded")
    told = run(issuer("release", "renew")).err
    assert key not in published().kids
    assert json.loads(published().jwks)["keys"] == []
    assert "as it is published now, the public card would not be trusted: key.revoked" in told


# ------------------------------------------------------------------ mishaps


@pytest.mark.parametrize("seq", [3, 2**53 - 2])
def test_cron_signs_nothing_of_what_nobody_has_signed(seq: int, issuer: Cardsign) -> None:
    """A release that somebody wrote into the log is no release before the next one."""
    assert release().seq == 2
    said = json.loads(release().envelope.payload) | {"seq": seq, "cards": [], "floor": {}}
    payload = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    forged = sign_statement(payload, [PrivateKey.generate("ES256")], TYP_RELEASE)
    keep_release(open_store(Path("keys")), read_release(forged), forged, now=datetime.now(UTC))
    before = list_files()
    ended = issuer("release", "renew", "--force")
    assert (ended.status, "keystore.audit_broken" in ended.err) == (2, True)
    assert list_files() == before


def test_a_keyset_of_a_clock_that_was_ahead_is_not_signed_or_kept(
    issuer: Cardsign, clock: Callable[[datetime], None]
) -> None:
    """Once it were published, none could follow it before its time."""
    now = datetime.now(UTC).replace(microsecond=0)
    clock(now + timedelta(days=300))
    digest = run(issuer("keyset", "draft", "-o", "draft.json")).text.strip()
    sign = ("keyset", "sign", "draft.json", "--digest", digest)
    unsigned = Path("draft.json").read_bytes()
    run(issuer(*sign))
    Path("draft.json").rename("signed-ahead.json")
    Path("draft.json").write_bytes(unsigned)
    clock(now)
    before = list_files()
    for words in (sign, ("keyset", "publish", "signed-ahead.json")):
        ended = issuer(*words)
        assert (ended.status, "statement.not_yet" in ended.err) == (2, True)
        assert f"issued for {now + timedelta(days=300):%Y-%m-%d}" in ended.err
        assert list_files() == before
    clock(now + timedelta(days=300))
    issuer("keyset", "publish", "signed-ahead.json", CARDSIGN_PASSPHRASE=None)
    clock(now)
    ended = issuer("keyset", "draft")
    assert (ended.status, "the newest here, was issued at" in ended.err) == (2, True)


def test_a_restored_key_store_adopts_what_is_published_if_asked(issuer: Cardsign) -> None:
    """It lacks what was signed after the backup; its next release comes after all of that."""
    shutil.copytree("keys", "older")
    run(issuer("keyset", "publish", signed_keyset(issuer, "1.2")))
    run(issuer("release", "renew", "--force"))
    newest = release()
    shutil.rmtree("keys")
    Path("older").rename("keys")
    refused = issuer("publish", "signed.json", "--max-age", "60")
    assert (refused.status, "keystore.other_history" in refused.err) == (2, True)
    (seen,) = (path for path in Path("home").rglob("keystores/*") if path.is_file())
    assert f"Run: rm {seen.resolve()}\n" in refused.err
    seen.unlink()
    ended = issuer("publish", "signed.json", "--max-age", "60")
    assert (ended.status, "cardsign keys rotate --adopt" in ended.err) == (1, True)
    told = issuer("release", "renew", "--force")
    assert (told.status, "cardsign keys rotate --adopt" in told.err) == (1, True)
    for words in (("rotate", "--dry-run"), ("doctor",)):
        told = issuer("keys", *words)
        assert (told.status, f"the number of release {newest.seq}" in told.err) == (1, True)
    told = run(issuer("keys", "rotate", "--adopt"))
    assert f"signed release {newest.seq + 1}" in told.err
    assert release().seq == state().release_seq > newest.seq
    assert release().cards == newest.cards
    assert "keystore.audit_broken" not in issuer("keys", "doctor").err
    run(issuer("publish", "signed.json", "--max-age", "60"))
    run(issuer("release", "renew", "--force"))


def test_a_published_release_of_a_revoked_key_is_not_taken_up(issuer: Cardsign) -> None:
    """Its thief may have counted far; what he lists is not what the next release says."""
    before = release()
    run(issuer("release", "renew", "--force"))
    shutil.copytree("keys", "thief")
    shutil.copytree("public", "of-the-thief")
    theft = ("--keystore", "thief", "--publication", "of-the-thief")
    url = f"{ISSUER}/.well-known/agent-card.json"
    run(issuer("release", "renew", "--withdraw", url, *theft))
    stolen = next(key.kid for key in state().keys if key.roles == ("release",))
    revoke_in_log(stolen, "superseded")
    ended = issuer("release", "renew", "--publication", "of-the-thief")
    assert (ended.status, "sign.no_key" in ended.err) == (1, True)
    assert state().release_seq == before.seq + 1


def test_a_root_holder_only_keeps_what_another_store_publishes(cardsign: Cardsign) -> None:
    """His store has no release; without the statement he could not sign the one after it."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    run(
        cardsign(
            "init", "--issuer", ISSUER, "--recovery-out", "recovery.key", "--root-keystore", "stick"
        )
    )
    run(cardsign("sign", "card.json", "-o", "signed.json"))
    run(cardsign("release", "renew", "--card", "signed.json"))
    run(cardsign("publish", "signed.json"))
    by_root = ("--keystore", "stick")
    for version in (2, 3):
        before, file = published(), f"keyset-1.{version}.json"
        digest = run(cardsign("keyset", "draft")).text.strip()
        run(cardsign("keyset", "sign", file, "--digest", digest, *by_root))
        kept = run(cardsign("keyset", "publish", file, *by_root, "--json"))
        assert kept.json["done"] == []  # kept as it was signed
        assert published() == before
        run(cardsign("keyset", "publish", file))
        assert f"1.{version}" in published().keysets


# ------------------------------------------------------------------ standard output


def test_standard_output_gets_one_document(issuer: Cardsign) -> None:
    """The draft, or what there is to say of it as JSON; never both."""
    draft = run(issuer("keyset", "draft", "-o", "-"))
    Path("draft.json").write_text(json.dumps(draft.json))
    digest = run(issuer("keyset", "show", "draft.json", "--json")).json["digest"]
    assert digest in draft.err
    recovery = ("--recovery-file", "recovery.key")
    for words in (("draft",), ("recover", "--yes", *recovery)):
        ended = issuer("keyset", *words, "-o", "-", "--json")
        assert (ended.status, ended.results, "usage.conflict" in ended.err) == (2, b"", True)
        assert "standard output" in ended.err


def test_a_wrong_digest_is_not_answered_with_the_right_one(issuer: Cardsign) -> None:
    """Who pastes it would have compared the draft with itself."""
    digest = run(issuer("keyset", "draft")).text.strip()
    ended = issuer("keyset", "sign", "keyset-1.2.json", "--digest", "0" * 64)
    assert (ended.status, "statement.digest" in ended.err) == (2, True)
    assert digest not in ended.err


@pytest.mark.parametrize("make", [Path.symlink_to, lambda file, _: os.mkfifo(file)])
def test_a_draft_goes_through_no_link_of_the_folder(
    issuer: Cardsign, tmp_path: Path, make: Callable[[Path, Path], object]
) -> None:
    """Whoever cloned the folder did not type this name; where they type it, a link is followed."""
    theirs = tmp_path / "theirs"
    theirs.write_text("mine\n", encoding="utf-8")
    make(tmp_path / "keyset-1.2.json", theirs)

    ended = issuer("keyset", "draft")
    assert (ended.status, "file.not_plain" in ended.err) == (2, True)
    assert theirs.read_text(encoding="utf-8") == "mine\n"

    if make is Path.symlink_to:
        run(issuer("keyset", "draft", "-o", "keyset-1.2.json"))
        assert "payload" in json.loads(theirs.read_bytes())


# ------------------------------------------------------------------ checking and exporting


@pytest.mark.parametrize("name", ["agent-card.json", "release.json"])
def test_publishing_again_repairs_a_damaged_publication(issuer: Cardsign, name: str) -> None:
    """As the message of the server says, by hand and from cron; the files are whole again."""
    with Path("cardsign.toml").open("a") as settings:
        settings.write('[[card]]\nsource = "card.json"\nsigned = "signed.json"\n')
    for words in (("publish", "signed.json"), ("publish",), ("keys", "rotate")):
        before = published()
        Path("public", f"{before.number:06d}", name).write_bytes(b"{")
        with pytest.raises(ServeFault):
            published()
        told = issuer("keys", "doctor")
        assert (told.status, "error: serve.corrupt_generation" in told.err) == (1, True)
        run(issuer(*words))
        assert "corrupt" not in issuer("keys", "doctor").err
        assert published().number > before.number
        assert published().card == before.card


@pytest.mark.parametrize(
    ("option", "wanted"),
    [((), {}), (("--token-file", "named"), {"token_file": Path("named")})],
    ids=["none", "tokens"],
)
def test_what_serve_is_told_comes_before_its_settings(
    cardsign: Cardsign,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    wanted: dict[str, Any],
) -> None:
    """What it is not told stays as the file says it."""
    text = 'format = 1\nworkers = 3\ntoken_file = "tokens"\n'
    Path("serve.toml").write_text(text)
    seen: list[Any] = []
    monkeypatch.setattr("cardsign.server.run.serve", lambda *given, **_: seen.extend(given))
    run(cardsign("serve", "pub", "--settings", "serve.toml", "--bind", "[::1]:8443", *option))
    read = read_server_settings(Path("serve.toml"))
    where, read_settings, bind = seen
    assert (where, bind) == (Path("pub"), "[::1]:8443")
    assert read_settings() == read.model_copy(update=wanted)
