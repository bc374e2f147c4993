"""The world of a transcript: a resolver, and servers that speak real HTTP over real TLS.

tests/attacks/README.md is the format. Nothing here knows cardsign, but for the types of what it
hands over; no packet leaves the process, since every connection is one end of a socket pair.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.attack_runner.corpus import Case
from tests.attack_runner.outcome import Traffic
from tests.net.authorities import Authority

#: A verifier who waits for what never comes waits in real time; he is given so much less of it.
HASTE: Final = 5
#: Seconds for a server's end to notice that the verifier has hung up.
PATIENCE: Final = 5.0

Address = IPv4Address | IPv6Address


class Certificates:
    """Servers' certificates by what a transcript says of them, made when first needed."""

    def __init__(self, folder: Path) -> None:
        self._ours, self._strangers = Authority(folder), Authority(folder)
        self._made: dict[str, ssl.SSLContext] = {}
        self._alone = threading.Lock()

    @cached_property
    def client(self) -> ssl.SSLContext:
        """What the verifier trusts."""
        return self._ours.client()

    def server(self, names: list[str], flaw: str = "") -> ssl.SSLContext:
        """A server's context."""
        days = {"expired": (-3, -1), "not-yet": (2, 4)}.get(flaw, (-1, 1))
        authority = self._strangers if flaw == "stranger" else self._ours
        name = f"{flaw} {names}"
        with self._alone:
            if name not in self._made:
                self_signed = flaw == "self-signed"
                self._made[name] = authority.server(*names, days=days, self_signed=self_signed)
            return self._made[name]


