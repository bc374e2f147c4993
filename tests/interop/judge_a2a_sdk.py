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
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from platform import python_version
from typing import Any, Final, TypeAlias

import httpx
from a2a.client.card_resolver import A2ACardResolver, parse_agent_card
from a2a.types import AgentCard
from a2a.utils.signing import (
    ProtectedHeader,
    _canonicalize_agent_card,  # it has no public name, and tells where two payloads part
    create_agent_card_signer,
    create_signature_verifier,
)
from descriptor import describe_messages
from google.protobuf.json_format import ParseDict
from jwt import PyJWK
from jwt.exceptions import PyJWTError

Json: TypeAlias = dict[str, Any]
Verifier: TypeAlias = Callable[[AgentCard], None]

ORIGIN: Final = "https://agent.invalid"
DEFAULT_ALGORITHMS: Final = ["ES256", "RS256"]


class BadRequest(ValueError):
    """A request that does not follow the protocol."""


class UnknownKey(PyJWTError):
    """No usable key for a ``kid``; the SDK skips a signature on a PyJWTError only."""


# --- requests ---------------------------------------------------------------


def text_member(request: Json, name: str) -> str:
    """The string member ``name``, which must be there."""
    value = request.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"{name!r} must be a string")
    return value


def object_member(request: Json, name: str) -> Json:
    """The object member ``name``, which must be there."""
    value = request.get(name)
    if not isinstance(value, dict):
        raise BadRequest(f"{name!r} must be an object")
    return value


def algorithms_of(request: Json) -> list[str]:
    """The allowlist of the request, or the default."""
    value = request.get("algorithms", DEFAULT_ALGORITHMS)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise BadRequest("'algorithms' must be an array of strings")
    return value


def reader_of(request: Json) -> Callable[[str, Verifier], None]:
    """The way in which the request wants the card read."""
    path = request.get("path", "plain")
    if path == "plain":
        return read_plain
    if path == "resolver":
        return read_with_resolver
    raise BadRequest("'path' must be 'plain' or 'resolver'")


# --- verifying --------------------------------------------------------------


def key_provider(jwks: Json) -> Callable[[str | None, str | None], PyJWK]:
    """A provider that knows the keys of ``jwks`` by ``kid`` and ignores ``jku``."""
    keys = jwks.get("keys")
    if not isinstance(keys, list):
        raise BadRequest("'jwks' must hold an array 'keys'")

    def provide(kid: str | None, _jku: str | None) -> PyJWK:
        for key in keys:
            if isinstance(key, dict) and "kid" in key and key["kid"] == kid:
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


def is_callable(card: AgentCard) -> bool:
    """Whether a client could be built: some interface has a url."""
    return any(interface.url for interface in card.supported_interfaces)


def verdict_on(request: Json) -> Json:
    """Read and verify the card of a request: the outcome, why, and whether a client could be."""
    text, read = text_member(request, "card"), reader_of(request)
    verify = create_signature_verifier(
        key_provider(object_member(request, "jwks")), algorithms_of(request)
    )
    parsed: list[AgentCard] = []

    def verifier(card: AgentCard) -> None:
        parsed.append(card)
        verify(card)

    outcome, why = "accepted", ""
    try:
        read(text, verifier)
    except Exception as error:  # noqa: BLE001 - the SDK lets many types escape
        outcome, why = "refused" if parsed else "cannot-parse", describe(error)
    return {"outcome": outcome, "why": why, "callable": bool(parsed) and is_callable(parsed[0])}


# --- signing ----------------------------------------------------------------


def signature_over(text: str, jwk: Json, header: ProtectedHeader) -> dict[str, str]:
    """The SDK's signature over the card, made as a server of the SDK makes it."""
    sign = create_agent_card_signer(signing_key(json.dumps(jwk), header["alg"]), header)
    made = sign(parse_agent_card(json.loads(text))).signatures[-1]
    return {"protected": made.protected, "signature": made.signature}


@cache
def signing_key(jwk: str, alg: str | None) -> PyJWK:
    """The private key; kept, since reading an RSA key takes longer than all that follows."""
    return PyJWK.from_dict(json.loads(jwk), algorithm=alg)


def header_of(request: Json) -> ProtectedHeader:
    """The protected header that the request wants; members not asked for stay away.

    Given as None, the SDK would sign a literal `"jku":null`; without `typ` it writes its own.
    """
    header = {"kid": text_member(request, "kid"), "alg": text_member(request, "alg")}
    if request.get("typ", "JOSE") is not None:
        header["typ"] = text_member({"typ": "JOSE", **request}, "typ")
    return header  # type: ignore[return-value]


# --- explaining -------------------------------------------------------------


def parse_unconverted(document: Json) -> AgentCard:
    """Without the rewriting of 0.3 members that `parse_agent_card` does first."""
    return ParseDict(document, AgentCard(), ignore_unknown_fields=True)


def parser_of(request: Json) -> Callable[[Json], AgentCard]:
    """The way in which the request wants the card parsed."""
    if request.get("path") == "unconverted":
        return parse_unconverted
    reader_of(request)  # any other path leads through the same parser, or does not exist
    return parse_agent_card


# --- the protocol -----------------------------------------------------------


def do_sign(request: Json) -> Json:
    text = text_member(request, "card")
    signature = signature_over(text, object_member(request, "jwk"), header_of(request))
    return {"signature": signature}


def do_canonicalize(request: Json) -> Json:
    text, read = text_member(request, "card"), parser_of(request)
    try:
        return {"payload": _canonicalize_agent_card(read(json.loads(text)))}
    except Exception as error:  # noqa: BLE001 - the SDK lets many types escape
        return {"payload": None, "why": describe(error)}


def do_schema(_request: Json) -> Json:
    root = AgentCard.DESCRIPTOR
    return {"root": root.name, "messages": describe_messages(root)}


def do_version(_request: Json) -> Json:
    beside = {name: version(name) for name in ("protobuf", "PyJWT", "cryptography")}
    return {
        "name": "a2a-sdk",
        "version": version("a2a-sdk"),
        "beside": {"Python": python_version(), **beside},
    }


ACTIONS: Final[dict[str, Callable[[Json], Json]]] = {
    "verify": verdict_on,
    "sign": do_sign,
    "canonicalize": do_canonicalize,
    "schema": do_schema,
    "version": do_version,
}


def answer(line: bytes) -> Json:
    """The answer to one line, whatever it holds."""
    try:
        request = json.loads(line.decode("utf-8"))
        if not isinstance(request, dict):
            raise BadRequest("a request must be a JSON object")
        action = ACTIONS.get(text_member(request, "do"))
        if action is None:
            raise BadRequest(f"'do' must be one of {', '.join(ACTIONS)}")
        return action(request)
    except Exception as error:  # noqa: BLE001 - a judge answers every line
        return {"error": describe(error)}


def describe(error: BaseException) -> str:
    """The type and message of ``error``, in one string."""
    return f"{type(error).__name__}: {error}"


def main() -> None:
    """Answer each line of stdin on stdout until stdin ends."""
    # The SDK warns about every card that lacks a required member; a driver
    # that does not drain stderr would block on it.
    logging.disable(logging.CRITICAL)
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
