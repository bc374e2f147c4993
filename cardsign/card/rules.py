"""The rules of the profiles, and the nodes that they rewrite: rule 1, pruning, two upgrades.

Every profile is a rewriting of one tree of nodes into another. A node knows the value of the
received card that it stands for. What arrives in the new tree is covered by the signature; what
does not is uncovered (:mod:`cardsign.card.profiles`). No value keeps a JSON pointer: a walk from
the root knows where it is. So a long name over many values costs its length once.

*Rule 1* (A2A 1.0 8.4.1): an `optional` member that is not set is left out, one that is set stays; a
REQUIRED member is always there; any other that holds its default is left out. Applied to what is
present (:func:`as_written`) it reproduces the specification's example.

*Pruning* is what is left of a card once everything empty is gone, as the SDKs sign it: @a2a-js/sdk
(from 1.0.1) and a2a-sdk (from 1.0.0) parse a card into A2A 1.0 messages, write those as proto3
JSON without defaults, and then delete whatever is empty, at any depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from cardsign.card.document import DEFAULT_TRANSPORT
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.security import WRAPPERS, type_of_flat
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

    def children(self) -> Iterable[tuple[str | int, Node]]:
        """Return the members or elements with their reference tokens; none for a scalar."""
        if isinstance(self.value, dict):
            return self.value.items()
        return enumerate(self.value if isinstance(self.value, list) else ())

    def with_value(self, value: list[Node] | dict[str, Node]) -> Node:
        """Return a node of this origin for a rewritten list or object; itself if nothing changed.

        So the trees of all payloads share what their profiles leave alone.
        """
        return self if value == self.value else Node(value, self.origin)  # nodes are compared as is

    def with_each(self, rewrite: Callable[[Node], Node], *, prune: bool = False) -> Node:
        """Return the list or object with each element or value rewritten; a scalar as it is.

        `prune` leaves out those of which nothing is left.
        """
        if isinstance(self.value, dict):
            members = {name: rewrite(child) for name, child in self.value.items()}
            kept = {name: c for name, c in members.items() if not c.is_empty} if prune else members
            return self.with_value(kept)
        if isinstance(self.value, list):
            elements = [rewrite(child) for child in self.value]
            return self.with_value([c for c in elements if not c.is_empty] if prune else elements)
        return self


def read(value: Json) -> Node:
    """Return the tree of nodes for a parsed JSON value; each place of it has a node of its own."""
    if isinstance(value, dict):
        return Node({name: read(child) for name, child in value.items()})
    if isinstance(value, list):
        return Node([read(child) for child in value])
    return Node(value)


def write(node: Node) -> Json:
    """Return the plain JSON value of a tree."""
    value = node.value
    if isinstance(value, dict):
        return {name: write(child) for name, child in value.items()}
    if isinstance(value, list):
        return [write(child) for child in value]
    return value


def find(tree: Node, node: Node) -> Tokens | None:
    """Return where a node stands in a tree; None where it does not."""
    if node is tree:
        return ()
    for token, child in tree.children():
        if (below := find(child, node)) is not None:
            return (token, *below)
    return None


def by_origin(tree: Node) -> dict[Node, Node]:
    """Return the nodes of a tree by the received nodes for which they stand."""
    nodes: dict[Node, Node] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        nodes[node.origin] = node
        pending.extend(child for _, child in node.children())
    return nodes


class RuleRefusal(Exception):
    """A rewriting cannot go on at a node; the payload's maker says where, and by which profile."""

    def __init__(self, node: Node, problem: str) -> None:
        super().__init__(problem)
        self.node = node


def object_of(node: Node) -> dict[str, Node]:
    """Return an object's members, or a refusal."""
    if not isinstance(node.value, dict):
        raise RuleRefusal(node, "expected an object")
    return node.value


def list_of(node: Node) -> list[Node]:
    """Return a list's elements, or a refusal."""
    if not isinstance(node.value, list):
        raise RuleRefusal(node, "expected a list")
    return node.value


def as_written(node: Node, message: Message) -> Node:
    """Drop null and non-REQUIRED defaults of schema members; leave everything else untouched."""
    if not isinstance(node.value, dict):
        return node  # a wrong type is not a default: nothing is lost by keeping it
    kept = {}
    for name, child in node.value.items():
        field = message.fields.get(name)
        if field is None:
            kept[name] = child
        elif child.value is not None and (field.required or not field.is_default(child.value)):
            kept[name] = _below(child, field)
    return node.with_value(kept)


