"""What two SDKs make of a card before they sign or verify it, frozen with their quirks.

**The client of @a2a-js/sdk** (:func:`as_js_client`). Its resolver (1.0.1 to 1.3.0, with
`legacyCompat`) hands its verifier the JSON as it came or, for 0.3 cards and most of those with
security schemes, an instance of its own. The verifier reads either once more, as proto3 JSON.

* an instance spells a scheme ``{"scheme": {"$case": ...}}``, which that reading does not know:
  **every security scheme is lost**, and may be changed under a good signature. JSON is kept
  as it came, with its schemes, where the first of them has a `type` and the card is no 0.3 one.
* nothing is of a wrong type, and a member named ``__proto__`` disappears, as JavaScript has it.
* a 0.3 card must have all its lists; its additional interfaces speak "0.3", whatever it says.

**a2a-sdk 0.3** (:func:`as_sdk_0_3`). A2A 0.3 says nothing of canonicalization, so the SDK's
behaviour is all that "a 0.3 signature" means: what its pydantic models hold, their defaults
dropped, and no empties.

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

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from cardsign.card.interfaces import DEFAULT_TRANSPORT
from cardsign.card.profiles.rules import without_empties
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message, snake
from cardsign.card.security import SCHEME_TYPES
from cardsign.card.serialize import jcs
from cardsign.card.strictjson import Json
from cardsign.card.tree import Node, list_of, object_of, refuse, write
from cardsign.errors import CanonicalizationError
from cardsign.records import dataclass

# JSON values as JavaScript sees them, and proto3 JSON as @a2a-js/sdk reads it.


UNDEFINED: Final = Node(None)


def members(node: Node) -> dict[str, Node]:
    """An object's members; none of any other value."""
    return node.value if isinstance(node.value, dict) else {}


def entries(node: Node) -> Iterator[tuple[str, Node]]:
    """`Object.entries(value)`; none where that would throw."""
    if isinstance(node.value, str):
        yield from ((str(index), Node(one)) for index, one in enumerate(node.value))
    else:
        yield from ((str(token), child) for token, child in node.children())


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
    present = list_of(node) if is_true(node) else []
    return Node([rewrite(element) for element in present], node.source)


def spread(node: Node) -> Node:
    """`[...value]`."""
    if isinstance(node.value, str):
        return Node([Node(character) for character in node.value])
    return Node(list(list_of(node)), node.source)


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
    found = members(node)
    present = {message.spelled[name].name for name in found if name in message.spelled}
    kept: dict[str, Node] = {}
    # A list of many small objects must not cost the length of the schema for each of them.
    for name, field in message.fields.items() if present else ():
        if name not in present or (field.oneof and kept):
            continue
        for spelling in (name, field.snake_name):
            child = found.get(spelling, UNDEFINED)
            if _is_there(child, field):
                kept[name] = _read_field(child, field)
                break
    return Node(kept, node.source)


def _is_there(node: Node, field: Field) -> bool:
    if field.shape == "list":
        return isinstance(node.value, list)
    if field.shape == "map" or field.kind == "free":
        return isinstance(node.value, dict | list)
    return node.value is not None


def _read_field(node: Node, field: Field) -> Node:
    if field.shape == "list":
        return Node([_read_one(element, field) for element in list_of(node)], node.source)
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


_VERSION_0_3: Final = "0.3"
_FLOWS: Final = ("authorizationCode", "clientCredentials", "implicit", "password")
_KINDS: Final = tuple(one.name for one in SCHEME_TYPES)
_ONLY_0_3: Final = (
    "preferredTransport",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
)
#: From 0.3 on and before 1.0, as JavaScript's `parseInt` understands a version.
_IS_0_3: Final = re.compile(r"\s*[+-]?0+(?![0-9])[^.]*\.\s*\+?0*([3-9]|[1-9][0-9])")


def as_js_client(card: Node) -> Node:
    """Rewrite the root of a card.

    Raises:
        CanonicalizationError: The client would throw instead of verifying.
    """
    is_0_3 = _is_0_3(card)
    read = read_message(_from_0_3(card) if is_0_3 else card, CARD_1_0)
    if is_0_3 or _is_proto(card):
        kept = {n: child for n, child in members(read).items() if n != "securitySchemes"}
        read = Node(kept, read.source)
    return without_empties(without_proto(read))


# ------------------------------------------------------------------ which cards it rewrites


