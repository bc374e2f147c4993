"""An issuer's statements on the command line, from `init` to theft and recovery."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign.issuer.epochs import make_recovery_key
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.store import create_store, open_store
from tests.cli.conftest import PASSPHRASE, Cardsign, revoke_in_log, run
from tests.support import PORTABLE

ISSUER = "https://tides.example"
SAME = {"CARDSIGN_RECOVERY_PASSPHRASE": PASSPHRASE}
RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def issuer(cardsign: Cardsign) -> Cardsign:
    """A folder set up in the full form, with `card.json` in it."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    done = cardsign("init", "--issuer", ISSUER, "--recovery-out", "recovery.key", **RECOVERY)
    assert done.status == 0, done.err
    return cardsign


def publish(cardsign: Cardsign, *options: str) -> None:
    """Sign, list, publish."""
    run(cardsign("sign", "card.json", "-o", "signed.json"))
    run(cardsign("release", "renew", "--card", "signed.json"))
    run(cardsign("publish", "signed.json", *options))


def tree() -> dict[str, bytes]:
    """Every file of the issuer's folder, but for empty locks, and what the user has seen."""
    found = (path for path in Path().rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): path.read_bytes() for path in found if "keystores" not in path.parts}


def key_of(role: str) -> str:
    """The kid of the active key of a role."""
    keys = open_store(Path("keys")).state.keys
    return next(key.kid for key in keys if role in key.roles and key.state == "active")


def add(role: Any) -> None:
    """A new key of a role, which is active."""
    open_store(Path("keys")).add_key(
        PrivateKey.generate("ES256"),
        PASSPHRASE.encode(),
        now=datetime.now(UTC),
        roles=(role,),
        holder="owner",
    )


def release(cardsign: Cardsign) -> Any:
    """The newest release."""
    return cardsign("release", "show", "--json").json


@pytest.fixture
def forward(clock: Callable[[datetime], None]) -> Callable[[timedelta], None]:
    """Let the clock go forward from now."""
    return lambda by: clock(datetime.now(UTC).replace(microsecond=0) + by)


# ------------------------------------------------------------------ releases


def test_what_is_told_to_a_release_it_says(issuer: Cardsign) -> None:
    """A URL of its own, a floor at once, a URL withdrawn, the floor of extended cards."""
    other = f"{ISSUER}/ebb.json"
    run(issuer("sign", "card.json", "-o", "signed.json"))
    run(issuer("release", "renew", "--card", f"{other}=signed.json", "--raise-floor"))
    assert release(issuer)["floor"] == {other: 2}
    run(issuer("release", "renew", "--withdraw", other, "--extended-floor", "2"))
    assert release(issuer)["cards"] == []
    assert release(issuer)["floor"] == {other: 2, "extended": 2}


# ------------------------------------------------------------------ theft


