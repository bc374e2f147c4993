"""`cardsign resign`: the copy at a gateway follows its upstream, and goes with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.urls import CARD_PATH
from tests.cli.conftest import Cardsign
from tests.cli.live_peer import LivePeer, live_peer
from tests.publish.publications import sign
from tests.statements.making import key

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


FORGERIES: dict[str, Callable[[LivePeer], None]] = {
    "without a signature": lambda peer: peer.serve(CARD_PATH, json.dumps(peer.card).encode()),
    "by a stranger": lambda peer: peer.serve(
        CARD_PATH, sign(peer.card, PrivateKey.generate("ES256"))
    ),
    "edited": lambda peer: peer.serve(
        CARD_PATH, sign(peer.card, key("card")).replace(b"1.2.0", b"6.6.6")
    ),
    "a redirect": lambda peer: peer.serve(
        CARD_PATH, b"", 302, Location="https://evil.example/card.json"
    ),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_what_is_not_trusted_is_not_copied(
    cardsign: Cardsign, peer: LivePeer, forge: Callable[[LivePeer], None]
) -> None:
    """Whoever stands on the way can answer so; the copy of before stays."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    before = COPY.read_bytes()
    forge(peer)
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status in (1, 3), COPY.read_bytes()) == (True, before)
    assert ended.err.startswith(("untrusted: ", "invalid: ", "indeterminate: "))


def test_the_copy_and_json_do_not_both_go_to_stdout(cardsign: Cardsign, peer: LivePeer) -> None:
    """Two documents one after the other are none."""
    assert "usage.conflict" in cardsign(*resign(peer, "--json")).err
