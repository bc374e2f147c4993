"""Linting whole cards: the rules are applied and waived, and the findings get lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cardsign.card.document import Card
from cardsign.card.extensions import is_contract
from cardsign.card.strictjson import offsets, position
from cardsign.card.values import Json, finding_at, split
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, CardRefused, JsonRefused, UsageFault, closest
from cardsign.findings import (
    SEVERITIES,
    Finding,
    ScanResult,
    Severity,
    cap_findings,
    count_severities,
    cut,
    list_codes,
    list_findings,
)
from cardsign.lint import contract, meaning, portability, rules, secrets

#: What ``--group`` chooses, in the order of a report.
GROUPS: Final[dict[str, str]] = {
    "json": "strict JSON, which every reader takes in one way",
    "members": "the members and types of the card's A2A version",
    "meaning": "interfaces, media types, security, the extended card, signatures",
    "contract": "a contract card: skills with strict schemas, an identity, references",
    "portable": "one payload for all default profiles, so one signature serves every SDK",
    "secrets": "keys, tokens, internal addresses and settings",
}
#: Refusals of the strict reader that are rules as well.
_REFUSALS: Final = ("card.two_spellings", "card.signatures_shape", "card.signatures_too_many")
#: The codes of all rules, group by group. A rule, once released, keeps its code and what it means.
RULES: Final = tuple(
    code
    for group in GROUPS
    for code in list_codes()
    if code.partition(".")[0] == group or (group == "members" and code in _REFUSALS)
)
_RANKS: Final = {code: rank for rank, code in enumerate(RULES)}
#: What finds breaches of the rules of a group; that of `portable` says what can be fixed, too.
CHECKS: Final[dict[str, tuple[rules.CardCheck, ...]]] = {
    "members": (meaning.required_and_types, meaning.members),
    "meaning": meaning.CHECKS,
    "contract": contract.CHECKS,
    "secrets": (secrets.secrets,),
}
_CONTRACT: Final = tuple(code for code in RULES if rules.group_of(code) == "contract")
_SYNTAX: Final = ("json", "contract.schema")
_REQUIRED: Final = ("contract.required", "contract.strict", "contract.skill", "contract.no-card")
#: What ``--layer`` chooses: groups and rules, by the four layers of the contract standard.
LAYERS: Final[dict[str, tuple[str, ...]]] = {
    "1": _SYNTAX,
    "2": _REQUIRED,
    "3": tuple(code for code in _CONTRACT if code not in (*_SYNTAX, *_REQUIRED)),
    "4": ("members", "meaning"),
}
SCHEMA: Final = "cardsign.lint/1"


@dataclass(frozen=True, slots=True)
class CardReport:
    """What was found in one card.

    Attributes:
        name: The file or URL.
        findings: In the order of the groups, then of the rules; a bounded number.
        waived: Findings that a waiver accepts, each with the reason.
        document: The card; None where it cannot be read in one way.
    """

    name: str
    findings: tuple[Finding, ...]
    waived: tuple[tuple[Finding, str], ...] = ()
    document: Mapping[str, Json] | None = None

    def lines(self) -> Iterator[str]:
        """Yield the report for a person: how many findings of each severity, then each rule."""
        counts: Counter[Severity] = Counter()
        for finding in self.findings:
            counts[finding.severity] += finding.count
        fixable = sum(finding.count for finding in self.findings if finding.fixable)
        waived = sum(finding.count for finding, _ in self.waived)
        offer = f"; --fix fixes {fixable}" if fixable else ""
        accepted = f"; {waived} waived" if waived else ""
        yield f"{count_severities(counts) or 'clean'}: {cut(self.name)}{offer}{accepted}"
        yield from list_findings(self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the element of the report's `cards` member."""
        return {
            "name": self.name,
            "findings": [rules.describe_finding(finding) for finding in self.findings],
            "waived": [{**rules.describe_finding(f), "reason": why} for f, why in self.waived],
        }


