"""``cardsign inspect`` on the command line: what a person reads, and the page that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cardsign import sign_card
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey
from tests.cli.conftest import Cardsign
from tests.cli.local_site import local_site
from tests.support import LAX, PORTABLE, by_another_sdk, dump, put

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "inspect.md"
BLOCK = re.compile(r"^```(json|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _keys(cardsign: Cardsign, alice: PrivateKey) -> None:
    """`jwks.json` in the empty folder that `cardsign` makes."""
    Path("jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())


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


@pytest.mark.parametrize("profile", ["prune-empty", "js-instance"])
def test_no_signature_by_another_profile_is_called_tampered_with(
    profile: str, cardsign: Cardsign, alice: PrivateKey
) -> None:
    """What somebody else's SDK made is no accusation; a changed card is one."""
    words = ("inspect", "card.json", "--jwks", "jwks.json")
    accusing = re.compile(r"tamper|changed|sig\.bad|spelling")
    honest = by_another_sdk(put(LAX, "/description", "Ebbe für alle"), alice, profile)
    for card, is_accused in ((honest, False), ({**honest, "name": "Other"}, True)):
        Path("card.json").write_bytes(dump(card))
        told = cardsign(*words).text
        assert bool(accusing.search(told.lower())) is is_accused
        assert is_accused or f"fits {profile}" in told


def test_a_url_is_inspected_by_its_own_keys(cardsign: Cardsign, alice: PrivateKey) -> None:
    """Of a site on this machine; as a page, too."""
    with local_site() as site:
        site.answers["/.well-known/agent-card.json"] = sign_card(dump(PORTABLE), alice)
        site.answers["/.well-known/jwks.json"] = Path("jwks.json").read_bytes()
        url = (site.origin, "--insecure-loopback-http")
        ended = cardsign("inspect", *url, "--json")
        assert ended.status == 0
        assert [one["verdict"] for one in ended.json["signatures"]] == ["valid"]
        assert {finding["severity"] for finding in ended.json["service"]} == {"note"}
        assert f"{site.origin}/.well-known/jwks.json" in ended.json["asked"]
        assert cardsign("inspect", *url, "--jwks", "jwks.json").status == 2
        assert cardsign("inspect", site.origin).status == 3  # no plain HTTP
        page = cardsign("inspect", *url, "--html", "-").text
        assert "A verifier that trusts the published key set" in page
