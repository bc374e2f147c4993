"""Whose state it is, what a lock may do, and what is compared before an entry is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import read_keyset
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from tests.cli import peer
from tests.cli.conftest import Cardsign, Network
from tests.statements.making import URL, key
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
BY_KEYS_URL = ("acme", "--jwks-url", KEYS_URL, "--origin", EVIL)


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


def entry(name: str) -> Any:
    """What `trust.lock` has of an issuer."""
    return json.loads(Path("trust.lock").read_bytes())["issuers"].get(name)


def write_tides(statement: bytes, folder: Path = Path()) -> tuple[str, ...]:
    """A keyset, a release under it and a card that it lists; the options that enrol the issuer."""
    (folder / "k.json").write_bytes(statement)
    (folder / "r.json").write_bytes(peer.release(statement, PORTABLE))
    (folder / "card.json").write_bytes(dump(signed(PORTABLE, key("card"))))
    return ("--yes", "--origin", HOME, "--keyset", "k.json", "--release", "r.json")


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
        cardsign("verify", EVIL + "/", "--json")
    with inside("own"):
        Path("trust.toml").write_text(BY_URL.format(origin=HOME))
        Path("card.json").write_bytes(dump(signed(PORTABLE, key("card"))))
        ended = cardsign("verify", "card.json", "--issuer", "acme", "--json")
        assert (ended.status, ended.json["verdict"]) == (3, "indeterminate")
        assert "trust.no_keys" in [one["code"] for one in ended.json["reasons"]]


@pytest.mark.parametrize("again", ["edited", "removed and added"])
def test_an_entry_of_the_lock_is_not_carried_to_another_anchor(
    cardsign: Cardsign, tides: bytes, again: str
) -> None:
    """Neither by an edit nor by `trust remove` and `trust add`; under its own anchor it holds."""
    words = write_tides(tides)
    assert cardsign("trust", "add", "acme", *words).status == 0
    assert cardsign("verify", "card.json", "--issuer", "acme").status == 0
    own = Path("trust.toml").read_text()
    if again == "edited":
        Path("trust.toml").write_text(BY_URL.format(origin=EVIL))
        ended = cardsign("verify", "card.json", "--issuer", "acme")
    else:
        assert cardsign("trust", "remove", "acme").status == 0
        ended = cardsign("trust", "add", "acme", "--jwks-url", KEYS_URL, "--origin", EVIL)
    assert (ended.status, "lock.other_anchor" in ended.err) == (2, True)
    assert "cardsign trust forget acme" in ended.err
    Path("trust.toml").write_text(own)
    assert cardsign("verify", "card.json", "--issuer", "acme").status == 0


def test_adding_anew_goes_on_from_the_entry(cardsign: Cardsign, tides: bytes) -> None:
    """Whoever removes an issuer learns that its entry stays; an older keyset is refused then."""
    words = write_tides(tides)
    Path("k2.json").write_bytes(peer.keyset(2, tides))
    newer = ("--yes", "--origin", HOME, "--keyset", "k.json", "--keyset", "k2.json")
    assert cardsign("trust", "add", "acme", *newer).status == 0
    assert "trust.lock keeps its entry" in cardsign("trust", "remove", "acme").err
    older = cardsign("trust", "add", "acme", *words)
    assert (older.status, "statement.rollback" in older.err) == (2, True)
    assert cardsign("trust", "add", "acme", *newer).status == 0


def test_two_folders_may_call_two_issuers_alike(cardsign: Cardsign, tides: bytes) -> None:
    """Each has a lock of its own; a policy that lies here is named in the first line."""
    other = peer.keyset(exp=peer.T0 + 91 * 24 * 3600)
    entries = []
    for folder, statement in (("one", tides), ("two", other)):
        with inside(folder):
            words = write_tides(statement)
            assert cardsign("trust", "add", "partner", *words).status == 0
            said = cardsign("verify", "card.json", "--issuer", "partner")
            first, *_ = said.text.splitlines()
            assert first.startswith("trusted: card.json, a card of ")
            assert first.endswith(" (by ./trust.toml, found in this folder)")
            named = cardsign("verify", "card.json", "--issuer", "partner", "--trust", "trust.toml")
            assert "found in this folder" not in named.text
            entries.append(entry("partner")["keyset"]["digest"])
    assert entries == [read_keyset(tides).digest, read_keyset(other).digest]


# ------------------------------------------------------------------ S3


def test_a_strangers_lock_stays_with_the_stranger(cardsign: Cardsign, tides: bytes) -> None:
    """A floor of 2^52 in a clone, one verify there; the user's own folder goes on (S3)."""
    with inside("own"):
        words = write_tides(tides)
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
        newer = ("--statements", "k2.json", "--statements", "r2.json")
        ended = cardsign("verify", "card.json", "--issuer", "tides", *newer)
        assert (ended.status, "lock.behind" in ended.text) == (0, True)
        assert entry("tides")["keyset"]["version"] == 1
        found = cardsign("trust", "update", *newer)
        assert (found.status, "config.not_allowed" in found.err) == (2, True)
        assert cardsign("trust", "update", *newer, "--trust", "trust.toml").status == 0
        assert entry("tides")["keyset"]["version"] == 2


