"""A peer's whole site on this machine, over TLS under its own name, and who looks at it.

He is `tides.example`, with the statements of `tests/cli/peer.py`. What he serves may be changed
while he is asked; what was asked is written down.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from authorities import Authority
from peers import PATIENCE, http, read_head, speaking

from cardsign.findings import Finding
from cardsign.net.connection import IPAddress
from cardsign.net.fetch import FetchSettings
from cardsign.net.fetcher import DocumentFetcher
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import ReleaseStatement
from cardsign.trust.lock import Floor, Memory
from cardsign.trust.policy import Anchor, KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.trust.supplied import NO_STATEMENTS, StatementCache, SuppliedStatements
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier as Judge
from tests.cli import peer
from tests.jose.statement_making import key
from tests.support import PORTABLE, dump, signed

HOST = "https://tides.example"
CANONICAL = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
JWKS = "/.well-known/jwks.json"
OTHER = {**PORTABLE, "version": "1.3.0"}


def path_of(statement: bytes) -> str:
    """Where a keyset statement lies."""
    one = read_keyset(statement)
    return KEYSET_PATH.format(epoch=one.epoch, version=one.version)


@dataclass
class Site:
    """A server under a name of its own.

    Attributes:
        documents: What lies at which path.
        headers: Fields of the answers of a path.
        broken: A path's answer instead, such as ``503 No``; under ``*`` everybody's.
        asked: Each request: path, and whether it was conditional.
        names: Every host that was resolved for it.
    """

    authority: Authority
    port: int = 0
    documents: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def speak(self, connection: socket.socket) -> None:
        head = read_head(connection)
        path = head.split()[1].decode()
        found = re.search(rb"\r\nIf-None-Match: ([^\r]*)", head, re.IGNORECASE)
        self.asked.append((path, found is not None))
        if (status := self.broken.get(path, self.broken.get("*"))) is not None:
            connection.sendall(http(b"{}", status=status))
        elif (body := self.documents.get(path)) is None:
            connection.sendall(http(b"{}", status="404 No"))
        else:
            tag = f'"{hashlib.sha256(body).hexdigest()}"'
            fields = {"ETag": tag, **self.headers.get(path, {})}
            if found is not None and found[1].decode() == tag:
                connection.sendall(http(b"", status="304 Same", content_type=None, **fields))
            else:
                connection.sendall(http(body, **fields))

    def settings(self) -> FetchSettings:
        """How it is reached, and nobody else."""

        def resolve(host: str) -> list[IPAddress]:
            self.names.append(host)
            return [ip_address("93.184.215.14")]

        def dial(address: IPAddress, port: int, timeout: float) -> socket.socket:
            return socket.create_connection(("127.0.0.1", self.port), timeout)

        return FetchSettings(
            connect_timeout=PATIENCE,
            total_timeout=PATIENCE,
            resolver=resolve,
            ssl_context=self.authority.client(),
            dial=dial,
        )

    def publish(self, *keysets: bytes, release: bytes | None = None) -> None:
        """Put statements where they belong."""
        for statement in keysets:
            self.documents[path_of(statement)] = statement
        if release is not None:
            self.documents[RELEASE_PATH] = release

    def paths(self) -> list[str]:
        """What was asked for since the last time this was asked."""
        found = [path for path, _ in self.asked]
        self.asked.clear()
        return found


@contextlib.contextmanager
def site(authority: Authority) -> Iterator[Site]:
    """The peer: his card, the first keyset statement and the release that lists the card."""
    served = Site(authority)
    context = authority.server("tides.example", "mirror.example")

    def speak(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            served.speak(secured)

    first = peer.keyset()
    served.publish(first, release=peer.release(first, PORTABLE))
    served.documents[CANONICAL] = dump(signed(PORTABLE, key("card")))
    with speaking(speak) as served.port:
        yield served


@contextlib.contextmanager
def plain_site(authority: Authority) -> Iterator[Site]:
    """The same over plain HTTP, for other processes of this machine; it lists its own URL."""
    served = Site(authority)
    with speaking(served.speak) as served.port:
        served.documents[CANONICAL] = dump(signed(PORTABLE, key("card")))
        yield served


@dataclass
class Clock:
    """The time that a verifier has; moved by hand."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def issuer(anchor: Anchor, **changes: Any) -> TrustedIssuer:
    """The peer as the verifier's policy has him."""
    return TrustedIssuer("tides", anchor, **{"places": (parse_place(HOST),), **changes})


def pinned(statement: bytes) -> KeysetAnchor:
    """The anchor that is this statement."""
    one = read_keyset(statement)
    return KeysetAnchor(one.id)


class Kept(StatementCache):
    """A cache of signed statements that outlives a process."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Any, SuppliedStatements] = {}

    def get(self, pin: KeysetId | RootAnchor) -> SuppliedStatements:
        """What is kept for an anchor."""
        return self.kept.get(pin, NO_STATEMENTS)

    def keep(
        self,
        pin: KeysetId | RootAnchor,
        passed: Sequence[KeysetStatement],
        release: ReleaseStatement | None,
    ) -> SuppliedStatements:
        """Keep it."""
        groups = (passed, [release] if release is not None else [])
        kept = [tuple(one.envelope.to_bytes() for one in group) for group in groups]
        self.kept[pin] = SuppliedStatements(*kept)
        return NO_STATEMENTS


@dataclass
class Verifier:
    """A verifier, with all that it was given."""

    judge: Judge
    cache: StatementCache
    issuer: TrustedIssuer
    clock: Clock

    def examine(self, url: str, *, expect: Subject | None = None) -> Report:
        """The verdict on the card at a URL."""
        return self.judge.look_up(url, expect).report

    def known(self) -> Session:
        """What it knows of the peer."""
        return self.judge.session(self.judge.policy.issuers[0])


def verifier(
    served: Site,
    anchor: Anchor | None = None,
    *,
    cache: StatementCache | None = None,
    clock: Clock | None = None,
    floor: Floor | None = None,
    **changes: Any,
) -> Verifier:
    """Somebody who has enrolled the peer by his first statement, unless an anchor is given."""
    anchor = anchor or pinned(served.documents[KEYSET_PATH.format(epoch=1, version=1)])
    clock, cache = clock or Clock(), Kept() if cache is None else cache
    enrolled = issuer(anchor, **changes)
    fetcher = DocumentFetcher(served.settings(), now=clock)
    lock = Memory({"tides": floor} if floor is not None else {})
    judge = Judge(Policy((enrolled,)), lock=lock, cache=cache, net=fetcher, clock=clock)
    return Verifier(judge, cache, enrolled, clock)


def codes(reasons: Iterable[Finding]) -> list[str]:
    """Their codes."""
    return [reason.code for reason in reasons]
