"""The shared cards: real ones of public repositories, and ones made to provoke."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import load_der_public_key

from cardsign import CardsignError, JwkSet, PublicKey
from cardsign.card import Card, Json

GROUPS: Final = ("real 0.3", "real 1.0", "real mixed", "real other", "provocative")

#: Whose keys are published in a file of their own; below ``corpus/vectors``.
_KEY_FILES: Final = {
    "282.json": "gate/gate_jwks_20260928.json",
    "283.json": "inline/capiscio_jwks.json",
    "285.json": "inline/iac_rsa_jwks.json",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One file that is, or claims to be, an Agent Card.

    Attributes:
        file: Its name in the collection.
        group: One of `GROUPS`; ``real other`` holds what is of no A2A version, or unreadable.
        data: Its bytes.
    """

    file: str
    group: str
    data: bytes

    @property
    def document(self) -> Mapping[str, Json] | None:
        """The card as we read it, or None where we refuse to."""
        try:
            return Card.from_bytes(self.data).document
        except CardsignError:
            return None


def load_samples(shared: Path) -> tuple[Sample, ...]:
    """Every card of the collection, the real ones first."""
    real = sorted((shared / "corpus" / "cards").glob("[0-9]*"))
    provocative = sorted((shared / "interop" / "cards").glob("*.json"))
    return (
        *(Sample(path.name, f"real {_a2a_version(_read(path))}", _read(path)) for path in real),
        *(Sample(path.name, "provocative", _read(path)) for path in provocative),
    )


def published_keys(sample: Sample, shared: Path) -> tuple[str, JwkSet]:
    """Where a real card's keys are published, and the keys; none where they are not."""
    if sample.file in _KEY_FILES:
        path = shared / "corpus" / "vectors" / _KEY_FILES[sample.file]
        return "beside the card", JwkSet.from_bytes(path.read_bytes())
    keys = JwkSet.of(_keys_in(dict(sample.document or {})))
    return "in the card itself" if keys.keys else "nowhere", keys


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _a2a_version(data: bytes) -> str:
    try:
        a2a_version = Card.from_bytes(data).a2a_version
    except CardsignError:
        return "other"
    return "other" if a2a_version == "none" else a2a_version


def _keys_in(value: Json) -> Iterator[PublicKey]:
    """The P-256 keys that one publisher puts into its cards, in a form of its own."""
    if isinstance(value, dict) and value.get("alg") == "ES256" and "key_id" in value:
        der = base64.b64decode(str(value["public_key_der_base64"]))
        yield PublicKey.from_cryptography(load_der_public_key(der), kid=str(value["key_id"]))
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _keys_in(child)
