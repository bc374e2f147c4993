"""The plain definition of coverage, as it was before the tree lost its pointers: slow, and frozen.

Each value keeps the whole text of its JSON pointer, in the received document and in the payload,
and a value is covered if its pointer leads anywhere. The profiles' rewritings are the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cardsign.card import (
    CARD_0_3,
    CARD_1_0,
    FULL_PROFILES,
    PROFILES,
    Excuse,
    Field,
    Json,
    Message,
    Node,
    Payload,
    Payloads,
    append,
    jcs,
    split,
    write,
)

Part = tuple[str, bool, Excuse | None]


class Where(str):
    """A pointer as the source of a node."""

    @property
    def pointer(self) -> str:
        """Itself: what a refusal shows."""
        return str(self)


@dataclass(frozen=True, slots=True)
class PlainPayload:
    """What coverage asks of a payload."""

    profile: str
    value: dict[str, Json]
    destinations: Mapping[str, tuple[str, ...]]


def plain_payload(document: Mapping[str, Json], profile: str) -> PlainPayload:
    """Make it; where the profile refuses the card, that is raised."""
    members = {name: value for name, value in document.items() if name != "signatures"}
    rewrite = PROFILES[profile].rewrite
    tree = _read(members, "")
    received = Payloads(members)
    received.tree = tree
    rewritten: Any = tree if rewrite is None else rewrite(received)
    value: Any = write(rewritten)
    return PlainPayload(profile, value, destinations(rewritten))


def _read(value: Json, pointer: str) -> Node:
    source: Any = Where(pointer)
    if isinstance(value, dict):
        return Node(
            {name: _read(one, append(pointer, name)) for name, one in value.items()}, source
        )
    if isinstance(value, list):
        return Node([_read(one, append(pointer, i)) for i, one in enumerate(value)], source)
    return Node(value, source)


def places_in(payload: Payload) -> dict[str, tuple[str, ...]]:
    """The same of a payload."""
    return destinations(payload.rewritten or _read(payload.value, ""))


def destinations(tree: Node) -> dict[str, tuple[str, ...]]:
    """Where each value of the received document went: source pointer -> tree pointers."""
    found: dict[str, list[str]] = {}
    pending = [("", tree)]
    while pending:
        where, node = pending.pop()
        if node.source is not None:
            found.setdefault(node.source.pointer, []).append(where)
        pending.extend((append(where, token), child) for token, child in node.children())
    return {source: tuple(sorted(pointers)) for source, pointers in found.items()}


def plain_uncovered(
    document: Mapping[str, Json], payload: PlainPayload, *, accept_lossy: bool = False
) -> list[Part]:
    """Each uncovered pointer, whether it is about security, and its excuse, in document order."""
    members = {name: value for name, value in document.items() if name != "signatures"}
    walk = _Walk(members, payload, accept_lossy and payload.profile not in FULL_PROFILES)
    return list(walk.members(members, "", _Place(CARD_1_0, CARD_0_3, False)))


_CONNECTION: Final = frozenset({"url", "preferredTransport", "protocolVersion"})
_DEFAULT_TRANSPORT: Final = "JSONRPC"  # A2A 0.3.0 5.5: preferredTransport's default
_VERSION: Final = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(?:\.[0-9]+)?")

# 1.0 wrapper -> (0.3 `type`, members that the 0.3 form names differently)
_FLAT: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "apiKeySecurityScheme": ("apiKey", {"location": "in"}),
    "httpAuthSecurityScheme": ("http", {}),
    "oauth2SecurityScheme": ("oauth2", {}),
    "openIdConnectSecurityScheme": ("openIdConnect", {}),
    "mtlsSecurityScheme": ("mutualTLS", {}),
}


def says_the_same(
    pointer: str, value: Json, document: Mapping[str, Json], payload: PlainPayload
) -> bool:
    """Whether the 0.3 member at `pointer` equals what the payload's 1.0 data gives.

    False for every member that A2A 0.3.0 does not define at that place.
    """
    tokens = split(pointer)
    match tokens:
        case [name] if name in _CONNECTION:
            return any(_same_connection(document, one) for one in _interfaces(payload))
        case ["additionalInterfaces"]:
            return isinstance(value, list) and _same_interfaces(value, payload)
        case ["supportsAuthenticatedExtendedCard"]:
            capabilities = payload.value.get("capabilities")
            flag = capabilities.get("extendedAgentCard") if isinstance(capabilities, dict) else None
            return isinstance(value, bool) and value is (flag is True)
        case ["security"]:
            return value == _requirements(payload.value)
        case ["skills", _, "security"]:
            skill = _at_destination(f"/skills/{tokens[1]}", payload)
            return isinstance(skill, dict) and value == _requirements(skill)
        case ["securitySchemes", _, member]:
            scheme = _at_destination(pointer.rpartition("/")[0], payload)
            flat = _flat_scheme(scheme)
            # Not `==`: to Python 1 is True, to JSON it is not.
            return flat is not None and member in flat and jcs(flat[member]) == jcs(value)
    return False


def _interfaces(payload: PlainPayload) -> list[dict[str, Json]]:
    interfaces = payload.value.get("supportedInterfaces")
    return [i for i in interfaces if isinstance(i, dict)] if isinstance(interfaces, list) else []


def _is_0_3(interface: dict[str, Json]) -> bool:
    return str(interface.get("protocolVersion", "")).startswith("0.")


def _same_connection(document: Mapping[str, Json], interface: dict[str, Json]) -> bool:
    """One covered 0.x interface must give all three members, so they are judged as one."""
    if not _is_0_3(interface):
        return False
    version = interface.get("protocolVersion")
    defaults = {"preferredTransport": _DEFAULT_TRANSPORT, "protocolVersion": version}
    given = {name: document[name] for name in _CONNECTION if document.get(name) is not None}
    connection = {**defaults, **given}
    return (
        connection.get("url") == interface.get("url")
        and connection["preferredTransport"] == interface.get("protocolBinding")
        and _same_version(connection["protocolVersion"], version)
    )


def _same_version(one: Json, other: Json) -> bool:
    """0.3 and 0.3.0 are one version (A2A 1.0 3.6: the patch number does not count)."""
    matches = [_VERSION.fullmatch(v) for v in (one, other) if isinstance(v, str)]
    versions = [match["minor"] for match in matches if match]
    return len(versions) == 2 and versions[0] == versions[1]


def _same_interfaces(additional: list[Json], payload: PlainPayload) -> bool:
    current = {
        jcs({"url": one.get("url"), "transport": one.get("protocolBinding")})
        for one in _interfaces(payload)
        if _is_0_3(one)
    }
    return all(jcs(one) in current for one in additional)


def _requirements(owner: dict[str, Json]) -> list[Json] | None:
    requirements = owner.get("securityRequirements")
    if not isinstance(requirements, list):
        return None
    flat: list[Json] = []
    for one in requirements:
        schemes = one.get("schemes") if isinstance(one, dict) else None
        if not isinstance(schemes, dict):
            return None
        flat.append({n: s.get("list", []) for n, s in schemes.items() if isinstance(s, dict)})
    return flat


def _flat_scheme(scheme: Json) -> dict[str, Json] | None:
    if not isinstance(scheme, dict) or len(scheme) != 1:
        return None
    ((wrapper, members),) = scheme.items()
    if wrapper not in _FLAT or not isinstance(members, dict):
        return None
    kind, renamed = _FLAT[wrapper]
    return {"type": kind, **{renamed.get(name, name): v for name, v in members.items()}}


def _at_destination(source: str, payload: PlainPayload) -> Json:
    """The payload's value for the value that stood at `source`; None if it has no place."""
    places = payload.destinations.get(source)
    if not places:
        return None
    value: Json = payload.value
    for token in split(places[0]):
        if isinstance(value, list):
            value = value[int(token)]
        elif isinstance(value, dict):
            value = value[token]
    return value


