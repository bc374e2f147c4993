"""The operator's file of settings: what it says, and how a mistake in it is told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardsign.errors import ServeFault, UsageFault
from cardsign.server import ServerSettings, create_token, read_server_settings


def read(tmp_path: Path, text: str) -> ServerSettings:
    """The settings of a file."""
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return read_server_settings(path)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    """But for its format."""
    assert read(tmp_path, "format = 1\n") == ServerSettings()


def test_the_page_shows_the_defaults(tmp_path: Path) -> None:
    """As its sentence says."""
    guide = Path(__file__).parents[2] / "docs/guides/publish-and-serve.md"
    page = guide.read_text(encoding="utf-8")
    example = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    found = read(tmp_path, example)
    assert found == ServerSettings(root="tides", disabled=frozenset({"waves"}))


def test_what_the_file_says_holds(tmp_path: Path) -> None:
    """Files are relative to it."""
    token, line = create_token("staff")
    (tmp_path / "tokens.txt").write_text(line)
    found = read(tmp_path, 'format = 1\ntoken_file = "tokens.txt"\nsunset = 2027-01-31\n')
    assert found.sunset == datetime(2027, 1, 31, tzinfo=UTC)
    assert found.tokens is not None
    assert found.tokens.find(token) is not None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("legcay = true", "unknown member 'legcay'", id="a misspelt member"),
        pytest.param("agents.x.enable = true", "'agents.x.enable'", id="a misspelt one below"),
        pytest.param(
            'legacy = "no"', "legacy = 'no': input should be a valid boolean", id="a type"
        ),
        pytest.param('root = "../x"', "root = '../x': string should match", id="a name"),
        pytest.param('catalogue = "x"', "catalogue", id="a path"),
        pytest.param("legacy = ", "not TOML", id="no TOML"),
    ],
)
def test_a_mistake_names_member_and_value(tmp_path: Path, line: str, words: str) -> None:
    """And the file."""
    with pytest.raises(UsageFault) as caught:
        read(tmp_path, f"format = 1\n{line}\n")
    assert caught.value.code == "config.malformed"
    assert words in caught.value.message
    assert caught.value.path == str(tmp_path / "serve.toml")


def test_a_file_without_its_format_is_refused(tmp_path: Path) -> None:
    """A later one may mean something else by the same words."""
    with pytest.raises(UsageFault, match="'format' is missing"):
        read(tmp_path, "legacy = true\n")


def test_a_broken_token_file_is_refused(tmp_path: Path) -> None:
    """Without showing what may be a token."""
    (tmp_path / "t").write_text("s3cret\n")
    with pytest.raises(ServeFault) as caught:
        read(tmp_path, 'format = 1\ntoken_file = "t"\n')
    assert "s3cret" not in str(caught.value)