def test_a_root_key_is_exchanged_in_good_order(
    issuer: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old and new root sign; the digest is typed in by a person."""
    add("root")
    new = open_store(Path("keys")).state.keys[-1].kid
    exchange = ("--remove-root", "owner", "--add-root", f"owner={new}")
    digest = run(issuer("keyset", "draft", *exchange)).text.strip()
    spaced = f"{digest[:32].upper()} {digest[32:]}"
    monkeypatch.setattr("cardsign.cli.statements.terminal_prompt", lambda: lambda question: spaced)
    run(issuer("keyset", "sign", "keyset-1.2.json"))
    run(issuer("keyset", "publish", "keyset-1.2.json"))
    assert run(issuer("keyset", "show", "--json")).json["root"] == [new]
    shown = run(issuer("keyset", "show"))
    assert "signed by the root before: 1 of 1 (owner)" in shown.text


# ------------------------------------------------------------------ setting up


def test_the_recovery_key_is_printed_once_and_kept_nowhere(cardsign: Cardsign) -> None:
    """On stdout, encrypted; no file of the folder holds it."""
    done = run(cardsign("init", "--issuer", ISSUER, **RECOVERY))
    label = json.loads(done.text)["thumbprint"].encode()
    private = json.loads(done.text)["ciphertext"].encode()
    found = tree()
    assert not any(private in data for data in found.values())
    assert any(label in data for data in found.values()) is False  # only inside signed payloads
    assert "the card, root and release keys are in keys under one passphrase" in done.err


# ------------------------------------------------------------------ refusals


def _nothing(cardsign: Cardsign) -> None:
    pass


def _unsigned(cardsign: Cardsign) -> None:
    run(cardsign("keyset", "draft"))


def _signed_card(cardsign: Cardsign) -> None:
    run(cardsign("sign", "card.json", "-o", "signed.json"))


def _card_elsewhere(cardsign: Cardsign) -> None:
    moved = json.dumps(PORTABLE).replace(ISSUER, "https://evil.example")
    Path("card.json").write_text(moved)
    _signed_card(cardsign)
    run(cardsign("release", "renew", "--card", "signed.json"))


def _signed_too_early(cardsign: Cardsign) -> None:
    """The standby takes over before the release that speaks of its keyset is published."""
    publish(cardsign)
    run(cardsign("keys", "generate"))
    digest = run(cardsign("keyset", "draft")).text.strip()
    run(cardsign("keyset", "sign", "keyset-1.2.json", "--digest", digest))
    assert cardsign("keyset", "publish", "keyset-1.2.json", CARDSIGN_PASSPHRASE=None).status == 1
    revoke_in_log(key_of("card"), "superseded")
    open_store(Path("keys")).take_due_step(now=datetime.now(UTC))
    _signed_card(cardsign)


def _edited_log(cardsign: Cardsign) -> None:
    """A pull request that puts a stranger's key in the place of ours (threat 22)."""
    log = Path("keys/log.jsonl")
    theirs = PrivateKey.generate("ES256").public.jwk()
    ours = open_store(Path("keys")).state.find(key_of("card")).public.jwk()
    log.write_text(log.read_text().replace(ours["x"], theirs["x"]).replace(ours["y"], theirs["y"]))


def _continued_log(cardsign: Cardsign) -> None:
    """The same by new lines, as a cardsign would write them: our key ends, and theirs signs."""
    store, now = open_store(Path("keys")), datetime.now(UTC)
    store.apply(agenda.revoke, key_of("card"), reason="superseded", now=now)
    entered = {"custody": "exec:/bin/evil"}
    theirs = PrivateKey.generate("ES256").public
    store.apply(agenda.enter, theirs, now=now, **entered)
    moved = {"event": "moved", "key": theirs.thumbprint}
    line = [{**moved, "to": to} for to in ("prepublished", "active")]
    store.commit(lambda state: line, now=now)


def _stranger(cardsign: Cardsign) -> None:
    _unsigned(cardsign)
    create_store(Path("stranger"))
    Path("other.key").write_bytes(make_recovery_key(b"another horse entirely")[1])


def _lost_release_key(cardsign: Cardsign) -> None:
    revoke_in_log(key_of("release"), "superseded")


#: What is done before, the command, its exit status, and what it says.
REFUSALS: dict[str, tuple[Callable[[Cardsign], None], str, int, str]] = {
    "a draft that nobody has signed": (
        _unsigned,
        "keyset publish keyset-1.2.json",
        1,
        "statement.unsigned",
    ),
    "a digest that is another one": (
        _unsigned,
        f"keyset sign keyset-1.2.json --digest {'0' * 64}",
        2,
        "statement.digest",
    ),
    "a digest that nobody told": (_unsigned, "keyset sign keyset-1.2.json", 2, "usage.conflict"),
    "a threshold above the holders": (
        _nothing,
        "keyset draft --threshold 2",
        2,
        "statement.threshold",
    ),
    "an origin that is none": (_nothing, "keyset draft --origin tides", 2, "card.interface_url"),
    "a holder without a name": (_nothing, "keyset draft --add-root =x", 2, "usage.conflict"),
    "recovery without its key": (_nothing, "keyset recover --yes", 2, "usage.conflict"),
    "recovery by another key": (
        _stranger,
        "keyset recover --yes --recovery-file other.key",
        1,
        "sign.no_key",
    ),
    "a card outside the keyset's origins": (
        _card_elsewhere,
        "publish signed.json",
        1,
        "card.origin_mismatch",
    ),
    "a card that no release lists": (_signed_card, "publish signed.json", 1, "publish.unlisted"),
    "a card by a key that only a withheld keyset lists": (
        _signed_too_early,
        "publish signed.json",
        1,
        "publish.unlisted",
    ),
    "signing with a key that was edited in": (
        _edited_log,
        "sign card.json -o signed.json",
        2,
        "keystore.audit_broken",
    ),
    "signing with a key that was written on": (
        _continued_log,
        "sign card.json -o signed.json",
        2,
        "keystore.not_listed",
    ),
    "a release without a release key": (_lost_release_key, "release renew", 1, "sign.no_key"),
    "a withdrawal of what is not listed": (
        _nothing,
        "release renew --withdraw https://tides.example/ebb.json",
        2,
        "usage.conflict",
    ),
    "a statement that is none": (_nothing, "keyset publish cardsign.toml", 1, "(cardsign.toml"),
    "a recovery key that is none": (
        _nothing,
        "keyset recover --yes --recovery-file cardsign.toml",
        2,
        "(cardsign.toml)",
    ),
    "a card that is no card": (_nothing, "release renew --card cardsign.toml", 2, "json.syntax"),
}


@pytest.mark.parametrize(("prepare", "words", "status", "code"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_leaves_the_disk_as_it_was(
    prepare: Callable[[Cardsign], None], words: str, status: int, code: str, issuer: Cardsign
) -> None:
    """One line, one code, one hint, and not a byte written."""
    prepare(issuer)
    before = tree()
    ended = issuer(*words.split(), **RECOVERY)
    assert code in ended.err
    assert ended.status == status
    assert tree() == before


INIT_REFUSALS: dict[str, tuple[list[str], dict[str, str], str]] = {
    "no origin": ([], RECOVERY, "usage.conflict"),
    "an origin without TLS": (["--issuer", "http://tides.example"], RECOVERY, "usage.invalid"),
    "an origin that is none": (["--issuer", "tides"], RECOVERY, "card.interface_url"),
    "one passphrase for all": (
        ["--issuer", ISSUER],
        {"CARDSIGN_RECOVERY_PASSPHRASE": PASSPHRASE},
        "passphrase.unfit",
    ),
}


@pytest.mark.parametrize(("words", "secrets", "code"), INIT_REFUSALS.values(), ids=INIT_REFUSALS)
def test_init_writes_all_or_nothing(
    words: list[str], secrets: dict[str, str], code: str, cardsign: Cardsign
) -> None:
    """Everything is asked for before anything is made."""
    ended = cardsign("init", *words, **secrets)
    assert (ended.status, code in ended.err) == (2, True)
    assert tree() == {}


def test_a_recovery_key_is_replaced_with_its_own_signature(issuer: Cardsign) -> None:
    """The root alone cannot; then the old key opens nothing any more, and the new one does."""
    private, text = make_recovery_key(b"another horse entirely")
    Path("new.key").write_bytes(text)
    Path("new.jwk").write_text(json.dumps(private.public.jwk()))
    digest = run(issuer("keyset", "draft", "--recovery", "owner=new.jwk")).text.strip()
    signing = ("keyset", "sign", "keyset-1.2.json", "--digest", digest)
    assert "the recovery keys before: 0 of 1" in run(issuer(*signing)).err
    ended = issuer("keyset", "publish", "keyset-1.2.json")
    assert (ended.status, "statement.recovery" in ended.err) == (1, True)
    run(issuer(*signing, "--recovery-file", "recovery.key", **RECOVERY))
    run(issuer("keyset", "publish", "keyset-1.2.json"))
    recover = ("keyset", "recover", "--yes", "--recovery-file")
    assert issuer(*recover, "recovery.key", **RECOVERY).status == 1
    run(issuer(*recover, "new.key", **RECOVERY))
    run(issuer("keyset", "publish", "keyset-2.1.json"))
    assert run(issuer("keyset", "show", "--json")).json["epoch"] == 2
