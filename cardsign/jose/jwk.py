"""The algorithms, and one JWK, read and written strictly (RFC 7517, RFC 7518 section 6, RFC 7638).

Two spellings of one key would be two identities, and a denylist could be walked around by the
other one. So every number is read in the one spelling that joserfc writes: full length on a curve,
shortest for RSA. Unknown members are ignored; what a key says about its purpose is obeyed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal, NoReturn, TypeAlias, cast, get_args

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, closest

# The algorithms of signatures, in one table (RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2.2). A card may
# be signed with any of them, unless a policy narrows the list. cardsign signs cards with ES256,
# RS256 and EdDSA, and statements with ES256 and RS256. HMAC and ``none`` are not here, so they are
# never accepted, whatever a caller names.


#: What cardsign makes keys for and signs cards with.
SigningAlg: TypeAlias = Literal["ES256", "RS256", "EdDSA"]
#: What a card's signature can be verified by.
VerifyAlg: TypeAlias = Literal[
    "ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"
]


#: By algorithm: `kty` and `crv` of its keys, and the bytes of a signature; 0: as many as the RSA
#: modulus has. Refusals list the algorithms in this order.
ALGORITHMS: Final[dict[VerifyAlg, tuple[str, str, int]]] = {
    "ES256": ("EC", "P-256", 64),
    "ES384": ("EC", "P-384", 96),
    "ES512": ("EC", "P-521", 132),
    "EdDSA": ("OKP", "Ed25519", 64),
    "RS256": ("RSA", "", 0),
    "RS384": ("RSA", "", 0),
    "RS512": ("RSA", "", 0),
    "PS256": ("RSA", "", 0),
    "PS384": ("RSA", "", 0),
    "PS512": ("RSA", "", 0),
}
#: The other name of EdDSA with a key on Ed25519, in headers and JWKs (RFC 9864 2.2).
ED25519: Final = "Ed25519"
#: What statements are signed with, hence the keys of the roles root, release and recovery.
STATEMENT_ALGORITHMS: Final[tuple[VerifyAlg, ...]] = ("ES256", "RS256")
SIGNING_ALGORITHMS: Final[tuple[SigningAlg, ...]] = get_args(SigningAlg)


def named(alg: object, among: Collection[str]) -> VerifyAlg | None:
    """Return the algorithm that the `alg` of a header or JWK means, or None.

    It is one of the table, whatever else is in `among`.
    """
    name = "EdDSA" if alg == ED25519 else alg
    return name if isinstance(name, str) and name in ALGORITHMS and name in among else None


# Base64url as JOSE demands it (RFC 7515 section 2), in exactly one spelling per value. A lenient
# decoder reads many texts as the same bytes; then two signatures, or two keys, that look different
# are one, and whatever compares texts can be walked around.


def encode_base64url(data: bytes) -> str:
    """Return `data` as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def encoded_length(size: int) -> int:
    """Return how many characters of base64url `size` bytes take."""
    return (size * 4 + 2) // 3


def decode_base64url(text: str) -> bytes:
    """Return the bytes of which :func:`encode_base64url` makes exactly `text`.

    Raises:
        ValueError: Padding, a character of another alphabet (``+``, ``/``, whitespace), a length
            that no bytes have, or stray bits behind the last byte.
    """
    data = binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
    if encode_base64url(data) != text:
        raise ValueError("not the one spelling of these bytes")
    return data


# Which RSA numbers we accept: nothing that a laptop, or a known flaw, can factor.


#: Bits of a modulus. 1024 can be factored by a state, 2048 is what RFC 7518 3.3 demands.
MIN_MODULUS_BITS: Final = 2048
#: Bits of a modulus. Verification grows with the square; at 8192 it still takes below 1 ms.
MAX_MODULUS_BITS: Final = 8192
#: Bits of a new key: 128 bits of security, which NIST SP 800-57 advises beyond 2030.
NEW_MODULUS_BITS: Final = 3072
#: The one exponent accepted. A smaller one has been the way to forge PKCS #1 v1.5 signatures
#: against lax verifiers; a larger one only costs the verifier time.
EXPONENT: Final = 65537

# For 2048 bits and more the flawed generator makes primes, hence moduli, that are powers of
# 65537 modulo every prime up to this one; a sound modulus is so by a chance of 2^-167.
_ROCA_PRIMES_UP_TO: Final = 701


