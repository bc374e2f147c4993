"""Findings for code scanning in a pipeline: SARIF 2.1.0 (OASIS, with Errata 01)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cardsign import __version__
from cardsign.cli import frame
from cardsign.cli.frame import safe
from cardsign.findings import Finding, ScanResult, describe_code
from cardsign.urls import is_url

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_URL_MARKS: Final = ":/?#[]@!$&'()*+,;=%~"  # what a URL may hold as it stands (RFC 3986 2.2)
_MAX_TEXT: Final = 1000  # characters of one message


def sarif_log(subjects: Iterable[ScanResult], status: int) -> dict[str, Any]:
    """Return a log, a JSON object; texts are escaped for the program that shows them.

    Args:
        subjects: In the order of the log.
        status: What the command exits with.
    """
    results: list[dict[str, Any]] = []
    for name, findings, accepted in subjects:
        results += (_result(finding, name) for finding in findings)
        for finding, reason in accepted:
            waiver = {"kind": "external", "justification": safe(reason, limit=_MAX_TEXT)}
            results.append(_result(finding, name) | {"suppressions": [waiver]})
    rules = [_rule(code) for code in dict.fromkeys(row["ruleId"] for row in results)]
    run = {
        "tool": {"driver": {"name": "cardsign", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "exitCode": status}],
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    text = describe_code(code)
    named = {"shortDescription": text.title, "fullDescription": text.why, "help": text.fix}
    return {"id": code, **{name: _text(value) for name, value in named.items() if value}}


def _result(finding: Finding, name: str) -> dict[str, Any]:
    name = frame.hide_secrets(name)
    artifact: dict[str, Any] = {"description": {"text": "standard input"}}
    if is_url(name):
        artifact = {"uri": quote(name, safe=_URL_MARKS)}
    elif name not in ("(stdin)", "-"):
        path = Path(name)
        artifact = {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path))}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if finding.place.line is not None:
        region = {"startLine": finding.place.line, "startColumn": finding.place.column}
        physical["region"] = {name: number for name, number in region.items() if number is not None}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.path.startswith("/"):  # a member of the card, and not a file
        member = {"fullyQualifiedName": safe(finding.path, limit=_MAX_TEXT), "kind": "member"}
        location["logicalLocations"] = [member]
    return {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": _text(f"{finding.message}. {finding.hint}".rstrip()),
        "locations": [location],
    }


def _text(text: str) -> dict[str, str]:
    """Return a plain text message in which a stranger's words make no placeholder and no link.

    Braces stand for themselves doubled (SARIF 2.1.0 3.11.5), and ``](`` would join two brackets
    to a link (3.11.6).
    """
    shown = safe(text, limit=_MAX_TEXT).replace("](", "] (")
    return {"text": shown.replace("{", "{{").replace("}", "}}")}


def annotation_lines(subjects: Iterable[ScanResult]) -> Iterator[str]:
    """Yield workflow commands of GitHub; a card's words cannot end one or begin another."""
    for name, findings, _ in subjects:
        file = _escape(name, 1000).replace(":", "%3A").replace(",", "%2C")
        for finding in findings:
            line, column = finding.place.line, finding.place.column
            place = f",line={line}" if line else ""
            place += f",col={column}" if line and column else ""
            words = f"{finding.path or 'the card'}: {finding.message}. {finding.hint}"
            level = "notice" if finding.severity == "note" else finding.severity
            yield f"::{level} file={file}{place},title={finding.code}::{_escape(words, 600)}"


def _escape(text: str, limit: int) -> str:
    return safe(text, limit=limit).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
