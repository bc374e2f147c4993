"""The algorithms of signatures, in one table (RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2.2).

ES256 and RS256 are what cardsign signs with, what statements are signed with, and what a card
may be signed with unless a policy says otherwise. The others verify a card's signature where
its policy names them, and nothing else. HMAC and ``none`` are not here, so no policy can name
them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from cryptography.hazmat.primitives.asymmetric.padding import (
    MGF1,
    PSS,
    AsymmetricPadding,
    PKCS1v15,
)
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from cardsign.errors import UsageFault

#: What cardsign makes keys for and signs with.
Alg: TypeAlias = Literal["ES256", "RS256"]
#: What a card's signature can be verified by.
VerifyAlg: TypeAlias = Literal[
    "ES256", "RS256", "EdDSA", "ES384", "ES512", "PS256", "RS384", "RS512"
]

_PSS: Final = PSS(MGF1(SHA256()), salt_length=SHA256.digest_size)  # RFC 7518 3.5


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How one algorithm checks signatures, and which keys are for it.

    The length of a signature follows from the key: r and s at the full length of the curve's
    coordinates, 64 bytes for Ed25519, the length of the modulus for RSA.

    Attributes:
        name: In policies, verdicts and our own JWKs.
        kty: The type of its keys.
        crv: Their curve; empty for RSA.
        hash: Digests the signing input; part of Ed25519 itself.
        padding: Of RSA.
        alias: A second name in headers and JWKs, which means the same; empty where there is none.
    """

    name: VerifyAlg
    kty: Literal["EC", "OKP", "RSA"]
    crv: str
    hash: HashAlgorithm
    padding: AsymmetricPadding = field(default_factory=PKCS1v15)
    alias: str = ""


#: By name, in the order in which refusals list them.
ALGORITHMS: Final[dict[str, Algorithm]] = {
    one.name: one
    for one in (
        Algorithm("ES256", "EC", "P-256", SHA256()),
        Algorithm("RS256", "RSA", "", SHA256()),
        Algorithm("EdDSA", "OKP", "Ed25519", SHA512(), alias="Ed25519"),
        Algorithm("ES384", "EC", "P-384", SHA384()),
        Algorithm("ES512", "EC", "P-521", SHA512()),
        Algorithm("PS256", "RSA", "", SHA256(), _PSS),
        Algorithm("RS384", "RSA", "", SHA384()),
        Algorithm("RS512", "RSA", "", SHA512()),
    )
}
#: What counts where nobody has said otherwise: what we sign with.
DEFAULT_ALGORITHMS: Final[tuple[str, ...]] = get_args(Alg)
#: What counts only where it is named.
EXPLICIT_ALGORITHMS: Final[tuple[str, ...]] = tuple(
    name for name in ALGORITHMS if name not in DEFAULT_ALGORITHMS
)


def choose(names: Collection[str]) -> tuple[Algorithm, ...]:
    """The algorithms of these names, in the order of the table.

    Raises:
        UsageFault: ``usage.conflict``: no name at all, or one that nobody may accept.
    """
    refused = [f"{name!a:.20}" for name in names if name not in ALGORITHMS]
    if refused or not names:
        raise UsageFault(
            "usage.conflict",
            f"{', '.join(refused) or 'no algorithm'} cannot be accepted; what can is "
            + ", ".join(ALGORITHMS),
        )
    return tuple(one for one in ALGORITHMS.values() if one.name in names)


def named(alg: object, among: Collection[Algorithm]) -> Algorithm | None:
    """The one that the `alg` of a header or JWK means, or None if it is none of these."""
    return next((one for one in among if alg and alg in (one.name, one.alias)), None)
