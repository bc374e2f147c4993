"""An issuer for tests: its keys, its statements and its signed cards, made on the spot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from cardsign.api import sign_card
from cardsign.card.profiles import canonicalize
from cardsign.card.values import jcs
from cardsign.jose import base64url
from cardsign.jose.algorithms import StatementAlg
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from cardsign.statements.keyset import KeysetStatement, read_keyset
from cardsign.statements.signing import sign_statement

DAY: Final = 24 * 60 * 60
Members = dict[str, Any]


class FakeIssuer:
    """An issuer whose keys have names: two roots of three sign its keysets, ``rel`` its releases.

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
        url: Where its public card is.
        t0: The time at which it speaks, in seconds since 1970.
        roots: Names of its root keys.
        threshold: How many of them sign.
    """

    def __init__(
        self,
        now: datetime,
        *,
        origin: str = "https://tides.example",
        roots: Iterable[str] = ("ann", "bob", "cat"),
        threshold: int = 2,
        make_key: Callable[[str], PrivateKey] | None = None,
    ) -> None:
        self.origin = origin
        self.name = origin.partition("://")[2]
        self.url = f"{origin}/.well-known/agent-card.json"
        self.t0 = int(now.timestamp())
        self.roots = tuple(roots)
        self.threshold = threshold
        self._make_key = make_key
        self._keys: dict[str, PrivateKey] = {}

    # -------------------------------------------------------------- keys

    def key(self, name: str) -> PrivateKey:
        """Return the key of that name: RS256 if the name begins with ``rsa``, otherwise ES256."""
        if name not in self._keys:
            alg: StatementAlg = "RS256" if name.startswith("rsa") else "ES256"
            make = self._make_key
            self._keys[name] = make(name) if make else PrivateKey.generate(alg)
        return self._keys[name]

    def thumbprint(self, name: str) -> str:
        """Return the RFC 7638 thumbprint of a key, which statements use as its kid."""
        return self.key(name).public.thumbprint

    def jwks(self, *names: str) -> JwkSet:
        """Return the public keys of these names; of ``card`` if none is given."""
        return JwkSet.of(self.key(name).public for name in names or ("card",))

    def quorum(self, threshold: int, *names: str) -> Members:
        """Return a member ``root`` or ``recovery``. ``name:holder`` says who holds a key."""
        pairs = [name.partition(":") for name in names]
        keys = [
            {"public": self.key(name).public.jwk(), "holder": holder or name}
            for name, _, holder in pairs
        ]
        return {"threshold": threshold, "keys": keys}

    def entry(self, name: str, *roles: str, **changes: Any) -> Members:
        """Return an entry of ``keys`` in a keyset; it is valid for 300 days, from yesterday."""
        return {
            "public": self.key(name).public.jwk(),
            "roles": list(roles),
            "holder": "harbour",
            "nbf": self.t0 - DAY,
            "exp": self.t0 + 300 * DAY,
            **changes,
        }

    # -------------------------------------------------------------- keysets

    def keyset_members(self, **changes: Any) -> Members:
        """Return what keyset 1.1 says, with these changes; recovery is by ``rita``."""
        return {
            "format": "cardsign-keyset/1",
            "issuer": self.name,
            "origins": [self.origin],
            "epoch": 1,
            "version": 1,
            "prev": None,
            "iat": self.t0,
            "exp": self.t0 + 90 * DAY,
            "root": self.quorum(self.threshold, *self.roots),
            "recovery": self.quorum(1, "rita"),
            "keys": [
                self.entry("card", "card"),
                self.entry("rel", "release"),
                self.entry("rel2", "release"),
            ],
            "revoked": [],
            **changes,
        }

    def keyset(self, *signers: str, **changes: Any) -> bytes:
        """Return a keyset statement with these changes, signed by enough roots or those named."""
        payload = jcs(self.keyset_members(**changes))
        names = signers or self.roots[: self.threshold]
        return sign_statement(payload, map(self.key, names), TYP_KEYSET)

    def keyset_after(self, previous: bytes, *signers: str, **changes: Any) -> bytes:
        """Return the next version, a day later, with these changes."""
        members = members_of(previous)
        honest = {
            **members,
            "version": members["version"] + 1,
            "prev": digest_of(previous),
            "iat": members["iat"] + DAY,
            "exp": members["exp"] + DAY,
        }
        return self.keyset(*signers, **{**honest, **changes})

    def keyset_recovered(self, previous: bytes, *signers: str, **changes: Any) -> bytes:
        """Version 1 of the next epoch, whose root is ``dan`` alone; he and ``rita`` sign."""
        members = members_of(previous)
        honest = {
            **members,
            "epoch": members["epoch"] + 1,
            "version": 1,
            "prev": None,
            "root": self.quorum(1, "dan"),
            "revoked": [],
        }
        return self.keyset(*(signers or ("dan", "rita")), **{**honest, **changes})

    # -------------------------------------------------------------- releases and cards

    def release_members(self, keyset: KeysetStatement | bytes, /, **changes: Any) -> Members:
        """Return what release 5 under a keyset says, with these changes."""
        statement = read_keyset(keyset) if isinstance(keyset, bytes) else keyset
        return {
            "format": "cardsign-release/1",
            "issuer": self.name,
            "keyset": statement.id.to_json(),
            "seq": 5,
            "iat": self.t0,
            "exp": self.t0 + 7 * DAY,
            "cards": [{"url": self.url, "kind": "public", "payload_sha256": "0" * 64, "seq": 3}],
            "floor": {self.url: 3, "extended": 2},
            "revoked": [],
            "audit_head": None,
            **changes,
        }

    def release(self, keyset: KeysetStatement | bytes, /, *signers: str, **changes: Any) -> bytes:
        """Return a release under a keyset statement, with these changes, signed by ``rel``."""
        payload = jcs(self.release_members(keyset, **changes))
        return sign_statement(payload, map(self.key, signers or ("rel",)), TYP_RELEASE)

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

    def listing(self, *cards: Mapping[str, Any], seq: int) -> Members:
        """Return the members of a release that lists exactly these cards under its number."""
        return {
            "seq": seq,
            "cards": [
                {"url": self.url, "kind": "public", "payload_sha256": card_digest(card), "seq": seq}
                for card in cards
            ],
            "floor": {self.url: seq},
        }

    def signed_card(self, card: Mapping[str, Any], *signers: str) -> bytes:
        """Return the bytes of a card signed by ``sign_card``; ``card`` signs, unless named."""
        return sign_card(
            json.dumps(card).encode(), [self.key(signer) for signer in signers or ("card",)]
        )


def payload_of(statement: bytes) -> bytes:
    """Return the signed octets of a statement."""
    return base64url.decode(json.loads(statement)["payload"])


def members_of(statement: bytes) -> Members:
    """Return what a statement says."""
    members: Members = json.loads(payload_of(statement))
    return members


def digest_of(statement: bytes) -> str:
    """Return SHA-256 of the signed octets of a statement, in hex."""
    return hashlib.sha256(payload_of(statement)).hexdigest()


def card_digest(card: Mapping[str, Any]) -> str:
    """Return SHA-256 of a card's served-as-is payload in hex, by which releases list it."""
    return canonicalize(card, "served-as-is").sha256
