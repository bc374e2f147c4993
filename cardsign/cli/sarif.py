"""Verdicts for a pipeline: SARIF 2.1.0 for code scanning, JUnit XML for test reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from cardsign import __version__
from cardsign.batch import Outcome, heaviest
from cardsign.cli.talk import safe
from cardsign.cli.views import render_verdict
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, LocalFault
from cardsign.lint.rules import Finding
from cardsign.reasons import REASONS, Reason
from cardsign.verify.report import Report

# Verdicts as a SARIF 2.1.0 log (OASIS, with Errata 01), for code scanning in a pipeline.


_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_TRUSTED: Final = "trusted"  # the rule that a trusted card passes
_URL_MARKS: Final = ":/?#[]@!$&'()*+,;=%~"  # what a URL may hold as it stands (RFC 3986 2.2)
_MAX_TEXT: Final = 1000  # characters of one message


def sarif_log(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The log as a JSON object; texts are escaped for whoever shows them."""
    status = heaviest(one.result.exit_status for one in outcomes)
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
    trusted = report.verdict == "trusted"
    results = []
    if trusted:
        message = _text(f"trusted: the card is that of {report.subject}")
        passed = {"ruleId": _TRUSTED, "kind": "pass", "level": "none", "message": message}
        results.append({**passed, "locations": [_location(outcome)]})
    for reason in report.reasons:
        results.append(
            {
                "ruleId": reason.code,
                "level": reason.severity,
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


def findings_log(findings: Sequence[tuple[str, Finding, str]]) -> dict[str, Any]:
    """Findings of lint or check as a log.

    Args:
        findings: Each with the card's name, and why it is accepted; empty where it is not.
    """
    rules = dict.fromkeys(one.rule for _, one, _ in findings)
    results = []
    for name, one, accepted in findings:
        physical: dict[str, Any] = {"artifactLocation": _artifact(name)}
        if one.line is not None:
            physical["region"] = {"startLine": one.line, "startColumn": one.column}
        location: dict[str, Any] = {"physicalLocation": physical}
        if one.tokens:
            place = {"fullyQualifiedName": safe(one.pointer, limit=_MAX_TEXT), "kind": "member"}
            location["logicalLocations"] = [place]
        result: dict[str, Any] = {
            "ruleId": one.rule.id,
            "level": one.severity,
            "message": _text(f"{one.message}. {one.rule.fix}"),
            "locations": [location],
        }
        if accepted:
            justified = {"kind": "external", "justification": safe(accepted, limit=_MAX_TEXT)}
            result["suppressions"] = [justified]
        results.append(result)
    described = [
        {
            "id": one.id,
            "shortDescription": _text(one.summary),
            "fullDescription": _text(one.why),
            "help": _text(one.fix),
            "defaultConfiguration": {"level": one.severity},
        }
        for one in rules
    ]
    driver = {"name": "cardsign", "version": __version__, "rules": described}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _artifact(name: str) -> dict[str, Any]:
    if name in ("(stdin)", "-"):
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
    statuses = [one.result.exit_status for one in outcomes]
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
    return render_verdict(outcome.name, outcome.result, verbose=True)
