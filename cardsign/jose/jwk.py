"""One JWK, read and written strictly (RFC 7517, RFC 7518 section 6, RFC 7638).

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
from typing import Final, NoReturn, TypeAlias, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from cardsign.card.values import Json
from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS, VerifyAlg, named

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
        expected = f"{MIN_MODULUS_BITS} to {MAX_MODULUS_BITS}"
        raise _weak(f"the modulus has {bits} bits, expected {expected}")
    if exponent != EXPONENT:
        raise _weak(f"the exponent is not {EXPONENT}, the one accepted", "/e")
    if math.gcd(modulus, math.prod(_small_primes())) != 1:
        smallest = next(prime for prime in _small_primes() if modulus % prime == 0)
        raise _weak(f"the modulus is divisible by {smallest}")
    if all(modulus % prime in powers for prime, powers in _powers_of_the_flaw()):
        raise _weak("the modulus shows the flaw CVE-2017-15361 (ROCA) of its generator")


def refuse_shared_primes(moduli: Iterable[int]) -> None:
    """Refuse moduli of which two have a prime in common: their gcd gives both away.

    The same modulus twice is no finding.

    Raises:
        KeyRefused: ``jwks.shared_prime``.
    """
    product = 1
    for modulus in set(moduli):
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


#: Bytes of a public key: y in little endian, and in the highest bit the lowest of x.
KEY_BYTES: Final = 32

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
    if len(encoded) != KEY_BYTES:
        _malformed("x", f"has {len(encoded)} bytes, expected {KEY_BYTES}")
    y = int.from_bytes(encoded, "little") & ~(1 << 255)
    if y >= _FIELD:
        _malformed("x", "is no reduced coordinate, expected the one spelling of a point")
    # Whether x^2 = (y^2 - 1) / (d y^2 + 1) has a solution, by Euler's criterion.
    if pow((y * y - 1) * (_D * y * y + 1), (_FIELD - 1) // 2, _FIELD) == _FIELD - 1:
        _malformed("x", "is no point of the curve Ed25519")
    if y in _SMALL_ORDER_Y:
        _malformed("x", "is a point of small order, under which anybody can sign")


NativePublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey
JoseKey: TypeAlias = ECKey | OKPKey | RSAKey
NativePrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey

#: By `kty`: who reads such a key, and its public numbers in the order in which they are read.
_READERS: Final[dict[str, tuple[type[ECKey | OKPKey | RSAKey], tuple[str, ...]]]] = {
    "EC": (ECKey, ("x", "y")),
    "OKP": (OKPKey, ("x",)),
    "RSA": (RSAKey, ("n", "e")),
}
_PRIMES: Final = ("p", "q", "dp", "dq", "qi")
#: What makes a public key, and its thumbprint.
PUBLIC_MEMBERS: Final = ("kty", "crv", "x", "y", "n", "e")
# Of every registered key type; `priv` is that of AKP.
_PRIVATE_MEMBERS: Final = ("d", *_PRIMES, "oth", "k", "priv")
_MAX_MODULUS_CHARS: Final = base64url.encoded_length(MAX_MODULUS_BITS // 8)


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
    untrusted_jwk: Mapping[str, Json], algorithms: Collection[VerifyAlg], *, operation: str
) -> VerifyAlg:
    """Return the one of `algorithms` that a JWK serves; it must be meant for our signatures.

    Type and curve name it, and for RSA the member ``alg``: without it, the key is for RS256.

    Raises:
        KeyRefused: ``key.unsupported``, ``key.alg_mismatch``, ``key.use``, ``key.malformed``.
    """
    kty, alg = text_member(untrusted_jwk, "kty"), "RS256"
    fitting = [name for name in algorithms if ALGORITHMS[name][0] == kty]
    if not fitting:
        types = " or ".join(dict.fromkeys(ALGORITHMS[name][0] for name in algorithms))
        raise KeyRefused("key.unsupported", f"expected a key of type {types}", path="/kty")
    if kty != "RSA":
        curves = {ALGORITHMS[name][1]: name for name in fitting}
        if (crv := text_member(untrusted_jwk, "crv")) not in curves:
            expected = f"expected the curve {' or '.join(curves)}"
            raise KeyRefused("key.unsupported", expected, path="/crv")
        fitting = [alg := curves[crv]]
    if "alg" in untrusted_jwk:
        alg = text_member(untrusted_jwk, "alg")
    if (algorithm := named(alg, fitting)) is None:
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


def jose_key(native: NativePublicKey, alg: str) -> JoseKey:
    """Return a key of `cryptography` as joserfc holds it; an RSA key serves `alg` alone."""
    match native:
        case ec.EllipticCurvePublicKey():
            return ECKey.import_key(native)
        case rsa.RSAPublicKey():
            return RSAKey.import_key(native, {"alg": alg})
    return OKPKey.import_key(native)


def native_public_key(untrusted_jwk: Mapping[str, Json]) -> NativePublicKey:
    """Return the key that the public numbers of an EC, OKP or RSA JWK make.

    Raises:
        KeyRefused: ``key.malformed`` or ``key.weak_rsa``.
    """
    return cast(NativePublicKey, _read_key(untrusted_jwk, ()))


def native_private_key(jwk: Mapping[str, Json]) -> NativePrivateKey:
    """Return the key that the numbers of a private EC, OKP or RSA JWK make.

    An RSA key may lack its primes; if it has them, it must have all that goes with them
    (RFC 7518 6.3.2).

    Raises:
        KeyRefused: ``key.malformed``, also where the private key does not belong to the
            public one; ``key.weak_rsa``; ``key.unsupported`` (more than two primes).
    """
    if "oth" in jwk:
        raise KeyRefused("key.unsupported", "expected an RSA key of two primes", path="/oth")
    return cast(NativePrivateKey, _read_key(jwk, ("d", *(_PRIMES if "p" in jwk else ()))))


def _read_key(jwk: Mapping[str, Json], private: tuple[str, ...]) -> object:
    reader, public = _READERS[text_member(jwk, "kty")]
    # Before it becomes a number: arithmetic with a 131,072-bit modulus is the attack.
    if reader is RSAKey and len(text_member(jwk, "n")) > _MAX_MODULUS_CHARS:
        raise _weak(f"the modulus has more than {MAX_MODULUS_BITS} bits")
    numbers = {name: _decode_number(jwk, name) for name in (*public, *private)}
    _check_strength(reader, numbers)
    members = {name: text_member(jwk, name) for name in ("kty", "crv", *numbers) if name in jwk}
    try:
        key = reader.import_key(members)  # type: ignore[arg-type]
        native = key.private_key if private else key.public_key
        written = reader.import_key(native).as_dict(private=bool(private))  # type: ignore[arg-type]
    except (JoseError, ValueError) as exc:
        if not private:
            fault = f"the members {' and '.join(public)} are no key of this type and curve"
            raise KeyRefused("key.malformed", fault, path=f"/{public[0]}") from exc
        fault = "the private key does not belong to the public one"
        raise KeyRefused("key.malformed", fault, path="/d") from exc
    for name in numbers:
        if written.get(name) != members[name]:
            _malformed(name, "is not in its one spelling, of the curve's length or the shortest")
    return native


def _check_strength(reader: object, numbers: Mapping[str, bytes]) -> None:
    if reader is OKPKey:
        check_point(numbers["x"])
    if reader is RSAKey:
        modulus = int.from_bytes(numbers["n"])
        refuse_weak(modulus, int.from_bytes(numbers["e"]))
        # A longer one would only take longer to find wrong.
        if int.from_bytes(numbers.get("d", b"")) >= modulus:
            _malformed("d", "is not less than the modulus")


def text_member(untrusted_jwk: Mapping[str, Json], name: str) -> str:
    """Return a member that must be there and be a string."""
    value = untrusted_jwk.get(name)
    if name == "kty" and value is None:
        hint = "Name a file that holds a key: PEM, PKCS #12 or JWK."
        raise KeyRefused("key.malformed", "this is no JWK: it has no `kty`", path="/kty", hint=hint)
    if not isinstance(value, str):
        _malformed(name, "is missing or no string")
    return value


def _decode_number(untrusted_jwk: Mapping[str, Json], name: str) -> bytes:
    try:
        data = base64url.decode(text_member(untrusted_jwk, name))
    except base64url.Base64urlError as exc:
        _malformed(name, f"is not canonical unpadded base64url: {exc}")
    return data or _malformed(name, "is empty")


def _malformed(name: str, fault: str) -> NoReturn:
    raise KeyRefused("key.malformed", f"the member {name!r} {fault}", path=f"/{name}")


# Public keys in PEM, as JWKs: the form in which the samples of A2A publish keys.


PRIVATE_LABELS: Final = frozenset(
    {"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"}
)
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)")
#: id-RSASSA-PSS (RFC 4055 1.2), in DER: such a key is for PSS alone, and we sign PKCS #1 v1.5.
_PSS: Final = bytes.fromhex("06092a864886f70d01010a")
_ALGORITHM_BYTES: Final = 64  # where a key's algorithm stands, whatever its size


def pem_labels(data: bytes) -> list[str]:
    """Return what the blocks of a PEM file say that they are."""
    return [label.decode("ascii") for label, _ in _BLOCK.findall(data)]


def pem_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the label and the DER of each block of a PEM file that is base64."""
    for label, body in _BLOCK.findall(data):
        with contextlib.suppress(binascii.Error):
            yield label.decode("ascii"), base64.b64decode(b"".join(body.split()))


