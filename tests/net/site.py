"""The issuer Tide tables on the small internet: a card, its statements, and who asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, TrustedIssuer
from cardsign.urls import CARD_PATH, KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.net.internet import Clock, Host, Network, Request
from tests.net.peers import http
from tests.publish.publications import sign
from tests.statements import current
from tests.statements.making import key

HOST = "https://tides.example"
CARD_URL = HOST + CARD_PATH
Card = Mapping[str, Any]


def keyset_path(epoch: int, version: int) -> str:
    """Where a keyset statement lies."""
    return KEYSET_PATH.format(epoch=epoch, version=version)


@dataclass
class Site:
    """The peer's host, with a card, the first keyset statement and a release that lists the card.

    Attributes:
        network: The internet that the host is on.
        documents: What lies at which path.
        headers: Fields of the answers of a path.
        answers: By target, what answers instead of a document.
        otherwise: What answers where there is neither.
    """

    network: Network
    card: Card
    origins: list[str] = field(default_factory=lambda: [HOST])
    documents: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    answers: dict[str, Callable[[Request], bytes] | bytes] = field(default_factory=dict)
    otherwise: Callable[[Request], bytes] = lambda request: http(b"{}", status="404 No")

    def __post_init__(self) -> None:
        self.host: Host = self.network.host("tides.example", self.answer)
        self.statement = self.documents[keyset_path(1, 1)] = current.keyset(origins=self.origins)
        self.release(self.card)
        self.serve(self.card)

    def answer(self, request: Request) -> bytes:
        """What the host answers; a document has a tag."""
        path = request.target
        if (answer := self.answers.get(path)) is not None:
            return answer if isinstance(answer, bytes) else answer(request)
        if (body := self.documents.get(path)) is None:
            return self.otherwise(request)
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        fields = {"ETag": tag, **self.headers.get(path, {})}
        if request.headers.get("if-none-match") == tag:
            return http(b"", status="304 Same", content_type=None, **fields)
        return http(body, **fields)

    def serve(self, card: Card, path: str = CARD_PATH, signer: str = "card") -> None:
        """Put a signed card there."""
        self.documents[path] = sign(card, key(signer))

    def release(self, *cards: Card, under: bytes = b"", **changes: Any) -> bytes:
        """Put a release of these cards there, under the first keyset if no other is given."""
        statement = current.release(under or self.statement, *map(dict, cards), **changes)
        self.documents[RELEASE_PATH] = statement
        return statement

    def paths(self) -> list[str]:
        """What was asked for since the last time this was asked."""
        paths = [request.target for request in self.host.requests]
        self.host.requests.clear()
        return paths

    def verifier(self, *places: str) -> Verifier:
        """Somebody who trusts the peer at these places, by the first statement."""
        anchor = KeysetAnchor(read_keyset(self.statement).id)
        issuer = TrustedIssuer("tides", anchor, tuple(map(parse_place, places or (HOST,))))
        clock = Clock(datetime.now(UTC))
        net = self.network.settings()
        return Verifier(Policy((issuer,)), lock=Memory(), net=net, clock=clock)
