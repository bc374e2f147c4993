"""A small internet on this machine that writes down who was looked up, connected to and told what.

::

    network = Network(authority)                       # the fixture of tests/net/conftest.py
    peer = network.host("agent.example", {"/.well-known/agent-card.json": http(card)})
    fetcher = DocumentFetcher(network.settings(), now=lambda: NOW)
    fetcher.fetch_card("https://agent.example")

    assert network.names == ["agent.example"]          # each name that was looked up
    assert network.dialled == ["agent.example:443"]    # each connection, by name or address
    assert peer.targets == ["GET /.well-known/agent-card.json"]
    assert network.told(b"secret") == set()            # hosts that were sent these bytes

The settings are those for strangers: https, with certificates of the test's own authority, to
addresses that look public. Nothing leaves this process: what is dialled is one end of a socket pair
whose other end a thread serves. Connections are kept alive unless an answer says otherwise.

An answer is bytes (see ``peers.http``), a function from the :class:`Request` to bytes, or a
function from the socket that has the rest of the connection to itself; a host has one answer, or
one for each path (404 elsewhere), and may be given others later (``peer.answers = ...``).
``network.relay("agent.example", port)`` makes a host of a plain http server on loopback.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cardsign.net.connection import IPAddress
from cardsign.net.fetch import FetchSettings
from tests.net.authorities import Authority
from tests.net.peers import PATIENCE, http
from tests.net.peers import headers as header_fields

PATIENT = FetchSettings(total_timeout=PATIENCE)


@dataclass
class Clock:
    """The time that a verifier has; it goes on when it is told to."""

    now: datetime = datetime(2026, 11, 22, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Request:
    """One request, as it arrived."""

    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split()[0].decode()

    @property
    def target(self) -> str:
        """Path and query."""
        return self.head.split()[1].decode()

    @property
    def headers(self) -> dict[str, str]:
        """By names in lower case."""
        return header_fields(self.head)


class Takeover:
    """An answer that has the rest of the connection to itself."""

    def __init__(self, speak: Callable[[socket.socket], None]) -> None:
        self.speak = speak


Answer = bytes | Callable[[Request], bytes] | Takeover


@dataclass
class Host:
    """A host of the small internet, and all that it was told."""

    name: str
    address: IPAddress
    answers: Answer | Mapping[str, Answer]
    tls: ssl.SSLContext
    requests: list[Request] = field(default_factory=list)
    streams: list[bytearray] = field(default_factory=list)
    relay_port: int | None = None

    @property
    def targets(self) -> list[str]:
        """Method and target of each request."""
        return [f"{request.method} {request.target}" for request in self.requests]

    def serve(self, raw: socket.socket) -> None:
        """Serve one connection until either end has had enough."""
        received = bytearray()
        self.streams.append(received)
        with (
            contextlib.suppress(OSError),
            raw,
            self.tls.wrap_socket(raw, server_side=True) as connection,
        ):
            if self.relay_port is not None:
                hand_on(connection, self.relay_port, received)
                return
            while self._answer(connection, received):
                pass
            # A server says that it closes. On a socket pair OpenSSL 3.6 wants to hear it.
            connection.settimeout(0)
            connection.unwrap()

    def _answer(self, connection: socket.socket, received: bytearray) -> bool:
        """Answer one request; False where the connection ends."""
        request = _read_request(connection, received)
        self.requests.append(request)
        answer = self.answers
        if isinstance(answer, Mapping):
            answer = answer.get(request.target, http(b"", status="404 Not Found"))
        if isinstance(answer, Takeover):
            answer.speak(connection)
            return False
        data = answer if isinstance(answer, bytes) else answer(request)
        connection.sendall(data)
        closing = b"connection: close" in data.partition(b"\r\n\r\n")[0].lower()
        return not closing and request.headers.get("connection", "") != "close"


def _read_request(connection: socket.socket, received: bytearray) -> Request:
    """Read one request, and write down what arrives, whole or not."""
    start = len(received)

    def read_more() -> None:
        data = connection.recv(65536)
        if not data:
            raise ConnectionError
        received.extend(data)

    while (end := received.find(b"\r\n\r\n", start) + 4) < start + 4:
        read_more()
    request = Request(bytes(received[start:end]), b"")
    if request.headers.get("transfer-encoding") == "chunked":
        while not received.endswith(b"0\r\n\r\n", end):
            read_more()
    while len(received) < end + int(request.headers.get("content-length", "0")):
        read_more()
    return replace(request, body=bytes(received[end:]))


class Network:
    """All hosts there are, and all that was asked of them."""

    def __init__(self, authority: Authority) -> None:
        self.hosts: dict[str, Host] = {}
        self.names: list[str] = []
        self.dialled: list[str] = []
        self._authority = authority
        self._numbers = itertools.count(1)
        self._aliases: dict[str, list[IPAddress]] = {}

    def settings(self, limits: FetchSettings = PATIENT) -> FetchSettings:
        """The only way to this internet."""
        return replace(
            limits, resolver=self._resolve, ssl_context=self._authority.client(), dial=self._dial
        )

    def host(
        self,
        name: str,
        answers: Answer | Mapping[str, Answer] = b"",
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Host:
        """Add a host; `tls` instead of a good certificate for its name."""
        number = next(self._numbers)
        address = ip_address(f"93.184.{number // 250}.{number % 250 + 1}")
        context = self._authority.server(name) if tls is None else tls
        self.hosts[name] = Host(name, address, answers or {}, context)
        return self.hosts[name]

    def relay(self, name: str, port: int) -> Host:
        """Add a host that is a plain http server on loopback behind TLS."""
        host = self.host(name)
        host.relay_port = port
        return host

    def resolves(self, name: str, addresses: Iterable[str]) -> None:
        """Let a name have these addresses, whatever they are, from now on."""
        self._aliases[name] = [ip_address(text) for text in addresses]

    def told(self, data: bytes) -> set[str]:
        """The hosts that were sent these bytes, anywhere on a connection, in the clear of TLS."""
        return {
            host.name
            for host in self.hosts.values()
            if any(data in bytes(stream) for stream in host.streams)
        }

    def forget(self) -> None:
        """Begin a new page."""
        self.names.clear()
        self.dialled.clear()
        for host in self.hosts.values():
            host.requests.clear()
            host.streams.clear()

    def _resolve(self, name: str) -> list[IPAddress]:
        self.names.append(name)
        if name in self._aliases:
            return self._aliases[name]
        if name not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [self.hosts[name].address]

    def _dial(self, address: IPAddress, port: int, timeout: float) -> socket.socket:
        host = next((host for host in self.hosts.values() if host.address == address), None)
        self.dialled.append(f"{host.name if host else address}:{port}")
        if host is None:
            raise ConnectionRefusedError(111, "Connection refused")
        ours, theirs = socket.socketpair()
        threading.Thread(target=host.serve, args=(theirs,), daemon=True).start()
        return ours


def hand_on(connection: socket.socket, port: int, received: bytearray | None = None) -> None:
    """Hand bytes on in both directions until the server or the client hangs up.

    What the client says is written down in `received`.
    """
    with socket.create_connection(("127.0.0.1", port), 5) as server:
        server.settimeout(None)

        def back() -> None:
            with contextlib.suppress(OSError):
                while data := server.recv(65536):
                    connection.sendall(data)
                connection.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=back, daemon=True)
        thread.start()
        with contextlib.suppress(OSError):
            while data := connection.recv(65536):
                if received is not None:
                    received.extend(data)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        thread.join(5)
