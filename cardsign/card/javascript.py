"""JSON values as JavaScript sees them, and proto3 JSON as @a2a-js/sdk reads it.

What JavaScript calls undefined is :data:`UNDEFINED` here, a null that nothing covers. Where
JavaScript would throw a TypeError the value is refused. It takes any other value: each becomes
what its field wants, so 1 becomes "1", "no" becomes true, and what is no list an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cardsign.card.fields import Field, Message
from cardsign.card.node import Node, refuse, write
from cardsign.card.serialize import jcs
from cardsign.card.strictjson import Json

UNDEFINED: Final = Node(None)


def members(node: Node) -> dict[str, Node]:
    """An object's members; none of any other value."""
    return node.value if isinstance(node.value, dict) else {}


def elements(node: Node) -> list[Node]:
    """A list's elements, or a refusal."""
    if not isinstance(node.value, list):
        refuse(node, "expected a list")
    return node.value


def entries(node: Node) -> Iterator[tuple[str, Node]]:
    """`Object.entries(value)`; none where that would throw."""
    if isinstance(node.value, str):
        yield from ((str(index), Node(one)) for index, one in enumerate(node.value))
    else:
        yield from node.children()


def get(node: Node, name: str) -> Node:
    """`value.name`."""
    if node.value is None:
        refuse(node, "expected an object")
    return members(node).get(name, UNDEFINED)


def pick(node: Node, *names: str) -> dict[str, Node]:
    """`{name: value.name, ...}`."""
    return {name: get(node, name) for name in names}


def is_true(node: Node) -> bool:
    """`Boolean(value)`: an empty list or object is true."""
    return isinstance(node.value, dict | list) or bool(node.value)


def mapped(node: Node, rewrite: Callable[[Node], Node]) -> Node:
    """`value ? value.map(rewrite) : []`."""
    present = elements(node) if is_true(node) else []
    return Node([rewrite(element) for element in present], node.source)


def spread(node: Node) -> Node:
    """`[...value]`."""
    if isinstance(node.value, str):
        return Node([Node(character) for character in node.value])
    return Node(list(elements(node)), node.source)


def without_proto(node: Node) -> Node:
    """A copy made by assignments: to assign to ``__proto__`` makes no member of that name."""
    if isinstance(node.value, dict):
        kept = {n: without_proto(child) for n, child in node.value.items() if n != "__proto__"}
        return Node(kept, node.source)
    if isinstance(node.value, list):
        return Node([without_proto(child) for child in node.value], node.source)
    return node


# ------------------------------------------------------------------ proto3 JSON


def read_message(node: Node, message: Message) -> Node:
    """What the SDK's `fromJSON` makes of a message and its `toJSON` leaves of that.

    Raises:
        CanonicalizationError: null stands in the place of an object.
    """
    if node.value is None and any(field.shape != "list" for field in message.fields.values()):
        refuse(node, f"expected an object ({message.name})")
    kept: dict[str, Node] = {}
    for name, field in message.fields.items():
        child = members(node).get(name, UNDEFINED)
        if not _is_there(child, field):
            child = members(node).get(field.snake_name, UNDEFINED)
        if _is_there(child, field) and not (field.oneof and kept):
            kept[name] = _read_field(child, field)
    return Node(kept, node.source)


def _is_there(node: Node, field: Field) -> bool:
    if field.shape == "list":
        return isinstance(node.value, list)
    if field.shape == "map" or field.kind == "free":
        return isinstance(node.value, dict | list)
    return node.value is not None


def _read_field(node: Node, field: Field) -> Node:
    if field.shape == "list":
        return Node([_read_one(element, field) for element in elements(node)], node.source)
    if field.shape == "map":
        return Node({key: _read_one(child, field) for key, child in entries(node)}, node.source)
    return _read_one(node, field)


def _read_one(node: Node, field: Field) -> Node:
    if field.message is not None:
        return read_message(node, field.message)
    if field.kind == "string":
        return node if isinstance(node.value, str) else Node(_spell(write(node)))
    if field.kind == "free":
        return node
    if not is_true(node) and not field.presence:
        return UNDEFINED  # `toJSON` omits false
    return node if isinstance(node.value, bool) else Node(is_true(node))


def _spell(value: Json) -> str:
    """`String(value)`."""
    match value:
        case str():
            return value
        case dict():
            return "[object Object]"
        case list():
            return ",".join("" if element is None else _spell(element) for element in value)
    return jcs(value).decode()  # JSON spells null, true and numbers as JavaScript does
