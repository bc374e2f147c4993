"""What a signature leaves open: the parts of a received card that its payload does not hold.

Coverage is read off the rewriting that made the payload (:mod:`cardsign.card.node`), never
off a comparison of pointers. Every uncovered member or element at any depth counts against
the card, except the closed table of :class:`Excuse`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from cardsign.card import legacy
from cardsign.card.canonical import FULL_PROFILES, Payload
from cardsign.card.fields import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.pointer import append
from cardsign.card.strictjson import Json


class Excuse(Enum):
    """Why an uncovered part does not count against the card. The table is closed."""

    SCHEMA_DEFAULT = "a schema default outside the security members"
    SAME_AS_1_0 = "a 0.3 member equal to what the covered 1.0 data gives"
    DROPPED_BY_VALUE = "an empty value that the accepted lossy profile drops"


@dataclass(frozen=True, slots=True)
class Uncovered:
    """One part of the received document that a payload does not hold.

    Attributes:
        pointer: JSON pointer of the topmost value of which nothing is covered.
        security: Whether it stands in a member that says who may call, and how.
        excuse: Why it may be passed over, or None where it must not.
    """

    pointer: str
    security: bool
    excuse: Excuse | None


def uncovered_parts(
    document: Mapping[str, Json], payload: Payload, *, accept_lossy: bool = False
) -> tuple[Uncovered, ...]:
    """List what of `document` the payload does not hold, in document order.

    Args:
        document: The received card; its `signatures` are not looked at.
        payload: Made from this very document.
        accept_lossy: The subject's policy names the payload's lossy profile, so what its rule
            drops by value is excused (rule V6). Unknown, renamed and 0.3 members are not.
    """
    members = {name: value for name, value in document.items() if name != "signatures"}
    walk = _Walk(members, payload, accept_lossy and payload.profile not in FULL_PROFILES)
    return tuple(walk.members(members, "", _Place(CARD_1_0, CARD_0_3, False)))


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
    payload: Payload
    accept_lossy: bool

    def members(self, value: dict[str, Json], pointer: str, place: _Place) -> Iterator[Uncovered]:
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
                yield Uncovered(where, below.security, excuse)

    def _inside(
        self,
        value: Json,
        pointer: str,
        field: Field | None,
        old_field: Field | None,
        place: _Place,
    ) -> Iterator[Uncovered]:
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
                yield Uncovered(where, place.security, excuse)
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
        if legacy.says_the_same(pointer, value, self.document, self.payload):
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
