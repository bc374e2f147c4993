"""`cardsign resign`: the copy at a gateway follows its upstream, and goes with it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign.urls import CARD_PATH
from tests.cli.conftest import Cardsign
from tests.cli.live_peer import LivePeer, live_peer
from tests.jose.statement_making import key
from tests.publications import sign

COPY = Path("copy.json")


@pytest.fixture
def peer(cardsign: Cardsign, tmp_path: Path) -> Iterator[LivePeer]:
    """A live peer whom the policy enrols, and a gateway with a key store."""
    with live_peer(tmp_path / "published") as one:
        one.write_policy()
        assert cardsign("trust", "init").status == 0
        assert cardsign("keys", "generate").status == 0
        assert cardsign("keys", "jwks", "-o", "jwks.json").status == 0
        yield one


def resign(peer: LivePeer, *more: str) -> tuple[str, ...]:
    """The command."""
    at = "https://gw.example/tides"
    return ("resign", peer.origin, "--insecure-loopback-http", "--url", at, *more)


def test_the_copy_follows_the_card(cardsign: Cardsign, peer: LivePeer) -> None:
    """Made, kept to the byte, made anew."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    first = COPY.read_bytes()
    assert json.loads(first)["supportedInterfaces"][0]["url"] == "https://gw.example/tides"
    assert cardsign("verify", str(COPY), "--jwks", "jwks.json").status == 0

    again = cardsign(*resign(peer, "-o", str(COPY), "--json"))
    assert (again.status, again.json["changed"], COPY.read_bytes()) == (0, False, first)

    peer.serve(CARD_PATH, sign({**peer.card, "version": "7.0.0"}, key("card")))
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    assert json.loads(COPY.read_bytes())["version"] == "7.0.0"


def test_a_card_that_is_not_trusted_any_more_takes_the_copy_with_it(
    cardsign: Cardsign, peer: LivePeer
) -> None:
    """A changed copy of it or a missing answer proves nothing."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    forged = json.loads(sign(peer.card, key("card"))) | {"version": "6.6.6"}
    peer.serve(CARD_PATH, json.dumps(forged).encode())
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status, COPY.exists(), "stays" in ended.err) == (1, True, True)

    peer.serve(CARD_PATH, b"", 503)
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status, COPY.exists()) == (3, True)

    peer.serve(CARD_PATH, json.dumps(peer.card).encode())  # not signed at all
    dry = cardsign(*resign(peer, "-o", str(COPY), "--dry-run"))
    assert (dry.status, COPY.exists()) == (1, True)
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status, COPY.exists(), "removed" in ended.err) == (1, False, True)
    assert cardsign(*resign(peer)).out == b""


def test_watching_needs_a_file(cardsign: Cardsign, peer: LivePeer) -> None:
    """Copies one after the other are no document."""
    for option in ("--watch", "--json"):
        assert "usage.conflict" in cardsign(*resign(peer, option)).err


def test_a_watcher_follows(cardsign: Cardsign, peer: LivePeer) -> None:
    """Each second, until it is stopped."""
    command = [sys.executable, "-m", "cardsign", *resign(peer, "-o", str(COPY), "--watch")]
    with subprocess.Popen([*command, "--every", "1"], stderr=subprocess.PIPE) as watcher:
        try:
            wait_until(COPY.exists)
            peer.serve(CARD_PATH, sign({**peer.card, "version": "7.0.0"}, key("card")))
            wait_until(lambda: json.loads(COPY.read_bytes())["version"] == "7.0.0")
            assert watcher.poll() is None
        finally:
            watcher.terminate()


def wait_until(done: object) -> None:
    """Wait for an event, generously."""
    assert callable(done)
    for _ in range(600):
        if done():
            return
        time.sleep(0.2)
    raise AssertionError("it did not happen")
