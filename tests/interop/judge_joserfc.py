"""A judge: what somebody writes by hand with joserfc and rfc8785, without any SDK of A2A.

The payload is the card as it was served, without its signatures, in RFC 8785. Reads one JSON
request a line on stdin and writes one JSON answer a line on stdout, in the same order;
README.md beside this file holds the protocol.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import rfc8785
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import import_key
from protocol import describe, describe_versions, serve

Json: TypeAlias = dict[str, Any]

# --- the card ---------------------------------------------------------------


def parse(text: str) -> Json:
    """The card, if it is a JSON object."""
    card = json.loads(text)
    if not isinstance(card, dict):
        raise TypeError("the card is no JSON object")
    return card


def payload_of(card: Json) -> bytes:
    """RFC 8785 of the card without its signatures."""
    return rfc8785.dumps({name: value for name, value in card.items() if name != "signatures"})


def entries_of(card: Json) -> list[Any]:
    """The card's signatures, whatever they are."""
    entries = card.get("signatures")
    return entries if isinstance(entries, list) else []


def is_callable(card: Json) -> bool:
    """Whether a client could be built: an interface of 1.0 has a url, or the card of 0.3."""
    interfaces = card.get("supportedInterfaces")
    holders = [card, *interfaces] if isinstance(interfaces, list) else [card]
    return any(isinstance(one, dict) and bool(one.get("url")) for one in holders)


# --- its signatures ---------------------------------------------------------


def check(entry: Any, payload: bytes, request: Json) -> None:
    """Raise unless an entry is a signature over the payload by a key of the request."""
    token = f"{entry['protected']}.{base64url(payload)}.{entry['signature']}"
    kid = jws.extract_compact(token.encode()).headers().get("kid")
    key = next((key for key in request["jwks"]["keys"] if key.get("kid") == kid), None)
    if key is None:
        raise LookupError(f"no key with kid {kid!r}")
    algorithms = request.get("algorithms", ["ES256", "RS256"])
    jws.deserialize_compact(token, import_key(key), algorithms=algorithms)


def base64url(data: bytes) -> str:
    """Without padding, as a JWS has it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def verdict_on(request: Json) -> Json:
    """Any good signature will do."""
    try:
        card = parse(request["card"])
    except (ValueError, TypeError, RecursionError) as error:
        return {"outcome": "cannot-parse", "why": describe(error), "callable": False}
    faults = []
    for entry in entries_of(card):
        try:
            check(entry, payload_of(card), request)
        except (JoseError, LookupError, TypeError, ValueError) as error:
            faults.append(describe(error))
        else:
            return {"outcome": "accepted", "why": "", "callable": is_callable(card)}
    why = "; ".join(faults) or "no signatures"
    return {"outcome": "refused", "why": why, "callable": is_callable(card)}


# --- the protocol -----------------------------------------------------------


def do_sign(request: Json) -> Json:
    header = {"alg": request["alg"], "kid": request["kid"], "typ": "JOSE"}
    key, payload = import_key(request["jwk"]), payload_of(parse(request["card"]))
    token = jws.serialize_compact(header, payload, key, algorithms=[request["alg"]])
    protected, _, signature = token.split(".")
    return {"signature": {"protected": protected, "signature": signature}}


def do_canonicalize(request: Json) -> Json:
    return {"payload": payload_of(parse(request["card"])).decode()}


def do_version(_request: Json) -> Json:
    return describe_versions("joserfc", "rfc8785")


ACTIONS: Final[dict[str, Callable[[Json], Json]]] = {
    "verify": verdict_on,
    "sign": do_sign,
    "canonicalize": do_canonicalize,
    "version": do_version,
}


if __name__ == "__main__":
    serve(ACTIONS)
