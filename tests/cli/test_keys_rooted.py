"""Rotation where the roots say which keys count: what a tick does, and leaves to them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys.ledger import StoreState, read_line, write_line
from cardsign.keys.store import open_store
from cardsign.times import read_stamp
from tests.cli.conftest import Cardsign
from tests.cli.test_issuer_story import run, tree
from tests.support import PORTABLE

ISSUER = "https://tides.example"
DRAFT = Path("next-keyset.json")
AT_ONCE = """
[timeline]
max_age = 0
worst_cache = 0
card_max_age = 0
skew = 0
rotate_every = 0
"""


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def issuer(cardsign: Cardsign) -> Cardsign:
    """A folder set up in the full form, in which no cache is waited for."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    run(cardsign("init", "--issuer", ISSUER, "--recovery-out", "recovery.key"))
    with open("cardsign.toml", "a") as config:
        config.write(AT_ONCE)
    return cardsign


def generate(cardsign: Cardsign, *options: str) -> str:
    """A new key; its kid."""
    return str(run(cardsign("keys", "generate", *options, "--json")).json["kid"])


def tick(cardsign: Cardsign, passphrase: str | None = None) -> Any:
    """What a rotation from cron says; without a passphrase it makes no keys and signs nothing."""
    ended = cardsign("keys", "rotate", "--json", CARDSIGN_PASSPHRASE=passphrase)
    assert ended.status == (1 if ended.json["left"] else 0), ended.err
    return ended.json


def digest_of(told: Any) -> str | None:
    """The digest of the draft that waits for the roots; None where none does."""
    found = [
        re.search(r"^sign keyset .* digest ([0-9a-f]{64})", one["what"]) for one in told["left"]
    ]
    return next((match[1] for match in found if match), None)


def state_of(kid: str) -> str:
    """Where a key stands in its agenda."""
    return open_store(Path("keys")).state.find(kid).state


def test_a_tick_never_needs_a_root(issuer: Cardsign) -> None:
    """It writes one draft and changes nothing else; again, it says the same of the same bytes."""
    generate(issuer)
    before = tree()

    first = issuer("keys", "rotate", "--json", CARDSIGN_PASSPHRASE=None)
    written = tree()
    second = issuer("keys", "rotate", "--json", CARDSIGN_PASSPHRASE=None)

    assert (first.status, first.json) == (second.status, second.json) == (1, first.json)
    assert written.pop(str(DRAFT)) == DRAFT.read_bytes()
    assert written == before
    assert tree() == {**before, str(DRAFT): DRAFT.read_bytes()}
    digest = run(issuer("keyset", "show", DRAFT, "--json")).json["digest"]
    assert digest_of(first.json) == digest
    text = issuer("keys", "rotate", CARDSIGN_PASSPHRASE=None).err
    assert f"sign keyset 1.2, digest {digest}" in text
    assert text.startswith("cardsign: not finished. Do this: cardsign keys rotate\n")


def test_one_call_rotates_each_role_once(issuer: Cardsign) -> None:
    """Where nothing is waited for, each new key would be due for the next at once."""
    done = run(issuer("keys", "rotate", "--json")).json["done"]
    keys_made = [line.split()[1] for line in done if line.startswith("made ")]
    assert sorted(keys_made) == ["card", "release"]


STRANGE: dict[str, tuple[Callable[[], object], str]] = {
    "a link to the key store": (lambda: DRAFT.symlink_to("keys/log.jsonl"), "file.not_plain"),
    "a link to nothing": (lambda: DRAFT.symlink_to("nothing"), "file.not_plain"),
    "a pipe": (lambda: os.mkfifo(DRAFT), "file.not_plain"),
    "a folder": (DRAFT.mkdir, "file.unreadable"),
    "a file of something else": (lambda: DRAFT.write_text("{}"), "rotate.draft"),
    "a file that is too long": (lambda: DRAFT.write_bytes(b" " * 70_000), "file.unreadable"),
}


@pytest.mark.parametrize(("occupy", "code"), STRANGE.values(), ids=STRANGE)
def test_a_tick_writes_its_draft_over_nothing_else(
    issuer: Cardsign, occupy: Callable[[], object], code: str
) -> None:
    """What stands there came from a repository: it leads nowhere, and nothing is overwritten."""
    generate(issuer)
    before = tree()
    occupy()
    after = {**before, **({str(DRAFT): DRAFT.read_bytes()} if DRAFT.is_file() else {})}

    ended = issuer("keys", "rotate", CARDSIGN_PASSPHRASE=None)

    assert (ended.status, f"{code}: " in ended.err, str(DRAFT) in ended.err) == (2, True, True)
    assert tree() == after


