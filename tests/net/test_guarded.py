"""The transports for calling agents: where a client can be led, kept, or made to remember."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
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
from cardsign.net.guarded import GuardedTransport, GuardRefused
from cardsign.urls import parse_origin
from tests.net.internet import Host, Network, Request, Takeover
from tests.net.peers import CARD, LOCAL, PATIENCE, Names, NoDial, http, serving
from tests.net.ways_to_ask import SOON, Call, called

URL = "https://agent.example/rpc"
HOME = parse_origin("https://agent.example")


@pytest.fixture
def peer(network: Network) -> Host:
    return network.host("agent.example", http())


def refused(call: Call, *args: Any, **options: Any) -> GuardRefused:
    with pytest.raises(GuardRefused) as caught:
        call(*args, **options)
    return caught.value


# ----------------------------------------------------------------------- honest use


def test_an_honest_call(call: Call, network: Network, peer: Host) -> None:
    """What was sent arrives, and so does the answer, whatever its status and type."""
    answer = http(b"busy", status="503 Later", content_type="text/plain", retry_after="9")
    peer.answers = answer.replace(b"content-length", b"x-name: \xe9\r\ncontent-length")
    response = call(
        "POST", URL + "?a=b", network.settings(), content=b"hello", headers={"X-A": "c"}
    )

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
    peer.answers = http(b"", content_length="9" * 4) if method == "HEAD" else http(b"{}")
    assert call(method, URL, network.settings()).status_code == 200
    assert peer.requests[0].method == method


# ------------------------------------------------------------------------ elsewhere


REDIRECTS = [300, 301, 302, 303, 304, 305, 307, 308]


@pytest.mark.parametrize("status", REDIRECTS)
def test_redirects(call: Call, status: int, network: Network, peer: Host) -> None:
    """A client who would follow one has nothing to follow, and the other host hears nothing."""
    other = network.host("other.example", http())
    peer.answers = http(status=f"{status} There", location="https://other.example/")
    secret = {"Authorization": "Bearer s3cret"}
    error = refused(call, "POST", URL, network.settings(), headers=secret, content=b"{}")

    assert error.__cause__.code == "fetch.status"
    assert "Redirects are not followed" in error.__cause__.hint
    assert network.told(b"s3cret") == {"agent.example"}
    assert (other.streams, network.names) == ([], ["agent.example"])
    assert network.dialled == ["agent.example:443"]


ELSEWHERE: dict[str, tuple[str, list[Any] | None, str]] = {
    "another host": ("https://other.example/rpc", [HOME], "fetch.elsewhere"),
    "another port": ("https://agent.example:8443/rpc", [HOME], "fetch.elsewhere"),
    "a host below": ("https://a.agent.example/rpc", [HOME], "fetch.elsewhere"),
    "the host as a user": ("https://agent.example.other.example/", [HOME], "fetch.elsewhere"),
    "no place given, which is none, not any": (URL, [], "fetch.elsewhere"),
    "plain http": ("http://agent.example/", None, "fetch.url"),
    "a user that looks like the host": ("https://agent.example@evil.example/", None, "fetch.url"),
}


@pytest.mark.parametrize(("url", "origins", "code"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_elsewhere(
    call: Call, url: str, origins: list[Any] | None, code: str, network: Network, peer: Host
) -> None:
    """A request to any other place than the given ones is refused before a name is looked up."""
    other = network.host("other.example", http())
    how = {"origins": origins, "headers": {"Authorization": "Bearer s3"}}
    assert refused(call, "POST", url, network.settings(), **how).__cause__.code == code
    assert (network.names, network.dialled, other.streams) == ([], [], [])
    assert call("GET", URL, network.settings(), origins=[HOME]).status_code == 200


INSIDE = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("address", INSIDE)
def test_inside(call: Call, address: str) -> None:
    """A name that leads inside is not connected, nor is one that leads there only in part."""
    for addresses in ([address], ["93.184.215.14", address]):
        dial = NoDial()
        settings = FetchSettings(resolver=Names(addresses), dial=dial)
        assert refused(call, "GET", URL, settings).__cause__.code == "fetch.forbidden_address"
        assert dial.asked == []


def test_the_second_request_is_checked_as_the_first(network: Network, peer: Host) -> None:
    """Nothing is left from the first request that the second could use unchecked."""
    with httpx.Client(transport=GuardedTransport(network.settings())) as client:
        assert client.get(URL).status_code == 200
        network.resolves("agent.example", ["127.0.0.1"])
        assert refused(client.get, URL).__cause__.code == "fetch.forbidden_address"
    assert network.names == ["agent.example", "agent.example"]
    assert network.dialled == ["agent.example:443"]


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"])
def test_proxies_of_the_environment(
    call: Call, variable: str, network: Network, peer: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not used, by a client that believes the environment."""
    monkeypatch.setenv(variable, "http://proxy.example:3128")
    assert call("GET", URL, network.settings()).content == CARD
    assert network.names == ["agent.example"]


