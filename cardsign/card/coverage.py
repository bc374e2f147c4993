"""What a signature leaves open: the parts of a received card that its payload does not hold.

Coverage is read off the rewriting that made the payload, never off a comparison of pointers:

* A payload without `rewritten` is that of a profile that changed nothing: all of the card is
  covered. :func:`~cardsign.card.canonical.make_payload` decides that.
* Of any other, each received value for which a node of `rewritten` stands is covered. The walk
  here finds the rest.

Every uncovered member or element at any depth counts against the card, except the closed table of
:class:`Excuse`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final

from cardsign.card.canonical import FULL_PROFILES, Payload
from cardsign.card.interfaces import DEFAULT_TRANSPORT, Interface, interfaces_of
from cardsign.card.rules import without_empties
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.security import SCHEME_TYPES, flat_requirements
from cardsign.card.tree import Node, Tokens, nodes_held, write
from cardsign.card.values import Json, jcs, members_of, pointer


class Excuse(Enum):
    """Why an uncovered part does not count against the card. The table is closed."""

    SCHEMA_DEFAULT = "a schema default outside the security members"
    SAME_AS_1_0 = "a 0.3 member equal to what the covered 1.0 data gives"
    DROPPED_BY_VALUE = "an empty value that the accepted lossy profile drops"


@dataclass(frozen=True, slots=True)
class Uncovered:
    """One part of the received document that a payload does not hold.

    Attributes:
        node: The topmost value of which nothing is covered.
        tokens: Where that value stands in the card.
        security: Whether it stands in a member that says who may call, and how.
        excuse: Why it may be passed over, or None where it must not.
    """

    node: Node
    tokens: Tokens
    security: bool
    excuse: Excuse | None

    @property
    def pointer(self) -> str:
        """The JSON pointer of that value."""
        return pointer(*self.tokens)


def uncovered_parts(payload: Payload, *, accept_lossy: bool = False) -> tuple[Uncovered, ...]:
    """List what the payload does not hold of its card, in the card's order.

    Args:
        payload: It knows the card of which it was made; `signatures` are not looked at.
        accept_lossy: The subject's policy names the payload's lossy profile, so what its rule
            drops by value is excused (rule V6). Unknown, renamed and 0.3 members are not.
    """
    if payload.received is None or payload.rewritten is None:  # it is_whole_card
        return ()
    lossy = accept_lossy and payload.profile not in FULL_PROFILES
    walk = _Walk(payload, payload.received, payload.rewritten, lossy)
    return tuple(walk.members(payload.received, _Place((), CARD_1_0, CARD_0_3, False)))


#: Pointers that a report lists of one card; more of them help nobody, and their number is told.
MAX_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class Listed:
    """What a report shows of uncovered parts.

    Attributes:
        pointers: The first :data:`MAX_LISTED`.
        count: How many there are, those left out included.
    """

    pointers: tuple[str, ...] = ()
    count: int = 0

    @property
    def left_out(self) -> int:
        """How many are not among `pointers`."""
        return self.count - len(self.pointers)


def listed(parts: Sequence[Uncovered]) -> Listed:
    """Write the places that a report shows."""
    return Listed(tuple(part.pointer for part in parts[:MAX_LISTED]), len(parts))


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What a payload leaves open, as reports say it: all that the table does not call harmless.

    Attributes:
        listed: Where that is, in the card's order.
        first: As many of the parts as are listed; those that fail the card come first.
        fails: Something of it has no excuse.
    """

    listed: Listed
    first: tuple[Uncovered, ...]
    fails: bool


_NOTHING: Final = LeftOpen(Listed(), (), False)


