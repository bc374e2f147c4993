"""What the client of @a2a-js/sdk makes of a card before it verifies it, frozen with its quirks.

Its resolver (1.0.1 to 1.3.0, with `legacyCompat`) hands its verifier the JSON as it came or, for
0.3 cards and most of those with security schemes, an instance of its own. The verifier reads
either once more, as proto3 JSON.

* an instance spells a scheme ``{"scheme": {"$case": ...}}``, which that reading does not know:
  **every security scheme is lost**, and may be changed under a good signature. JSON is kept
  as it came, with its schemes, where the first of them has a `type` and the card is no 0.3 one.
* nothing is of a wrong type, and a member named ``__proto__`` disappears, as JavaScript has it.
* a 0.3 card must have all its lists; its additional interfaces speak "0.3", whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from cardsign.card.interfaces import DEFAULT_TRANSPORT
from cardsign.card.rules import Node, list_of, refuse, without_empties, write
from cardsign.card.schema import CARD_1_0, Field, Message
from cardsign.card.security import SCHEME_TYPES
from cardsign.card.values import Json, jcs

# JSON values as JavaScript sees them, and proto3 JSON as @a2a-js/sdk reads it.


#: What JavaScript has for an absent member; here as null, which is read alike.
UNDEFINED: Final = Node(None)


def js_members(node: Node) -> dict[str, Node]:
    """Return an object's members; none of any other value."""
    return node.value if isinstance(node.value, dict) else {}


def js_entries(node: Node) -> Iterator[tuple[str, Node]]:
    """`Object.entries(value)`; none where that would throw."""
    if isinstance(node.value, str):
        yield from ((str(index), Node(element)) for index, element in enumerate(node.value))
    else:
        yield from ((str(token), child) for token, child in node.children())


def js_get(node: Node, name: str) -> Node:
    """`value.name`."""
    if node.value is None:
        refuse(node, "expected an object")
    return js_members(node).get(name, UNDEFINED)


def js_pick(node: Node, *names: str) -> dict[str, Node]:
    """`{name: value.name, ...}`."""
    return {name: js_get(node, name) for name in names}


def js_is_true(node: Node) -> bool:
    """`Boolean(value)`: an empty list or object is true."""
    return isinstance(node.value, dict | list) or bool(node.value)


def js_mapped(node: Node, rewrite: Callable[[Node], Node]) -> Node:
    """`value ? value.map(rewrite) : []`."""
    present = list_of(node) if js_is_true(node) else []
    return Node([rewrite(element) for element in present], node.origin)


def js_spread(node: Node) -> Node:
    """`[...value]`."""
    if isinstance(node.value, str):
        return Node([Node(character) for character in node.value])
    return Node(list(list_of(node)), node.origin)


def js_without_proto(node: Node) -> Node:
    """Return a copy made by assignments, of which one to ``__proto__`` makes no member."""
    if isinstance(node.value, dict):
        kept = {n: js_without_proto(child) for n, child in node.value.items() if n != "__proto__"}
        return Node(kept, node.origin)
    if isinstance(node.value, list):
        return Node([js_without_proto(child) for child in node.value], node.origin)
    return node


# Proto3 JSON.


def read_message(node: Node, message: Message) -> Node:
    """Return what the SDK's `fromJSON` makes of a message and its `toJSON` leaves of that.

    Raises:
        CanonicalizationError: null stands in the place of an object.
    """
    if node.value is None and any(field.shape != "list" for field in message.fields.values()):
        refuse(node, f"expected an object ({message.name})")
    members = js_members(node)
    present = {message.spelled[name].name for name in members if name in message.spelled}
    kept: dict[str, Node] = {}
    # A list of many small objects must not cost the length of the schema for each of them.
    for name, field in message.fields.items() if present else ():
        if name not in present or (field.oneof and kept):
            continue
        for spelling in (name, field.snake_name):
            child = members.get(spelling, UNDEFINED)
            if _is_there(child, field):
                kept[name] = _read_field(child, field)
                break
    return Node(kept, node.origin)


def _is_there(node: Node, field: Field) -> bool:
    if field.shape == "list":
        return isinstance(node.value, list)
    if field.shape == "map" or field.kind == "free":
        return isinstance(node.value, dict | list)
    return node.value is not None


def _read_field(node: Node, field: Field) -> Node:
    if field.shape == "list":
        return Node([_read_one(element, field) for element in list_of(node)], node.origin)
    if field.shape == "map":
        return Node({key: _read_one(child, field) for key, child in js_entries(node)}, node.origin)
    return _read_one(node, field)


def _read_one(node: Node, field: Field) -> Node:
    if field.message is not None:
        return read_message(node, field.message)
    if field.kind == "string":
        return node if isinstance(node.value, str) else Node(_spell(write(node)))
    if field.kind == "free":
        return node
    if not js_is_true(node) and not field.presence:
        return UNDEFINED  # `toJSON` omits false
    return node if isinstance(node.value, bool) else Node(js_is_true(node))


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
_ONLY_0_3: Final = (
    "preferredTransport",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
)
#: What `trim` and `parseInt` skip; Python's white space has U+001C to U+001F and no U+FEFF.
_SPACE: Final = "\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
#: A blank version, or one from 0.3 on and before 1.0, as JavaScript's `parseInt` understands it.
_IS_0_3: Final = re.compile(
    rf"[{_SPACE}]*(\Z|[+-]?0+(?![0-9])[^.]*\.[{_SPACE}]*\+?0*([3-9]|[1-9][0-9]))"
)


