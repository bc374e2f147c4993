"""A JWKS URL can be tried on this machine, and a host without a scheme gets its URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from tests.cli.conftest import Cardsign
from tests.cli.local_site import Site, local_site
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import key

LOOPBACK = "--insecure-loopback-http"


@pytest.fixture
def site() -> Iterator[Site]:
    """A card and its keys, on one port of this machine."""
    with local_site() as found:
        interface = {**PUBLIC["supportedInterfaces"][0], "url": f"{found.origin}/a2a"}
        card: dict[str, Any] = {**PUBLIC, "supportedInterfaces": [interface]}
        found.answers["/.well-known/agent-card.json"] = sign(card, key("card"))
        found.answers["/jwks.json"] = JwkSet.of([key("card").public]).to_bytes()
        yield found


def test_jwks_takes_a_url(cardsign: Cardsign, site: Site) -> None:
    """For a live card and for a file; the verdict names the URL."""
    keys = f"{site.origin}/jwks.json"
    ended = cardsign("verify", site.origin, "--jwks", keys, LOOPBACK, "--json")
    assert (ended.status, ended.json["verdict"]) == (0, "trusted")
    assert ended.json["subject"].startswith(f"the holder of the keys at {keys}")
    Path("card.json").write_bytes(site.answers["/.well-known/agent-card.json"])
    by_url = cardsign("verify", "card.json", "--jwks", keys, LOOPBACK)
    assert (by_url.status, "trust rests on TLS alone" in by_url.err) == (0, True)
    Path("jwks.json").write_bytes(site.answers["/jwks.json"])
    by_file = cardsign("verify", "card.json", "--jwks", "jwks.json")
    assert (by_file.status, "TLS" in by_file.err) == (0, False)

    site.answers["/jwks.json"] = JwkSet.of([key("mallory").public]).to_bytes()
    assert cardsign("verify", "card.json", "--jwks", keys, LOOPBACK).status == 1


def test_a_jwks_url_that_gives_no_keys(cardsign: Cardsign, site: Site) -> None:
    """No verdict; and without the option for loopback nobody is asked."""
    Path("card.json").write_bytes(site.answers["/.well-known/agent-card.json"])
    keys = f"{site.origin}/jwks.json"
    plain = cardsign("verify", "card.json", "--jwks", keys)
    assert (plain.status, "fetch.url" in plain.err, LOOPBACK in plain.err) == (3, True, True)
    assert site.asked == []
    site.answers["/jwks.json"] = b'{"keys": 7}'
    assert cardsign("verify", "card.json", "--jwks", keys, LOOPBACK).status == 2
