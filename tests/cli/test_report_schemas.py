"""SARIF as others read it: by the schema of SARIF 2.1.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, dump, put
from tests.tools import SARIF_SCHEMA

pytestmark = pytest.mark.needs_sarif_schema

COMMANDS = {
    "lint": ("lint", "bad.json", "half.json", "signed.json"),
    "lint of a clean card": ("lint", "signed.json"),
    "inspect": ("inspect", "signed.json", "--jwks", "jwks.json"),
}


@pytest.fixture
def _cards(signed: Path) -> None:
    """A signed card, one with faults in several places, and one that is no JSON."""
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
