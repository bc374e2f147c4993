"""RSA numbers that a stranger could factor, or whose size is the attack, are refused."""

from __future__ import annotations

import math
import random

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from cardsign.errors import KeyRefused
from cardsign.jose.jwk import EXPONENT, decode_base64url, encode_base64url, refuse_shared_primes
from cardsign.jose.keys import PrivateKey, PublicKey

PRIMES = [n for n in range(2, 10_000) if all(n % d for d in range(2, math.isqrt(n) + 1))]


def rough(bits: int) -> int:
    """A number of exactly `bits` bits that no prime below 10,000 divides."""
    number = random.Random(bits).getrandbits(bits) | 1 << (bits - 1) | 1
    while math.gcd(number, math.prod(PRIMES)) != 1:
        number += 2
    return number


def times(factor: int) -> int:
    """A number of 2048 bits of which `factor` is the one small part."""
    return factor * rough(2049 - factor.bit_length())


def jwk(modulus: int, exponent: int = EXPONENT) -> dict[str, str]:
    """The JWK of these numbers, however bad they are."""
    n, e = (number.to_bytes((number.bit_length() + 7) // 8) for number in (modulus, exponent))
    return {"kty": "RSA", "n": encode_base64url(n), "e": encode_base64url(e)}


def roca() -> int:
    """A number as the flawed generator of CVE-2017-15361 makes them."""
    primorial = math.prod(prime for prime in PRIMES if prime <= 701)
    number = pow(65537, 12345, primorial) + primorial * random.Random(1).getrandbits(1000)
    number += primorial << (2047 - primorial.bit_length() + 1)
    while math.gcd(number, math.prod(PRIMES)) != 1:
        number += primorial
    return number


def beside_roca() -> int:
    """A neighbour of one that has not the flaw."""
    number = roca() + 2
    while math.gcd(number, math.prod(PRIMES)) != 1:
        number += 2
    return number


EXPONENTS = (1, 2, 3, 2**16, 65539, rough(2048) - 2)
WEAK = [
    *((rough(bits), EXPONENT, f"has {bits} bits") for bits in (1024, 1536, 2047)),
    *((rough(bits), EXPONENT, "more than 8192 bits") for bits in (8193, 16384)),
    *((rough(2048), exponent, "the exponent is not 65537") for exponent in EXPONENTS),
    *((times(n), EXPONENT, rf"divisible by {n}\b") for n in (2, 3, 7 * 31, 9973)),
    (roca(), EXPONENT, "ROCA"),
]


@pytest.mark.parametrize(("modulus", "exponent", "fault"), WEAK, ids=[fault for *_, fault in WEAK])
def test_weak(modulus: int, exponent: int, fault: str) -> None:
    """A weak key is refused before it becomes a key; what shows it is named."""
    with pytest.raises(KeyRefused, match=fault) as refusal:
        PublicKey.from_jwk(jwk(modulus, exponent))
    assert refusal.value.code == "key.weak_rsa"
    assert refusal.value.path == ("/n" if exponent == EXPONENT else "/e")


@pytest.mark.parametrize(
    "modulus", [*map(rough, (2048, 2049, 8191, 8192)), beside_roca()], ids=int.bit_length
)
def test_not_weak(modulus: int) -> None:
    """The limits themselves are accepted, and what has not quite the flaw."""
    assert PublicKey.from_jwk(jwk(modulus)).native.public_numbers().n == modulus


def test_length_is_checked_first() -> None:
    """A modulus too long is not even decoded: this one could not be."""
    with pytest.raises(KeyRefused, match="more than 8192 bits"):
        PublicKey.from_jwk({"kty": "RSA", "n": "*" * 1_000_000, "e": "AQAB"})


def test_generated_keys_pass() -> None:
    """What we generate, we accept; 3072 bits and the one exponent."""
    generated = PrivateKey.generate("RS256").public
    assert generated.jwk()["e"] == "AQAB"
    assert len(decode_base64url(generated.jwk()["n"])) * 8 == 3072
    assert PublicKey.from_jwk({**generated.jwk()}) == generated


def test_shared_prime() -> None:
    """Two moduli with a common prime are refused, wherever the two stand; others pass."""
    shared, first, second = rough(1024), rough(1025), rough(1026)
    keys = [
        rsa.RSAPublicNumbers(EXPONENT, modulus).public_key()
        for modulus in (shared * first, rough(2048), rough(2049), rough(2048), shared * second)
    ]
    with pytest.raises(KeyRefused) as refusal:
        refuse_shared_primes(keys)
    assert refusal.value.code == "jwks.shared_prime"
    refuse_shared_primes(keys[:-1])
    refuse_shared_primes([])