class World:
    """What surrounds a verifier in one case, step by step.

    Args:
        case: The transcript.
        certificates: For its servers.
        wait: How the servers let seconds pass.
    """

    def __init__(
        self, case: Case, certificates: Certificates, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._case = case
        self._certificates = certificates
        self._wait = wait
        self._names: dict[str, Iterator[Any]] = {}
        self._servers: dict[tuple[Address, int], tuple[str, Any]] = {}
        self._answers: dict[str, Iterator[Any]] = {}
        self._threads: list[threading.Thread] = []
        self._alone = threading.Lock()
        self._forget()
        self.haste = HASTE if has_silence(case) else 1

    def _forget(self) -> None:
        self._lookups: list[str] = []
        self._reached: list[str] = []
        self._requests: list[tuple[str, str]] = []
        self._taken = 0

    def change(self, step: Mapping[str, Any]) -> None:
        """What a step says of the world takes the place of what was said of the same before."""
        self._names |= {name: _turns(said) for name, said in step.get("names", {}).items()}
        self._servers |= {_place(at): (at, said) for at, said in step.get("servers", {}).items()}
        self._answers |= {url: _turns(said) for url, said in step.get("answers", {}).items()}

    def traffic(self) -> Traffic:
        """What the verifier has done since the last call; waits until it has hung up."""
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the verifier keeps a connection"
        self._threads.clear()
        done = Traffic(
            tuple(self._lookups), tuple(self._reached), tuple(self._requests), self._taken
        )
        self._forget()
        return done

    # -------------------------------------------------------------- the verifier's side

    def resolve(self, host: str) -> list[Address]:
        """The resolver."""
        with self._alone:
            self._lookups.append(host)
            turn = next(self._names[host]) if host in self._names else None
        if turn == "silent":
            time.sleep(60 * PATIENCE)  # in a daemon thread, which nobody waits for
        if not isinstance(turn, list):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [ip_address(text) for text in turn]

    def dial(self, address: Address, port: int, timeout: float) -> socket.socket:
        """Connect to an address."""
        shown = f"[{address}]" if address.version == 6 else str(address)
        at, server = self._servers.get((address, port), (f"{shown}:{port}", None))
        with self._alone:
            self._reached.append(at)
        if server is None:
            raise ConnectionRefusedError(111, "Connection refused")
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=self._serve, args=(theirs, server), daemon=True)
        self._threads.append(thread)
        thread.start()
        return ours

    # -------------------------------------------------------------- the servers' side

    def _serve(self, end: socket.socket, server: Any) -> None:
        # Whoever is refused hangs up; what that does to this end is of no interest.
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            held.enter_context(end)
            if server == "silent":
                _until_hung_up(end)
                return
            certificate = server.get("certificate")
            if certificate is not None:
                context = self._certificates.server(**certificate)
                end = held.enter_context(context.wrap_socket(end, server_side=True))
            self.answer(end, "http" if certificate is None else "https")

    def answer(self, end: socket.socket, scheme: str, host: str | None = None) -> None:
        """Read one request and answer it, as if that host had been asked where one is named."""
        head = _read_head(end)
        _, target, _ = head.partition("\r\n")[0].split(" ", 2)
        url = f"{scheme}://{host or _header(head, 'host')}{target}"
        with self._alone:
            self._requests.append((url, head))
            said = next(self._at(url), None)
        sent = 0
        try:
            for piece in self._pieces({"status": 404} if said is None else said, head):
                end.sendall(piece)
                sent += len(piece)
        finally:
            with self._alone:
                self._taken = max(self._taken, sent)
        if said and said.get("then") == "silence":
            _until_hung_up(end)

    def _at(self, url: str) -> Iterator[Any]:
        """What is said at a URL itself, or else at all that begin so."""
        if url in self._answers:
            return self._answers[url]
        wide = (one for one in self._answers if one.endswith("*") and url.startswith(one[:-1]))
        return self._answers.get(max(wide, key=len, default=""), iter(()))

    def _pieces(self, said: Mapping[str, Any], head: str) -> Iterator[bytes]:
        if "raw" in said:
            yield self._case.input(said["raw"])
        else:
            yield from self._http(said, head)
        then = said.get("then")
        while isinstance(then, dict):
            yield self._case.input(then["send"])
            self._wait(then["every"] / self.haste)

    def _http(self, said: Mapping[str, Any], head: str) -> Iterator[bytes]:
        etag = said.get("etag")
        known = etag is not None and etag in (_header(head, "if-none-match") or "")
        status = 304 if known else said.get("status", 200)
        body = b"" if known else self._body(said)
        framing = said.get("framing", "length")
        headers = [] if etag is None else [["ETag", etag]]
        headers += said.get("headers", [])
        named = {name.lower() for name, _ in headers}
        if "content-type" not in named and not known:
            headers.append(["Content-Type", "application/json"])
        if framing == "length" and status not in (204, 304) and "content-length" not in named:
            headers.append(["Content-Length", str(len(body))])
        if framing == "chunked":
            headers.append(["Transfer-Encoding", "chunked"])
        headers.append(["Connection", "close"])
        lines = [f"HTTP/{said.get('version', '1.1')} {status} Said"]
        lines += [f"{name}: {value}" for name, value in headers if value is not None]
        yield "\r\n".join([*lines, "", ""]).encode("latin-1")
        size = -(-len(body) // said.get("parts", 1)) or 1
        for start in range(0, len(body), size):
            self._wait(said.get("pause", 0) / self.haste)
            part = body[start : start + size]
            yield b"%x\r\n%s\r\n" % (len(part), part) if framing == "chunked" else part
        if framing == "chunked":
            yield b"0\r\n\r\n"

    def _body(self, said: Mapping[str, Any]) -> bytes:
        if "storm" in said:
            return self._storm(**said["storm"])
        return self._case.input(said["body"]) if "body" in said else b""

    def _storm(self, card: str, seed: str, signatures: int, nth: int) -> bytes:
        """The card under names of keys that nobody has."""
        document = json.loads(self._case.input(card))
        [entry] = document["signatures"]
        document["signatures"] = [
            {**entry, "protected": _protected(seed, nth * signatures + one)}
            for one in range(signatures)
        ]
        return json.dumps(document).encode()


def has_silence(case: Case) -> bool:
    """Whether something in a case never comes."""
    return bool(re.search(r'"(silent|silence)"', json.dumps(case.members["steps"])))


def _place(at: str) -> tuple[Address, int]:
    address, _, port = at.rpartition(":")
    return ip_address(address.strip("[]")), int(port)


def _turns(said: Any) -> Iterator[Any]:
    """One after the other, the last for ever."""
    if isinstance(said, dict) and "storm" in said:
        return ({**said, "storm": {**said["storm"], "nth": nth}} for nth in count())
    turns = said["turns"] if isinstance(said, dict) and "turns" in said else [said]
    return (turns[min(nth, len(turns) - 1)] for nth in count())


def _protected(seed: str, number: int) -> str:
    kid = hashlib.sha256(f"{seed}:{number}".encode()).hexdigest()
    text = f'{{"alg":"ES256","kid":"{kid}","typ":"JOSE"}}'
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_head(end: socket.socket) -> str:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (received := end.recv(4096)):
            raise ConnectionError
        head += received
        if not head[:1].isalpha():  # TLS, where none is spoken
            end.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            raise ConnectionError
    return head.decode("latin-1")


def _header(head: str, name: str) -> str | None:
    found = re.search(rf"\r\n{name}: *([^\r]*)", head, re.I)
    return found[1] if found else None


def _until_hung_up(end: socket.socket) -> None:
    while end.recv(4096):
        pass
