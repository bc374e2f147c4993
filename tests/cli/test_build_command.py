"""``cardsign build``: what it writes, what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cardsign.cli.main import command_line
from cardsign.errors import CardsignError

SKILL = "---\nname: tides\ndescription: Says when the tide is high\n---\n"
URL = "https://{name}.example/a2a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one skill."""
    (tmp_path / "SKILL.md").write_text(SKILL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    """Run the command without raising."""
    return CliRunner().invoke(command_line, ["build", *words], standalone_mode=False)


def test_a_card_is_written(folder: Path) -> None:
    """To the file that is named, or to standard output."""
    done = run("SKILL.md", "--url", URL, "-o", "card.json")
    assert done.return_value == 0
    card = json.loads((folder / "card.json").read_bytes())
    assert card["supportedInterfaces"][0]["url"] == "https://tides.example/a2a"
    assert "wrote card.json" in done.stderr
    assert json.loads(run("SKILL.md", "--url", URL, "-o", "-").stdout) == card


def test_both_are_written_beside_each_other(folder: Path) -> None:
    """And not to standard output."""
    assert run("SKILL.md", "--url", URL, "-o", "card.json", "--a2a", "both").return_value == 0
    assert "supportedInterfaces" in json.loads((folder / "card.json").read_bytes())
    assert json.loads((folder / "card.0.3.json").read_bytes())["protocolVersion"] == "0.3.0"
    refused = run("SKILL.md", "--url", URL, "-o", "-", "--a2a", "both")
    assert getattr(refused.exception, "code", None) == "usage.conflict"


def test_explain_names_the_source_and_line_of_each_member(folder: Path) -> None:
    """As text, and in JSON."""
    shown = run("SKILL.md", "--url", URL, "-o", "card.json", "--explain", "--set", "version=1.0.0")
    lines = dict(line.split(None, 1) for line in shown.stdout.splitlines())
    assert lines["skills.tides.description"] == "SKILL.md:3"
    assert lines["version"] == "--set version"
    assert lines["supportedInterfaces"] == "--url"
    found = json.loads(run("SKILL.md", "--url", URL, "-o", "card.json", "--json").stdout)
    assert found["whole"] is True
    assert {"member": ["name"], "file": "SKILL.md", "line": 2} in found["members"]
    assert {one["code"] for one in found["reasons"]} == {"build.filled"}


def test_settings_of_the_project_are_used(folder: Path) -> None:
    """Options override them."""
    (folder / "cardsign.toml").write_text(f'format = 1\n[build]\na2a = "0.3"\nurl = "{URL}"\n')
    assert run("SKILL.md", "-o", "card.json").return_value == 0
    assert json.loads((folder / "card.json").read_bytes())["protocolVersion"] == "0.3.0"
    assert run("SKILL.md", "-o", "card.json", "--a2a", "1.0").return_value == 0
    assert "supportedInterfaces" in json.loads((folder / "card.json").read_bytes())


def test_keep_going_ends_with_1(folder: Path) -> None:
    """The card is there, and what was refused is told."""
    (folder / "bad.md").write_text("---\n- a\n---\n")
    refused = run("SKILL.md", "bad.md", "--url", URL, "-o", "card.json")
    assert getattr(refused.exception, "code", None) == "build.syntax"
    assert not (folder / "card.json").exists()
    done = run("SKILL.md", "bad.md", "--url", URL, "-o", "card.json", "--keep-going")
    assert done.return_value == 1
    assert "build.refused" in done.stderr
    assert "bad.md:2" in done.stderr
    quiet = run("SKILL.md", "bad.md", "--url", URL, "-o", "card.json", "--keep-going", "--quiet")
    assert [line.split(":")[1].strip() for line in quiet.stderr.splitlines()] == ["build.refused"]
    assert (folder / "card.json").exists()


def test_a_url_is_no_source(folder: Path) -> None:
    """A path of its text would lose a slash, and be looked for in vain."""
    source = "https://tides.example/openapi.json?a=b&c"
    refused = run(source, "--url", URL, "-o", "card.json")
    assert str(refused.exception) == f"usage.invalid: a source is a file or a folder ({source})"
    assert getattr(refused.exception, "hint", "").endswith(f"curl -O '{source}'")
    assert not (folder / "card.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "nonsense=1"),
        ("--set", "capabilities.nonsense=true"),
        ("--set", "version"),
        ("--url", "ftp://x.example"),
    ],
)
def test_what_is_said_wrongly_is_refused(folder: Path, words: tuple[str, str]) -> None:
    """As a mistake of the command line; nothing is written."""
    url = () if "--url" in words else ("--url", URL)
    refused = run("SKILL.md", *url, "-o", "card.json", *words)
    assert getattr(refused.exception, "code", None) == "usage.invalid"
    assert not (folder / "card.json").exists()


