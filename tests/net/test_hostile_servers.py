"""Hostile servers on this machine, each against all that asks, and an honest one of its kind."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from cardsign.errors import FetchFailed
from cardsign.findings import list_codes
from cardsign.net.connection import IPAddress, tcp_dial
from cardsign.net.fetch import FetchSettings
from tests.net.authorities import Authority
from tests.net.peers import (
    CARD,
    LOCAL,
    PATIENCE,
    Answer,
    Names,
    chunks,
    http,
    read_head,
    serving,
    speaking,
)
from tests.net.ways_to_ask import SOON, Ask, Refused, answer_or_refusal

LIMIT = 2**18
SAID = "said-by-the-peer"


def paced(*pieces: Iterable[bytes] | bytes, pause: float = 0.02) -> Answer:
    """Send one piece after another, with a pause between them."""

    def answer(connection: socket.socket) -> None:
        for piece in itertools.chain(*([p] if isinstance(p, bytes) else p for p in pieces)):
            connection.sendall(piece)
            time.sleep(pause)

    return answer


def poured(head: bytes, wave: bytes) -> Answer:
    """Send the same again and again as fast as it goes."""
    return paced(head, itertools.repeat(wave), pause=0)


def head(**fields: str | None) -> bytes:
    return http(b"", **fields)


def old(answer: bytes) -> bytes:
    """The same in HTTP/1.0."""
    return answer.replace(b"HTTP/1.1", b"HTTP/1.0")


def in_parts(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


CHUNKED = {"content_length": None, "transfer_encoding": "chunked"}
BOMB = gzip.compress(b"[" * 50_000_000)  # some 50 KB that would be 50 MB
FULL = b'"' + b"x" * (LIMIT - 2) + b'"'

ENDLESS = itertools.repeat
#: Code, and what a hostile server does.
SERVERS: dict[str, tuple[str, Answer]] = {
    "slow: a head that never ends": (
        "fetch.timeout",
        paced(b"HTTP/1.1 200 OK\r\nX: ", ENDLESS(b"x")),
    ),
    "slow: a body byte by byte": (
        "fetch.timeout",
        paced(head(content_length="9999"), ENDLESS(b" ")),
    ),
    "slow: chunks of one byte": ("fetch.timeout", paced(head(**CHUNKED), ENDLESS(chunks(b" ")))),
    "slow: interim answers": ("fetch.timeout", poured(b"", b"HTTP/1.1 102 Wait\r\n\r\n" * 99)),
    "endless: chunks": ("fetch.too_large", poured(head(**CHUNKED), chunks(b" " * 9999))),
    "endless: no length": ("fetch.too_large", poured(head(content_length=None), b" " * 9999)),
    "endless: headers": (
        "fetch.failed",
        poured(b"HTTP/1.1 200 OK\r\n", b"X-Name: value\r\n" * 999),
    ),
    "a gzip bomb": ("fetch.encoding", http(BOMB, content_encoding="gzip")),
    "a gzip bomb as a transfer coding": (
        "fetch.failed",
        http(BOMB, content_length=None, transfer_encoding="gzip, chunked"),
    ),
    "wrong length: more than is sent": ("fetch.failed", http(content_length="9999")),
    "wrong length: beyond the limit": ("fetch.too_large", http(content_length=str(LIMIT + 1))),
    "wrong length: two of them": ("fetch.failed", http(content_length="1\r\nContent-Length: 2")),
    "wrong length: none at all": ("fetch.failed", http(content_length=SAID)),
    "garbage: bytes": ("fetch.failed", b"\x00\xff\xfe" + SAID.encode() * 99),
    "garbage: another protocol": ("fetch.failed", f"220 {SAID} ESMTP\r\n".encode()),
    "garbage: nothing": ("fetch.failed", b""),
    "garbage: HTTP/0.9": ("fetch.failed", f"<html>{SAID}".encode()),
    "HTTP/1.0: cut short": ("fetch.failed", old(http(content_length="999"))),
    "HTTP/1.0: without an end": (
        "fetch.too_large",
        poured(old(head(content_length=None)), b" " * 9999),
    ),
    "HTTP/2 without being asked": ("fetch.failed", b"\0\0\x12\4\0\0\0\0\0" + b"\0" * 18),
    "a redirect": (
        "fetch.status",
        http(status=f"302 {SAID}", location="https://elsewhere.example/"),
    ),
}
SAME_LENGTHS = f"{len(CARD)}\r\nContent-Length: {len(CARD)}"
#: What an honest server of its kind does, if more than to answer, and what comes of that.
HONEST: dict[str, tuple[Answer, bytes]] = {
    "slow: a head that never ends": (paced(in_parts(http(), 9), pause=0.001), CARD),
    "slow: a body byte by byte": (
        paced(head(content_length=str(len(CARD))), in_parts(CARD, 1), pause=0.001),
        CARD,
    ),
    "slow: chunks of one byte": (
        paced(head(**CHUNKED), chunks(*in_parts(CARD, 1), b""), pause=0.001),
        CARD,
    ),
    "slow: interim answers": (paced(b"HTTP/1.1 102 Wait\r\n\r\n", http(), pause=0.001), CARD),
    "endless: chunks": (paced(head(**CHUNKED), chunks(*in_parts(FULL, 9999), b""), pause=0), FULL),
    "endless: no length": (paced(head(content_length=None), FULL, pause=0), FULL),
    "endless: headers": (http(x_name="value" * 999), CARD),
    "a gzip bomb": (http(FULL, content_encoding="identity"), FULL),
    "a gzip bomb as a transfer coding": (http(chunks(FULL, b""), **CHUNKED), FULL),
    "wrong length: beyond the limit": (http(FULL, content_length=str(LIMIT)), FULL),
    "wrong length: two of them": (http(content_length=SAME_LENGTHS), CARD),
    "HTTP/1.0: cut short": (old(http(content_length=None)), CARD),
    "HTTP/1.0: without an end": (old(http()), CARD),
    "a redirect": (http(location="https://elsewhere.example/"), CARD),
}


@pytest.mark.parametrize("name", SERVERS)
def test_hostile_and_honest(ask: Ask, name: str) -> None:
    """The hostile one is refused by its code, in time and unquoted; its twin is understood."""
    code, hostile = SERVERS[name]
    seconds = SOON if code == "fetch.timeout" else PATIENCE
    with serving(hostile) as peer:
        refused = answer_or_refusal(ask, peer.url(), LOCAL, seconds=seconds)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.code in list_codes()) == (code, True)
    assert SAID not in refused.words
    if code != "fetch.timeout":  # whose time may be over before a busy machine has connected
        assert len(peer.requests) == 1

    honest, body = HONEST.get(name, (http(), CARD))
    with serving(honest) as peer:
        assert answer_or_refusal(ask, peer.url(), LOCAL) == body


# ------------------------------------------------------------------------------ TLS

AGENT, NO_NAME = "agent.example", "Hostname mismatch"
#: The host that is asked, the names of the certificate, how that is made, and what is wrong.
CERTIFICATES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "another name": (AGENT, "evil.example", {}, NO_NAME),
    "the address instead of the name": (AGENT, "127.0.0.1", {}, NO_NAME),
    "the name instead of the address": ("127.0.0.1", AGENT, {}, "IP address mismatch"),
    "a name one label below": (AGENT, "a.agent.example", {}, NO_NAME),
    "expired": (AGENT, AGENT, {"days": (-9, -1)}, "expired"),
    "not yet valid": (AGENT, AGENT, {"days": (1, 9)}, "not yet valid"),
    "self-signed": (AGENT, AGENT, {"self_signed": True}, "self-signed"),
    "of an authority that the system does not know": (AGENT, AGENT, {}, "local issuer"),
    "of the name": (AGENT, AGENT, {}, ""),
    "of an address": ("127.0.0.1", "127.0.0.1", {}, ""),
    "of an IPv6 address, without brackets": ("[::1]", "::1", {}, ""),
}


@pytest.mark.parametrize(("host", "name", "made", "words"), CERTIFICATES.values(), ids=CERTIFICATES)
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
        answer = answer_or_refusal(ask, peer.url(scheme="https", host=host), settings)
    if not words:
        assert (answer, len(peer.requests)) == (CARD, 1)
        assert peer.server_names == [host if host == AGENT else None]
        return
    assert isinstance(answer, Refused)
    assert (answer.code, words in answer.words) == ("fetch.tls", True)
    assert peer.requests == []


@pytest.mark.parametrize("mode", [ssl.CERT_REQUIRED, ssl.CERT_NONE])
def test_careless_contexts(ask: Ask, mode: ssl.VerifyMode) -> None:
    """A context that checks no names, or no certificates, is not used for anything."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = mode
    refused = answer_or_refusal(ask, "https://agent.example/", FetchSettings(ssl_context=context))
    assert isinstance(refused, Refused)
    assert (refused.code, "does not check names" in refused.words) == ("fetch.tls", True)


