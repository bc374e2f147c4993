"""Cards made to cost their readers more than they cost their sender, at any size.

None has more values than are read; where that many fill it no more, a text does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cardsign.card.document import MAX_CARD_VALUES
from cardsign.card.extensions import EXTENDED_URI
from cardsign.jose import base64url
from cardsign.jose.keys import PrivateKey

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


def _many(number: int, values: int = 1) -> int:
    """So many elements of so many values each, or as many as are read in one card."""
    return min(number, (MAX_CARD_VALUES - 100) // values)


def _long(size: int) -> str:
    return "n" * (size * 5 // 8)  # so that the values have the rest


def _named(name: str, levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {name: inner}
    return inner


def _nested_in(keyword: str, most: int) -> Any:
    inner: Any = {"const": 1}
    while len(json.dumps(inner)) < most:
        inner = {keyword: [inner, inner]}
    return inner


def _schema(fields: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> Any:
    whole = {"type": "object", "properties": fields, "$defs": definitions or {}}
    return {
        "skills": [
            {
                "id": "iam.check_tides",
                "skill_id": "iam.check_tides",
                "name": "Tides",
                "description": "d",
                "tags": ["sea"],
                "input_schema": whole,
                "output_schema": {"type": "object"},
            }
        ]
    }


#: A class of all characters in both cases, which takes a third of a second to compile.
_SLOW: Final = "(?i)[\x00-\U0010ffff]"
#: The beginnings of credentials, each without its end.
_ALMOST: Final = (
    *("AKIA", "ghp_", "github_pat_", "glpat-", "xoxa-", "sk_live_", "sk-ant-", "AIza", "npm_"),
    *("pypi-AgEI", "SG.", "SK", "AccountKey=", "eyJaaaaaaaa.eyJaaaaaaaa."),
)


#: What fills the card; from about how many bytes it has to make.
SHAPES: Final[dict[str, Callable[[int], Mapping[str, Any]]]] = {
    "a long name over an array": lambda size: {_long(size): [0] * _many(size * 3 // 16)},
    "a long name over nulls": lambda size: _params({_long(size): [None] * _many(size // 16)}),
    "a long name of a scheme": lambda size: {
        "securitySchemes": {_long(size): {f"{at}": 0 for at in range(_many(size // 32))}}
    },
    "a long name of a requirement": lambda size: {
        "securityRequirements": [{"schemes": {_long(size): {"list": [""] * _many(size // 8)}}}]
    },
    "an array of numbers in params": lambda size: _params({"x": [0] * _many(size // 2)}),
    "an array of long fractions": lambda size: _params(
        {"x": [1.7976931348623157e308] * _many(size // 24)}
    ),
    "an array of lists of one": lambda size: _params({"x": [[0]] * _many(size // 4, 2)}),
    "an array of small objects": lambda size: _params({"x": [{"": 0}] * _many(size // 7, 2)}),
    "a wide card": lambda size: {f"{at:x}": 0 for at in range(_many(size // 9))},
    "deep nesting": lambda size: _params({"x": [_nested(0, 24)] * _many(size // 50, 25)}),
    "deep nesting of objects": lambda size: {
        "x": [json.loads('{"a":' * 24 + "0" + "}" * 24)] * _many(size // 146, 25)
    },
    "empty skills": lambda size: {"skills": [{}] * _many(size // 3)},
    "skills with requirements of 0.3": lambda size: {
        "skills": [{"security": []}] * _many(size // 16, 2)
    },
    "many interfaces": lambda size: {"supportedInterfaces": [{"url": "u"}] * _many(size // 12, 2)},
    "many interfaces of 0.3": lambda size: {
        "url": "u",
        "additionalInterfaces": [{"url": "u"}] * _many(size // 12, 2),
        "supportedInterfaces": None,
    },
    "many schemes": lambda size: {
        "securitySchemes": {f"{at:x}": {"type": "http"} for at in range(_many(size // 24, 2))}
    },
    "a scheme of many members": lambda size: {
        "securitySchemes": {
            "s": {"type": "http", **{f"{at:x}": 0 for at in range(_many(size // 9))}}
        }
    },
    "many scopes": lambda size: {
        "securityRequirements": [{"schemes": {f"{at:x}": {}}} for at in range(_many(size // 27, 3))]
    },
    "many modes of many skills": lambda size: {
        "defaultInputModes": [f"{at:x}" for at in range(_many(size // 16, 4))],
        "skills": [{"id": f"{at:x}"} for at in range(_many(size // 40, 4))],
    },
    "many extensions": lambda size: {
        "capabilities": {"extensions": [{"uri": ""}] * _many(size // 11, 2)}
    },
    "many wrong types": lambda size: {"skills": [0] * _many(size // 2), "defaultInputModes": [0]},
    "escapes": lambda size: {"x": "\x01" * (size // 6)},
    "a long text": lambda size: {"description": "\N{EURO SIGN}" * (size // 3)},
    "texts like the marker": lambda size: _params(
        {_long(size): [EXTENDED_URI] * _many(size // 128)}
    ),
    "many markers": lambda size: {
        "capabilities": {"extensions": [{"uri": EXTENDED_URI}] * _many(size // 55, 2)}
    },
    "names of astral characters": lambda size: {
        "\N{GRINNING FACE}" * 8 + f"{at:x}": "" for at in range(_many(size // 104))
    },
    "astral names in one another": lambda size: {
        "x": _named(
            "\N{GRINNING FACE}" * (size // 600),
            24,
            {f"{at:x}": None for at in range(_many(size // 40))},
        )
    },
    "texts like tokens": lambda size: {"description": "-eyJ" * (size // 4)},
    "texts like secrets": lambda size: {
        "description": "".join(f"{one} -----BEGIN A B " for one in _ALMOST) * (size // 300)
    },
    "a url of braces": lambda size: {"supportedInterfaces": [{"url": "{" * size}]},
    "a url of parameters": lambda size: {"documentationUrl": "https://a/?" + "a=b&" * (size // 4)},
    "names like secrets": lambda size: {"_a" * (size // 4) + "_password": "x1" * (size // 8)},
    "addresses": lambda size: {"description": "http://10.1 http://[:::: " * (size // 25)},
    "patterns that compile for long": lambda size: _schema(
        {f"{at:x}": {"type": "string", "pattern": _SLOW} for at in range(_many(size // 80, 3))}
    ),
    "a pattern that matches for long": lambda size: _schema(
        {
            "x": {"type": "string", "pattern": "a?" * 64 + "a" * 64},
            "y": {"const": "n" * (size // 2)},
        }
    ),
    "schemas that refer to one another": lambda size: _schema(
        {"x": {"$ref": "#/$defs/n0"}, "y": {"const": "n" * (size // 2)}},
        {f"n{at}": {"allOf": [{"$ref": f"#/$defs/n{at + 1}"}] * 2} for at in range(24)}
        | {"n24": {}},
    ),
    "alternatives that fail on a long value": lambda size: _schema(
        {"x": {"$ref": "#/$defs/n0"}},
        {f"n{at}": {"anyOf": [{"$ref": f"#/$defs/n{at + 1}"}] * 2} for at in range(30)}
        | {"n30": {"enum": ["n" * (size // 2)]}},
    ),
    "alternatives of alternatives": lambda size: _schema(
        {"x": _nested_in("anyOf", min(size // 8, 25_000))}, {"a": {"enum": ["n" * (size // 2)]}}
    ),
    "a schema of many fields": lambda size: _schema(
        {f"{at:x}": {"type": 1} for at in range(_many(size // 24, 2))}
    ),
    "a schema of a long name": lambda size: _schema(
        {_long(size): {"properties": {f"{at:x}": {} for at in range(_many(size // 32))}}}
    ),
    "skills of many tags": lambda size: {
        "skills": [{"id": f"{at:x}", "tags": ["a"] * 8} for at in range(_many(size // 64, 11))]
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
    while room > 0:
        document = {**_CARD, **SHAPES[shape](room), "signatures": entries}
        text = json.dumps(document, separators=(",", ":")).encode()
        if len(text) <= size:
            return text.replace(
                b'"description":"', b'"description":"' + b"d" * (size - len(text)), 1
            )
        room -= max(64, (len(text) - size) // 4)
    raise ValueError(f"no card of the shape {shape!r} has only {size} bytes")
