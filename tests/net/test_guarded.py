"""The transports for calling agents: where a client can be led, kept, or made to remember."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from cardsign.errors import FetchFailed
from cardsign.net.connection import IPAddress
from cardsign.net.fetch import Exchange, FetchSettings
from cardsign.net.guarded import GuardedTransport
from cardsign.urls import parse_origin
from tests.net.internet import Answer, Host, Network, Request, Takeover
from tests.net.peers import CARD, PATIENCE, Names, NoDial, http
from tests.net.ways_to_ask import SOON, Call, called, refusal_of
from tests.support import each_case, read_cases

URL = "https://agent.example/rpc"
HOME = parse_origin("https://agent.example")
TABLES = read_cases(__file__)


@pytest.fixture
def peer(network: Network) -> Host:
    return network.host("agent.example", http())


# ----------------------------------------------------------------------- honest use


def test_an_honest_call(call: Call, network: Network, peer: Host) -> None:
    """What was sent arrives, and so does the answer, whatever its status and type."""
    answer = http(b"busy", status="503 Later", content_type="text/plain", retry_after="9")
    peer.answers = answer.replace(b"content-length", b"x-name: \xe9\r\ncontent-length")
    how: Any = {"content": b"hello", "headers": {"X-A": "c"}, "origins": ["https://agent.example"]}
    response = call("POST", URL + "?a=b", network.settings(), **how)
    assert (response.status_code, response.content) == (503, b"busy")
    assert response.headers["retry-after"] == "9"
    assert response.headers["x-name"] == "\xe9"  # any bytes are handed on, not tripped over
    (request,) = peer.requests
    assert (request.method, request.target, request.body) == ("POST", "/rpc?a=b", b"hello")
    assert request.headers["x-a"] == "c"
    assert network.dialled == ["agent.example:443"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_methods(call: Call, method: str, network: Network, peer: Host) -> None:
    """A client may use any."""
    peer.answers = http(b"", content_length="9999") if method == "HEAD" else http(b"{}")
    assert call(method, URL, network.settings()).status_code == 200
    assert peer.requests[0].method == method


# ------------------------------------------------------------------------ elsewhere


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
def test_redirects(call: Call, status: int, network: Network, peer: Host) -> None:
    """A client who would follow one has nothing to follow, and the other host hears nothing."""
    other = network.host("other.example", http())
    peer.answers = http(status=f"{status} There", location="https://other.example/")
    secret = {"Authorization": "Bearer s3cret"}
    failure = refusal_of(call, "POST", URL, network.settings(), headers=secret, content=b"{}")
    assert failure.code == "fetch.status"
    assert ("Redirects are not followed" in failure.hint) == (status != 304)  # which is none
    assert network.told(b"s3cret") == {"agent.example"}
    assert (other.streams, network.names) == ([], ["agent.example"])
    assert network.dialled == ["agent.example:443"]


@each_case(__file__, "elsewhere", "url", "places", "code")
def test_elsewhere(
    call: Call, url: str, places: dict[str, list[str]], code: str, network: Network, peer: Host
) -> None:
    """A request to any other place than the given ones is refused before a name is looked up."""
    other = network.host("other.example", http())
    failure = refusal_of(call, "POST", url, network.settings(), **places)
    assert failure.code == code
    assert (network.names, network.dialled, other.streams) == ([], [], [])
    assert call("GET", URL, network.settings(), origins=[HOME]).status_code == 200


@pytest.mark.parametrize("address", TABLES["inside"]["addresses"])
def test_inside(call: Call, address: str, network: Network, peer: Host) -> None:
    """A name that leads inside is not connected, nor is one that leads there only in part.

    Nothing is left from an earlier request that a later one could use unchecked.
    """
    for addresses in ([address], ["93.184.215.14", address]):
        dial = NoDial()
        settings = FetchSettings(resolver=Names(addresses), dial=dial)
        assert refusal_of(call, "GET", URL, settings).code == "fetch.forbidden_address"
        assert dial.asked == []
    with httpx.Client(transport=GuardedTransport(network.settings())) as client:
        assert client.get(URL).status_code == 200
        network.resolves("agent.example", [address])
        assert refusal_of(client.get, URL).code == "fetch.forbidden_address"
    assert network.names == ["agent.example"] * 2
    assert network.dialled == ["agent.example:443"]


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"])
def test_what_a_client_does_not_decide(
    call: Call, variable: str, network: Network, peer: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host, server name, target, framing and proxy are ours, whatever it or a variable sets."""
    monkeypatch.setenv(variable, "http://proxy.example:3128")
    theirs = {"Host": "evil.example", "Accept-Encoding": "gzip", "Connection": "upgrade"}
    theirs |= {"Upgrade": "websocket", "TE": "trailers", "Proxy-Authorization": "Basic czM="}
    extensions = {"sni_hostname": "evil.example", "target": b"/elsewhere"}
    answer = call("GET", URL, network.settings(), headers=theirs, extensions=extensions)
    assert (answer.content, network.names) == (CARD, ["agent.example"])
    (request,) = peer.requests
    assert (request.target, request.headers["host"]) == ("/rpc", "agent.example")
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["connection"] == "close"
    assert request.headers.keys().isdisjoint({"upgrade", "te", "proxy-authorization"})
    assert request.head.lower().count(b"\r\nhost:") == 1


