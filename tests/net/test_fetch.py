"""One request and its answer, over real sockets on this machine."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import CARD, IMPATIENT, LOCAL, Answer, Names, Scripted, chunks, headers, http, serving

import cardsign
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import EXIT_NO_VERDICT, FetchFailed
from cardsign.findings import list_codes
from cardsign.net.fetch import FetchSettings, fetch_document, user_agent

SECRET = "said-by-the-peer"


def chunked(*parts: bytes, **more: str) -> bytes:
    return http(chunks(*parts), content_length=None, transfer_encoding="chunked", **more)


def test_honest_peer() -> None:
    """What comes back is what was sent, and says from where."""
    with serving(http()) as peer:
        fetched = fetch_document(peer.url("/card.json?v=1"), LOCAL)

    assert fetched.url == peer.url("/card.json?v=1")
    assert (fetched.outcome, fetched.untrusted_body) == ("found", CARD)
    assert CARD.decode() not in repr(fetched)


def test_what_the_peer_learns() -> None:
    """The request is one GET that names neither us nor anybody's credentials."""
    with serving(http()) as peer:
        fetch_document(peer.url("/a/b.json?c=d"), LOCAL)

    (request,) = peer.requests
    assert request.startswith(b"GET /a/b.json?c=d HTTP/1.1\r\n")
    sent = headers(request)
    assert sent == {
        "host": f"127.0.0.1:{peer.port}",
        "accept": "application/json, application/*+json",
        "accept-encoding": "identity",
        "connection": "close",
        "user-agent": f"cardsign/{cardsign.__version__}",
    }


def test_an_uninstalled_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no version is known, none is told."""
    monkeypatch.setattr(metadata.Distribution, "from_name", not_installed)
    assert user_agent.__wrapped__() == "cardsign"


def not_installed(name: str) -> None:
    raise metadata.PackageNotFoundError(name)


HONEST: dict[str, bytes] = {
    "in chunks": chunked(CARD[:5], CARD[5:], b""),
    "with trailers": chunked(CARD, b"")[:-2] + b"X-Digest: none\r\n\r\n",
    "until the connection ends": http(content_length=None),
    "in HTTP/1.0": http().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "after an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + http(),
    "as a2a+json": http(content_type="application/a2a+json"),
    "as a JWK Set": http(content_type="application/jwk-set+json"),
    "with a charset": http(content_type="Application/JSON ; charset=utf-8"),
    "as identity": http(content_encoding="Identity"),
    "with an encoding that says nothing": http(content_encoding=""),
}


@pytest.mark.parametrize("answer", HONEST.values(), ids=HONEST)
def test_honest_answers(answer: bytes) -> None:
    """Every honest way to send a card is understood."""
    with serving(answer) as peer:
        assert fetch_document(peer.url(), LOCAL).untrusted_body == CARD


def status(line: str, **more: str) -> bytes:
    return http(SECRET.encode(), status=f"{line} {SECRET}", **more)


REFUSED: dict[str, tuple[str, bytes]] = {
    "301 with a public target": ("fetch.status", status("301", location="https://x.example/")),
    "302 to metadata": ("fetch.status", status("302", location="http://169.254.169.254/")),
    "307 to a file": ("fetch.status", status("307", location="file:///etc/passwd")),
    "308 to itself": ("fetch.status", status("308", location="/card.json")),
    "204 without a body": ("fetch.status", b"HTTP/1.1 204 None\r\n\r\n"),
    "206, a part": ("fetch.status", status("206")),
    "304 although nothing is cached": ("fetch.status", b"HTTP/1.1 304 Same\r\n\r\n"),
    "401": ("fetch.status", status("401", www_authenticate=f'Basic realm="{SECRET}"')),
    "404": ("fetch.status", status("404")),
    "500": ("fetch.status", status("500")),
    "101, another protocol that nobody asked for": (
        "fetch.failed",
        b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ),
    "HTML": ("fetch.content_type", http(content_type="text/html")),
    "text": ("fetch.content_type", http(content_type="text/plain")),
    "JSON in name only": ("fetch.content_type", http(content_type="text/json")),
    "JSON lines": ("fetch.content_type", http(content_type="application/jsonl")),
    "a suffix without a name": ("fetch.content_type", http(content_type="application/+json")),
    "two types in one": (
        "fetch.content_type",
        http(content_type=f"application/json, text/{SECRET}"),
    ),
    "two types": (
        "fetch.content_type",
        http(content_type="application/json\r\nContent-Type: text/html"),
    ),
    "no type": ("fetch.content_type", http(content_type=None)),
    "an empty type": ("fetch.content_type", http(content_type="")),
    "gzip": ("fetch.encoding", http(content_encoding="gzip")),
    "nothing, then br": ("fetch.encoding", http(content_encoding=", br")),
    "identity, then br": ("fetch.encoding", http(content_encoding="identity, br")),
    "identity beside zstd": (
        "fetch.encoding",
        http(content_encoding="identity\r\nContent-Encoding: zstd"),
    ),
    "gzip as a transfer coding": (
        "fetch.failed",
        http(content_length=None, transfer_encoding="gzip, chunked"),
    ),
    "more declared than sent": ("fetch.failed", http(content_length="999")),
    "two lengths": ("fetch.failed", http(content_length="21\r\nContent-Length: 999")),
    "a length that is none": ("fetch.failed", http(content_length=f"-1{SECRET}")),
    "chunks without an end": ("fetch.failed", chunked(CARD)),
    "a chunk's size that is none": (
        "fetch.failed",
        http(b"said-by-the-peer\r\n", content_length=None, transfer_encoding="chunked"),
    ),
    "garbage": ("fetch.failed", b"\x00\xff" + SECRET.encode() * 9),
    "another protocol": ("fetch.failed", f"220 {SECRET} ESMTP\r\n".encode()),
    "HTTP/0.9": ("fetch.failed", f"<html>{SECRET}</html>".encode()),
    "nothing": ("fetch.failed", b""),
    "more headers than httpcore holds": ("fetch.failed", http(x_a=SECRET * 20_000)),
}


@pytest.mark.parametrize(("code", "answer"), REFUSED.values(), ids=REFUSED)
def test_refused(code: str, answer: bytes) -> None:
    """What is no plain 200 with JSON is refused by its code, and not a word of it repeated."""
    with serving(answer) as peer, pytest.raises(FetchFailed) as refused:
        fetch_document(peer.url(), LOCAL)

    error = refused.value
    assert error.code == code
    assert code in list_codes()
    assert error.exit_status == EXIT_NO_VERDICT
    assert SECRET not in f"{error} {error.message} {error.hint}"
    assert "127.0.0.1" in error.message
    assert len(peer.requests) == 1  # no redirect followed, nothing tried again


HINTS: dict[str, tuple[bytes, str]] = {
    "a redirect": (status("301", location="https://x.example/"), "Redirects are not followed"),
    "who are you": (status("401", www_authenticate="Bearer"), "no credential is sent here"),
    "not you": (status("403"), "no credential is sent here"),
    "too often": (status("429"), "Try again later."),
    "busy": (status("503"), "Try again later."),
    "nothing there": (status("404"), "Check the URL."),
    "a page": (http(content_type="text/plain"), "declare application/json"),
    "too much": (http(content_length="99999999"), "key sets are small"),
}


@pytest.mark.parametrize(("answer", "hint"), HINTS.values(), ids=HINTS)
def test_the_hint_is_about_what_happened(answer: bytes, hint: str) -> None:
    """And a redirect's target, which a stranger chose, is in none."""
    with serving(answer) as peer, pytest.raises(FetchFailed) as refused:
        fetch_document(peer.url(), LOCAL)
    assert hint in refused.value.hint
    assert ("Redirects" in refused.value.hint) == ("Redirects" in hint)