def refuse_weak(modulus: int, exponent: int) -> None:
    """Refuse an RSA public key that is too short, too long, or known to be factorable.

    Raises:
        KeyRefused: ``key.weak_rsa``, the path being the JWK member at fault.
    """
    bits = modulus.bit_length()
    if not MIN_MODULUS_BITS <= bits <= MAX_MODULUS_BITS:
        raise _weak(f"the modulus has {bits} bits, not {MIN_MODULUS_BITS} to {MAX_MODULUS_BITS}")
    if exponent != EXPONENT:
        raise _weak(f"the exponent is not {EXPONENT}, the one accepted", "/e")
    if (divisor := math.gcd(modulus, math.prod(_small_primes()))) != 1:
        raise _weak(f"the modulus is divisible by {divisor}")
    if all(modulus % prime in powers for prime, powers in _powers_of_the_flaw()):
        raise _weak("the modulus shows the flaw CVE-2017-15361 (ROCA) of its generator")


def refuse_shared_primes(keys: Iterable[object]) -> None:
    """Refuse RSA keys of `cryptography` of which two share a prime: their gcd gives both away.

    The same modulus twice is no finding. Keys of other types are passed over.

    Raises:
        KeyRefused: ``jwks.shared_prime``.
    """
    product = 1
    for modulus in {key.public_numbers().n for key in keys if isinstance(key, rsa.RSAPublicKey)}:
        if math.gcd(modulus, product % modulus) != 1:
            message = "two RSA keys share a prime, so anybody can factor both"
            raise KeyRefused("jwks.shared_prime", message, path="/keys")
        product *= modulus


def _weak(message: str, path: str = "/n") -> KeyRefused:
    return KeyRefused("key.weak_rsa", message, path=path)


@functools.cache
def _small_primes() -> tuple[int, ...]:
    """Return the primes below 10,000."""
    odd = range(3, 10_000, 2)
    return (2, *(n for n in odd if all(n % divisor for divisor in range(3, math.isqrt(n) + 1, 2))))


@functools.cache
def _powers_of_the_flaw() -> tuple[tuple[int, frozenset[int]], ...]:
    return tuple(
        (prime, frozenset(pow(65537, exponent, prime) for exponent in range(prime - 1)))
        for prime in _small_primes()
        if prime <= _ROCA_PRIMES_UP_TO
    )


# Which Ed25519 keys we accept: points of the curve in their one spelling, none of small order.


_FIELD: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _FIELD) % _FIELD
# y of a point of order 8; the other such points have -y. Orders 1, 2 and 4: y = 1, -1 and 0.
_Y8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER_Y: Final = frozenset({0, 1, _FIELD - 1, _Y8, _FIELD - _Y8})


