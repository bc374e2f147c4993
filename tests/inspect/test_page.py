"""The page of a card for people: what it says, and that a hostile card says nothing by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.page import card_page
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import DAY, digest_of
from tests.inspect.inspecting import over
from tests.support import NOW, PORTABLE, dump


class Read(HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.text = re.sub(r"\s*\n\s*", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def issuer() -> FakeIssuer:
    return FakeIssuer(NOW)


def published(issuer: FakeIssuer, card: bytes) -> dict[str, Any]:
    """A keyset that revokes the first card key, and a release."""
    first = issuer.keyset(iat=issuer.t0 - 20 * DAY)
    keys = [issuer.entry("card2", "card"), issuer.entry("rel", "release")]
    changes = {"keys": keys, "revoked": [issuer.thumbprint("card")], "iat": issuer.t0 - DAY}
    second = issuer.keyset_after(first, **changes)
    release = issuer.release(second, **issuer.listing(json.loads(card), seq=4))
    return {"keyset": second, "release": release, "jwks": issuer.jwks("card2")}


def test_it_shows_the_verdict_the_keys_and_how_to_trust(issuer: FakeIssuer) -> None:
    """Of a card that is trusted by the newest keyset."""
    card = issuer.signed_card(issuer.card_members(), "card2")
    beside = published(issuer, card)
    page, until = card_page(card, **beside, now=NOW)
    text = Read(page).text
    assert "✓ trusted" in text
    assert until is not None
    assert f"{until:%Y-%m-%d %H:%M}" in text
    assert "The whole card" in text
    assert "Says when the tide is high." in text
    assert "Capabilitiesstreaming Callers show nothing: no scheme is declared" in text
    assert f"cardsign trust add {issuer.origin} --digest {digest_of(beside['keyset'])}" in text
    assert "Keyset 1.2 lists these keys until" in text
    assert "Release 4 says" in text
    assert re.search("card key, ES256 .*release key, ES256 .*Revoked: ", text)
    listed, _, gone = text.partition("Revoked: ")
    for name in ("card2", "rel"):
        assert issuer.thumbprint(name) in listed
    assert gone.startswith(issuer.thumbprint("card"))
    assert issuer.thumbprint("rel2") not in text


BAD: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "changed": ("card2", lambda card: card.replace(b"Tides", b"Pirates"), "invalid"),
    "no JSON": ("card2", lambda card: b"{", "invalid"),
    "a name twice": ("card2", lambda card: b'{"name": "A", "name": "B"}', "invalid"),
    "by a revoked key": ("card", lambda card: card, "untrusted"),
}


@pytest.mark.parametrize(("key", "spoil", "verdict"), BAD.values(), ids=BAD)
def test_a_bad_card_has_a_page_that_says_so(
    issuer: FakeIssuer, key: str, spoil: Callable[[bytes], bytes], verdict: str
) -> None:
    """Nothing raises, and nothing says trusted."""
    card = issuer.signed_card(issuer.card_members(), key)
    page, until = card_page(spoil(card), **published(issuer, card), now=NOW)
    assert f"✗ {verdict}" in Read(page).text
    assert "✓ trusted" not in page
    assert until is None


def test_a_signature_that_fits_another_spelling_says_which(alice: PrivateKey) -> None:
    """As `inspect` does, with what its signer should change."""
    card = over(PORTABLE, json.dumps(PORTABLE).encode(), alice)
    page, _ = card_page(dump(card), jwks=JwkSet.of([alice.public]), now=NOW)
    text = Read(page).text
    assert "fits this card as written with Python's json.dumps" in text
    assert "Sign what rfc8785.dumps(card) returns" in text
    assert "changed after signing" not in text.split("Signature 0")[1]


def test_a_card_without_keys_is_trusted_by_nobody(issuer: FakeIssuer) -> None:
    """With a key set it is, and the page says what that does not show."""
    card = issuer.signed_card(issuer.card_members(skills=[{"id": "high"}]))
    for keys in (None, JwkSet(())):
        text = Read(card_page(card, jwks=keys, now=NOW)[0]).text
        assert "✓ trusted" not in text
        assert "A verifier that has no key of this card" in text
        assert "No key is published with this card." in text
        assert "its cards cannot be verified" in text
        assert "cardsign verify" not in text
    text = Read(card_page(card, jwks=issuer.jwks(), now=NOW)[0]).text
    assert "✓ trusted" in text
    assert "neither revocation nor rollback can be seen" in text
    assert "cardsign verify agent-card.json --jwks jwks.json" in text
    assert f"until when these keys hold. {issuer.thumbprint('card')} ES256" in text
    assert "None" not in text


def test_hostile_text_is_shown_and_not_obeyed(issuer: FakeIssuer) -> None:
    """In every member that is shown, and in holders and kids."""
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e\x1b[31m"
    card = issuer.card_members(
        name=bad,
        description=bad,
        version=bad,
        skills=[{"id": bad, "name": bad, "description": bad, "tags": [bad]}],
        supportedInterfaces=[{"url": bad, "protocolBinding": bad, "protocolVersion": bad}],
        securitySchemes={bad: {"apiKeySecurityScheme": {"location": bad, "name": bad}}},
        capabilities={"extensions": [{"uri": bad}]},
    )
    card["signatures"] = [{"protected": "e30", "signature": bad}]
    page, _ = card_page(json.dumps(card).encode(), **published(issuer, b"{}"), now=NOW)
    honest = issuer.signed_card(issuer.card_members(), "card2")
    plain, _ = card_page(honest, **published(issuer, honest), now=NOW)
    read = Read(page)
    assert "<script>alert(1)" in read.text
    assert not read.tags & {"script", "img", "a", "form", "iframe", "link", "object"}
    assert read.attributes <= Read(plain).attributes | {"scope"}
    assert not {"\u202e", "\x1b"} & set(page)
