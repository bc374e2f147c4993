"""Random cards on both sides of the border of portability: sound ones, spoilt in a few places.

Purely random cards break so many rules at once that no rule is ever decisive. These are made
sound, of A2A 1.0, of 0.3 or of both, and then spoilt nowhere, once, or a few times; a card is
its seed's, on every machine.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message

#: Cards that a property is tried on; ``.ci/run`` and ``nox -s nightly`` ask for more.
EXAMPLES: Final = int(os.environ.get("CARDSIGN_EXAMPLES", "400"))
#: Shares that the cards of one property are tried in, for more than one core.
SHARES: Final = 4

_SPOILT: Final = (0, 0, 0, 1, 1, 1, 1, 2, 4)  # places; most of the rest would be decided by chance
_TEXTS: Final = ("a", "Tides", "https://tides.example/", " ", "\x1f\n", "~1/")
_KEYS: Final = ("a", "b", "url", "list", "x-y", "type", "")
_WIDE: Final = ("é", "𝄞", "\x7f", "\uffff", "__proto__")  # some SDK or other trips over them
_NUMBERS: Final = (0, -0.0, 1, 0.5, 1.0, 5e-324, 1e-7, 0.0001, 1e16, 1e21, 2**53 - 1)
_REQUIREMENTS: Final = ("security", "securityRequirements")
_SCHEME_TYPES: Final = ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")
_ANYTHING: Final[tuple[Any, ...]] = (
    None, "", [], {}, False, True, 0, 0.5, "a", ["a"], [""], [{}], [[]], {"a": 1}, {"a": {}},
)  # fmt: skip


class _Dice(Random):
    """Chance, and the texts and free names that one card draws from."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        wide = _WIDE if self.random() < 0.5 else ()
        self.texts = (*_TEXTS, *wide)
        self.keys = (*_KEYS, *wide)


def spoilt_card(seed: int) -> dict[str, Any]:
    """The card of a seed, without signatures; it may hold two spellings of one name."""
    random = _Dice(seed)
    schemas = random.choice([(CARD_1_0,)] * 8 + [(CARD_0_3,), (CARD_1_0, CARD_0_3)])
    card: dict[str, Any] = {}
    for schema in schemas:
        card.update(_sound(schema, random))
    _make_security_sound(card, random)
    for _ in range(random.choice(_SPOILT)):
        random.choice(_WAYS)(card, random)
    return card