def as_js_client(card: Node) -> Node:
    """Rewrite the root of a card.

    Raises:
        CanonicalizationError: The client would throw instead of verifying.
    """
    is_0_3 = _is_0_3(card)
    read = read_message(_from_0_3(card) if is_0_3 else card, CARD_1_0)
    if is_0_3 or _is_proto(card):
        kept = {n: child for n, child in js_members(read).items() if n != "securitySchemes"}
        read = Node(kept, read.origin)
    return without_empties(js_without_proto(read))


# Which cards it rewrites.


def _is_0_3(card: Node) -> bool:
    """Return what the SDK's `isLegacyAgentCard` does."""
    interfaces = js_get(card, "supportedInterfaces").value
    if isinstance(interfaces, list) and interfaces:
        return False
    names = js_members(card)
    if isinstance(js_get(card, "url").value, str) and "supportedInterfaces" not in names:
        return True
    if any(name in names for name in _ONLY_0_3):
        return True
    version = js_get(card, "protocolVersion").value
    return isinstance(version, str) and bool(_IS_0_3.match(version))


def _is_proto(card: Node) -> bool:
    """Return what `isProtoAgentCard` does: its first scheme or requirement looks like 1.0."""
    for _, first in js_entries(js_get(card, "securitySchemes")):
        if isinstance(first.value, dict | list) and "type" not in js_members(first):
            return True
        break
    skills = js_get(card, "skills").value
    return any(map(_names_schemes, [card, *(skills if isinstance(skills, list) else [])]))


def _names_schemes(owner: Node) -> bool:
    security = js_members(owner).get("security", UNDEFINED).value
    return isinstance(security, list) and bool(security) and "schemes" in js_members(security[0])


# A 0.3 card, rewritten.


def _from_0_3(card: Node) -> Node:
    """Return what the SDK's `toCoreAgentCard` does, without the schemes, which are lost anyway."""
    capabilities = js_get(card, "capabilities")
    if not isinstance(capabilities.value, dict | list):
        refuse(card, "capabilities must be an object")
    for _, scheme in js_entries(js_get(card, "securitySchemes")):
        _check_scheme(scheme)
    return Node(
        {
            **js_pick(card, "name", "description", "version", "provider"),
            **js_pick(card, "documentationUrl", "iconUrl"),
            "supportedInterfaces": _interfaces(card),
            "capabilities": Node(
                {
                    **js_pick(capabilities, "streaming", "pushNotifications"),
                    "extensions": js_mapped(
                        js_get(capabilities, "extensions"), lambda params: params
                    ),
                    "extendedAgentCard": js_get(card, "supportsAuthenticatedExtendedCard"),
                },
                capabilities.origin,
            ),
            "securityRequirements": _requirements(card),
            "defaultInputModes": _list(card, "defaultInputModes"),
            "defaultOutputModes": _list(card, "defaultOutputModes"),
            "skills": js_mapped(_list(card, "skills"), _skill),
        },
        card.origin,
    )


def _interfaces(card: Node) -> Node:
    transport, version = js_get(card, "preferredTransport"), js_get(card, "protocolVersion")
    primary = {
        "url": js_get(card, "url"),
        "protocolBinding": Node(DEFAULT_TRANSPORT) if transport.value is None else transport,
        "protocolVersion": version if js_is_true(version) else Node(_VERSION_0_3),
    }
    additional = js_get(card, "additionalInterfaces")
    others = [] if additional.value is None else list_of(additional)
    return Node(
        [Node(primary), *(_interface(interface) for interface in others)], additional.origin
    )


def _interface(interface: Node) -> Node:
    binding, version = js_get(interface, "transport"), Node(_VERSION_0_3)
    entries = {
        "url": js_get(interface, "url"),
        "protocolBinding": binding,
        "protocolVersion": version,
    }
    return Node(entries, interface.origin)


def _skill(skill: Node) -> Node:
    lists = {
        name: js_spread(js_get(skill, name))
        for name in ("examples", "inputModes", "outputModes")
        if js_is_true(js_get(skill, name))
    }
    return Node(
        {
            **js_pick(skill, "id", "name", "description"),
            "tags": _list(skill, "tags"),
            **lists,
            "securityRequirements": _requirements(skill),
        },
        skill.origin,
    )


def _requirements(owner: Node) -> Node:
    return js_mapped(js_get(owner, "security"), _requirement)


def _requirement(requirement: Node) -> Node:
    if requirement.value is None:
        refuse(requirement, "expected an object")
    schemes = {name: Node({"list": js_spread(scopes)}) for name, scopes in js_entries(requirement)}
    return Node({"schemes": Node(schemes)}, requirement.origin)


def _check_scheme(scheme: Node) -> None:
    kind = js_get(scheme, "type").value
    if not isinstance(kind, str) or kind not in SCHEME_TYPES:
        refuse(scheme, f"type must be one of {', '.join(SCHEME_TYPES)}")
    if kind == "oauth2":
        flows = js_get(scheme, "flows")
        if not any(js_is_true(js_get(flows, name)) for name in _FLOWS):
            refuse(flows, "expected at least one OAuth flow of A2A 0.3")


def _list(owner: Node, name: str) -> Node:
    node = js_get(owner, name)
    if not isinstance(node.value, list):
        refuse(owner, f"{name} must be a list")
    return node
