"""`cardsign fetch`: verified payloads, of public cards and of extended ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardsign.card.canonical import canonicalize
from cardsign.jose.jwks import JwkSet
from cardsign.urls import CARD_PATH
from tests.cli.conftest import Cardsign, Ended
from tests.cli.live_peer import LivePeer, live_peer
from tests.cli.peer import AUDIENCE
from tests.jose.statement_making import key
from tests.publications import sign

Fetch = Callable[..., Ended]
EXTENDED = ("--extended", "--audience", AUDIENCE, "--credential", "env:TIDES_TOKEN")


@pytest.fixture
def peer(cardsign: Cardsign, tmp_path: Path) -> Iterator[LivePeer]:
    """A live peer whom the policy enrols."""
    with live_peer(tmp_path / "published") as one:
        one.write_policy()
        yield one


@pytest.fixture
def fetch(cardsign: Cardsign, peer: LivePeer) -> Fetch:
    """`cardsign fetch` of the peer by somebody who has his token, which is shown nowhere."""

    def run(*options: str, url: str | None = None) -> Ended:
        command = ("fetch", url or peer.origin, "--insecure-loopback-http", *options)
        ended = cardsign(*command, TIDES_TOKEN=peer.token)
        assert peer.token not in ended.err + ended.text
        assert not any(peer.token in option for option in options)
        return ended

    return run


def test_the_verified_payload_is_written(peer: LivePeer, fetch: Fetch) -> None:
    """On stdout what the signature covers, and nothing else; the verdict is talk."""
    ended = fetch()
    assert (ended.status, ended.out) == (0, canonicalize(peer.card, "served-as-is").data)
    assert ended.err == f"cardsign: trusted: {peer.origin}{CARD_PATH}, tides\n"


def test_by_keys_alone(peer: LivePeer, fetch: Fetch) -> None:
    """Without a policy the holder of these keys is who it must be."""
    Path("trust.toml").unlink()
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    assert fetch("--jwks", "jwks.json").json["name"] == peer.card["name"]

    Path("jwks.json").write_bytes(JwkSet.of([key("mallory").public]).to_bytes())
    ended = fetch("--jwks", "jwks.json")
    assert (ended.status, ended.out) == (1, b"")
    assert "key.unknown" in ended.err


def test_what_is_not_trusted_replaces_nothing(peer: LivePeer, fetch: Fetch) -> None:
    """The file of before stays, and why is said."""
    assert fetch("-o", "card.json").status == 0
    before = Path("card.json").read_bytes()
    edited = {**json.loads(sign(peer.card, key("card"))), "version": "6.6.6"}
    peer.serve(CARD_PATH, json.dumps(edited).encode())

    ended = fetch("-o", "card.json")
    assert ended.status == 1
    assert "sig.bad" in ended.err
    assert Path("card.json").read_bytes() == before


def test_nobody_answers(cardsign: Cardsign, peer: LivePeer, fetch: Fetch) -> None:
    """No verdict, nothing written."""
    peer.serve(CARD_PATH, b"{}", 503)
    ended = fetch("-o", "card.json")
    assert ended.status == 3
    assert "fetch.status" in ended.err
    assert not Path("card.json").exists()


# ------------------------------------------------------------------ extended


def test_the_extended_card(peer: LivePeer, fetch: Fetch) -> None:
    """The token went to the one endpoint."""
    ended = fetch(*EXTENDED, "-o", "extended.json")
    assert ended.status == 0, ended.err
    payload = Path("extended.json").read_bytes()
    assert [skill["id"] for skill in json.loads(payload)["skills"]] == ["tides", "pilots"]
    assert f"trusted: {peer.origin}/a2a, tides, extended card of audience {AUDIENCE}" in ended.err
    assert [path for path, said in peer.seen if said] == ["/a2a"]
    signed = json.loads(peer.extended())
    del signed["signatures"]
    digest = hashlib.sha256(canonicalize(signed, "served-as-is").data).hexdigest()
    assert hashlib.sha256(payload).hexdigest() == digest


SPELLINGS: dict[str, dict[str, object]] = {
    "of A2A 1.0": {"capabilities": {"extendedAgentCard": True}},
    "of A2A 0.3": {"capabilities": {}, "supportsAuthenticatedExtendedCard": True},
    "of no version, but in use": {"capabilities": {}, "supportsExtendedAgentCard": True},
}


@pytest.mark.parametrize("flag", SPELLINGS.values(), ids=SPELLINGS)
def test_G13_the_flag_of_an_extended_card_has_three_spellings(
    flag: dict[str, object], peer: LivePeer, fetch: Fetch
) -> None:
    """The walk from the public card to the extended one works under each."""
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    peer.serve(CARD_PATH, sign({**peer.card, **flag}, key("card")))
    options = ("--audience", AUDIENCE, "--credential", "env:TIDES_TOKEN", "--jwks", "jwks.json")
    ended = fetch("--extended", *options)
    assert ended.status == 0, ended.err
    assert [skill["id"] for skill in ended.json["skills"]] == ["tides", "pilots"]


@pytest.mark.parametrize("flag", [{}, {"supportsExtendedAgentCard": "yes"}], ids=["none", "text"])
def test_G13_without_the_flag_nothing_is_sent(
    flag: dict[str, object], peer: LivePeer, fetch: Fetch
) -> None:
    """The twin: a card that announces no extended card is not asked for one."""
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    peer.serve(CARD_PATH, sign({**peer.card, "capabilities": {}, **flag}, key("card")))
    options = ("--audience", AUDIENCE, "--credential", "env:TIDES_TOKEN", "--jwks", "jwks.json")
    ended = fetch("--extended", *options)
    assert ended.status == 3
    assert "call.no_extended" in ended.err
    assert not any(said for _, said in peer.seen)


def test_a_credential_in_a_file(peer: LivePeer, fetch: Fetch, tmp_path: Path) -> None:
    """Which only the user can read; what can be run is no source."""
    path = tmp_path / "token"
    path.write_text(peer.token + "\n")
    path.chmod(0o600)
    options = ("--extended", "--audience", AUDIENCE, "--credential")
    assert fetch(*options, f"file:{path}").status == 0
    ended = fetch(*options, f"exec:{path}")
    assert (ended.status, "credential.none" in ended.err) == (2, True)
    assert "env:NAME or file:/absolute/path" in ended.err


SWAPS = {
    "another audience's": ("0123456789abcdef", 1, "extended.audience_mismatch"),
    "the public one": (None, 1, "extended.not_marked"),
}


@pytest.mark.parametrize(("audience", "status", "code"), SWAPS.values(), ids=SWAPS)
def test_a_swapped_extended_card_replaces_nothing(
    peer: LivePeer, fetch: Fetch, audience: str | None, status: int, code: str
) -> None:
    """What was fetched before stays."""
    assert fetch(*EXTENDED, "-o", "extended.json").status == 0
    before = Path("extended.json").read_bytes()
    served = peer.extended(audience) if audience else sign(peer.card, key("card"))
    peer.serve_called("/a2a", served)

    ended = fetch(*EXTENDED, "-o", "extended.json")
    assert ended.status == status
    assert code in ended.err
    assert Path("extended.json").read_bytes() == before


def test_a_public_card_that_is_not_trusted_ends_it(peer: LivePeer, fetch: Fetch) -> None:
    """Before the credential is even loaded."""
    peer.serve(CARD_PATH, sign({**peer.card, "version": "9"}, key("mallory")))
    options = ("--extended", "--audience", AUDIENCE, "--credential", "env:ABSENT")
    ended = fetch(*options, "-o", "extended.json")
    assert ended.status == 1
    assert "key.unknown" in ended.err
    assert not any(said for _, said in peer.seen)


def test_a_refused_credential(peer: LivePeer, fetch: Fetch) -> None:
    """The peer's challenge is shown, and nobody whom it names is asked."""
    challenge = 'Bearer resource_metadata="https://evil.example/x"'
    peer.serve("/a2a", b"{}", 401, WWW_Authenticate=challenge)
    ended = fetch(*EXTENDED)
    assert ended.status == 3
    assert "credential.refused" in ended.err
    assert "it says it wants: Bearer resource_metadata" in ended.err