def spoilt_cards(share: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """One share of `EXAMPLES` cards, each with its seed; all shares together have them all."""
    for seed in range(share, EXAMPLES, SHARES):
        yield seed, spoilt_card(seed)


# ------------------------------------------------------------------ sound


def _sound(message: Message, random: _Dice) -> dict[str, Any]:
    fields = [field for field in message.fields.values() if field.name != "signatures"]
    if any(field.oneof for field in fields):
        fields = [random.choice(fields)]
    chosen = [field for field in fields if random.random() < 0.5] or [random.choice(fields)]
    random.shuffle(chosen)
    return {field.name: _value(field, random) for field in chosen}


def _value(field: Field, random: _Dice) -> Any:
    count = random.choice((1, 1, 2))
    if field.shape == "list":
        return [_one(field, random) for _ in range(count)]
    if field.shape == "map":
        return {key: _one(field, random) for key in random.sample(random.keys, count)}
    return _one(field, random)


def _one(field: Field, random: _Dice) -> Any:
    if field.message is not None:
        return _sound(field.message, random)
    if field.kind == "free":
        return {key: _free(random, 2) for key in random.sample(random.keys, random.choice((1, 2)))}
    if field.kind == "bool":
        return random.choice((True, False)) if field.presence else True
    return random.choice(random.texts)


def _make_security_sound(card: dict[str, Any], random: _Dice) -> None:
    """Give flat schemes a type, and let requirements name schemes that the card declares."""
    owners = [card, *card.get("skills", ())]
    members = [(one, name) for one in owners for name in _REQUIREMENTS if name in one]
    if members:
        card.setdefault("securitySchemes", {"a": {"httpAuthSecurityScheme": {"scheme": "a"}}})
    schemes = card.get("securitySchemes", {})
    for scheme in schemes.values():
        if not any(name.endswith("SecurityScheme") for name in scheme):
            scheme["type"] = random.choice(_SCHEME_TYPES)
    for owner, name in members:
        for requirement in owner[name]:
            named = requirement if name == "security" else requirement.get("schemes", {})
            scopes = dict(zip(schemes, [*named.values()], strict=False))
            named.clear()
            named.update(scopes)


def _free(random: _Dice, levels: int) -> Any:
    kind = random.randrange(6 if levels else 4)
    if kind == 4:
        return [_free(random, levels - 1)]
    if kind == 5:
        return {random.choice(random.keys): _free(random, levels - 1)}
    return random.choice((random.texts, _NUMBERS, (True, False), ("1", "x"))[kind])


# ------------------------------------------------------------------ spoilt


def _replace(card: dict[str, Any], random: _Dice) -> None:
    """Something else in some value's place."""
    containers = [container for container in _containers(card) if container]
    if containers:
        container = random.choice(containers)
        tokens = list(container) if isinstance(container, dict) else range(len(container))
        container[random.choice(tokens)] = _anything(random)


def _add_member(card: dict[str, Any], random: _Dice) -> None:
    """A schema member that is not there: at its default, as empty as it can be, or sound."""
    message, members = random.choice(list(_messages(CARD_1_0, card)))
    field = random.choice([one for one in message.fields.values() if one.name != "signatures"])
    hollow: Any = {"list": [], "map": {}}.get(field.shape)
    if hollow is None:
        hollow = {"string": "", "bool": False}.get(field.kind, {})
    members.setdefault(field.name, random.choice((hollow, hollow, None, _value(field, random))))


def _add_stranger(card: dict[str, Any], random: _Dice) -> None:
    """A member of some name, known or unknown, anywhere, if it is not there."""
    objects = [container for container in _containers(card) if isinstance(container, dict)]
    known = random.choice((CARD_1_0, CARD_0_3, CARD_1_0.fields["skills"].message))
    assert known is not None
    name = random.choice(("x-vendor", "Name", "__proto__", *known.fields))
    if name != "signatures":
        random.choice(objects).setdefault(name, _anything(random))


def _add_element(card: dict[str, Any], random: _Dice) -> None:
    """One more element in some list."""
    lists = [container for container in _containers(card) if isinstance(container, list)]
    if lists:
        random.choice(lists).append(_anything(random))


def _respell(card: dict[str, Any], random: _Dice) -> None:
    """Some schema member in its protobuf spelling, in its old place."""
    message, members = random.choice(list(_messages(CARD_1_0, card)))
    names = [name for name in members if name in message.fields]
    if names:
        field = message.fields[random.choice(names)]
        renamed = {
            field.snake_name if name == field.name else name: v for name, v in members.items()
        }
        members.clear()
        members.update(renamed)


_WAYS: Final = (_replace, _add_member, _add_member, _add_stranger, _add_element, _respell)


def _anything(random: _Dice) -> Any:
    return copy.deepcopy(random.choice(_ANYTHING))


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for child in value.values() if isinstance(value, dict) else value:
            yield from _containers(child)


def _messages(message: Message, members: Any) -> Iterator[tuple[Message, dict[str, Any]]]:
    """The objects of a card that are where its schema has messages."""
    if not isinstance(members, dict):
        return
    yield message, members
    for field in message.fields.values():
        value = members.get(field.name)
        if field.message is None or field.name == "signatures":
            continue
        if field.shape == "one":
            yield from _messages(field.message, value)
        elif isinstance(value, dict | list):
            for child in value.values() if isinstance(value, dict) else value:
                yield from _messages(field.message, child)