def test_what_is_no_http(call: Call, network: Network, peer: Host) -> None:
    """What a client gets wrong nobody is sent; no peer gets the bare connection."""
    settings = network.settings()
    assert refusal_of(call, "GET", URL, settings, headers={"X": "a\nb"}).code == "fetch.failed"
    assert peer.requests == []
    peer.answers = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    assert refusal_of(call, "GET", URL, settings).code == "fetch.failed"


def test_nothing_to_remember(network: Network, peer: Host) -> None:
    """What a peer would like the client to keep is not even shown to it; the rest is."""
    peer.answers = http(x_kept="yes", **TABLES["to_remember"])
    with httpx.Client(transport=GuardedTransport(network.settings())) as client:
        for response in (client.get(URL), client.get(URL)):
            assert response.headers["x-kept"] == "yes"
            assert not any(
                name.replace("-", "_") in TABLES["to_remember"] for name in response.headers
            )
        assert not client.cookies
    assert all("cookie" not in request.headers for request in peer.requests)
    assert network.dialled == ["agent.example:443"] * 2


# ------------------------------------------------------------------ streams, and their end

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"


def events(*pauses: float) -> Takeover:
    """A stream of events of 1000 bytes with these pauses before them."""

    def speak(connection: socket.socket) -> None:
        connection.sendall(EVENTS)
        for pause in pauses:
            time.sleep(pause)
            connection.sendall(b"data: " + b"x" * 994)

    return Takeover(speak)


MANY = events(*[0.0] * 100)
MUTE = Takeover(lambda connection: connection.recv(1))
#: What is heard, the limit on it, a client's own one, and the code of the refusal.
NO_END: dict[str, tuple[Takeover, dict[str, Any], float | None, str]] = {
    "silent": (events(30.0), {"total_timeout": SOON}, None, "fetch.timeout"),
    "silent, for a client's own limit": (events(30.0), {}, SOON, "fetch.timeout"),
    "without a head": (MUTE, {}, SOON, "fetch.timeout"),
    "for ever": (events(*[0.02] * 3000), {"total_timeout": SOON}, None, "fetch.timeout"),
    "too many": (MANY, {"max_bytes": 99_999}, None, "fetch.too_large"),
    "just enough": (MANY, {"max_bytes": 100_000}, None, ""),
}


@pytest.mark.parametrize(("stream", "limits", "timeout", "code"), NO_END.values(), ids=NO_END)
def test_events_without_an_end(
    call: Call,
    stream: Takeover,
    limits: dict[str, Any],
    timeout: float | None,
    code: str,
    network: Network,
    peer: Host,
) -> None:
    """Neither silence nor endless talk keeps a client; the limit on bytes is for all of it."""
    peer.answers = stream
    settings = replace(network.settings(), **limits)
    if code:
        assert refusal_of(call, "POST", URL, settings, timeout=timeout).code == code
    else:
        assert len(call("POST", URL, settings).content) == 100_000


def test_an_upload_without_an_end(network: Network, peer: Host) -> None:
    """The deadline holds for what is sent as well."""
    settings = replace(network.settings(), total_timeout=SOON)
    endless = itertools.repeat(b"x" * 65536)
    assert refusal_of(called, "POST", URL, settings, content=endless).code == "fetch.timeout"


def test_events_arrive_one_by_one(network: Network, peer: Host) -> None:
    """What has come is handed on before the next one comes."""
    heard = threading.Event()

    def speak(connection: socket.socket) -> None:
        connection.sendall(EVENTS + b"data: 1\n\n")
        assert heard.wait(PATIENCE)
        connection.sendall(b"data: 2\n\n")

    peer.answers = Takeover(speak)
    lines: list[str] = []
    with (
        httpx.Client(transport=GuardedTransport(network.settings())) as client,
        client.stream("GET", URL) as response,
    ):
        for line in response.iter_lines():
            lines.append(line)
            heard.set()
    assert [line for line in lines if line] == ["data: 1", "data: 2"]


# ------------------------------------------------------------------ side by side, and leaving


