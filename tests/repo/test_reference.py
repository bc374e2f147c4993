"""The reference pages say what the program says, and every command explains itself."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from cardsign.cli import command_line as cli


@pytest.fixture(scope="module")
def reference(root: Path) -> ModuleType:
    """docs/reference/make_reference.py as a module."""
    script = root / "docs/reference/make_reference.py"
    spec = importlib.util.spec_from_file_location("make_reference", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def contexts(reference: ModuleType) -> list[click.Context]:
    """Every command of the tree."""
    contexts = list(reference.walk(click.Context(cli, info_name="cardsign")))
    assert len(contexts) > 1
    return contexts


@pytest.mark.parametrize(
    "page", ["cli.md", "lint.md", "python.md", "reasons.md", "trust.schema.json"]
)
def test_a_page_is_what_the_program_says(page: str, reference: ModuleType, root: Path) -> None:
    """`make reference` would change nothing."""
    assert (root / "docs/reference" / page).read_text(encoding="utf-8") == reference.PAGES[page]()


def test_a_stale_page_is_seen(root: Path, tmp_path: Path) -> None:
    """--check fails where a page differs, and writing it fixes that."""
    script = shutil.copy(root / "docs/reference/make_reference.py", tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, script, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--check").returncode == 5
    assert run().returncode == 0
    assert run("--check").returncode == 0
    (tmp_path / "reasons.md").write_text("# Reason codes\n")
    assert "docs/reference/reasons.md" in run("--check").stdout


def test_every_command_is_documented(contexts: list[click.Context], root: Path) -> None:
    """Each command has its section."""
    lines = (root / "docs/reference/cli.md").read_text(encoding="utf-8").splitlines()
    assert [c.command_path for c in contexts if f"## {c.command_path}" not in lines] == []


def test_every_command_and_option_says_what_it_is_for(contexts: list[click.Context]) -> None:
    """No help text is missing."""
    silent = [context.command_path for context in contexts if not context.command.help]
    silent += [
        f"{context.command_path} {option.opts[0]}"
        for context in contexts
        for option in context.command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert silent == []


def test_a_listing_says_whole_sentences(contexts: list[click.Context]) -> None:
    """In 80 columns, no command's line in its group's help ends in three dots."""
    helps = {
        context.command_path: click.Context(
            context.command, info_name=context.command_path, terminal_width=80
        )
        for context in contexts
        if isinstance(context.command, click.Group)
    }
    cut = [
        line
        for context in helps.values()
        for line in context.get_help().splitlines()
        if line.endswith("...") and not line.startswith("Usage:")
    ]
    assert len(helps) > 5
    assert cut == []
