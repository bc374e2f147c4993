"""What commands cost on hostile cards: real processes, as the kernel counts them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import CardsignError
from cardsign.jose.keys import JwkSet
from cardsign.sign import SigningOptions, sign_with_notes
from tests.hostile import KEY, card
from tests.server.identity import Counterpart
from tests.support import private_pem, read_cases

MIB: Final = 1024 * 1024
MAX_ADDRESSES: Final = 1536 * MIB
MAX_CPU: Final = 20  # seconds after which the kernel ends a command, on however slow a machine

#: The kernel counts what a process was before `exec`, so commands are started by a small one.
_LAUNCHER: Final = """
import json, os, resource, subprocess, sys, tempfile
asked = json.load(sys.stdin)
for limit, value in asked["limits"]:
    resource.setrlimit(limit, (value, value))
for arguments in asked["commands"]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        length = output.seek(0, 2)
        output.seek(max(0, length - 300))
        last = output.read().decode(errors="replace")
    cpu = usage.ru_utime + usage.ru_stime
    ended = os.waitstatus_to_exitcode(status)
    print(json.dumps([ended, cpu, usage.ru_maxrss, length, last]), flush=True)
"""
_TABLES: Final = read_cases(__file__)
#: By name: a command, and the options of its forms.
COMMANDS: Final[dict[str, list[str]]] = _TABLES["commands"]
#: Shapes that some command once could not bear.
ONCE_TOO_MUCH: Final[list[str]] = _TABLES["once_too_much"]["shapes"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command did.

    Attributes:
        command: What was typed.
        status: How it ended; negative for a signal.
        cpu: Seconds of CPU.
        peak: Bytes of memory at most, Python and all libraries included.
        output: Bytes on stdout and stderr.
        last: The end of the output.
    """

    command: str
    status: int
    cpu: float
    peak: int
    output: int
    last: str


def write_inputs(folder: Path, shape: str) -> None:
    """Write a card of a shape and what the commands hold it against."""
    (folder / "key.pem").touch(0o600)
    (folder / "key.pem").write_bytes(private_pem(KEY))
    (folder / "jwks.json").write_bytes(JwkSet.of([KEY.public]).to_bytes())
    largest = card(shape, MAX_CARD_BYTES)
    (folder / "card.json").write_bytes(largest)
    (folder / "other.json").write_bytes(largest.replace(b"null", b"0").replace(b":0", b":1"))
    (folder / "honest.json").write_bytes(card("a long text", 8192))
    unsigned = json.loads(card(shape, MAX_CARD_BYTES - 16 * 1024))
    source = json.loads(card(shape, MAX_CARD_BYTES * 5 // 8))
    del unsigned["signatures"], source["signatures"]
    signed = _compact(unsigned)
    with contextlib.suppress(CardsignError):
        signed = sign_with_notes(signed, [KEY], SigningOptions(force=True)).document
    (folder / "signed.json").write_bytes(signed)
    (folder / "task.json").write_bytes(_compact(_TABLES["task"]))
    (folder / "source.json").write_bytes(_compact(source))
    skills = source.get("skills") or [{}]
    schema = skills[0].get("input_schema", source) if isinstance(skills[0], dict) else source
    tools = [{"name": "iam.check_tides", "description": "d", "inputSchema": schema}]
    (folder / "tools.json").write_bytes(_compact({"name": "t", "description": "d", "tools": tools}))


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def run_shape(
    shape: str, folder: Path, site: Counterpart, commands: Mapping[str, Sequence[str]] = COMMANDS
) -> Iterator[Cost]:
    """Run commands of cardsign in all their forms on a card of a shape, in a folder of its own."""
    write_inputs(folder, shape)
    card_and_keys = {"/card.json": "card.json", "/.well-known/jwks.json": "jwks.json"}
    site.answers = {path: (folder / name).read_bytes() for path, name in card_and_keys.items()}
    lines = [
        f"{command} {form}".replace("{origin}", site.url)
        for command, *forms in commands.values()
        for form in forms
    ]
    environment = {n: v for n, v in os.environ.items() if not n.startswith("CARDSIGN_")}
    environment |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    limits = [(resource.RLIMIT_CPU, MAX_CPU), (resource.RLIMIT_AS, MAX_ADDRESSES)]
    started = [[sys.executable, "-m", "cardsign", *line.split()] for line in lines]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER],
        input=_compact({"limits": limits, "commands": started}),
        capture_output=True, cwd=folder, env=environment, check=True,
    )  # fmt: skip
    for line, answer in zip(lines, done.stdout.splitlines(), strict=True):
        status, cpu, kib, output, last = json.loads(answer)
        yield Cost(line, status, cpu, kib * 1024, output, last)
