"""JSON values that know where in the received document they came from.

Every profile is a rewriting of one tree of nodes into another. What arrives in the new tree
is covered by the signature; what does not is uncovered (:mod:`cardsign.card.coverage`).

No value keeps a JSON pointer: where it stood is a :class:`Source`, which knows its parent and its
own token, and the pointer is written when somebody is to be shown it. So a long name over many
values costs its length once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import is_
from typing import Final, NoReturn, TypeAlias

from cardsign.card.values import Json, pointer
from cardsign.errors import CanonicalizationError

#: Pointers that a report lists of one card; more of them help nobody, and their number is told.
MAX_LISTED: Final = 100


class Source:
    """Where a value of a document stands: below which other source, and under which token.

    A source equals itself alone. Two that spell the same pointer are of two readings.
    """

    __slots__ = ("parent", "token")

    def __init__(self, parent: Source | None = None, token: str | int = "") -> None:
        self.parent = parent
        self.token = token

    @property
    def tokens(self) -> tuple[str | int, ...]:
        """The member names and indices from the root to here; none for the root."""
        reversed_tokens: list[str | int] = []
        here = self
        while here.parent is not None:
            reversed_tokens.append(here.token)
            here = here.parent
        return tuple(reversed(reversed_tokens))

    @property
    def pointer(self) -> str:
        """The JSON pointer (RFC 6901), cut as :func:`cardsign.card.values.append` says."""
        return pointer(*self.tokens)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a report shows of the places that were found.

    Attributes:
        pointers: The first :data:`MAX_LISTED`, as :attr:`Source.pointer` writes them.
        count: How many there are, those left out included.
    """

    pointers: tuple[str, ...] = ()
    count: int = 0

    @property
    def left_out(self) -> int:
        """How many are not among `pointers`."""
        return self.count - len(self.pointers)


def listed(sources: Iterable[Source]) -> Listed:
    """Write the places that a report shows; the one way in which reports write many pointers."""
    remaining = iter(sources)
    pointers = tuple(source.pointer for source in islice(remaining, MAX_LISTED))
    return Listed(pointers, len(pointers) + sum(1 for _ in remaining))


Value: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"


class Node:
    """One JSON value of a received document, or of what a profile made of it.

    Attributes:
        value: A scalar, or a list or dict of nodes. Not to be changed: trees share nodes.
        source: Where it stood in the received document; None for what a profile put in of its
            own (a default, a wrapper).
    """

    __slots__ = ("source", "value")

    def __init__(self, value: Value, source: Source | None = None) -> None:
        self.value = value
        self.source = source

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
        """A node of the same source for a rewritten list or object; itself if nothing changed.

        So the trees of all payloads share what their profiles leave alone.
        """
        old = self.value
        if isinstance(value, list) and isinstance(old, list):
            same = len(old) == len(value) and all(map(is_, old, value))
        elif isinstance(value, dict) and isinstance(old, dict):
            same = list(old) == list(value) and all(map(is_, old.values(), value.values()))
        else:
            same = False
        return self if same else Node(value, self.source)


def read(value: Json, source: Source | None = None) -> Node:
    """The tree of nodes for a parsed JSON value; it stands at the root, if nowhere else."""
    source = Source() if source is None else source
    if isinstance(value, dict):
        members = {name: read(child, Source(source, name)) for name, child in value.items()}
        return Node(members, source)
    if isinstance(value, list):
        return Node([read(child, Source(source, i)) for i, child in enumerate(value)], source)
    return Node(value, source)


def write(node: Node) -> Json:
    """The plain JSON value of a tree."""
    value = node.value
    if isinstance(value, dict):
        return {name: write(child) for name, child in value.items()}
    if isinstance(value, list):
        return [write(child) for child in value]
    return value


def sources_held(tree: Node) -> set[Source]:
    """The received values of which a tree holds something: themselves, or what stands below."""
    sources: set[Source] = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        source = node.source
        while source is not None and source not in sources:
            sources.add(source)
            source = source.parent
        if isinstance(node.value, dict):
            pending.extend(node.value.values())
        elif isinstance(node.value, list):
            pending.extend(node.value)
    return sources


def refuse(node: Node, problem: str) -> NoReturn:
    """Say that a rewriting cannot go on at a value; who makes a payload adds the profile.

    Raises:
        CanonicalizationError: ``canonical.no_form``, with the value's place in the card.
    """
    path = node.source.pointer if node.source is not None else ""
    raise CanonicalizationError("canonical.no_form", problem, path=path)


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
