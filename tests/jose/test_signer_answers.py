"""What is signed and emitted, and what becomes of a signer's wrong answer."""

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

from cardsign.errors import SignerFault, SigningRefused
from cardsign.jose.jwk import decode_base64url
from cardsign.jose.jws import (
    MAX_EMITTED_HEADER_CHARS,
    TYP_COMPAT,
    TYP_JOSE,
    check_entry,
    read_entry,
    sign_payload,
)
from cardsign.jose.keys import PrivateKey, PublicKey, raw_from_der
from tests.jose.explicit_making import PAYLOAD
from tests.support import der_from_raw, native


@given(st.binary(min_size=64, max_size=64))
def test_both_forms_hold_the_same(raw: bytes) -> None:
    """There and back, leading zeros included."""
    assert raw_from_der(der_from_raw(raw)) == raw


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
    with pytest.raises((ValueError, OverflowError)):
        raw_from_der(bytes.fromhex(der))


@dataclass(frozen=True)
class Device:
    """A signer known by a public key, and what it answers."""

    public: PublicKey
    sign: Callable[[bytes], bytes]


def pss_of(key: PrivateKey) -> Callable[[bytes], bytes]:
    """What signs with the right key and the wrong padding."""
    return lambda data: bytes(native(key).sign(data, PSS(MGF1(SHA256()), 32), SHA256()))


def test_wrong_answers(es256: PrivateKey, rs256: PrivateKey) -> None:
    """DER, PSS, a piece, nothing, another key's and another input's are found out; a length is
    named."""
    other = PrivateKey.generate("ES256")
    for key, answer, words in (
        (es256, lambda data: der_from_raw(es256.sign(data)), "bytes, expected 64"),
        (es256, lambda data: der_from_raw(other.sign(data)), "bytes, expected 64"),
        (es256, other.sign, "does not fit"),
        (es256, lambda data: b"", "0 bytes, expected 64"),
        (es256, rs256.sign, "256 bytes, expected 64"),
        (rs256, pss_of(rs256), "does not fit"),
        (rs256, lambda data: rs256.sign(data)[1:], "255 bytes, expected 256"),
        (rs256, lambda data: rs256.sign(data + b"."), "does not fit"),
    ):
        device, fault = Device(key.public, answer), f"with the key '{key.public.kid}': .*{words}"
        for will_verify in (False, True):  # which trusts nobody outside of this process
            with pytest.raises(SignerFault, match=rf"signer\.wrong_key: {fault}"):
                sign_payload(PAYLOAD, device, typ=TYP_JOSE, will_verify=will_verify)
    assert sign_payload(PAYLOAD, Device(es256.public, es256.sign), typ=TYP_JOSE)


@pytest.mark.parametrize("typ", [TYP_JOSE, TYP_COMPAT])
def test_emitted(key: PrivateKey, typ: str) -> None:
    """The header is alg, kid and typ, sorted and compact; joserfc accepts it on its defaults."""
    signed = sign_payload(PAYLOAD, key, typ=typ)
    text = decode_base64url(signed["protected"]).decode("ascii")
    assert text == f'{{"alg":"{key.public.alg}","kid":"{key.public.kid}","typ":"{typ}"}}'
    assert set(signed) == {"protected", "signature"}
    check_entry(read_entry({**signed}), PAYLOAD, key.public)
    token = f"{signed['protected']}..{signed['signature']}"
    assert jws.deserialize_compact(token, key.public.jose, payload=PAYLOAD)


@pytest.mark.parametrize(("escapes", "is_signed"), [(100, True), (101, False), (256, False)])
def test_length_of_the_header(escapes: int, is_signed: bool) -> None:
    """512 characters of base64url, or 384 bytes, are signed; of what others would refuse for its
    length nothing is asked of the signer. Each backslash of the kid is written as two."""
    plain = len(json.dumps({"alg": "ES256", "kid": "", "typ": TYP_JOSE}, separators=(",", ":")))
    kid = "\\" * escapes + "k" * (384 - plain - 200 if escapes < 256 else 0)
    key = PrivateKey.generate("ES256", kid=kid)
    asked: list[bytes] = []
    signer = Device(key.public, lambda data: (asked.append(data), key.sign(data))[1])
    if is_signed:
        signed = sign_payload(PAYLOAD, signer, typ=TYP_JOSE)
        assert len(signed["protected"]) == MAX_EMITTED_HEADER_CHARS
        token = f"{signed['protected']}..{signed['signature']}"
        assert jws.deserialize_compact(token, key.public.jose, payload=PAYLOAD)
    else:
        with pytest.raises(SigningRefused, match=r"sign\.header_too_long"):
            sign_payload(PAYLOAD, signer, typ=TYP_JOSE)
        assert not asked
