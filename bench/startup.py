"""How long a command takes from nothing to its answer: processes, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from measuring import Broken, Times, Turn, in_turns

from cardsign import JwkSet, PrivateKey, sign_card

PASS: Final = "`python -c pass`"
VERIFY: Final = "`cardsign verify FILE --jwks JWKS`"
HELP: Final = "`cardsign --help`"
SDK_SCRIPT: Final = "the same verification, a script over a2a-sdk"

_SCRIPT: Final = """
import json, sys
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK
card, jwks = (json.load(open(name, "rb")) for name in sys.argv[1:])
keys = {key["kid"]: PyJWK.from_dict(key) for key in jwks["keys"]}
create_signature_verifier(lambda kid, _jku: keys[kid], ["ES256"])(parse_agent_card(card))
print("trusted")
"""


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds until commands had ended: by the clock on the wall, and of CPU."""

    wall: Times
    cpu: Times


def starting(card: bytes, folder: Path, rounds: int) -> StartUp:
    """Start each command in turn; the first start of each, which compiles, does not count."""
    key = PrivateKey.generate("ES256")
    signed, jwks = folder / "card.json", folder / "jwks.json"
    signed.write_bytes(sign_card(card, [key]))
    jwks.write_bytes(JwkSet.of([key.public]).to_bytes())
    files = [str(signed), str(jwks)]
    python = [sys.executable]
    cardsign = [*python, "-m", "cardsign"]
    commands = {
        PASS: ([*python, "-c", "pass"], ""),
        HELP: ([*cardsign, "--help"], "Usage: "),
        VERIFY: ([*cardsign, "verify", files[0], "--jwks", files[1]], "trusted: "),
    }
    if judge := os.environ.get("CARDSIGN_JUDGE_PY"):
        commands[SDK_SCRIPT] = ([judge, "-c", _SCRIPT, *files], "trusted")
    cpu: dict[str, list[float]] = {name: [] for name in commands}

    def turn(name: str) -> Turn:
        command, said = commands[name]

        def start() -> float:
            wall, spent = timed(command, said)
            cpu[name].append(spent)
            return wall

        return start

    for command, said in commands.values():
        timed(command, said)
    return StartUp(in_turns({name: turn(name) for name in commands}, rounds), cpu)


def timed(command: Sequence[str], said: str) -> tuple[float, float]:
    """Run a command to its end: seconds on the wall, and of CPU; it has to say `said` first."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode or not printed.startswith(said):
        raise Broken(f"{json.dumps(command)} ended with {process.returncode}: {printed}")
    return wall, usage.ru_utime + usage.ru_stime
