"""Commands that take a URL ask this machine only where they are told to, and no private network."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardsign.jose.keys import JwkSet
from tests.cli.conftest import Cardsign
from tests.cli.local_site import local_site
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import key

LOOPBACK = "--insecure-loopback-http"
COMMANDS: dict[str, tuple[str, ...]] = {
    "verify": ("verify", "SITE", "--jwks", "jwks.json"),
    "verify by keys at a URL": ("verify", "card.json", "--jwks", "SITE/.well-known/jwks.json"),
    "fetch": ("fetch", "SITE", "--jwks", "jwks.json"),
    "inspect": ("inspect", "SITE"),
    "lint": ("lint", "SITE/.well-known/agent-card.json", "--fail-on", "error"),
    "diff": ("diff", "SITE/.well-known/agent-card.json", "card.json"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_this_machine_is_asked_only_by_an_option(
    cardsign: Cardsign, words: tuple[str, ...]
) -> None:
    """Without it nobody is asked, and the message names it."""
    with local_site() as site:
        interface = {**PUBLIC["supportedInterfaces"][0], "url": f"{site.origin}/a2a"}
        card = sign({**PUBLIC, "supportedInterfaces": [interface]}, key("card"))
        keys = JwkSet.of([key("card").public]).to_bytes()
        site.answers |= {"/.well-known/agent-card.json": card, "/.well-known/jwks.json": keys}
        Path("card.json").write_bytes(card)
        Path("jwks.json").write_bytes(keys)
        typed = [word.replace("SITE", site.origin) for word in words]
        refused = cardsign(*typed)
        answer = refused.text + refused.err
        assert (refused.status, "fetch.url" in answer, LOOPBACK in answer) == (3, True, True)
        assert site.asked == []
        assert cardsign(*typed, LOOPBACK).status == 0
        assert site.asked != []


@pytest.mark.needs_a2a
def test_a_live_mcp_server_on_this_machine_needs_the_option(cardsign: Cardsign) -> None:
    """As everywhere; nobody listens on port 9."""
    words = ("build", "--ask-mcp", "http://127.0.0.1:9/mcp", "--url", "https://tides.example/a2a")
    refused = cardsign(*words, "-o", "card.json")
    assert (refused.status, "fetch.url" in refused.err) == (3, True)
    unanswered = cardsign(*words, LOOPBACK, "-o", "card.json")
    assert (unanswered.status, "fetch.failed" in unanswered.err) == (3, True)


def test_a_private_address_is_refused_with_what_allows_it(cardsign: Cardsign) -> None:
    """A network of one's own is named in a policy."""
    Path("jwks.json").write_text('{"keys": []}')
    ended = cardsign("verify", "https://192.168.3.9", "--jwks", "jwks.json")
    assert ended.status == 3
    assert "fetch.forbidden_address: 192.168.3.9 is not a public address\n" in ended.text
    assert 'networks = ["192.168.3.0/24"] in a policy file that you name with --trust' in ended.text
