"""What is signed and emitted, and what a signer's wrong answer turns out to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st
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
from cardsign.jose.keys import PrivateKey, PublicKey, check_answer, raw_from_der
from tests.jose.explicit_making import PAYLOAD, input_of
from tests.support import der_from_raw


@given(st.binary(min_size=64, max_size=64))
def test_both_forms_hold_the_same(raw: bytes) -> None:
    """There and back, leading zeros included."""
    assert raw_from_der(der_from_raw(raw), size=32) == raw


@pytest.mark.parametrize(
    "der",
    [
        pytest.param("", id="nothing"),
        pytest.param("3006020101020101ff", id="one byte more"),
        pytest.param("30060201010201", id="one byte less"),
        pytest.param("300702020001020101", id="a number with a needless zero"),
        pytest.param("308106020101020101", id="a length in the long form"),
        pytest.param("30060201ff020101", id="a negative number"),
        pytest.param("3027022200" + "ff" * 33 + "020101", id="a number of 33 bytes"),
        pytest.param("c2" * 64, id="r and s"),
    ],
)
def test_what_is_not_der_is_refused(der: str) -> None:
    """One form per signature."""
    with pytest.raises(ValueError, match="expected DER"):
        raw_from_der(bytes.fromhex(der), size=32)


def test_the_usual_wrong_answers_are_recognised() -> None:
    """DER, PSS and another key's are said to be that; the right answer passes."""
    elliptic, rsa, other = (PrivateKey.generate(alg) for alg in ("ES256", "RS256", "ES256"))
    of_elliptic, of_rsa = input_of(elliptic.public), input_of(rsa.public)
    pss = rsa._native.sign(of_rsa, PSS(MGF1(SHA256()), 32), SHA256())
    for key in (elliptic, rsa):
        check_answer(key.public, input_of(key.public), key.sign(input_of(key.public)))
    for key, answer, words in (
        (elliptic, der_from_raw(elliptic.sign(of_elliptic)), "in DER, expected r and s"),
        (elliptic, der_from_raw(other.sign(of_elliptic)), "in DER, and by another key"),
        (elliptic, other.sign(of_elliptic), "does not fit"),
        (elliptic, b"", "0 bytes, expected 64"),
        (rsa, pss, "padded by PSS"),
        (rsa, rsa.sign(of_rsa)[1:], "383 bytes, expected 384"),
        (rsa, rsa.sign(of_rsa + b"."), "does not fit"),
    ):
        with pytest.raises(SignerFault, match=words) as caught:
            check_answer(key.public, input_of(key.public), answer)
        assert caught.value.code == "signer.wrong_key"


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
