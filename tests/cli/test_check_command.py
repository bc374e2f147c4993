"""`cardsign check`, `contract check` and `drift`: formats, streams and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from tests.check.test_contract import CARD, TASK
from tests.cli.conftest import Cardsign
from tests.cli.local_site import local_site
from tests.support import PORTABLE, put


@pytest.fixture
def keys(cardsign: Cardsign, alice: PrivateKey) -> str:
    """Alice's key set in the working directory, with a signed card and a contract."""
    Path("card.json").write_bytes(sign_card(json.dumps(PORTABLE).encode(), alice))
    Path("contract.json").write_bytes(sign_card(json.dumps(CARD).encode(), alice))
    Path("jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())
    return "jwks.json"


def written(name: str, value: Any) -> str:
    """A JSON file."""
    Path(name).write_text(json.dumps(value))
    return name


def test_a_url_is_checked_by_its_own_keys(cardsign: Cardsign, keys: str) -> None:
    """Of a site on this machine."""
    with local_site() as site:
        site.answers["/.well-known/agent-card.json"] = Path("card.json").read_bytes()
        site.answers["/.well-known/jwks.json"] = Path(keys).read_bytes()
        ended = cardsign("check", site.origin, "--insecure-loopback-http", "--json")
        assert ended.status == 0
        assert {finding["severity"] for finding in ended.json["findings"]} == {"note"}
        assert f"{site.origin}/.well-known/jwks.json" in ended.json["asked"]
        assert cardsign("check", site.origin, "--jwks", keys).status == 2
        assert cardsign("check", site.origin).status == 3  # no plain HTTP


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