def _below(node: Node, field: Field) -> Node:
    """Apply rule 1 to the message, messages or map values that a field holds."""
    if field.message is None or not isinstance(node.value, field.expected[0]):
        return node
    rewrite = partial(as_written, message=field.message)
    return rewrite(node) if field.shape == "one" else node.with_each(rewrite)


# Pruning.


def prune_empty(node: Node, message: Message) -> Node:
    """Keep schema members alone, in either proto3 JSON spelling, and nothing that is empty.

    Raises:
        CanonicalizationError: A schema member has the wrong JSON type, or stands there twice.
    """
    if not isinstance(node.value, dict):
        words = (child.value for _, child in node.children())
        if isinstance(node.value, list | str) and all(
            isinstance(word, str) and word not in message.spelled for word in words
        ):
            # Both SDKs read a string, or a list of unknown words, as a message without members.
            return Node({})
        raise RuleRefusal(node, f"expected an object ({message.name})")
    kept: dict[str, Node] = {}
    chosen: str | None = None
    for name, child in node.value.items():
        field = message.spelled.get(name)
        if field is None or child.value is None:
            continue
        if field.name in kept and field.shape == "one":
            raise RuleRefusal(child, f"{field.name} is there under both its spellings")
        if field.oneof:
            if chosen is not None:
                both = f"{chosen} and {field.name}"
                raise RuleRefusal(child, f"{message.name} may hold one of {both}, not both")
            chosen = field.name
        # A list or map that comes again replaces the first, as a 0.3 `url` does under
        # prune-empty-upgraded beside `supported_interfaces`.
        kept[field.name] = _field(child, field)
    return node.with_value({name: inner for name, inner in kept.items() if not inner.is_empty})


def without_empties(node: Node) -> Node:
    """Delete null, "", [] and {} from objects and lists, and what becomes empty by that."""
    return node.with_each(without_empties, prune=True)


def _field(node: Node, field: Field) -> Node:
    if field.shape == "one":
        if node.value is False and field.kind == "bool" and not field.presence:
            return Node(None)
        return _one(node, field)
    if not isinstance(node.value, field.expected[0]):
        raise RuleRefusal(node, f"expected {field.expected[1]}")
    return node.with_each(partial(_one, field=field), prune=True)


def _one(node: Node, field: Field) -> Node:
    if field.message is not None:
        return prune_empty(node, field.message)
    if not isinstance(node.value, field.element[0]):
        raise RuleRefusal(node, f"expected {field.element[1]}")
    return without_empties(node) if field.kind == "free" else node


# The 0.3 -> 1.0 rewriting that a2a-sdk's card resolver does before it verifies, frozen.


_DEFAULT_VERSION: Final = "0.3.0"
#: What a member counts as that is absent.
_ABSENT: Final = Node(None)


def upgrade(card: Node) -> Node:
    """Rewrite the root of a card to A2A 1.0; the argument is not changed.

    What a2a-sdk signs of a 0.3 or mixed card is the result of this, with the SDK's quirks. What
    serves people is :mod:`cardsign.card.convert`.

    * `url` and the other members of its connection go wherever `supportedInterfaces` is there, even
      as null, or where `url` is not.
    * Each interface that is made speaks the card's `protocolVersion`, by default ``0.3.0``.
    * A scheme's `type` chooses its wrapper. A wrapped member next to it is lost, and a scheme of
      unknown type loses only its `type`. `security_schemes` is not looked at.
    * `supportsAuthenticatedExtendedCard` counts by Python's truth: "no" is true.

    Raises:
        CanonicalizationError: The SDK would refuse the card's structure here.
    """
    members = dict(object_of(card))
    _upgrade_extended_flag(members)
    _upgrade_interfaces(members)
    _upgrade_security(members)
    return card.with_value(members)


def _upgrade_extended_flag(members: dict[str, Node]) -> None:
    legacy = members.pop("supportsAuthenticatedExtendedCard", None)
    if legacy is None or not legacy.value:
        return
    capabilities = members.get("capabilities", Node({}))
    entries = dict(object_of(capabilities))
    if "extendedAgentCard" not in entries:
        entries["extendedAgentCard"] = Node(True, legacy.origin if legacy.value is True else None)
    members["capabilities"] = Node(entries, capabilities.origin)


