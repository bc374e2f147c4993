"""Where each value of a received card stands in a payload, by JSON pointers."""

from __future__ import annotations

from typing import Any

from cardsign.card.canonical import Payload
from cardsign.card.tree import Node
from cardsign.card.values import Json, append


class Where(str):
    """A pointer as the source of a node."""

    @property
    def pointer(self) -> str:
        """Itself: what a refusal shows."""
        return str(self)


def places_in(payload: Payload) -> dict[str, tuple[str, ...]]:
    """Return the pointers in the payload of each received pointer."""
    places: dict[str, list[str]] = {}
    pending = [("", payload.rewritten or _read(payload.value, ""))]
    while pending:
        where, node = pending.pop()
        if node.source is not None:
            places.setdefault(node.source.pointer, []).append(where)
        pending.extend((append(where, token), child) for token, child in node.children())
    return {source: tuple(sorted(pointers)) for source, pointers in places.items()}


def _read(value: Json, pointer: str) -> Node:
    source: Any = Where(pointer)
    if isinstance(value, dict):
        children = {name: _read(child, append(pointer, name)) for name, child in value.items()}
        return Node(children, source)
    if isinstance(value, list):
        return Node([_read(child, append(pointer, i)) for i, child in enumerate(value)], source)
    return Node(value, source)
