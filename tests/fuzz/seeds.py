"""What fuzzing starts from: good examples of every kind, and our own vectors and attacks.

An input that breaks something has to mean the same tomorrow, so each key is computed from its name.
Nothing but these targets trusts them.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.jose.keys import PrivateKey
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import card_digest
from tests.attack_runner.corpus import load_attacks
from tests.hostile import SHAPES, card
from tests.support import CARDS, LAX, PORTABLE, dump, one_signature, read_cases, signed

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


FUZZED: Final = FakeIssuer(NOW)
FUZZED.keys |= {name: _key(name) for name in PEOPLE}
URL: Final = FUZZED.url
key, public_keys, keyset, release = FUZZED.key, FUZZED.jwks, FUZZED.keyset, FUZZED.release


def listed(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a release says of one current card."""
    return [{"url": URL, "kind": "public", "payload_sha256": card_digest(card), "seq": 3}]


def extended_card() -> dict[str, Any]:
    """The extended card of the one audience, unsigned."""
    exp = int((NOW + timedelta(days=30)).timestamp())
    return with_marker(PORTABLE, ExtendedMarker(AUDIENCE, 5, exp))


TESTS: Final = Path(__file__).resolve().parents[1]

#: Enough for the shape; mutation makes more of it.
HOSTILE_BYTES: Final = 4096


def cards() -> list[bytes]:
    """Cards of every kind, signed by the first card key, some by two; and those of our files."""
    kinds = (*CARDS.values(), extended_card())
    texts = [dump(signed(one, key("card"))) for one in kinds]
    texts.append(dump(signed(PORTABLE, key("card"), key("card2"))))
    entries = [one_signature(LAX, key(name), "prune-empty") for name in CARD_SIGNERS]
    copied = [one_signature(PORTABLE, key("card"), "served-as-is")] * 2
    hostile = [card(shape, HOSTILE_BYTES, signatures=copied) for shape in SHAPES]
    vectors = [base64.b64decode(one["card_base64"]) for one in _vectors("cards")]
    lossy = dump({**LAX, "signatures": entries})
    return [*texts, lossy, dump(PORTABLE), *hostile, *vectors, *_of_attacks("*.card.*")]


def sources() -> list[bytes]:
    """A manifest of every kind, behind the name of its file."""
    texts = read_cases(__file__)["sources"]
    return [f"{name.partition(',')[0]}\n{text}".encode() for name, text in texts.items()]


def key_sets() -> list[bytes]:
    """JWK Sets, one with keys for other purposes; and those of our files."""
    okp = {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43, "kid": "okp"}
    several: dict[str, Any] = {"keys": [key("card").public.jwk(), okp, {"kty": "AKP"}]}
    vectors = [dump(one["jwks"]) for one in _vectors("cards")]
    sets = [public_keys("card", "card2").to_bytes(), dump(several)]
    return [*sets, *vectors, *_of_attacks("*jwks.*")]


def keysets() -> list[bytes]:
    """The first statement of an issuer, a recovery, which opens epoch 2; those of our vectors."""
    return [*_KEYSETS, *_statements("keyset")]


def releases() -> list[bytes]:
    """A release under each of them; those of our vectors."""
    rows = listed(PORTABLE)
    made = [release(statement, "rel", cards=rows) for statement in _KEYSETS]
    return [*made, *_statements("release")]


_KEYSETS: Final = (keyset("ann", "bob"), keyset("ann", "bob", "rita", epoch=2))


# ------------------------------------------------------------------ our own files


def _of_attacks(pattern: str) -> list[bytes]:
    """The files of our attacks that are called so."""
    attacks = load_attacks()
    return [one.file(name) for one in attacks for name in fnmatch.filter(one.files, pattern)]


def _statements(kind: str) -> list[bytes]:
    """The statements of our vectors."""
    steps = (step for vector in _vectors("statements") for step in vector["steps"])
    texts = [step["statement"] for step in steps if step["kind"] == kind and "statement" in step]
    return [text.encode() for text in texts if isinstance(text, str)]


def _vectors(folder: str) -> Iterator[dict[str, Any]]:
    for path in sorted(TESTS.glob(f"vectors/{folder}/*.json")):
        yield json.loads(path.read_bytes())
