"""`cardsign resign`: the copy at a gateway follows its upstream, and goes with it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cardsign.cli.options import WatchOptions
from cardsign.gateway import read_upstream
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.server.app import create_app
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH
from tests.cli import peer as issuer
from tests.cli.conftest import Cardsign, Ended
from tests.cli.live_peer import LivePeer, live_peer
from tests.jose.statement_making import key
from tests.publications import sign
from tests.support import PORTABLE

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
def test_nobody_without_a_key_removes_the_copy(
    cardsign: Cardsign, peer: LivePeer, forge: Callable[[dict[str, Any]], bytes]
) -> None:
    """Whoever stands on the way can answer without a signature, or with one of his own."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    peer.serve(CARD_PATH, forge(peer.card))
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert ended.status in (1, 3)
    assert (COPY.exists(), "stays" in ended.err) == (True, True)


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


def test_the_issuers_statements_remove_the_copy(cardsign: Cardsign) -> None:
    """A release that lists the card no more, and only of the card that was copied."""
    first, _ = issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0

    def resign() -> Ended:
        named = ("--issuer", "tides", "--statements", "statements", "-o", str(COPY))
        return cardsign("resign", "signed.json", "--url", "https://gw.example/tides", *named)

    ended = resign()
    assert ended.status == 0, ended.err
    withdrawn = issuer.release(first, {**PORTABLE, "version": "9.0.0"}, seq=43)
    Path("statements/release.json").write_bytes(withdrawn)
    signed_by_issuer = Path("signed.json").read_bytes()
    other = {**PORTABLE, "description": "An older card, which was withdrawn long ago."}
    Path("signed.json").write_bytes(sign(other, key("card")))
    ended = resign()
    assert (ended.status, COPY.exists()) == (1, True)

    Path("signed.json").write_bytes(signed_by_issuer)
    ended = resign()
    assert (ended.status, COPY.exists(), "removed" in ended.err) == (1, False, True)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda copy: copy.write_bytes(b"{")])
def test_what_is_published_goes_also_where_the_copy_is_lost(
    cardsign: Cardsign, spoil: Callable[[Path], object]
) -> None:
    """A container begins without the file; the published copy says itself where it came from."""
    first, _ = issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0
    named = ("--issuer", "tides", "--statements", "statements", "-o", COPY, "--publish", "public")
    words = ("resign", "signed.json", "--url", "https://gw.example/tides", *named)
    assert cardsign(*words).status == 0
    spoil(COPY)
    assert (cardsign(*words).status, Path("public/current").exists()) == (0, True)

    spoil(COPY)
    withdrawn = issuer.release(first, {**PORTABLE, "version": "9.0.0"}, seq=43)
    Path("statements/release.json").write_bytes(withdrawn)
    is_lost = not COPY.exists()
    ended = cardsign(*words)
    assert (ended.status, Path("public/current").exists()) == (1, False)
    assert not COPY.exists() if is_lost else COPY.read_bytes() == b"{"


def test_a_copy_ends_with_its_time_also_where_there_is_no_verdict(
    cardsign: Cardsign, clock: Callable[[datetime], None]
) -> None:
    """Until then no error removes it."""
    issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0
    named = ("--issuer", "tides", "--statements", "statements", "-o", COPY)
    words = ("resign", "signed.json", "--url", "https://gw.example/tides", *named)
    assert cardsign(*words).status == 0
    origin = read_upstream(json.loads(COPY.read_bytes()))
    assert origin is not None
    assert origin.valid_until is not None

    Path("trust.toml").write_bytes(b"{")
    ended = cardsign(*words)
    assert (ended.status != 0, COPY.exists()) == (True, True)
    clock(origin.valid_until)
    ended = cardsign(*words)
    assert (ended.status != 0, COPY.exists(), "removed" in ended.err) == (True, False, True)