def test_a_trust_store_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to look at is said, and it heals by itself."""
    monkeypatch.setenv("SSLKEYLOGFILE", "/nowhere/keys.log")
    with pytest.raises(FetchFailed, match=r"fetch\.tls: .*SSLKEYLOGFILE.*No such file"):
        FetchSettings().tls_context()
    monkeypatch.delenv("SSLKEYLOGFILE")
    FetchSettings().tls_context()


def clear_text(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + SAID.encode())


def half_a_record(connection: socket.socket) -> None:
    connection.sendall(b"\x16\x03\x03\x40\x00")
    for byte in itertools.repeat(b"\0"):
        connection.sendall(byte)
        time.sleep(0.02)


def leave(connection: socket.socket) -> None:
    connection.recv(1)


def hang_up(connection: socket.socket) -> None:
    read_head(connection)


def wait(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


HANDSHAKES: dict[str, tuple[str, set[str], Callable[[socket.socket], None]]] = {
    "in the clear": ("https", {"fetch.tls"}, clear_text),
    "byte by byte": ("https", {"fetch.timeout"}, half_a_record),
    "given up": ("https", {"fetch.tls", "fetch.failed"}, leave),  # as the system reports it
    "silence": ("http", {"fetch.timeout"}, wait),
    "hanging up on the question": ("http", {"fetch.failed"}, hang_up),
}


@pytest.mark.parametrize(("scheme", "codes", "speak"), HANDSHAKES.values(), ids=HANDSHAKES)
def test_handshakes(
    ask: Ask, scheme: str, codes: set[str], speak: Callable[[socket.socket], None]
) -> None:
    """Neither a handshake that does not come about nor silence costs more than the deadline."""
    settings = LOCAL
    seconds = PATIENCE if "fetch.timeout" not in codes else SOON
    with speaking(speak) as port:
        url = f"{scheme}://127.0.0.1:{port}/"
        refused = answer_or_refusal(ask, url, settings, seconds=seconds)
    assert isinstance(refused, Refused)
    assert refused.code in codes
    assert SAID not in refused.words


def test_a_dribble_within_tls(ask: Ask, authority: Authority) -> None:
    """The deadline holds within TLS as well, and an honest body arrives."""
    settings = replace(LOCAL, ssl_context=authority.client())
    endless = paced(head(content_length="9999"), itertools.repeat(b" "))
    with serving(endless, authority.server("127.0.0.1")) as peer:
        refused = answer_or_refusal(ask, peer.url(scheme="https"), settings, seconds=SOON)
    assert isinstance(refused, Refused)
    assert refused.code == "fetch.timeout"
    with serving(http(FULL), authority.server("127.0.0.1")) as peer:
        assert answer_or_refusal(ask, peer.url(scheme="https"), settings) == FULL
