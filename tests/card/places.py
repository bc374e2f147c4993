"""Where each value of a received card stands in a payload, by JSON pointers."""

from __future__ import annotations

from collections.abc import Iterator

from cardsign.card.profiles import Payload
from cardsign.card.rules import Node, read
from cardsign.card.values import append


def places_in(payload: Payload) -> dict[str, tuple[str, ...]]:
    """Return the pointers in the payload of each received pointer."""
    received = payload.received or read(payload.value)
    sources = {node: where for where, node in _nodes("", received)}
    places: dict[str, list[str]] = {}
    for where, node in _nodes("", payload.rewritten or received):
        if node.origin in sources:
            places.setdefault(sources[node.origin], []).append(where)
    return {source: tuple(sorted(pointers)) for source, pointers in places.items()}


def _nodes(where: str, node: Node) -> Iterator[tuple[str, Node]]:
    yield where, node
    for token, child in node.children():
        yield from _nodes(append(where, token), child)