def test_a_card_that_is_no_copy_stays_published(cardsign: Cardsign) -> None:
    """Whoever names the folder of another agent by mistake keeps what is there."""
    issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0
    Path("card.json").write_text(json.dumps(PORTABLE))
    assert cardsign("sign", "card.json", "-o", "own.json").status == 0
    assert cardsign("publish", "own.json", "-o", "public").status == 0
    Path("trust.toml").write_text("format = 1\n")
    named = ("--issuer", "tides", "--statements", "statements", "-o", COPY, "--publish", "public")
    ended = cardsign("resign", "signed.json", "--url", "https://gw.example/tides", *named)
    assert (ended.status, Path("public/current").exists()) == (2, True)


def own_card(cardsign: Cardsign) -> bytes:
    """A card that no gateway has made, in OUT."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    assert cardsign("sign", "card.json", "-o", str(COPY)).status == 0
    return COPY.read_bytes()


@pytest.mark.parametrize("content", [b"my notes", b'{"my": "notes"}', None])
@pytest.mark.parametrize("name", ["tidez", "tides"])
def test_a_file_that_is_no_copy_is_never_removed(
    cardsign: Cardsign, content: bytes | None, name: str
) -> None:
    """Neither where the issuer is misspelt, nor where the policy has lost it."""
    issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0
    before = own_card(cardsign) if content is None else content
    COPY.write_bytes(before)
    if name == "tides":
        Path("trust.toml").write_text("format = 1\n")
    named = ("--issuer", name, "--statements", "statements", "-o", COPY)
    ended = cardsign("resign", "signed.json", "--url", "https://gw.example/tides", *named)
    assert (ended.status, "policy.unknown_issuer" in ended.err) == (2, True)
    assert (COPY.read_bytes(), "removed" in ended.err) == (before, False)


def test_a_published_copy_that_is_over_takes_no_own_card_with_it(cardsign: Cardsign) -> None:
    """What lies in OUT by now is another's."""
    issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0
    named = ("--issuer", "tides", "--statements", "statements", "-o", COPY, "--publish", "public")
    words = ("resign", "signed.json", "--url", "https://gw.example/tides", *named)
    assert cardsign(*words).status == 0
    before = own_card(cardsign)
    Path("trust.toml").write_text("format = 1\n")
    ended = cardsign(*words)
    assert (ended.status, Path("public/current").exists()) == (2, False)
    assert COPY.read_bytes() == before
    assert "removed the copy in public" in ended.err
    assert "copy.json is no copy, so it stays" in ended.err


def test_an_issuer_who_is_named_and_no_more_in_the_policy_ends_the_copy(cardsign: Cardsign) -> None:
    """At the first look too, as cron looks."""
    issuer.enrol(cardsign)
    assert cardsign("keys", "generate").status == 0
    named = ("--issuer", "tides", "--statements", "statements", "-o", COPY)
    words = ("resign", "signed.json", "--url", "https://gw.example/tides", *named)
    assert cardsign(*words).status == 0
    Path("trust.toml").write_text("format = 1\n")
    ended = cardsign(*words)
    assert (ended.status, COPY.exists(), "policy.unknown_issuer" in ended.err) == (2, False, True)


def test_a_copy_that_is_withdrawn_is_gone_from_a_running_server(
    cardsign: Cardsign, peer: LivePeer
) -> None:
    """Among others, which stay; a forged answer withdraws nothing; trusted again it is back."""
    words = resign(peer, "-o", str(COPY), "--publish", "agents/tides")
    first, again = cardsign(*words), cardsign(*words)
    assert (first.status, "published generation 1 in agents/tides" in first.err) == (0, True)
    assert (again.status, "generation" in again.err) == (0, False)
    assert cardsign("publish", str(COPY), "-o", "agents/other").status == 0
    app = create_app(Path("agents"))
    client = app.test_client()

    def served() -> list[int]:
        app.extensions["cardsign"].look_at_all()
        return [client.get(f"/agents/{one}{CARD_PATH}").status_code for one in ("tides", "other")]

    assert served() == [200, 200]
    assert client.get(f"/agents/tides{CARD_PATH}").data == COPY.read_bytes()
    peer.serve(CARD_PATH, by_a_stranger(peer.card))
    assert cardsign(*words).status == 1
    assert served() == [200, 200]

    policy = Path("trust.toml").read_text()
    Path("trust.toml").write_text("format = 1\n")
    assert "Take it off" not in cardsign(*words).err
    assert (served(), COPY.exists()) == ([404, 200], False)

    Path("trust.toml").write_text(policy)
    peer.serve(CARD_PATH, sign({**peer.card, "version": "7.0.0"}, key("card")))
    assert cardsign(*words).status == 0
    assert served() == [200, 200]


