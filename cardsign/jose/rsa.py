"""Which RSA numbers we accept: nothing that a laptop, or a known flaw, can factor.

Checked here are length, exponent, small factors, the generator flaw known as ROCA
(CVE-2017-15361) and primes that two keys share. Not checked: that a modulus has exactly two
prime factors, or two that lie far apart.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Final

from cardsign.errors import KeyRefused

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
    if _has_roca_flaw(modulus):
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


def _has_roca_flaw(modulus: int) -> bool:
    return all(modulus % prime in powers for prime, powers in _powers_of_the_flaw())


@functools.cache
def _powers_of_the_flaw() -> tuple[tuple[int, frozenset[int]], ...]:
    return tuple(
        (prime, frozenset(pow(65537, exponent, prime) for exponent in range(prime - 1)))
        for prime in _small_primes()
        if prime <= _ROCA_PRIMES_UP_TO
    )
