"""``cardsign inspect`` on the command line: what a person reads, and the page that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import Cardsign
from tests.cli.local_site import local_site
from tests.support import LAX, OLD, PORTABLE, by_another_sdk, dump, put, signed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "inspect.md"
BLOCK = re.compile(r"^```(json|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _keys(cardsign: Cardsign, alice: PrivateKey) -> None:
    """`jwks.json` in the empty folder that `cardsign` makes."""
    Path("jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())


def written(card: Any, name: str = "card.json") -> str:
    """The card as a file; its name."""
    Path(name).write_bytes(card if isinstance(card, bytes) else dump(card))
    return name


def test_the_page_shows_what_is_printed(cardsign: Cardsign) -> None:
    """Line by line."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    ((_, card),) = [block for block in blocks if block[0] == "json"]
    key = PrivateKey.generate("ES256", kid="harbour-2026")
    Path("jwks.json").write_bytes(JwkSet.of([key.public]).to_bytes())
    received = json.loads(card)
    entry = sign_payload(json.dumps(received).encode(), key, typ="JOSE")
    written({**received, "signatures": [entry]})
    ((_, run),) = [block for block in blocks if block[0] == "console"]
    command, _, shown = run.partition("\n")
    ended = cardsign(*command.removeprefix("$ cardsign ").split())
    assert (ended.status, ended.text) == (1, shown)


STATUSES: dict[str, tuple[Any, int]] = {
    "one that only js-instance verifies": (lambda key: by_another_sdk(OLD, key, "js-instance"), 0),
    "seventeen": (lambda key: {**LAX, "signatures": signed(LAX, key)["signatures"][:1] * 17}, 1),
}


@pytest.mark.parametrize(("card", "status"), STATUSES.values(), ids=STATUSES)
def test_the_status_says_whether_there_is_something_to_complain_of(
    card: Any, status: int, cardsign: Cardsign, alice: PrivateKey
) -> None:
    """And the report is printed all the same, as text and as JSON."""
    name = written(card(alice))
    text = cardsign("inspect", name, "--jwks", "jwks.json")
    data = cardsign("inspect", name, "--jwks", "jwks.json", "--json")
    assert (text.status, data.status) == (status, status)
    assert text.text.startswith("card.json: ")
    assert (text.err, data.err) == ("", "")
    assert data.json["schema"] == "cardsign.inspection/1"


BY_OTHERS = ["prune-empty", "js-instance"]


@pytest.mark.parametrize("profile", BY_OTHERS)
def test_no_signature_by_another_profile_is_called_tampered_with(
    profile: str, cardsign: Cardsign, alice: PrivateKey
) -> None:
    """What somebody else's SDK made is no accusation; a changed card is one."""
    card = put(LAX, "/description", "Ebbe für alle")
    accusing = re.compile(r"tamper|changed|sig\.bad|spelling")
    honest = cardsign(
        "inspect", written(by_another_sdk(card, alice, profile)), "--jwks", "jwks.json"
    )
    assert not accusing.search(honest.text.lower())
    assert f"fits {profile}" in honest.text
    edited = {**by_another_sdk(card, alice, profile), "name": "Other"}
    told = cardsign("inspect", written(edited), "--jwks", "jwks.json")
    assert accusing.search(told.text.lower())


def test_a_url_is_inspected_by_its_own_keys(cardsign: Cardsign, alice: PrivateKey) -> None:
    """Of a site on this machine; as a page, too."""
    Path("card.json").write_bytes(sign_card(dump(PORTABLE), alice))
    with local_site() as site:
        site.answers["/.well-known/agent-card.json"] = Path("card.json").read_bytes()
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
