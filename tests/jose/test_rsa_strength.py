"""RSA numbers that a stranger could factor, or whose size is the attack, are refused."""

from __future__ import annotations

import math
import random

import pytest

from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.jwk import EXPONENT, refuse_shared_primes, refuse_weak
from cardsign.jose.keys import PrivateKey, PublicKey

PRIMES = [n for n in range(2, 10_000) if all(n % d for d in range(2, math.isqrt(n) + 1))]


def rough(bits: int) -> int:
    """A number of exactly `bits` bits that no prime below 10,000 divides."""
    number = random.Random(bits).getrandbits(bits) | 1 << (bits - 1) | 1
    while math.gcd(number, math.prod(PRIMES)) != 1:
        number += 2
    return number


def times(factor: int) -> int:
    """A number of 2048 bits of which `factor` is the least divisor."""
    return factor * rough(2049 - factor.bit_length())


def jwk(modulus: int, exponent: int = EXPONENT) -> dict[str, str]:
    """The JWK of these numbers, however bad they are."""
    n, e = (number.to_bytes((number.bit_length() + 7) // 8) for number in (modulus, exponent))
    return {"kty": "RSA", "n": base64url.encode(n), "e": base64url.encode(e)}


def roca() -> int:
    """A number as the flawed generator of CVE-2017-15361 makes them."""
    primorial = math.prod(prime for prime in PRIMES if prime <= 701)
    number = pow(65537, 12345, primorial) + primorial * random.Random(1).getrandbits(1000)
    number += primorial << (2047 - primorial.bit_length() + 1)
    while math.gcd(number, math.prod(PRIMES)) != 1:
        number += primorial
    return number


WEAK = {
    "1024 bits": (rough(1024), EXPONENT),
    "1536 bits": (rough(1536), EXPONENT),
    "one bit short of 2048": (rough(2047), EXPONENT),
    "one bit beyond 8192": (rough(8193), EXPONENT),
    "16384 bits": (rough(16384), EXPONENT),
    "exponent 1": (rough(2048), 1),
    "exponent 2": (rough(2048), 2),
    "exponent 3": (rough(2048), 3),
    "exponent 2^16": (rough(2048), 2**16),
    "exponent 65539": (rough(2048), 65539),
    "exponent of 2048 bits": (rough(2048), rough(2048) - 2),
    "even": (times(2), EXPONENT),
    "divisible by 3": (times(3), EXPONENT),
    "divisible by 9973": (times(9973), EXPONENT),
    "the ROCA flaw": (roca(), EXPONENT),
}


def test_the_divisor_is_named() -> None:
    """The smallest of several, so that anybody can check it."""
    with pytest.raises(KeyRefused, match=r"divisible by 7\b"):
        refuse_weak(7 * 31 * rough(2041), EXPONENT)


@pytest.mark.parametrize(("modulus", "exponent"), WEAK.values(), ids=WEAK)
def test_weak(modulus: int, exponent: int) -> None:
    """A weak key is refused before it becomes a key."""
    with pytest.raises(KeyRefused) as refusal:
        PublicKey.from_jwk(jwk(modulus, exponent))
    assert refusal.value.code == "key.weak_rsa"
    assert refusal.value.path == ("/n" if exponent == EXPONENT else "/e")


@pytest.mark.parametrize("bits", [2048, 2049, 8191, 8192])
def test_length_at_the_limits(bits: int) -> None:
    """The limits themselves are accepted, in a JWK too."""
    refuse_weak(rough(bits), EXPONENT)
    assert PublicKey.from_jwk(jwk(rough(bits))).native.key_size == bits


def test_the_flaw_only() -> None:
    """What is refused in a ROCA modulus is the flaw: its neighbour without it passes."""
    neighbour = roca() + 2
    while math.gcd(neighbour, math.prod(PRIMES)) != 1:
        neighbour += 2
    refuse_weak(neighbour, EXPONENT)


def test_length_is_checked_first() -> None:
    """A modulus too long is not even decoded: this one could not be."""
    with pytest.raises(KeyRefused, match="more than 8192 bits"):
        PublicKey.from_jwk({"kty": "RSA", "n": "*" * 1_000_000, "e": "AQAB"})


def test_generated_keys_pass() -> None:
    """What we generate, we accept; 3072 bits and the one exponent."""
    made = PrivateKey.generate("RS256").public
    numbers = made.numbers
    assert numbers["e"] == "AQAB"
    assert len(base64url.decode(numbers["n"])) * 8 == 3072
    assert PublicKey.from_jwk(numbers).thumbprint == made.thumbprint


def test_shared_prime() -> None:
    """Two moduli with a common prime are refused, wherever the two stand."""
    shared, first, second = rough(1024), rough(1025), rough(1026)
    with pytest.raises(KeyRefused) as refusal:
        refuse_shared_primes([shared * first, rough(2048), shared * second])
    assert refusal.value.code == "jwks.shared_prime"


def test_no_shared_prime() -> None:
    """Coprime moduli pass, also where one of them stands twice."""
    refuse_shared_primes([rough(2048), rough(2049), rough(2050), rough(2048)])
    refuse_shared_primes([])
