"""Stories of the command line, each a file in ``transcripts``.

A file begins with what its story shows. Then come, in any order:

* ``-- NAME --`` and the content of an input file;
* ``$ cardsign WORDS``, with ``< FILE`` for standard input, ``> FILE`` for standard output, or
  ``NAME=VALUE`` in front for the environment; the lines below are what it prints, stdout before
  stderr. ``...`` stands for any text in a line, and alone in a line for any lines. ``[exit N]``
  ends the output of a command that does not exit with 0;
* ``$ COMMAND``, any other command, for the shell.

The folder of a story holds ``tides.json``, a card on whose bytes all profiles agree, and
``lax.json``, one with defaults and members of its own. No URL answers.

Each command that cardsign's answer advises is run as printed, in the folder as it is then, and has
to be understood. One with a placeholder in capitals has to be understood by the parser.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from cardsign.errors import EXIT_LOCAL_FAULT, CardsignError
from cardsign.findings import describe_code, list_codes
from tests.cli.conftest import Cardsign, Ended, parse
from tests.support import LAX, PORTABLE

FOLDER = Path(__file__).with_name("transcripts")
STORIES = sorted(path.stem for path in FOLDER.glob("*.txt"))
FILE = re.compile(r"-- (\S+) --")
EXIT = re.compile(r"\[exit (\d)\]")


@dataclass
class Step:
    """A file to write, or a command and what it prints."""

    name: str = ""
    command: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The lines, without the exit status and the blank ones at their end."""
        joined = "\n".join(line for line in self.lines if not EXIT.fullmatch(line)).rstrip("\n")
        return f"{joined}\n" if joined else ""

    @property
    def status(self) -> int:
        """The exit status; 0 where none is said."""
        found = [int(match[1]) for line in self.lines if (match := EXIT.fullmatch(line))]
        return found[0] if found else 0

    def fits(self, printed: str, status: int) -> bool:
        """Whether the command printed this and ended so."""
        pattern = "".join(
            r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
            for line in self.text.splitlines()
        )
        return status == self.status and re.fullmatch(pattern, printed) is not None


def steps(story: str) -> Iterator[Step]:
    """The steps of a story."""
    step: Step | None = None
    for line in story.splitlines():
        if not (line.startswith("$ ") or FILE.fullmatch(line)):
            if step is not None:
                step.lines.append(line)
            continue
        if step is not None:
            yield step
        named = FILE.fullmatch(line)
        step = Step(name=named[1]) if named else Step(command=line[2:])
    if step is not None:
        yield step


COMMAND = re.compile(r"((?:[A-Z_]+=\S* )*)cardsign (.*?)(?: < (\S+))?(?: > (\S+))?")


def carry_out(command: str, cardsign: Cardsign) -> Ended:
    """How a command ends."""
    ours = COMMAND.fullmatch(command)
    if ours is None:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr.decode())
    settings, words, source, target = ours.groups()
    environment = dict(setting.split("=", 1) for setting in settings.split())
    stdin = Path(source).read_bytes() if source else b""
    ended = cardsign(*shlex.split(words), stdin=stdin, **environment)
    if target:
        Path(target).write_bytes(ended.out)
        return Ended(ended.status, b"", ended.err)
    return ended


#: A command that a text advises, to the end of its sentence or of the list's item.
HINT = re.compile(r"(?<![\w/.'])(`?)cardsign (?=[a-z-])((?:[^;,.)`]|[,.](?=\S))+)")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\.\.\.")
UNANSWERED = "usage.unanswered"  # a person at a terminal is asked
ENDLESS = ("serve", "mcp", "--watch")


def hints(text: str) -> Iterator[list[str]]:
    """The commands that a text advises; of one that is only mentioned by name, its help."""
    for line in text.splitlines() if not text.startswith("Usage: ") else ():
        for quote, words in HINT.findall(line.removeprefix("cardsign: ")):
            is_mentioned = quote and re.fullmatch(r"[a-z -]+", words)
            yield [*shlex.split(words.partition(" > ")[0]), *["--help"] * bool(is_mentioned)]


def parsing_fault(words: Sequence[str]) -> str:
    """Why the parser does not understand a command; empty where it does."""
    try:
        parse(["1" if word == "N" else word for word in words])
    except (click.ClickException, CardsignError) as error:
        return str(error)
    except click.exceptions.Exit:
        pass
    return ""


def is_runnable(words: Sequence[str]) -> bool:
    """Whether a command needs no value of the user, and ends."""
    return not PLACEHOLDER.search(" ".join(words)) and set(ENDLESS).isdisjoint(words)