def test_what_a_client_does_not_decide(call: Call, network: Network, peer: Host) -> None:
    """Host, server name, target and framing are ours, whatever it sets."""
    theirs = {"Host": "evil.example", "Accept-Encoding": "gzip", "Connection": "upgrade"}
    theirs |= {"Upgrade": "websocket", "TE": "trailers", "Proxy-Authorization": "Basic czM="}
    extensions = {"sni_hostname": "evil.example", "target": b"/elsewhere"}
    call("GET", URL, network.settings(), headers=theirs, extensions=extensions)
    (request,) = peer.requests
    assert (request.target, request.headers["host"]) == ("/rpc", "agent.example")
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["connection"] == "close"
    assert request.headers.keys().isdisjoint({"upgrade", "te", "proxy-authorization"})
    assert request.head.lower().count(b"\r\nhost:") == 1


def test_switching_protocols(call: Call, network: Network, peer: Host) -> None:
    """No peer gets the bare connection."""
    peer.answers = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    assert refused(call, "GET", URL, network.settings()).__cause__.code == "fetch.failed"


# ----------------------------------------------------------------------- remembering

TO_REMEMBER = {
    "set_cookie": "session=1; Path=/",
    "set_cookie2": "session=1",
    "refresh": "0; url=https://other.example/",
    "alt_svc": 'h2="other.example:443"; ma=31536000',
    "link": "<https://other.example/>; rel=preload",
    "strict_transport_security": "max-age=31536000; includeSubDomains",
}


def test_nothing_to_remember(network: Network, peer: Host) -> None:
    """What a peer would like the client to keep is not even shown to it; the rest is."""
    peer.answers = http(x_kept="yes", **TO_REMEMBER)
    with httpx.Client(transport=GuardedTransport(network.settings())) as client:
        for response in (client.get(URL), client.get(URL)):
            assert response.headers["x-kept"] == "yes"
            names = {name.replace("_", "-") for name in TO_REMEMBER}
            assert names.isdisjoint(response.headers)
        assert not client.cookies
    assert all("cookie" not in request.headers for request in peer.requests)
    assert network.dialled == ["agent.example:443"] * 2


# ------------------------------------------------------------------ streams of events


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"


def events(*pauses: float, body: bytes = b"data: {}\n\n") -> Takeover:
    """A stream of events with these pauses before them."""

    def speak(connection: socket.socket) -> None:
        connection.sendall(EVENTS)
        for pause in pauses:
            time.sleep(pause)
            connection.sendall(body)

    return Takeover(speak)


LISTENING = {"Accept": "text/event-stream"}


NO_END: dict[str, tuple[Takeover, dict[str, float]]] = {
    "silent": (events(30.0), {"total_timeout": SOON}),
    "silent, for a client with a limit of its own": (events(30.0), {"timeout": SOON}),
    "for ever": (events(*[0.02] * 3000), {"total_timeout": SOON}),
}