@dataclass(frozen=True, slots=True)
class _Place:
    """Which messages of the two schemas the walk stands in; None where the schema ends."""

    current: Message | None
    old: Message | None
    security: bool

    def below(self, field: Field | None, old_field: Field | None) -> _Place:
        security = self.security or any(f is not None and f.security for f in (field, old_field))
        return _Place(
            field.message if field else None, old_field.message if old_field else None, security
        )


@dataclass(frozen=True, slots=True)
class _Walk:
    document: dict[str, Json]
    payload: PlainPayload
    accept_lossy: bool

    def members(self, value: dict[str, Json], pointer: str, place: _Place) -> Iterator[Part]:
        for name, child in value.items():
            field = place.current.spelled.get(name) if place.current else None
            old_field = place.old.fields.get(name) if place.old else None
            below = place.below(field, old_field)
            where = append(pointer, name)
            if self._has_covered(where, child):
                yield from self._inside(child, where, field, old_field, below)
            else:
                exact = field if field is not None and field.name == name else None
                known = exact is not None or old_field is not None
                absent = (child is None and known) or _is_default(child, exact)
                excuse = self._excuse(where, child, field, absent and not below.security)
                yield (where, below.security, excuse)

    def _inside(
        self,
        value: Json,
        pointer: str,
        field: Field | None,
        old_field: Field | None,
        place: _Place,
    ) -> Iterator[Part]:
        keyed = any(f is not None and f.shape == "map" for f in (field, old_field))
        if isinstance(value, dict) and not keyed:
            yield from self.members(value, pointer, place)
            return
        children = (
            value.items() if isinstance(value, dict)
            else ((str(i), v) for i, v in enumerate(value)) if isinstance(value, list)
            else ()
        )  # fmt: skip
        for token, child in children:
            where = append(pointer, token)
            if not self._has_covered(where, child):
                by_value = self.accept_lossy and field is not None and _is_empty(child, field)
                excuse = Excuse.DROPPED_BY_VALUE if by_value else None
                yield (where, place.security, excuse)
            elif isinstance(child, dict):
                yield from self.members(child, where, place)
            elif isinstance(child, list):
                yield from self._inside(child, where, None, None, place)

    def _has_covered(self, pointer: str, value: Json) -> bool:
        """Whether the value, or anything below it, has a place in the payload."""
        if pointer in self.payload.destinations:
            return True
        if isinstance(value, dict):
            return any(self._has_covered(append(pointer, k), v) for k, v in value.items())
        if isinstance(value, list):
            return any(self._has_covered(append(pointer, str(i)), v) for i, v in enumerate(value))
        return False

    def _excuse(
        self, pointer: str, value: Json, field: Field | None, as_if_absent: bool
    ) -> Excuse | None:
        if as_if_absent:
            return Excuse.SCHEMA_DEFAULT
        if says_the_same(pointer, value, self.document, self.payload):
            return Excuse.SAME_AS_1_0
        if self.accept_lossy and field is not None and _is_empty(value, field, whole=True):
            return Excuse.DROPPED_BY_VALUE
        return None


def _is_default(value: Json, field: Field | None) -> bool:
    """Whether rule 1 reads the value as if the member were not there."""
    return field is not None and not field.required and field.is_default(value)


def _is_empty(value: Json, field: Field, *, whole: bool = False) -> bool:
    """Whether prune-empty leaves nothing of a value because of what it is, not of its names.

    `whole` says that `value` is the field's list or map itself, not one element of it.
    """
    if value is None:
        return True
    if whole and field.shape == "list":
        return isinstance(value, list) and all(_is_empty(child, field) for child in value)
    if whole and field.shape == "map":
        return isinstance(value, dict) and all(_is_empty(c, field) for c in value.values())
    if field.message is not None:
        return isinstance(value, dict) and all(
            (inner := field.message.spelled.get(name)) is not None
            and _is_empty(child, inner, whole=True)
            for name, child in value.items()
        )
    if field.kind == "free":
        return _is_hollow(value)
    return value == "" or (value is False and not field.presence)


def _is_hollow(value: Json) -> bool:
    if isinstance(value, dict):
        return all(_is_hollow(child) for child in value.values())
    if isinstance(value, list):
        return all(_is_hollow(child) for child in value)
    return value is None or value == ""
