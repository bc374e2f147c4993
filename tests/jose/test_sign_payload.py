"""Signing: what is emitted, that others verify it, and what is never given out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from cardsign.errors import SignerFault, SigningRefused
from cardsign.jose import base64url
from cardsign.jose.jws import (
    MAX_EMITTED_HEADER_CHARS,
    TYP_COMPAT,
    TYP_JOSE,
    check_entry,
    read_entry,
    sign_payload,
)
from cardsign.jose.keys import PrivateKey, PublicKey

PAYLOAD = b'{"name":"Route planner"}'


@dataclass(frozen=True)
class Device:
    """A signer that answers with whatever `answer` makes of the right signature."""

    key: PrivateKey
    public: PublicKey
    answer: Callable[[bytes], bytes]

    def sign(self, signing_input: bytes) -> bytes:
        """Answer as told."""
        return self.answer(self.key.sign(signing_input))


@pytest.mark.parametrize("typ", [TYP_JOSE, TYP_COMPAT])
def test_emitted(key: PrivateKey, typ: str) -> None:
    """The header is alg, kid and typ, sorted and compact; joserfc accepts it on its defaults."""
    signed = sign_payload(PAYLOAD, key, typ=typ)
    text = base64url.decode(signed["protected"]).decode("ascii")
    assert text == f'{{"alg":"{key.public.alg}","kid":"{key.public.kid}","typ":"{typ}"}}'
    assert set(signed) == {"protected", "signature"}
    check_entry(read_entry({**signed}), PAYLOAD, key.public)
    library = RSAKey if key.public.alg == "RS256" else ECKey
    token = f"{signed['protected']}..{signed['signature']}"
    assert jws.deserialize_compact(token, library.import_key(key.public.jwk()), payload=PAYLOAD)


def test_wrong_key(es256: PrivateKey, rs256: PrivateKey) -> None:
    """A signer that holds another key than the one it is known by is found out."""
    for other in (PrivateKey.generate("ES256"), rs256):
        with pytest.raises(SignerFault, match=r"signer\.wrong_key: with the key 'es'"):
            sign_payload(PAYLOAD, Device(other, es256.public, lambda right: right), typ=TYP_JOSE)


def test_header_too_long() -> None:
    """A header that others would refuse for its length is refused before anything is signed."""
    unasked = PrivateKey.generate("ES256")
    named = PublicKey.from_jwk(unasked.public.jwk(), kid="\\" * 256)

    def answer(signature: bytes) -> bytes:
        raise AssertionError("the signer was asked")

    with pytest.raises(SigningRefused) as refusal:
        sign_payload(PAYLOAD, Device(unasked, named, answer), typ=TYP_JOSE)
    assert refusal.value.code == "sign.header_too_long"


def test_a_header_of_exactly_the_limit_is_signed() -> None:
    """512 characters of base64url are 384 bytes: each backslash of the kid is written as two."""
    plain = len(json.dumps({"alg": "ES256", "kid": "", "typ": TYP_JOSE}, separators=(",", ":")))
    kid = "\\" * 100 + "k" * (384 - plain - 200)
    key = PrivateKey.generate("ES256", kid=kid)
    signed = sign_payload(PAYLOAD, key, typ=TYP_JOSE)
    assert len(signed["protected"]) == MAX_EMITTED_HEADER_CHARS
    token = f"{signed['protected']}..{signed['signature']}"
    assert jws.deserialize_compact(token, ECKey.import_key(key.public.native), payload=PAYLOAD)