def test_what_is_trusted_is_asked_anew(
    cardsign: Cardsign, peer: LivePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher whose policy loses the issuer copies no more, and takes the copy away."""
    looks: list[int] = []

    def twice(self: WatchOptions, look: Callable[[], int]) -> int:
        looks.append(look())
        assert COPY.exists()
        Path("trust.toml").write_text("format = 1\n")
        peer.serve(CARD_PATH, sign({**peer.card, "version": "7.7.7"}, key("card")))
        looks.append(look())
        return looks[-1]

    monkeypatch.setattr(WatchOptions, "repeat", twice)
    ended = cardsign(*resign(peer, "-o", str(COPY), "--watch"))
    assert (looks[0], looks[1] != 0, COPY.exists()) == (0, True, False)
    assert "removed" in ended.err


def test_keys_by_a_url_are_asked_anew(
    cardsign: Cardsign, peer: LivePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that the issuer has withdrawn signs no copy."""
    peer.serve("/keys.json", JwkSet.of([key("card").public]).to_bytes())
    looks: list[int] = []

    def twice(self: WatchOptions, look: Callable[[], int]) -> int:
        looks.append(look())
        another = JwkSet.of([PrivateKey.generate("ES256").public])
        peer.serve("/keys.json", another.to_bytes())
        peer.serve(CARD_PATH, sign({**peer.card, "version": "6.6.6"}, key("card")))
        looks.append(look())
        return looks[-1]

    monkeypatch.setattr(WatchOptions, "repeat", twice)
    cardsign(*resign(peer, "-o", str(COPY), "--watch", "--jwks", f"{peer.origin}/keys.json"))
    assert looks == [0, 1]
    assert json.loads(COPY.read_bytes())["version"] != "6.6.6"


def test_a_new_card_that_cannot_be_copied_ends_the_old_copy(
    cardsign: Cardsign, peer: LivePeer
) -> None:
    """The issuer has replaced the card; what it cannot copy, the gateway does not stand for."""
    assert cardsign(*resign(peer, "-o", str(COPY))).status == 0
    second = {**peer.card["supportedInterfaces"][0], "url": f"{peer.origin}/second"}
    more = [*peer.card["supportedInterfaces"], second]
    peer.serve(CARD_PATH, sign({**peer.card, "supportedInterfaces": more}, key("card")))
    ended = cardsign(*resign(peer, "-o", str(COPY)))
    assert (ended.status, COPY.exists(), "removed" in ended.err) == (2, False, True)


def test_watching_needs_a_file(cardsign: Cardsign, peer: LivePeer) -> None:
    """Copies one after the other are no document."""
    for option in ("--watch", "--json", "--publish=x"):
        assert "usage.conflict" in cardsign(*resign(peer, option)).err


def test_a_watcher_follows(cardsign: Cardsign, peer: LivePeer) -> None:
    """Each second, until it is stopped; what stays as it was is no line."""
    command = [sys.executable, "-m", "cardsign", *resign(peer, "-o", str(COPY), "--watch")]
    with subprocess.Popen([*command, "--every", "1"], stderr=subprocess.PIPE) as watcher:
        try:
            wait_until(COPY.exists)
            peer.serve(CARD_PATH, sign({**peer.card, "version": "7.0.0"}, key("card")))
            wait_until(lambda: json.loads(COPY.read_bytes())["version"] == "7.0.0")
            seen = len(peer.seen)
            wait_until(lambda: len(peer.seen) > seen + 4)
            assert watcher.poll() is None
        finally:
            watcher.terminate()
        assert watcher.stderr is not None
        assert b"nothing changed" not in watcher.stderr.read()


def wait_until(done: object) -> None:
    """Wait for an event, generously."""
    assert callable(done)
    for _ in range(600):
        if done():
            return
        time.sleep(0.2)
    raise AssertionError("it did not happen")
