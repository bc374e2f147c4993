"""The cards that are put to every judge: the shared ones, and random ones, each its seed's.

The shared ones are real cards of public repositories, and ones made to provoke.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from cardsign import CardsignError
from cardsign.card.document import Card
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.values import Json
from tests.spoilt_cards import spoilt_card

GROUPS: Final = ("real 0.3", "real 1.0", "real mixed", "real other", "provocative")


@dataclass(frozen=True, slots=True)
class Sample:
    """One file that is, or claims to be, an Agent Card.

    Attributes:
        file: Its name in the collection.
        group: One of `GROUPS`; ``real other`` holds what is of no A2A version, or unreadable.
        data: Its bytes.
    """

    file: str
    group: str
    data: bytes

    @property
    def document(self) -> Mapping[str, Json] | None:
        """The card as we read it, or None where we refuse to."""
        try:
            return Card.from_bytes(self.data).document
        except CardsignError:
            return None


def load_samples(shared: Path) -> tuple[Sample, ...]:
    """Every card of the collection, the real ones first."""
    real = sorted((shared / "corpus" / "cards").glob("[0-9]*"))
    provocative = sorted((shared / "interop" / "cards").glob("*.json"))
    return (
        *(Sample(path.name, f"real {_group(_read(path))}", _read(path)) for path in real),
        *(Sample(path.name, "provocative", _read(path)) for path in provocative),
    )


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _group(data: bytes) -> str:
    try:
        a2a_version = Card.from_bytes(data).a2a_version
    except CardsignError:
        return "other"
    return "other" if a2a_version == "none" else a2a_version


CLASSES: Final = (*GROUPS, "random 0.3", "random 1.0", "random mixed")

#: Of the random cards.
_SHARES: Final = {"1.0": 0.6, "0.3": 0.2, "mixed": 0.2}
#: Likewise; the others lack what they lack, and many an SDK cannot read them.
_COMPLETE: Final = 0.75
_URL: Final = "https://agent.example/a2a"
_SCHEMAS: Final = {"1.0": (CARD_1_0,), "0.3": (CARD_0_3,), "mixed": (CARD_1_0, CARD_0_3)}
#: A2A 0.3 marks nothing in a scheme as REQUIRED that depends on its type, and every reader does.
_SCHEMES_0_3: Final[tuple[dict[str, Any], ...]] = (
    {"type": "apiKey", "in": "header", "name": "x-key"},
    {"type": "http", "scheme": "bearer"},
    {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": _URL, "scopes": {"a": "b"}}}},
    {"type": "openIdConnect", "openIdConnectUrl": _URL},
    {"type": "mutualTLS"},
)
_INTERFACES: Final = ("supportedInterfaces", "supported_interfaces", "additionalInterfaces")


def population(shared: Path, random_cards: int) -> Iterator[Sample]:
    """Every card that is to be judged, the shared ones first."""
    yield from load_samples(shared)
    wanted = {a2a_version: round(share * random_cards) for a2a_version, share in _SHARES.items()}
    for seed in count():
        if not any(wanted.values()):
            return
        card = random_card(seed)
        a2a_version = _a2a_version(card)
        if wanted[a2a_version]:
            wanted[a2a_version] -= 1
            data = json.dumps(card, ensure_ascii=False).encode()
            yield Sample(f"random {seed}", f"random {a2a_version}", data)


def random_card(seed: int) -> dict[str, Any]:
    """A card with a name and endpoints, without which we sign none; spoilt in some places."""
    card, random = spoilt_card(seed), Random(f"completed {seed}")  # independent of each other
    a2a_version = _a2a_version(card)
    if random.random() < _COMPLETE:
        for schema in _SCHEMAS[a2a_version]:
            _complete(card, schema)
        if a2a_version != "1.0":
            _secure(card, random)
    card.setdefault("name", "Tides")
    if a2a_version == "1.0":
        card.setdefault("supportedInterfaces", [{}])
    else:
        card["url"] = _URL
    for name in _INTERFACES:
        for one in _elements(card.get(name)):
            if isinstance(one, dict):
                one["url"] = _URL
    return card


def _a2a_version(card: dict[str, Any]) -> str:
    try:
        a2a_version = Card.from_bytes(json.dumps(card).encode()).a2a_version
    except CardsignError:
        return "1.0"
    return "1.0" if a2a_version == "none" else a2a_version


def _complete(members: dict[str, Any], message: Message) -> None:
    """Put in what is REQUIRED and lacks, at every level, and an extension's uri."""
    for field in message.fields.values():
        name = field.snake_name if field.snake_name in members else field.name
        if field.required or field.name == "uri" or (field.oneof and not members):
            members.setdefault(name, _least(field))
        if field.message is None or field.name == "signatures":
            continue
        for child in _elements(members.get(name)) if field.shape != "one" else [members.get(name)]:
            if isinstance(child, dict):
                _complete(child, field.message)


def _secure(card: dict[str, Any], random: Random) -> None:
    """Schemes and requirements that a reader of A2A 0.3 understands, where there are any."""
    if "securitySchemes" in card:
        card["securitySchemes"] = {"a": dict(random.choice(_SCHEMES_0_3))}
    for holder in (card, *_elements(card.get("skills"))):
        if isinstance(holder, dict) and "security" in holder:
            holder["security"] = [{"a": random.choice(([], ["b"]))}]


def _least(field: Field) -> Any:
    one: Any = {"string": "a", "bool": True}.get(field.kind, {})
    return {"list": [one], "map": {"a": one}}.get(field.shape, one)


def _elements(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
