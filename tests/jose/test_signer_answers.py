"""DER and raw ECDSA signatures, and what a signer's wrong answer turns out to be."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import SignerFault
from cardsign.jose import PrivateKey, check_answer, raw_from_der
from tests.support import der_from_raw

DATA = b"protected.payload"


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
    pss = rsa._native.sign(DATA, PSS(MGF1(SHA256()), 32), SHA256())
    for key in (elliptic, rsa):
        check_answer(key.public, DATA, key.sign(DATA))
    for key, answer, words in (
        (elliptic, der_from_raw(elliptic.sign(DATA)), "in DER, expected r and s"),
        (elliptic, der_from_raw(other.sign(DATA)), "in DER, and by another key"),
        (elliptic, other.sign(DATA), "does not fit"),
        (elliptic, b"", "0 bytes, expected 64"),
        (rsa, pss, "padded by PSS"),
        (rsa, rsa.sign(DATA)[1:], "383 bytes, expected 384"),
        (rsa, rsa.sign(DATA + b"."), "does not fit"),
    ):
        with pytest.raises(SignerFault, match=words) as caught:
            check_answer(key.public, DATA, answer)
        assert caught.value.code == "signer.wrong_key"
