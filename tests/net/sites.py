"""A peer's whole site on the small internet, and who looks at it.

He is `tides.example`, with the statements of `tests/cli/peer.py`. What he serves may be changed
while he is asked; what was asked is written down. `mirror.example` serves the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from internet import Network, Request
from peers import http

from cardsign.findings import Finding
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier
from tests.cli import peer
from tests.jose.statement_making import key
from tests.support import PORTABLE, dump, signed

HOST = "https://tides.example"
CANONICAL = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
JWKS = "/.well-known/jwks.json"
OTHER = {**PORTABLE, "version": "1.3.0"}
NOT_FOUND = http(b"{}", status="404 No")


def at(epoch: int, version: int) -> str:
    """Where a keyset statement lies."""
    return KEYSET_PATH.format(epoch=epoch, version=version)


@dataclass
class Site:
    """The peer's card, the first keyset statement and the release that lists the card.

    Attributes:
        documents: What lies at which path.
        headers: Fields of the answers of a path.
        asked: Each request: path, and whether it was conditional.
    """

    network: Network
    documents: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("tides.example", "mirror.example"):
            self.network.host(name, self.answer)
        first = peer.keyset()
        self.publish(first, release=peer.release(first, PORTABLE))
        self.serve(PORTABLE)

    def answer(self, request: Request) -> bytes:
        path, condition = request.target, request.headers.get("if-none-match")
        self.asked.append((path, condition is not None))
        if (body := self.documents.get(path)) is None:
            return NOT_FOUND
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        fields = {"ETag": tag, **self.headers.get(path, {})}
        if condition == tag:
            return http(b"", status="304 Same", content_type=None, **fields)
        return http(body, **fields)

    def serve(self, card: dict[str, Any], path: str = CANONICAL, signer: str = "card") -> None:
        """Put a signed card there."""
        self.documents[path] = dump(signed(card, key(signer)))

    def publish(self, *keysets: bytes, release: bytes | None = None) -> None:
        """Put statements where they belong."""
        for statement in keysets:
            keyset = read_keyset(statement)
            self.documents[at(keyset.epoch, keyset.version)] = statement
        if release is not None:
            self.documents[RELEASE_PATH] = release

    def paths(self) -> list[str]:
        """What was asked for since the last time this was asked."""
        paths = [path for path, _ in self.asked]
        self.asked.clear()
        return paths


@dataclass
class Clock:
    """The time that a verifier has; moved by hand."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Looker:
    """Somebody who has enrolled the peer by his first statement."""

    def __init__(self, site: Site, **changes: Any) -> None:
        self.clock = Clock()
        anchor = KeysetAnchor(read_keyset(site.documents[at(1, 1)]).id)
        self.verifier = Verifier(
            Policy(
                (TrustedIssuer("tides", anchor, **{"places": (parse_place(HOST),), **changes}),)
            ),
            lock=Memory(),
            net=site.network.settings(),
            clock=self.clock,
        )

    def examine(self, url: str = HOST, *, expect: Subject | None = None) -> Report:
        """The verdict on the card at a URL."""
        return self.verifier.look_up(url, expect).report

    @property
    def session(self) -> Session:
        """What is known of the peer."""
        return self.verifier.session(self.verifier.policy.issuers[0])


def codes(reasons: Iterable[Finding]) -> list[str]:
    """Their codes."""
    return [reason.code for reason in reasons]
