"""What a signer has answered: right, or wrong and in which of the usual ways."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from cardsign.errors import SignatureRefused, SignerFault
from cardsign.jose.ecdsa import raw_from_der
from cardsign.jose.keys import PublicKey

_PSS: Final = PSS(MGF1(SHA256()), PSS.AUTO)


def check_answer(public: PublicKey, signing_input: bytes, untrusted_answer: bytes) -> None:
    """Check that `untrusted_answer` is the signature of `signing_input` that JWS wants.

    Raises:
        SignerFault: ``signer.wrong_key``, saying what the answer is if that can be seen.
    """
    try:
        public.check(signing_input, untrusted_answer)
    except SignatureRefused as exc:
        seen = _recognised(public, signing_input, untrusted_answer) or exc.message
        raise SignerFault("signer.wrong_key", f"with the key {public.kid!r}: {seen}") from exc


def _recognised(public: PublicKey, signing_input: bytes, answer: bytes) -> str:
    match public.native:
        case EllipticCurvePublicKey():
            try:
                raw = raw_from_der(answer, size=public.signature_bytes // 2)
            except ValueError:
                return ""
            try:
                public.check(signing_input, raw)
            except SignatureRefused:
                return "the signature is in DER, and by another key"
            return "the signature is in DER, expected r and s of 32 bytes each"
        case RSAPublicKey() as native:
            try:
                native.verify(answer, signing_input, _PSS, SHA256())
            except InvalidSignature:
                return ""
            return "the signature is padded by PSS, expected PKCS #1 v1.5"
    return ""
