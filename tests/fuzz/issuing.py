"""The issuer whose statements and cards are fuzzed, with keys that are the same in every run.

An input that was found has to mean the same tomorrow, so each key is computed from its name.
Nothing but these targets trusts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.jose.keys import PrivateKey
from cardsign.statements.keyset import read_keyset
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import card_digest
from tests.support import PORTABLE

NOW: Final = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
ISSUER: Final = "tides.example"
AUDIENCE: Final = "harbour-staff"
#: Everybody who ever signs, rightly or not; `eve` is trusted nowhere.
PEOPLE: Final = ("ann", "bob", "cat", "rita", "rel", "rel2", "card", "card2", "eve")
#: Who signs cards; the first two by right.
CARD_SIGNERS: Final = ("card", "card2", "eve")

_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def _key(name: str) -> PrivateKey:
    """The key of a name, on P-256."""
    scalar = int.from_bytes(hashlib.sha256(f"fuzz {name}".encode()).digest()) % (_ORDER - 1) + 1
    native = ec.derive_private_key(scalar, ec.SECP256R1())
    return PrivateKey.from_pkcs8_der(
        native.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    )


FUZZED: Final = FakeIssuer(NOW, make_key=_key)
URL: Final = FUZZED.url
key, public_keys, keyset, release = FUZZED.key, FUZZED.jwks, FUZZED.keyset, FUZZED.release


def people() -> dict[str, Any]:
    """The members of a keyset that hold keys."""
    members = FUZZED.keyset_members()
    return {name: members[name] for name in ("root", "recovery", "keys")}


def chain() -> tuple[bytes, ...]:
    """An honest history: a rotation, a revocation, and recovery, which opens epoch 2."""
    first = keyset("ann", "bob")
    second = keyset(
        *("bob", "cat"),
        version=2,
        prev=read_keyset(first).digest,
        keys=[FUZZED.entry("card2", "card"), FUZZED.entry("rel", "release")],
        revoked=[key("card").public.thumbprint],
    )
    recovered = keyset("ann", "bob", "rita", epoch=2)
    return first, second, recovered


def listed(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a release says of one current card."""
    return [{"url": URL, "kind": "public", "payload_sha256": card_digest(card), "seq": 3}]


def extended_card() -> dict[str, Any]:
    """The extended card of the one audience, unsigned."""
    exp = int((NOW + timedelta(days=30)).timestamp())
    return with_marker(PORTABLE, ExtendedMarker(AUDIENCE, 5, exp))
