"""Pruning: what is left of a card once everything empty is gone, as the SDKs sign it.

@a2a-js/sdk (from 1.0.1) and a2a-sdk (from 1.0.0) parse a card into A2A 1.0 messages, write
those as proto3 JSON without defaults, and then delete whatever is empty, at any depth.
"""

from __future__ import annotations

from cardsign.card.fields import Field, Message
from cardsign.card.node import Node, refuse


def prune_empty(node: Node, message: Message) -> Node:
    """Keep schema members alone, in either proto3 JSON spelling, and nothing that is empty.

    Raises:
        CanonicalizationError: A schema member has the wrong JSON type, or stands there twice.
    """
    if isinstance(node.value, list | str) and all(
        isinstance(child.value, str) and child.value not in message.spelled
        for _, child in node.children()
    ):
        # Both SDKs read a string, or a list of unknown words, as a message without members.
        return Node({})
    _expect(node, dict, f"an object ({message.name})")
    kept: dict[str, Node] = {}
    chosen: str | None = None
    for name, child in node.children():
        field = message.spelled.get(name)
        if field is None or child.value is None:
            continue
        if field.name in kept and field.shape == "one":
            refuse(child, f"{field.name} is there under both its spellings")
        if field.oneof and chosen is not None:
            refuse(child, f"{message.name} may hold one of {chosen} and {field.name}, not both")
        chosen = field.name if field.oneof else chosen
        # A list or map that comes again replaces the first, as a 0.3 `url` does under
        # prune-empty-upgraded beside `supported_interfaces`.
        kept[field.name] = _field(child, field)
    survivors = {name: child for name, child in kept.items() if not child.is_empty}
    return Node(survivors, node.source)


def without_empties(node: Node) -> Node:
    """Delete null, "", [] and {} from objects and lists, and what becomes empty by that."""
    if isinstance(node.value, dict):
        entries = {key: without_empties(child) for key, child in node.value.items()}
        return Node({k: v for k, v in entries.items() if not v.is_empty}, node.source)
    if isinstance(node.value, list):
        elements = [without_empties(child) for child in node.value]
        return Node([child for child in elements if not child.is_empty], node.source)
    return node


def _field(node: Node, field: Field) -> Node:
    if field.shape == "list":
        _expect(node, list, "a list")
        elements = [_one(child, field) for _, child in node.children()]
        return Node([child for child in elements if not child.is_empty], node.source)
    if field.shape == "map":
        _expect(node, dict, "an object")
        entries = {key: _one(child, field) for key, child in node.children()}
        return Node({k: v for k, v in entries.items() if not v.is_empty}, node.source)
    if field.kind == "bool" and node.value is False and not field.presence:
        return Node(None)
    return _one(node, field)


def _one(node: Node, field: Field) -> Node:
    if field.message is not None:
        return prune_empty(node, field.message)
    if field.kind == "string":
        _expect(node, str, "a string")
    elif field.kind == "bool":
        _expect(node, bool, "true or false")
    else:
        _expect(node, dict, "an object")
        return without_empties(node)
    return node


def _expect(node: Node, kind: type, wording: str) -> None:
    if not isinstance(node.value, kind):
        refuse(node, f"expected {wording}")
