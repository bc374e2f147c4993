"""What demo.py and rotation.py share: commands as a user types them, what they print, a server."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import click

from cardsign.cli.main import run_words

#: The lines of a verdict that matter where it is about time.
VERDICT = ("trusted:", "untrusted:", "current", "keyset")
#: Stands for lines that are not shown.
CUT = "[...]"


def tell(sentence: str) -> None:
    """A step of the story."""
    click.secho(f"\n{sentence}", bold=True)


def say(line: str) -> None:
    """A line below a step."""
    click.echo(f"  {line}")


def expect(condition: bool, what: str) -> None:
    """Stop the demo where the story does not hold."""
    if not condition:
        raise SystemExit(f"demo: this should have held: {what}")


class _Stream(io.BytesIO):
    """One of the two streams of a command; what it gets goes to a common one too, in order."""

    def __init__(self, both: io.BytesIO) -> None:
        super().__init__()
        self.both = both

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self.both.write(data)
        return super().write(data)


def cardsign(
    *arguments: str,
    status: int = 0,
    only: tuple[str, ...] | None = None,
    said: str = "",
    quiet: bool = False,
) -> str:
    """Run the command, show it and what it prints, and insist on its exit status.

    It runs in this process, which spares the start of Python for each command.

    Args:
        arguments: What is typed after ``cardsign``.
        status: The exit status that the story wants.
        only: Show only the lines that begin with one of these, and a mark for the rest; None: all.
        said: What must stand somewhere in the answer.
        quiet: Show not even the command.

    Returns:
        What it printed on stdout.
    """
    both = io.BytesIO()
    out, err = _Stream(both), _Stream(both)
    stdin, sys.stdin = sys.stdin, io.StringIO()
    try:
        with (
            redirect_stdout(io.TextIOWrapper(out, encoding="utf-8", write_through=True)),
            redirect_stderr(io.TextIOWrapper(err, encoding="utf-8", write_through=True)),
        ):
            ended = run_words(list(arguments))
            sys.stdout.flush()
            sys.stderr.flush()
            answer, printed = both.getvalue().decode(), out.getvalue().decode()
    finally:
        sys.stdin = stdin
    as_told = ended == status and said in answer
    if not quiet:
        show_command(*arguments)
        for line in shown(answer.splitlines(), only if as_told else None):
            say(line)
    expect(as_told, f"exit status {status}, not {ended}, and the answer says {said!r}: {answer}")
    return printed


def shown(lines: list[str], only: tuple[str, ...] | None) -> Iterator[str]:
    """The lines that begin with one of the words; one mark in place of those between."""
    cut = False
    for line in lines:
        if only is None or line.strip().startswith(only):
            yield line
            cut = False
        elif not cut:
            yield CUT
            cut = True


def show_command(*arguments: str) -> None:
    """Show a command, its paths shortened."""
    words = [Path(word).name if word.startswith("/") else word for word in arguments]
    click.secho(f"$ cardsign {' '.join(words)}", fg="cyan", bold=True)


@contextmanager
def serving(*arguments: str, port: int = 0) -> Iterator[str]:
    """``cardsign serve`` on a port of 127.0.0.1, ended whatever happens; gives its address."""
    show_command("serve", *arguments)
    command = [sys.executable, "-m", "cardsign", "serve", "--bind", f"127.0.0.1:{port}"]
    server = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = ""
        for line in server.stderr:
            say(line.rstrip())
            if "http://" in line and "serving" in line:
                address = line[line.index("http://") :].strip()
                break
        expect(bool(address), "the server started")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=10)
