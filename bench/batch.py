"""A folder of cards, verified by one process and by two, beside a loop over the official SDK."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from documents import portable_card
from measuring import Times, Turn, in_turns
from startup import timed

from cardsign import JwkSet, PrivateKey, sign_card

ONE: Final = "`cardsign verify DIR`, one process"
TWO: Final = "`cardsign verify DIR -j 2`"
SDK_LOOP: Final = "a script over a2a-sdk, one process"
_DISTINCT: Final = 100  # cards; the rest are copies, for no verdict of one file serves another

_SCRIPT: Final = """
import json, logging, pathlib, sys
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK
logging.disable(logging.CRITICAL)
keys = {key["kid"]: PyJWK.from_dict(key) for key in json.load(open(sys.argv[2]))["keys"]}
verify = create_signature_verifier(lambda kid, _jku: keys[kid], ["ES256"])
for card in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    verify(parse_agent_card(json.loads(card.read_bytes())))
"""


def batch(count: int, folder: Path, rounds: int) -> Times:
    """Seconds on the wall from the start of the command to its end; every card is trusted."""
    key = PrivateKey.generate("ES256")
    cards, jwks = folder / "cards", folder / "jwks.json"
    cards.mkdir()
    jwks.write_bytes(JwkSet.of([key.public]).to_bytes())
    signed = [
        sign_card(portable_card(f"https://a{at}.example"), [key])
        for at in range(min(count, _DISTINCT))
    ]
    for at in range(count):
        (cards / f"{at}.json").write_bytes(signed[at % len(signed)])
    verify = [sys.executable, "-m", "cardsign", "verify", str(cards), "--jwks", str(jwks)]
    commands = {ONE: verify, TWO: [*verify, "-j", "2"]}
    if judge := os.environ.get("CARDSIGN_JUDGE_PY"):
        commands[SDK_LOOP] = [judge, "-c", _SCRIPT, str(cards), str(jwks)]

    def turn(command: list[str]) -> Turn:
        return lambda: timed(command, "")[0]

    return in_turns({name: turn(command) for name, command in commands.items()}, rounds)
