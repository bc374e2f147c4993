"""What came of one card: a verdict, or a fault of this machine in its place. Data only.

All output formats are made of outcomes and of nothing else, so that they cannot disagree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from cardsign import __version__
from cardsign.card.document import Card
from cardsign.card.strictjson import Json
from cardsign.cli.talk import safe
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    InputRefused,
    LocalFault,
    NoVerdict,
)
from cardsign.reasons import REASONS, Reason
from cardsign.verify.report import Report, SignatureReport, StatementUsed

# Several cards, one exit status: the weightiest of theirs.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One card and what came of it.

    Attributes:
        name: How the user called the card, or the URL that answered.
        result: The verdict, or why the card could not be read here.
        untrusted_bytes: The file or answer, if it is the card itself; empty otherwise.
    """

    name: str
    result: Report | LocalFault
    untrusted_bytes: bytes = b""

    @property
    def exit_status(self) -> int:
        """That of the verdict, or 2."""
        return self.result.exit_status

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why, the weightiest first; a fault is its own reason."""
        if isinstance(self.result, LocalFault):
            return (reason_of_failure(self.result),)
        return self.result.reasons

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column at which the card could not be read, each from 1."""
        if not self.untrusted_bytes:
            return None
        try:
            Card.from_bytes(self.untrusted_bytes)
        except InputRefused as refusal:
            first = self.reasons[0].code if self.reasons else ""
            if refusal.code == first and refusal.line is not None and refusal.column is not None:
                return refusal.line, refusal.column
        return None

    def to_json(self) -> dict[str, Any]:
        """The object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.reasons[0].to_json()}
        return {"input": self.name, **self.result.to_json()}


def weightiest(outcomes: Iterable[Outcome]) -> int:
    """The exit status of all of them: 2 beats 1 beats 3 beats 0."""
    return max((one.exit_status for one in outcomes), key=_WEIGHT.index, default=EXIT_OK)


def reason_of_failure(failure: LocalFault | NoVerdict) -> Reason:
    """A failure as a reason."""
    return Reason.of(failure.code, failure.message, failure.path, failure.hint)


# A verdict for a person: what is true, what is not, what to do next.


_ANSWERS: Final = {
    "integrity": {
        "yes": "the card is as it was signed",
        "no": "no signature fits the card as it is",
        "unknown": "there is no key to check a signature with",
    },
    "authorised": {
        "yes": "the key may sign for the subject, and every endpoint stands where it may",
        "no": "the key may not sign this card for the subject, or an endpoint stands elsewhere",
        "unknown": "cannot be said without a signature that fits",
    },
    "current": {
        "yes": "the issuer still calls the card current",
        "no": "the key is revoked, or the card is not what the issuer calls current",
        "unknown": "nobody has said that card and key are not outdated or revoked",
    },
    "complete": {
        "yes": "everything in the card is signed",
        "no": "not everything in the card is signed as the policy demands",
        "unknown": "cannot be said without a signature that fits",
    },
}
# It would read like tampering otherwise, which a signature that fits does not show.
_FITS_OTHERWISE: Final = "a signature fits what it covers, but by rules that do not count here"
_OF_ANOTHER_KIND: Final = frozenset(
    {"extended.served_as_public", "extended.not_marked", "extended.audience_mismatch"}
)
_MAX_REASONS: Final = 12  # lines; --json has them all


def render_verdict(name: str, report: Report) -> str:
    """Several lines of text, without a newline at the end."""
    return "\n".join(_lines(name, report))


def _lines(name: str, report: Report) -> Iterator[str]:
    yield f"{report.verdict}: {safe(name)}"
    if report.issuer is not None:
        yield f"  issuer      {safe(report.issuer)}"
    if report.issuer is None or report.subject != report.issuer:
        yield f"  subject     {safe(report.subject) if report.subject else 'nobody was named'}"
    if report.card is not None:
        yield f"  card says   {_claims(report.card)}"
    for question, answer in report.answers.to_json().items():
        yield f"  {question:<11} {answer:<8} {_said(report, question, str(answer))}"
    yield from _grounds(report)
    for signature in report.signatures:
        yield f"  signature {signature.index} {_signature(signature)}"
    grouped = _grouped(report.reasons)
    for reason, paths in grouped[:_MAX_REASONS]:
        yield from _reason(reason, paths)
    if len(grouped) > _MAX_REASONS:
        yield f"  and {len(grouped) - _MAX_REASONS} more; see --json"


def _said(report: Report, question: str, answer: str) -> str:
    """An answer in words; "no" to integrity sounds like tampering where it need not be."""
    fitting = any(one.profiles for one in report.signatures)
    bad = any(one.verdict == "invalid" for one in report.signatures)
    if (question, answer) == ("integrity", "no") and fitting and not bad:
        return _FITS_OTHERWISE
    if (question, answer) == ("authorised", "no") and any(
        reason.code in _OF_ANOTHER_KIND for reason in report.reasons
    ):
        return "the card is not of the kind, or not for the audience, that was asked for"
    return _ANSWERS[question][answer]


def _grounds(report: Report) -> Iterator[str]:
    """What the verdict rests on, and for how long it holds."""
    used = {"keyset": report.keyset, "release": report.release}
    statements = [_statement(name, one) for name, one in used.items() if one is not None]
    if statements:
        yield f"  statements  {', '.join(statements)}"
    if report.valid_until is not None:
        yield f"  valid until {_moment(report.valid_until)}"
    if report.historic and report.checked_at is not None:
        yield f"  historic    about {_moment(report.checked_at)}, a time of your choice"


def _statement(name: str, used: StatementUsed) -> str:
    return f"{name} {used.number} until {_moment(datetime.fromtimestamp(used.exp, UTC))}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _grouped(reasons: tuple[Reason, ...]) -> list[tuple[Reason, list[str]]]:
    """Reasons that differ in their place alone, said once."""
    places: dict[tuple[str, str], tuple[Reason, list[str]]] = {}
    for reason in reasons:
        _, paths = places.setdefault((reason.code, reason.message), (reason, []))
        paths.append(reason.path)
    return list(places.values())


def _claims(card: dict[str, Json]) -> str:
    name, version = (safe(str(card.get(member, ""))) for member in ("name", "version"))
    return f'"{name}", version {version or "not given"}'


def _signature(signature: SignatureReport) -> str:
    kid = safe(signature.kid, limit=64) if signature.kid is not None else "no kid"
    profiles = f" under {', '.join(signature.profiles)}" if signature.profiles else ""
    counts = "" if signature.counts else ", does not count"
    holder = f", held by {safe(signature.holder)}" if signature.holder else ""
    return f"{signature.verdict} ({signature.alg or 'no alg'}, {kid}{holder}){profiles}{counts}"


def _reason(reason: Reason, paths: list[str]) -> Iterator[str]:
    shown = safe(reason.message, limit=300)
    # The message names the place already where it is about a part of the card.
    places = [safe(path, limit=120) for path in paths if path and safe(path) not in shown]
    where = f" ({', '.join(places)})" if places else ""
    yield f"  {reason.code}: {shown}{where}"
    if reason.hint:
        yield f"      {safe(reason.hint, limit=300)}"


# Verdicts as a SARIF 2.1.0 log (OASIS, with Errata 01), for code scanning in a pipeline.


_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_TRUSTED: Final = "trusted"  # the rule that a trusted card passes
_URL_MARKS: Final = ":/?#[]@!$&'()*+,;=%~"  # what a URL may hold as it stands (RFC 3986 2.2)
_MAX_TEXT: Final = 1000  # characters of one message


def sarif_log(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The log as a JSON object; texts are escaped for whoever shows them."""
    status = weightiest(outcomes)
    found = [(one, one.result) for one in outcomes if isinstance(one.result, Report)]
    results = [result for one, report in found for result in _results(one, report)]
    faults = [one for one in outcomes if isinstance(one.result, LocalFault)]
    invocation: dict[str, Any] = {"executionSuccessful": not faults, "exitCode": status}
    if faults:
        invocation["toolExecutionNotifications"] = [_notification(one) for one in faults]
    used = dict.fromkeys(result["ruleId"] for result in results)
    driver = {
        "name": "cardsign",
        "version": __version__,
        "rules": [_rule(code) for code in used],
        "notifications": [_rule(code) for code in _codes(faults)],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _codes(outcomes: Iterable[Outcome]) -> list[str]:
    return list(dict.fromkeys(reason.code for one in outcomes for reason in one.reasons))


def _results(outcome: Outcome, report: Report) -> list[dict[str, Any]]:
    # The weightiest reason comes first; those that share its code weigh as much.
    trusted = report.verdict == "trusted"
    decisive = None if trusted else report.reasons[0].code
    results = []
    if trusted:
        message = _text(f"trusted: the card is that of {report.subject}")
        passed = {"ruleId": _TRUSTED, "kind": "pass", "level": "none", "message": message}
        results.append({**passed, "locations": [_location(outcome)]})
    for reason in report.reasons:
        results.append(
            {
                "ruleId": reason.code,
                "level": "error" if reason.code == decisive else "warning",
                "message": _text(f"{report.verdict}: {reason.message}. {reason.hint}"),
                "locations": [_location(outcome, reason)],
            }
        )
    return results


def _notification(outcome: Outcome) -> dict[str, Any]:
    reason = outcome.reasons[0]
    return {
        "descriptor": {"id": reason.code},
        "level": "error",
        "message": _text(f"{reason.message}. {reason.hint}"),
        "locations": [_location(outcome)],
    }


def _rule(code: str) -> dict[str, Any]:
    if code == _TRUSTED:
        meaning = "The card is trusted: four times yes, or freshness is waived by name."
        return {"id": code, "shortDescription": _text(meaning)}
    registered = REASONS[code]
    return {
        "id": code,
        "shortDescription": _text(registered.meaning),
        "help": _text(registered.hint),
    }


def _location(outcome: Outcome, reason: Reason | None = None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(outcome.name)}
    position = outcome.position if reason and reason == outcome.reasons[0] else None
    if position is not None:
        physical["region"] = {"startLine": position[0], "startColumn": position[1]}
    location: dict[str, Any] = {"physicalLocation": physical}
    if reason is not None and reason.path:
        name = safe(reason.path, limit=_MAX_TEXT)
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "member"}]
    return location