def test_many_tasks_at_once(network: Network, peer: Host) -> None:
    """They do not wait for one another, in an event loop."""
    barrier = threading.Barrier(20)

    def together(request: Request) -> bytes:
        barrier.wait(PATIENCE)
        return http(request.target.encode())

    peer.answers = together
    paths = [f"/{number}" for number in range(20)]

    async def ask_all() -> list[str]:
        transport = GuardedTransport(network.settings())
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE) as client:
            asked = (client.get(f"https://agent.example{path}") for path in paths)
            return [answer.text for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask_all()) == paths


class Peer:
    """What a client that leaves was doing, and whether its connection was closed."""

    def __init__(self) -> None:
        self.begun, self.gone = threading.Event(), threading.Event()

    def answer(self, body: bytes = b"", *, begins: bool = True) -> Answer:
        """The head of an answer, and no more of its body than this."""

        def speak(connection: socket.socket) -> None:
            connection.sendall(http(body, content_length="9999"))
            if begins:
                self.begun.set()
            self.wait(connection)

        return Takeover(speak)

    def wait(self, connection: socket.socket) -> None:
        """Until the client has closed; OpenSSL 3.6 calls that a broken pipe on a socket pair."""
        with contextlib.suppress(BrokenPipeError):
            assert connection.recv(1) == b""
        self.gone.set()

    def dial(self, *_: object) -> socket.socket:
        """Never agree upon TLS."""
        ours, theirs = socket.socketpair()

        def listen() -> None:
            with theirs:
                assert theirs.recv(65536)  # the client's hello
                self.begun.set()
                self.wait(theirs)

        threading.Thread(target=listen, daemon=True).start()
        return ours


async def leave(make: Callable[[], GuardedTransport], begun: threading.Event) -> None:
    """Cancel a request as soon as it has begun."""

    async def ask() -> None:
        async with httpx.AsyncClient(transport=make(), timeout=None) as client:
            await client.get(URL)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(begun.wait, PATIENCE)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("step", ["the answer", "the handshake"])
def test_a_cancelled_task_closes_its_connection(step: str, network: Network, peer: Host) -> None:
    """Who leaves in the middle leaves nothing open."""
    end = Peer()
    peer.answers = end.answer()
    # No deadline closes it before this test has given up.
    settings = replace(network.settings(), total_timeout=2 * PATIENCE)
    if step == "the handshake":
        settings = replace(settings, dial=end.dial)
    anyio.run(leave, partial(GuardedTransport, settings), end.begun)
    assert end.gone.wait(PATIENCE)


def test_a_caller_that_leaves_before_a_ready_answer_closes_its_connection(
    network: Network, peer: Host
) -> None:
    """The answer is there, and nobody is any more who would close it."""
    end, closed = Peer(), threading.Event()

    class Late(GuardedTransport):
        def _answer(self, request: httpx.Request, exchange: Exchange) -> httpx.Response:
            response = super()._answer(request, exchange)
            exchange._open.callback(closed.set)
            end.begun.set()
            end.gone.wait(PATIENCE)
            return response

    peer.answers = end.answer(begins=False)
    anyio.run(leave, partial(Late, network.settings()), end.begun)
    assert closed.wait(PATIENCE)


def test_a_cancelled_task_does_not_wait_for_a_name(network: Network, peer: Host) -> None:
    """The resolver is left behind, in a thread of its own; what it finds is not connected."""
    begun, left = threading.Event(), threading.Event()

    def slow(name: str) -> list[IPAddress]:
        begun.set()
        left.wait(PATIENCE)
        return []

    settings = replace(network.settings(), resolver=slow)
    try:
        anyio.run(leave, partial(GuardedTransport, settings), begun)
        assert not left.is_set()
    finally:
        left.set()
    exchange = Exchange(network.settings(), URL)
    exchange.abort()
    with pytest.raises(FetchFailed, match=r"fetch\.timeout"):
        exchange.send("GET", ())
    assert network.dialled == []


def test_an_answer_that_is_not_read(call: Call, network: Network, peer: Host) -> None:
    """Who closes an answer early closes the connection."""
    end, transport = Peer(), GuardedTransport(network.settings())
    peer.answers = end.answer(b" " * 999)

    async def peek() -> bytes:
        client = httpx.AsyncClient(transport=transport)
        async with client, client.stream("GET", URL) as response:
            return await anext(response.aiter_bytes(9))

    if call is called:
        with httpx.Client(transport=transport) as client, client.stream("GET", URL) as response:
            assert next(response.iter_bytes(9)) == b" " * 9
    else:
        assert anyio.run(peek) == b" " * 9
    assert end.gone.wait(PATIENCE)
