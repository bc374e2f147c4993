"""An issuer for tests: its keys, its statements and its signed cards, made on the spot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from cardsign.api import sign_card
from cardsign.card.profiles import canonicalize
from cardsign.card.values import jcs
from cardsign.jose.jwk import decode_base64url
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.statements.keyset import read_keyset, sign_keyset
from cardsign.statements.release import sign_release

DAY: Final = 24 * 60 * 60
Members = dict[str, Any]


class FakeIssuer:
    """An issuer with named keys: ``ann`` and ``bob`` sign its keysets, ``rel`` its releases.

    A key is made when it is first named, and is forgotten with the object. Nothing is checked:
    any change of any member can be given, so that dishonest statements can be made as well.
    Statements come back as the bytes of a file.

    A test of a program that verifies cards::

        from datetime import UTC, datetime

        import pytest
        from cardsign import NotTrusted, verify_card
        from cardsign.testing import FakeIssuer

        def test_a_changed_card_is_refused():
            issuer = FakeIssuer(datetime.now(UTC))
            card = issuer.signed_card(issuer.card_members(name="Tides"))
            assert verify_card(card, jwks=issuer.jwks())["name"] == "Tides"
            with pytest.raises(NotTrusted):
                verify_card(card.replace(b"Tides", b"Pirates"), jwks=issuer.jwks())

    Attributes:
        origin: Where its cards and statements are; the issuer's name is the host.
        name: Of the issuer.
        url: Where its public card is.
        t0: The time at which it speaks, in seconds since 1970.
        keys: Its keys by name.
    """

    def __init__(self, now: datetime, *, origin: str = "https://tides.example") -> None:
        self.origin = origin
        self.name = origin.partition("://")[2]
        self.url = f"{origin}/.well-known/agent-card.json"
        self.t0 = int(now.timestamp())
        self.keys: dict[str, PrivateKey] = {}

    def key(self, name: str) -> PrivateKey:
        """Return the key of that name: RS256 if the name begins with ``rsa``, otherwise ES256."""
        if name not in self.keys:
            self.keys[name] = PrivateKey.generate("RS256" if name.startswith("rsa") else "ES256")
        return self.keys[name]

    def thumbprint(self, name: str) -> str:
        """Return the RFC 7638 thumbprint of a key, which statements use as its kid."""
        return self.key(name).public.thumbprint

    def jwks(self, *names: str) -> JwkSet:
        """Return the public keys of these names; of ``card`` if none is given."""
        return JwkSet.of(self.key(name).public for name in names or ("card",))

    def quorum(self, threshold: int, *names: str) -> Members:
        """Return a member ``root`` or ``recovery``, each of whose keys somebody else holds."""
        keys = [{"public": self.key(name).public.jwk(), "holder": name} for name in names]
        return {"threshold": threshold, "keys": keys}

    def entry(self, name: str, *roles: str, **changes: Any) -> Members:
        """Return an entry of ``keys`` in a keyset; it is valid for 300 days, from yesterday."""
        public, nbf, exp = self.key(name).public.jwk(), self.t0 - DAY, self.t0 + 300 * DAY
        entry = {"public": public, "roles": list(roles), "holder": "harbour"}
        return {**entry, "nbf": nbf, "exp": exp, **changes}

    def keyset(self, *signers: str, **changes: Any) -> bytes:
        """Return keyset 1.1 with these changes, signed by ``ann`` and ``bob`` or those named.

        Recovery is by ``rita``.
        """
        releases = [self.entry(name, "release") for name in ("rel", "rel2")]
        members: Members = {
            "format": "cardsign-keyset/1",
            "issuer": self.name,
            "origins": [self.origin],
            "epoch": 1,
            "version": 1,
            "prev": None,
            "iat": self.t0,
            "exp": self.t0 + 90 * DAY,
            "root": self.quorum(2, "ann", "bob", "cat"),
            "recovery": self.quorum(1, "rita"),
            "keys": [self.entry("card", "card"), *releases],
            "revoked": [],
        }
        return sign_keyset(jcs(members | changes), map(self.key, signers or ("ann", "bob")))

    def keyset_after(self, previous: bytes, *signers: str, **changes: Any) -> bytes:
        """Return the next version, a day later, with these changes."""
        members = members_of(previous)
        members |= {"version": members["version"] + 1, "prev": digest_of(previous)}
        members |= {"iat": members["iat"] + DAY, "exp": members["exp"] + DAY}
        return self.keyset(*signers, **(members | changes))

    def release(self, keyset: bytes, /, *signers: str, **changes: Any) -> bytes:
        """Return release 5 under a keyset statement, with these changes, signed by ``rel``."""
        members: Members = {
            "format": "cardsign-release/1",
            "issuer": self.name,
            "keyset": read_keyset(keyset).id.to_json(),
            "seq": 5,
            "iat": self.t0,
            "exp": self.t0 + 7 * DAY,
            "cards": [{"url": self.url, "kind": "public", "payload_sha256": "0" * 64, "seq": 3}],
            "floor": {self.url: 3, "extended": 2},
            "revoked": [],
            "audit_head": None,
        }
        return sign_release(jcs(members | changes), map(self.key, signers or ("rel",)))

    def listing(self, *cards: Mapping[str, Any], seq: int) -> Members:
        """Return the members of a release that lists exactly these cards under its number."""
        entry = {"url": self.url, "kind": "public", "seq": seq}
        entries = [{**entry, "payload_sha256": card_digest(card)} for card in cards]
        return {"seq": seq, "cards": entries, "floor": {self.url: seq}}

    def card_members(self, **changes: Any) -> Members:
        """Return an unsigned public card of A2A 1.0 at the issuer's origin, with these changes."""
        interface = {"url": f"{self.origin}/a2a", "protocolBinding": "JSONRPC"}
        return {
            "name": "Tides",
            "description": "Says when the tide is high.",
            "version": "1.0.0",
            "supportedInterfaces": [{**interface, "protocolVersion": "1.0"}],
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "high", "name": "High", "description": "When?", "tags": ["sea"]}],
            **changes,
        }

    def signed_card(self, card: Mapping[str, Any], *signers: str) -> bytes:
        """Return the bytes of a card signed by ``sign_card``; ``card`` signs, unless named."""
        return sign_card(json.dumps(card).encode(), [*map(self.key, signers or ("card",))])


def payload_of(statement: bytes) -> bytes:
    """Return the signed octets of a statement."""
    return decode_base64url(json.loads(statement)["payload"])


def members_of(statement: bytes) -> Members:
    """Return what a statement says."""
    return dict(json.loads(payload_of(statement)))


def digest_of(statement: bytes) -> str:
    """Return SHA-256 of the signed octets of a statement, in hex."""
    return hashlib.sha256(payload_of(statement)).hexdigest()


def card_digest(card: Mapping[str, Any]) -> str:
    """Return SHA-256 of a card's served-as-is payload in hex, by which releases list it."""
    return canonicalize(card, "served-as-is").sha256
