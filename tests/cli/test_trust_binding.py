"""Whose state it is, what a lock may do, and what is compared before an entry is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import read_keyset
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from tests.cli import peer
from tests.cli.conftest import Cardsign, Network
from tests.jose.statement_making import URL, key
from tests.support import PORTABLE, dump, signed

HOME = "https://tides.example"
EVIL = "https://evil.example"
BY_URL = """\
format = 1
[[issuer]]
name = "acme"
origins = ["{origin}"]
freshness = "waived"
[issuer.anchor]
jwks = "https://tides.example/.well-known/jwks.json"
"""
KEYS_URL = "https://tides.example/.well-known/jwks.json"


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """Work in a folder below this one, with the same home."""
    before = Path.cwd()
    (before / folder).mkdir(exist_ok=True)
    os.chdir(before / folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture
def tides() -> bytes:
    """The genuine issuer's first keyset statement."""
    return peer.keyset()


# ------------------------------------------------------------------ S1


def test_a_folder_of_a_stranger_cannot_say_whom_a_name_means(
    cardsign: Cardsign, network: Network, tides: bytes
) -> None:
    """A clone's `acme` is known; the user's own `acme` is still a stranger (S1)."""
    network[EVIL + "/.well-known/agent-card.json"] = dump(signed(PORTABLE, key("card")))
    network[KEYS_URL] = JwkSet.of([key("card").public]).to_bytes()
    with inside("clone"):
        Path("trust.toml").write_text(BY_URL.format(origin=EVIL))
        assert cardsign("trust", "init").status == 0
        cardsign("verify", EVIL + "/", "--json")
    with inside("own"):
        Path("trust.toml").write_text(BY_URL.format(origin=HOME))
        Path("card.json").write_bytes(dump(signed(PORTABLE, key("card"))))
        ended = cardsign("verify", "card.json", "--issuer", "acme", "--json")
        assert (ended.status, ended.results) == (2, b"")
        assert "state.missing" in ended.err
        assert cardsign("trust", "init").status == 0
        ended = cardsign("verify", "card.json", "--issuer", "acme", "--json")
        assert (ended.status, ended.json["verdict"]) == (3, "indeterminate")
        assert "trust.no_keys" in [one["code"] for one in ended.json["reasons"]]


@pytest.mark.parametrize("again", ["edited", "removed and added"])
def test_what_was_seen_is_not_carried_to_other_origins(
    cardsign: Cardsign, network: Network, tides: bytes, again: str
) -> None:
    """Neither by an edit nor by `trust remove` and `trust add`; back at home it holds."""
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[KEYS_URL] = JwkSet.of([key("card").public]).to_bytes()
    own = BY_URL.format(origin=HOME)
    Path("trust.toml").write_text(own)
    assert cardsign("trust", "init").status == 0
    assert cardsign("verify", HOME + "/", "--json").json["verdict"] == "trusted"
    if again == "edited":
        Path("trust.toml").write_text(BY_URL.format(origin=EVIL))
        ended = cardsign("trust", "init")
    else:
        assert cardsign("trust", "remove", "acme").status == 0
        ended = cardsign("trust", "add", "acme", "--jwks-url", KEYS_URL, "--origin", EVIL)
    assert (ended.status, "state.other_anchor" in ended.err) == (2, True)
    assert "cardsign trust known forget acme" in ended.err
    Path("trust.toml").write_text(own)
    assert cardsign("verify", HOME + "/", "--json").json["verdict"] == "trusted"


def test_adding_anew_says_that_state_exists(
    cardsign: Cardsign, network: Network, tides: bytes
) -> None:
    """Whoever adds an issuer learns that it is remembered from before."""
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = tides
    network[HOME + RELEASE_PATH] = peer.release(tides, PORTABLE)
    first = cardsign("trust", "add", HOME, "--name", "acme", "--yes")
    assert "remembered from before" not in first.err
    cardsign("verify", HOME + "/", "--json")
    cardsign("trust", "remove", "acme")
    again = cardsign("trust", "add", HOME, "--name", "acme", "--yes")
    assert again.status == 0
    assert "acme is remembered from before" in again.err


