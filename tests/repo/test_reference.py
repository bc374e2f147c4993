"""The reference pages say what the program says, and every command explains itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import click
import pytest

from cardsign.cli.main import command_line as cli


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
    "page", ["cli.md", "lint.md", "python.md", "reasons.md", "requirements.md"]
)
def test_a_page_is_what_the_program_says(page: str, reference: ModuleType, root: Path) -> None:
    """`make reference` would change nothing."""
    assert (root / "docs/reference" / page).read_text(encoding="utf-8") == reference.PAGES[page]()


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
