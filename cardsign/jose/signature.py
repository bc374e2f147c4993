"""What joserfc is called with to verify a signature, in the one way that is safe for us.

One key at a time, and the payload detached: joserfc refuses attached payloads over 128,000 bytes,
and takes the only key of a set for a signature that names none. What it does not refuse, such as
``crit`` and ``b64``, is refused before it is called: :mod:`cardsign.jose.jws`.
"""

from __future__ import annotations

from typing import Any, Final

from joserfc import jws
from joserfc.errors import UnsupportedAlgorithmError
from joserfc.registry import JWS_HEADER_REGISTRY

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
