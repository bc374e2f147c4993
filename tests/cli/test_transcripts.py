"""Stories of the command line, each a file in ``transcripts``.

A file begins with what its story shows. Then come, in any order:

* ``-- NAME --`` and the content of an input file;
* ``$ cardsign WORDS``, with ``< FILE`` for standard input, or ``$ cat FILE``; the lines below are
  what it prints, stdout before stderr. ``...`` stands for any text in a line, and alone in a line
  for any lines. ``[exit N]`` ends the output of a command that does not exit with 0.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign

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


def carry_out(command: str, cardsign: Cardsign) -> tuple[str, int]:
    """What a command prints, and its exit status."""
    line, _, source = command.partition(" < ")
    program, *words = shlex.split(line)
    if program == "cat":
        return Path(words[0]).read_text(), 0
    assert program == "cardsign"
    stdin = Path(source).read_bytes() if source else b""
    ended = cardsign(*words, stdin=stdin)
    return ended.text + ended.err, ended.status


def play(story: str, cardsign: Cardsign) -> str:
    """Carry a story out; the first difference, or an empty text."""
    for step in steps(story):
        if step.name:
            Path(step.name).write_text(step.text)
            continue
        printed, status = carry_out(step.command, cardsign)
        if not step.fits(printed, status):
            told = f"expected, exit {step.status}:\n{step.text}"
            return f"$ {step.command}\n{told}\nprinted, exit {status}:\n{printed}"
    return ""


@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_as_it_is_told(name: str, cardsign: Cardsign, cheap: None) -> None:
    """Every command, every line, every exit status."""
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
