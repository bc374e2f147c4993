"""What lint rules look at: the values of a card, each with its fields of both schemas.

The modules of rules have functions that find what breaks them. ``codes.toml`` has the texts of
each rule, and two examples, which are its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final, Literal, TypeAlias

from cardsign.card.document import Card, unsigned
from cardsign.card.schema import CARD_0_3, CARD_1_0, DocumentVersion, Field, Message
from cardsign.card.security import Scheme, schemes_of
from cardsign.card.values import Json, children_of, objects_in
from cardsign.findings import Finding, describe_code

#: ``member`` of an object for which a schema has a message; ``element`` of a list or map that a
#: field holds; ``free`` for what stands inside free-form content of 1.0; ``outside`` otherwise.
Role = Literal["member", "element", "free", "outside"]


@dataclass(slots=True)
class Spot:
    """One value of a card, with what the schemas of 1.0 and 0.3 define at its place.

    Attributes:
        tokens: The reference tokens (RFC 6901) of its pointer.
        name: Of the member; None for an element of a list.
        value: The value itself.
        role: See :data:`Role`.
        owner: The object or list that contains it.
        message: The message of 1.0 for that object; None if 1.0 does not define it.
        field: Its field in 1.0, or the field that contains it.
        old_field: The same in 0.3.
        security: Whether it belongs to a security scheme or requirement.
    """

    tokens: tuple[str, ...]
    name: str | None
    value: Json
    role: Role
    owner: Json
    message: Message | None = None
    field: Field | None = None
    old_field: Field | None = None
    security: bool = False


def _inside(
    above: Spot, role: Role, message: Message | None = None, old: Message | None = None
) -> Iterator[Spot]:
    """Yield the members or elements of a value and what is below them, in document order.

    Fields of 1.0 are found in both spellings of proto3 JSON, and those of 0.3 by the same name.
    """
    owner = above.value
    for token, value in children_of(owner):
        name, security = str(token), above.security
        field = None if role == "outside" else above.field
        old_field = above.old_field if role == "element" else None
        if role == "member":
            field = message.spelled.get(name) if message else None
            old_field = old.fields.get(field.name if field else name) if old else None
            security = security or any(f is not None and f.security for f in (field, old_field))
        tokens, key = (*above.tokens, name), name if isinstance(owner, dict) else None
        spot = Spot(tokens, key, value, role, owner, message, field, old_field, security)
        yield spot
        yield from _below(spot)


def _below(spot: Spot) -> Iterator[Spot]:
    """Yield what is below a value, by the fields that the schemas have for it."""
    role: Role = "free" if spot.role == "free" else "outside"
    field = spot.field or spot.old_field
    if field is None or role == "free":
        return _inside(spot, role)
    if spot.role == "member" and field.shape != "one":
        is_filled = isinstance(spot.value, list if field.shape == "list" else dict)
        return _inside(spot, "element" if is_filled else "outside")
    if not isinstance(spot.value, dict):
        return _inside(spot, "outside")
    if field.message is None:
        return _inside(spot, "free" if spot.field and field.kind == "free" else "outside")
    message = spot.field.message if spot.field else None
    return _inside(spot, "member", message, spot.old_field.message if spot.old_field else None)


Tokens: TypeAlias = tuple[str, ...]
#: The code of a rule, a place of a card, and what is wrong there, without a final period.
Breach: TypeAlias = tuple[str, Tokens, str]
#: Yields what breaks some rules of a group.
CardCheck: TypeAlias = "Callable[[LintedCard], Iterator[Breach]]"


def describe_finding(finding: Finding) -> dict[str, object]:
    """Return the JSON object of a finding of lint, with its line and why it matters."""
    return {
        **finding.to_json(),
        "message": finding.message,
        "line": finding.place.line,
        "column": finding.place.column,
        "why": describe_code(finding.code).why,
        "fixable": finding.fixable,
    }


def group_of(code: str) -> str:
    """Return the group of a rule, which ``--group`` chooses.

    What a reader refuses of JSON that could be read (``card.*``) is about members.
    """
    prefix = code.partition(".")[0]
    return "members" if prefix == "card" else prefix


@dataclass(frozen=True, slots=True)
class Waiver:
    """A finding that a project accepts for a time, and says why.

    Attributes:
        rule: The id of a rule.
        reason: Why; a sentence for the next reader.
        expires: The first day on which it holds no more; None for always.
        path: JSON pointer of the place, or empty for every place.
    """

    rule: str
    reason: str
    expires: date | None = None
    path: str = ""

    def fits(self, finding: Finding) -> bool:
        """Return whether it is about this finding."""
        return self.rule == finding.code and self.path in ("", finding.path)

    def has_ended(self, today: date | None) -> bool:
        """Return whether it holds no more; an unknown day ends nothing."""
        return self.expires is not None and today is not None and today >= self.expires


@dataclass(frozen=True, slots=True)
class LintSettings:
    """Settings of lint: ``[lint]`` of cardsign.toml, and options.

    Attributes:
        groups: The groups and rules that are looked at; None for all that fit the card.
        ignore: Ids of rules, or groups, that are left out.
        prefixes: Departments that a skill's id may begin with; empty for any.
        strict: A contract card needs description, spiffe_id and authentication, too.
        legacy_sunset: When the legacy path is to be switched off.
        waivers: What is accepted for a time.
        today: For waivers and the sunset date; None: neither has ended.
    """

    groups: tuple[str, ...] | None = None
    ignore: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    strict: bool = False
    legacy_sunset: date | None = None
    waivers: tuple[Waiver, ...] = ()
    today: date | None = None


DEFAULT_SETTINGS: Final = LintSettings()


class LintedCard:
    """A card, with values that several rules need computed once."""

    def __init__(
        self, document: Mapping[str, Json], settings: LintSettings = DEFAULT_SETTINGS
    ) -> None:
        self.document = document
        self.settings = settings

    @cached_property
    def a2a_version(self) -> DocumentVersion:
        """As :class:`cardsign.card.document.Card` says it."""
        return Card.from_object(self.document).a2a_version

    @cached_property
    def spots(self) -> tuple[Spot, ...]:
        """Every member and element, except those of `signatures`."""
        card = Spot((), None, unsigned(self.document), "outside", None)
        return tuple(_inside(card, "member", CARD_1_0, CARD_0_3))

    @cached_property
    def skills(self) -> tuple[tuple[Tokens, Mapping[str, Json]], ...]:
        """The skills that are objects, with their places."""
        listed = objects_in(self.document.get("skills"))
        return tuple((("skills", str(at)), skill) for at, skill in listed)

    @cached_property
    def schemes(self) -> dict[str, Scheme]:
        """The schemes that the card declares."""
        return schemes_of(self.document)

    @property
    def owners(self) -> tuple[tuple[Tokens, Mapping[str, Json]], ...]:
        """The objects that may have requirements and modes: the card and its skills."""
        return ((), self.document), *self.skills
