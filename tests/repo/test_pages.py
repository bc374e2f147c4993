"""The blocks of the README and of each guide run, in order, and print what the page shows.

The README runs in a clone of the repository, after ``pip install .`` there. Each guide has an empty
folder of its own; one that names ``examples/`` of the checkout says so, and has a copy of it. HOME
is empty: what a reader types is all that there is.

* ``console``: a line that starts with ``$ `` is a command (``> `` continues it), and the other
  lines are what it prints, stdout and stderr. ``...`` stands for any text of a line, and alone
  on its line for any number of lines. Nothing shown means that nothing is compared. A command that
  fails ends the run; where failing is the point, the page shows ``|| echo "exit status $?"``.
* ``python``: runs where it stands.
* ``toml`` and ``json``: parsed. A first line ``# NAME.toml`` means that the file is written.
* ``text``, ``yaml``: shown only.
* ``sh``: for the checkout itself: ``make`` with a target that exists, or ``pip install``.

A block behind a comment ``<!-- not run: WHY -->`` is only shown; where the reason names a test,
the test exists.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign import canonicalize, lint_card
from cardsign.card.extensions import EXTENDED_URI
from tests.cli.test_transcripts import Step
from tests.support import PORTABLE, dump, put

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]

BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^>]+) -->\n+)?^ *```(?P<language>\w*)\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
LANGUAGES = {"console", "python", "toml", "json", "text", "sh", "yaml"}
LANGUAGES |= {"nginx", "ini", "cron", "dockerfile"}  # tests/server/test_operated.py reads them
FILE = re.compile(r"# (?P<name>[\w./~-]+\.toml)\n")
INSTALLED = re.compile(r"make [a-z-]+|pip install '?\.(\[[a-z0-9]+\])?'?")
SECONDS = 600  # for all blocks of a page, on any machine; waiting for input gets end of file
MARK = "=== command {} of the page ==="


def blocks(text: str, *languages: str) -> list[tuple[str, str]]:
    """Language and body of each code block in one of the languages."""
    found = [(block["language"], textwrap.dedent(block["body"])) for block in BLOCK.finditer(text)]
    return [(language, body) for language, body in found if language in languages]


def steps(text: str) -> Iterator[Step]:
    """The commands of all blocks that run."""
    for block in BLOCK.finditer(text):
        body = textwrap.dedent(block["body"])
        if block["why"]:
            continue
        if block["language"] == "python":
            yield Step(command=f"python - <<'PYTHON'\n{body}PYTHON")
        elif block["language"] == "console":
            yield from commands_of(body)
        elif block["language"] == "toml" and (file := FILE.match(body)):
            name = file["name"]
            write = f"mkdir -p $(dirname {name}) && (umask 077; cat > {name})"
            yield Step(command=f"{write} <<'TOML'\n{body}TOML")


def commands_of(block: str) -> Iterator[Step]:
    """The commands of one console block, each with what it is said to print."""
    step = Step()
    for line in block.splitlines():
        if line.startswith("$ "):
            if step.command:
                yield step
            step = Step(command=line[2:])
        elif line.startswith("> ") or step.command.endswith("\\"):
            step.command += "\n" + line.removeprefix("> ")
        else:
            step.lines.append(line)
    yield step


def is_shown(step: Step, printed: str) -> bool:
    """Whether a command has printed what is shown; where nothing is, anything will do."""
    return not step.lines or step.fits(printed, 0, {})


def run(commands: list[str], folder: Path, installed: Path) -> tuple[list[str], int]:
    """What each command printed, as far as they came, and the exit status of the last.

    `installed` is where the package is, with its command in ``bin/`` if it was installed by pip.
    """
    script = "trap 'kill $(jobs -p) 2>/dev/null && wait' EXIT\n"  # servers that a block started
    for index, command in enumerate(commands):
        script += f"echo '{MARK.format(index)}'\n{command}\n"
    home = folder.parent / f"{folder.name}-home"
    home.mkdir()
    # TMPDIR, locale and proxy settings stay; whatever would lead out of the folder goes.
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("CARDSIGN_", "XDG_", "PY"))}
    environment = outer | {
        "HOME": str(home),
        "PATH": f"{installed / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(installed),
    }
    printed = home / "printed"
    with printed.open("w") as out:
        shell = subprocess.Popen(
            ["bash", "-e", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = shell.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            status = shell.wait()
    parts = re.split(re.escape(MARK).replace(r"\{\}", r"\d+") + "\n", printed.read_text())
    return parts[1:], status


def first_difference(text: str, folder: Path, installed: Path = ROOT) -> str:
    """What a page says that does not hold; empty if all does."""
    told = list(steps(text))
    assert told, "no block that runs"
    printed, status = run([step.command for step in told], folder, installed)
    for step, output in zip(told, printed, strict=False):
        if not is_shown(step, output):
            return f"$ {step.command}\nshown:\n{step.text}\nprinted:\n{output}"
    if status:
        return f"$ {told[len(printed) - 1].command}\nended with {status}:\n{printed[-1]}"
    return ""


RUN = {path.name: path for path in PAGES if any(steps(path.read_text(encoding="utf-8")))}


def test_the_readme_runs_in_a_clone(tmp_path: Path) -> None:
    """As printed, with what pip has installed from there; git sees nothing of the key store."""
    clone, installed = tmp_path / "clone", tmp_path / "installed"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", str(installed), "."], cwd=clone, check=True)

    assert first_difference((clone / "README.md").read_text("utf-8"), clone, installed) == ""

    assert (clone / "keys/log.jsonl").exists()
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    left = subprocess.run(status, cwd=clone, capture_output=True, text=True, check=True).stdout
    assert left.splitlines() == ["?? edited.json", "?? jwks.json", "?? signed.json"]


#: What a page's blocks need beside cardsign.
NEEDS: dict[str, tuple[pytest.MarkDecorator, ...]] = {
    "call.md": (pytest.mark.needs_a2a,),
    "python.md": (pytest.mark.needs_a2a, pytest.mark.needs_prometheus),
}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=NEEDS.get(page, ())) for page in RUN if page != "README.md"]
)
def test_a_page_runs(page: str, tmp_path: Path) -> None:
    """A reader who types what the page shows, in an empty folder, sees what it shows."""
    folder = tmp_path / "empty"
    folder.mkdir()
    text = RUN[page].read_text(encoding="utf-8")
    if re.search(r"\b(?:of|in) the checkout\b", " ".join(text.split()), re.IGNORECASE):
        shutil.copytree(ROOT / "examples", folder / "examples")
    assert first_difference(text, folder) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_block_is_run_or_says_why_not(page: Path) -> None:
    """Each has a language that is run, checked or only shown; what another test runs names it."""
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)}
    reasons = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        body = textwrap.dedent(block["body"])
        assert block["language"] in LANGUAGES, body
        if block["language"] == "toml":
            tomllib.loads(body)
        elif block["language"] == "json":
            json.loads(body)
        elif block["language"] == "sh":
            lines = [line.partition("#")[0].strip() for line in body.splitlines() if line]
            assert [line for line in lines if not INSTALLED.fullmatch(line)] == []
            assert {line[5:] for line in lines if line.startswith("make ")} <= targets
        reasons.append(block["why"] or "")
        tests = re.findall(r"tests/[\w/-]+\.(?:py|txt)", reasons[-1])
        assert [name for name in tests if not (ROOT / name).is_file()] == []
    assert page.name in RUN or any("tests/" in why for why in reasons)


def test_a_card_may_declare_the_statements() -> None:
    """The entry of statements.md is one that lint accepts and that a signature covers."""
    page = (ROOT / "docs/spec/statements.md").read_text(encoding="utf-8")
    (uri,) = re.findall(r"this specification is `(urn:uuid:[0-9a-f-]{36})`", page)
    (entry,) = map(json.loads, re.findall(r"^(\{\"uri\": .*\})$", page, re.MULTILINE))
    card = dump(put(PORTABLE, "/capabilities/extensions", [entry]))

    assert entry["uri"] == uri != EXTENDED_URI
    assert not entry.get("required", False)
    before = [finding.code for finding in lint_card(dump(PORTABLE))]
    assert [finding.code for finding in lint_card(card)] == before
    assert uri.encode() in canonicalize(card, "served-as-is").data
