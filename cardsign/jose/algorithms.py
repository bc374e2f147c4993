"""The algorithms of signatures, in one table (RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2.2).

A card may be signed with any of them, unless a policy narrows the list. cardsign signs cards with
ES256, RS256 and EdDSA, and statements with ES256 and RS256. HMAC and ``none`` are not here, so no
policy can name them.
"""

from __future__ import annotations

from collections.abc import Collection
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


#: The type and the curve of the keys of each, in the order in which refusals list them. The length
#: of a signature follows from the key: r and s at the full length of the curve's coordinates, 64
#: bytes for Ed25519, the length of the modulus for RSA.
ALGORITHMS: Final[dict[VerifyAlg, tuple[str, str]]] = {
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "RS256": ("RSA", ""),
    "RS384": ("RSA", ""),
    "RS512": ("RSA", ""),
    "PS256": ("RSA", ""),
    "PS384": ("RSA", ""),
    "PS512": ("RSA", ""),
}
#: The other name of EdDSA with a key on Ed25519, in headers and JWKs (RFC 9864 2.2).
ED25519: Final = "Ed25519"
STATEMENT_ALGORITHMS: Final[tuple[StatementAlg, ...]] = get_args(StatementAlg)
SIGNING_ALGORITHMS: Final[tuple[SigningAlg, ...]] = get_args(SigningAlg)


def choose(names: Collection[str]) -> tuple[VerifyAlg, ...]:
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
    return tuple([algorithm for algorithm in ALGORITHMS if algorithm in names])


def named(alg: object, among: Collection[VerifyAlg]) -> VerifyAlg | None:
    """Return the one that the `alg` of a header or JWK means, or None if it is none of these."""
    name = "EdDSA" if alg == ED25519 else alg
    return next((algorithm for algorithm in among if algorithm == name), None)
