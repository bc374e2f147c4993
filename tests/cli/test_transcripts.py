"""Stories of the command line, each a file in ``transcripts``.

A file begins with what its story shows. Then come, in any order:

* ``-- NAME --`` and the content of an input file;
* ``$ cardsign WORDS``, with ``< FILE`` for standard input, ``<< ANSWER`` for what a person types
  at a terminal, ``> FILE`` for standard output, or ``NAME=VALUE`` in front for the environment;
  the lines below are what it prints, stdout before stderr. ``...`` stands for any text in a line,
  and alone in a line for any lines. ``[exit N]`` ends the output of a command that does not exit
  with 0. After 2, after ``[exit 1, nothing changed]`` and after ``--dry-run``, every file of the
  folder has to be as it was, but not after ``[exit 2, something changed]``;
* ``? QUESTION: ANSWER``, first in what a command prints, for each secret that it asks a person for
  at a terminal, and what is typed;
* ``$ COMMAND``, any other command, for the shell; ``$ cd FOLDER`` holds for all that follow;
* ``@ TIME``, which sets the clock of all that follow: ``2026-12-01T00:00:00Z``, or ``+40d``,
  ``+6h``, ``+30m`` later than before. ``@ 30 times, +1d`` runs the next command so often, each
  time that much later, until it does not exit with 0;
* ``@ ORIGIN serves FOLDER``, which lets the URLs of an origin answer with the files of a folder, as
  they are when they are asked for; ``@ URL serves FILE`` for a single URL;
  ``@ URL fails with CODE``. No other URL answers.

A name such as ``{KID}`` in what is printed takes the word, without spaces, quotes and commas, that
stands there; from then on it stands for that word, in commands, files and outputs.

The folder of a story holds ``tides.json``, a card on whose bytes all profiles agree, and
``lax.json``, one with defaults and members of its own. For the shell ``$TESTS`` is where the tests
are.

Each command that cardsign's answer advises is run as printed, once in a story, in the folder as it
is then, and has to be understood; what it changes is put back. One with a placeholder in capitals
has to be understood by the parser.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from cardsign.errors import EXIT_LOCAL_FAULT, CardsignError
from cardsign.findings import describe_code, list_codes
from tests.cli.conftest import Cardsign, Ended, World, parse
from tests.support import LAX, PORTABLE, each_case, read_cases

FOLDER = Path(__file__).with_name("transcripts")
STORIES = sorted(path.stem for path in FOLDER.glob("*.txt"))
FILE = re.compile(r"-- (\S+) --")
NOTHING = {"2": "nothing"}
EXIT = re.compile(r"\[exit (\d)(?:, (nothing|something) changed)?\]")


@dataclass
class Step:
    """A file to write, a command and what it prints, or a change of the world around it."""

    name: str = ""
    command: str = ""
    change: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The lines, without the exit status and the blank ones at their end."""
        joined = "\n".join(line for line in self.lines if not EXIT.fullmatch(line)).rstrip("\n")
        return f"{joined}\n" if joined else ""

    @property
    def secrets(self) -> list[str]:
        """What a person types, in this order."""
        return [line.rpartition(": ")[2] for line in self.lines if line.startswith("? ")]

    @property
    def end(self) -> tuple[int, bool]:
        """The exit status, and whether the folder has to be as it was; 0 where none is said."""
        for line in self.lines:
            if match := EXIT.fullmatch(line):
                return int(match[1]), (match[2] or NOTHING.get(match[1])) == "nothing"
        return 0, False

    def fits(self, printed: str, status: int, names: dict[str, str]) -> bool:
        """Whether the command printed this and ended so; names that are new are added."""
        pattern = "".join(
            r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
            for line in fill_in(self.text, names).splitlines()
        )
        seen = set[str]()

        def take(match: re.Match[str]) -> str:
            group = f"(?P={match[1]})" if match[1] in seen else f"(?P<{match[1]}>[^\\s\"',]+)"
            seen.add(match[1])
            return group

        match = re.fullmatch(re.sub(r"\\\{([A-Z][A-Z0-9_]*)\\\}", take, pattern), printed)
        names.update(match.groupdict() if match else {})
        return status == self.end[0] and match is not None


def fill_in(text: str, names: dict[str, str]) -> str:
    """A text with the words that names stand for."""
    return re.sub(r"\{([A-Z][A-Z0-9_]*)\}", lambda match: names.get(match[1], match[0]), text)


