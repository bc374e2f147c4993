"""Explanations in few words, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardsign.inspect import InspectedSignature, Inspection, inspect_card
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey
from tests.support import dump


def inspected(card: Mapping[str, Any] | bytes, *keys: PrivateKey) -> Inspection:
    """The explanation for somebody who has these keys."""
    document = card if isinstance(card, bytes) else dump(card)
    jwks = JwkSet.of(key.public for key in keys)
    return inspect_card(document, jwks=jwks)


def over(card: Mapping[str, Any], payload: bytes, key: PrivateKey) -> dict[str, Any]:
    """The card with one signature, made over any bytes at all."""
    return {**card, "signatures": [sign_payload(payload, key, typ="JOSE")]}


def only(explanation: Inspection) -> InspectedSignature:
    """The one signature of an explanation."""
    (signature,) = explanation.signatures
    return signature