def test_two_folders_may_call_two_issuers_alike(cardsign: Cardsign, tides: bytes) -> None:
    """Each has state of its own; a policy that lies here is named in the first line."""
    other = peer.keyset(exp=peer.T0 + 91 * 24 * 3600)
    for folder, statement in (("one", tides), ("two", other)):
        with inside(folder):
            Path("k.json").write_bytes(statement)
            Path("r.json").write_bytes(peer.release(statement, PORTABLE))
            Path("card.json").write_bytes(dump(signed(PORTABLE, key("card"))))
            words = ("--yes", "--origin", HOME, "--keyset", "k.json", "--release", "r.json")
            assert cardsign("trust", "add", "partner", *words).status == 0
            said = cardsign("verify", "card.json", "--issuer", "partner")
            first, *_ = said.text.splitlines()
            assert first.startswith("trusted: card.json, a card of ")
            assert first.endswith(" (by ./trust.toml, found in this folder)")
            named = cardsign("verify", "card.json", "--issuer", "partner", "--trust", "trust.toml")
            assert "found in this folder" not in named.text
    found = cardsign("trust", "known", "list", "--json").json
    assert [one["name"] for one in found] == ["partner", "partner"]
    assert len({one["policy"] for one in found}) == 2


# ------------------------------------------------------------------ S3


def test_a_strangers_lock_stays_with_the_stranger(cardsign: Cardsign, tides: bytes) -> None:
    """A floor of 2^52 in a clone, one verify there; the user's own folder goes on (S3)."""
    card = dump(signed(PORTABLE, key("card")))
    with inside("own"):
        Path("k.json").write_bytes(tides)
        Path("r.json").write_bytes(peer.release(tides, PORTABLE))
        Path("card.json").write_bytes(card)
        words = ("--yes", "--origin", HOME, "--keyset", "k.json", "--release", "r.json")
        assert cardsign("trust", "add", "tides", *words).status == 0
        policy, lock = Path("trust.toml").read_bytes(), json.loads(Path("trust.lock").read_bytes())
        assert cardsign("verify", "card.json", "--issuer", "tides").status == 0
    floor = lock["issuers"]["tides"]
    floor["keyset"] = {**floor["keyset"], "epoch": 2**52, "digest": "f" * 64}
    floor["newest_iat"] = 2**37
    with inside("clone"):
        Path("trust.toml").write_bytes(policy)
        Path("trust.lock").write_text(json.dumps(lock))
        ended = cardsign("verify", "../own/card.json", "--issuer", "tides")
        assert ended.status != 0
        assert json.loads(Path("trust.lock").read_bytes()) == lock
    with inside("own"):
        assert cardsign("verify", "card.json", "--issuer", "tides").status == 0
        second = peer.keyset(2, tides)
        Path("k2.json").write_bytes(second)
        Path("r2.json").write_bytes(peer.release(second, PORTABLE))
        words = ("--statements", "k2.json", "--statements", "r2.json")
        assert cardsign("verify", "card.json", "--issuer", "tides", *words).status == 0
        raised = json.loads(Path("trust.lock").read_bytes())["issuers"]["tides"]["keyset"]
        assert (raised["epoch"], raised["version"]) == (1, 2)


# ------------------------------------------------------------------ S13


@pytest.fixture
def live(network: Network, tides: bytes) -> str:
    """The digest of what the peer publishes."""
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = tides
    network[HOME + RELEASE_PATH] = peer.release(tides, PORTABLE)
    return read_keyset(tides).digest


def written() -> list[Path]:
    """What there is of policy, lock and state."""
    return [*Path().glob("trust.*"), *peer.STATE.glob("*.json")]


def test_enrolment_compares_before_it_writes(cardsign: Cardsign, live: str) -> None:
    """Another digest, or none in a pipe: nothing is written; the digest is shown (S13)."""
    refused = cardsign("trust", "add", HOME, "--digest", "0" * 64)
    assert (refused.status, "statement.digest" in refused.err) == (1, True)
    assert live in refused.err
    piped = cardsign("trust", "add", HOME)
    assert (piped.status, "usage.unanswered" in piped.err) == (2, True)
    assert f"digest      {live}" in piped.err
    assert written() == []


@pytest.mark.parametrize("words", [("--digest",), ("--yes",)], ids=["its digest", "yes"])
def test_enrolment_goes_on_where_it_was_compared(
    cardsign: Cardsign, live: str, words: tuple[str, ...]
) -> None:
    """With the right digest, or where the user says that he compares elsewhere."""
    given = (*words, live.upper()) if words == ("--digest",) else words
    ended = cardsign("trust", "add", HOME, *given)
    assert ended.status == 0
    assert ("compare the lines above" in ended.err) == (words == ("--yes",))
    assert len(written()) == 3


