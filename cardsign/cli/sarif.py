"""Verdicts and findings for code scanning in a pipeline: SARIF 2.1.0."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cardsign import __version__
from cardsign.cli.talk import safe
from cardsign.errors import LocalFault
from cardsign.lint.rules import Finding
from cardsign.reasons import REASONS
from cardsign.urls import is_url
from cardsign.verifier import Outcome, heaviest

# SARIF 2.1.0 logs (OASIS, with Errata 01), for code scanning in a pipeline.


_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_TRUSTED: Final = "trusted"  # the rule that a trusted card passes
_URL_MARKS: Final = ":/?#[]@!$&'()*+,;=%~"  # what a URL may hold as it stands (RFC 3986 2.2)
_MAX_TEXT: Final = 1000  # characters of one message


def sarif_log(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Verdicts as a log, a JSON object; texts are escaped for the program that shows them."""
    status = heaviest(one.result.exit_status for one in outcomes)
    results = [result for one in outcomes for result in _results(one)]
    faults = [one for one in outcomes if isinstance(one.result, LocalFault)]
    invocation: dict[str, Any] = {"executionSuccessful": not faults, "exitCode": status}
    for one in faults:
        (reason,) = one.reasons
        told = _result(reason.code, "error", f"{reason.message}. {reason.hint}", one.name)
        notification = {"descriptor": {"id": told.pop("ruleId")}, **told}
        invocation.setdefault("toolExecutionNotifications", []).append(notification)
    rules = [_rule(code) for code in dict.fromkeys(one["ruleId"] for one in results)]
    codes = dict.fromkeys(reason.code for one in faults for reason in one.reasons)
    driver = {"rules": rules, "notifications": [_rule(code) for code in codes]}
    return _log(driver, {"invocations": [invocation], "results": results})


def findings_log(findings: Sequence[tuple[str, Finding, str]]) -> dict[str, Any]:
    """Findings of lint or check as a log.

    Args:
        findings: Each with the card's name, and why it is accepted; empty where it is not.
    """
    results = []
    for name, one, accepted in findings:
        position = None if one.line is None else (one.line, one.column)
        text = f"{one.message}. {one.rule.fix}"
        member = one.pointer if one.tokens else ""
        result = _result(one.rule.id, one.severity, text, name, member, position)
        if accepted:
            justified = {"kind": "external", "justification": safe(accepted, limit=_MAX_TEXT)}
            result["suppressions"] = [justified]
        results.append(result)
    rules = [
        {
            "id": one.id,
            "shortDescription": _text(one.summary),
            "fullDescription": _text(one.why),
            "help": _text(one.fix),
            "defaultConfiguration": {"level": one.severity},
        }
        for one in dict.fromkeys(one.rule for _, one, _ in findings)
    ]
    return _log({"rules": rules}, {"results": results})


def _log(driver: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    tool = {"driver": {"name": "cardsign", "version": __version__, **driver}}
    runs = [{"tool": tool, "columnKind": "unicodeCodePoints", **run}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": runs}


def _results(outcome: Outcome) -> Iterator[dict[str, Any]]:
    report, name = outcome.result, outcome.name
    if isinstance(report, LocalFault):
        return
    if report.verdict == "trusted":
        text = f"trusted: the card is that of {report.subject}"
        yield {**_result(_TRUSTED, "none", text, name), "kind": "pass"}
    for reason in report.reasons:
        text = f"{report.verdict}: {reason.message}. {reason.hint}"
        position = outcome.position if reason == outcome.reasons[0] else None
        yield _result(reason.code, reason.severity, text, name, reason.path, position)


def _rule(code: str) -> dict[str, Any]:
    if code == _TRUSTED:
        meaning = "The card is trusted: four times yes, or freshness is waived by name."
        return {"id": code, "shortDescription": _text(meaning)}
    known = REASONS[code]
    return {"id": code, "shortDescription": _text(known.meaning), "help": _text(known.hint)}


def _result(
    rule: str,
    level: str,
    text: str,
    name: str,
    member: str = "",
    position: tuple[int, int | None] | None = None,
) -> dict[str, Any]:
    """What was found in the card `name`: at a member, and on a line and column, if known."""
    artifact: dict[str, Any] = {"description": {"text": "standard input"}}
    if is_url(name):
        artifact = {"uri": quote(name, safe=_URL_MARKS)}
    elif name not in ("(stdin)", "-"):
        path = Path(name)
        artifact = {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path))}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if position is not None:
        physical["region"] = {"startLine": position[0], "startColumn": position[1]}
    location: dict[str, Any] = {"physicalLocation": physical}
    if member:
        place = {"fullyQualifiedName": safe(member, limit=_MAX_TEXT), "kind": "member"}
        location["logicalLocations"] = [place]
    return {"ruleId": rule, "level": level, "message": _text(text), "locations": [location]}


def _text(text: str) -> dict[str, str]:
    """A plain text message in which a stranger's words make no placeholder and no link.

    Braces stand for themselves doubled (SARIF 2.1.0 3.11.5), and ``](`` would join two brackets
    to a link (3.11.6).
    """
    shown = safe(text, limit=_MAX_TEXT).replace("](", "] (")
    return {"text": shown.replace("{", "{{").replace("}", "}}")}
