"""JSON values that remember where in the received document they stood.

Every profile is a rewriting of one tree of nodes into another. What arrives in the new tree
is covered by the signature; what does not is uncovered. Nothing else decides coverage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from cardsign.card.strictjson import Json, append
from cardsign.errors import CanonicalizationError

Value: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One JSON value.

    Attributes:
        value: A scalar, or a list or dict of nodes.
        source: JSON pointer (RFC 6901) into the received document; None for what a profile
            put in of its own (a default, a wrapper).
    """

    value: Value
    source: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the value is null, "", [] or {} (false and 0 are not empty)."""
        return self.value is None or (
            isinstance(self.value, str | list | dict) and len(self.value) == 0
        )

    def children(self) -> Iterator[tuple[str, Node]]:
        """The members or elements with their reference tokens; none for a scalar."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            for index, element in enumerate(self.value):
                yield str(index), element


def read(value: Json, source: str = "") -> Node:
    """The tree of nodes for a parsed JSON value that stands at `source`."""
    if isinstance(value, dict):
        return Node(
            {name: read(child, append(source, name)) for name, child in value.items()}, source
        )
    if isinstance(value, list):
        return Node(
            [read(child, append(source, str(index))) for index, child in enumerate(value)], source
        )
    return Node(value, source)


def write(node: Node) -> Json:
    """The plain JSON value of a tree."""
    if isinstance(node.value, dict):
        return {name: write(child) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [write(child) for child in node.value]
    return node.value


def destinations(tree: Node) -> dict[str, tuple[str, ...]]:
    """Where each value of the received document went: source pointer -> tree pointers.

    A source pointer that is missing here has no place in the tree. Containers are listed
    as well as leaves; the root is the empty pointer.
    """
    found: dict[str, list[str]] = {}
    pending = [("", tree)]
    while pending:
        pointer, node = pending.pop()
        if node.source is not None:
            found.setdefault(node.source, []).append(pointer)
        pending.extend((append(pointer, token), child) for token, child in node.children())
    return {source: tuple(sorted(pointers)) for source, pointers in found.items()}


def refuse(node: Node, problem: str) -> NoReturn:
    """Say that a rewriting cannot go on at a value; :func:`canonicalize` adds the profile.

    Raises:
        CanonicalizationError: ``canonical.no_form``, with the value's place in the card.
    """
    raise CanonicalizationError("canonical.no_form", problem, path=node.source or "")
