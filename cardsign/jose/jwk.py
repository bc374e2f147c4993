"""One JWK, read and written strictly (RFC 7517, RFC 7518 section 6, RFC 7638).

Two spellings of one key would be two identities, and a denylist could be walked around by the
other one. So every number is read in one spelling only: full length on a curve, shortest for
RSA. Unknown members are ignored; what a key says about its purpose is obeyed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NoReturn, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from cardsign.card.strictjson import Json
from cardsign.errors import KeyRefused
from cardsign.jose import base64url, ed25519
from cardsign.jose.algorithms import Algorithm, named
from cardsign.jose.rsa import MAX_MODULUS_BITS, refuse_weak, weak

NativePublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey
NativePrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_CURVES: Final[dict[str, ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
_CURVE_NAMES: Final = {curve.name: crv for crv, curve in _CURVES.items()}
# Of every registered key type; `priv` is that of AKP.
_PRIVATE_MEMBERS: Final = ("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv")
_MAX_MODULUS_CHARS: Final = base64url.encoded_length(MAX_MODULUS_BITS // 8)


def refuse_private_members(untrusted_jwk: Mapping[str, Json]) -> None:
    """Refuse a JWK that gives away a private half or is a shared secret.

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


def native_public_key(untrusted_jwk: Mapping[str, Json]) -> NativePublicKey:
    """The key that the public numbers of an EC, OKP or RSA JWK make.

    Raises:
        KeyRefused: ``key.malformed`` or ``key.weak_rsa``.
    """
    match untrusted_jwk["kty"]:
        case "EC":
            return _ec_key(untrusted_jwk)
        case "OKP":
            return ed25519.read_key(_decoded(untrusted_jwk, "x"))
    return _rsa_key(untrusted_jwk)


def native_private_key(jwk: Mapping[str, Json]) -> NativePrivateKey:
    """The key that the numbers of a private EC or RSA JWK make.

    An RSA key may lack its primes; if it has them, it must have all that goes with them
    (RFC 7518 6.3.2).

    Raises:
        KeyRefused: ``key.malformed``, also where the private half does not belong to the
            public one; ``key.weak_rsa``; ``key.unsupported`` (more than two primes).
    """
    try:
        if jwk["kty"] == "EC":
            point = _ec_key(jwk).public_numbers()
            scalar = scalar_member(jwk, "d", point.curve)
            return ec.EllipticCurvePrivateNumbers(scalar, point).private_key()
        public = _rsa_key(jwk).public_numbers()
        if "oth" in jwk:
            raise KeyRefused("key.unsupported", "expected an RSA key of two primes", path="/oth")
        return _rsa_private_numbers(jwk, public).private_key()
    except ValueError as exc:
        raise KeyRefused(
            "key.malformed", "the private half does not belong to the public one", path="/d"
        ) from exc


def public_numbers(native: NativePublicKey) -> dict[str, str]:
    """The members that RFC 7518 6 and RFC 8037 2 require of a public JWK, and no others."""
    if isinstance(native, Ed25519PublicKey):
        return {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": base64url.encode(native.public_bytes_raw()),
        }
    values = native.public_numbers()
    if isinstance(values, ec.EllipticCurvePublicNumbers):
        size = coordinate_bytes(values.curve)
        x, y = (base64url.encode(value.to_bytes(size)) for value in (values.x, values.y))
        return {"kty": "EC", "crv": _CURVE_NAMES[values.curve.name], "x": x, "y": y}
    n, e = (
        base64url.encode(value.to_bytes((value.bit_length() + 7) // 8))
        for value in (values.n, values.e)
    )
    return {"kty": "RSA", "n": n, "e": e}


def coordinate_bytes(curve: ec.EllipticCurve) -> int:
    """The bytes of a coordinate or scalar, which JWK and JWS write at full length."""
    return (curve.key_size + 7) // 8


def thumbprint_of(numbers: Mapping[str, str]) -> str:
    """The SHA-256 thumbprint (RFC 7638) of what :func:`public_numbers` returned."""
    text = json.dumps(dict(numbers), sort_keys=True, separators=(",", ":"))
    return base64url.encode(hashlib.sha256(text.encode("ascii")).digest())


def text_member(untrusted_jwk: Mapping[str, Json], name: str) -> str:
    """A member that must be there and be a string."""
    value = untrusted_jwk.get(name)
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
    curve = _CURVES[crv]
    x, y = (scalar_member(untrusted_jwk, name, curve) for name in ("x", "y"))
    point = ec.EllipticCurvePublicNumbers(x, y, curve)
    try:
        key = point.public_key()
    except ValueError as exc:
        raise KeyRefused(
            "key.malformed", f"x and y are no point of the curve {crv}", path="/x"
        ) from exc
    if key.public_numbers() != point:  # OpenSSL reduces a coordinate that is not below the prime
        raise KeyRefused("key.malformed", f"x or y lies outside the field of {crv}", path="/x")
    return key


def _rsa_key(untrusted_jwk: Mapping[str, Json]) -> rsa.RSAPublicKey:
    # Before it becomes a number: arithmetic with a 131,072-bit modulus is the attack.
    if len(text_member(untrusted_jwk, "n")) > _MAX_MODULUS_CHARS:
        raise weak(f"the modulus has more than {MAX_MODULUS_BITS} bits")
    modulus, exponent = (number_member(untrusted_jwk, name) for name in ("n", "e"))
    refuse_weak(modulus, exponent)
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _rsa_private_numbers(
    jwk: Mapping[str, Json], public: rsa.RSAPublicNumbers
) -> rsa.RSAPrivateNumbers:
    d = number_member(jwk, "d")
    if "p" in jwk:
        p, q, dp, dq, qi = (number_member(jwk, name) for name in ("p", "q", "dp", "dq", "qi"))
        return rsa.RSAPrivateNumbers(p, q, d, dp, dq, qi, public)
    if d >= public.n:  # a longer one would only take longer to find wrong
        _malformed("d", "is not less than the modulus")
    p, q = rsa.rsa_recover_prime_factors(public.n, public.e, d)
    dp, dq = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q)
    return rsa.RSAPrivateNumbers(p, q, d, dp, dq, rsa.rsa_crt_iqmp(p, q), public)
