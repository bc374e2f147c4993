"""Hostile servers on this machine, each against all that asks, and an honest one of its kind."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from cardsign.errors import FetchFailed
from cardsign.findings import list_codes
from cardsign.net.connection import IPAddress, tcp_dial
from cardsign.net.fetch import FetchSettings
from tests.net.authorities import Authority
from tests.net.peers import CARD, LOCAL, Names, http, read_head, serving, speaking
from tests.net.ways_to_ask import SOON, Ask, refusal_of
from tests.support import each_case

SAID = b"said-by-the-peer"
FULL = b'"%b"' % (b"x" * (LOCAL.max_bytes - 2))
#: What stands in the table for more than a line holds.
LONG = {b"FULL": FULL, b"BOMB": gzip.compress(b"[" * 50_000_000), b"PAD": b" " * 4096}
BRIEFLY = replace(LOCAL, total_timeout=SOON)


def raw(text: str) -> bytes:
    """The bytes of a text of the table."""
    data = text.encode("latin-1")
    for name, long in LONG.items():
        data = data.replace(name, long)
    return data


def spoken_slowly(data: bytes, again: bytes = b"", pause: float = 0.001) -> Any:
    """Say this byte by byte, and then something again and again."""

    def speak(connection: socket.socket) -> None:
        pieces = (data[at : at + 1] for at in range(len(data)))
        for piece in itertools.chain(pieces, itertools.repeat(again) if again else ()):
            connection.sendall(piece)
            time.sleep(pause)

    return speak


def poured(data: bytes, again: bytes) -> Any:
    """Say this, and then something as fast as it goes."""

    def speak(connection: socket.socket) -> None:
        connection.sendall(data)
        while again:
            connection.sendall(again * 100)

    return speak


@each_case(__file__, "servers", "start", "again", "code", "honest")
def test_hostile_and_honest(ask: Ask, start: str, again: str, code: str, honest: str) -> None:
    """The hostile one is refused by its code, in time and unquoted; its twin is understood."""
    is_slow = code == "fetch.timeout"
    speak = spoken_slowly if is_slow else poured
    with serving(speak(raw(start), raw(again))) as peer:
        failure = refusal_of(ask, peer.url(), BRIEFLY if is_slow else LOCAL)
    assert (failure.code, failure.code in list_codes()) == (code, True)
    assert SAID.decode() not in f"{failure} {failure.hint}"
    if not is_slow:  # whose time may be over before a busy machine has connected
        assert len(peer.requests) == 1

    answer = raw(honest) or http()
    with serving(spoken_slowly(answer) if is_slow else answer) as peer:
        assert ask(peer.url(), LOCAL) == (FULL if "FULL" in honest else CARD)


# ------------------------------------------------------------------------------ TLS

AGENT = "agent.example"


@each_case(__file__, "certificates", "host", "name", "made", "words")
def test_certificates(
    ask: Ask, host: str, name: str, made: dict[str, Any], words: str, authority: Authority
) -> None:
    """One that does not fit ends it before anything is asked; one that does is connected."""
    context = None if "issuer" in words else authority.client()

    def nearby(address: IPAddress, port: int, timeout: float) -> socket.socket:
        assert str(address) == host.strip("[]") or host == AGENT
        return tcp_dial(ip_address("127.0.0.1"), port, timeout)

    settings = replace(LOCAL, resolver=Names(["127.0.0.1"]), ssl_context=context, dial=nearby)
    with serving(http(), authority.server(name, **made)) as peer:
        url = peer.url(scheme="https", host=host)
        if not words:
            assert (ask(url, settings), len(peer.requests)) == (CARD, 1)
            assert peer.server_names == [host if host == AGENT else None]
            return
        failure = refusal_of(ask, url, settings)
    assert (failure.code, words in str(failure)) == ("fetch.tls", True)
    assert peer.requests == []


@pytest.mark.parametrize("mode", [ssl.CERT_REQUIRED, ssl.CERT_NONE])
def test_careless_contexts(ask: Ask, mode: ssl.VerifyMode) -> None:
    """A context that checks no names, or no certificates, is not used for anything."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = mode
    with pytest.raises(FetchFailed, match=r"fetch\.tls: .*does not check names"):
        ask("https://agent.example/", FetchSettings(ssl_context=context))


def test_a_trust_store_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to look at is said, and it heals by itself."""
    monkeypatch.setenv("SSLKEYLOGFILE", "/nowhere/keys.log")
    with pytest.raises(FetchFailed, match=r"fetch\.tls: .*SSLKEYLOGFILE.*No such file"):
        FetchSettings().tls_context()
    monkeypatch.delenv("SSLKEYLOGFILE")
    FetchSettings().tls_context()


def clear_text(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + SAID)


def wait(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


HALF_A_RECORD = spoken_slowly(b"\x16\x03\x03\x40\x00", b"\0", pause=0.02)
HANDSHAKES: dict[str, tuple[str, set[str], Callable[[socket.socket], object]]] = {
    "in the clear": ("https", {"fetch.tls"}, clear_text),
    "byte by byte": ("https", {"fetch.timeout"}, HALF_A_RECORD),
    # as the system reports it
    "given up": ("https", {"fetch.tls", "fetch.failed"}, lambda connection: connection.recv(1)),
    "silence": ("http", {"fetch.timeout"}, wait),
    "hanging up on the question": ("http", {"fetch.failed"}, read_head),
}


@pytest.mark.parametrize(("scheme", "codes", "speak"), HANDSHAKES.values(), ids=HANDSHAKES)
def test_handshakes(ask: Ask, scheme: str, codes: set[str], speak: Any) -> None:
    """Neither a handshake that does not come about nor silence costs more than the deadline."""
    settings = BRIEFLY if "fetch.timeout" in codes else LOCAL
    with speaking(speak) as port:
        failure = refusal_of(ask, f"{scheme}://127.0.0.1:{port}/", settings)
    assert failure.code in codes
    assert SAID.decode() not in f"{failure} {failure.hint}"


def test_a_dribble_within_tls(ask: Ask, authority: Authority) -> None:
    """The deadline holds within TLS as well, and an honest body arrives."""
    tls, trusting = authority.server("127.0.0.1"), authority.client()
    dribble = spoken_slowly(http(b"", content_length="9999"), b" ", pause=0.02)
    with serving(dribble, tls) as peer:
        settings = replace(BRIEFLY, ssl_context=trusting)
        assert refusal_of(ask, peer.url(scheme="https"), settings).code == "fetch.timeout"
    with serving(http(FULL), tls) as peer:
        settings = replace(LOCAL, ssl_context=trusting)
        assert ask(peer.url(scheme="https"), settings) == FULL