def _is_0_3(card: Node) -> bool:
    """The SDK's `isLegacyAgentCard`."""
    interfaces = get(card, "supportedInterfaces").value
    if isinstance(interfaces, list) and interfaces:
        return False
    names = members(card)
    if isinstance(get(card, "url").value, str) and "supportedInterfaces" not in names:
        return True
    if any(name in names for name in _ONLY_0_3):
        return True
    version = get(card, "protocolVersion").value
    return isinstance(version, str) and (not version.strip() or bool(_IS_0_3.match(version)))


def _is_proto(card: Node) -> bool:
    """The SDK's `isProtoAgentCard`: the first scheme or requirement looks like A2A 1.0."""
    for _, first in entries(get(card, "securitySchemes")):
        if isinstance(first.value, dict | list) and "type" not in members(first):
            return True
        break
    skills = get(card, "skills").value
    return any(map(_names_schemes, [card, *(skills if isinstance(skills, list) else [])]))


def _names_schemes(owner: Node) -> bool:
    security = members(owner).get("security", UNDEFINED).value
    return isinstance(security, list) and bool(security) and "schemes" in members(security[0])


# ------------------------------------------------------------------ a 0.3 card, rewritten


def _from_0_3(card: Node) -> Node:
    """The SDK's `toCoreAgentCard`; without the schemes, which are lost anyway."""
    capabilities = get(card, "capabilities")
    if not isinstance(capabilities.value, dict | list):
        refuse(card, "capabilities must be an object")
    for _, scheme in entries(get(card, "securitySchemes")):
        _check_scheme(scheme)
    return Node(
        {
            **pick(card, "name", "description", "version", "provider"),
            **pick(card, "documentationUrl", "iconUrl"),
            "supportedInterfaces": _interfaces(card),
            "capabilities": Node(
                {
                    **pick(capabilities, "streaming", "pushNotifications"),
                    "extensions": mapped(get(capabilities, "extensions"), lambda one: one),
                    "extendedAgentCard": get(card, "supportsAuthenticatedExtendedCard"),
                },
                capabilities.source,
            ),
            "securityRequirements": _requirements(card),
            "defaultInputModes": _list(card, "defaultInputModes"),
            "defaultOutputModes": _list(card, "defaultOutputModes"),
            "skills": mapped(_list(card, "skills"), _skill),
        },
        card.source,
    )


def _interfaces(card: Node) -> Node:
    transport, version = get(card, "preferredTransport"), get(card, "protocolVersion")
    primary = {
        "url": get(card, "url"),
        "protocolBinding": Node(DEFAULT_TRANSPORT) if transport.value is None else transport,
        "protocolVersion": version if is_true(version) else Node(_VERSION_0_3),
    }
    additional = get(card, "additionalInterfaces")
    others = [] if additional.value is None else list_of(additional)
    return Node([Node(primary), *(_interface(one) for one in others)], additional.source)


def _interface(one: Node) -> Node:
    binding, version = get(one, "transport"), Node(_VERSION_0_3)
    entries = {"url": get(one, "url"), "protocolBinding": binding, "protocolVersion": version}
    return Node(entries, one.source)


def _skill(skill: Node) -> Node:
    lists = {
        name: spread(get(skill, name))
        for name in ("examples", "inputModes", "outputModes")
        if is_true(get(skill, name))
    }
    return Node(
        {
            **pick(skill, "id", "name", "description"),
            "tags": _list(skill, "tags"),
            **lists,
            "securityRequirements": _requirements(skill),
        },
        skill.source,
    )


def _requirements(owner: Node) -> Node:
    return mapped(get(owner, "security"), _requirement)


def _requirement(one: Node) -> Node:
    if one.value is None:
        refuse(one, "expected an object")
    schemes = {name: Node({"list": spread(scopes)}) for name, scopes in entries(one)}
    return Node({"schemes": Node(schemes)}, one.source)


def _check_scheme(scheme: Node) -> None:
    kind = get(scheme, "type").value
    if kind not in _KINDS:
        refuse(scheme, f"type must be one of {', '.join(_KINDS)}")
    if kind == "oauth2":
        flows = get(scheme, "flows")
        if not any(is_true(get(flows, name)) for name in _FLOWS):
            refuse(flows, "expected at least one OAuth flow of A2A 0.3")


def _list(owner: Node, name: str) -> Node:
    node = get(owner, name)
    if not isinstance(node.value, list):
        refuse(owner, f"{name} must be a list")
    return node


# ------------------------------------------------------------------ a2a-sdk 0.3


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

    required: Mapping[str, _Read] = _NONE
    optional: Mapping[str, _Read] = _NONE
    defaults: Mapping[str, str] = _NONE
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
