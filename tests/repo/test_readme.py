"""The README's blocks run, in order and in one folder, and print what it shows.

In a ``console`` block a line that starts with ``$ `` is a command (``> `` goes on with it) and
the other lines are what it prints, stdout and stderr; ``...`` stands for any text of a line, and
alone on its line for any number of lines. Nothing shown means that nothing is compared. A command
that fails ends the run: where failing is the point, the README shows ``|| echo "exit $?"``. The
folder holds a copy of ``examples/``; HOME lies in it too. ``python`` blocks run where they stand.

``sh`` blocks are for the checkout itself: each line is ``make`` with a target that exists, or
``pip install .``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 120  # for all blocks together; a command that waits for input gets end of file
MARK = "=== command {} of the README ==="


@dataclass(slots=True)
class Step:
    """A command, and what it is said to print."""

    command: str
    shown: list[str] = field(default_factory=list)

    def pattern(self) -> str:
        """A regular expression for the whole output."""
        return "".join(
            r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
            for line in self.shown
        )

    def fits(self, printed: str) -> bool:
        """Whether the output is what is shown."""
        return not self.shown or re.fullmatch(self.pattern(), printed) is not None


def blocks(text: str, *languages: str) -> list[tuple[str, str]]:
    """Language and body of each code block in one of the languages."""
    return [(name, body) for name, body in BLOCK.findall(text) if name in languages]


def steps(text: str) -> Iterator[Step]:
    """The commands of all console and python blocks."""
    for language, body in blocks(text, "console", "python"):
        if language == "python":
            yield Step(f"python - <<'PYTHON'\n{body}PYTHON")
        else:
            yield from commands_of(body)


def commands_of(block: str) -> Iterator[Step]:
    """The commands of one console block."""
    step: Step | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step:
                yield step
            step = Step(line[2:])
            continue
        assert step, f"a console block starts with a command, not with {line!r}"
        if line.startswith("> ") or step.command.endswith("\\"):
            step.command += "\n" + line.removeprefix("> ")
        else:
            step.shown.append(line)
    if step:
        yield step


def run(commands: list[str], folder: Path) -> tuple[list[str], int]:
    """What each command printed, as far as they came, and the exit status of the last."""
    script = "trap 'kill $(jobs -p) 2>/dev/null && wait' EXIT\n"  # servers that a block started
    for index, command in enumerate(commands):
        script += f"echo '{MARK.format(index)}'\n{command}\n"
    (folder / "home").mkdir()
    # TMPDIR, locale and proxy settings stay; whatever would lead out of the folder goes.
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("CARDSIGN_", "XDG_", "PY"))}
    environment = outer | {
        "HOME": str(folder / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    printed = folder / "printed"
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


def first_difference(text: str, folder: Path) -> str:
    """What a README says that does not hold; empty if all does."""
    told = list(steps(text))
    assert told, "no console block"
    printed, status = run([step.command for step in told], folder)
    for step, output in zip(told, printed, strict=False):
        if not step.fits(output):
            return f"$ {step.command}\nshown:\n" + "\n".join(step.shown) + f"\nprinted:\n{output}"
    if status:
        return f"$ {told[len(printed) - 1].command}\nended with {status}:\n{printed[-1]}"
    return ""


@pytest.fixture
def folder(tmp_path: Path, root: Path) -> Path:
    """Where the blocks run."""
    shutil.copytree(root / "examples", tmp_path / "examples")
    return tmp_path


def test_the_readme_runs(root: Path, folder: Path) -> None:
    """Whoever types what the README shows sees what it shows."""
    assert first_difference((root / "README.md").read_text(encoding="utf-8"), folder) == ""


def test_the_checkouts_own_commands_exist(root: Path) -> None:
    """`make demo` and `make test` come first, and every target that is named exists."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    lines = [line for _, body in blocks(readme, "sh") for line in body.splitlines() if line]
    commands = [line.partition("#")[0].strip() for line in lines]
    assert commands[:2] == ["make demo", "make test"]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = {f"make {name}" for name in re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)}
    assert set(commands) - targets - {"pip install ."} == set()


GOOD = """
```console
$ echo one; echo two >&2
one
...
$ cd examples && export A=1
$ echo "$A" \\
>   now
1 n...
$ false || echo "exit $?"
exit 1
$ cat
$ printf 'a\\nb\\nc\\n'
a
...
c
```

```python
open("../made-by-python", "w").close()
```

```console
$ ls ../made-by-python
../made-by-python
```
"""
BAD = {
    "other output": "```console\n$ echo one\ntwo\n```",
    "more output": "```console\n$ printf 'one\\ntwo\\n'\none\n```",
    "less output": "```console\n$ echo one\none\ntwo\n```",
    "no output": "```console\n$ true\none\n```",
    "a failure": "```console\n$ false\n$ true\n```",
    "a program that fails": "```console\n$ true\n```\n```python\nraise SystemExit(1)\n```",
    "no such command": "```console\n$ cardsing --version\n```",
}


def test_a_true_block_passes(folder: Path) -> None:
    """One shell, both streams, wildcards, continued lines, failures that are shown."""
    assert first_difference(GOOD, folder) == ""


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_an_untrue_block_is_seen(text: str, folder: Path) -> None:
    """What is shown and does not happen fails."""
    assert first_difference(text, folder) != ""
