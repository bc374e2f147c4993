"""The operator's file of settings: what it says, and how a mistake in it is told."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from cardsign.errors import UsageFault
from cardsign.server.settings import ServerSettings, read_server_settings


def read(tmp_path: Path, text: str) -> ServerSettings:
    """The settings of a file."""
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return read_server_settings(path)


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
    ("legcay = true", "unknown member 'legcay'"),
    (
        '[[provider]]\ntype = "oidc"\nisuer = "x"',
        "unknown member 'provider.0.isuer'",
    ),
    ("xyzzy = 1", "unknown member 'xyzzy'"),
    ('legacy = "no"', "legacy = 'no': input should be a valid boolean"),
    ('root = "../x"', "root = '../x': string should match"),
    ("threads = 2", "threads = 2: input should be greater than or equal to 4"),
    ('token_file = "a\\u0000b"', "no file has such a name"),
    *(
        (f'agent_path = "{path}"', "agent_path")
        for path in ("agents/{name}", "/agents", "/{name}/{name}")
    ),
    ('rate = "often"', "'rate' = 'often'"),
    ('rate_storage = "nowhere://x"', "'rate_storage' = 'nowhere://x'"),
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
    assert "cardsign.toml" not in str(caught.value)  # which is another file


OIDC = """
[[provider]]
type = "oidc"
issuer = "https://login.example"
aud = "https://tides.example"
"""


def test_the_guides_provider_is_read(tmp_path: Path) -> None:
    """In ten lines."""
    guide = Path(__file__).parents[2] / "docs/reference/server.md"
    example = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len(example.splitlines()) <= 10
    (found,) = read(tmp_path, example).providers
    assert found.type == "oidc"


AWS = """
[[provider]]
type = "aws_sigv4"
url = "https://sts.eu-central-1.amazonaws.com"
rules = [{ claim = "account", value = "1", opens = "crew" }]
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(OIDC, "nobody gets a card", id="no card"),
        pytest.param(OIDC.replace("aud", "#"), "'aud' is missing", id="no audience"),
        pytest.param(OIDC.replace("oidc", "oicd"), "provider.0.type = 'oicd'", id="a type"),
        pytest.param(OIDC + 'opens = "A B"', "provider.0.opens", id="an audience's name"),
        pytest.param(
            OIDC.replace("https://l", "http://l") + 'opens = "a"',
            "insecure_loopback_http = true",
            id="http",
        ),
        pytest.param(OIDC + 'opens = "a"\nnetworks = ["x"]', "'x'", id="a network"),
        pytest.param('[[provider]]\ntype = "basic"', "'token_file' is missing", id="no table"),
        pytest.param(OIDC + 'client = "s3cret"', "provider.0.client", id="a secret in the file"),
        pytest.param(AWS + 'opens = "staff"', "anybody has an AWS account", id="all of AWS"),
        pytest.param(AWS.replace("account", "scope"), "rules name account", id="no account"),
        pytest.param(AWS.replace("url", "#"), "'url' is missing", id="no host of AWS"),
        pytest.param(AWS.replace("rules", "#"), "[[provider.rule]] is missing", id="no rules"),
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