def _upgrade_interfaces(members: dict[str, Node], others_speak: Node | None = None) -> None:
    url = members.pop("url", None)
    transport = members.pop("preferredTransport", Node(DEFAULT_TRANSPORT))
    version = members.pop("protocolVersion", Node(_DEFAULT_VERSION))
    additional = members.pop("additionalInterfaces", None)
    if "supportedInterfaces" in members or url is None or not url.value:
        return
    extra = [] if additional is None or not additional.value else list_of(additional)
    interfaces = [_upgrade_interface(Node({"url": url, "transport": transport}), version)]
    interfaces += (_upgrade_interface(other, others_speak or version) for other in extra)
    members["supportedInterfaces"] = Node(interfaces, additional.origin if additional else None)


def _upgrade_interface(interface: Node, version: Node) -> Node:
    entries = object_of(interface)
    url, binding = entries.get("url", _ABSENT), entries.get("transport", _ABSENT)
    members = {"url": url, "protocolBinding": binding, "protocolVersion": version}
    return Node(members, interface.origin)


def _upgrade_security(members: dict[str, Node]) -> None:
    _upgrade_requirements(members)
    if "skills" in members:
        list_of(members["skills"])
        members["skills"] = members["skills"].with_each(_upgrade_skill)
    schemes = members.get("securitySchemes")
    if schemes is not None and schemes.value:
        object_of(schemes)
        members["securitySchemes"] = schemes.with_each(_upgrade_scheme)


def _upgrade_skill(skill: Node) -> Node:
    entries = dict(object_of(skill))
    _upgrade_requirements(entries)
    return skill.with_value(entries)


def _upgrade_requirements(members: dict[str, Node]) -> None:
    legacy = members.pop("security", None)
    if "securityRequirements" in members or legacy is None or legacy.value is None:
        return
    requirements = []
    for requirement in [] if legacy.value in ({}, "") else list_of(legacy):
        schemes = {name: Node({"list": scopes}) for name, scopes in object_of(requirement).items()}
        requirements.append(Node({"schemes": Node(schemes)}, requirement.origin))
    members["securityRequirements"] = Node(requirements, legacy.origin)


def _upgrade_scheme(scheme: Node) -> Node:
    entries = dict(object_of(scheme))
    kind = entries.pop("type", None)
    if kind is None:
        return scheme
    if isinstance(kind.value, list | dict):
        raise RuleRefusal(kind, "expected a string")
    scheme_type = type_of_flat({"type": kind.value})
    if scheme_type is None:
        return Node(entries, scheme.origin)
    if scheme_type == "apiKey" and "in" in entries:
        entries["location"] = entries.pop("in")
    # The wrapper's name says what `type` said, so `type` is covered by it.
    return Node({WRAPPERS[scheme_type]: Node(entries, kind.origin)}, scheme.origin)


# What the resolver of @a2a-js/sdk makes of a card before it verifies it, frozen.

_JS_VERSION: Final = "0.3"
_SCHEME: Final = CARD_0_3.messages["securitySchemes"]
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
    """Rewrite the root of a card as the resolver of @a2a-js/sdk holds it, and prune that.

    The resolver (1.0.1 to 1.3.0, with `legacyCompat`) hands its verifier the JSON as it came or,
    for 0.3 cards and most of those with security schemes, an instance of its own.

    * An instance spells a scheme ``{"scheme": {"$case": ...}}``, which the verifier does not know:
      **every security scheme is lost**, and may be changed under a good signature. JSON is kept
      as it came, with its schemes, where the first of them has a `type` and the card is no 0.3 one.
    * A 0.3 card must have all its lists; its additional interfaces speak "0.3", whatever it says.
    * A member named ``__proto__`` disappears, as JavaScript has it.

    The SDK turns values of a wrong type into others. Here they have no payload, because no such
    card is signed.

    Raises:
        RuleRefusal: The SDK would throw instead of verifying, or a value is of a wrong type.
    """
    members = object_of(card)
    if _is_legacy_to_js(members):
        card = _convert_0_3_as_js(card)
    elif _is_instance_to_js(members):
        lost = ("securitySchemes", "security_schemes")
        for schemes in (members.get(name, _ABSENT) for name in lost):
            for scheme in object_of(schemes).values() if schemes.value is not None else ():
                object_of(scheme)
        card = card.with_value({name: c for name, c in members.items() if name not in lost})
    return without_empties(_without_proto(prune_empty(card, CARD_1_0)))


