"""The algorithms of signatures, in one table (RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2.2).

A card may be signed with any of them, unless a policy narrows the list. cardsign signs cards with
ES256, RS256 and EdDSA, and statements with ES256 and RS256. HMAC and ``none`` are not here, so
whatever a caller names, they are never accepted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, TypeAlias, get_args

#: What cardsign makes keys for and signs cards with.
SigningAlg: TypeAlias = Literal["ES256", "RS256", "EdDSA"]
#: What a card's signature can be verified by.
VerifyAlg: TypeAlias = Literal[
    "ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"
]


#: By algorithm: `kty` and `crv` of its keys, and the bytes of a signature; 0: as many as the RSA
#: modulus has. Refusals list the algorithms in this order.
ALGORITHMS: Final[dict[VerifyAlg, tuple[str, str, int]]] = {
    "ES256": ("EC", "P-256", 64),
    "ES384": ("EC", "P-384", 96),
    "ES512": ("EC", "P-521", 132),
    "EdDSA": ("OKP", "Ed25519", 64),
    "RS256": ("RSA", "", 0),
    "RS384": ("RSA", "", 0),
    "RS512": ("RSA", "", 0),
    "PS256": ("RSA", "", 0),
    "PS384": ("RSA", "", 0),
    "PS512": ("RSA", "", 0),
}
#: The other name of EdDSA with a key on Ed25519, in headers and JWKs (RFC 9864 2.2).
ED25519: Final = "Ed25519"
#: What statements are signed with, hence the keys of the roles root, release and recovery.
STATEMENT_ALGORITHMS: Final[tuple[VerifyAlg, ...]] = ("ES256", "RS256")
SIGNING_ALGORITHMS: Final[tuple[SigningAlg, ...]] = get_args(SigningAlg)


def named(alg: object, among: Collection[str]) -> VerifyAlg | None:
    """Return the algorithm that the `alg` of a header or JWK means, or None.

    It is one of the table, whatever else is in `among`.
    """
    name = "EdDSA" if alg == ED25519 else alg
    return name if isinstance(name, str) and name in ALGORITHMS and name in among else None
