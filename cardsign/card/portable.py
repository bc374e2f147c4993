"""The portable card: the four default profiles make the same bytes of it, which one walk proves.

They do if every member is one of A2A 1.0, in its own spelling and of its type, and none is null,
empty or false by default. Nothing here is a rule of a profile: it says where each of them
(:mod:`cardsign.card.profiles.rules`) has nothing to do. Who changes one changes the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from cardsign.card.paranoid import is_paranoid
from cardsign.card.schema import CARD_1_0, Field, Message
from cardsign.card.values import Json

_TEXTS: Final = {str}


def free_parts(document: Mapping[str, Json]) -> list[Json] | None:
    """What may be anything in a card that is proven to be portable; None for any other card.

    * None: it is not, or nobody may take shortcuts (``--paranoid``). All profiles are run.
    * A list: it is. All of it is texts and booleans under ASCII names of the schema, but for these
      values. An encoder need look for numbers and other names only in them.
    * The empty list: there is nothing else in it at all.

    Args:
        document: The card without `signatures`.

    Returns:
        The values of any shape, and of each map its names.
    """
    free: list[Json] = []
    return free if not is_paranoid() and _is_message(document, CARD_1_0, free) else None


def _is_message(value: Any, message: Message, free: list[Json]) -> bool:
    if not value or type(value) is not dict:
        return False
    fields, texts, text_lists, oneofs = message.fields, message.texts, message.text_lists, 0
    for name, child in value.items():
        kind = type(child)
        if kind is str:  # as most are
            if name not in texts or not child:
                return False
        elif kind is list and name in text_lists:
            if not child:
                return False
            for one in child:  # cheaper than to ask for the types of all, for lists are short
                if type(one) is not str or not one:
                    return False
        elif (field := fields.get(name)) is not None and _is_of(field, child, free):
            oneofs += field.oneof
        else:
            return False
    return oneofs < 2


def _is_of(field: Field, value: Any, free: list[Json]) -> bool:
    """Whether what is neither a text nor a list of texts is what its field says."""
    if field.shape == "one":
        if field.message is not None:
            return _is_message(value, field.message, free)
        if field.kind == "bool":
            return value is True or (value is False and field.presence)
        free.append(value)
        return field.kind == "free" and type(value) is dict and not _holds_empty(value)
    if not value or type(value) is not (list if field.shape == "list" else dict):
        return False
    found: Collection[Any] = value
    if isinstance(value, dict):
        found = value.values()
        free.append(dict.fromkeys(value))
    if field.kind == "string":
        return set(map(type, found)) == _TEXTS and all(found)
    below = field.message
    return below is not None and all(_is_message(one, below, free) for one in found)


def _holds_empty(value: Any) -> bool:
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return not value or any(map(_holds_empty, children))
    return value is None or value == ""
