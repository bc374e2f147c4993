"""One request and its answer, over real sockets on this machine."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
from dataclasses import replace
from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import CARD, IMPATIENT, LOCAL, Names, Scripted, chunks, headers, http, serving

import cardsign
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import EXIT_NO_VERDICT, FetchFailed
from cardsign.findings import list_codes
from cardsign.net.fetch import FetchSettings, fetch_document, user_agent

SECRET = "said-by-the-peer"


def chunked(*parts: bytes, **more: str) -> bytes:
    return http(chunks(*parts), content_length=None, transfer_encoding="chunked", **more)


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
    "with trailers": chunked(CARD, b"")[:-2] + b"X-Digest: none\r\n\r\n",
    "as a2a+json": http(content_type="application/a2a+json"),
    "as a JWK Set": http(content_type="application/jwk-set+json"),
    "with a charset": http(content_type="Application/JSON ; charset=utf-8"),
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
    "204 without a body": ("fetch.status", b"HTTP/1.1 204 None\r\n\r\n"),
    "206, a part": ("fetch.status", status("206")),
    "304 although nothing is cached": ("fetch.status", b"HTTP/1.1 304 Same\r\n\r\n"),
    "401": ("fetch.status", status("401", www_authenticate=f'Basic realm="{SECRET}"')),
    "101, another protocol that nobody asked for": (
        "fetch.failed",
        b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ),
    "HTML": ("fetch.content_type", http(content_type="text/html")),
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
    "nothing, then br": ("fetch.encoding", http(content_encoding=", br")),
    "identity, then br": ("fetch.encoding", http(content_encoding="identity, br")),
    "identity beside zstd": (
        "fetch.encoding",
        http(content_encoding="identity\r\nContent-Encoding: zstd"),
    ),
    "a chunk's size that is none": (
        "fetch.failed",
        http(b"said-by-the-peer\r\n", content_length=None, transfer_encoding="chunked"),
    ),
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
