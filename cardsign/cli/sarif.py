"""Verdicts as a SARIF 2.1.0 log (OASIS, with Errata 01), for code scanning in a pipeline.

One run for all cards. What is not trusted has a result of level ``error`` for each reason that
decides, an indeterminate verdict included: nobody may take "not known" for "nothing found". A
card that is trusted has one result of kind ``pass``, and warnings. A fault of this machine is no
finding but a notification of the invocation.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cardsign import __version__
from cardsign.cli.outcome import Outcome, weightiest
from cardsign.cli.talk import safe
from cardsign.errors import LocalFault
from cardsign.reasons import REASONS, Reason
from cardsign.verdict import Report

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
