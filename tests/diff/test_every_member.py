"""Every member that some client reads is compared, in either half of a card and any spelling."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.card.schema import ANY_CARD, CARD_0_3, CARD_1_0, Message, respelled
from cardsign.diff import diff_cards, diff_live
from tests.diff.cases import effect_of
from tests.support import dump

#: Every member of A2A 1.0 and of 0.3, in one document that clients of both read.
CARD: dict[str, Any] = json.loads(Path(__file__).with_name("every-member.card.json").read_text())
Place = tuple[str | int, ...]


def list_places(value: Any, *above: str | int) -> Iterator[Place]:
    """Every member and element below a value."""
    for token in value if isinstance(value, dict) else range(len(value)):
        yield (*above, token)
        if isinstance(value[token], dict | list):
            yield from list_places(value[token], *above, token)


def edit(place: Place) -> Iterator[dict[str, Any]]:
    """The card without a value, and with another one there if it is no object or list."""
    card = copy.deepcopy(CARD)
    owner: Any = card
    for token in place[:-1]:
        owner = owner[token]
    value = owner[place[-1]]
    if not isinstance(value, dict | list):
        owner[place[-1]] = not value if isinstance(value, bool) else f"9{value}"
        yield copy.deepcopy(card)
    del owner[place[-1]]
    yield card


def in_its_proto(card: dict[str, Any]) -> Any:
    """A card in snake_case."""
    spell = attrgetter("snake_name")
    return respelled(card, ANY_CARD, lenient=False, spell=spell)


# What the changes are held against is no change.
OLD, OLD_IN_ITS_PROTO = dump(CARD), dump(in_its_proto(CARD))
PLACES = [place for place in list_places(CARD) if place != ("version",)]


def test_every_member_of_the_schemas_is_in_the_card() -> None:
    """So that a member which is added to them is asked about here."""
    names = {token for place in list_places(CARD) for token in place}

    def missing(message: Message, above: frozenset[str] = frozenset()) -> set[str]:
        absent = set(message.fields) - names
        for below in message.messages.values():
            if below.name not in above:
                absent |= missing(below, above | {message.name})
        return absent

    signature = {"protected", "signature", "header"}
    assert missing(CARD_1_0) | missing(CARD_0_3) == {"signatures"} | signature


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place)))
def test_one_edit_of_one_member_is_a_change(place: Place) -> None:
    """Removed, and with another value, in either spelling and direction; drift shows it as well."""
    for card in edit(place):
        new, snake = dump(card), dump(in_its_proto(card))
        assert diff_cards(OLD, new).changes, card
        assert diff_cards(snake, OLD_IN_ITS_PROTO).changes, card
        assert diff_live(OLD, snake).changes, card


def test_what_says_the_same_is_no_change() -> None:
    """Another order, another spelling, and a default that is written out."""
    same = copy.deepcopy(CARD)
    for name in ("security", "securityRequirements"):
        same[name].reverse()
    same["securitySchemes"] = dict(reversed(same["securitySchemes"].items()))
    same["capabilities"] = dict(reversed(same["capabilities"].items()))
    same["protocolVersion"] = "0.3"  # a patch number does not count
    same["additionalInterfaces"].insert(0, {"url": CARD["url"], "transport": "GRPC"})
    same["securityRequirements"][0]["schemes"]["key"] = {"list": []}
    same = dict(reversed(same.items()))
    for other in (same, in_its_proto(CARD), in_its_proto(same)):
        assert diff_cards(dump(CARD), dump(other)).changes == ()
        assert diff_cards(dump(other), dump(CARD)).changes == ()


def test_a_half_that_says_what_the_other_says_changes_nothing() -> None:
    """A card of 0.3 and the same for clients of 1.0; the twin: another address is a change."""
    old = convert_card(CARD, "0.3")
    del old["additionalInterfaces"]
    both: dict[str, Any] = copy.deepcopy(old)
    interface = {"url": old["url"], "protocolBinding": "GRPC", "protocolVersion": "0.3"}
    both["supportedInterfaces"] = [interface]
    both["securityRequirements"] = convert_card(old, "1.0")["securityRequirements"]
    both["capabilities"]["extendedAgentCard"] = True
    both["skills"][0]["securityRequirements"] = [{"schemes": {"both": {"list": ["write"]}}}]
    assert diff_cards(dump(old), dump(both)).changes == ()
    interface["url"] = "https://h.example/new"
    assert [effect_of(one) for one in diff_cards(dump(old), dump(both)).changes] == ["additive"]
