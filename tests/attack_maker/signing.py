"""Keys that are computed from their names, and signatures under any header at all.

An attacker is not bound by what our signer refuses to make, so headers, signatures and key sets
are put together by hand; of the package only the canonical form and base64url are used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from math import gcd, isqrt, prod
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from cardsign.card import canonicalize
from cardsign.jose import base64url

Json = dict[str, Any]
Signing = Callable[[bytes], bytes]

_CURVES: Final = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_CURVES |= {"secp256k1": "secp256k1"}
_DIGESTS: Final[dict[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
b64 = base64url.encode


# ------------------------------------------------------------------ keys


def number(value: int, size: int = 0) -> str:
    """A number as JWK writes it: the shortest form, or `size` bytes."""
    return b64(value.to_bytes(size or max(1, (value.bit_length() + 7) // 8)))


@dataclass(frozen=True)
class Key:
    """A key of the corpus: what its JWK says, and how it signs."""

    kid: str
    alg: str
    numbers: Mapping[str, str]
    sign: Signing
    native: Any = None

    def jwk(self, **changes: Any) -> Json:
        """The public JWK; a change to None takes a member away."""
        members = {**self.numbers, "kid": self.kid, "use": "sig", "alg": self.alg, **changes}
        return {name: value for name, value in members.items() if value is not None}

    def called(self, kid: str) -> Key:
        """The same key under another name."""
        return replace(self, kid=kid)

    @property
    def thumbprint(self) -> str:
        """RFC 7638, SHA-256."""
        text = json.dumps(dict(self.numbers), sort_keys=True, separators=(",", ":"))
        return b64(hashlib.sha256(text.encode()).digest())


def _seed(name: str, size: int) -> bytes:
    """Bytes that a name gives: such a key is known to everybody, and trusted by nobody."""
    return hashlib.shake_256(f"cardsign attack corpus: {name}".encode()).digest(size)


@cache
def ec_key(kid: str, curve: ec.EllipticCurve | None = None, alg: str = "ES256") -> Key:
    """A key on P-256 or another curve; the same for the same arguments."""
    curve = curve or ec.SECP256R1()
    size = (curve.key_size + 7) // 8
    secret = int.from_bytes(_seed(f"{curve.name} {kid}", size)) >> 8  # below any curve's order
    native = ec.derive_private_key(secret, curve)
    point = native.public_key().public_numbers()
    how = ec.ECDSA(_DIGESTS[alg[2:5]], deterministic_signing=True)

    def sign(data: bytes) -> bytes:
        r, s = decode_dss_signature(native.sign(data, how))
        return r.to_bytes(size) + s.to_bytes(size)

    numbers = {"kty": "EC", "crv": _CURVES[curve.name]}
    numbers |= {"x": number(point.x, size), "y": number(point.y, size)}
    return Key(kid, alg, numbers, sign, native)


@cache
def ed25519_key(kid: str) -> Key:
    """A key for EdDSA; the same for the same name."""
    native = ed25519.Ed25519PrivateKey.from_private_bytes(_seed(f"ed25519 {kid}", 32))
    numbers = {"kty": "OKP", "crv": "Ed25519", "x": b64(native.public_key().public_bytes_raw())}
    return Key(kid, "EdDSA", numbers, native.sign, native)


@cache
def rsa_key(kid: str, alg: str = "RS256", bits: int = 2048) -> Key:
    """A sound RSA key for RS256, RS384 or RS512; the same for the same arguments."""
    p, q = (_prime(f"rsa {bits} {kid} {which}", bits // 2) for which in "pq")
    d = pow(65537, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(65537, p * q)
    parts = (d, rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q))
    native = rsa.RSAPrivateNumbers(p, q, *parts, public).private_key()
    numbers = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
    digest = _DIGESTS[alg[2:]]
    return Key(kid, alg, numbers, lambda data: native.sign(data, PKCS1v15(), digest), native)


def _prime(name: str, bits: int) -> int:
    """The first prime of exactly so many bits, the two highest set, that a name gives."""
    for nth in count():
        candidate = int.from_bytes(_seed(f"{name} {nth}", bits // 8)) | 3 << (bits - 2) | 1
        if candidate % 65537 == 1 or gcd(candidate, _SMALL_PRIMES) != 1:
            continue
        if all(pow(base, candidate - 1, candidate) == 1 for base in _BASES):
            return candidate
    raise AssertionError


#: Fermat's test is enough: whoever makes a key here has no enemy who chooses its name.
_BASES: Final = (2, 3, 5, 7)
_SMALL_PRIMES: Final = prod(n for n in range(3, 2000) if all(n % k for k in range(2, isqrt(n) + 1)))


# ------------------------------------------------------------------ signatures


def payload_of(card: Json, profile: str = "served-as-is") -> bytes:
    """The bytes that a profile signs."""
    return canonicalize(card, profile).data


def header_of(key: Key, **changes: Any) -> Json:
    """The protected header as it should be; a change to None takes a member away."""
    members = {"alg": key.alg, "kid": key.kid, "typ": "JOSE", **changes}
    return {name: value for name, value in members.items() if value is not None}


def encoded(header: Mapping[str, Any] | bytes) -> str:
    """A protected header as base64url; bytes are taken as they are."""
    data = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":"))
    return b64(data.encode() if isinstance(data, str) else data)


def entry(
    payload: bytes,
    key: Key,
    header: Mapping[str, Any] | bytes | None = None,
    *,
    protected: str | None = None,
    sign: Signing | None = None,
) -> Json:
    """One signature over a payload, under any header, by any signing.

    Args:
        payload: The bytes that are signed.
        key: Whose name the header bears, and who signs unless `sign` does.
        header: Instead of the right one; bytes for what is no JSON.
        protected: The header's text itself, for what is no base64url either.
        sign: Instead of the key's own.
    """
    text = encoded(header_of(key) if header is None else header) if protected is None else protected
    signature = (sign or key.sign)(f"{text}.{b64(payload)}".encode())
    return {"protected": text, "signature": b64(signature)}


def signed(
    card: Json,
    key: Key,
    header: Mapping[str, Any] | bytes | None = None,
    *,
    profile: str = "served-as-is",
    **changes: Any,
) -> Json:
    """The card with one signature; see :func:`entry`."""
    return {**card, "signatures": [entry(payload_of(card, profile), key, header, **changes)]}


def with_entry(signed_card: Json, **changes: Any) -> Json:
    """The card with members of its one signature changed; None takes one away."""
    members = {**signed_card["signatures"][0], **changes}
    kept = {name: value for name, value in members.items() if value is not None}
    return {**signed_card, "signatures": [kept]}


def with_signature(signed_card: Json, change: Callable[[bytes], bytes]) -> Json:
    """The card with the bytes of its one signature changed."""
    signature = base64url.decode(signed_card["signatures"][0]["signature"])
    return with_entry(signed_card, signature=b64(change(signature)))


# ------------------------------------------------------------------ the honest cards

ORIGIN: Final = "https://tides.example"

CARD: Final[Json] = {
    "name": "Tide tables",
    "description": "Says when the water comes",
    "version": "1.2.0",
    "supportedInterfaces": [
        {"url": f"{ORIGIN}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "provider": {"url": f"{ORIGIN}/", "organization": "Harbour office"},
    "capabilities": {"streaming": True},
    "securitySchemes": {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"harbour": {"list": ["read"]}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "tides", "name": "Tides", "description": "When", "tags": ["sea"]}],
}

#: As most real cards are: empties, and a requirement without scopes.
LAX: Final[Json] = {
    **CARD,
    "iconUrl": "",
    "securityRequirements": [{"schemes": {"harbour": {"list": []}}}],
    "skills": [{**CARD["skills"][0], "examples": []}],
}

#: A2A 0.3.
OLD: Final[Json] = {
    "name": "Tide tables",
    "description": "Says when the water comes",
    "version": "1.2.0",
    "protocolVersion": "0.3.0",
    "url": f"{ORIGIN}/old",
    "preferredTransport": "JSONRPC",
    "capabilities": {"streaming": True},
    "securitySchemes": {"harbour": {"type": "http", "scheme": "Bearer"}},
    "security": [{"harbour": ["read"]}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "tides", "name": "Tides", "description": "When", "tags": ["sea"]}],
}


def dump(card: Mapping[str, Any]) -> bytes:
    """A card as its file holds it."""
    return json.dumps(card, ensure_ascii=False, indent=1).encode() + b"\n"


def at_url(url: Any, **changes: Any) -> Json:
    """The card with its one interface elsewhere."""
    interface = {**CARD["supportedInterfaces"][0], "url": url, **changes}
    return {**CARD, "supportedInterfaces": [interface]}
