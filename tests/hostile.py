"""Cards made to cost their readers more than they cost their sender, at any size.

None has more values than are read; where that many fill it no more, a text does. Their shapes are
in hostile.toml.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cardsign.card.document import MAX_CARD_VALUES
from cardsign.card.extensions import EXTENDED_URI
from cardsign.card.values import count_values
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PrivateKey
from tests.support import read_cases

#: The key whose kid the copied signatures bear; every reader is told that it is the signer's.
KEY: Final = PrivateKey.generate("ES256")
SHAPES: Final[Mapping[str, str]] = read_cases(__file__)["shapes"]
_CARD: Final[Mapping[str, Any]] = read_cases(__file__)["card"]
SIGNATURES: Final = 16


def entry() -> dict[str, str]:
    """A well-formed signature by the known key, over something else."""
    protected = encode_base64url(json.dumps({"alg": "ES256", "kid": KEY.public.kid}).encode())
    return {"protected": protected, "signature": encode_base64url(KEY.sign(b"something else"))}


def _doubled(keyword: str) -> str:
    """Definitions of which each refers twice to the next one."""
    texts = (f'"n{at}":{{"{keyword}":[{{"$ref":"#/$defs/n{at + 1}"}},REF]}}' for at in range(30))
    return re.sub(r"({[^{]*}),REF", r"\1,\1", ",".join(texts))


def _nested(keyword: str, most: int) -> str:
    """A schema in which each holds the one below twice."""
    text = '{"const":1}'
    while len(text) < most:
        text = f'{{"{keyword}":[{text},{text}]}}'
    return text


_SKILL = '{"skills":[{"id":"iam.check_tides","skill_id":"iam.check_tides","name":"Tides",'
_SKILL += '"description":"d","tags":["sea"],"output_schema":{"type":"object"},"input_schema":'
#: The words of hostile.toml, by the bytes that a card has.
_WORDS: Final[dict[str, Callable[[int], str]]] = {
    "NAME": lambda size: "n" * (size * 5 // 8),  # so that the values have the rest
    "FACES": lambda size: "\N{GRINNING FACE}" * (size // 600),
    "MARKER": lambda size: EXTENDED_URI,
    "ALL_OF": lambda size: _doubled("allOf"),
    "ANY_OF": lambda size: _doubled("anyOf"),
    "NESTED": lambda size: _nested("anyOf", min(size // 8, 25_000)),
}


def _members(shape: str, size: int, count: int) -> dict[str, Any]:
    """The members of a shape, with so many repetitions of its repeated parts."""
    text = SHAPES[shape]
    if text.startswith("SCHEMA"):
        text = f"{_SKILL}{text.removeprefix('SCHEMA')}}}]}}"
    for word, long in _WORDS.items():
        text = text.replace(word, long(size))

    def repeat(part: re.Match[str]) -> str:
        separator = "," if part[0].startswith("«") else ""
        return separator.join(part[1].replace("§", f"{at:x}") for at in range(count))

    members: dict[str, Any] = json.loads(re.sub("[«‹](.*?)[»›]", repeat, text))
    return members


def card(shape: str, size: int, *, signatures: Sequence[Mapping[str, str]] = ()) -> bytes:
    """A card of that shape, of `size` bytes.

    Its signatures are those given, or as many as are read, well-formed, by the known key, over
    something else.
    """
    entries = list(signatures) or [entry()] * SIGNATURES

    def document(count: int) -> tuple[bytes, int]:
        whole = {**_CARD, **_members(shape, size, count), "signatures": entries}
        return json.dumps(whole, separators=(",", ":")).encode(), count_values(whole)

    (one, values), (two, more) = document(1), document(2)
    longest = len(two) - len(one) + 5 * SHAPES[shape].count("§")
    most = (MAX_CARD_VALUES - values) // (more - values) if more > values else size
    text, _ = document(min(max(1, (size - len(one)) // longest), most))
    if len(text) > size:
        raise ValueError(f"no card of the shape {shape!r} has only {size} bytes")
    return text.replace(b'"description":"', b'"description":"' + b"d" * (size - len(text)), 1)
