"""Linting whole cards, and several that speak of one another. Pure: bytes in, findings out."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extensions import contract_member
from cardsign.card.interfaces import interfaces_of
from cardsign.card.strictjson import Json, elements_of, members_of, offsets
from cardsign.errors import CardRefused, JsonRefused, UsageFault, closest
from cardsign.lint import contract as contract  # their rules bind themselves
from cardsign.lint import meaning as meaning
from cardsign.lint import members as members
from cardsign.lint import portability as portability
from cardsign.lint import secrets as secrets
from cardsign.lint import security as security
from cardsign.lint.rules import (
    ALL_RULES,
    Finding,
    LintSettings,
    Rule,
    Subject,
    Tokens,
    add_rule,
    asked,
    rules_of,
    weighed,
)
from cardsign.records import dataclass

#: What ``--group`` chooses, in the order of a report.
GROUPS: Final[dict[str, str]] = {
    "json": "strict JSON, which every reader takes in one way",
    "members": "the members and types of the card's A2A version",
    "meaning": "interfaces, media types, security, the extended card, signatures",
    "contract": "a contract card: skills with strict schemas, an identity, references",
    "portable": "one payload for all default profiles, so one signature serves every SDK",
    "secrets": "keys, tokens, internal addresses and settings",
}
DEFAULT_SETTINGS: Final = LintSettings()
_MAX_NAMESAKES: Final = 100  # of one name, how many are compared with each other
# Of a card in A2A 0.3 they say no more than that it is one.
_OF_THE_OLD_VERSION: Final = frozenset({"portable.legacy-member"})
# What the groups before have said of the same place.
_ECHOES: Final = {
    "portable.wrong-type": "members.type",
    "portable.null": "members.missing",
    "portable.empty-value": "members.empty",
    "portable.legacy-member": "members.version",
}


@dataclass(frozen=True, slots=True)
class CardReport:
    """What was found in one card.

    Attributes:
        name: The file or URL.
        findings: In the order of the groups, then of the rules.
        waived: Findings that a waiver accepts, each with the reason.
        document: The card; None where it cannot be read in one way.
    """

    name: str
    findings: tuple[Finding, ...]
    waived: tuple[tuple[Finding, str], ...] = ()
    document: Mapping[str, Json] | None = None


def lint_card(
    untrusted_bytes: bytes, settings: LintSettings = DEFAULT_SETTINGS, *, name: str = ""
) -> CardReport:
    """Say what is wrong with a card, why, and how to fix it.

    Not whether it is true or wise, nor whether its signatures hold: nothing is verified, and
    nobody is asked. Nothing in the card makes this function raise.

    Args:
        untrusted_bytes: The card as received.
        settings: What the project asks.
        name: For the report.

    Raises:
        UsageFault: ``usage.conflict``: the settings name a rule or group that there is not.
    """
    check_settings(settings)
    try:
        document = Card.from_bytes(untrusted_bytes).document
    except (JsonRefused, CardRefused) as refusal:
        return _sorted_out(name, [members.unreadable(refusal)], settings, None)
    findings = lint_document(document, settings)
    return _sorted_out(name, placed(findings, untrusted_bytes), settings, document)


def lint_document(
    document: Mapping[str, Json], settings: LintSettings = DEFAULT_SETTINGS
) -> tuple[Finding, ...]:
    """The findings of a card that could be read, before ignoring, weighing and waiving.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it.
        settings: As for :func:`lint_card`.
    """
    subject = Subject(document, settings)
    chosen = settings.groups
    found: list[Finding] = []
    for group in GROUPS:
        if chosen is not None and group not in chosen:
            continue
        if group == "contract" and chosen is None and not contract.is_contract(document):
            continue
        if group == "portable":
            found += _portable(subject, found, asked_for=chosen is not None)
            continue
        for one in rules_of(group):
            found += asked(one, subject)
    for target in portability.TARGETS if chosen else ():
        if target in (chosen or ()) and target not in GROUPS:
            found += portability.lint_portability(document, target)
    return tuple(dict.fromkeys(found))


def _portable(subject: Subject, before: Sequence[Finding], *, asked_for: bool) -> Iterator[Finding]:
    said = {(one.rule.id, one.tokens) for one in before}
    for one in portability.lint_portability(subject.document, spots=subject.spots):
        if asked_for:
            yield one
        elif one.rule.id in _OF_THE_OLD_VERSION and subject.a2a_version != "1.0":
            continue
        elif said.isdisjoint((_ECHOES.get(one.rule.id), tokens) for tokens in _places(one)):
            yield one


def _places(finding: Finding) -> Iterator[Tokens]:
    """Where a group before may have said it: of a scheme of A2A 0.3 it says it of the type."""
    yield finding.tokens
    if finding.rule.id in _OF_THE_OLD_VERSION and finding.tokens[0] == "securitySchemes":
        yield *finding.tokens[:2], "type"


def check_settings(settings: LintSettings) -> None:
    """Refuse settings that name what there is not: a mistyped rule would be ignored for ever.

    Raises:
        UsageFault: ``usage.conflict``.
    """
    groups = (*GROUPS, *portability.TARGETS)
    for group in settings.groups or ():
        if group not in groups:
            message = f"there is no group {group!r}; known are {', '.join(dict.fromkeys(groups))}"
            raise UsageFault("usage.conflict", message)
    named = [*settings.ignore, *settings.severities, *(one.rule for one in settings.waivers)]
    for name in named:
        if name not in RULES and name not in groups:
            hint = "`cardsign lint --explain all` lists the rules."
            message = f"there is no rule {name!r}{closest(name, RULES)}"
            raise UsageFault("usage.conflict", message, hint=hint)


def _sorted_out(
    name: str,
    findings: Iterable[Finding],
    settings: LintSettings,
    document: Mapping[str, Json] | None,
) -> CardReport:
    """Leave out what is ignored, weigh the rest, and set aside what is waived."""
    left: list[Finding] = []
    waived: list[tuple[Finding, str]] = []
    for one in findings:
        if settings.ignore & {one.rule.id, one.rule.group}:
            continue
        finding = weighed(one, settings)
        reason, ended = _waiver(finding, settings)
        if reason is not None:
            waived.append((finding, reason))
        else:
            message = finding.message + (f" (its waiver ended on {ended})" if ended else "")
            left.append(replace(finding, message=message))
    return CardReport(name, tuple(left), tuple(waived), document)


def _waiver(finding: Finding, settings: LintSettings) -> tuple[str | None, str]:
    """Why a finding is accepted, or when that ended."""
    ended = ""
    for one in settings.waivers:
        if one.rule != finding.rule.id or (one.path and one.path != finding.pointer):
            continue
        if one.expires is None or settings.today is None or settings.today < one.expires:
            return one.reason, ""
        ended = one.expires.isoformat()
    return None, ended


def placed(findings: Sequence[Finding], data: bytes) -> tuple[Finding, ...]:
    """The findings with line and column of their members, in a text that was read strictly."""
    wanted = {one.tokens for one in findings}
    if not wanted:
        return ()
    text = data.decode("utf-8")
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    named = ((tuple(map(str, tokens)), at) for tokens, at, _ in offsets(text) if tokens)
    places = {
        tokens: (bisect.bisect_right(starts, at), at) for tokens, at in named if tokens in wanted
    }
    placed_findings = []
    for one in findings:
        if (found := places.get(one.tokens)) is not None:
            line, at = found
            one = replace(one, line=line, column=at - starts[line - 1] + 1)
        placed_findings.append(one)
    return tuple(placed_findings)


# Cards that speak of one another.

_SPECIALISTS: Final = add_rule(
    "contract.reference",
    "error",
    "A card names another agent that is not among the cards, or that does not name it back.",
    "A foreman that delegates to nobody fails at the first task.",
    "Correct the name in `metadata`, or add the card of that agent.",
    "row B28",
)
_SAME_NAME: Final = add_rule(
    "meaning.same-name",
    "warning",
    "Two cards have the same name and no URL in common.",
    "Callers know an agent by the name of its card.",
    "Give each agent a name of its own.",
    "row B2",
)
NOT_READ: Final = add_rule(
    "json.not-read",
    "error",
    "A file of the folder cannot be read.",
    "Nothing is known of it.",
    "Give leave to read it, or remove it.",
)
NO_CARD: Final = add_rule(
    "contract.no-card",
    "error",
    "The folder of an agent has no card, where its neighbours have one.",
    "The agent promises nothing, and nobody finds it.",
    "Write .well-known/agent-card.json there.",
    "row B2",
)
UNTRACKED: Final = add_rule(
    "contract.untracked",
    "warning",
    "The card's file is not under version control.",
    "A contract that is made at run time has no history that a reviewer could see.",
    "Add it: git add FILE.",
    "row B4",
)
NO_CONSTANT: Final = add_rule(
    "contract.path-constant",
    "note",
    "agent.py next to the card does not name AGENTCARD_PATH.",
    "The standard wants the code to say which contract it implements.",
    "Add AGENTCARD_PATH to agent.py.",
    "row B5",
)
APP_VERSION: Final = add_rule(
    "contract.app-version",
    "note",
    "The card's version is not that of the application next to it.",
    "The standard wants the card's version to follow the application's.",
    "Raise the one that was forgotten.",
    "row B36",
)
NOT_ADVERTISED: Final = add_rule(
    "meaning.not-advertised",
    "warning",
    "forge.yaml next to the card enforces a provider for which the card has no scheme.",
    "A client that follows the card sends no such credential, and may be refused.",
    "Write a scheme of that name into `securitySchemes` by hand, or remove the provider.",
    "row F23",
)

#: All rules by their ids.
RULES: Final[Mapping[str, Rule]] = ALL_RULES


def lint_references(
    reports: Sequence[CardReport], settings: LintSettings = DEFAULT_SETTINGS
) -> tuple[CardReport, ...]:
    """Add to reports of several cards what one says of another.

    `metadata.specialists` and `metadata.foreman` must name cards that are there, both ways.
    """
    cards = {str(one.document.get("name")): one for one in reports if one.document is not None}
    namesakes: dict[Json, dict[frozenset[str], str]] = {}  # by name and URLs, the first report
    for one in reports:
        if one.document is not None and isinstance(one.document.get("name"), str):
            same_name = namesakes.setdefault(one.document["name"], {})
            if len(same_name) < _MAX_NAMESAKES:
                same_name.setdefault(_urls(one.document), one.name)
    return tuple(
        with_findings(one, _references(one, cards, namesakes), settings) for one in reports
    )


def with_findings(
    report: CardReport, more: Iterable[Finding], settings: LintSettings
) -> CardReport:
    """A report with what was found around the card, by the same settings."""
    added = _sorted_out(report.name, more, settings, report.document)
    findings = (*report.findings, *added.findings)
    return replace(report, findings=findings, waived=(*report.waived, *added.waived))


def _references(
    report: CardReport,
    cards: Mapping[str, CardReport],
    namesakes: Mapping[Json, Mapping[frozenset[str], str]],
) -> Iterator[Finding]:
    document = report.document
    if document is None:
        return
    name = str(document.get("name"))
    same_name, own = namesakes.get(name, {}), _urls(document)
    # Cards that share a URL are forms of one card, such as that of A2A 0.3 and that of 1.0.
    others = (file for urls, file in same_name.items() if urls != own and own.isdisjoint(urls))
    other = next(others, None)
    if other is not None:
        yield Finding(_SAME_NAME, ("name",), f"{other[-80:]} has the same name")
    tokens, metadata = contract_member(document, "metadata")
    if not isinstance(metadata, dict):
        return
    for index, one in enumerate(elements_of(metadata.get("specialists"))):
        place = (*tokens, "specialists", str(index))
        yield from _named(str(one), name, "foreman", place, cards)
    foreman = metadata.get("foreman")
    if isinstance(foreman, str):
        yield from _named(foreman, name, "specialists", (*tokens, "foreman"), cards)


def _named(
    other: str, name: str, back: str, place: Tokens, cards: Mapping[str, CardReport]
) -> Iterator[Finding]:
    report = cards.get(other)
    if report is None or report.document is None:
        yield Finding(_SPECIALISTS, place, f"there is no card of {other[:60]!r}")
        return
    said = members_of(contract_member(report.document, "metadata")[1]).get(back)
    if said is not None and name not in (said if isinstance(said, list) else [said]):
        yield Finding(_SPECIALISTS, place, f"{other[:60]!r} does not name this agent as {back}")


def _urls(document: Mapping[str, Json]) -> frozenset[str]:
    """Where a card says that its agent is called, in any form."""
    return frozenset(str(one.url) for one in interfaces_of(document, any_spelling=True))
