"""The page about ``cardsign inspect``: what it shows is what is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey
from tests.cli.conftest import Cardsign
from tests.support import dump

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "inspect.md"
BLOCK = re.compile(r"^```(json|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_is_printed(cardsign: Cardsign) -> None:
    """Line by line."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    ((_, card),) = [block for block in blocks if block[0] == "json"]
    key = PrivateKey.generate("ES256", kid="harbour-2026")
    Path("jwks.json").write_bytes(JwkSet.of([key.public]).to_bytes())
    received = json.loads(card)
    entry = sign_payload(json.dumps(received).encode(), key, typ="JOSE")
    Path("card.json").write_bytes(dump({**received, "signatures": [entry]}))
    ((_, run),) = [block for block in blocks if block[0] == "console"]
    command, _, shown = run.partition("\n")
    ended = cardsign(*command.removeprefix("$ cardsign ").split())
    assert (ended.status, ended.text) == (1, shown)
