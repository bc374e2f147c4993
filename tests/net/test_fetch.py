"""One request and its answer: which URLs are asked, what is sent, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import CARD, IMPATIENT, LOCAL, Names, NoDial, Scripted, chunks, headers, http, serving

import cardsign
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import EXIT_NO_VERDICT, FetchFailed
from cardsign.findings import list_codes
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, fetch_document, user_agent

SECRET = "said-by-the-peer"
PUBLIC = "93.184.215.14"
HOST = "https://agent.example/"

# ------------------------------------------------------------------ before a connection is made

# What else the grammar refuses is in tests/trust/test_origins.py.
ODD_URLS = [
    "agent.example/card.json",
    "file:///etc/passwd",
    "https://user:word@agent.example/",
    "https://agent.example/ HTTP/1.1\r\nX: y",
    "http://0x7f.1/",
    f"https://{'a.' * 123}example0/",  # 254 characters
]


@pytest.mark.parametrize("url", ODD_URLS)
def test_odd_urls(url: str) -> None:
    """What two parsers could read differently is neither resolved nor connected to."""
    names, dial = Names([PUBLIC]), NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.url") as refused:
        fetch_document(url, replace(LOCAL, resolver=names, dial=dial))
    assert refused.value.message.isprintable()
    assert (names.asked, dial.asked) == ([], [])


@pytest.mark.parametrize("host", ["agent.example", "127.0.0.1", "localhost"])
def test_plain_http(host: str) -> None:
    """Plain http is refused before anything is resolved."""
    names, dial = Names(["127.0.0.1"]), NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.url: .* is plain http") as refused:
        fetch_document(f"http://{host}/", FetchSettings(resolver=names, dial=dial))
    assert "--insecure-loopback-http" in refused.value.hint
    assert (names.asked, dial.asked) == ([], [])


FORBIDDEN: list[tuple[str, tuple[str, ...], FetchSettings]] = [
    ("https://10.0.0.1/", (), DEFAULT_SETTINGS),
    ("https://127.0.0.1/", (), DEFAULT_SETTINGS),
    (HOST, ("127.0.0.1",), DEFAULT_SETTINGS),
    (HOST, ("10.0.0.1", PUBLIC), DEFAULT_SETTINGS),
    (HOST, (PUBLIC, "10.0.0.1"), DEFAULT_SETTINGS),
    (HOST, ("10.0.0.1",), LOCAL),
    ("http://169.254.169.254/", (), LOCAL),
    ("http://agent.example/", (PUBLIC,), LOCAL),
    ("http://agent.example/", ("127.0.0.1", PUBLIC), LOCAL),
]


@pytest.mark.parametrize(("url", "addresses", "settings"), FORBIDDEN)
def test_forbidden_addresses(url: str, addresses: tuple[str, ...], settings: FetchSettings) -> None:
    """A forbidden address is refused before any connection is made."""
    dial = NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.forbidden_address"):
        fetch_document(url, replace(settings, resolver=Names(addresses), dial=dial))
    assert dial.asked == []


def test_rebinding() -> None:
    """A name that turns to loopback after its first answer is not asked a second time."""
    names, dial = Names([PUBLIC], ["127.0.0.1"]), NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.failed"):
        fetch_document("https://agent.example:8443/a", FetchSettings(resolver=names, dial=dial))
    assert names.asked == ["agent.example"]
    assert dial.asked == [(PUBLIC, 8443)]


@pytest.mark.parametrize(
    ("host", "hint"), [("127.0.0.1", "--insecure-loopback-http"), ("10.0.0.1", "networks")]
)
def test_the_hint_for_an_address(host: str, hint: str) -> None:
    """Only where it would help is the way to a test server told."""
    with pytest.raises(FetchFailed) as refused:
        fetch_document(f"https://{host}/")
    assert hint in refused.value.hint


# ------------------------------------------------------------------ what is sent


def test_what_the_peer_learns() -> None:
    """The request is one GET that names neither us nor anybody's credentials; no cookie is kept."""
    with serving(http(set_cookie="a=b")) as peer:
        for _ in range(2):
            fetch_document(peer.url("/a/b.json?c=d"), LOCAL)
    for request in peer.requests:
        assert request.startswith(b"GET /a/b.json?c=d HTTP/1.1\r\n")
        assert headers(request) == {
            "host": f"127.0.0.1:{peer.port}",
            "accept": "application/json, application/*+json",
            "accept-encoding": "identity",
            "connection": "close",
            "user-agent": f"cardsign/{cardsign.__version__}",
        }
    assert len(peer.requests) == 2


