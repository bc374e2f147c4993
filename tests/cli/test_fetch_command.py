"""`cardsign fetch`: verified payloads, of public cards and of extended ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardsign.card.profiles import canonicalize
from cardsign.jose.keys import JwkSet
from cardsign.urls import CARD_PATH
from tests.cli.conftest import Cardsign, Ended
from tests.cli.live_peer import LivePeer, live_peer
from tests.cli.peer import AUDIENCE
from tests.publish.publications import sign
from tests.statements.making import key

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


FLAGS: dict[str, tuple[dict[str, object], bool]] = {
    "of A2A 1.0": ({"capabilities": {"extendedAgentCard": True}}, True),
    "of A2A 0.3": ({"supportsAuthenticatedExtendedCard": True}, True),
    "of no version, but in use": ({"supportsExtendedAgentCard": True}, True),
    "none": ({}, False),
    "text": ({"supportsExtendedAgentCard": "yes"}, False),
}


@pytest.mark.parametrize(("flag", "announces"), FLAGS.values(), ids=FLAGS)
def test_G13_the_flag_of_an_extended_card_has_three_spellings(
    flag: dict[str, object], announces: bool, peer: LivePeer, fetch: Fetch
) -> None:
    """Under each the extended card is asked for; without it nothing is sent."""
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    peer.serve(CARD_PATH, sign({**peer.card, "capabilities": {}, **flag}, key("card")))
    ended = fetch(*EXTENDED, "--jwks", "jwks.json")
    if announces:
        assert ended.status == 0, ended.err
        assert [skill["id"] for skill in ended.json["skills"]] == ["tides", "pilots"]
    else:
        assert (ended.status, "call.no_extended" in ended.err) == (3, True)
    assert any(said for _, said in peer.seen) is announces


FAULTS = {
    "no credential": (("--extended", "--audience", AUDIENCE), "credential.none"),
    "a token in place of its source": (
        ("--extended", "--credential", "s3cr3t-t0k3n", "--audience", AUDIENCE),
        "credential.none",
    ),
    "a client without its secret": (
        ("--extended", "--client-id", "me", "--audience", AUDIENCE),
        "usage.conflict",
    ),
    "no audience": (("--extended", "--credential", "env:TIDES_TOKEN"), "usage.conflict"),
    "an audience that is none": (("--extended", "--audience", "Late Payers"), "usage.invalid"),
    "an audience of the public card": (("--audience", AUDIENCE), "usage.conflict"),
}


@pytest.mark.parametrize(("options", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_command_line(
    options: tuple[str, ...], code: str, peer: LivePeer, fetch: Fetch
) -> None:
    """Status 2; what may be a token is not repeated, and nothing was sent."""
    ended = fetch(*options)
    assert (ended.status, ended.out, code in ended.err) == (2, b"", True)
    assert "s3cr3t" not in ended.err
    assert not any(said for _, said in peer.seen)
