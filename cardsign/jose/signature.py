"""One signature, verified by joserfc in the one way that is safe for us.

One key at a time, and the payload detached: joserfc refuses attached payloads over 128,000 bytes,
and takes the only key of a set for a signature that names none. What it does not refuse, such as
``crit`` and ``b64``, is refused before it is called: :mod:`cardsign.jose.jws`.
"""

from __future__ import annotations

from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.registry import JWS_HEADER_REGISTRY

from cardsign.errors import SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS

#: Bytes of a protected header's JSON. Ours have about 100, as have those of public cards; a signer
#: may add a certificate or two, which count for nothing.
MAX_HEADER_BYTES: Final = 4 * 1024
#: Bytes of a signature: that of the largest RSA key, of 8192 bits.
MAX_SIGNATURE_BYTES: Final = 1024


class _Registry(jws.JWSRegistry):
    """What joserfc verifies for us: our ten algorithms, and headers and keys of our sizes.

    joserfc's own registry refuses headers over 512 bytes and the signatures of RSA keys of 8192
    bits, and judges members, such as ``x5c``, that weigh nothing here.
    """

    max_header_length = base64url.encoded_length(MAX_HEADER_BYTES)
    max_signature_length = base64url.encoded_length(MAX_SIGNATURE_BYTES)

    def __init__(self) -> None:
        aliases = {algorithm.alias for algorithm in ALGORITHMS.values() if algorithm.alias}
        super().__init__(algorithms={*ALGORITHMS, *aliases}, strict_check_header=False)
        self.header_registry = {name: JWS_HEADER_REGISTRY[name] for name in ("alg", "kid", "typ")}

    def get_alg(self, name: str) -> Any:
        """Return the algorithm of a header, without joserfc's warning of the name EdDSA."""
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


REGISTRY: Final = _Registry()


def check_signature(
    protected: str, payload: bytes, signature: bytes, key: ECKey | OKPKey | RSAKey
) -> None:
    """Check that a key made a signature over a header and a payload (RFC 7515 5.2).

    Not checked: what the header says besides ``alg``, and whether the key is sound.

    Args:
        protected: The header, base64url, as received.
        payload: The bytes before base64url.
        signature: ECDSA: r and s at full length. RSA: PKCS #1 v1.5 or PSS. Ed25519: R and S.
        key: A public key; an RSA key names its one algorithm.

    Raises:
        SignatureRefused: ``sig.bad``.
    """
    token = f"{protected}..{base64url.encode(signature)}"
    try:
        jws.deserialize_compact(token, key, payload=payload, registry=REGISTRY)
    except (JoseError, KeyError, TypeError, ValueError) as exc:  # all that joserfc 1.8 raises
        raise SignatureRefused(
            "sig.bad", "the signature does not fit these bytes and this key", path="/signature"
        ) from exc