@pytest.mark.parametrize(("stream", "limit"), NO_END.values(), ids=NO_END)
def test_events_without_an_end(
    call: Call, stream: Takeover, limit: dict[str, float], network: Network, peer: Host
) -> None:
    """Neither silence nor endless talk keeps a client."""
    peer.answers = stream
    error = refused(call, "POST", URL, network.settings(), headers=LISTENING, **limit)
    assert error.__cause__.code == "fetch.timeout"


def test_too_many_events(call: Call, network: Network, peer: Host) -> None:
    """The limit on bytes is for all of a stream."""
    peer.answers = events(*[0.0] * 100, body=b"data: " + b"x" * 994)
    fits = call("POST", URL, network.settings(), headers=LISTENING, max_bytes=100_000)
    assert len(fits.content) == 100_000
    error = refused(call, "POST", URL, network.settings(), headers=LISTENING, max_bytes=99_999)
    assert error.__cause__.code == "fetch.too_large"


def test_events_arrive_one_by_one(network: Network, peer: Host) -> None:
    """What has come is handed on before the next one comes."""
    heard = threading.Event()

    def speak(connection: socket.socket) -> None:
        connection.sendall(EVENTS + b"data: 1\n\n")
        assert heard.wait(PATIENCE)
        connection.sendall(b"data: 2\n\n")

    peer.answers = Takeover(speak)
    seen: list[str] = []
    with (
        httpx.Client(transport=GuardedTransport(network.settings())) as client,
        client.stream("GET", URL, headers=LISTENING) as response,
    ):
        for line in response.iter_lines():
            seen.append(line)
            heard.set()
    assert [line for line in seen if line] == ["data: 1", "data: 2"]


# ------------------------------------------------------------------ errors and leaving


def test_a_request_that_is_no_http(call: Call, network: Network, peer: Host) -> None:
    """What a client gets wrong is refused like anything else, and nobody is sent it."""
    error = refused(call, "GET", URL, network.settings(), headers={"X-A": "a\nb"})
    assert error.__cause__.code == "fetch.failed"
    assert error.request.url == URL
    assert peer.requests == []


def test_servers_of_this_machine(call: Call) -> None:
    """Only by leave, and then over plain http too."""
    with serving(http()) as served:
        assert call("GET", served.url(), LOCAL).content == CARD
        assert refused(call, "GET", served.url(), FetchSettings()).__cause__.code == "fetch.url"
    assert len(served.requests) == 1


def test_many_tasks_at_once(network: Network, peer: Host) -> None:
    """They do not wait for one another, in an event loop."""
    barrier = threading.Barrier(20)

    def together(request: Request) -> bytes:
        barrier.wait(PATIENCE)
        return http(request.target.encode())

    peer.answers = together
    bodies: dict[int, str] = {}

    async def ask(client: httpx.AsyncClient, number: int) -> None:
        bodies[number] = (await client.get(f"https://agent.example/{number}")).text

    async def ask_all() -> None:
        transport = GuardedTransport(network.settings())
        client = httpx.AsyncClient(transport=transport, timeout=PATIENCE)
        async with client, anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(ask, client, number)

    anyio.run(ask_all)
    assert bodies == {number: f"/{number}" for number in range(20)}


def wait_for_the_end(connection: socket.socket) -> None:
    """Until the client has closed; OpenSSL 3.6 calls that a broken pipe on a socket pair."""
    with contextlib.suppress(BrokenPipeError):
        assert connection.recv(1) == b""


async def leave(
    settings: FetchSettings,
    begun: threading.Event,
    kind: type[GuardedTransport] = GuardedTransport,
    seconds: float = PATIENCE,
) -> None:
    """Cancel a request as soon as it has begun."""

    async def ask() -> None:
        transport = kind(replace(settings, total_timeout=seconds))
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            await client.get(URL)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(begun.wait, PATIENCE)
        tasks.cancel_scope.cancel()


def promise(connection: socket.socket, body: bytes = b"") -> None:
    """Send the head of an answer, and no more of its body than this."""
    connection.sendall(http(body, content_length="9999"))