@dataclass(frozen=True, slots=True)
class LintReport:
    """What was found in one or more cards.

    Attributes:
        cards: A report for each card, in order.
        fail_on: The least severe finding that makes the exit status 1.
        fixed: The result of `--fix`; None without it.
    """

    cards: Sequence[CardReport]
    fail_on: Severity = "warning"
    fixed: portability.FixResult | None = None

    @property
    def exit_status(self) -> int:
        """0 if no finding is as severe as `fail_on`, else 1."""
        grave = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1]
        failed = any(finding.severity in grave for card in self.cards for finding in card.findings)
        return EXIT_NOT_TRUSTED if failed else EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``cardsign lint --json`` prints it."""
        report: dict[str, Any] = {
            "schema": SCHEMA,
            "clean": not any(card.findings for card in self.cards),
            "cards": [card.to_json() for card in self.cards],
        }
        if self.fixed is not None:
            fixed = cap_findings(self.fixed.fixed)
            report["fixed"] = [rules.describe_finding(finding) for finding in fixed]
            report["signatures_removed"] = self.fixed.signatures_removed
        return report

    def lines(self) -> Iterator[str]:
        """Yield the report for a person, card by card."""
        for card in self.cards:
            yield from card.lines()

    def scan_results(self) -> Iterator[ScanResult]:
        """Yield the report for code scanning."""
        for card in self.cards:
            yield card.name, card.findings, card.waived


def lint_card(
    untrusted_bytes: bytes, settings: rules.LintSettings = rules.DEFAULT_SETTINGS, *, name: str = ""
) -> CardReport:
    """Return what is wrong with a card, why, and how to fix it.

    No signature is verified, and no URL is fetched. Nothing in the card makes this function raise.

    Args:
        untrusted_bytes: The card as received.
        settings: Which rules apply, and what is waived.
        name: For the report.

    Raises:
        UsageFault: ``usage.conflict``: the settings name an unknown rule or group.
    """
    check_settings(settings)
    try:
        document = Card.from_bytes(untrusted_bytes).document
    except JsonRefused as refusal:
        return _report_of(name, [refusal.finding], settings, None)
    except CardRefused as refusal:
        unreadable = finding_at(refusal.code, tuple(split(refusal.path)), refusal.message)
        report = _report_of(name, [unreadable], settings, None)
    else:
        report = _report_of(name, lint_document(document, settings), settings, document)
    return _with_lines(report, untrusted_bytes.decode())


def lint_document(
    document: Mapping[str, Json], settings: rules.LintSettings = rules.DEFAULT_SETTINGS
) -> tuple[Finding, ...]:
    """Return the findings of a readable card, before ignoring and waiving.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it.
        settings: As for :func:`lint_card`.
    """
    subject, chosen = rules.LintedCard(document, settings), settings.groups
    groups = {*GROUPS} if chosen is None else {rules.group_of(name) for name in chosen}
    if chosen is None and not is_contract(document):
        groups.remove("contract")
    checks = [check for group in groups for check in CHECKS.get(group, ())]
    findings = [finding_at(*breach) for check in checks for breach in check(subject)]
    if "portable" in groups:
        findings += portability.find_unportable(subject)
    findings = [finding for finding in findings if _is_chosen(finding.code, settings)]
    if chosen is None:
        findings = [*_drop_echoes(findings, subject)]
    findings.sort(key=lambda finding: _RANKS[finding.code])
    return tuple(dict.fromkeys(findings))


def _is_chosen(code: str, settings: rules.LintSettings) -> bool:
    chosen = settings.groups
    return chosen is None or code in chosen or rules.group_of(code) in chosen


def _drop_echoes(findings: Sequence[Finding], subject: rules.LintedCard) -> Iterator[Finding]:
    """Yield the findings, but of `portable` only what `members` does not say of the same place."""
    places = {f.place.tokens for f in findings if f.code.startswith("members.")}
    for finding in findings:
        tokens = finding.place.tokens
        if finding.code == "portable.legacy-member":
            if subject.a2a_version != "1.0":
                continue  # there it only repeats the card's version
            if tokens[0] == "securitySchemes":  # of a flat scheme `members` reports the type
                tokens = (*tokens[:2], "type")
        if not (finding.code.startswith("portable.") and tokens in places):
            yield finding


def check_settings(settings: rules.LintSettings) -> None:
    """Refuse settings that name an unknown rule or group, such as a misspelt one.

    Raises:
        UsageFault: ``usage.conflict``.
    """
    waived = (waiver.rule for waiver in settings.waivers)
    for name in (*(settings.groups or ()), *settings.ignore, *waived):
        check_name(name)


def check_name(name: str) -> None:
    """Refuse the name of an unknown rule or group; ``usage.conflict``."""
    if name not in RULES and name not in GROUPS:
        message = f"there is no rule {name!r}{closest(name, (*RULES, *GROUPS))}"
        raise UsageFault("usage.conflict", message, hint="`cardsign help codes` lists them.")


def _report_of(
    name: str,
    findings: Iterable[Finding],
    settings: rules.LintSettings,
    document: Mapping[str, Json] | None,
) -> CardReport:
    """Return the report of some findings, by the settings: ignored, waived and capped."""
    kept: list[Finding] = []
    waived: dict[str, list[Finding]] = {}
    for finding in findings:
        if settings.ignore & {finding.code, rules.group_of(finding.code)}:
            continue
        waivers = [waiver for waiver in settings.waivers if waiver.fits(finding)]
        in_force = [waiver for waiver in waivers if not waiver.has_ended(settings.today)]
        if in_force:
            waived.setdefault(in_force[0].reason, []).append(finding)
            continue
        if waivers:
            message = f"{finding.message} (its waiver ended on {waivers[-1].expires})"
            finding = replace(finding, message=message)
        kept.append(finding)
    accepted = [(f, reason) for reason in waived for f in cap_findings(waived[reason])]
    return CardReport(name, cap_findings(kept), tuple(accepted), document)


def _upwards(tokens: rules.Tokens) -> Iterator[rules.Tokens]:
    """Yield a place and those around it, from the inside, without the card itself."""
    return (tokens[:count] for count in range(len(tokens), 0, -1))


def _with_lines(report: CardReport, text: str) -> CardReport:
    """Return a report whose findings have the line and column of their members in the text.

    A member that is missing has those of the object that lacks it.
    """
    findings = (*report.findings, *(finding for finding, _ in report.waived))
    token_paths = {above for finding in findings for above in _upwards(finding.place.tokens)}
    starts = ((tuple(map(str, tokens)), at) for tokens, at in offsets(text) if tokens)
    places = {tokens: position(text[:at]) for tokens, at in starts if tokens in token_paths}

    def with_line(finding: Finding) -> Finding:
        near = (above for above in _upwards(finding.place.tokens) if above in places)
        line, column = places.get(next(near, ()), (None, None))
        return replace(finding, place=replace(finding.place, line=line, column=column))

    return replace(
        report,
        findings=tuple(map(with_line, report.findings)),
        waived=tuple((with_line(finding), reason) for finding, reason in report.waived),
    )


def lint_references(
    reports: Sequence[CardReport], settings: rules.LintSettings = rules.DEFAULT_SETTINGS
) -> tuple[CardReport, ...]:
    """Return the reports with the references between their cards that do not resolve."""
    documents = [report.document or {} for report in reports]
    cards = {str(document["name"]): document for document in documents if "name" in document}
    return tuple(
        with_findings(report, contract.find_references(document, cards), settings)
        for report, document in zip(reports, documents, strict=True)
    )


def with_findings(
    report: CardReport, more: Iterable[Finding], settings: rules.LintSettings
) -> CardReport:
    """Return a report with findings from outside the card, chosen by the same settings."""
    chosen = (f for f in more if f.code == "json.not-read" or _is_chosen(f.code, settings))
    added = _report_of(report.name, chosen, settings, report.document)
    findings = (*report.findings, *added.findings)
    return replace(report, findings=findings, waived=(*report.waived, *added.waived))