def left_open(payload: Payload, *, accept_lossy: bool = False) -> LeftOpen:
    """What a payload leaves open: :func:`uncovered_parts`, summed up once for each payload."""
    if payload.is_whole_card:
        return _NOTHING
    remembered: dict[bool, LeftOpen] = payload.left_open_known
    if accept_lossy not in remembered:
        parts = uncovered_parts(payload, accept_lossy=accept_lossy)
        kept_parts = [part for part in parts if part.excuse in (None, Excuse.DROPPED_BY_VALUE)]
        shown = listed(kept_parts)
        kept_parts.sort(key=lambda part: part.excuse is not None)
        fails = bool(kept_parts) and kept_parts[0].excuse is None
        remembered[accept_lossy] = LeftOpen(shown, tuple(kept_parts[: len(shown.pointers)]), fails)
    return remembered[accept_lossy]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk stands, and in which messages of the two schemas; None where one ends."""

    tokens: Tokens
    current: Message | None
    old: Message | None
    security: bool

    def below(self, token: str | int, field: Field | None, old_field: Field | None) -> _Place:
        security = self.security or any(f is not None and f.security for f in (field, old_field))
        current = field.message if field else None
        old = old_field.message if old_field else None
        return _Place((*self.tokens, token), current, old, security)

    def element(self, token: str | int) -> _Place:
        return replace(self, tokens=(*self.tokens, token))


class _Walk:
    """Goes down the card, by both schemas. Of the nodes in `held` the payload has something."""

    def __init__(
        self, payload: Payload, received: Node, rewritten: Node, accept_lossy: bool
    ) -> None:
        self.payload = payload
        self.rewritten = rewritten
        self.accept_lossy = accept_lossy
        self.held = nodes_held(received, rewritten)

    @cached_property
    def messages(self) -> dict[Node, Node]:
        """The objects among the skills, and among the security schemes."""
        rewritten = self.rewritten.value
        assert isinstance(rewritten, dict)  # noqa: S101 - every payload is an object
        owners = (rewritten[name] for name in ("skills", "securitySchemes") if name in rewritten)
        return {child.origin: child for owner in owners for _, child in owner.children()}

    def members(self, node: Node, place: _Place) -> Iterator[Uncovered]:
        assert isinstance(node.value, dict)  # noqa: S101 - only objects have members
        for name, child in node.value.items():
            is_held = child in self.held
            if is_held and not isinstance(child.value, dict | list):
                continue
            field = place.current.spelled.get(name) if place.current else None
            old_field = place.old.fields.get(name) if place.old else None
            below = place.below(name, field, old_field)
            if is_held:
                yield from self._inside(child, field, old_field, below)
            else:
                exact = field if field is not None and field.name == name else None
                excuse = self._excuse(node, child, below, field, exact, old_field)
                yield Uncovered(child, below.tokens, below.security, excuse)

    def _inside(
        self, node: Node, field: Field | None, old_field: Field | None, place: _Place
    ) -> Iterator[Uncovered]:
        keyed = any(f is not None and f.shape == "map" for f in (field, old_field))
        if isinstance(node.value, dict) and not keyed:
            yield from self.members(node, place)
            return
        for token, child in node.children():
            if child not in self.held:
                by_value = self.accept_lossy and field is not None and _is_empty(child, field)
                excuse = Excuse.DROPPED_BY_VALUE if by_value else None
                yield Uncovered(child, (*place.tokens, token), place.security, excuse)
            elif isinstance(child.value, dict):
                yield from self.members(child, place.element(token))
            elif isinstance(child.value, list):
                yield from self._inside(child, None, None, place.element(token))

    def _excuse(
        self,
        owner: Node,
        node: Node,
        place: _Place,
        field: Field | None,
        exact: Field | None,
        old_field: Field | None,
    ) -> Excuse | None:
        """The closed table; `exact` is the field of 1.0 where the member has its own spelling."""
        fields = [entry for entry in (exact, old_field) if entry is not None]
        # Rule 1 reads a default as if the member were not there. Where absence means the card's
        # own default, an empty list or null may say "none".
        is_default = exact is not None and not exact.required and exact.is_default(node.value)
        if (is_default or (node.value is None and fields)) and not (
            place.security or any(entry.inherits for entry in fields)
        ):
            return Excuse.SCHEMA_DEFAULT
        message = self.messages.get(owner)
        beside = message.value if message is not None and isinstance(message.value, dict) else {}
        if says_the_same(node, place.tokens, self.payload, beside):
            return Excuse.SAME_AS_1_0
        if self.accept_lossy and field is not None and _is_empty(node, field, whole=True):
            return Excuse.DROPPED_BY_VALUE
        return None


def _is_empty(node: Node, field: Field, *, whole: bool = False) -> bool:
    """Whether prune-empty leaves nothing of a value because of what it is, not of its names.

    `whole` says that it is the field's list or map itself, not one element of it.
    """
    value = node.value
    if value is None:
        return True
    if whole and field.shape != "one":
        kind: type = {"list": list, "map": dict}[field.shape]
        return isinstance(value, kind) and all(_is_empty(c, field) for _, c in node.children())
    if field.message is not None:
        spelled = field.message.spelled
        return isinstance(value, dict) and all(
            name in spelled and _is_empty(child, spelled[name], whole=True)
            for name, child in value.items()
        )
    if field.kind == "free":
        return without_empties(node).is_empty
    return value == "" or (value is False and not field.presence)


# Excuse.SAME_AS_1_0: does a 0.3 member say what the covered 1.0 data says? It is held against the
# payload and never against the card, whose 1.0 data may be left open as well.


_CONNECTION: Final = frozenset({"url", "preferredTransport", "protocolVersion"})
_VERSION: Final = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(?:\.[0-9]+)?")

_BY_WRAPPER: Final = {kind.wrapper: kind for kind in SCHEME_TYPES.values()}


def says_the_same(node: Node, tokens: Tokens, payload: Payload, beside: Mapping[str, Node]) -> bool:
    """Whether a 0.3 member equals what the payload's 1.0 data gives.

    False for every member that A2A 0.3.0 does not define at that place. `beside` is what the
    payload holds of the skill or security scheme in which the member stands.
    """
    match tokens:
        case (str(name),) if name in _CONNECTION:
            return any(
                _same_connection(payload, interface) for interface in _old_interfaces(payload)
            )
        case ("additionalInterfaces",):
            old = {jcs({"url": i.url, "transport": i.binding}) for i in _old_interfaces(payload)}
            value = write(node)
            return isinstance(value, list) and old.issuperset(map(jcs, value))
        case ("supportsAuthenticatedExtendedCard",):
            flag = members_of(payload.value.get("capabilities")).get("extendedAgentCard")
            return isinstance(node.value, bool) and node.value is (flag is True)
        case ("security",):
            return write(node) == flat_requirements(payload.value)
        case ("skills", _, "security"):
            required = beside.get("securityRequirements")
            owner = {} if required is None else {"securityRequirements": write(required)}
            return write(node) == flat_requirements(owner)
        case ("securitySchemes", _, str(member)):
            flat = _flat_scheme(beside)
            # Not `==`: to Python 1 is True, to JSON it is not.
            return member in flat and jcs(write(flat[member])) == jcs(write(node))
    return False


def _old_interfaces(payload: Payload) -> list[Interface]:
    """The 1.0 interfaces of the payload that speak 0.x."""
    return [
        interface
        for interface in interfaces_of(payload.value)
        if interface.written_in == "1.0" and str(interface.version or "").startswith("0.")
    ]


def _same_connection(payload: Payload, interface: Interface) -> bool:
    """One covered 0.x interface must give all three members, so they are judged as one."""
    card = payload.received.value if payload.received is not None else None
    assert isinstance(card, dict)  # noqa: S101 - a card is an object, and something is left out
    own = {name: write(card[name]) for name in _CONNECTION if name in card}
    transport, version = own.get("preferredTransport"), own.get("protocolVersion")
    return (
        own.get("url") == interface.url
        and (DEFAULT_TRANSPORT if transport is None else transport) == interface.binding
        and _same_version(interface.version if version is None else version, interface.version)
    )


def _same_version(version: Json, other: Json) -> bool:
    """0.3 and 0.3.0 are one version (A2A 1.0 3.6: the patch number does not count)."""
    matches = [_VERSION.fullmatch(v) for v in (version, other) if isinstance(v, str)]
    versions = [match["minor"] for match in matches if match]
    return len(versions) == 2 and versions[0] == versions[1]


def _flat_scheme(scheme: Mapping[str, Node]) -> dict[str, Node]:
    """A 1.0 scheme as A2A 0.3 would write it; nothing if it is not in one known wrapper."""
    if len(scheme) != 1:
        return {}
    ((wrapper, inner),) = scheme.items()
    kind = _BY_WRAPPER.get(wrapper)
    if kind is None or not isinstance(inner.value, dict):
        return {}
    members = {kind.renamed.get(name, name): member for name, member in inner.value.items()}
    return {"type": Node(kind.name), **members}
