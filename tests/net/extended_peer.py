"""A peer with an extended card on the small internet, and who has access to it.

He is `tides.example`, with the statements of `tests/cli/peer.py`; what a request gets that nobody
has overridden comes from cardsign's own server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from internet import Answer, Host, Network, Request, Takeover
from peers import http
from werkzeug.test import Client

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.net.discovery import Discovery, look_up_extended
from cardsign.net.endpoints import Credential
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.app import create_app
from cardsign.server.providers import create_token
from cardsign.server.settings import ProviderSettings, ServerSettings
from cardsign.server.site import Publications
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import CARD_PATH, KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.cli import peer
from tests.jose.statement_making import DAY, URL, key
from tests.publications import PUBLIC, sign, with_skill

HOST = "https://tides.example"
AUDIENCE = "9f2c61d07be84a15"
OTHER_AUDIENCE = "0123456789abcdef"
SEQ = 42
FLOOR = 40


def now() -> datetime:
    return datetime.now(UTC)


def extended(
    card: Mapping[str, Any] = PUBLIC,
    *,
    audience: str = AUDIENCE,
    seq: int = SEQ,
    exp: int = peer.T0 + 5 * DAY,
) -> dict[str, Any]:
    """An extended card, unsigned."""
    return with_marker(with_skill(card, "pilots"), ExtendedMarker(audience, seq, exp))


def enveloped(card: bytes, request: Request) -> bytes:
    """A card as the answer to a JSON-RPC call."""
    call_id = json.loads(request.body)["id"]
    return http(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call_id).encode(), card))


def answering(card: bytes) -> Callable[[Request], bytes]:
    """Gives this card to whoever asks, over either binding."""
    return lambda request: enveloped(card, request) if request.method == "POST" else http(card)


@dataclass
class Tides:
    """The peer.

    Attributes:
        network: The internet that he is on.
        host: His host.
        token: What opens his extended card.
        statement: His keyset statement.
        overrides: Answers that stand before his server's, by target.
    """

    network: Network
    host: Host
    token: str
    statement: bytes
    overrides: dict[str, Answer] = field(default_factory=dict)

    def serve(self, untrusted_card: bytes) -> None:
        """Put another document where the public card is."""
        self.overrides[CARD_PATH] = http(untrusted_card)

    def secret_told(self) -> set[str]:
        """Who has been sent the token."""
        return self.network.told(self.token.encode())


def tides(
    network: Network,
    folder: Path,
    card: Mapping[str, Any] = PUBLIC,
    served: bytes | None = None,
    origins: tuple[str, ...] = (HOST,),
) -> Tides:
    """Put the peer on the network, with a public card and the extended card of the audience."""
    signer: PrivateKey = key("card")
    publish_generation(
        Documents(
            sign(card, signer),
            JwkSet.of([signer.public]),
            extended={AUDIENCE: served or sign(extended(card), signer)},
        ),
        folder,
        now=now(),
    )
    token, line = create_token(AUDIENCE)
    published = now().timestamp()
    tokens = folder.parent / f"{folder.name}-tokens"
    tokens.write_text(line)
    keys = ProviderSettings(type="api_key", token_file=tokens, key="X-Api-Key")
    settings = ServerSettings(token_file=tokens, providers=(keys,))
    app = create_app(Publications(folder, settings, now=lambda: published))
    statement = peer.keyset(origins=list(origins))
    floor = {URL: SEQ, "extended": FLOOR}
    release = peer.release(statement, dict(card), seq=SEQ, floor=floor)
    documents = {
        KEYSET_PATH.format(epoch=1, version=1): http(statement),
        RELEASE_PATH: http(release),
    }
    overrides: dict[str, Answer] = {}

    def answer(request: Request) -> bytes:
        found = overrides.get(request.target, documents.get(request.target))
        if isinstance(found, bytes):
            return found
        if found is not None and not isinstance(found, Takeover):
            return found(request)
        answered = Client(app).open(
            request.target, method=request.method, headers=request.headers, data=request.body
        )
        fields = [f"{name}: {value}" for name, value in answered.headers]
        head = "\r\n".join([f"HTTP/1.1 {answered.status}", *fields, "", ""])
        return head.encode() + answered.data

    return Tides(network, network.host("tides.example", answer), token, statement, overrides)


@dataclass
class Partner:
    """Somebody who enrolled the peer, and was given a token."""

    peer: Tides
    verifier: Verifier
    credential: Credential

    def look_up(self, url: str = HOST) -> Discovery:
        return self.verifier.look_up(url)

    def ask(self, audience: str = AUDIENCE) -> Discovery:
        """Meet the peer, and ask for the extended card."""
        return look_up_extended(
            self.verifier, self.look_up(), self.credential, audience=audience, subject=Subject()
        )


def partner(one: Tides, places: tuple[str, ...] = (HOST,)) -> Partner:
    """Who trusts the peer by his first statement, and was given a token."""
    pinned = read_keyset(one.statement)
    anchor = KeysetAnchor(pinned.id)
    issuer = TrustedIssuer("tides", anchor, places=tuple(parse_place(each) for each in places))
    net = one.network.settings()
    verifier = Verifier(Policy((issuer,)), lock=Memory(), net=net, clock=now)
    credential = Credential.parse("env:TOKEN", environment={"TOKEN": one.token})
    return Partner(one, verifier, credential)
