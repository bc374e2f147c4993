"""How large a report of the library becomes, whatever a stranger puts into a card."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from cardsign import examine_card
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.contract import EnvelopeReport
from cardsign.diff import diff_cards, diff_live, diff_tools
from cardsign.findings import Finding, Place, cap_findings
from cardsign.inspect import inspect_card
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.lint.cards import LintReport, lint_card
from cardsign.lint.portability import fix
from cardsign.verify.report import verdict_lines
from tests.hostile import card

MAX_OUTPUT: Final = 2**20  # bytes
KEYS: Final = JwkSet.of([PrivateKey.generate("ES256").public])
SMALL: Final = b'{"name": "Tides", "version": "1.0.0", "url": "https://tides.example/a2a"}'


class _Verdict:
    """The verdict on a card, with its text."""

    def __init__(self, data: bytes) -> None:
        self.report = examine_card(data, jwks=KEYS)

    def lines(self) -> list[str]:
        return [*verdict_lines("card.json", self.report, verbose=True)]

    def to_json(self) -> Any:
        return self.report.to_json()


def _tools(data: bytes) -> Any:
    names = [{"name": f"{at:x}" + "n" * 900, "inputSchema": {}} for at in range(250)]
    return diff_tools(data, json.dumps({"tools": names}).encode())


REPORTS: Final[dict[str, Callable[[bytes], Any]]] = {
    "lint": lambda data: LintReport([lint_card(data)]),
    "lint after a fix": lambda data: LintReport([lint_card(data)], fixed=fix(data)),
    "inspect": lambda data: inspect_card(data, jwks=KEYS),
    "diff": lambda data: diff_cards(data, SMALL),
    "diff, the other way": lambda data: diff_cards(SMALL, data),
    "drift": lambda data: diff_live(data, SMALL),
    "drift of tools": _tools,
    "verify": _Verdict,
}
#: What has the most findings, the longest names, and the most of both.
SHAPES: Final = ("a wide card", "a long name over nulls", "astral names in one another")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_report_of_any_card_is_small(report: Callable[[bytes], Any], shape: str) -> None:
    """As text and as JSON in ASCII, in which one character may take twelve bytes."""
    made = report(card(shape, MAX_CARD_BYTES))
    assert len(json.dumps(made.to_json())) < MAX_OUTPUT
    lines = list(made.lines())
    assert sum(len(line.encode()) + 1 for line in lines) < MAX_OUTPUT // 4
    assert max(map(len, lines)) < 2000


def test_findings_without_number_are_counted_and_few_are_kept() -> None:
    """Each code is there, the first of each with its place."""
    many = (Finding(f"envelope.{at % 3}", "m" * 9000, Place("/x" * 9000)) for at in range(10**4))
    findings = cap_findings(many)
    assert sum(finding.count for finding in findings) == 10**4
    assert {finding.code for finding in findings if finding.place.path} == {
        "envelope.0",
        "envelope.1",
        "envelope.2",
    }
    report = EnvelopeReport(findings)
    assert len(json.dumps(report.to_json())) < MAX_OUTPUT
    assert sum(map(len, report.lines())) < 20_000
