"""What commands cost on hostile cards: real processes, as the kernel counts them."""

from __future__ import annotations

import json
import os
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
from tests.cli.local_site import Site
from tests.hostile import KEY, card

MIB: Final = 1024 * 1024
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
#: Shapes that some command once could not bear.
ONCE_TOO_MUCH: Final = (
    "a long name over nulls",
    "a wide card",
    "empty skills",
    "texts like tokens",
    "patterns that compile for long",
    "a schema of many fields",
    "alternatives that fail on a long value",
)
TASK: Final[dict[str, Any]] = {
    "skill_id": "iam.check_tides",
    "source_agent": "lead",
    "target_agent": "Tide tables",
    "input": {"x": "a" * 64 + "!"},
    "metadata": {"trace_id": "t-1"},
}
#: By command: its forms.
TEXT_AND_JSON: Final = ((), ("--json",))
COMMANDS: Final[Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]]] = {
    "inspect": (
        ("inspect", "card.json", "--jwks", "jwks.json"),
        (*TEXT_AND_JSON, ("--format", "sarif"), ("--html", "-")),
    ),
    "lint": (("lint", "card.json"), (*TEXT_AND_JSON, ("--format", "sarif"))),
    "lint --group contract": (("lint", "card.json", "--group", "contract"), (("--json",),)),
    "lint --fix": (("lint", "card.json", "--fix", "-o", "fixed.json"), TEXT_AND_JSON),
    "verify": (("verify", "card.json", "--jwks", "jwks.json"), TEXT_AND_JSON),
    "verify, signed": (("verify", "signed.json", "--jwks", "jwks.json"), TEXT_AND_JSON),
    "diff": (("diff", "honest.json", "card.json"), TEXT_AND_JSON),
    "diff, from it": (("diff", "card.json", "honest.json"), TEXT_AND_JSON),
    "diff, of two": (("diff", "card.json", "other.json"), TEXT_AND_JSON),
    "diff --live": (("diff", "honest.json", "card.json", "--live"), TEXT_AND_JSON),
    "diff --tools": (("diff", "card.json", "--tools", "tools.json"), TEXT_AND_JSON),
    "canonicalize": (("canonicalize", "card.json", "--profile", "prune-empty"), ((),)),
    "build": (("build", "card:source.json", "-o", "built.json", "--explain"), TEXT_AND_JSON),
    "build, mcp": (
        ("build", "mcp:tools.json", "--url", "https://a.example/", "-o", "built.json", "--explain"),
        TEXT_AND_JSON,
    ),
    "sign": (
        (
            *("sign", "card.json", "--key", "file:key.pem", "--known-keys", "jwks.json"),
            *("--force", "--explain", "--compat", "all", "-o", "out.json"),
        ),
        TEXT_AND_JSON,
    ),
    "contract check": (
        ("contract", "check", "task.json", "--card", "signed.json", "--jwks", "jwks.json"),
        TEXT_AND_JSON,
    ),
    "fetch": (
        (
            *("fetch", "--insecure-loopback-http", "--jwks", "jwks.json"),
            *("-o", "fetched.json", "{origin}/card.json"),
        ),
        TEXT_AND_JSON,
    ),
    "inspect URL": (
        ("inspect", "--insecure-loopback-http", "{origin}/card.json"),
        (("--format", "text"), ("--format", "json"), ("--format", "sarif")),
    ),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command did.

    Attributes:
        words: The command.
        status: How it ended; negative for a signal.
        cpu: Seconds of CPU.
        peak: Bytes of memory at most, Python and all libraries included.
        output: Bytes on stdout and stderr.
        last: The end of the output.
    """

    words: tuple[str, ...]
    status: int
    cpu: float
    peak: int
    output: int
    last: str


def write_inputs(folder: Path, shape: str, size: int = MAX_CARD_BYTES) -> None:
    """Write a card of a shape and what the commands hold it against."""
    from cryptography.hazmat.primitives import serialization

    private = serialization.load_der_private_key(KEY.to_pkcs8_der(), None)
    (folder / "key.pem").write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "key.pem").chmod(0o600)
    (folder / "jwks.json").write_bytes(JwkSet.of([KEY.public]).to_bytes())
    (folder / "card.json").write_bytes(card(shape, size))
    (folder / "other.json").write_bytes(
        card(shape, size).replace(b"null", b"0").replace(b":0", b":1")
    )
    (folder / "honest.json").write_bytes(card("a long text", 8192))
    unsigned = json.loads(card(shape, size - 16 * 1024))
    del unsigned["signatures"]
    data = json.dumps(unsigned, separators=(",", ":")).encode()
    try:
        signed = sign_with_notes(data, [KEY], SigningOptions(force=True)).document
    except CardsignError:
        signed = data
    (folder / "signed.json").write_bytes(signed)
    (folder / "task.json").write_text(json.dumps(TASK))
    source = json.loads(card(shape, size * 5 // 8))
    del source["signatures"]
    (folder / "source.json").write_text(json.dumps(source, separators=(",", ":")))
    skills = source.get("skills") or [{}]
    schema = skills[0].get("input_schema", source) if isinstance(skills[0], dict) else source
    tools = [{"name": "iam.check_tides", "description": "d", "inputSchema": schema}]
    manifest = {"name": "t", "description": "d", "tools": tools}
    (folder / "tools.json").write_text(json.dumps(manifest, separators=(",", ":")))


def run_shape(
    shape: str,
    folder: Path,
    site: Site,
    commands: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = COMMANDS,
) -> Iterator[Cost]:
    """Run commands in all their forms on a card of a shape."""
    write_inputs(folder, shape)
    card_and_keys = {"/card.json": "card.json", "/.well-known/jwks.json": "jwks.json"}
    site.answers = {path: (folder / name).read_bytes() for path, name in card_and_keys.items()}
    yield from run_commands(
        [
            [word.replace("{origin}", site.origin) for word in (*words, *form)]
            for words, forms in commands.values()
            for form in forms
        ],
        folder,
    )


def run_commands(
    commands: Sequence[Sequence[str]], folder: Path, *, most: int = 1536 * MIB
) -> Iterator[Cost]:
    """Run commands of cardsign, one after the other, in a folder that is their home too."""
    import resource

    environment = {n: v for n, v in os.environ.items() if not n.startswith("CARDSIGN_")}
    environment |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    limits = [(resource.RLIMIT_CPU, MAX_CPU), (resource.RLIMIT_AS, most)]
    started = [[sys.executable, "-m", "cardsign", *words] for words in commands]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER],
        input=json.dumps({"limits": limits, "commands": started}).encode(),
        capture_output=True, cwd=folder, env=environment, check=True,
    )  # fmt: skip
    for words, line in zip(commands, done.stdout.splitlines(), strict=True):
        status, cpu, kib, output, last = json.loads(line)
        yield Cost(tuple(words), status, cpu, kib * 1024, output, last)
