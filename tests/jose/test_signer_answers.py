"""DER and raw ECDSA signatures, and what a signer's wrong answer turns out to be."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import SignerFault
from cardsign.jose.keys import PrivateKey, check_answer, raw_from_der
from tests.jose.explicit_making import input_of
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
