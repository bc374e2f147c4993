"""Peers on this machine, honest and otherwise, and addresses that nobody connects to."""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from cardsign.net.connection import IPAddress
from cardsign.net.fetch import FetchSettings

#: Seconds, for what takes none on an idle machine: nothing fails since a machine is busy.
PATIENCE = 120.0
#: For peers on this machine; nothing is slower than this unless a test means it.
LOCAL = FetchSettings(total_timeout=PATIENCE, insecure_loopback_http=True)

CARD = b'{"name": "Tide tables"}'

Answer = bytes | Callable[[socket.socket], None]


def http(body: bytes = CARD, *, status: str = "200 OK", **headers: str | None) -> bytes:
    """An HTTP/1.1 answer; a header given as None is left out, `a_b` stands for `a-b`."""
    fields = {"content_type": "application/json", "content_length": str(len(body)), **headers}
    lines = [f"{n.replace('_', '-')}: {value}" for n, value in fields.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def chunks(*parts: bytes) -> bytes:
    """Parts of a body in the chunked transfer coding."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


@dataclass
class Peer:
    """A server on this machine, and what was asked of it."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)

    def url(
        self, path: str = "/card.json", *, scheme: str = "http", host: str = "127.0.0.1"
    ) -> str:
        return f"{scheme}://{host}:{self.port}{path}"


class Server(socketserver.ThreadingTCPServer):
    """A server on this machine whose threads nobody waits for."""

    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def speaking(speak: Callable[[socket.socket], None]) -> Iterator[int]:
    """Let `speak` have each connection to the port that comes back, with nothing read before."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            # Whoever is refused hangs up; what that does to this end is of no interest.
            with contextlib.suppress(OSError):
                speak(self.request)

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def serving(
    answers: Answer | dict[str, Answer], tls: ssl.SSLContext | None = None
) -> Iterator[Peer]:
    """Answer each connection once, by path where several answers are given."""
    peer = Peer(0)
    if tls is not None:
        tls.sni_callback = lambda _, name, __: peer.server_names.append(name)

    def speak(connection: socket.socket) -> None:
        with contextlib.ExitStack() as held:
            if tls is not None:
                connection = held.enter_context(tls.wrap_socket(connection, server_side=True))
            head = read_head(connection)
            peer.requests.append(head)
            answer = answers
            if isinstance(answer, dict):
                answer = answer.get(head.split()[1].decode(), http(status="404 No"))
            if callable(answer):
                answer(connection)
            else:
                connection.sendall(answer)

    with speaking(speak) as peer.port:
        yield peer


def read_head(connection: socket.socket) -> bytes:
    """Read a request up to its empty line."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (received := connection.recv(4096)):
            raise ConnectionError
        head += received
    return head


def headers(request: bytes) -> dict[str, str]:
    """The header fields of a request, names in lower case."""
    found = re.findall(r"\r\n([^:]+): ([^\r]*)", request.decode())
    return {name.lower(): value for name, value in found}


class Names:
    """A resolver with fixed answers, in turn; the last one is repeated."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def __call__(self, host: str) -> list[IPAddress]:
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(host)
        return [ip_address(text) for text in answer]


class NoDial:
    """Notes where a connection would have gone, and makes none."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def __call__(self, address: IPAddress, port: int, timeout: float) -> socket.socket:
        self.asked.append((str(address), port))
        raise ConnectionRefusedError(111, "Connection refused")


class Scripted:
    """Connections whose other end has said all it will ever say."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._ends: list[socket.socket] = []

    def __call__(self, address: IPAddress, port: int, timeout: float) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.sendall(self._answer)
        theirs.shutdown(socket.SHUT_WR)
        self._ends.append(theirs)
        return ours

    def requests(self) -> bytes:
        """Hang up, and return what was asked."""
        asked = b""
        while self._ends:
            with self._ends.pop() as end:
                asked += end.recv(65536)
        return asked
