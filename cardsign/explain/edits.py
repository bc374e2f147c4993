"""A card with one thing less, or one thing more: the edits that the search tries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from cardsign.card.fields import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.pointer import append, split
from cardsign.card.strictjson import Json
from cardsign.explain.report import Change
from cardsign.explain.showing import shown

Edited: TypeAlias = "tuple[Change, dict[str, Json]]"

#: What the models of 0.3 SDKs put in where the card says nothing.
_DEFAULTS_0_3: Final = {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}


def single_edits(document: Mapping[str, Json], *, is_0_3: bool) -> Iterator[Edited]:
    """Every card that is one member or element less than this one, or one default more.

    Args:
        document: The card as received; its `signatures` are left out.
        is_0_3: Whether members of A2A 0.3 are put in; those of 1.0 are otherwise.

    Yields:
        What was received in place of what would have been signed, and the card that would
        have been. First what is left out, in document order, then REQUIRED members at their
        default, then the others.
    """
    card = {name: value for name, value in document.items() if name != "signatures"}
    for pointer, value in _values(card, ""):
        yield Change(pointer, None, shown(value)), _without(card, split(pointer))
    schema = CARD_0_3 if is_0_3 else CARD_1_0
    absent = list(_absent(card, schema, ""))
    for wanted in (True, False):
        for parent, field, default in absent:
            if field.required is wanted:
                pointer = append(parent, field.name)
                yield Change(pointer, shown(default), None), _with(card, split(pointer), default)


def _values(value: Json, pointer: str) -> Iterator[tuple[str, Json]]:
    for token, child in _children(value):
        where = append(pointer, token)
        yield where, child
        yield from _values(child, where)


def _absent(value: Json, message: Message, pointer: str) -> Iterator[tuple[str, Field, Json]]:
    """Members that an object of the schema might have besides, and their defaults."""
    if not isinstance(value, dict):
        return
    for name, field in message.fields.items():
        child = value.get(name, value.get(field.snake_name))
        if name in value or field.snake_name in value:
            if field.message is not None:
                where = append(pointer, name if name in value else field.snake_name)
                yield from _absent_below(child, field, field.message, where)
        elif not field.oneof and name != "signatures":
            yield pointer, field, _default(field, pointer, message)


def _absent_below(
    value: Json, field: Field, message: Message, pointer: str
) -> Iterator[tuple[str, Field, Json]]:
    if field.shape == "one":
        yield from _absent(value, message, pointer)
    else:
        for token, child in _children(value):
            yield from _absent(child, message, append(pointer, token))


def _default(field: Field, pointer: str, message: Message) -> Json:
    if message is CARD_0_3 and not pointer and field.name in _DEFAULTS_0_3:
        return _DEFAULTS_0_3[field.name]
    if field.shape != "one":
        return [] if field.shape == "list" else {}
    if field.kind == "bool":
        return False
    return "" if field.kind == "string" else {}


def _children(value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield str(index), child


def _without(card: dict[str, Json], tokens: tuple[str, ...]) -> dict[str, Json]:
    edited, parent = _opened(card, tokens[:-1])
    if isinstance(parent, list):
        del parent[int(tokens[-1])]
    else:
        del parent[tokens[-1]]
    return edited


def _with(card: dict[str, Json], tokens: tuple[str, ...], value: Json) -> dict[str, Json]:
    edited, parent = _opened(card, tokens[:-1])
    assert isinstance(parent, dict)  # noqa: S101 - members are put into objects alone
    parent[tokens[-1]] = value
    return edited


def _opened(
    card: dict[str, Json], tokens: tuple[str, ...]
) -> tuple[dict[str, Json], dict[str, Json] | list[Json]]:
    """A copy of the card down to one object or list, which may be changed; the rest is shared."""
    edited = dict(card)
    parent: dict[str, Json] | list[Json] = edited
    for token in tokens:
        child = parent[int(token)] if isinstance(parent, list) else parent[token]
        assert isinstance(child, dict | list)  # noqa: S101 - a pointer leads through containers
        copy: dict[str, Json] | list[Json] = dict(child) if isinstance(child, dict) else list(child)
        if isinstance(parent, list):
            parent[int(token)] = copy
        else:
            parent[token] = copy
        parent = copy
    return edited, parent
