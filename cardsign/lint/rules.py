"""Lint rules: what each finds, why it matters, what to do; the source of docs/reference/lint.md.

A rule's texts, its two examples and its check stand together, bound by :func:`rule` (asked about
every value of a card) or :func:`card_rule` (asked once about a card). The examples are its tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, Final, TypeAlias

from cardsign.card.document import A2aVersion, Card
from cardsign.card.members import MemberProblem, check_members
from cardsign.card.security import Requirement, Scheme, requirements_of, schemes_of
from cardsign.card.spots import Spot, walk
from cardsign.card.values import MAX_MESSAGE, Json, cut, objects_in, pointer, split, value_at
from cardsign.reasons import Severity

Tokens: TypeAlias = tuple[str, ...]
#: A place of a card, and what is wrong there, without a final period.
Found: TypeAlias = tuple[Tokens, str]
#: What is wrong with a value; None where nothing is.
SpotCheck: TypeAlias = Callable[[Spot], str | None]
CardCheck: TypeAlias = "Callable[[Subject], Iterator[Found]]"


@dataclass(frozen=True, slots=True)
class Example:
    """A card that a rule is shown on: one of :data:`BASES`, and what is put where.

    Attributes:
        changes: Values by JSON pointer; `...` takes the member away.
        base: Of :data:`BASES`.
        written: The card as bytes, where it is one of no JSON value; else empty.
        settings: What the project asks.
    """

    changes: Mapping[str, Any]
    base: str = "1.0"
    written: bytes = b""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def data(self) -> bytes:
        """The whole card as bytes."""
        return self.written or json.dumps(self.document(), ensure_ascii=False).encode()

    def document(self) -> dict[str, Any]:
        """The whole card."""
        document: dict[str, Any] = json.loads(json.dumps(BASES[self.base]))
        for where, value in self.changes.items():
            *above, last = split(where)
            owner: Any = value_at(document, above)
            if value is ...:
                del owner[int(last) if isinstance(owner, list) else last]
            elif isinstance(owner, list):
                owner.insert(int(last), value)
            else:
                owner[last] = value
        return document


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule, once released, keeps its id and what it means.

    Attributes:
        id: ``group.name``.
        severity: ``error``: some reader refuses the card, or is misled by it. ``warning``: it
            should be fixed. ``note``: worth knowing. A project may set another one.
        summary: What it finds; one sentence.
        why: What follows from that, and for whom.
        fix: What a person can do about it.
        reference: Where it comes from; may be empty.
        bad: A card that breaks it.
        good: A card close to that which does not.
        fixable: Whether :func:`cardsign.lint.cards.fix` fixes it, because that loses no meaning.
        repair: What should stand at the place in place of its value; the value itself where no
            single answer is certain. What it returns needs no further repair.
    """

    id: str
    severity: Severity
    summary: str
    why: str
    fix: str
    reference: str = ""
    bad: Example | None = field(default=None, compare=False)
    good: Example | None = field(default=None, compare=False)
    on_spot: SpotCheck | None = field(default=None, compare=False)
    on_card: CardCheck | None = field(default=None, compare=False)
    fixable: Callable[[Spot], bool] | None = field(default=None, compare=False)
    repair: Callable[[Json], Json] | None = field(default=None, compare=False)

    @property
    def group(self) -> str:
        """What can be chosen by ``--group``."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that lint or check reports.

    Attributes:
        rule: The rule, which says why and how to fix it.
        tokens: The reference tokens (RFC 6901) of the member or element; () for the whole card.
        message: What was found there, without a final period; cut where it is long.
        fixable: :func:`cardsign.lint.cards.fix` fixes it.
        set_severity: What the project's settings say of the rule.
        line: Line of the place in the input, from 1; None where it is not known.
        column: Column in characters, from 1.
        count: How many findings it stands for: over 1 in place of those that are not listed.
    """

    rule: Rule
    tokens: Tokens
    message: str
    fixable: bool = False
    set_severity: Severity | None = None
    line: int | None = None
    column: int | None = None
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", cut(self.message, MAX_MESSAGE))

    @property
    def severity(self) -> Severity:
        """How much it weighs."""
        return self.set_severity or self.rule.severity

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer, cut where it is long; made anew each time."""
        return pointer(*self.tokens)

    def to_json(self) -> dict[str, Json]:
        """The finding for programs, with all that its rule says."""
        return {
            "rule": self.rule.id,
            "severity": self.severity,
            "path": self.pointer,
            "line": self.line,
            "message": self.message,
            "why": self.rule.why,
            "fix": self.rule.fix,
            "fixable": self.fixable,
        }


#: Findings of one rule that a report of one card lists, and of all rules.
MAX_OF_RULE: Final = 50
MAX_FINDINGS: Final = 200


def listed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that a report lists, in order; at the end the number of the others.

    The first of each rule is listed, however many there are of other rules.
    """
    kept: list[Finding] = []
    counts: dict[tuple[str, bool], int] = {}
    left_out: dict[tuple[str, bool], Finding] = {}
    for one in findings:
        kind = one.rule.id, one.fixable
        counts[kind] = counts.get(kind, 0) + one.count
        if counts[kind] == 1 or (counts[kind] <= MAX_OF_RULE and len(kept) < MAX_FINDINGS):
            kept.append(one)
            continue
        count = one.count + (left_out[kind].count if kind in left_out else 0)
        left_out[kind] = Finding(
            one.rule, (), f"{count:,} more", one.fixable, one.set_severity, count=count
        )
    return (*kept, *left_out.values())


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
        groups: The groups that are looked at; None for all that fit the card.
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