# ------------------------------------------------------------------ S13


@pytest.fixture
def live(network: Network, tides: bytes) -> str:
    """The digest of what the peer publishes."""
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = tides
    network[HOME + RELEASE_PATH] = peer.release(tides, PORTABLE)
    return read_keyset(tides).digest


def written() -> list[Path]:
    """What there is of policy, lock and cache."""
    return [*Path().glob("trust.*"), *Path("home").rglob("*")]


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
    assert {Path("trust.toml"), Path("trust.lock")} < set(written())


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
        assert cardsign("trust", "add", "partner", *write_tides(tides)).status == 0
        return Path.cwd()


def test_a_clone_that_links_its_lock_to_the_users_own_cannot_raise_it(
    cardsign: Cardsign, own: Path
) -> None:
    """No command reads or writes through a link, named or found (S3)."""
    before = (own / "trust.lock").read_bytes()
    ahead = peer.keyset(epoch=2**40)
    named = ("--trust", "trust.toml")
    with inside("clone"):
        assert cardsign("trust", "add", "partner", *write_tides(ahead)).status == 0
        verify = ("verify", "card.json", "--issuer", "partner", "--statements", ".")
        assert cardsign(*verify).status == 0  # with a lock of its own
        Path("trust.lock").unlink()
        Path("trust.lock").symlink_to("../own/trust.lock")
        for command in (
            verify,
            ("trust", "remove", "partner"),
            ("trust", "pin", "partner"),
            ("trust", "update", "partner", "--statements", "."),
        ):
            for ended in (cardsign(*command), cardsign(*command, *named)):
                assert (ended.status, "file.not_plain" in ended.err) == (2, True), (command, ended)
    assert (own / "trust.lock").read_bytes() == before


def test_a_clone_that_links_its_policy_to_the_users_own_cannot_have_it_edited(
    cardsign: Cardsign, own: Path
) -> None:
    """What is added in the clone would be believed in the user's own folder."""
    before = (own / "trust.toml").read_bytes()
    with inside("clone"):
        Path("trust.toml").symlink_to("../own/trust.toml")
        for command in (("trust", "add", *BY_KEYS_URL), ("trust", "list")):
            for named in ((), ("--trust", "trust.toml")):
                ended = cardsign(*command, *named)
                assert (ended.status, "file.not_plain" in ended.err) == (2, True)
    assert (own / "trust.toml").read_bytes() == before


@pytest.mark.parametrize("named", [(), ("--trust", "trust.toml")], ids=["found", "named"])
def test_a_link_of_a_clone_makes_no_file_elsewhere(
    cardsign: Cardsign, own: Path, named: tuple[str, ...]
) -> None:
    """The file that it leads to is not there yet, and so was written where the stranger wished."""
    with inside("clone"):
        Path("trust.toml").symlink_to("../own/new.toml")
        ended = cardsign("trust", "add", *BY_KEYS_URL, *named)
        assert (ended.status, "file.not_plain" in ended.err) == (2, True)
    assert not (own / "new.toml").exists()


def test_a_plain_file_of_a_clone_is_edited(cardsign: Cardsign, own: Path) -> None:
    """The honest twin: the same files as copies."""
    with inside("clone"):
        for name in ("trust.toml", "trust.lock"):
            Path(name).write_bytes((own / name).read_bytes())
        assert cardsign("trust", "remove", "partner").status == 0
        assert cardsign("trust", "forget", "partner", "--yes").status == 0
        assert "partner" not in Path("trust.toml").read_text() + Path("trust.lock").read_text()
