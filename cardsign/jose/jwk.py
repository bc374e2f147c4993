"""One JWK, read and written strictly (RFC 7517, RFC 7518 section 6, RFC 7638).

Two spellings of one key would be two identities, and a denylist could be walked around by the
other one. So every number is read in one spelling only: full length on a curve, shortest for
RSA. Unknown members are ignored; what a key says about its purpose is obeyed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NoReturn, TypeAlias, cast

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from cardsign.card.values import Json
from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import Algorithm, named

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

_SMALL_PRIMES_BELOW: Final = 10_000
# For 2048 bits and more the flawed generator makes primes, hence moduli, that are powers of
# 65537 modulo every prime up to this one; a sound modulus is so by a chance of 2^-167.
_ROCA_PRIMES_UP_TO: Final = 701


def refuse_weak(modulus: int, exponent: int) -> None:
    """Refuse an RSA public key that is too short, too long, or known to be factorable.

    Raises:
        KeyRefused: ``key.weak_rsa``, the path being the JWK member at fault.
    """
    if not MIN_MODULUS_BITS <= modulus.bit_length() <= MAX_MODULUS_BITS:
        raise weak(
            f"the modulus has {modulus.bit_length()} bits, "
            f"expected {MIN_MODULUS_BITS} to {MAX_MODULUS_BITS}"
        )
    if exponent != EXPONENT:
        raise KeyRefused(
            "key.weak_rsa", f"the exponent is not {EXPONENT}, the one accepted", path="/e"
        )
    if (factor := math.gcd(modulus, _product_of_small_primes())) != 1:
        smallest = next(prime for prime in _small_primes() if factor % prime == 0)
        raise weak(f"the modulus is divisible by {smallest}")
    if all(modulus % prime in powers for prime, powers in _powers_of_the_flaw()):
        raise weak("the modulus shows the flaw CVE-2017-15361 (ROCA) of its generator")


def refuse_shared_primes(moduli: Iterable[int]) -> None:
    """Refuse moduli of which two have a prime in common: their gcd gives both away.

    The same modulus twice is no finding.

    Raises:
        KeyRefused: ``jwks.shared_prime``.
    """
    product = 1
    for modulus in set(moduli):
        if math.gcd(modulus, product % modulus) != 1:
            raise KeyRefused(
                "jwks.shared_prime",
                "two RSA keys share a prime, so anybody can factor both",
                path="/keys",
            )
        product *= modulus


def weak(message: str) -> KeyRefused:
    """The refusal of a modulus."""
    return KeyRefused("key.weak_rsa", message, path="/n")


@functools.cache
def _small_primes() -> tuple[int, ...]:
    sieve = bytearray([1]) * _SMALL_PRIMES_BELOW
    for candidate in range(2, math.isqrt(_SMALL_PRIMES_BELOW) + 1):
        if sieve[candidate]:
            multiples = range(candidate * candidate, _SMALL_PRIMES_BELOW, candidate)
            sieve[multiples.start :: candidate] = bytes(len(multiples))
    return tuple(number for number in range(2, _SMALL_PRIMES_BELOW) if sieve[number])


@functools.cache
def _product_of_small_primes() -> int:
    return math.prod(_small_primes())


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
#: Bytes of a signature: the point R and the scalar S.
SIGNATURE_BYTES: Final = 64

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
    if not _is_on_curve(y):
        _malformed("x", "is no point of the curve Ed25519")
    if y in _SMALL_ORDER_Y:
        _malformed("x", "is a point of small order, under which anybody can sign")


def _is_on_curve(y: int) -> bool:
    """Whether x^2 = (y^2 - 1) / (d y^2 + 1) has a solution, by Euler's criterion."""
    square = y * y
    return pow((square - 1) * (_D * square + 1), (_FIELD - 1) // 2, _FIELD) != _FIELD - 1


NativePublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey
JoseKey: TypeAlias = ECKey | OKPKey | RSAKey
NativePrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey

_CURVES: Final[dict[str, ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
# Of every registered key type; `priv` is that of AKP.
_PRIVATE_MEMBERS: Final = ("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv")
_PRIMES: Final = ("p", "q", "dp", "dq", "qi")
_NUMBERS: Final = ("kty", "crv", "x", "y", "n", "e", "d", *_PRIMES)
_MAX_MODULUS_CHARS: Final = base64url.encoded_length(MAX_MODULUS_BITS // 8)


def refuse_private_members(untrusted_jwk: Mapping[str, Json]) -> None:
    """Refuse a JWK that gives away a private key or is a shared secret.

    Raises:
        KeyRefused: ``key.private_material``.
    """
    for name in _PRIVATE_MEMBERS:
        if name in untrusted_jwk:
            raise KeyRefused(
                "key.private_material",
                f"the member {name!r} is private, expected public members only",
                path=f"/{name}",
            )
    if untrusted_jwk.get("kty") == "oct":
        raise KeyRefused("key.private_material", "a key of type oct is a secret", path="/kty")


def check_purpose(
    untrusted_jwk: Mapping[str, Json], algorithms: Collection[Algorithm], *, operation: str
) -> Algorithm:
    """The one of `algorithms` that a JWK serves; it must be meant for our signatures.

    Type and curve name it, and for RSA the member ``alg``: without it, the key is for RS256.

    Raises:
        KeyRefused: ``key.unsupported``, ``key.alg_mismatch``, ``key.use``, ``key.malformed``.
    """
    algorithm = _algorithm(untrusted_jwk, algorithms)
    if "use" in untrusted_jwk and text_member(untrusted_jwk, "use") != "sig":
        raise KeyRefused("key.use", "expected a key with use=sig", path="/use")
    operations = untrusted_jwk.get("key_ops", [operation])
    if not isinstance(operations, list):
        _malformed("key_ops", "is no list")
    if operation not in operations:
        raise KeyRefused("key.use", f"expected {operation!r} among key_ops", path="/key_ops")
    return algorithm


def _algorithm(untrusted_jwk: Mapping[str, Json], algorithms: Collection[Algorithm]) -> Algorithm:
    kty = text_member(untrusted_jwk, "kty")
    fitting = [one for one in algorithms if one.kty == kty]
    if not fitting:
        types = _alternatives(one.kty for one in algorithms)
        raise KeyRefused("key.unsupported", f"expected a key of type {types}", path="/kty")
    alg = "RS256"  # of an RSA key that names none: type and curve say nothing about it
    if kty != "RSA":
        crv, curves = text_member(untrusted_jwk, "crv"), _alternatives(one.crv for one in fitting)
        fitting = [one for one in fitting if one.crv == crv]
        if not fitting:
            raise KeyRefused("key.unsupported", f"expected the curve {curves}", path="/crv")
        alg = fitting[0].name
    if "alg" in untrusted_jwk:
        alg = text_member(untrusted_jwk, "alg")
    if (algorithm := named(alg, fitting)) is None:
        expected = _alternatives(one.name for one in fitting)
        raise KeyRefused("key.alg_mismatch", f"this {kty} key is not for {expected}", path="/alg")
    return algorithm


def _alternatives(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


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
    match untrusted_jwk["kty"]:
        case "EC":
            return _ec_key(untrusted_jwk)
        case "OKP":
            check_point(_decoded(untrusted_jwk, "x"))
            members = _members(untrusted_jwk, "kty", "crv", "x")
            return cast(Ed25519PublicKey, OKPKey.import_key(members).public_key)
    return _rsa_key(untrusted_jwk)


def native_private_key(jwk: Mapping[str, Json]) -> NativePrivateKey:
    """The key that the numbers of a private EC, OKP or RSA JWK make.

    An RSA key may lack its primes; if it has them, it must have all that goes with them
    (RFC 7518 6.3.2).

    Raises:
        KeyRefused: ``key.malformed``, also where the private key does not belong to the
            public one; ``key.weak_rsa``; ``key.unsupported`` (more than two primes).
    """
    public = native_public_key(jwk)
    members = {name: jwk[name] for name in _NUMBERS if name in jwk}
    reader: type[ECKey | RSAKey | OKPKey]
    if isinstance(public, ec.EllipticCurvePublicKey):
        reader = ECKey
        scalar_member(jwk, "d", public.curve)
    elif isinstance(public, rsa.RSAPublicKey):
        reader = RSAKey
        if "oth" in jwk:
            raise KeyRefused("key.unsupported", "expected an RSA key of two primes", path="/oth")
        for name in _PRIMES if "p" in jwk else ():
            number_member(jwk, name)
        # A longer one would only take longer to find wrong.
        if number_member(jwk, "d") >= public.public_numbers().n:
            _malformed("d", "is not less than the modulus")
    else:
        reader = OKPKey
        _decoded(jwk, "d")
    try:
        private: NativePrivateKey = reader.import_key(members).private_key  # type: ignore[assignment, arg-type]
        if private.public_key() != public:
            raise ValueError
    except (JoseError, ValueError) as exc:
        raise KeyRefused(
            "key.malformed", "the private key does not belong to the public one", path="/d"
        ) from exc
    return private


def coordinate_bytes(curve: ec.EllipticCurve) -> int:
    """The bytes of a coordinate or scalar, which JWK and JWS write at full length."""
    return (curve.key_size + 7) // 8


def _members(untrusted_jwk: Mapping[str, Json], *names: str) -> dict[str, str | list[str]]:
    return {name: text_member(untrusted_jwk, name) for name in names}


def text_member(untrusted_jwk: Mapping[str, Json], name: str) -> str:
    """A member that must be there and be a string."""
    value = untrusted_jwk.get(name)
    if name == "kty" and value is None:
        hint = "Name a file that holds a key: PEM, PKCS #12 or JWK."
        raise KeyRefused("key.malformed", "this is no JWK: it has no `kty`", path="/kty", hint=hint)
    if not isinstance(value, str):
        _malformed(name, "is missing or no string")
    return value


def scalar_member(untrusted_jwk: Mapping[str, Json], name: str, curve: ec.EllipticCurve) -> int:
    """A coordinate or private scalar: base64url of exactly as many bytes as the curve's have."""
    data, expected = _decoded(untrusted_jwk, name), coordinate_bytes(curve)
    if len(data) != expected:
        _malformed(name, f"has {len(data)} bytes, expected {expected}")
    return int.from_bytes(data)


def number_member(untrusted_jwk: Mapping[str, Json], name: str) -> int:
    """A number of an RSA key: base64url of as few bytes as it needs."""
    data = _decoded(untrusted_jwk, name)
    if not data or data[0] == 0:
        _malformed(name, "is empty or starts with a zero byte, expected the shortest form")
    return int.from_bytes(data)


def _decoded(untrusted_jwk: Mapping[str, Json], name: str) -> bytes:
    try:
        return base64url.decode(text_member(untrusted_jwk, name))
    except base64url.Base64urlError as exc:
        _malformed(name, f"is not canonical unpadded base64url: {exc}")


def _malformed(name: str, fault: str) -> NoReturn:
    raise KeyRefused("key.malformed", f"the member {name!r} {fault}", path=f"/{name}")


def _ec_key(untrusted_jwk: Mapping[str, Json]) -> ec.EllipticCurvePublicKey:
    crv = text_member(untrusted_jwk, "crv")
    for name in ("x", "y"):
        scalar_member(untrusted_jwk, name, _CURVES[crv])
    members = _members(untrusted_jwk, "kty", "crv", "x", "y")
    try:
        key = ECKey.import_key(members).public_key
    except (JoseError, ValueError) as exc:
        raise KeyRefused(
            "key.malformed", f"x and y are no point of the curve {crv}", path="/x"
        ) from exc
    if ECKey.import_key(key).as_dict() != members:  # OpenSSL reduces a coordinate beyond the prime
        raise KeyRefused("key.malformed", f"x or y lies outside the field of {crv}", path="/x")
    return key


def _rsa_key(untrusted_jwk: Mapping[str, Json]) -> rsa.RSAPublicKey:
    # Before it becomes a number: arithmetic with a 131,072-bit modulus is the attack.
    if len(text_member(untrusted_jwk, "n")) > _MAX_MODULUS_CHARS:
        raise weak(f"the modulus has more than {MAX_MODULUS_BITS} bits")
    modulus, exponent = (number_member(untrusted_jwk, name) for name in ("n", "e"))
    refuse_weak(modulus, exponent)
    return RSAKey.import_key(_members(untrusted_jwk, "kty", "n", "e")).public_key
