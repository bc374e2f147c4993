"""What a terminal is shown: headings only there, completion in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign, run

PROGRAM = [sys.executable, "-m", "cardsign"]


def at_terminal(words: str) -> str:
    """What a command shows at a terminal, where its stdout is one."""
    ours, its = pty.openpty()
    surroundings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    command = [*PROGRAM, *words.split()]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, env=surroundings) as ended:
        os.close(its)
        assert ended.wait() == 0
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    return shown


def test_a_table_has_headings_at_a_terminal_alone(cardsign: Cardsign) -> None:
    """A line that is piped is what it was before there were tables."""
    run(cardsign("keys", "generate"))
    kid = cardsign("keys", "list", "--json").json[0]["kid"]
    piped = cardsign("keys", "list", at_terminal=True).text  # of which stderr alone is one
    assert piped.startswith(f"{kid}  ES256  active        ")
    heading, row = re.sub(r"\x1b\[[0-9;]*m", "", at_terminal("keys list")).splitlines()
    assert heading.split() == ["kid", "algorithm", "state", "made", "roles"]
    assert row.split()[:3] == [kid, "ES256", "active"]


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"])
@pytest.mark.usefixtures("signed")
def test_what_is_piped_is_plain(variable: str) -> None:
    """No escape, whatever asks for colours: a program reads it."""
    surroundings = {**os.environ, variable: "1", "TERM": "xterm-256color"}
    words = ["verify", "signed.json", "signed.json", "--jwks", "jwks.json"]
    ended = subprocess.run([*PROGRAM, *words], capture_output=True, check=True, env=surroundings)
    assert b"\x1b" not in ended.stdout + ended.stderr
    assert ended.stderr == b"cardsign: 2 cards: 2 trusted\n"


# Completion, typed into the shell itself.

BEGIN = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./code"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source ./code"),
    "fish": (["fish", "--no-config", "-i"], "source ./code"),
}


@pytest.mark.needs_shells
@pytest.mark.parametrize("shell", BEGIN)
def test_a_shell_completes_what_is_typed(shell: str, cardsign: Cardsign, tmp_path: Path) -> None:
    """``cardsign canonic`` and the tabulator become ``cardsign canonicalize``."""
    Path("code").write_text(cardsign("completion", shell).text)
    command, source = BEGIN[shell]
    programs = Path("bin")
    programs.mkdir()
    program = programs / "cardsign"
    program.write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "TERM": "xterm", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    environ["PATH"] = f"{programs.resolve()}:{os.environ['PATH']}"
    child, terminal = pty.fork()
    if not child:
        os.execvpe(command[0], command, environ)
    try:
        os.write(terminal, f"{source}; echo rea''dy\n".encode())
        seen(terminal, b"ready")
        os.write(terminal, b"cardsign canonic\t")
        seen(terminal, b"alize")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def seen(terminal: int, words: bytes) -> None:
    """Read what a shell shows until words are there."""
    shown = b""
    end = time.monotonic() + 120
    while words not in shown:
        left = end - time.monotonic()
        assert left > 0, shown
        if select.select([terminal], [], [], left)[0]:
            shown += os.read(terminal, 65536)
            if b"\x1b[c" in shown or b"\x1b[0c" in shown:  # fish asks what the terminal is
                os.write(terminal, b"\x1b[?62c")
                shown = shown.replace(b"\x1b[c", b"").replace(b"\x1b[0c", b"")