def _is_legacy_to_js(members: dict[str, Node]) -> bool:
    """Return what the SDK's `isLegacyAgentCard` does."""
    interfaces = members.get("supportedInterfaces", _ABSENT).value
    if isinstance(interfaces, list) and interfaces:
        return False
    if isinstance(members.get("url", _ABSENT).value, str) and "supportedInterfaces" not in members:
        return True
    version = members.get("protocolVersion", _ABSENT).value
    speaks_0_3 = isinstance(version, str) and _IS_0_3.match(version) is not None
    return speaks_0_3 or any(name in members for name in _ONLY_0_3)


def _is_instance_to_js(members: dict[str, Node]) -> bool:
    """Return what `isProtoAgentCard` does: its first scheme or requirement looks like 1.0."""
    _, scheme = next(iter(members.get("securitySchemes", _ABSENT).children()), ("", _ABSENT))
    if isinstance(scheme.value, dict | list) and "type" not in scheme.value:
        return True
    owners = [members, *(skill.value for _, skill in members.get("skills", _ABSENT).children())]
    return any(_names_schemes(owner) for owner in owners if isinstance(owner, dict))


def _names_schemes(owner: dict[str, Node]) -> bool:
    listed = owner.get("security", _ABSENT).value
    first = listed[0].value if isinstance(listed, list) and listed else None
    return isinstance(first, dict) and "schemes" in first


def _convert_0_3_as_js(card: Node) -> Node:
    """Return what the SDK's `toCoreAgentCard` does, without the schemes, which are lost anyway."""
    members = _read_0_3(card, CARD_0_3)
    for _, scheme in members.pop("securitySchemes", _ABSENT).children():
        _check_js_scheme(scheme)
    if not members.get("url", _ABSENT).value:
        raise RuleRefusal(card, "expected a url")
    if not members.get("protocolVersion", _ABSENT).value:
        members["protocolVersion"] = Node(_JS_VERSION)
    _upgrade_interfaces(members, Node(_JS_VERSION))
    offers = _read_0_3(members["capabilities"], CARD_0_3.messages["capabilities"])
    if (flag := members.pop("supportsAuthenticatedExtendedCard", None)) is not None:
        offers["extendedAgentCard"] = flag
    members["capabilities"] = members["capabilities"].with_value(offers)
    _convert_js_requirements(members)
    members["skills"] = members["skills"].with_each(_convert_js_skill)
    return card.with_value(members)


def _convert_js_skill(skill: Node) -> Node:
    members = _read_0_3(skill, CARD_0_3.messages["skills"])
    _convert_js_requirements(members)
    return skill.with_value(members)


def _convert_js_requirements(members: dict[str, Node]) -> None:
    for _, requirement in members.get("security", _ABSENT).children():
        for scopes in object_of(requirement).values():
            list_of(scopes)
    _upgrade_requirements(members)


def _check_js_scheme(scheme: Node) -> None:
    members = _read_0_3(scheme, _SCHEME)
    kind, flows = members.get("type", _ABSENT).value, members.get("flows", _ABSENT)
    if not isinstance(kind, str) or kind not in WRAPPERS:
        raise RuleRefusal(scheme, f"type must be one of {', '.join(WRAPPERS)}")
    if kind == "oauth2" and not _read_0_3(flows, _SCHEME.messages["flows"]):
        raise RuleRefusal(flows, "expected at least one OAuth flow of A2A 0.3")


def _read_0_3(owner: Node, message: Message) -> dict[str, Node]:
    """Return the members that A2A 0.3 knows, each of its type; null is as good as absent.

    The SDK needs the lists and objects that are REQUIRED.
    """
    members = {}
    for name, field in message.fields.items():
        child = object_of(owner).get(name, _ABSENT)
        if child.value is None and not (field.required and field.expected[0] is not str):
            continue
        if not isinstance(child.value, field.expected[0]):
            raise RuleRefusal(owner, f"{name} must be {field.expected[1]}")
        members[name] = child
    return members


def _without_proto(node: Node) -> Node:
    """Return a copy made by assignments, of which one to ``__proto__`` makes no member."""
    if isinstance(node.value, dict):
        members = {name: child for name, child in node.value.items() if name != "__proto__"}
        node = node.with_value(members)
    return node.with_each(_without_proto)