def steps(story: str) -> Iterator[Step]:
    """The steps of a story."""
    step: Step | None = None
    for line in story.splitlines():
        named = FILE.fullmatch(line)
        if not (named or line.startswith(("$ ", "@ "))):
            if step is not None:
                step.lines.append(line)
            continue
        if step is not None:
            yield step
        if named:
            step = Step(name=named[1])
        else:
            step = Step(command=line[2:]) if line[0] == "$" else Step(change=line[2:])
    if step is not None:
        yield step


COMMAND = re.compile(r"((?:[A-Z_]+=\S* )*)cardsign (.*?)(?: < (\S+))?(?: << (\S+))?(?: > (\S+))?")


def carry_out(command: str, secrets: list[str], cardsign: Cardsign) -> Ended:
    """How a command ends; what a person was asked and has typed stands before its output."""
    ours = COMMAND.fullmatch(command)
    if ours is None:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr.decode())
    settings, words, source, answer, target = ours.groups()
    environment = dict(setting.split("=", 1) for setting in settings.split())
    stdin = Path(source).read_bytes() if source else f"{answer or ''}\n".encode()
    asked = list[str]()

    def type_secret(question: str) -> str:
        text = secrets[len(asked)] if len(asked) < len(secrets) else ""
        asked.append(f"? {question}{text}\n")
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("getpass.getpass", type_secret)
        is_asked = answer is not None or bool(secrets)
        ended = cardsign(*shlex.split(words), stdin=stdin, at_terminal=is_asked, **environment)
    if asked:
        return Ended(ended.status, "".join(asked).encode() + ended.out, ended.err)
    if target:
        Path(target).write_bytes(ended.out)
        return Ended(ended.status, b"", ended.err)
    return ended


#: A command that a text advises, to the end of its sentence or of the list's item.
HINT = re.compile(r"(?<![\w/.'])(`?)cardsign (?=[a-z-])((?:[^;&,.)`]|[,.](?=\S))+)")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\.\.\.")
#: A person at a terminal is asked.
UNANSWERED = ("usage.unanswered", "passphrase.none", "keystore.same_custody")
ENDLESS = ("serve", "mcp", "--watch")
TIMES = re.compile(r"(\d+) times, (\+\d+[dhm])")


def hints(text: str) -> Iterator[tuple[int, list[str]]]:
    """The commands that a text advises, by line; of one that is only mentioned, its help."""
    for number, line in enumerate(text.splitlines() if not text.startswith("Usage: ") else ()):
        for quote, words in HINT.findall(line.removeprefix("cardsign: ")):
            is_mentioned = quote and re.fullmatch(r"[a-z -]+", words)
            typed = shlex.split(words.partition(" > ")[0])
            yield number, [*typed, *["--help"] * bool(is_mentioned)]


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


def bad_hint(ended: Ended, cardsign: Cardsign, tried: set[str]) -> str:
    """The first advised command that does not run, and why; empty where all do.

    They run one after the other, as a person would, and all folders are put back. Advice that has
    been tried in this story is not tried again.
    """
    here, story = Path.cwd(), Path(os.environ["HOME"]).parent
    is_json = ended.out.startswith((b"{", b"["))
    advised = list(hints(ended.err if is_json else ended.text + ended.err))
    if str(advised) in tried or not advised:
        return ""
    tried.add(str(advised))
    with tempfile.TemporaryDirectory(dir=story.parent) as kept:
        subprocess.run(["cp", "-a", story, f"{kept}/copy"], check=True)
        try:
            is_waiting = dict[int, bool]()  # for what a command before it would have made
            for line, words in advised:
                is_waiting[line] = is_waiting.get(line, False) or not is_runnable(words)
                if not is_waiting[line]:
                    answer = cardsign(*words)
                    is_asked = any(code in answer.err for code in UNANSWERED)
                    is_bad = answer.status == EXIT_LOCAL_FAULT and not is_asked
                    fault = answer.err if is_bad else ""
                else:
                    fault = parsing_fault(words)
                if fault:
                    return f"cardsign {shlex.join(words)}\n{fault}"
        finally:
            os.chdir(story)
            for path in story.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            for path in Path(kept, "copy").iterdir():
                path.rename(story / path.name)
            os.chdir(here)
    return ""


