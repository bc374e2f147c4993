"""Keys and signatures of every algorithm that we verify, made by joserfc."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from cardsign.card.values import Json
from cardsign.jose.jwk import decode_base64url, encode_base64url
from cardsign.jose.keys import PublicKey

#: What headers say; Ed25519 is EdDSA by its newer name, of which alone joserfc does not warn.
HEADER_ALGS = ("Ed25519", "ES384", "ES512", "RS384", "RS512", "PS256", "PS384", "PS512")
#: With those that statements are signed by.
ALL_ALGS = ("ES256", "RS256", *HEADER_ALGS)
PAYLOAD = b'{"name":"Route planner"}'


@functools.cache
def rsa_key() -> RSAKey:
    """One for all that RSA can do: 2048 bits, so that it is made quickly."""
    return RSAKey.generate_key(2048)


@dataclass(frozen=True, slots=True)
class Made:
    """A key as joserfc holds it, and the name of its algorithm in headers."""

    alg: str
    library: ECKey | OKPKey | RSAKey

    @property
    def name(self) -> str:
        """What policies call the algorithm."""
        return "EdDSA" if self.alg == "Ed25519" else self.alg

    @property
    def private_jwk(self) -> dict[str, Json]:
        """Both halves."""
        return {**self.library.as_dict(private=True), "kid": "k", "alg": self.alg}

    @property
    def jwk(self) -> dict[str, Json]:
        """The public half as its issuer publishes it."""
        return {**self.library.as_dict(private=False), "kid": "k", "alg": self.alg}

    @property
    def public(self) -> PublicKey:
        """The public half as we read it."""
        return PublicKey.from_jwk(self.jwk)

    def sign(self, payload: bytes = PAYLOAD, **header: Any) -> dict[str, Json]:
        """An entry of `signatures`; joserfc signs by the `alg` of the header."""
        members = {"alg": self.alg, "kid": "k", "typ": "JOSE", **header}
        token = jws.serialize_compact(members, payload, self.library, algorithms=[members["alg"]])
        protected, _, signature = token.split(".")
        return {"protected": protected, "signature": signature}


@functools.cache
def made(alg: str) -> Made:
    """The key for an algorithm, one in a run."""
    if alg in ("Ed25519", "EdDSA"):
        return Made(alg, OKPKey.generate_key("Ed25519"))
    curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}.get(alg)
    return Made(alg, ECKey.generate_key(curve) if curve else rsa_key())


def input_of(key: PublicKey, payload: bytes = PAYLOAD) -> bytes:
    """What a signature by this key signs: a header of nothing but its algorithm, and a payload."""
    protected = json.dumps({"alg": key.alg}).encode()
    return f"{encode_base64url(protected)}.{encode_base64url(payload)}".encode()


def check_input(key: PublicKey, signing_input: bytes, signature: bytes) -> None:
    """Check a signature of ``protected.payload``; SignatureRefused if it does not fit."""
    protected, _, payload = signing_input.decode().partition(".")
    key.check(protected, decode_base64url(payload), signature)
