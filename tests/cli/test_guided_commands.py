"""Two blocks of guides that need keys of ours: what `inspect` prints, and Python with a peer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.urls import CARD_PATH, KEYSET_PATH, RELEASE_PATH
from cardsign.verify.report import NotTrusted
from tests.cli.conftest import Cardsign, World, run
from tests.statements import current
from tests.statements.making import key
from tests.support import PORTABLE, dump, signed

GUIDES = Path(__file__).resolve().parents[2] / "docs/guides"
HOME = "https://tides.example"


def blocks(guide: str, language: str) -> list[str]:
    """The code of a guide in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (GUIDES / guide).read_text("utf-8"), re.DOTALL)


def test_the_page_about_inspect_shows_what_is_printed(cardsign: Cardsign) -> None:
    """Line by line."""
    (card,), (console,) = blocks("inspect.md", "json"), blocks("inspect.md", "console")
    signer = PrivateKey.generate("ES256", kid="harbour-2026")
    Path("jwks.json").write_bytes(JwkSet.of([signer.public]).to_bytes())
    entry = sign_payload(json.dumps(json.loads(card)).encode(), signer, typ="JOSE")
    Path("card.json").write_bytes(dump({**json.loads(card), "signatures": [entry]}))
    command, _, shown = console.partition("\n")
    ended = cardsign(*command.removeprefix("$ cardsign ").split())
    assert (ended.status, ended.text) == (1, shown)


def test_the_python_about_peers_runs(cardsign: Cardsign, world: World) -> None:
    """As it stands, but for the host: a trusted card is used, another raises."""
    first = current.keyset()
    answers = {
        KEYSET_PATH.format(epoch=1, version=1): first,
        RELEASE_PATH: current.release(first, PORTABLE),
        CARD_PATH: dump(signed(PORTABLE, key("card"))),
    }
    for number, (path, data) in enumerate(answers.items()):
        Path(f"{number}.json").write_bytes(data)
        world.change(f"{HOME}{path} serves {number}.json")
    run(cardsign("trust", "add", HOME, "--yes"))
    (code,) = blocks("verify-a-peer.md", "python")
    code = code.replace("geo.acme.example", "tides.example")
    printed: list[Any] = []
    names = {"print": lambda first, *_: printed.append(first)}
    exec(code, dict(names))
    assert printed == [PORTABLE["name"]]
    Path("2.json").write_bytes(dump(signed(PORTABLE, key("mallory"))))
    with pytest.raises(NotTrusted):
        exec(code, dict(names))
