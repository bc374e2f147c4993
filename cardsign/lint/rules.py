"""Lint rules: what each of them checks, and what it finds.

Each group of rules is a module with a table ``RULES``. ``codes.toml`` has the texts of each rule,
and two examples, which are its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from cardsign.card.document import Card, DocumentVersion
from cardsign.card.members import Spot, check_members, walk
from cardsign.card.security import Requirement, Scheme, requirements_of, schemes_of
from cardsign.card.values import Json, objects_in, pointer
from cardsign.findings import Finding, Place, Severity, describe_code

Tokens: TypeAlias = tuple[str, ...]
#: A place of a card, and what is wrong there, without a final period.
Found: TypeAlias = tuple[Tokens, str]
#: What is wrong with a value; None where nothing is.
SpotCheck: TypeAlias = Callable[[Spot], str | None]
CardCheck: TypeAlias = "Callable[[LintedCard], Iterator[Found]]"


class Rule(NamedTuple):
    """One rule. A rule, once released, keeps its code and what it means.

    Its texts and examples are in ``codes.toml``.

    Attributes:
        severity: ``error``: some reader refuses the card, or is misled by it. ``warning``: it
            should be fixed. ``note``: worth knowing. A project may set another one.
        check: Yields what is wrong with a card; None where it is found elsewhere.
        on_value: Says what is wrong with one value of it.
        is_fixable: Whether :func:`cardsign.lint.cards.fix` fixes that, since it loses no meaning.
    """

    severity: Severity
    check: CardCheck | None = None
    on_value: SpotCheck | None = None
    is_fixable: Callable[[Spot], bool] | None = None


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


@dataclass(frozen=True, slots=True)
class LintSettings:
    """What a project asks of its cards: ``[lint]`` of cardsign.toml, and options.

    Attributes:
        groups: The groups and rules that are looked at; None for all that fit the card.
        ignore: Ids of rules, or groups, that are left out.
        severities: By id of the rule, in place of its own.
        prefixes: Departments that a skill's id may begin with; empty for any.
        strict: A contract card needs description, spiffe_id and authentication, too.
        legacy_sunset: When the legacy path is to be switched off.
        waivers: What is accepted for a time.
        today: For waivers and the sunset date; None: neither has ended.
    """

    groups: tuple[str, ...] | None = None
    ignore: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict, hash=False)
    prefixes: tuple[str, ...] = ()
    strict: bool = False
    legacy_sunset: date | None = None
    waivers: tuple[Waiver, ...] = ()
    today: date | None = None


DEFAULT_SETTINGS: Final = LintSettings()


def apply_rules(rules: Mapping[str, Rule], subject: LintedCard) -> Iterator[Finding]:
    """Yield what breaks some rules: of each value in document order, then of the whole card."""
    on_values = [(code, rule, rule.on_value) for code, rule in rules.items() if rule.on_value]
    for spot in subject.spots if on_values else ():
        for code, rule, check in on_values:
            if (message := check(spot)) is not None:
                fixable = rule.is_fixable is not None and rule.is_fixable(spot)
                yield make_finding(code, rule, spot.tokens, message, fixable=fixable)
    for code, rule in rules.items():
        for tokens, message in rule.check(subject) if rule.check else ():
            yield make_finding(code, rule, tokens, message)


def make_finding(
    code: str, rule: Rule, tokens: Tokens, message: str, *, fixable: bool = False
) -> Finding:
    """Return what a rule finds at a place of a card: () stands for the card."""
    place = Place(pointer(*tokens), tokens=tokens)
    return Finding(code, message, place, severity=rule.severity, fixable=fixable)


class LintedCard:
    """A card as the rules look at it; what several of them need is made once."""

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
        """Every value but those of `signatures`."""
        return tuple(walk(self.document))

    @cached_property
    def problems(self) -> tuple[Finding, ...]:
        """What the schema of the card's version finds."""
        return check_members(self.document, self.a2a_version)

    @cached_property
    def skills(self) -> tuple[tuple[Tokens, Mapping[str, Json]], ...]:
        """The skills that are objects, with their places."""
        listed = objects_in(self.document.get("skills"))
        return tuple((("skills", str(at)), skill) for at, skill in listed)

    @cached_property
    def schemes(self) -> dict[str, Scheme]:
        """The schemes that the card declares."""
        return schemes_of(self.document)

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements of the card and of its skills."""
        return tuple(
            requirement
            for tokens, owner in self.owners
            for requirement in requirements_of(owner, self.schemes, tokens)
        )

    @property
    def owners(self) -> tuple[tuple[Tokens, Mapping[str, Json]], ...]:
        """What has requirements and modes: the card and its skills."""
        return ((), self.document), *self.skills