def check_point(encoded: bytes) -> None:
    """Check the bytes of ``x`` of an Ed25519 key (RFC 8032 5.1.3, RFC 8037 2).

    Raises:
        KeyRefused: ``key.malformed``: another length, a y that is not reduced, no point of the
            curve, or a point of order 1, 2, 4 or 8.
    """
    if len(encoded) != 32:
        _malformed("x", f"has {len(encoded)} bytes, expected 32")
    # Little endian, and in the highest bit the lowest of the point's x.
    y = int.from_bytes(encoded, "little") & ~(1 << 255)
    if y >= _FIELD:
        _malformed("x", "is not a reduced coordinate, expected the one spelling of a point")
    # Whether x^2 = (y^2 - 1) / (d y^2 + 1) has a solution, by Euler's criterion.
    if pow((y * y - 1) * (_D * y * y + 1), (_FIELD - 1) // 2, _FIELD) == _FIELD - 1:
        _malformed("x", "is not a point of the curve Ed25519")
    if y in _SMALL_ORDER_Y:
        _malformed("x", "is a point of small order, under which anybody can sign")


NativePublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey
JoseKey: TypeAlias = ECKey | OKPKey | RSAKey
NativePrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey

#: By `kty`: joserfc's class, that of `cryptography`, and the members of a public key.
_KINDS: Final[dict[str, tuple[type[ECKey | OKPKey | RSAKey], type, tuple[str, ...]]]] = {
    "EC": (ECKey, ec.EllipticCurvePublicKey, ("x", "y", "crv")),
    "OKP": (OKPKey, Ed25519PublicKey, ("x", "crv")),
    "RSA": (RSAKey, rsa.RSAPublicKey, ("n", "e")),
}
_PRIMES: Final = ("p", "q", "dp", "dq", "qi")
# Of every registered key type; `priv` is that of AKP.
_PRIVATE_MEMBERS: Final = ("d", *_PRIMES, "oth", "k", "priv")
_MAX_MODULUS_CHARS: Final = encoded_length(MAX_MODULUS_BITS // 8)


def refuse_private_members(untrusted_jwk: Mapping[str, Json]) -> None:
    """Refuse a JWK that gives away a private key or is a shared secret.

    Raises:
        KeyRefused: ``key.private_material``.
    """
    for name in _PRIVATE_MEMBERS:
        if name in untrusted_jwk:
            message = f"the member {name!r} is private, expected public members only"
            raise KeyRefused("key.private_material", message, path=f"/{name}")
    if untrusted_jwk.get("kty") == "oct":
        raise KeyRefused("key.private_material", "a key of type oct is a secret", path="/kty")


def check_purpose(
    untrusted_jwk: Mapping[str, Json], algorithms: Collection[str], *, operation: str
) -> VerifyAlg:
    """Return the one of `algorithms` that a JWK serves; it must be meant for our signatures.

    Type and curve name it, and for RSA the member ``alg``: without it, the key is for RS256.

    Raises:
        KeyRefused: ``key.unsupported``, ``key.alg_mismatch``, ``key.use``, ``key.malformed``.
    """
    kty = text_member(untrusted_jwk, "kty")
    crv = text_member(untrusted_jwk, "crv") if kty in ("EC", "OKP") else ""
    fitting = [alg for alg in ALGORITHMS if alg in algorithms and ALGORITHMS[alg][:2] == (kty, crv)]
    if not fitting:
        near = closest(crv, {curve for _, curve, _ in ALGORITHMS.values()}) if crv else ""
        message = f"{crv or kty!a:.20}: expected a key for {' or '.join(algorithms)}{near}"
        raise KeyRefused("key.unsupported", message, path="/crv" if crv else "/kty")
    default = "RS256" if kty == "RSA" else fitting[0]
    name = text_member(untrusted_jwk, "alg") if "alg" in untrusted_jwk else default
    if (algorithm := named(name, fitting)) is None:
        message = f"this {kty} key is not for {' or '.join(fitting)}"
        raise KeyRefused("key.alg_mismatch", message, path="/alg")
    if "use" in untrusted_jwk and text_member(untrusted_jwk, "use") != "sig":
        raise KeyRefused("key.use", "expected a key with use=sig", path="/use")
    operations = untrusted_jwk.get("key_ops", [operation])
    if not isinstance(operations, list):
        _malformed("key_ops", "is no list")
    if operation not in operations:
        raise KeyRefused("key.use", f"expected {operation!r} among key_ops", path="/key_ops")
    return algorithm


def jwk_of(native: object) -> dict[str, str]:
    """Return a public key of `cryptography` as a JWK, which is still to be checked as any other.

    Raises:
        KeyRefused: ``key.unsupported``.
    """
    for kty, (reader, kind, _) in _KINDS.items():
        if isinstance(native, kind):
            with contextlib.suppress(KeyError):  # a curve that has no name in JOSE
                numbers = reader.binding.convert_raw_key_to_dict(native, private=False)
                return {"kty": kty, **cast(dict[str, str], numbers)}
    raise KeyRefused("key.unsupported", "expected a public key of type EC, RSA or Ed25519")


def read_key(untrusted_jwk: Mapping[str, Json], alg: str) -> JoseKey:
    """Return the key that the public numbers of a JWK make; an RSA key serves `alg` alone.

    Raises:
        KeyRefused: ``key.malformed`` or ``key.weak_rsa``.
    """
    kty = text_member(untrusted_jwk, "kty")
    reader, _, names = _KINDS[kty]
    members = {name: text_member(untrusted_jwk, name) for name in ("kty", *names)}
    if kty == "OKP":
        check_point(_decode_number(members, "x"))
    if kty == "RSA":
        # Before it becomes a number: arithmetic with a 131,072-bit modulus is the attack.
        if len(members["n"]) > _MAX_MODULUS_CHARS:
            raise _weak(f"the modulus has more than {MAX_MODULUS_BITS} bits")
        refuse_weak(*(int.from_bytes(_decode_number(members, name)) for name in names))
        members["alg"] = alg
    try:
        key = reader.import_key({**members})
    except (JoseError, ValueError) as exc:
        message = "the numbers are not a key of this type and curve"
        raise KeyRefused("key.malformed", message, path=f"/{names[0]}") from exc
    written = jwk_of(key.public_key)
    for name in names:
        if written[name] != members[name]:
            _malformed(name, "is not in its one spelling, of the curve's length or the shortest")
    return key


def read_private_key(jwk: Mapping[str, Json]) -> NativePrivateKey:
    """Return the key that the numbers of a private JWK make.

    An RSA key may lack its primes; if it has them, it must have all that goes with them
    (RFC 7518 6.3.2).

    Raises:
        KeyRefused: As :func:`read_key`; ``key.malformed`` also where the private key does not
            belong to the public one.
    """
    public = read_key(jwk, "RS256").public_key
    reader, _, names = _KINDS[text_member(jwk, "kty")]
    private = ("d", *(_PRIMES if "p" in jwk else ()))
    members = {name: text_member(jwk, name) for name in ("kty", *names, *private)}
    # A longer one would only take longer to find wrong.
    if len(members["d"]) > len(members[names[0]]):
        _malformed("d", "is longer than the public key")
    with contextlib.suppress(JoseError, ValueError):
        key = reader.import_key({**members})
        if jwk_of(key.public_key) == jwk_of(public):
            return cast(NativePrivateKey, key.private_key)
    _malformed("d", "does not belong to the public key")


def text_member(untrusted_jwk: Mapping[str, Json], name: str) -> str:
    """Return a member that must be there and be a string."""
    value = untrusted_jwk.get(name)
    if not isinstance(value, str):
        _malformed(name, "is missing or not a string")
    return value


def _decode_number(jwk: Mapping[str, str], name: str) -> bytes:
    try:
        return decode_base64url(jwk[name]) or _malformed(name, "is empty")
    except ValueError:
        _malformed(name, "is not canonical unpadded base64url")


def _malformed(name: str, fault: str) -> NoReturn:
    raise KeyRefused("key.malformed", f"the member {name!r} {fault}", path=f"/{name}")


# Public keys in PEM, as JWKs: the form in which the samples of A2A publish keys.


PRIVATE_LABELS: Final = frozenset(
    {"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"}
)
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)")
#: id-RSASSA-PSS (RFC 4055 1.2), in DER: such a key is for PSS alone, and we sign PKCS #1 v1.5.
_PSS: Final = bytes.fromhex("06092a864886f70d01010a")


def pem_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield label and DER of each block of a PEM file; the DER is empty if it is no base64."""
    for label, body in _BLOCK.findall(data):
        der = b""
        with contextlib.suppress(binascii.Error):
            der = base64.b64decode(body)
        yield label.decode("ascii"), der


def refuse_pss(der: bytes) -> None:
    """Refuse a PrivateKeyInfo or SubjectPublicKeyInfo of a key for RSASSA-PSS alone.

    cryptography reads such a key as any other RSA key.

    Raises:
        KeyRefused: ``key.unsupported``.
    """
    if _PSS in der[:64]:  # where a key's algorithm stands, whatever its size
        message = "this key is for RSASSA-PSS alone (PS256), expected an RSA key for RS256"
        hint = "Make one: openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072."
        raise KeyRefused("key.unsupported", message, hint=hint)


def jwk_of_pem(untrusted_pem: bytes) -> dict[str, str]:
    """Return the public key of a PEM as a JWK, which is still to be checked as any other.

    Raises:
        KeyRefused: ``key.private_material``, ``key.malformed``, ``key.unsupported``.
    """
    blocks = list(pem_blocks(untrusted_pem))
    if any(label in PRIVATE_LABELS for label, _ in blocks):
        hint = "Write its public key: openssl pkey -in FILE -pubout -out public.pem."
        message = "this is a private key, expected the public key"
        raise KeyRefused("key.private_material", message, hint=hint)
    if len(blocks) > 1:  # the first alone would be read
        raise KeyRefused("key.malformed", f"this PEM has {len(blocks)} parts, expected one key")
    for _, der in blocks:
        refuse_pss(der)
    try:
        return jwk_of(load_pem_public_key(untrusted_pem))
    except (ValueError, UnsupportedAlgorithm) as exc:
        hint = "Of a certificate: openssl x509 -in FILE -pubkey -noout -out public.pem."
        raise KeyRefused("key.malformed", "this is not a public key in PEM", hint=hint) from exc
