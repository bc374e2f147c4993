"""Signing statements: from a drafted payload to a JWS in General JSON, one signer at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cardsign.errors import KeyRefused, SigningRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.jws import Signer, sign_payload
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE, Envelope, Typ, read_envelope
from cardsign.statements.keyset import keyset_of
from cardsign.statements.release import release_of

# What a payload must be before it is signed: nothing else may ever carry that typ (K12).
_READERS: Final[Mapping[Typ, Callable[[Envelope], object]]] = {
    TYP_KEYSET: keyset_of,
    TYP_RELEASE: release_of,
}


def sign_statement(payload: bytes, signers: Iterable[Signer], typ: Typ) -> bytes:
    """Sign the payload of a statement, in the form of RFC 8785, with each signer once.

    Returned is the statement as a file, ending in a newline. Not checked: that the signers are
    those whom the statement needs.

    Raises:
        KeyRefused: ``key.unsupported``: a signer's key is for what signs no statement. No signer
            has been asked by then.
        SigningRefused: ``sign.no_key``; ``sign.header_too_long``.
        StatementRefused: The payload is no statement of that typ, or the result is too large.
        SignerFault: ``signer.wrong_key``, or what a signer itself raises.
    """
    asked = tuple(signers)
    if not asked:
        raise SigningRefused("sign.no_key", "a statement needs at least one signer")
    return _signed(Envelope(typ, payload, ()), asked)


def add_signatures(untrusted_statement: bytes, signers: Iterable[Signer], typ: Typ) -> bytes:
    """Sign a statement once more; signatures under the same keys are replaced, others are kept.

    Kept ones are not verified, as their keys are not known here.

    Raises:
        CardsignError: As :func:`sign_statement`; no signers are no fault.
    """
    return _signed(read_envelope(untrusted_statement, typ), tuple(signers))


def _signed(envelope: Envelope, signers: tuple[Signer, ...]) -> bytes:
    typ, payload = envelope.typ, envelope.payload
    _READERS[typ](envelope)
    for key in (signer.public for signer in signers):
        if key.alg not in STATEMENT_ALGORITHMS:  # what signs cards may sign by more (E11)
            raise KeyRefused(
                "key.unsupported",
                f"the key {key.kid!r} is for {key.alg}, "
                f"expected {' or '.join(STATEMENT_ALGORITHMS)} to sign a statement",
                path="/alg",
            )
    new = {signer.public.thumbprint for signer in signers}
    entries: list[Mapping[str, object]] = [
        signature.to_json() for signature in envelope.signatures if signature.kid not in new
    ]
    entries += [
        sign_payload(payload, signer, typ=typ, kid=signer.public.thumbprint) for signer in signers
    ]
    document = {"payload": base64url.encode(payload), "signatures": entries}
    data = json.dumps(document, indent=2).encode("ascii") + b"\n"
    read_envelope(data, typ)  # what we write, everybody can read
    return data
