"""Commands from nothing to their end: starting, one file, a folder; beside scripts over a2a-sdk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from documents import portable_card
from measuring import JUDGE, in_turns, ratio, table, timed_command

from cardsign import JwkSet, PrivateKey, sign_card

PASS: Final = "`python -c pass`"
FOLDER: Final = "`cardsign verify DIR`, one process"
_DISTINCT: Final = 100  # cards of a folder; the rest are copies of them

_SCRIPT: Final = """
import json, logging, pathlib, sys
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK
logging.disable(logging.CRITICAL)
keys = {key["kid"]: PyJWK.from_dict(key) for key in json.load(open(sys.argv[2]))["keys"]}
verify = create_signature_verifier(lambda kid, _jku: keys[kid], ["ES256"])
cards = pathlib.Path(sys.argv[1])
for card in sorted(cards.glob("*.json")) if cards.is_dir() else [cards]:
    verify(parse_agent_card(json.loads(card.read_bytes())))
print("trusted")
"""


def measure_commands(folder: Path, cards: int, rounds: int) -> dict[str, str]:
    """Return the tables `start` and `batch`."""
    key = PrivateKey.generate("ES256")
    jwks = folder / "jwks.json"
    jwks.write_bytes(JwkSet.of([key.public]).to_bytes())
    many = folder / "cards"
    many.mkdir()
    signed = [
        sign_card(portable_card(f"https://a{at}.example"), [key])
        for at in range(min(cards, _DISTINCT))
    ]
    for at in range(cards):
        (many / f"{at}.json").write_bytes(signed[at % len(signed)])
    cardsign = [sys.executable, "-m", "cardsign"]

    def verify(what: Path, *words: str) -> list[str]:
        return [*cardsign, "verify", str(what), "--jwks", str(jwks), *words]

    def script(what: Path) -> list[str]:
        return [str(JUDGE), "-c", _SCRIPT, str(what), str(jwks)]

    one = many / "0.json"
    start = {
        PASS: ([sys.executable, "-c", "pass"], ""),
        "`cardsign --help`": ([*cardsign, "--help"], "Usage: "),
        "`cardsign verify FILE --jwks JWKS`": (verify(one), "trusted: "),
    }
    batch = {
        FOLDER: (verify(many), ""),
        "`cardsign verify DIR -j 2`": (verify(many, "-j", "2"), ""),
    }
    if JUDGE:
        start["the same verification, a script over a2a-sdk"] = (script(one), "trusted")
        batch["a script over a2a-sdk, one process"] = (script(many), "trusted")
    for command, expected in start.values():  # the first start of each compiles
        timed_command(command, expected)
    wall, cpu = _measure(start, rounds)
    rows = [[name, ratio(wall, name, PASS), ratio(cpu, name, PASS)] for name in start]
    batch_wall, _ = _measure(batch, max(1, rounds // 7))
    batch_rows = [[name, ratio(batch_wall, name, FOLDER)] for name in batch]
    return {
        "start": table(["command", "on the wall", "CPU"], *rows),
        "batch": table([f"{cards:,} cards", "times one process of cardsign"], *batch_rows),
    }


def _measure(
    commands: dict[str, tuple[Sequence[str], str]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds on the wall and of CPU."""
    cpu: dict[str, list[float]] = {name: [] for name in commands}

    def turn(name: str) -> float:
        wall, seconds = timed_command(*commands[name])
        cpu[name].append(seconds)
        return wall

    return in_turns({name: partial(turn, name) for name in commands}, rounds), cpu
