"""One request and its answer: what is sent, and what is said of a refusal.

What is refused is in `test_addresses.py`, `test_hostile_servers.py` and attacks 30 to 38.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cardsign
from cardsign.errors import EXIT_NO_VERDICT, FetchFailed
from cardsign.findings import list_codes
from cardsign.net.connection import DeadlineStream, IPAddress
from cardsign.net.fetch import Exchange, FetchSettings, fetch_document
from tests.net.peers import LOCAL, Names, NoDial, Scripted, headers, http, serving
from tests.support import each_case

SECRET = "said-by-the-peer"


def test_what_the_peer_learns() -> None:
    """The request is one GET that names neither us nor anybody's credentials; no cookie is kept."""
    with serving(http(set_cookie="a=b")) as peer:
        for _ in range(2):
            fetch_document(peer.url("/a/b.json?c=d"), LOCAL)
    assert len(peer.requests) == 2
    for request in peer.requests:
        assert request.startswith(b"GET /a/b.json?c=d HTTP/1.1\r\n")
        assert headers(request) == {
            "host": f"127.0.0.1:{peer.port}",
            "accept": "application/json, application/*+json",
            "accept-encoding": "identity",
            "connection": "close",
            "user-agent": f"cardsign/{cardsign.__version__}",
        }
    scripted = Scripted(http())  # an IPv6 address has brackets in the URL and in Host
    result = fetch_document("http://[::1]:8080/", replace(LOCAL, dial=scripted))
    assert result.url == "http://[::1]:8080/"
    assert headers(scripted.requests())["host"] == "[::1]:8080"


@each_case(__file__, "refused", "code", "status", "fields", "hint")
def test_refused(code: str, status: str, fields: dict[str, str], hint: str) -> None:
    """By its code, with what to do, and of the answer no word but where it leads is repeated."""
    fields = {name: value.replace("LONG", SECRET * 20_000) for name, value in fields.items()}
    answer = http(SECRET.encode(), status=f"{status} {SECRET}", **fields)
    with serving(answer) as peer, pytest.raises(FetchFailed) as refused:
        fetch_document(peer.url(), LOCAL)
    error = refused.value
    assert (error.code, code in list_codes(), error.exit_status) == (code, True, EXIT_NO_VERDICT)
    assert SECRET not in f"{error} {error.message} {error.hint}"
    assert "127.0.0.1" in error.message
    assert hint in error.hint
    assert ("Redirects" in error.hint) == (" answered 301" in error.message)
    assert len(peer.requests) == 1  # no redirect followed, nothing tried again


@each_case(__file__, "own", "url", "code", "hint")
def test_the_way_to_a_server_of_one_s_own_is_told(url: str, code: str, hint: str) -> None:
    """Only where it would help; nothing is resolved or connected to."""
    names, dial = Names(["127.0.0.1"]), NoDial()
    with pytest.raises(FetchFailed) as refused:
        fetch_document(url, FetchSettings(resolver=names, dial=dial))
    assert (refused.value.code, hint in refused.value.finding.hint) == (code, True)
    assert (names.asked, dial.asked) == ([], [])


CONTEXT = ssl.create_default_context()  # made once; it would take most of the time below
PIECES = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"Content-Type: application/json\r\n"),
    *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n"),
    *(b"\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"abc"),
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=12))
def test_any_bytes(pieces: list[bytes]) -> None:
    """Whatever a peer sends ends in an answer or in our own error."""
    peer = Scripted(b"".join(pieces))
    settings = replace(LOCAL, ssl_context=CONTEXT, dial=peer, max_bytes=9)
    with contextlib.suppress(FetchFailed):
        assert len(fetch_document("http://127.0.0.1/", settings).untrusted_body) <= 9
    assert peer.requests().startswith(b"GET / HTTP/1.1\r\n")


def test_one_deadline() -> None:
    """Each address gets an equal share of what is left; too late for TLS, a connection closes."""
    now, limits = [1000.0], []

    def silent(address: IPAddress, port: int, timeout: float) -> socket.socket:
        limits.append(timeout)
        now[0] += min(timeout, 2)
        raise TimeoutError

    names = Names([f"93.184.215.{number}" for number in range(14, 17)])
    settings = FetchSettings(resolver=names, dial=silent, clock=lambda: now[0])
    with pytest.raises(TimeoutError):
        Exchange(settings, "https://agent.example/").connect_tcp("agent.example", 443)
    assert limits == [10 / 3, 4, 6]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        exchange = Exchange(settings, "https://agent.example/")
        stream = DeadlineStream(ours, exchange.remaining)
        now[0] += 10
        with pytest.raises(TimeoutError):
            stream.start_tls(CONTEXT, "agent.example")
        assert theirs.recv(1) == b""
