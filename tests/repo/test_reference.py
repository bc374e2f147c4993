"""Pages that repeat the program say what it says: the reference, profiles, settings, a command."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

import click
import pytest

from cardsign.card.profiles import PROFILES, canonicalize
from cardsign.cli.main import command_line as cli
from cardsign.config import ProjectConfig, read_config
from cardsign.keys.agenda import DEFAULT_SETTINGS
from cardsign.keys.ledger import ROLES, passphrase_variable

DOCS = Path(__file__).resolve().parents[2] / "docs"


#: What docs/reference/make_reference.py defines.
REFERENCE = runpy.run_path(str(DOCS / "reference/make_reference.py"))


@pytest.mark.parametrize("page", REFERENCE["PAGES"])
def test_a_page_is_what_the_program_says(page: str) -> None:
    """`make reference` would change nothing."""
    assert (DOCS / "reference" / page).read_text(encoding="utf-8") == REFERENCE["PAGES"][page]()


def test_every_command_and_option_says_what_it_is_for() -> None:
    """No help text is missing."""
    contexts = [*REFERENCE["walk"](click.Context(cli, info_name="cardsign"))]
    assert len(contexts) > 50
    for context in contexts:
        assert context.command.help, context.command_path
        for option in context.command.params:
            assert not isinstance(option, click.Option) or option.help, context.command_path


def test_the_payloads_of_the_profiles_are_those_shown() -> None:
    """Each JSON block is followed by a table: profile, payload."""
    page = (DOCS / "concepts/profiles.md").read_text(encoding="utf-8")
    cards = re.findall(r"```json\n(.*?)```(.*?)(?=```|\n## )", page, re.DOTALL)
    shown = [
        (profile, json.loads(card), payload)
        for card, table in cards
        for profile, payload in re.findall(r"^\| `([a-z0-9.-]+)` \| `(\{.*\})` \|$", table, re.M)
    ]
    assert {profile for profile, _, _ in shown} == set(PROFILES)
    for profile, card, payload in shown:
        assert canonicalize(card, profile).data.decode() == payload, profile


def test_the_settings_are_those_shown(tmp_path: Path) -> None:
    """The example has every default of the timeline; each member and variable has its row."""
    page = (DOCS / "reference/settings.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "cardsign.toml").write_text(example)
    assert read_config(tmp_path / "cardsign.toml").timeline == DEFAULT_SETTINGS
    assert tomllib.loads(example)["timeline"] == asdict(DEFAULT_SETTINGS)
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert rows == list(ProjectConfig.model_json_schema()["properties"])
    sources = "".join(path.read_text("utf-8") for path in DOCS.parent.glob("cardsign/**/*.py"))
    named, used = (set(re.findall(r"\bCARDSIGN_[A-Z0-9_]+\b", text)) for text in (page, sources))
    assert named == used | set(map(passphrase_variable, ROLES))


RUNNER = """
import sys
from cardsign.cli.frame import run
form = "json" if "--json" in sys.argv else "text"
sys.exit(run(lambda: kids.main(sys.argv[1:], "kids", standalone_mode=False), form=form))
"""


def test_the_command_that_the_page_adds_runs(tmp_path: Path) -> None:
    """In one file, with text, JSON, and an error of the frame."""
    page = (DOCS / "contributing/commands.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "kids.py").write_text(code + RUNNER)
    jwk = '{"kty": "OKP", "crv": "Ed25519", "kid": "tides-1", "x": "%s"}'
    jwks = '{"keys": [%s]}' % (jwk % "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    for words, stdin, out, status in (
        (["-"], jwks, "tides-1\n", 0),
        (["-", "--json"], jwks, '[\n  "tides-1"\n]\n', 0),
        (["-"], "{", "", 1),
        (["--never"], "", "", 2),
    ):
        line = [sys.executable, "kids.py", *words]
        ended = subprocess.run(line, input=stdin, text=True, capture_output=True, cwd=tmp_path)
        assert (ended.stdout, ended.returncode) == (out, status), ended.stderr