def test_a_cancelled_task_closes_its_connection(network: Network, peer: Host) -> None:
    """Who leaves in the middle of an answer leaves nothing open."""
    begun, gone = threading.Event(), threading.Event()

    def speak(connection: socket.socket) -> None:
        promise(connection)
        begun.set()
        wait_for_the_end(connection)
        gone.set()

    peer.answers = Takeover(speak)
    anyio.run(leave, network.settings(), begun)
    assert gone.wait(PATIENCE)


def test_a_caller_that_leaves_before_a_ready_answer_closes_its_connection(
    network: Network, peer: Host
) -> None:
    """The answer is there, and nobody is any more who would close it."""
    begun, gone, closed = threading.Event(), threading.Event(), threading.Event()

    class Late(GuardedTransport):
        def _answer(self, request: httpx.Request, exchange: Exchange) -> httpx.Response:
            response = super()._answer(request, exchange)
            exchange._open.callback(closed.set)
            begun.set()
            gone.wait(PATIENCE)
            return response

    def speak(connection: socket.socket) -> None:
        promise(connection)
        wait_for_the_end(connection)
        gone.set()

    peer.answers = Takeover(speak)
    anyio.run(partial(leave, network.settings(), begun, kind=Late))
    assert closed.wait(PATIENCE)


def test_a_cancelled_task_does_not_wait_for_a_name(network: Network) -> None:
    """The resolver is left behind, in a thread of its own."""
    begun, left = threading.Event(), threading.Event()

    def slow(name: str) -> list[IPAddress]:
        begun.set()
        left.wait(PATIENCE)
        return []

    try:
        anyio.run(leave, replace(network.settings(), resolver=slow), begun)
        assert not left.is_set()
    finally:
        left.set()


def test_an_abandoned_request_connects_to_nobody(network: Network, peer: Host) -> None:
    """Its name may be known only after its caller has left."""
    exchange = Exchange(network.settings(), URL)
    exchange.abort()
    with pytest.raises(FetchFailed, match=r"fetch\.timeout"):
        exchange.send("GET", ())
    assert network.dialled == []


def test_a_cancelled_handshake_closes_its_connection(network: Network, peer: Host) -> None:
    """The same while TLS is still being agreed upon."""
    begun, gone = threading.Event(), threading.Event()

    def silent(address: IPAddress, port: int, timeout: float) -> socket.socket:
        ours, theirs = socket.socketpair()

        def listen() -> None:
            with theirs:
                assert theirs.recv(65536)  # the client's hello
                begun.set()
                assert theirs.recv(1) == b""
                gone.set()

        threading.Thread(target=listen, daemon=True).start()
        return ours

    late = 2 * PATIENCE  # no deadline closes it before this test has given up
    settings = replace(network.settings(), dial=silent)
    anyio.run(partial(leave, settings, begun, seconds=late))
    assert gone.wait(PATIENCE)


def test_an_answer_that_is_not_read(call: Call, network: Network, peer: Host) -> None:
    """Who closes an answer early closes the connection."""
    gone = threading.Event()
    transport = GuardedTransport(network.settings())

    def speak(connection: socket.socket) -> None:
        promise(connection, b" " * 999)
        wait_for_the_end(connection)
        gone.set()

    async def peek() -> None:
        client = httpx.AsyncClient(transport=transport)
        async with client, client.stream("GET", URL) as response:
            async for piece in response.aiter_bytes(9):
                assert piece == b" " * 9
                break

    peer.answers = Takeover(speak)
    if call is called:
        client = httpx.Client(transport=transport)
        with client, client.stream("GET", URL) as response:
            assert next(response.iter_bytes(9)) == b" " * 9
    else:
        anyio.run(peek)
    assert gone.wait(PATIENCE)


def test_an_upload_without_an_end(network: Network, peer: Host) -> None:
    """The deadline holds for what is sent as well."""
    endless = itertools.repeat(b"x" * 65536)
    error = refused(called, "POST", URL, network.settings(), content=endless, total_timeout=SOON)
    assert error.__cause__.code == "fetch.timeout"
