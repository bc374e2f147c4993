"""JSON values that know which value of the received document they stand for.

Every profile is a rewriting of one tree of nodes into another. What arrives in the new tree
is covered by the signature; what does not is uncovered (:mod:`cardsign.card.coverage`).

No value keeps a JSON pointer: a walk from the root knows where it is, and the pointer is written
when somebody is to be shown it. So a long name over many values costs its length once.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import NoReturn, TypeAlias

from cardsign.card.values import Json

#: Member names and indices from the root to a value.
Tokens: TypeAlias = tuple[str | int, ...]
Value: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"


class Node:
    """One JSON value of a received document, or of what a profile made of it.

    Attributes:
        value: A scalar, or a list or dict of nodes. Not to be changed: trees share nodes.
        origin: The received node that it stands for: itself, if it was received. What a profile
            put in of its own (a default, a wrapper) stands for itself too, which nobody received.
    """

    __slots__ = ("_source", "value")

    def __init__(self, value: Value, origin: Node | None = None) -> None:
        self.value = value
        self._source = origin

    @property
    def origin(self) -> Node:
        return self if self._source is None else self._source

    @property
    def is_empty(self) -> bool:
        """Whether the value is null, "", [] or {} (false and 0 are not empty)."""
        value = self.value
        return value is None or (not value and isinstance(value, str | list | dict))

    def children(self) -> Iterator[tuple[str | int, Node]]:
        """The members or elements with their reference tokens; none for a scalar."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)

    def with_value(self, value: list[Node] | dict[str, Node]) -> Node:
        """A node of the same origin for a rewritten list or object; itself if nothing changed.

        So the trees of all payloads share what their profiles leave alone.
        """
        old = self.value
        if isinstance(value, list) and isinstance(old, list):
            same = len(old) == len(value) and all(map(is_, old, value))
        elif isinstance(value, dict) and isinstance(old, dict):
            same = list(old) == list(value) and all(map(is_, old.values(), value.values()))
        else:
            same = False
        return self if same else Node(value, self.origin)


def read(value: Json) -> Node:
    """The tree of nodes for a parsed JSON value; each place of it has a node of its own."""
    if isinstance(value, dict):
        return Node({name: read(child) for name, child in value.items()})
    if isinstance(value, list):
        return Node([read(child) for child in value])
    return Node(value)


def write(node: Node) -> Json:
    """The plain JSON value of a tree."""
    value = node.value
    if isinstance(value, dict):
        return {name: write(child) for name, child in value.items()}
    if isinstance(value, list):
        return [write(child) for child in value]
    return value


def find(tree: Node, node: Node) -> Tokens | None:
    """Where a node stands in a tree; None where it does not."""
    if node is tree:
        return ()
    for token, child in tree.children():
        if (below := find(child, node)) is not None:
            return (token, *below)
    return None


def nodes_held(received: Node, rewritten: Node) -> set[Node]:
    """The received nodes of which a tree holds something: themselves, or what stands below."""
    origins: set[Node] = set()
    pending = [rewritten]
    while pending:
        node = pending.pop()
        origins.add(node.origin)
        pending.extend(child for _, child in node.children())
    held: set[Node] = set()

    def mark(node: Node) -> bool:
        below = [mark(child) for _, child in node.children()]
        if node in origins or any(below):
            held.add(node)
            return True
        return False

    mark(received)
    return held


class RuleRefusal(Exception):
    """A rewriting cannot go on at a node; who makes a payload says where, and by which profile."""

    def __init__(self, node: Node, problem: str) -> None:
        super().__init__(problem)
        self.node = node


def refuse(node: Node, problem: str) -> NoReturn:
    """Say that a rewriting cannot go on at a value.

    Raises:
        RuleRefusal: Always.
    """
    raise RuleRefusal(node, problem)


def object_of(node: Node, wording: str = "an object") -> dict[str, Node]:
    """An object's members, or a refusal."""
    if not isinstance(node.value, dict):
        refuse(node, f"expected {wording}")
    return node.value


def list_of(node: Node) -> list[Node]:
    """A list's elements, or a refusal."""
    if not isinstance(node.value, list):
        refuse(node, "expected a list")
    return node.value
