"""`contract check` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.jose.keys import JwkSet, PrivateKey
from tests.cli.conftest import Cardsign
from tests.support import put
from tests.test_contract import CARD, TASK


@pytest.fixture
def keys(cardsign: Cardsign, alice: PrivateKey) -> str:
    """Alice's key set in the working directory, with a signed contract card."""
    Path("contract.json").write_bytes(sign_card(json.dumps(CARD).encode(), alice))
    Path("jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())
    return "jwks.json"


def written(name: str, value: Any) -> str:
    """A JSON file."""
    Path(name).write_text(json.dumps(value))
    return name


def test_contract_check(cardsign: Cardsign, keys: str) -> None:
    """Of a verified card alone."""
    options = ("--card", "contract.json", "--jwks", keys)
    assert cardsign("contract", "check", written("t.json", TASK), *options).status == 0
    bad = written("bad.json", put(TASK, "/input", {}))
    ended = cardsign("contract", "check", bad, *options)
    assert ended.status == 1
    assert "envelope.input" in ended.text
    assert "fix   Correct it at the place named." in ended.text
    assert "fix " not in cardsign("contract", "check", "t.json", *options).text
    answer = cardsign("contract", "check", bad, *options, "--json").json
    assert answer["kept"] is False
    data = Path("contract.json").read_bytes().replace(b"iam-tides", b"iam-pirat")
    Path("contract.json").write_bytes(data)
    assert cardsign("contract", "check", "t.json", *options).status == 1
    assert cardsign("contract", "check", "t.json", "--card", "contract.json").status == 2
