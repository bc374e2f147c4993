"""Attacks 16 and 17: RSA keys. The set comes from the URL that the policy names."""

from __future__ import annotations

import secrets
from itertools import count
from math import prod

from corpus import Corpus, fetching, jwk_set
from crafting import (
    CARD,
    is_prime,
    is_small_prime,
    prime,
    rsa_key,
    signed,
    weak_rsa_key,
)

_ROCA_PRIMES_UP_TO = 701


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_weak_rsa, _related_rsa):
        make(corpus)


def _weak_rsa(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        16,
        "weak-rsa",
        "RSA keys that can be factored, forged or used to keep a verifier busy",
        "2048 to 8192 bits and exponent 65537, told by length before any arithmetic. Every "
        "signature here that can be good is good.",
    )
    big = [prime(1024) for _ in range(3)]
    for id_, title, primes, exponent in (
        ("1024-bits", "1024 bits", [prime(512) for _ in range(2)], 65537),
        ("2047-bits", "2047 bits: one too few", [prime(1023), prime(1024)], 65537),
        ("8193-bits", "8193 bits: one too many", _one_bit_too_many(), 65537),
        ("exponent-1", "Exponent 1: the padded digest is the signature", big[:2], 1),
        ("exponent-2", "Exponent 2", big[:2], 2),
        ("exponent-3", "Exponent 3", _for_exponent_3(), 3),
        ("exponent-even", "Exponent 65536", big[:2], 65536),
        ("exponent-long", "Exponent 2^32+15", big[:2], 2**32 + 15),
        ("even", "An even modulus", [2, prime(1024), prime(1024)], 65537),
        ("factor-3", "Divisible by 3", [3, prime(1023), prime(1024)], 65537),
        ("factor-9973", "Divisible by 9973", [9973, prime(1018), prime(1018)], 65537),
    ):
        key = weak_rsa_key("harbour-rsa", primes, exponent)
        attack.bad_set(id_, title, signed(CARD, key), "key.weak_rsa", jwk_set(key))
    huge = weak_rsa_key("harbour-rsa", [prime(256) for _ in range(512)])
    attack.bad_set("131072-bits", "131,072 bits", signed(CARD, huge), "key.weak_rsa", jwk_set(huge))
    good, alone = rsa_key("harbour-rsa"), rsa_key("harbour-rsa", bits=4096)
    attack.bad_set(
        "beside",
        "A good key signs, and a weak one stands beside it",
        signed(CARD, good),
        "key.weak_rsa",
        jwk_set(good, weak_rsa_key("harbour-old", [prime(512), prime(512)])),
    )
    attack.twin("2048-bits", "2048 bits", signed(CARD, good), jwks=jwk_set(good))
    attack.twin("4096-bits", "4096 bits", signed(CARD, alone), jwks=jwk_set(alone))


def _one_bit_too_many() -> list[int]:
    """Primes whose product has exactly 8193 bits."""
    primes = [prime(1024) for _ in range(7)]
    for bits in count(1000):
        if prod([*primes, last := prime(bits)]).bit_length() == 8193:
            return [*primes, last]
    raise AssertionError


def _for_exponent_3() -> list[int]:
    found: list[int] = []
    while len(found) < 2:
        candidate = prime(1024)
        if candidate % 3 == 2:
            found.append(candidate)
    return found


def _related_rsa(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        17,
        "related-rsa",
        "RSA keys that give one another, or themselves, away",
        "Two moduli with a common prime are factored by one gcd; the generator of CVE-2017-15361 "
        "(ROCA) makes primes that can be found. Both are seen without any private half.",
    )
    shared, others = prime(1024), [prime(1024), prime(1024)]
    first = weak_rsa_key("harbour-1", [shared, others[0]])
    second = weak_rsa_key("harbour-2", [shared, others[1]])
    card = signed(CARD, first)
    attack.bad_set(
        "common",
        "Two with a common prime",
        card,
        "jwks.shared_prime",
        jwk_set(first, second),
    )
    third = rsa_key("harbour-3")
    attack.bad_set(
        "common-apart",
        "The same with a third key between them, which signs",
        signed(CARD, third),
        "jwks.shared_prime",
        jwk_set(first, third, second),
    )
    flawed = weak_rsa_key("harbour-1", [_roca_prime(), _roca_prime()])
    attack.bad_set(
        "roca", "A modulus of ROCA", signed(CARD, flawed), "key.weak_rsa", jwk_set(flawed)
    )
    attack.twin("apart", "Two that share nothing", signed(CARD, third), jwks=jwk_set(first, third))
    renamed = third.called("harbour-4")
    attack.twin(
        "same-key",
        "The same modulus under two names is no finding",
        signed(CARD, renamed),
        jwks=jwk_set(third, renamed),
    )


def _roca_prime() -> int:
    """A prime as the flawed generator makes them: k*M + (65537^a mod M)."""
    primorial = prod(n for n in range(2, _ROCA_PRIMES_UP_TO + 1) if is_small_prime(n))
    spare = 1024 - primorial.bit_length()
    while True:
        factor = secrets.randbits(spare) | 3 << (spare - 2)
        made = factor * primorial + pow(65537, secrets.randbits(64), primorial)
        if made.bit_length() == 1024 and is_prime(made):
            return made
