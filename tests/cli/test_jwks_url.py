"""A JWKS URL can be tried on this machine, and a host without a scheme gets its URL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose import JwkSet
from tests.cli.conftest import Cardsign
from tests.cli.local_site import Site, local_site
from tests.jose.statement_making import key
from tests.publications import PUBLIC, sign

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
    assert cardsign("verify", "card.json", "--jwks", keys, LOOPBACK).status == 0

    site.answers["/jwks.json"] = JwkSet.of([key("mallory").public]).to_bytes()
    assert cardsign("verify", "card.json", "--jwks", keys, LOOPBACK).status == 1


def test_a_jwks_url_that_gives_no_keys(cardsign: Cardsign, site: Site) -> None:
    """No verdict; and without the option for loopback nobody is asked."""
    Path("card.json").write_bytes(site.answers["/.well-known/agent-card.json"])
    keys = f"{site.origin}/jwks.json"
    plain = cardsign("verify", "card.json", "--jwks", keys)
    assert (plain.status, "fetch.url" in plain.err, LOOPBACK in plain.err) == (3, True, True)
    assert site.asked == []
    missing = cardsign("verify", "card.json", "--jwks", f"{site.origin}/none", LOOPBACK)
    assert (missing.status, "fetch.status" in missing.err) == (3, True)
    site.answers["/jwks.json"] = b'{"keys": 7}'
    assert cardsign("verify", "card.json", "--jwks", keys, LOOPBACK).status == 2


def test_a_jwks_url_in_a_policy(cardsign: Cardsign, site: Site) -> None:
    """`trust add --jwks-url` takes one of this machine; of any other host https alone."""
    add = ("trust", "add", "tides", "--origin", site.origin, "--freshness", "waived")
    keys = f"{site.origin}/jwks.json"
    for other in ("http://tides.example/jwks.json", "http://10.0.0.1/jwks.json"):
        refused = cardsign(*add, "--jwks-url", other)
        assert (refused.status, "this machine" in refused.err) == (2, True)
        assert "line" not in refused.err
    assert cardsign(*add, "--jwks-url", keys).status == 0
    assert cardsign("verify", site.origin, LOOPBACK).status == 0
    plain = cardsign("verify", site.origin)
    assert (plain.status, "fetch.url" in plain.err + plain.text) == (3, True)


def test_a_first_contact_that_finds_no_keys(cardsign: Cardsign, site: Site) -> None:
    """It says so, and not that the URL should be verified once; then keys are published."""
    add = ("trust", "add", site.origin, "--name", "tides")
    assert cardsign(*add, "--tofu", LOOPBACK).status == 0
    empty = cardsign("verify", site.origin, LOOPBACK)
    assert (empty.status, "cardsign verify URL" in empty.text) == (3, False)
    nothing = f"{site.origin} gave neither a sound keyset statement nor a key set"
    assert f"trust.no_first_contact: {nothing}" in empty.text
    assert "cardsign trust remove NAME" in empty.text

    site.answers["/.well-known/jwks.json"] = site.answers["/jwks.json"]
    met = cardsign("verify", site.origin, LOOPBACK)
    assert (met.status, "cardsign trust known show tides" in met.text) == (0, True)


HOSTS = ("weather.example", "weather.example/agents/geo.json", "weather.example:8443")


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_without_a_scheme(cardsign: Cardsign, name: str) -> None:
    """The hint is the command with the URL; a file of that name is read, and other names not."""
    ended = cardsign("verify", name)
    assert (ended.status, f"cardsign verify https://{name}" in ended.err) == (2, True)
    for file in ("Card Of Mine", "signed.json"):
        other = cardsign("verify", file)
        assert (other.status, "https://" in other.err) == (2, False)


def test_a_file_that_looks_like_a_host(cardsign: Cardsign, site: Site) -> None:
    """It is a file."""
    Path("weather.example").write_text(json.dumps({"name": "x"}))
    assert "https://weather" not in cardsign("verify", "weather.example").err


def test_a_file_without_the_keys_of_the_url(cardsign: Cardsign, site: Site) -> None:
    """The hint names what helps: the keys, or the URL; no statement could."""
    keys = f"{site.origin}/jwks.json"
    add = ("trust", "add", "tides", "--origin", site.origin, "--freshness", "waived")
    assert cardsign(*add, "--jwks-url", keys).status == 0
    Path("card.json").write_bytes(site.answers["/.well-known/agent-card.json"])
    Path("jwks.json").write_bytes(site.answers["/jwks.json"])
    file = ("verify", "card.json", "--issuer", "tides", LOOPBACK)
    refused = cardsign(*file)
    assert (refused.status, "trust.no_keys" in refused.text) == (3, True)
    assert "cardsign verify CARD --jwks FILE" in refused.text
    assert "--statements" not in refused.text
    assert cardsign(*file, "--jwks", "jwks.json").status == 0
    assert cardsign("verify", site.origin, LOOPBACK).status == 0
    assert cardsign(*file).status == 0
