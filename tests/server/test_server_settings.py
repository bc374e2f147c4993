"""The operator's file of settings: what it says, and how a mistake in it is told."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from cardsign.errors import UsageFault
from cardsign.server.settings import ServerSettings, read_server_settings
from tests.server.programs import ROOT
from tests.support import each_case


def read(tmp_path: Path, text: str) -> ServerSettings:
    """The settings of a file."""
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return read_server_settings(path)


def test_the_page_shows_the_defaults_and_a_provider(tmp_path: Path) -> None:
    """As its sentences say; the provider in ten lines."""
    page = (ROOT / "docs/reference/server.md").read_text(encoding="utf-8")
    defaults, example = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[:2]
    disabled = frozenset({"waves"})
    assert read(tmp_path, defaults) == ServerSettings(root="tides", disabled=disabled)
    assert len(example.splitlines()) <= 10
    assert [provider.type for provider in read(tmp_path, example).providers] == ["oidc"]


def test_what_the_file_says_holds(tmp_path: Path) -> None:
    """Files are relative to it."""
    settings = read(tmp_path, 'format = 1\ntoken_file = "tokens.txt"\nsunset = 2027-01-31\n')
    assert settings.sunset == date(2027, 1, 31)
    assert settings.token_file == tmp_path / "tokens.txt"


@each_case(__file__, "mistakes", "line", "words")
def test_a_mistake_names_member_and_value(tmp_path: Path, line: str, words: str) -> None:
    """And the file."""
    with pytest.raises(UsageFault) as caught:
        read(tmp_path, f"format = 1\n{line}\n")
    assert caught.value.code == "config.malformed"
    assert words in caught.value.message
    assert caught.value.path == str(tmp_path / "serve.toml")
    assert "cardsign.toml" not in str(caught.value)  # which is another file


@each_case(__file__, "providers", "members", "words")
def test_a_provider_that_could_not_work_is_refused(
    tmp_path: Path, members: str, words: str
) -> None:
    """Before anybody is turned away by it."""
    test_a_mistake_names_member_and_value(tmp_path, f"provider = [{{ {members} }}]", words)


def test_a_file_without_its_format_is_refused(tmp_path: Path) -> None:
    """A later one may mean something else by the same words."""
    with pytest.raises(UsageFault, match="'format' is missing"):
        read(tmp_path, "legacy = true\n")
