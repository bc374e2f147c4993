"""Rule 1 of A2A 1.0 8.4.1, in both of its readings.

The rule: an `optional` member that is not set is left out, one that is set stays; a REQUIRED
member is always there; any other that holds its default is left out.

Applied to what is present (:func:`as_written`) it reproduces the specification's example.
Applied over the schema (:func:`over_schema`), as a program does that has parsed the card into
messages, it loses what the schema does not know and puts in what the card lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from cardsign.card.schema import Field, Message
from cardsign.card.tree import Node


def as_written(node: Node, message: Message) -> Node:
    """Drop null and non-REQUIRED defaults of schema members; leave everything else untouched."""
    if not isinstance(node.value, dict):
        return node  # a wrong type is not a default: nothing is lost by keeping it
    kept = {}
    for name, child in node.value.items():
        field = message.fields.get(name)
        if field is None:
            kept[name] = child
        elif _stays(child, field):
            kept[name] = _each(child, field, as_written)
    return node.with_value(kept)


def over_schema(node: Node, message: Message) -> Node:
    """Keep schema members alone, in either spelling, and put in each absent REQUIRED one."""
    if not isinstance(node.value, dict):
        return node
    kept = {}
    present = {message.spelled[name].name for name in node.value if name in message.spelled}
    for name, field in message.fields.items():
        # Most members of a hostile card are absent: their other spelling need not be looked up.
        child = (
            node.value.get(name) or node.value.get(field.snake_name) if name in present else None
        )
        if child is not None and _stays(child, field):
            kept[name] = _each(child, field, over_schema)
        elif field.required:
            kept[name] = _default(field)
    return Node(kept, node.source)


def _stays(node: Node, field: Field) -> bool:
    return node.value is not None and (field.required or not field.is_default(node.value))


@cache  # of some thirty fields: nodes are shared, and a card may lack ten thousand members
def _default(field: Field) -> Node:
    if field.shape == "list":
        return Node([])
    if field.shape == "map":
        return Node({})
    return over_schema(Node({}), field.message) if field.message else Node("")


def _each(node: Node, field: Field, rewrite: Callable[[Node, Message], Node]) -> Node:
    """Apply a message rewrite to the message, messages or map values that a field holds."""
    if field.message is None:
        return node
    if field.shape == "one":
        return rewrite(node, field.message)
    if field.shape == "list" and isinstance(node.value, list):
        return node.with_value([rewrite(child, field.message) for child in node.value])
    if field.shape == "map" and isinstance(node.value, dict):
        entries = {key: rewrite(child, field.message) for key, child in node.value.items()}
        return node.with_value(entries)
    return node
