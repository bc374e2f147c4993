"""SARIF and JUnit as others read them: the schema of SARIF 2.1.0, and junitparser."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.conftest import SARIF_SCHEMA
from tests.support import PORTABLE, dump, put

pytestmark = pytest.mark.needs_report_readers

COMMANDS = {
    "lint": ("lint", "bad.json", "half.json", "signed.json"),
    "lint of a clean card": ("lint", "signed.json"),
    "check": ("check", "bad.json"),
    "verify": (
        "verify",
        "signed.json",
        "bad.json",
        "half.json",
        "gone.json",
        "--jwks",
        "jwks.json",
    ),
}


@pytest.fixture
def _cards(cardsign: Cardsign) -> None:
    """A signed card, one with faults in several places, and one that is no JSON."""
    peer.write_cards()
    Path("bad.json").write_bytes(dump(put(put(PORTABLE, "/version", "two"), "/x\n", None)))
    Path("half.json").write_bytes(b'{"name":')


def faults(log: Any) -> list[str]:
    """What the schema finds in a log."""
    validator = jsonschema.Draft4Validator(json.loads(SARIF_SCHEMA.read_bytes()))
    return [f"{one.json_path}: {one.message}" for one in validator.iter_errors(log)]


@pytest.mark.usefixtures("_cards")
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_sarif_is_valid_by_its_schema(cardsign: Cardsign, words: tuple[str, ...]) -> None:
    """The log is; without its version, or with a member more, it is not."""
    log = cardsign(*words, "--format", "sarif").json

    assert faults(log) == []
    assert faults({name: value for name, value in log.items() if name != "version"})
    assert faults(put(log, "/runs/0/verdict", "trusted"))


@pytest.mark.usefixtures("_cards")
@pytest.mark.parametrize("words", [COMMANDS["lint"], COMMANDS["verify"]], ids=["lint", "verify"])
def test_junit_is_read_by_junitparser(cardsign: Cardsign, words: tuple[str, ...]) -> None:
    """One case for each card; what it counts is what the suite says of itself."""
    junitparser = import_module("junitparser")
    text = cardsign(*words, "--format", "junit").out
    suites = list(junitparser.JUnitXml.fromstring(text))
    cases = [case for suite in suites for case in suite]
    names = [word for word in words if word.endswith(".json") and word != "jwks.json"]

    assert [case.name for case in cases] == names
    said = [(suite.tests, suite.failures + suite.errors) for suite in suites]
    failed = sum(bool(case.result) for case in cases)
    assert said == [(len(names), failed)]
    assert 0 < failed < len(names)
