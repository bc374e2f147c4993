"""A judge: the official Python SDK (a2a-sdk) signs and verifies Agent Cards.

Reads one JSON request a line on stdin and writes one JSON answer a line on
stdout, in the same order; README.md beside this file holds the protocol. It is
a program of its own: it runs under an interpreter that has ``a2a-sdk[signing]``
and knows nothing of cardsign, so that a shared mistake cannot pass for agreement.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import httpx
from a2a.client.card_resolver import A2ACardResolver, parse_agent_card
from a2a.types import AgentCard
from a2a.utils.signing import (
    _canonicalize_agent_card,  # it has no public name, and tells where two payloads part
    create_agent_card_signer,
    create_signature_verifier,
)
from google.api.field_behavior_pb2 import REQUIRED, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from protocol import describe, describe_versions, serve

Json: TypeAlias = dict[str, Any]
Verifier: TypeAlias = Callable[[AgentCard], None]

ORIGIN: Final = "https://agent.invalid"


class UnknownKey(PyJWTError):
    """No usable key for a ``kid``; the SDK skips a signature on a PyJWTError only."""


# --- verifying --------------------------------------------------------------


def key_provider(keys: list[Json]) -> Callable[[str | None, str | None], PyJWK]:
    """A provider that knows the keys by ``kid`` and ignores ``jku``."""

    def provide(kid: str | None, _jku: str | None) -> PyJWK:
        for key in keys:
            if "kid" in key and key["kid"] == kid:
                return usable_key(key)
        raise UnknownKey(f"no key with kid {kid!r}")

    return provide


def usable_key(jwk: Json) -> PyJWK:
    """``jwk`` as PyJWT reads it; whatever is wrong with it becomes a PyJWTError."""
    try:
        return PyJWK.from_dict(jwk)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownKey(f"unusable key: {error}") from error


def read_plain(text: str, verifier: Verifier) -> None:
    """The steps of the SDK's resolver, without HTTP."""
    verifier(parse_agent_card(json.loads(text)))


def read_with_resolver(text: str, verifier: Verifier) -> None:
    """The SDK's resolver itself, over a transport that serves ``text``."""
    asyncio.run(resolve(text, verifier))


async def resolve(text: str, verifier: Verifier) -> None:
    """Have A2ACardResolver fetch ``text`` and verify it."""
    body = text.encode("utf-8", "surrogatepass")
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, content=body))
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        resolver = A2ACardResolver(client, ORIGIN)
        await resolver.get_agent_card(signature_verifier=verifier)


READERS: Final = {"plain": read_plain, "resolver": read_with_resolver}


def verdict_on(request: Json) -> Json:
    """Read and verify the card of a request: the outcome, why, and whether a client could be."""
    text, read = request["card"], READERS[request.get("path", "plain")]
    algorithms = request.get("algorithms", ["ES256", "RS256"])
    verify = create_signature_verifier(key_provider(request["jwks"]["keys"]), algorithms)
    parsed: list[AgentCard] = []

    def verifier(card: AgentCard) -> None:
        parsed.append(card)
        verify(card)

    outcome, why = "accepted", ""
    try:
        read(text, verifier)
    except Exception as error:  # noqa: BLE001 - the SDK lets many types escape
        outcome, why = "refused" if parsed else "cannot-parse", describe(error)
    # A client could be built where some interface has a url.
    urls = [interface.url for card in parsed[:1] for interface in card.supported_interfaces]
    return {"outcome": outcome, "why": why, "callable": any(urls)}


# --- signing ----------------------------------------------------------------


@cache
def signing_key(jwk: str, alg: str | None) -> PyJWK:
    """The private key; kept, since reading an RSA key takes longer than all that follows."""
    return PyJWK.from_dict(json.loads(jwk), algorithm=alg)


def do_sign(request: Json) -> Json:
    """The SDK's signature over the card, made as a server of the SDK makes it.

    Given as None, the SDK would sign a literal `"jku":null`; without `typ` it writes its own.
    """
    header = {"kid": request["kid"], "alg": request["alg"], "typ": request.get("typ", "JOSE")}
    header = {name: value for name, value in header.items() if value is not None}
    key = signing_key(json.dumps(request["jwk"]), request["alg"])
    sign = create_agent_card_signer(key, header)  # type: ignore[arg-type]
    made = sign(parse_agent_card(json.loads(request["card"]))).signatures[-1]
    return {"signature": {"protected": made.protected, "signature": made.signature}}


# --- what the protobuf descriptor says of a card ---------------------------

TYPES: Final = {FieldDescriptor.TYPE_STRING: "string", FieldDescriptor.TYPE_BOOL: "bool"}


def describe_messages(root: Descriptor) -> dict[str, Any]:
    """The fields of a message type and of all below it, each by name, down to Structs."""
    found: dict[str, Any] = {}
    pending = [root]
    while pending:
        message = pending.pop()
        if message.name not in found:
            found[message.name] = {field.json_name: facts(field) for field in message.fields}
            below = [value_of(field).message_type for field in message.fields]
            pending.extend(one for one in below if one not in (None, Struct.DESCRIPTOR))
    return found


def facts(field: FieldDescriptor) -> dict[str, Any]:
    """What is said of one field; the type of a map is that of its values."""
    value, oneof = value_of(field), field.containing_oneof
    return {
        "name": field.name,
        "shape": "one" if not field.is_repeated else "list" if value is field else "map",
        "type": value.message_type.name if value.message_type else TYPES[value.type],
        "required": REQUIRED in field.GetOptions().Extensions[field_behavior],
        "presence": field.has_presence,
        # proto3 `optional` is written as a oneof of one, whose name begins with "_"
        "oneof": oneof is not None and not oneof.name.startswith("_"),
    }


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """The field itself, or the values' field of the entry message that a map consists of."""
    message = field.message_type
    is_map = message is not None and message.GetOptions().map_entry
    return message.fields_by_name["value"] if is_map else field


# --- explaining -------------------------------------------------------------


def do_canonicalize(request: Json) -> Json:
    """The text that is signed, also without the rewriting of 0.3 members that comes first."""
    try:
        document = json.loads(request["card"])
        if request.get("path") == "unconverted":
            card = ParseDict(document, AgentCard(), ignore_unknown_fields=True)
        else:
            card = parse_agent_card(document)
        return {"payload": _canonicalize_agent_card(card)}
    except Exception as error:  # noqa: BLE001 - the SDK lets many types escape
        return {"payload": None, "why": describe(error)}


def do_schema(_request: Json) -> Json:
    root = AgentCard.DESCRIPTOR
    return {"root": root.name, "messages": describe_messages(root)}


def do_version(_request: Json) -> Json:
    return describe_versions("a2a-sdk", "protobuf", "PyJWT", "cryptography")


# --- the protocol -----------------------------------------------------------

ACTIONS: Final[dict[str, Callable[[Json], Json]]] = {
    "verify": verdict_on,
    "sign": do_sign,
    "canonicalize": do_canonicalize,
    "schema": do_schema,
    "version": do_version,
}


if __name__ == "__main__":
    # The SDK warns about every card that lacks a required member; a driver that does not drain
    # stderr would block on it.
    logging.disable(logging.CRITICAL)
    serve(ACTIONS)
