"""The Python of the page about peers, with a peer; ``transcripts/peers.txt`` has the commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from cardsign.verify.report import NotTrusted
from tests.cli.conftest import Cardsign, Network
from tests.statements import current
from tests.statements.making import URL, key
from tests.support import PORTABLE, dump, signed

HOME = "https://tides.example"


def test_the_page_s_python_runs(cardsign: Cardsign, network: Network) -> None:
    """As it stands, but for the host: a trusted card is used, another raises."""
    first = current.keyset()
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = first
    network[HOME + RELEASE_PATH] = current.release(first, PORTABLE)
    assert cardsign("trust", "add", HOME, "--yes").status == 0
    page = (Path(__file__).parents[2] / "docs/guides/verify-a-peer.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    printed: list[Any] = []
    names = {"print": lambda first, *_: printed.append(first)}
    exec(code.replace("geo.acme.example", "tides.example"), dict(names))
    assert printed == [PORTABLE["name"]]
    network[URL] = dump(signed(PORTABLE, key("mallory")))
    with pytest.raises(NotTrusted):
        exec(code.replace("geo.acme.example", "tides.example"), dict(names))
