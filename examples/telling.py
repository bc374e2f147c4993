"""What the demo is told with: commands as a user types them, what they print, a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

console = Console(highlight=False, soft_wrap=True)

#: What of a verdict is worth a second look where it is about time, and where about a changed card.
VERDICT = ("trusted:", "untrusted:", "current", "statements", "key.revoked")
REFUSAL = ("untrusted:", "invalid:", "integrity", "authorised", "sig.bad", "extended.")


def tell(sentence: str) -> None:
    """A step of the story."""
    console.print(f"\n[bold]{escape(sentence)}[/]")


def say(line: str) -> None:
    """A line below a step."""
    console.print(f"  {escape(line)}")


def expect(condition: bool, what: str) -> None:
    """Stop the demo where the story does not hold."""
    if not condition:
        raise SystemExit(f"demo: this should have held: {what}")


def cardsign(
    *arguments: str,
    status: int = 0,
    only: tuple[str, ...] | None = None,
    said: str = "",
    quiet: bool = False,
) -> str:
    """Run the command as a user would, show it, and insist on its exit status.

    Args:
        arguments: What is typed after ``cardsign``.
        status: The exit status that the story wants.
        only: Show only the lines of the answer that begin with one of these; None: all.
        said: What must stand somewhere in the answer.
        quiet: Show not even the command.

    Returns:
        What it printed on stdout.
    """
    result = subprocess.run(
        [sys.executable, "-m", "cardsign", *arguments], capture_output=True, text=True, check=False
    )
    answer = result.stderr + result.stdout
    as_told = result.returncode == status and said in answer
    if not quiet:
        show_command(*arguments)
        for line in answer.splitlines():
            if only is None or not as_told or line.strip().startswith(only):
                say(line)
    expect(as_told, f"exit status {status}, not {result.returncode}, and the answer says {said!r}")
    return result.stdout


def show_command(*arguments: str) -> None:
    """Show a command, its paths shortened."""
    words = [Path(word).name if word.startswith("/") else word for word in arguments]
    console.print(f"[bold cyan]$ cardsign {escape(' '.join(words))}[/]")


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
            if "http://" in line:
                address = line[line.index("http://") :].strip()
                break
        expect(bool(address), "the server started")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=10)