HINTS = {
    "an unknown member": (("--set", "nonsense=1"), "Such as: --set version=1.2.0"),
    "no value": (("--set", "version"), "Such as: --set version=1.2.0"),
    "a bad url": (("--url", "a b"), "Such as: --url 'https://agents.example.com/{name}'"),
    "a bad base url": (("--base-url", "a b"), "Such as: --base-url https://a.example"),
    "no such program": (("--run-mcp", "no-such-program"), "Install it, or give its whole path."),
    "an unknown kind": (("nosuch:SKILL.md",), "cardsign build --help"),
    "no source of a kind": (("openapi.yaml",), "cardsign build --help"),
    "a byte order mark": (("bom.json",), "Save the file as UTF-8 without BOM."),
    "an agent that nothing asks for": (("--agent", "nosuch"), "Leave out --agent."),
    "a skill without a description": (("bare.md",), "--set 'skills.winds.description=...'"),
    "a skill as a whole": (("--set", "skills.tides=x"), "Such as: --set version=1.2.0"),
    "an empty value": (("--set", "version="), "Such as: --set version=1.2.0"),
    "a url by --set": (("--set", "url=https://a.example"), "Pass --url https://a.example"),
    "a signature by --set": (("--set", "signatures=[]"), "cardsign sign card.json"),
    "a member twice": (("--set", "version=1.0.0", "--set", "version=2.0.0"), "Name it once."),
    "a tool without its system": (("tool.yaml",), "Name the file that defines it as well"),
    "a link out of the folder": (("linked",), "Put the file itself there"),
    "a URL with a password": (("url.toml",), "Write the URL without it."),
    "an unknown authentication": (("old.json",), "Write the scheme into `securitySchemes`"),
    "a tab": (("tab.yaml",), "Indent with spaces."),
}
#: Sources that are refused, by name.
REFUSED = {
    "bare.md": "---\nname: winds\n---\n",
    "tool.yaml": "apiVersion: orloj.dev/v1\nkind: Tool\nmetadata:\n  name: tides\n",
    "url.toml": '[tool.cardsign.card]\nurl = "https://user:word@a.example"\n',
    "old.json": '{"name": "A", "skills": [], "url": "https://a.example", "authentication": ["x"]}',
    "tab.yaml": "name: a\n\tversion: 1\n",
}


@pytest.mark.parametrize(("words", "hint"), HINTS.values(), ids=HINTS)
def test_a_refusal_says_what_to_type(folder: Path, words: tuple[str, ...], hint: str) -> None:
    """And not only where the help is."""
    (folder / "openapi.yaml").write_text("openapi: 3.1.0\n")
    (folder / "linked/skills").mkdir(parents=True)
    (folder / "linked/skills/a.md").symlink_to("/etc/hostname")
    for name, text in REFUSED.items():
        (folder / name).write_text(text)
    (folder / "bom.json").write_bytes(b"\xef\xbb\xbf{}")
    url = () if {"--url", "--base-url"}.intersection(words) else ("--url", URL)
    refused = run("SKILL.md", *url, "-o", "card.json", *words)
    assert hint in hint_of(refused.exception)
    assert not (folder / "card.json").exists()


def hint_of(error: object) -> str:
    """What a person is told to do."""
    assert isinstance(error, CardsignError)
    return error.finding.hint


def test_an_unknown_kind_is_told_with_those_that_there_are(folder: Path) -> None:
    """A file of such a name is another matter."""
    refused = run("nosuch:SKILL.md", "--url", URL, "-o", "card.json")
    told = "there is no kind 'nosuch'; the kinds are pyproject, forge, orloj,"
    assert told in str(refused.exception)
    Path("nosuch:SKILL.md").write_text(Path("SKILL.md").read_text())
    assert run("nosuch:SKILL.md", "--url", URL, "-o", "card.json").exit_code == 0


MCP_SERVER = """import json, sys
open("started", "w").close()
for line in sys.stdin:
    call = json.loads(line)
    tools = [{"name": "read", "description": "Reads"}]
    result = {"serverInfo": {"name": "docs"}, "tools": tools}
    if "id" in call:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"""


def test_O27_a_program_runs_only_by_an_option(folder: Path) -> None:
    """Neither a list of servers nor the settings of a project start it; --run-mcp does."""
    (folder / "server.py").write_text(MCP_SERVER)
    servers = {"mcpServers": {"docs": {"command": sys.executable, "args": ["server.py"]}}}
    (folder / "servers.json").write_text(json.dumps(servers))
    said = ("--set", "description=Docs", "--url", URL, "-o", "card.json")
    assert getattr(run("servers.json", *said).exception, "code", None) == "build.unsupported"
    settings = f'format = 1\n[build]\nrun_mcp = ["{sys.executable} server.py"]\n'
    (folder / "cardsign.toml").write_text(settings)
    assert run("SKILL.md", *said).exception is not None
    (folder / "cardsign.toml").unlink()
    assert not (folder / "started").exists()
    done = run("--run-mcp", f"{sys.executable} server.py", *said)
    assert done.return_value == 0
    assert (folder / "started").exists()
    (skill,) = json.loads((folder / "card.json").read_bytes())["skills"]
    assert skill["id"] == "mcp_docs_read"


def test_a_live_server_on_this_machine_needs_the_option(folder: Path) -> None:
    """As everywhere: loopback is refused without --insecure-loopback-http."""
    words = ("--ask-mcp", "http://127.0.0.1:9/mcp", "--url", URL, "-o", "card.json")
    assert getattr(run(*words).exception, "code", None) == "fetch.url"
    refused = run(*words, "--insecure-loopback-http")
    assert getattr(refused.exception, "code", None) == "fetch.failed"
    assert getattr(run("-o", "card.json").exception, "code", None) == "usage.invalid"