def test_an_uninstalled_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no version is known, none is told."""

    def not_installed(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata.Distribution, "from_name", not_installed)
    assert user_agent.__wrapped__() == "cardsign"


def test_the_second_address_answers() -> None:
    """A host with several addresses is reached at the first that listens."""
    with serving(http()) as peer:
        names = Names(["127.0.0.99", "127.0.0.1"])
        url = peer.url(host="agent.example")
        assert fetch_document(url, replace(LOCAL, resolver=names)).untrusted_body == CARD
        assert headers(peer.requests[0])["host"] == f"agent.example:{peer.port}"


def test_an_ipv6_peer() -> None:
    """An IPv6 address stands in brackets in the URL and in the Host header."""
    peer = Scripted(http())
    result = fetch_document("http://[::1]:8080/", replace(LOCAL, dial=peer))
    assert result.url == "http://[::1]:8080/"
    assert headers(peer.requests())["host"] == "[::1]:8080"


# ------------------------------------------------------------------ what comes back


def chunked(*parts: bytes, **more: str) -> bytes:
    return http(chunks(*parts), content_length=None, transfer_encoding="chunked", **more)


def status(line: str, **more: str) -> bytes:
    return http(SECRET.encode(), status=f"{line} {SECRET}", **more)


HONEST: dict[str, bytes] = {
    "with trailers": chunked(CARD, b"")[:-2] + b"X-Digest: none\r\n\r\n",
    "as a2a+json": http(content_type="application/a2a+json"),
    "with a charset": http(content_type="Application/JSON ; charset=utf-8"),
    "with an encoding that says nothing": http(content_encoding=""),
}


@pytest.mark.parametrize("answer", HONEST.values(), ids=HONEST)
def test_honest_answers(answer: bytes) -> None:
    """Every honest way to send a card is understood."""
    with serving(answer) as peer:
        assert fetch_document(peer.url(), LOCAL).untrusted_body == CARD


UPGRADE = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
MOVED = status("301", location="https://x.example/")
ASKING = status("401", www_authenticate=f'Basic realm="{SECRET}"')
TWO_TYPES = http(content_type="application/json\r\nContent-Type: text/html")
TWO_ENCODINGS = http(content_encoding="identity\r\nContent-Encoding: zstd")
BAD_CHUNK = http(b"said-by-the-peer\r\n", content_length=None, transfer_encoding="chunked")
#: Code, answer, and what the hint says.
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "301 with a public target": ("fetch.status", MOVED, "Redirects are not followed"),
    "401": ("fetch.status", ASKING, "no credential is sent here"),
    "403": ("fetch.status", status("403"), "no credential is sent here"),
    "404": ("fetch.status", status("404"), "Check the URL."),
    "429": ("fetch.status", status("429"), "Try again later."),
    "503": ("fetch.status", status("503"), "Try again later."),
    "204 without a body": ("fetch.status", b"HTTP/1.1 204 None\r\n\r\n", ""),
    "206, a part": ("fetch.status", status("206"), ""),
    "304 although nothing is cached": ("fetch.status", b"HTTP/1.1 304 Same\r\n\r\n", ""),
    "101, another protocol that nobody asked for": ("fetch.failed", UPGRADE, ""),
    "HTML": ("fetch.content_type", http(content_type="text/html"), "declare application/json"),
    "JSON lines": ("fetch.content_type", http(content_type="application/jsonl"), ""),
    "a suffix without a name": ("fetch.content_type", http(content_type="application/+json"), ""),
    "two types in one": ("fetch.content_type", http(content_type="application/json, text/a"), ""),
    "two types": ("fetch.content_type", TWO_TYPES, ""),
    "no type": ("fetch.content_type", http(content_type=None), ""),
    "nothing, then br": ("fetch.encoding", http(content_encoding=", br"), ""),
    "identity, then br": ("fetch.encoding", http(content_encoding="identity, br"), ""),
    "identity beside zstd": ("fetch.encoding", TWO_ENCODINGS, ""),
    "too much": ("fetch.too_large", http(content_length="99999999"), "key sets are small"),
    "a chunk's size that is none": ("fetch.failed", BAD_CHUNK, ""),
    "more headers than httpcore holds": ("fetch.failed", http(x_a=SECRET * 20_000), ""),
}


@pytest.mark.parametrize(("code", "answer", "hint"), REFUSED.values(), ids=REFUSED)
def test_refused(code: str, answer: bytes, hint: str) -> None:
    """By its code, with what to do, and not a word of the answer or target of it repeated."""
    with serving(answer) as peer, pytest.raises(FetchFailed) as refused:
        fetch_document(peer.url(), LOCAL)
    error = refused.value
    assert (error.code, code in list_codes(), error.exit_status) == (code, True, EXIT_NO_VERDICT)
    assert SECRET not in f"{error} {error.message} {error.hint}"
    assert "127.0.0.1" in error.message
    assert hint in error.hint
    assert ("Redirects" in error.hint) == (" answered 30" in error.message)
    assert len(peer.requests) == 1  # no redirect followed, nothing tried again


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


# ------------------------------------------------------------------ time


def test_the_clock_is_an_argument() -> None:
    """The deadline is counted on the clock that was given."""
    ticks = itertools.count(0.0, 4.0)  # four seconds pass between two looks at it
    late = r"fetch\.timeout: .*5 s to connect, 10 s in all"
    settings = FetchSettings(insecure_loopback_http=True, clock=lambda: next(ticks))
    with serving(http()) as peer, pytest.raises(FetchFailed, match=late):
        fetch_document(peer.url(), settings)


def unknown(host: str) -> list[object]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def silent(host: str) -> list[object]:
    threading.Event().wait(60)
    return []


RESOLVERS: dict[str, tuple[Callable[[str], list[object]], str]] = {
    "a name that is unknown": (unknown, r"fetch\.failed: .*agent\.example.*not known"),
    "a name without an address": (lambda host: [], r"fetch\.failed: agent\.example has no address"),
    "no answer in time": (silent, r"fetch\.timeout: https://agent\.example/"),
}


@pytest.mark.parametrize(("resolver", "words"), RESOLVERS.values(), ids=RESOLVERS)
def test_a_name_that_leads_nowhere(resolver: Callable[[str], list[object]], words: str) -> None:
    """It is an error with the system's words; a resolver that hangs is left behind."""
    with pytest.raises(FetchFailed, match=words):
        fetch_document(HOST, replace(IMPATIENT, resolver=resolver))


# ------------------------------------------------------------------ anything


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
        assert len(fetch_document("http://127.0.0.1/", settings).untrusted_body) <= 9
    assert peer.requests().startswith(b"GET / HTTP/1.1\r\n")
