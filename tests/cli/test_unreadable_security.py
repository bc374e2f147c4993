"""A card of which it cannot be read who may call: every command says so, and none says "open"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import Cardsign
from tests.support import private_pem
from tests.unreadable_security import GUARDED, READABLE, UNREADABLE

#: Of the cases of tests/card/test_security.py, which has all.
SOME = dict(list(UNREADABLE.items())[::9])
KEY = PrivateKey.generate("ES256", kid="card-1")


@pytest.fixture
def sign(cardsign: Cardsign) -> Any:
    """Write a card and sign it with the key of jwks.json, which nothing but a card needs."""
    Path("card-1.pem").touch(mode=0o600)
    Path("card-1.pem").write_bytes(private_pem(KEY))
    Path("jwks.json").write_text(json.dumps({"keys": [KEY.public.jwk()]}))

    def write_and_sign(card: dict[str, Any], *options: str) -> Any:
        Path("card.json").write_text(json.dumps(card))
        key = ("--key", "file:card-1.pem", "--kid", "card-1")
        return cardsign("sign", "card.json", *key, "-o", "signed.json", "--json", *options)

    return write_and_sign


@pytest.mark.parametrize("edit", SOME.values(), ids=SOME)
def test_inspect_and_lint_say_that_it_cannot_be_read(
    cardsign: Cardsign, edit: dict[str, Any]
) -> None:
    """Of the card's own requirements and schemes."""
    Path("card.json").write_text(json.dumps({**GUARDED, **edit}))
    shown = cardsign("inspect", "card.json").text
    assert "anybody may call" not in shown
    inspected = cardsign("inspect", "card.json", "--json")
    codes = {problem["code"] for problem in inspected.json["problems"]}
    assert (inspected.status, "card.security" in codes, "card.security" in shown) == (1, True, True)
    assert {} not in inspected.json["agent"]["requirements"]
    linted = cardsign("lint", "card.json", "--json")
    assert linted.status == 1
    rules = {"meaning.requirement", "meaning.scheme"}
    assert rules & {one["code"] for one in linted.json["cards"][0]["findings"]}


@pytest.mark.parametrize("edit", SOME.values(), ids=SOME)
def test_it_is_not_signed_and_not_trusted(
    cardsign: Cardsign, sign: Any, edit: dict[str, Any]
) -> None:
    """A signature over it, made by force, is good, and does not make the card trusted."""
    refused = sign({**GUARDED, **edit})
    # A member of another JSON type than its schema's keeps the code that it always had.
    assert refused.status == 1
    assert refused.json["error"]["code"] in ("card.security", "card.type")
    assert not Path("signed.json").exists()
    assert sign({**GUARDED, **edit}, "--force").status == 0
    verdict = cardsign("verify", "signed.json", "--jwks", "jwks.json", "--json")
    assert (verdict.status, verdict.json["verdict"]) == (1, "untrusted")
    assert verdict.json["reasons"][0]["code"] == "card.security"


@pytest.mark.parametrize("edit", READABLE.values(), ids=READABLE)
def test_what_can_be_read_is_inspected_and_trusted(
    cardsign: Cardsign, sign: Any, edit: dict[str, Any]
) -> None:
    """The honest twins: those alone are open that say so."""
    assert sign({**GUARDED, **edit}).status == 0
    shown = cardsign("inspect", "card.json").text
    listed = [*(edit.get("security") or []), *(edit.get("securityRequirements") or [])]
    assert ("anybody may call" in shown) == any(one in ({}, {"schemes": {}}) for one in listed)
    assert "cannot be read" not in shown
    assert cardsign("verify", "signed.json", "--jwks", "jwks.json").status == 0
