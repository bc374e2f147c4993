"""Keys that are forgotten, and signatures under any header at all; nothing here checks anything.

An attacker is not bound by what our signer refuses to make, so headers, signatures and key sets
are put together by hand; of the package only the canonical form and base64url are used.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, isqrt, prod
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from cardsign.card import canonicalize
from cardsign.jose import base64url

Json = dict[str, Any]
Signing = Callable[[bytes], bytes]

P256_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P256_FIELD: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
P256_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B

_CURVES: Final = {"secp256r1": "P-256", "secp384r1": "P-384", "secp256k1": "secp256k1"}
#: RFC 8017 9.2, note 1: what precedes the digest in a PKCS #1 v1.5 signature.
SHA256_PREFIX: Final = bytes.fromhex("3031300d060960864801650304020105000420")
b64 = base64url.encode


# ------------------------------------------------------------------ keys


def number(value: int, size: int = 0) -> str:
    """A number as JWK writes it: the shortest form, or `size` bytes."""
    return b64(value.to_bytes(size or max(1, (value.bit_length() + 7) // 8)))


@dataclass(frozen=True)
class Key:
    """A throw-away key: what its JWK says, and how it signs."""

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
        return Key(kid, self.alg, self.numbers, self.sign, self.native)

    @property
    def thumbprint(self) -> str:
        """RFC 7638, SHA-256."""
        text = json.dumps(dict(self.numbers), sort_keys=True, separators=(",", ":"))
        digest = hashes.Hash(hashes.SHA256())
        digest.update(text.encode())
        return b64(digest.finalize())


def ec_key(kid: str, curve: ec.EllipticCurve | None = None, alg: str = "ES256") -> Key:
    """A key on P-256 or another curve, whose digest is SHA-256 where nobody says otherwise."""
    native = ec.generate_private_key(curve or ec.SECP256R1())
    point = native.public_key().public_numbers()
    size = (native.curve.key_size + 7) // 8
    digest = hashes.SHA384() if alg == "ES384" else hashes.SHA256()

    def sign(data: bytes) -> bytes:
        r, s = decode_dss_signature(native.sign(data, ec.ECDSA(digest)))
        return r.to_bytes(size) + s.to_bytes(size)

    numbers = {"kty": "EC", "crv": _CURVES[native.curve.name]}
    numbers |= {"x": number(point.x, size), "y": number(point.y, size)}
    return Key(kid, alg, numbers, sign, native)


def ed25519_key(kid: str) -> Key:
    """A key for EdDSA."""
    native = ed25519.Ed25519PrivateKey.generate()
    numbers = {"kty": "OKP", "crv": "Ed25519", "x": b64(native.public_key().public_bytes_raw())}
    return Key(kid, "EdDSA", numbers, native.sign, native)


def rsa_key(kid: str, alg: str = "RS256", bits: int = 2048) -> Key:
    """A sound RSA key."""
    native = rsa.generate_private_key(65537, bits)
    public = native.public_key().public_numbers()
    numbers = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
    return Key(kid, alg, numbers, rsa_signing(native, alg), native)


def rsa_signing(native: rsa.RSAPrivateKey, alg: str) -> Signing:
    """How an RSA key signs under an algorithm, or under SHA-1, which no JWS knows."""
    digest = {"384": hashes.SHA384(), "512": hashes.SHA512(), "SHA1": hashes.SHA1()}.get(
        alg[2:] if alg[:2] in ("RS", "PS") else alg, hashes.SHA256()
    )
    padding = PSS(MGF1(digest), digest.digest_size) if alg.startswith("PS") else PKCS1v15()
    return lambda data: native.sign(data, padding, digest)


def weak_rsa_key(kid: str, primes: Sequence[int], exponent: int = 65537) -> Key:
    """An RSA key of any primes and exponent; its signatures are good, if there can be any."""
    modulus, order = prod(primes), prod(p - 1 for p in primes)
    size = (modulus.bit_length() + 7) // 8

    def sign(data: bytes) -> bytes:
        if gcd(exponent, order) != 1:  # no number signs for this key
            return secrets.token_bytes(size - 1).rjust(size, b"\0")
        message = int.from_bytes(padded(data, size))
        parts = [(pow(message, pow(exponent, -1, p - 1), p), p) for p in primes]
        return combined(parts, modulus).to_bytes(size)

    numbers = {"kty": "RSA", "n": number(modulus), "e": number(exponent)}
    return Key(kid, "RS256", numbers, sign)


def padded(data: bytes, size: int) -> bytes:
    """EMSA-PKCS1-v1_5 with SHA-256 (RFC 8017 9.2)."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(data)
    info = SHA256_PREFIX + digest.finalize()
    return b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info


def combined(parts: Sequence[tuple[int, int]], modulus: int) -> int:
    """The Chinese remainder of residues by primes."""
    return sum(r * (modulus // p) * pow(modulus // p, -1, p) for r, p in parts) % modulus


def prime(bits: int) -> int:
    """A random prime of exactly so many bits, the two highest set."""
    while True:
        candidate = secrets.randbits(bits) | 3 << (bits - 2) | 1
        if is_prime(candidate) and candidate % 65537 != 1:
            return candidate


def is_small_prime(candidate: int) -> bool:
    """By trial division."""
    return candidate > 1 and all(candidate % d for d in range(2, isqrt(candidate) + 1))


_SMALL_PRIMES: Final = [n for n in range(3, 2000) if is_small_prime(n)]


def is_prime(candidate: int) -> bool:
    """Miller-Rabin, 12 rounds."""
    if any(candidate % small == 0 for small in _SMALL_PRIMES):
        return False
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(12):
        power = pow(secrets.randbelow(candidate - 3) + 2, odd, candidate)
        if power in (1, candidate - 1):
            continue
        if not any((power := power * power % candidate) == candidate - 1 for _ in range(twos - 1)):
            return False
    return True


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
