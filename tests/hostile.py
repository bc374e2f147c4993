"""Cards made to cost their readers more than they cost their sender, at any size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cardsign.card import EXTENDED_URI
from cardsign.jose import PrivateKey, base64url

KIB: Final = 1024
#: The key whose kid the copied signatures bear; every reader is told that it is the signer's.
KEY: Final = PrivateKey.generate("ES256")

_CARD: Final[dict[str, Any]] = {
    "name": "Tide tables",
    "description": "Says when the water comes",
    "version": "1.2.0",
    "supportedInterfaces": [
        {"url": "https://tides.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "t", "name": "Tides", "description": "d", "tags": ["sea"]}],
}


def entry() -> dict[str, str]:
    """A well-formed signature by the known key, over something else."""
    protected = base64url.encode(json.dumps({"alg": "ES256", "kid": KEY.public.kid}).encode())
    return {"protected": protected, "signature": base64url.encode(KEY.sign(b"something else"))}


def _params(value: Any) -> dict[str, Any]:
    return {"capabilities": {"extensions": [{"uri": "urn:x", "params": value}]}}


def _nested(inner: Any, levels: int) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def _long(size: int) -> str:
    return "n" * (size * 5 // 8)  # so that the values have the rest


#: What fills the card; from about how many bytes it has to make.
SHAPES: Final[dict[str, Callable[[int], Mapping[str, Any]]]] = {
    "a long name over an array": lambda size: {_long(size): [0] * (size * 3 // 16)},
    "a long name over nulls": lambda size: _params({_long(size): [None] * (size // 16)}),
    "a long name over objects": lambda size: _params({_long(size): [{}] * (size // 8)}),
    "a long name of a scheme": lambda size: {
        "securitySchemes": {_long(size): {f"{at}": 0 for at in range(size // 32)}}
    },
    "a long name of a requirement": lambda size: {
        "securityRequirements": [{"schemes": {_long(size): {"list": [""] * (size // 8)}}}]
    },
    "an array of numbers": lambda size: {"x": [0] * (size // 2)},
    "an array of numbers in params": lambda size: _params({"x": [0] * (size // 2)}),
    "an array of fractions": lambda size: _params({"x": [0.1] * (size // 4)}),
    "an array of long fractions": lambda size: _params(
        {"x": [1.7976931348623157e308] * (size // 24)}
    ),
    "an array of empty texts": lambda size: _params({"x": [""] * (size // 3)}),
    "an array of empty lists": lambda size: _params({"x": [[]] * (size // 3)}),
    "an array of lists of one": lambda size: _params({"x": [[0]] * (size // 4)}),
    "an array of small objects": lambda size: _params({"x": [{"": 0}] * (size // 7)}),
    "an array of half-empty objects": lambda size: _params(
        {"x": [{"": 0, "a": ""}] * (size // 14)}
    ),
    "a wide object": lambda size: _params({f"{at:x}": 0 for at in range(size // 9)}),
    "a wide card": lambda size: {f"{at:x}": 0 for at in range(size // 9)},
    "deep nesting": lambda size: _params({"x": [_nested(0, 24)] * (size // 50)}),
    "deep nesting of objects": lambda size: {
        "x": [json.loads('{"a":' * 24 + "0" + "}" * 24)] * (size // 146)
    },
    "empty tags": lambda size: {"skills": [{"id": "t", "tags": [""] * (size // 3)}]},
    "empty skills": lambda size: {"skills": [{}] * (size // 3)},
    "skills that are nothing known": lambda size: {"skills": [{"x": 0}] * (size // 8)},
    "skills with requirements of 0.3": lambda size: {"skills": [{"security": []}] * (size // 16)},
    "many interfaces": lambda size: {"supportedInterfaces": [{"url": "u"}] * (size // 12)},
    "many interfaces of 0.3": lambda size: {
        "url": "u",
        "additionalInterfaces": [{"url": "u"}] * (size // 12),
        "supportedInterfaces": None,
    },
    "many schemes": lambda size: {
        "securitySchemes": {f"{at:x}": {"type": "http"} for at in range(size // 24)}
    },
    "a scheme of many members": lambda size: {
        "securitySchemes": {"s": {"type": "http", **{f"{at:x}": 0 for at in range(size // 9)}}}
    },
    "many scopes": lambda size: {
        "securityRequirements": [{"schemes": {f"{at:x}": {}}} for at in range(size // 27)]
    },
    "many extensions": lambda size: {"capabilities": {"extensions": [{"uri": ""}] * (size // 11)}},
    "many wrong types": lambda size: {"skills": [0] * (size // 2), "defaultInputModes": [0]},
    "escapes": lambda size: {"x": "\x01" * (size // 6)},
    "a long text": lambda size: {"description": "\N{EURO SIGN}" * (size // 3)},
    "texts like the marker": lambda size: _params({_long(size): [EXTENDED_URI] * (size // 128)}),
    "many markers": lambda size: {
        "capabilities": {"extensions": [{"uri": EXTENDED_URI}] * (size // 55)}
    },
}
SIGNATURES: Final = 16


def card(shape: str, size: int, *, signatures: Sequence[Mapping[str, str]] = ()) -> bytes:
    """A card of that shape, of at most `size` bytes.

    Its signatures are those given, or as many as are read, well-formed, by the known key, over
    something else.
    """
    entries = list(signatures) or [entry()] * SIGNATURES
    room = size
    while True:
        document = {**_CARD, **SHAPES[shape](room), "signatures": entries}
        text = json.dumps(document, separators=(",", ":")).encode()
        if len(text) <= size:
            return text
        room -= max(64, len(text) - size)