BODY = b'"' + b"a" * (MAX_CARD_BYTES - 2) + b'"'
LARGE: dict[str, tuple[bytes, bytes]] = {
    "with its length": (http(BODY), http(BODY + b" ")),
    "in chunks": (chunked(BODY, b""), chunked(BODY, b" ", b"")),
    "until the end": (http(BODY, content_length=None), http(BODY + b" ", content_length=None)),
}


@pytest.mark.parametrize(("fits", "exceeds"), LARGE.values(), ids=LARGE)
def test_the_limit_is_exact(fits: bytes, exceeds: bytes) -> None:
    """The largest body is taken, and one byte more is not, however it is framed."""
    with serving({"/fits": fits, "/exceeds": exceeds}) as peer:
        assert fetch_document(peer.url("/fits"), LOCAL).untrusted_body == BODY
        with pytest.raises(FetchFailed, match=r"fetch\.too_large"):
            fetch_document(peer.url("/exceeds"), LOCAL)


def test_less_declared_than_sent() -> None:
    """What follows the declared length is not part of the answer."""
    with serving(http(content_length="9")) as peer:
        assert fetch_document(peer.url(), LOCAL).untrusted_body == CARD[:9]


def until_closed(connection: socket.socket) -> None:
    """Say nothing more until the other end hangs up."""
    while connection.recv(4096):
        pass


def drip(head: bytes, drops: Iterator[bytes]) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for drop in drops:
            connection.sendall(drop)
            time.sleep(0.02)

    return answer