def _artifact(name: str) -> dict[str, Any]:
    if name == "(stdin)":
        return {"description": {"text": "standard input"}}
    if name.startswith(("https://", "http://")):
        return {"uri": quote(name, safe=_URL_MARKS)}
    path = Path(name)
    return {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path))}


def _text(text: str) -> dict[str, str]:
    """A plain text message in which a stranger's words make no placeholder and no link.

    Braces stand for themselves doubled (SARIF 2.1.0 3.11.5), and ``](`` would join two brackets
    to a link (3.11.6).
    """
    shown = safe(text, limit=_MAX_TEXT).replace("](", "] (")
    return {"text": shown.replace("{", "{{").replace("}", "}}")}


# Verdicts as JUnit XML, for the test reports of a pipeline.


_SUITE: Final = "cardsign verify"
_MAX_NAME: Final = 1000  # characters; two long paths may differ late


def junit_xml(outcomes: Sequence[Outcome]) -> str:
    """The document, ASCII alone; what XML 1.0 2.2 forbids is escaped as terminals need it too."""
    statuses = [one.exit_status for one in outcomes]
    failures = statuses.count(EXIT_NOT_TRUSTED)
    counted = {
        "name": _SUITE,
        "tests": str(len(outcomes)),
        "failures": str(failures),
        "errors": str(len(outcomes) - failures - statuses.count(EXIT_OK)),
        "skipped": "0",
    }
    suites = ElementTree.Element("testsuites", name=_SUITE)
    suite = ElementTree.SubElement(suites, "testsuite", counted)
    for one in outcomes:
        _add_case(suite, one)
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii")


def _add_case(suite: ElementTree.Element, outcome: Outcome) -> None:
    names = {"classname": "cardsign.verify", "name": safe(outcome.name, limit=_MAX_NAME)}
    case = ElementTree.SubElement(suite, "testcase", names)
    result = outcome.result
    if result.exit_status != EXIT_OK:
        kind = "failure" if result.exit_status == EXIT_NOT_TRUSTED else "error"
        first = outcome.reasons[0]
        why = {"type": first.code, "message": safe(first.message, limit=300)}
        ElementTree.SubElement(case, kind, why).text = _body(outcome)
    elif not isinstance(result, LocalFault):
        ElementTree.SubElement(case, "system-out").text = _body(outcome)


def _body(outcome: Outcome) -> str:
    if isinstance(outcome.result, LocalFault):
        return safe(outcome.reasons[0].hint, limit=300)
    return render_verdict(outcome.name, outcome.result)