class Subject:
    """A card as the rules look at it; what several of them need is made once."""

    def __init__(self, document: Mapping[str, Json], settings: LintSettings) -> None:
        self.document = document
        self.settings = settings

    @cached_property
    def a2a_version(self) -> A2aVersion:
        """As :class:`cardsign.card.document.Card` says it."""
        return Card.from_object(self.document).a2a_version

    @cached_property
    def spots(self) -> tuple[Spot, ...]:
        """Every value but those of `signatures`."""
        return tuple(walk(self.document))

    @cached_property
    def problems(self) -> tuple[MemberProblem, ...]:
        """What the schema of the card's version finds."""
        return check_members(self.document, self.a2a_version)

    @cached_property
    def skills(self) -> tuple[tuple[Tokens, Mapping[str, Json]], ...]:
        """The skills that are objects, with their places."""
        listed = objects_in(self.document.get("skills"))
        return tuple((("skills", str(at)), one) for at, one in listed)

    @cached_property
    def schemes(self) -> dict[str, Scheme]:
        """The schemes that the card declares."""
        return schemes_of(self.document)

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements of the card and of its skills."""
        return tuple(
            one
            for tokens, owner in self.owners
            for one in requirements_of(owner, self.schemes, tokens)
        )

    @property
    def owners(self) -> tuple[tuple[Tokens, Mapping[str, Json]], ...]:
        """What has requirements and modes: the card and its skills."""
        return ((), self.document), *self.skills


RULES: Final[dict[str, Rule]] = {}


def always(_: Spot) -> bool:
    """What :func:`cardsign.lint.cards.fix` fixes wherever it is found."""
    return True


def rule(name: str, severity: Severity, **texts: Any) -> Callable[[SpotCheck], SpotCheck]:
    """Make a check of one value the check of a new rule; the texts are those of :class:`Rule`."""

    def bind(check: SpotCheck) -> SpotCheck:
        add_rule(name, severity, on_spot=check, **texts)
        return check

    return bind


def card_rule(name: str, severity: Severity, **texts: Any) -> Callable[[CardCheck], CardCheck]:
    """Make a check of a card the check of a new rule; the texts are those of :class:`Rule`."""

    def bind(check: CardCheck) -> CardCheck:
        add_rule(name, severity, on_card=check, **texts)
        return check

    return bind


def add_rule(
    name: str,
    severity: Severity,
    summary: str,
    why: str,
    fix: str,
    reference: str = "",
    **more: Any,
) -> Rule:
    """Make a rule whose check is elsewhere, such as one about several cards."""
    RULES[name] = Rule(name, severity, summary, why, fix, reference, **more)
    return RULES[name]


def rules_of(group: str) -> tuple[Rule, ...]:
    """The rules of one group, in the order in which they were bound."""
    return tuple(one for one in RULES.values() if one.group == group)


def asked(rules: tuple[Rule, ...], subject: Subject) -> Iterator[Finding]:
    """What breaks some rules: of each value in document order, then of the whole card."""
    of_values = [(one, one.on_spot, one.fixable) for one in rules if one.on_spot]
    for spot in subject.spots if of_values else ():
        for one, check, fixable in of_values:
            if (message := check(spot)) is not None:
                yield Finding(one, spot.tokens, message, fixable is not None and fixable(spot))
    for one in rules:
        for tokens, message in one.on_card(subject) if one.on_card else ():
            fixable_here = False
            if one.repair is not None:
                value = value_at(subject.document, tokens)
                fixable_here = one.repair(value) != value
            yield Finding(one, tokens, message, fixable_here)


# The cards that examples change: those of A2A are without any finding.

_COMMON: Final[dict[str, Any]] = {
    "name": "Tide tables",
    "description": "Says when the water comes",
    "version": "1.2.0",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "tides", "name": "Tides", "description": "When", "tags": ["sea"]}],
}
_MODERN: Final[dict[str, Any]] = _COMMON | {
    "supportedInterfaces": [
        {
            "url": "https://tides.example/a2a",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
    ],
    "provider": {"url": "https://tides.example/", "organization": "Harbour office"},
    "securitySchemes": {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"harbour": {"list": ["read"]}}}],
}
_OLD: Final[dict[str, Any]] = _COMMON | {
    "protocolVersion": "0.3.0",
    "url": "https://tides.example/old",
    "preferredTransport": "JSONRPC",
    "securitySchemes": {"harbour": {"type": "http", "scheme": "Bearer"}},
    "security": [{"harbour": ["read"]}],
}
SOUND_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["harbour"],
    "properties": {"harbour": {"type": "string", "description": "Name of the harbour"}},
}
_CONTRACT: Final[dict[str, Any]] = {
    "name": "iam-tides",
    "version": "1.2.0",
    "description": "Says when the water comes",
    "spiffe_id": "spiffe://tides.example/agent/iam-tides/dev/north/1.2.0",
    "capabilities": {"streaming": True},
    "skills": [
        {
            "skill_id": f"iam.check_{noun}",
            "name": noun,
            "description": f"Look at the {noun} of a harbour",
            "input_schema": SOUND_SCHEMA,
            "output_schema": SOUND_SCHEMA,
        }
        for noun in ("tides", "berths")
    ],
    "authentication": {"type": "bearer"},
    "metadata": {"department": "iam", "role": "specialist"},
}
#: By name: a card of A2A 1.0, one of 0.3, and a contract card.
BASES: Final = {"1.0": _MODERN, "0.3": _OLD, "contract": _CONTRACT}