def flood(head: bytes, wave: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(wave)

    return answer


def boast(connection: socket.socket) -> None:
    connection.sendall(http(content_length="99999999999"))
    until_closed(connection)


CHUNKED_HEAD = chunked()
ENDLESS: dict[str, tuple[str, Answer]] = {
    "silence": ("fetch.timeout", until_closed),
    "headers byte by byte": (
        "fetch.timeout",
        drip(b"HTTP/1.1 200 OK\r\nX: ", itertools.repeat(b"x")),
    ),
    "a body byte by byte": (
        "fetch.timeout",
        drip(http(b"", content_length="999"), itertools.repeat(b" ")),
    ),
    "chunks of one byte": ("fetch.timeout", drip(CHUNKED_HEAD, itertools.repeat(chunks(b" ")))),
    "interim answers": ("fetch.timeout", flood(b"", b"HTTP/1.1 100 Go on\r\n\r\n" * 99)),
    "chunks without an end": ("fetch.too_large", flood(CHUNKED_HEAD, chunks(b" " * 9999))),
    "a body without an end": (
        "fetch.too_large",
        flood(http(b"", content_length=None), b" " * 9999),
    ),
    "a length beyond the limit, then silence": ("fetch.too_large", boast),
}


@pytest.mark.parametrize(("code", "answer"), ENDLESS.values(), ids=ENDLESS)
def test_endless(code: str, answer: Answer) -> None:
    """Nobody keeps us longer than the deadline, whatever trickles or pours in."""
    settings = IMPATIENT if code == "fetch.timeout" else LOCAL
    with serving(answer) as peer, pytest.raises(FetchFailed) as refused:
        fetch_document(peer.url(), settings)

    assert refused.value.code == code


def test_slow_but_in_time() -> None:
    """A peer who takes his time, but not all of it, is heard out."""
    head, body = http()[: -len(CARD)], iter([CARD[:7], CARD[7:]])
    with serving(drip(head, body)) as peer:
        assert fetch_document(peer.url(), LOCAL).untrusted_body == CARD


def test_the_clock_is_an_argument() -> None:
    """The deadline is counted on the clock that was given."""
    ticks = itertools.count(0.0, 4.0)  # four seconds pass between two looks at it
    late = r"fetch\.timeout: .*5 s to connect, 10 s in all"
    settings = FetchSettings(insecure_loopback_http=True, clock=lambda: next(ticks))
    with serving(http()) as peer, pytest.raises(FetchFailed, match=late):
        fetch_document(peer.url(), settings)


def test_a_slow_resolver_is_a_timeout() -> None:
    """The time for the name is bounded too."""

    never = threading.Event()

    def slow(host: str) -> list[object]:
        never.wait()
        return []

    with pytest.raises(FetchFailed, match=r"fetch\.timeout: https://agent\.example/"):
        fetch_document("https://agent.example/", replace(IMPATIENT, resolver=slow))
    never.set()


def test_an_unknown_name() -> None:
    """A name without an address is an error with the system's words."""

    def unknown(host: str) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(FetchFailed, match=r"fetch\.failed: .*agent\.example.*not known"):
        fetch_document("https://agent.example/", FetchSettings(resolver=unknown))


def test_nobody_listens() -> None:
    """A refused connection is an error with the system's words."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(FetchFailed, match=r"fetch\.failed: .*Connection refused"):
        fetch_document(f"http://127.0.0.1:{port}/", LOCAL)


def test_the_second_address_answers() -> None:
    """A host with several addresses is reached at the first that listens."""
    with serving(http()) as peer:
        names = Names(["127.0.0.99", "127.0.0.1"])
        url = peer.url(host="agent.example")
        assert fetch_document(url, replace(LOCAL, resolver=names)).untrusted_body == CARD
        assert headers(peer.requests[0])["host"] == f"agent.example:{peer.port}"


def test_an_ipv6_peer() -> None:
    """An IPv6 address stands in brackets in the URL and in the Host header."""
    kept = Scripted(http())
    fetched = fetch_document("http://[::1]:8080/", replace(LOCAL, dial=kept))
    request = kept.requests()
    assert fetched.url == "http://[::1]:8080/"
    assert headers(request)["host"] == "[::1]:8080"


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
def test_no_proxy(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment sends nobody elsewhere."""
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    with serving(http()) as peer:
        assert fetch_document(peer.url(), LOCAL).untrusted_body == CARD


def test_no_memory() -> None:
    """Each call makes a connection of its own, and no cookie comes back."""
    with serving(http(set_cookie="a=b")) as peer:
        for _ in range(2):
            fetch_document(peer.url(), LOCAL)
    assert len(peer.requests) == 2
    assert all("cookie" not in headers(request) for request in peer.requests)


CONTEXT = ssl.create_default_context()  # made once; it would take most of the time below
PIECES = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"\r\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"abc",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=12))
def test_any_bytes(pieces: list[bytes]) -> None:
    """Whatever a peer sends ends in an answer or in our own error."""
    peer = Scripted(b"".join(pieces))
    settings = replace(LOCAL, ssl_context=CONTEXT, dial=peer, max_bytes=9)
    with contextlib.suppress(FetchFailed):
        fetched = fetch_document("http://127.0.0.1/", settings)
        assert len(fetched.untrusted_body) <= 9
    assert peer.requests().startswith(b"GET / HTTP/1.1\r\n")
