"""What the models of a2a-sdk 0.3 hold of a card before it is signed, frozen with their quirks.

A2A 0.3 says nothing of canonicalization, so the SDK's behaviour is all that "a 0.3 signature"
means: what its pydantic models hold, their defaults dropped, and no empties.

* a member that holds its declared default is gone: ``"protocolVersion": "0.3.0"``,
  ``"preferredTransport": "JSONRPC"``, every security scheme's `type`; `false` is not.
* a REQUIRED member that is absent, null or of the wrong type leaves no payload; a truth value
  may be written 0, 1, "yes" or "off" as well.
* a scheme without `type` becomes whichever kind sets most members, so a 1.0 wrapper becomes an
  empty mutual TLS scheme, and vanishes.

Releases 0.3.21 to 0.3.23 dropped `false` and 0 as well; where a card has one, theirs are other
bytes, which no profile makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cardsign.card.profiles.rules import without_empties
from cardsign.card.schema import CARD_0_3, Field, Message, snake
from cardsign.card.tree import Node, list_of, object_of, refuse
from cardsign.errors import CanonicalizationError

#: What reads one value: returns it as the SDK holds it, or refuses.
_Read: TypeAlias = Callable[[Node], Node]


def as_sdk_0_3(card: Node) -> Node:
    """Rewrite the root of a card.

    Raises:
        CanonicalizationError: The SDK would refuse the card.
    """
    return without_empties(_CARD(card))


# ------------------------------------------------------------------ single values


def _text(node: Node) -> Node:
    if not isinstance(node.value, str):
        refuse(node, "expected a string")
    return node


_TRUE: Final = frozenset({"1", "t", "y", "on", "yes", "true"})
_FALSE: Final = frozenset({"0", "f", "n", "no", "off", "false"})


def _flag(node: Node) -> Node:
    match node.value:
        case bool():
            return node
        case str() as word if word.lower() in _TRUE | _FALSE:
            return Node(word.lower() in _TRUE)
        case int() | float() as number if number in (0, 1):
            return Node(number == 1)
    refuse(node, "expected true or false")


def _place(node: Node) -> Node:
    if node.value not in ("cookie", "header", "query"):
        refuse(node, "expected cookie, header or query")
    return node


def _list_of(read: _Read) -> _Read:
    def read_list(node: Node) -> Node:
        return Node([read(element) for element in list_of(node)], node.source)

    return read_list


def _map_of(read: _Read) -> _Read:
    def read_map(node: Node) -> Node:
        return Node({key: read(child) for key, child in object_of(node).items()}, node.source)

    return read_map


# ------------------------------------------------------------------ models


_NONE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class _Model:
    """One pydantic model of the SDK; calling it reads an object.

    Attributes:
        required: The members that must be there, by alias.
        optional: Those that may be absent or null; unknown members are passed over.
        defaults: What optional members are if nothing is said; null where it is not here.
        kind: The only value that `type` may have, and its default.
    """

    required: Mapping[str, _Read] = field(default_factory=dict)
    optional: Mapping[str, _Read] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None

    def __call__(self, node: Node) -> Node:
        members = object_of(node)
        said = members.get("type")
        if self.kind is not None and said is not None and said.value != self.kind:
            refuse(said, f"expected {self.kind}")
        present = {name: child for name, _, child in self._present(members)}
        for name in self.required:
            if name not in present:
                refuse(node, f"the REQUIRED {name} is missing")
        kept = {}
        for name, read, child in self._present(members):
            if child.value is None and name in self.optional:
                continue
            value = read(child)
            if value.value != self.defaults.get(name):
                kept[name] = value
        return Node(kept, node.source)

    def count(self, node: Node) -> int:
        """How many members an object sets, those of objects below it included."""
        if not isinstance(node.value, dict):
            return 0
        own = int(self.kind is not None and "type" in node.value)
        return own + sum(
            1 + (read.count(child) if isinstance(read, _Model) else 0)
            for _, read, child in self._present(node.value)
        )

    def _present(self, members: Mapping[str, Node]) -> Iterator[tuple[str, _Read, Node]]:
        for name, read in {**self.required, **self.optional}.items():
            # By its alias, else by its Python name.
            child = members.get(name, members.get("in_" if name == "in" else snake(name)))
            if child is not None:
                yield name, read, child


def _scheme(node: Node) -> Node:
    """The kind that sets most members; among equals not an API key, then the first."""
    fitting = []
    for model in _SCHEMES:
        try:
            value = model(node)
        except CanonicalizationError:
            continue
        # pydantic takes `in`, which becomes an enumeration's member, for the lesser match.
        fitting.append((model.count(node), "in" not in model.required, value))
    if not fitting:
        refuse(node, "expected one of the five kinds of security scheme")
    return max(fitting, key=lambda one: one[:2])[2]


# ------------------------------------------------------------------ the models themselves

_TEXTS: Final = _list_of(_text)
_SCOPES: Final = _map_of(_text)

_OAUTH_FLOWS: Final = _Model(
    optional={
        "authorizationCode": _Model(
            {"authorizationUrl": _text, "tokenUrl": _text, "scopes": _SCOPES},
            {"refreshUrl": _text},
        ),
        "clientCredentials": _Model({"tokenUrl": _text, "scopes": _SCOPES}, {"refreshUrl": _text}),
        "implicit": _Model({"authorizationUrl": _text, "scopes": _SCOPES}, {"refreshUrl": _text}),
        "password": _Model({"tokenUrl": _text, "scopes": _SCOPES}, {"refreshUrl": _text}),
    },
)
_DESCRIBED: Final = {"description": _text}
_SCHEMES: Final = (
    _Model({"in": _place, "name": _text}, _DESCRIBED, kind="apiKey"),
    _Model({"scheme": _text}, {**_DESCRIBED, "bearerFormat": _text}, kind="http"),
    _Model({"flows": _OAUTH_FLOWS}, {**_DESCRIBED, "oauth2MetadataUrl": _text}, kind="oauth2"),
    _Model({"openIdConnectUrl": _text}, _DESCRIBED, kind="openIdConnect"),
    _Model(optional=_DESCRIBED, kind="mutualTLS"),
)
_EXTENSION: Final = _Model(
    {"uri": _text},
    {"description": _text, "required": _flag, "params": _map_of(lambda node: node)},
)
_OF_NAME: Final[Mapping[str, _Read]] = {
    "extensions": _list_of(_EXTENSION),
    "securitySchemes": _map_of(_scheme),
    "security": _list_of(_map_of(_TEXTS)),
}


def _model(message: Message, **defaults: str) -> _Model:
    """The model of a message; those not named above are what A2A 0.3 says."""
    fields = {name: one for name, one in message.fields.items() if name != "signatures"}
    reads = {name: _OF_NAME.get(name) or _reader(one) for name, one in fields.items()}
    required = [name for name, one in fields.items() if one.required and name not in defaults]
    return _Model(
        {name: reads.pop(name) for name in required},
        reads,
        defaults,
    )


def _reader(field: Field) -> _Read:
    read = _model(field.message) if field.message else _text if field.kind == "string" else _flag
    return _list_of(read) if field.shape == "list" else read


_CARD: Final = _model(CARD_0_3, protocolVersion="0.3.0", preferredTransport="JSONRPC")