def bad_hint(ended: Ended, cardsign: Cardsign) -> str:
    """The first advised command that does not run, and why; empty where all do.

    They run one after the other, as a person would, and the folder is put back.
    """
    here = Path.cwd()
    is_json = ended.out.startswith((b"{", b"["))
    advised = list(hints(ended.err if is_json else ended.text + ended.err))
    if not advised:
        return ""
    with tempfile.TemporaryDirectory() as kept:
        subprocess.run(["cp", "-a", here, f"{kept}/copy"], check=True)
        try:
            for words in advised:
                if is_runnable(words):
                    tried = cardsign(*words)
                    is_bad = tried.status == EXIT_LOCAL_FAULT and UNANSWERED not in tried.err
                    fault = tried.err if is_bad else ""
                else:
                    fault = parsing_fault(words)
                if fault:
                    return f"cardsign {shlex.join(words)}\n{fault}"
        finally:
            for path in here.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            subprocess.run(["cp", "-a", f"{kept}/copy/.", here], check=True)
    return ""


def play(story: str, cardsign: Cardsign) -> str:
    """Carry a story out; the first difference, or an empty text."""
    for step in steps(story):
        if step.name:
            Path(step.name).parent.mkdir(parents=True, exist_ok=True)
            Path(step.name).write_text(step.text)
            continue
        ended = carry_out(step.command, cardsign)
        printed = ended.text + ended.err
        if not step.fits(printed, ended.status):
            told = f"expected, exit {step.status}:\n{step.text}"
            return f"$ {step.command}\n{told}\nprinted, exit {ended.status}:\n{printed}"
        if COMMAND.fullmatch(step.command) and (fault := bad_hint(ended, cardsign)):
            return f"$ {step.command}\nadvises what does not run: {fault}"
    return ""


@pytest.fixture
def _cards(cardsign: Cardsign) -> None:
    Path("tides.json").write_text(json.dumps(PORTABLE, indent=2) + "\n")
    Path("lax.json").write_text(json.dumps(LAX, indent=2) + "\n")


@pytest.mark.usefixtures("_cards", "cheap", "network")
@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_as_it_is_told(name: str, cardsign: Cardsign) -> None:
    """Every command, every line, every exit status, and every command that is advised."""
    difference = play((FOLDER / f"{name}.txt").read_text(), cardsign)
    assert not difference, difference


WRONG = {
    "another line": "$ cat a\ntwo\n-- b --",
    "a line too few": "$ cat a\n",
    "a line too many": "$ cat a\none\ntwo",
    "a status that is not said": "$ cardsign keys list\n...",
    "a status that is another": "$ cardsign keys list\n...\n[exit 1]",
    "a status that is none": "$ cat a\none\n[exit 1]",
}


@pytest.mark.parametrize("story", WRONG.values(), ids=WRONG)
def test_a_story_that_is_not_true_is_seen(story: str, cardsign: Cardsign) -> None:
    """The runner can fail."""
    assert play(f"-- a --\none\n{story}", cardsign)
    assert not play("-- a --\none\n$ cat a\none\n$ cat a\n...\n$ cat a\no...", cardsign)


ADVICE = {
    "a command that runs": ("Make one: cardsign keys generate. Or name it.", True),
    "two, the second after the first": ("next: cardsign keys generate; cardsign keys list", True),
    "a placeholder": ("Run: cardsign verify CARD --jwks FILE", True),
    "a command without an end": ("then: cardsign serve public", True),
    "a command that is not there": ("Run: cardsign keys show.", False),
    "a command without what it needs": ("Run: cardsign keys list", False),
    "an option that is not there": ("Run: cardsign verify CARD --key FILE", False),
    "a command that is mentioned": ("`cardsign diff` cannot tell.", True),
    "a mention of none": ("`cardsign differ` cannot tell.", False),
    "a command that its line breaks off": ("see why: cardsign inspect --jwks", False),
}


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize(("line", "runs"), ADVICE.values(), ids=ADVICE)
def test_an_advised_command_that_does_not_run_is_seen(
    line: str, runs: bool, cardsign: Cardsign
) -> None:
    """And running it leaves the folder as it was."""
    assert (bad_hint(Ended(2, b"", f"  {line}\n"), cardsign) == "") is runs
    assert os.listdir() == []


@pytest.mark.parametrize("code", list_codes())
def test_what_a_code_advises_is_understood(code: str, cardsign: Cardsign) -> None:
    """By the parser, as what it needs is not here."""
    text = describe_code(code)
    faults = [parsing_fault(words) for words in hints(f"{text.why}\n{text.fix}")]
    assert not any(faults), faults
