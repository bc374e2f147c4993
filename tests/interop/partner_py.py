"""Partners who sign in Python: a2a-sdk and PyJWT, by their documentation's own examples.

A program of its own: it runs under an interpreter that has ``a2a-sdk[signing]`` and knows nothing
of cardsign. It reads one JSON object from stdin, ``{"cards": {NAME: CARD}, "keys": {ALG: JWK}}``,
and writes the signed cards to stdout, a list of ``{"by", "how", "alg", "name", "card"}``.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jwt
from a2a.client.card_resolver import parse_agent_card
from a2a.utils._jcs import canonicalize
from a2a.utils.signing import create_agent_card_signer
from google.protobuf.json_format import MessageToDict
from jwt import PyJWK, api_jws

Card: TypeAlias = dict[str, Any]


def by_a2a_sdk(card: Card, jwk: dict[str, str], header: dict[str, Any]) -> Card:
    """As a server of the SDK: parse, sign, and serve what protobuf writes."""
    key = PyJWK.from_dict(jwk)
    signer = create_agent_card_signer(signing_key=key, protected_header=header)
    return MessageToDict(signer(parse_agent_card(copy.deepcopy(card))))


def by_pyjwt_jws(card: Card, jwk: dict[str, str], header: dict[str, Any]) -> Card:
    """The canonical bytes, signed with PyJWT's JWS."""
    payload = canonicalize(card).encode()
    algorithm = header["alg"]
    key = PyJWK.from_dict(jwk)
    compact = api_jws.encode(payload, key, algorithm=algorithm, headers=header)
    return signed(card, compact)


def by_pyjwt_encode(card: Card, jwk: dict[str, str], header: dict[str, Any]) -> Card:
    """``jwt.encode(payload, key, algorithm)``, the first line of PyJWT's documentation."""
    key = PyJWK.from_dict(jwk)
    return signed(card, jwt.encode(card, key, algorithm=header["alg"], headers=header))


def signed(card: Card, compact: str) -> Card:
    """The card with what a compact JWS says besides its payload."""
    protected, _, signature = compact.split(".")
    return {**card, "signatures": [{"protected": protected, "signature": signature}]}


SIGNERS: dict[str, Callable[[Card, dict[str, str], dict[str, Any]], Card]] = {
    "a2a-sdk, create_agent_card_signer": by_a2a_sdk,
    "PyJWT, api_jws.encode of JCS bytes": by_pyjwt_jws,
    "PyJWT, jwt.encode": by_pyjwt_encode,
}


def main() -> Iterator[dict[str, Any]]:
    """Every card by every signer, under its own typ and under JOSE."""
    asked = json.load(sys.stdin)
    for by, sign in SIGNERS.items():
        for alg, jwk in asked["keys"].items():
            for how, typ in (("its own typ", {}), ("typ JOSE", {"typ": "JOSE"})):
                header = {"alg": alg, "kid": jwk["kid"], **typ}
                for name, card in asked["cards"].items():
                    made = sign(card, jwk, dict(header))
                    yield {"by": by, "how": how, "alg": alg, "name": name, "card": made}


json.dump(list(main()), sys.stdout)
