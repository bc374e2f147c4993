"""The algorithms of signatures, in one table (RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2.2).

A card may be signed with any of them, unless a policy narrows the list. cardsign signs cards with
ES256, RS256 and EdDSA, and statements with ES256 and RS256. HMAC and ``none`` are not here, so no
policy can name them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from cardsign.errors import UsageFault

#: What statements are signed with, hence the keys of the roles root, release and recovery.
StatementAlg: TypeAlias = Literal["ES256", "RS256"]
#: What cardsign makes keys for and signs cards with.
SigningAlg: TypeAlias = Literal["ES256", "RS256", "EdDSA"]
#: What a card's signature can be verified by.
VerifyAlg: TypeAlias = Literal[
    "ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"
]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm: its names, and which keys are for it.

    The length of a signature follows from the key: r and s at the full length of the curve's
    coordinates, 64 bytes for Ed25519, the length of the modulus for RSA.

    Attributes:
        name: In policies, verdicts and our own JWKs.
        kty: The type of its keys.
        crv: Their curve; empty for RSA.
        alias: A second name in headers and JWKs, which means the same; empty where there is none.
    """

    name: VerifyAlg
    kty: Literal["EC", "OKP", "RSA"]
    crv: str = ""
    alias: str = ""


#: By name, in the order in which refusals list them.
ALGORITHMS: Final[dict[str, Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("ES256", "EC", "P-256"),
        Algorithm("ES384", "EC", "P-384"),
        Algorithm("ES512", "EC", "P-521"),
        Algorithm("EdDSA", "OKP", "Ed25519", alias="Ed25519"),
        Algorithm("RS256", "RSA"),
        Algorithm("RS384", "RSA"),
        Algorithm("RS512", "RSA"),
        Algorithm("PS256", "RSA"),
        Algorithm("PS384", "RSA"),
        Algorithm("PS512", "RSA"),
    )
}
STATEMENT_ALGORITHMS: Final[tuple[StatementAlg, ...]] = get_args(StatementAlg)
SIGNING_ALGORITHMS: Final[tuple[SigningAlg, ...]] = get_args(SigningAlg)


def choose(names: Collection[str]) -> tuple[Algorithm, ...]:
    """Return the algorithms of these names, in the order of the table.

    Raises:
        UsageFault: ``usage.conflict``: no name at all, or one that nobody may accept.
    """
    if not names or not ALGORITHMS.keys() >= set(names):
        refused = [f"{name!a:.20}" for name in names if name not in ALGORITHMS]
        raise UsageFault(
            "usage.conflict",
            f"{', '.join(refused) or 'no algorithm'} cannot be accepted; what can is "
            + ", ".join(ALGORITHMS),
        )
    return tuple([algorithm for name, algorithm in ALGORITHMS.items() if name in names])


def named(alg: object, among: Collection[Algorithm]) -> Algorithm | None:
    """Return the one that the `alg` of a header or JWK means, or None if it is none of these."""
    return next(
        (algorithm for algorithm in among if alg and alg in (algorithm.name, algorithm.alias)), None
    )