def test_a_tick_drafts_nothing_for_a_key_that_nobody_has_entered(issuer: Cardsign) -> None:
    """Somebody has written another key into a line of the log."""
    generate(issuer)
    log = Path("keys/log.jsonl")
    own = next(key for key in open_store(Path("keys")).state.keys if key.state == "generated")
    theirs = PrivateKey.generate("ES256").public.jwk()
    for member in "xy":
        ours = str(own.public.jwk()[member])
        log.write_text(log.read_text().replace(ours, str(theirs[member])))

    ended = issuer("keys", "rotate", CARDSIGN_PASSPHRASE=None)

    assert "keystore." in ended.err, ended.err
    assert ended.status == 2
    assert not DRAFT.exists()


def test_all_of_a_change_is_shown_to_who_signs_it(issuer: Cardsign) -> None:
    """However long its kid is, and whatever it says."""
    kid = "x" * 200 + " for card, held by eve"
    generate(issuer, "--role", "release", "--kid", kid)
    thumbprint = open_store(Path("keys")).state.find(kid).thumbprint
    made = run(issuer("keyset", "draft", "-o", DRAFT))
    digest = made.text.strip()

    shown = run(issuer("keyset", "sign", DRAFT, "--digest", digest))

    for text in (made.err, shown.err, run(issuer("keyset", "show", DRAFT)).text):
        (line,) = [one for one in text.splitlines() if thumbprint in one]
        assert "for release, held by owner" in line.partition(kid)[0]
        assert line.endswith(f', kid "{kid}"')


def test_a_key_that_is_not_listed_yet_hinders_nobody(issuer: Cardsign) -> None:
    """It is in no key set, signs nothing, and cards are published as ever."""
    before = run(issuer("keys", "jwks")).json["keys"]
    later, first_of_its_kind = generate(issuer), generate(issuer, "--alg", "RS256")

    shown = run(issuer("keys", "jwks"))
    run(issuer("sign", "card.json", "-o", "signed.json"))
    run(issuer("release", "renew", "--card", "signed.json"))
    run(issuer("publish", "signed.json"))

    assert (state_of(later), state_of(first_of_its_kind)) == ("generated", "active")
    assert shown.json["keys"] == before
    assert f"{first_of_its_kind} is left out" in shown.err
    published = run(issuer("publish", "signed.json", "--json")).json["kids"]
    assert {later, first_of_its_kind}.isdisjoint(published)


def publish(cardsign: Cardsign) -> None:
    """Sign, list and publish."""
    run(cardsign("sign", "card.json", "-o", "signed.json"))
    run(cardsign("release", "renew", "--card", "signed.json"))
    run(cardsign("publish", "signed.json", "--max-age", "0"))


def test_a_log_that_was_written_anew_is_betrayed_by_the_release(
    issuer: Cardsign, tmp_path: Path
) -> None:
    """Chain and state agree; what was published does not."""
    assert run(issuer("keys", "log")).status == 0
    log = Path("keys/log.jsonl")
    lines, state = log.read_bytes().splitlines(), StoreState()
    log.write_bytes(b"")
    for line in lines:  # each as it is, but for its actor and what follows from that
        events = json.loads(line)["events"]
        written = write_line(state, events, read_stamp(json.loads(line)["time"]), "mallory")
        state, _ = read_line(state, written, "log")
        log.write_bytes(log.read_bytes() + written + b"\n")
    (seen,) = (path for path in Path("home").rglob("keystores/*") if path.is_file())
    for command in ("log", "doctor"):
        told = issuer("keys", command).err
        assert "keystore.other_history" in told
        assert f"Run: rm {seen.resolve()}\n" in told

    # Asked by somebody who has not seen the store before.
    ended = issuer("keys", "doctor", HOME=str(tmp_path / "other"))
    assert "keystore.audit_broken" in ended.err
    assert "release 1 names" in ended.err
    assert ended.status == 1


def root_of(store: str = "keys") -> str:
    """The kid of the first root key."""
    keys = open_store(Path(store)).state.keys
    return next(key.kid for key in keys if "root" in key.roles)


def test_a_root_key_signs_once_a_keyset_lists_it(issuer: Cardsign) -> None:
    """From a store of its own its public key goes to another holder; a card key signs at once."""
    root = run(issuer("keys", "generate", "--role", "root", "--keystore", "bob"))
    command = root.err.partition("whoever drafts the keyset: ")[2].split()
    assert command[:3] == ["cardsign", "keys", "export"]
    assert run(issuer(*command[1:])).json["kty"] == "EC"
    beside = run(issuer("keys", "generate", "--role", "root"))
    assert "signs as soon as a keyset statement lists it" in beside.err
    card = run(issuer("keys", "generate", "--keystore", "other"))
    assert "it signs from now on" in card.err


def test_the_only_root_is_not_revoked_before_another_is_listed(issuer: Cardsign) -> None:
    """One that no keyset names can go."""
    spare = generate(issuer, "--role", "root")

    refused = issuer("keys", "revoke", root_of(), "--reason", "superseded", "--yes")
    assert (refused.status, state_of(root_of())) == (2, "active")
    assert "keystore.still_needed" in refused.err
    run(issuer("keys", "revoke", spare, "--reason", "superseded", "--yes"))
    assert state_of(spare) == "revoked"