def test_a_statement_in_hand_is_compared_too(cardsign: Cardsign, tides: bytes) -> None:
    """By --digest, or after a question; without a statement there is nothing to compare."""
    Path("k.json").write_bytes(tides)
    words = ("trust", "add", "tides", "--origin", HOME)
    refused = cardsign(*words, "--keyset", "k.json", "--digest", "0" * 64)
    assert (refused.status, "statement.digest" in refused.err) == (1, True)
    asked = cardsign(*words, "--keyset", "k.json")
    digest = read_keyset(tides).digest
    assert (asked.status, "usage.unanswered" in asked.err) == (2, True)
    assert f"type the same command with --digest {digest}." in asked.err
    nothing = cardsign(*words, "--jwks-url", KEYS_URL, "--digest", "0" * 64)
    assert (nothing.status, "usage.conflict" in nothing.err) == (2, True)
    assert cardsign(*words, "--keyset", "k.json", "--dry-run").status == 0
    assert written() == []
    assert cardsign(*words, "--keyset", "k.json", "--digest", digest).status == 0


# ------------------------------------------------------------------ links out of a folder


@pytest.fixture
def own(cardsign: Cardsign, tides: bytes) -> Path:
    """The user's own folder, which knows `partner` by his keyset and has a lock."""
    with inside("own"):
        Path("k.json").write_bytes(tides)
        Path("r.json").write_bytes(peer.release(tides, PORTABLE))
        words = ("--yes", "--origin", HOME, "--keyset", "k.json", "--release", "r.json")
        assert cardsign("trust", "add", "partner", *words).status == 0
        return Path.cwd()


def test_a_clone_that_links_its_lock_to_the_users_own_cannot_raise_it(
    cardsign: Cardsign, own: Path
) -> None:
    """One `verify` there wrote the stranger's keyset into it as the floor of `partner` (S3)."""
    before = (own / "trust.lock").read_bytes()
    ahead = peer.keyset(epoch=2**40)
    with inside("clone"):
        Path("k.json").write_bytes(ahead)
        Path("r.json").write_bytes(peer.release(ahead, PORTABLE))
        Path("card.json").write_bytes(dump(signed(PORTABLE, key("card"))))
        words = ("--yes", "--origin", HOME, "--keyset", "k.json", "--release", "r.json")
        assert cardsign("trust", "add", "partner", *words).status == 0
        verify = ("verify", "card.json", "--issuer", "partner", "--statements", ".")
        assert cardsign(*verify).status == 0  # with a lock of its own
        Path("trust.lock").unlink()
        Path("trust.lock").symlink_to("../own/trust.lock")
        for command in (verify, ("trust", "remove", "partner"), ("trust", "pin", "partner")):
            ended = cardsign(*command)
            assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
    assert (own / "trust.lock").read_bytes() == before


def test_a_clone_that_links_its_policy_to_the_users_own_cannot_have_it_edited(
    cardsign: Cardsign, own: Path
) -> None:
    """What is added in the clone would be believed in the user's own folder."""
    before = (own / "trust.toml").read_bytes()
    with inside("clone"):
        Path("trust.toml").symlink_to("../own/trust.toml")
        ended = cardsign("trust", "add", "acme", "--jwks-url", KEYS_URL, "--origin", EVIL)
        assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
        named = cardsign("trust", "list", "--trust", "trust.toml")  # which is the user's own word
        assert (named.status, "partner" in named.text) == (0, True)
    assert (own / "trust.toml").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [("init",), ("add", "acme", "--jwks-url", KEYS_URL, "--origin", EVIL)],
    ids=["init", "add"],
)
def test_a_link_of_a_clone_makes_no_file_elsewhere(
    cardsign: Cardsign, own: Path, words: tuple[str, ...]
) -> None:
    """The file that it leads to is not there yet, and so was written where the stranger wished."""
    with inside("clone"):
        Path("trust.toml").symlink_to("../own/new.toml")
        ended = cardsign("trust", *words)
        assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
    assert not (own / "new.toml").exists()


def test_a_policy_may_be_a_link_that_stays_in_its_folder(cardsign: Cardsign, own: Path) -> None:
    """The honest twin."""
    with inside("own"):
        Path("shared").mkdir()
        for name in ("trust.toml", "trust.lock"):
            Path(name).rename(f"shared/{name}")
            Path(name).symlink_to(f"shared/{name}")
        assert cardsign("trust", "remove", "partner").status == 0
        assert "partner" not in Path("shared/trust.toml").read_text()
        assert "partner" not in Path("shared/trust.lock").read_text()