def pss_refusal() -> KeyRefused:
    """Return the refusal of a key that is for RSASSA-PSS alone."""
    message = "this key is for RSASSA-PSS alone (PS256), expected an RSA key for RS256"
    hint = "Make one: openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072."
    return KeyRefused("key.unsupported", message, hint=hint)


def refuse_pss(data: bytes) -> None:
    """Refuse (``key.unsupported``) a PEM with an RSA key that is for RSASSA-PSS alone.

    cryptography reads such a key as any other RSA key. One that is encrypted is not looked into.
    """
    for label, der in pem_blocks(data):
        if label != "CERTIFICATE" and is_for_pss(der):
            raise pss_refusal()


def is_for_pss(der: bytes) -> bool:
    """Say whether a PrivateKeyInfo or SubjectPublicKeyInfo is of a key for RSASSA-PSS alone."""
    return _PSS in der[:_ALGORITHM_BYTES]


def jwk_of_pem(untrusted_pem: bytes) -> dict[str, str]:
    """Return the public key of a PEM as a JWK, which is still to be checked as any other.

    Raises:
        KeyRefused: ``key.private_material``, ``key.malformed``, ``key.unsupported``,
            ``key.weak_rsa``.
    """
    labels = pem_labels(untrusted_pem)
    if any(label in PRIVATE_LABELS for label in labels):
        raise KeyRefused(
            "key.private_material",
            "this is a private key, expected the public key",
            hint="Write its public key: openssl pkey -in FILE -pubout -out public.pem.",
        )
    if len(labels) > 1:  # the first alone would be read
        raise KeyRefused("key.malformed", f"this PEM has {len(labels)} parts, expected one key")
    refuse_pss(untrusted_pem)
    try:
        native = load_pem_public_key(untrusted_pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise KeyRefused(
            "key.malformed",
            "this is no public key in PEM",
            hint="Of a certificate: openssl x509 -in FILE -pubkey -noout -out public.pem.",
        ) from exc
    kinds = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey
    if not isinstance(native, kinds):
        raise KeyRefused("key.unsupported", "expected an EC, RSA or Ed25519 key")
    if isinstance(native, rsa.RSAPublicKey):  # before joserfc warns of it
        refuse_weak(native.public_numbers().n, native.public_numbers().e)
    members = jose_key(native, "RS256").as_dict(private=False)
    return {name: str(members[name]) for name in PUBLIC_MEMBERS if name in members}