def list_files() -> dict[str, tuple[int, bytes]]:
    """The mode and content of all files of the story, but for locks and which stores were seen."""
    files, home = dict[str, tuple[int, bytes]](), Path(os.environ["HOME"])
    for path in home.parent.rglob("*"):
        mode, content = path.lstat().st_mode, b""
        is_of_home = stat.S_ISDIR(mode) and path.is_relative_to(home)
        if is_of_home or path.name in {"lock", ".lock"} or "keystores" in path.parts:
            continue
        if stat.S_ISLNK(mode):
            content = os.readlink(path).encode()
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        files[str(path)] = (mode, content)
    return files


def play(story: str, cardsign: Cardsign, world: World) -> str:
    """Carry a story out; the first difference, or an empty text."""
    names, count, later, tried = dict[str, str](), 1, "", set[str]()
    for step in steps(story):
        if step.name:
            Path(step.name).parent.mkdir(parents=True, exist_ok=True)
            Path(step.name).write_text(fill_in(step.text, names))
            continue
        if repeated := TIMES.fullmatch(step.change):
            count, later = int(repeated[1]), repeated[2]
            continue
        if step.change:
            world.change(fill_in(step.change, names))
            continue
        command = fill_in(step.command, names)
        if command.startswith("cd "):
            os.chdir(command[3:])
            continue
        status, is_unchanged = step.end
        is_unchanged |= " --dry-run" in command
        files = list_files() if is_unchanged else {}
        secrets = [fill_in(secret, names) for secret in step.secrets]
        printed = ""
        for _ in range(count):
            world.change(later)
            ended = carry_out(command, secrets, cardsign)
            printed += ended.text + ended.err
            if ended.status:
                break
        count, later = 1, ""
        if not step.fits(printed, ended.status, names):
            expected = f"expected, exit {status}:\n{fill_in(step.text, names)}"
            return f"$ {command}\n{expected}\nprinted, exit {ended.status}:\n{printed}"
        target = Path(command.rpartition(" > ")[2]).absolute()  # this one the shell writes
        changes = dict(files.items() ^ list_files().items()) if is_unchanged else {}
        if changes.keys() - {str(target)}:
            return f"$ {command}\nwrote into the folder: {', '.join(changes)}"
        if COMMAND.fullmatch(command) and (fault := bad_hint(ended, cardsign, tried)):
            return f"$ {command}\nadvises what does not run: {fault}"
    return ""


@pytest.fixture
def _cards(cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS", str(FOLDER.parents[1]))
    Path("tides.json").write_text(json.dumps(PORTABLE, indent=2) + "\n")
    Path("lax.json").write_text(json.dumps(LAX, indent=2) + "\n")


@pytest.mark.usefixtures("_cards", "cheap")
@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_as_it_is_told(name: str, cardsign: Cardsign, world: World) -> None:
    """Every command, every line, every exit status, and every command that is advised."""
    difference = play((FOLDER / f"{name}.txt").read_text(), cardsign, world)
    assert not difference, difference


CASES = read_cases(__file__)


@pytest.mark.parametrize("story", CASES["wrong"].values(), ids=CASES["wrong"])
def test_a_story_that_is_not_true_is_seen(story: str, cardsign: Cardsign, world: World) -> None:
    """The runner can fail."""
    assert play(f"-- a --\none\n{story}", cardsign, world)
    true = "-- a --\none\n$ cat a\none\n$ cat a\n...\n$ cat a\no...\n$ cat a\n{WORD}\n"
    true += "@ 2 times, +1d\n$ cat a\none\none\n@ 2 times, +1h\n$ exit 1\n[exit 1]\n"
    true += "$ mkdir new\n$ cd new\n$ cat ../a\none\n$ cd ..\n"
    assert not play(f"{true}-- b --\n{{WORD}}\n$ echo {{WORD}}; cat b\none\none", cardsign, world)


@pytest.mark.usefixtures("cheap")
@each_case(__file__, "advice", "line", "runs")
def test_an_advised_command_that_does_not_run_is_seen(
    line: str, runs: bool, cardsign: Cardsign
) -> None:
    """And running it leaves the folder as it was."""
    assert (bad_hint(Ended(2, b"", f"  {line}\n"), cardsign, set()) == "") is runs
    assert os.listdir() == []


@pytest.mark.parametrize("code", list_codes())
def test_what_a_code_advises_is_understood(code: str, cardsign: Cardsign) -> None:
    """By the parser, as what it needs is not here."""
    text = describe_code(code)
    faults = [parsing_fault(words) for _, words in hints(f"{text.why}\n{text.fix}")]
    assert not any(faults), faults
