"""`cardsign resign`: the copy at a gateway follows its upstream, and goes with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH
from tests.cli.conftest import Cardsign
from tests.cli.live_peer import LivePeer, live_peer
from tests.jose.statement_making import key
from tests.publications import sign

COPY = Path("copy.json")

pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def peer(cardsign: Cardsign, tmp_path: Path) -> Iterator[LivePeer]:
    """A live peer whom the policy enrols, and a gateway with a key store."""
    with live_peer(tmp_path / "published") as one:
        one.write_policy()
        assert cardsign("keys", "generate").status == 0
        assert cardsign("keys", "jwks", "-o", "jwks.json").status == 0
        yield one


def resign(peer: LivePeer, *more: str) -> tuple[str, ...]:
    """The command."""
    at = "https://gw.example/tides"
    return ("resign", peer.origin, "--insecure-loopback-http", "--url", at, *more)


def test_the_copy_follows_the_card(cardsign: Cardsign, peer: LivePeer) -> None:
    """Made, and made anew; nothing is read back from the copy before."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    first = COPY.read_bytes()
    assert json.loads(first)["supportedInterfaces"][0]["url"] == "https://gw.example/tides"
    assert cardsign("verify", str(COPY), "--jwks", "jwks.json").status == 0

    COPY.write_bytes(b"{")
    again = cardsign(*resign(peer, "-o", str(COPY), "--json"))
    assert (again.status, again.json["output"]) == (0, str(COPY))
    assert cardsign("verify", str(COPY), "--jwks", "jwks.json").status == 0

    peer.serve(CARD_PATH, sign({**peer.card, "version": "7.0.0"}, key("card")))
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    assert json.loads(COPY.read_bytes())["version"] == "7.0.0"


def by_a_stranger(card: dict[str, Any]) -> bytes:
    return sign(card, PrivateKey.generate("ES256"))


@pytest.mark.parametrize(
    "forge",
    [
        lambda card: json.dumps(card).encode(),
        lambda card: json.dumps({**card, "signatures": []}).encode(),
        lambda card: b"{}",
        lambda card: b"[]",
        lambda card: b"<html>",
        by_a_stranger,
        lambda card: sign(card, key("card")).replace(b"1.2.0", b"6.6.6"),
        lambda card: json.dumps({**json.loads(sign(card, key("card"))), "zz": 1}).encode(),
    ],
)
def test_what_is_not_trusted_is_not_copied(
    cardsign: Cardsign, peer: LivePeer, forge: Callable[[dict[str, Any]], bytes]
) -> None:
    """Whoever stands on the way can answer without a signature, or with one of their own."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    before = COPY.read_bytes()
    peer.serve(CARD_PATH, forge(peer.card))
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status in (1, 3), COPY.read_bytes()) == (True, before)


@pytest.mark.parametrize("status", [301, 302, 307, 404, 503])
def test_no_answer_and_a_redirect_leave_the_copy(
    cardsign: Cardsign, peer: LivePeer, status: int
) -> None:
    """A redirect to another host is not followed for a card."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    before = COPY.read_bytes()
    for path in (CARD_PATH, LEGACY_CARD_PATH):
        peer.serve(path, b"", status, Location="https://evil.example/card.json")
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status in (1, 3), COPY.read_bytes()) == (True, before)


def test_keys_by_a_url_are_asked_anew(cardsign: Cardsign, peer: LivePeer) -> None:
    """A key that the issuer has withdrawn signs no copy."""
    peer.serve("/keys.json", JwkSet.of([key("card").public]).to_bytes())
    words = resign(peer, "-o", str(COPY), "--jwks", f"{peer.origin}/keys.json")
    assert cardsign(*words).status == 0
    another = JwkSet.of([PrivateKey.generate("ES256").public])
    peer.serve("/keys.json", another.to_bytes())
    peer.serve(CARD_PATH, sign({**peer.card, "version": "6.6.6"}, key("card")))
    assert cardsign(*words).status == 1
    assert json.loads(COPY.read_bytes())["version"] != "6.6.6"


def test_the_copy_and_json_do_not_both_go_to_stdout(cardsign: Cardsign, peer: LivePeer) -> None:
    """Two documents one after the other are none."""
    assert "usage.conflict" in cardsign(*resign(peer, "--json")).err
