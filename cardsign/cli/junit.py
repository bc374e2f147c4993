"""Verdicts as JUnit XML, for the test reports of a pipeline.

One suite, one case for each card. A card that is untrusted or invalid is a ``failure``. Where no
verdict could be reached it is an ``error``, as for a fault of this machine: nothing was shown to
be wrong, and nothing to be right; ``skipped`` would let a pipeline go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

from cardsign.cli.outcome import Outcome
from cardsign.cli.render import render_verdict
from cardsign.cli.talk import safe
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, LocalFault

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