FAULTS = {
    "no credential": (("--audience", AUDIENCE), "credential.none"),
    "a token in place of its source": (
        ("--credential", "s3cr3t-t0k3n", "--audience", AUDIENCE),
        "credential.none",
    ),
    "a client without its secret": (
        ("--client-id", "me", "--audience", AUDIENCE),
        "usage.conflict",
    ),
    "a variable that is not set": (
        ("--credential", "env:ABSENT", "--audience", AUDIENCE),
        "credential.none",
    ),
    "no audience": (("--credential", "env:TIDES_TOKEN"), "usage.conflict"),
    "an audience that is none": (("--audience", "Late Payers"), "usage.invalid"),
}


@pytest.mark.parametrize(("options", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_command_line(
    options: tuple[str, ...], code: str, peer: LivePeer, fetch: Fetch
) -> None:
    """Status 2; what may be a token is not repeated, and nothing was sent."""
    ended = fetch("--extended", *options)
    assert (ended.status, ended.out) == (2, b"")
    assert code in ended.err
    assert "s3cr3t" not in ended.err
    assert not any(said for _, said in peer.seen)


def test_a_file_is_no_url(fetch: Fetch) -> None:
    """For files there is `cardsign verify`."""
    ended = fetch(url="card.json")
    assert (ended.status, "usage.invalid" in ended.err) == (2, True)


@pytest.mark.parametrize("before", ["http://", "https://", ""])
def test_a_password_in_a_url_is_not_repeated(
    cardsign: Cardsign, peer: LivePeer, before: str
) -> None:
    """The URL is refused, and shown without it."""
    ended = cardsign("fetch", f"{before}user:hunter2@agent.example", "--trust", "trust.toml")
    assert ended.status in (2, 3)
    assert "hunter2" not in ended.text + ended.err
    assert "...@agent.example" in ended.text + ended.err


def test_an_audience_without_an_extended_card(fetch: Fetch) -> None:
    """It would promise what is not asked."""
    ended = fetch("--audience", AUDIENCE)
    assert (ended.status, "usage.conflict" in ended.err) == (2, True)


def test_a_peer_outside_its_origins_gets_nothing(peer: LivePeer, fetch: Fetch) -> None:
    """By keys alone the card may name any host; the token goes to the one that was typed."""
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    one = {**peer.card["supportedInterfaces"][0], "url": "http://localhost:1/a2a"}
    peer.serve(CARD_PATH, sign({**peer.card, "supportedInterfaces": [one]}, key("card")))
    ended = fetch(*EXTENDED, "--jwks", "jwks.json")
    assert (ended.status, "credential.elsewhere" in ended.err) == (2, True)
    assert not any(said for _, said in peer.seen)
