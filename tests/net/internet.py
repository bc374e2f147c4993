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
from typing import Any

from cardsign.net.connection import IPAddress
from cardsign.net.fetch import FetchSettings
from tests.net.authorities import Authority
from tests.net.peers import PATIENCE, http, read_head
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
        with contextlib.suppress(OSError), raw:
            connection = _Listening(self.tls.wrap_socket(raw, server_side=True), received)
            with connection.socket:
                if self.relay_port is not None:
                    hand_on(connection, self.relay_port)
                    return
                while self._answer(connection):
                    pass
                # A server says that it closes. On a socket pair OpenSSL 3.6 wants to hear it.
                connection.socket.settimeout(0)
                connection.socket.unwrap()

    def _answer(self, connection: _Listening) -> bool:
        """Answer one request; False where the connection ends."""
        head = read_head(connection)  # type: ignore[arg-type]  # all it needs is recv
        request = Request(head, _body(connection, header_fields(head)))
        self.requests.append(request)
        answer = self.answers
        if isinstance(answer, Mapping):
            answer = answer.get(request.target, http(b"", status="404 Not Found"))
        if isinstance(answer, Takeover):
            answer.speak(connection.socket)
            return False
        data = answer if isinstance(answer, bytes) else answer(request)
        connection.socket.sendall(data)
        closing = b"connection: close" in data.partition(b"\r\n\r\n")[0].lower()
        return not closing and request.headers.get("connection", "") != "close"


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


class _Listening:
    """A socket that writes down what it receives."""

    def __init__(self, connection: ssl.SSLSocket, received: bytearray) -> None:
        self.socket = connection
        self._received = received

    def recv(self, size: int) -> bytes:
        data = self.socket.recv(size)
        self._received += data
        return data


def _body(connection: _Listening, fields: dict[str, str]) -> bytes:
    body = b""
    if fields.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += _some(connection, 4096)
        return body
    length = int(fields.get("content-length", "0"))
    while len(body) < length:
        body += _some(connection, length - len(body))
    return body


def _some(connection: _Listening, size: int) -> bytes:
    if not (data := connection.recv(size)):
        raise ConnectionError
    return data


def hand_on(connection: Any, port: int) -> None:
    """Hand bytes on in both directions until the server or the client hangs up."""
    with socket.create_connection(("127.0.0.1", port), 5) as server:
        server.settimeout(None)

        def back() -> None:
            with contextlib.suppress(OSError):
                while data := server.recv(65536):
                    connection.socket.sendall(data)
                connection.socket.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=back, daemon=True)
        thread.start()
        with contextlib.suppress(OSError):
            while data := connection.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        thread.join(5)
