"""The pytest plugin, in a pytest of its own: row B27."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.testing import assert_card_valid
from tests.support import PORTABLE, put

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs/guides/python.md"


def test_B27_the_guide_of_the_plugin_runs(tmp_path: Path) -> None:
    """Its example passes; and fails where the card is changed."""
    section = GUIDE.read_text().partition("## With pytest\n")[2]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for name, text in (("good", example), ("bad", example.replace('"sea"', "7"))):
        (tmp_path / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", str(tmp_path)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(  # the entry point loads the plugin
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    outcomes = re.findall(r"^(FAILED|PASSED) test_(\w+)\.py", ended.stdout, re.MULTILINE)
    assert {*outcomes} >= {("FAILED", "bad"), ("PASSED", "good")}, ended.stdout
    assert ("FAILED", "good") not in outcomes


def test_B27_the_assertion_names_what_is_wrong() -> None:
    """Each finding with its fix; a lighter one passes where only errors fail."""
    assert_card_valid(PORTABLE)
    bad = put(PORTABLE, "/version", "two")
    with pytest.raises(AssertionError, match=r"meaning\.version: /version"):
        assert_card_valid(bad)
    assert_card_valid(bad, fail_on="error")


def test_a_strangers_card_says_nothing_to_the_terminal_or_to_the_log_of_a_workflow() -> None:
    """Its words are shown escaped, each finding in one line."""
    hostile = "\x1b]0;x\x07\n::warning::\u202e##[add-mask]é"
    card = {**PORTABLE, hostile: 1, "version": hostile}
    with pytest.raises(AssertionError) as refused:
        assert_card_valid(card, fail_on="note")
    lines = str(refused.value).split("\n")
    assert all(line.isprintable() and "##[" not in line for line in lines)
    assert not any(line.lstrip().startswith("::") for line in lines)
    shown = r"\x1b]0;x\x07\n::warning::\u202e#\x23[add-mask]é"
    assert [shown in line for line in lines] == [False, True, False, True, True]
