"""The issuer whose statements and cards are fuzzed, with keys that are the same in every run.

An input that was found has to mean the same tomorrow, so each key is computed from its name.
Nothing but these targets trusts them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cardsign.card import ExtendedMarker, canonicalize, with_marker
from cardsign.jose import JwkSet, PrivateKey
from cardsign.statements import (
    TYP_KEYSET,
    TYP_RELEASE,
    KeysetStatement,
    draft_keyset,
    draft_release,
    read_keyset,
    sign_statement,
)
from tests.jose import statement_making as making
from tests.support import PORTABLE

NOW: Final = making.NOW
URL: Final = making.URL
ISSUER: Final = "tides.example"
AUDIENCE: Final = "harbour-staff"
#: Everybody who ever signs, rightly or not; `eve` is trusted nowhere.
PEOPLE: Final = ("ann", "bob", "cat", "rita", "rel", "rel2", "card", "card2", "eve")
#: Who signs cards; the first two by right.
CARD_SIGNERS: Final = ("card", "card2", "eve")

_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


@functools.cache
def key(name: str) -> PrivateKey:
    """The key of a name, on P-256."""
    scalar = int.from_bytes(hashlib.sha256(f"fuzz {name}".encode()).digest()) % (_ORDER - 1) + 1
    native = ec.derive_private_key(scalar, ec.SECP256R1())
    return PrivateKey.from_pkcs8_der(
        native.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    )


def public_keys(*names: str) -> JwkSet:
    """The public halves."""
    return JwkSet.of(key(name).public for name in names)


def _quorum(threshold: int, *names: str) -> making.Members:
    keys = [{"public": key(name).public.jwk(), "holder": name} for name in names]
    return {"threshold": threshold, "keys": keys}


def _entry(name: str, role: str) -> making.Members:
    return making.entry(name, role, public=key(name).public.jwk())


def people() -> making.Members:
    """The members of a keyset that hold keys; the same people as in the tests of statements."""
    return {
        "root": _quorum(2, "ann", "bob", "cat"),
        "recovery": _quorum(1, "rita"),
        "keys": [_entry("card", "card"), _entry("rel", "release"), _entry("rel2", "release")],
    }


def keyset(*signers: str, **changes: Any) -> bytes:
    """A keyset statement with these changes."""
    payload = draft_keyset(making.keyset_members(**{**people(), **changes}))
    return sign_statement(payload, map(key, signers), TYP_KEYSET)


def release(under: KeysetStatement, *signers: str, **changes: Any) -> bytes:
    """A release statement with these changes."""
    payload = draft_release(making.release_members(under, **changes))
    return sign_statement(payload, map(key, signers), TYP_RELEASE)


def chain() -> tuple[bytes, ...]:
    """An honest history: a rotation, a revocation, and recovery, which opens epoch 2."""
    first = keyset("ann", "bob")
    second = keyset(
        *("bob", "cat"),
        version=2,
        prev=read_keyset(first).digest,
        keys=[_entry("card2", "card"), _entry("rel", "release")],
        revoked=[key("card").public.thumbprint],
    )
    recovered = keyset("ann", "bob", "rita", epoch=2)
    return first, second, recovered


def listed(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a release says of one current card."""
    digest = hashlib.sha256(canonicalize(card, "served-as-is").data).hexdigest()
    return [{"url": URL, "kind": "public", "payload_sha256": digest, "seq": 3}]


def extended_card() -> dict[str, Any]:
    """The extended card of the one audience, unsigned."""
    exp = int((NOW + timedelta(days=30)).timestamp())
    return with_marker(PORTABLE, ExtendedMarker(AUDIENCE, 5, exp))
