"""The operator's file of settings: what it says, and how a mistake in it is told."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from cardsign.errors import UsageFault
from cardsign.server.settings import AudienceRule, ServerSettings, read_server_settings


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
    guide = Path(__file__).parents[2] / "docs/reference/server.md"
    page = guide.read_text(encoding="utf-8")
    example = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    found = read(tmp_path, example)
    assert found == ServerSettings(root="tides", disabled=frozenset({"waves"}))


def test_what_the_file_says_holds(tmp_path: Path) -> None:
    """Files are relative to it."""
    found = read(tmp_path, 'format = 1\ntoken_file = "tokens.txt"\nsunset = 2027-01-31\n')
    assert found.sunset == date(2027, 1, 31)
    assert found.token_file == tmp_path / "tokens.txt"


MISTAKES = [
    ("legcay = true", "'legcay'; did you mean 'legacy'?"),
    (
        '[[provider]]\ntype = "oidc"\nisuer = "x"',
        "'provider.0.isuer'; did you mean 'issuer'?",
    ),
    ("xyzzy = 1", "unknown member 'xyzzy'"),
    ('legacy = "no"', "legacy = 'no': input should be a valid boolean"),
    ('root = "../x"', "root = '../x': string should match"),
    ("threads = 2", "threads = 2: input should be greater than or equal to 4"),
    ('catalogue = "x"', "catalogue"),
    ("legacy = ", "not TOML"),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES)
def test_a_mistake_names_member_and_value(tmp_path: Path, line: str, words: str) -> None:
    """And the file."""
    with pytest.raises(UsageFault) as caught:
        read(tmp_path, f"format = 1\n{line}\n")
    assert caught.value.code == "config.malformed"
    assert words in caught.value.message
    assert caught.value.path == str(tmp_path / "serve.toml")


OIDC = """
[[provider]]
type = "oidc"
issuer = "https://login.example"
aud = "https://tides.example"
"""


def test_an_issuer_takes_few_lines(tmp_path: Path) -> None:
    """Rules say whose card a caller gets."""
    more = '[[provider.rule]]\nclaim = "scope"\nvalue = "card.read"\nopens = "9f2c"\n'
    (found,) = read(tmp_path, f"format = 1\n{OIDC}{more}").providers
    assert (found.type, found.issuer, found.aud) == (
        "oidc",
        "https://login.example",
        "https://tides.example",
    )
    assert found.rules == (AudienceRule(claim="scope", value="card.read", opens="9f2c"),)


def test_the_guides_provider_is_read(tmp_path: Path) -> None:
    """In ten lines."""
    guide = Path(__file__).parents[2] / "docs/reference/server.md"
    example = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len(example.splitlines()) <= 10
    (found,) = read(tmp_path, example).providers
    assert found.type == "oidc"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(OIDC, "nobody gets a card", id="no card"),
        pytest.param(OIDC.replace("aud", "#"), "'aud' is missing", id="no audience"),
        pytest.param(OIDC.replace("oidc", "oicd"), "provider.0.type = 'oicd'", id="a type"),
        pytest.param(OIDC + 'opens = "A B"', "provider.0.opens", id="an audience's name"),
        pytest.param(
            OIDC.replace("https://l", "http://l") + 'opens = "a"', "plain http", id="http"
        ),
        pytest.param(OIDC + 'opens = "a"\nnetworks = ["x"]', "'x'", id="a network"),
        pytest.param('[[provider]]\ntype = "basic"', "'token_file' is missing", id="no table"),
        pytest.param(OIDC + 'client = "s3cret"', "provider.0.client", id="a secret in the file"),
    ],
)
def test_a_provider_that_could_not_work_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Before anybody is turned away by it."""
    with pytest.raises(UsageFault) as caught:
        read(tmp_path, f"format = 1\n{text}\n")
    assert caught.value.code == "config.malformed"
    assert words in caught.value.message


def test_a_file_without_its_format_is_refused(tmp_path: Path) -> None:
    """A later one may mean something else by the same words."""
    with pytest.raises(UsageFault, match="'format' is missing"):
        read(tmp_path, "legacy = true\n")


def test_a_mistake_points_to_this_file(tmp_path: Path) -> None:
    """Not to cardsign.toml, which is another file."""
    (tmp_path / "serve.toml").write_text("format = 1\nlegcy = true\n")
    with pytest.raises(UsageFault) as caught:
        read_server_settings(tmp_path / "serve.toml")
    assert caught.value.hint.startswith("Fix serve.toml.")
    assert "cardsign.toml" not in str(caught.value)


def test_an_issuer_on_this_machine_is_named_with_the_way_to_try_it(tmp_path: Path) -> None:
    """And with it the settings are read."""
    text = (
        'format = 1\n[[provider]]\ntype = "oidc"\nissuer = "http://127.0.0.1:9000"\n'
        'aud = "x"\nopens = "staff"\n'
    )
    (tmp_path / "serve.toml").write_text(text)
    with pytest.raises(UsageFault) as caught:
        read_server_settings(tmp_path / "serve.toml")
    assert "insecure_loopback_http = true" in caught.value.message
    (tmp_path / "serve.toml").write_text(text + "insecure_loopback_http = true\n")
    assert read_server_settings(tmp_path / "serve.toml").providers[0].insecure_loopback_http
