"""A gateway's copy of a card: whose it is, where it came from, and what it refuses to copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cardsign import NotTrusted, PrivateKey, examine_card
from cardsign.errors import CardRefused, UsageFault
from cardsign.gateway import MAX_GATEWAYS, read_via, resign_card
from cardsign.jose.keys import JwkSet
from cardsign.testing import FakeIssuer
from cardsign.verify.report import Report
from tests.support import each_case

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
TIDES = FakeIssuer(NOW)
GATEWAY = PrivateKey.generate("ES256")
AT = "https://gw.example/tides"


def report(card: Mapping[str, Any]) -> Report:
    """The verdict on a card that Tides signed."""
    return examine_card(TIDES.signed_card(card), jwks=TIDES.jwks(), now=NOW)


def copy(upstream: Report, url: str = AT) -> bytes:
    """What the gateway makes of it."""
    return resign_card(upstream, [GATEWAY], url=url, now=NOW).document


def verdict(copied: bytes) -> Report:
    """The verdict of somebody who trusts the gateway."""
    return examine_card(copied, jwks=JwkSet.of([GATEWAY.public]), now=NOW)


def upstream_of(card: Any) -> Any:
    """What a copy says of where it came from."""
    return card["capabilities"]["extensions"][-1]["params"]["upstream"]


def test_the_copy_is_the_gateways_and_says_where_it_came_from() -> None:
    """Only endpoints move; the signatures of the upstream stay behind.

    It names the payload that was trusted: another signature may fit as well, by a key that has
    ended, and stand before it.
    """
    card = TIDES.card_members(documentationUrl=f"{TIDES.origin}/docs")
    trusted = report(card)
    (decider, *others) = trusted.signatures
    ended = replace(decider, profile="prune-empty", payload=b"{}")
    copied = copy(replace(trusted, signatures=(ended, decider, *others)))
    made = verdict(copied)
    assert made.verdict == "trusted"
    assert {signature.kid for signature in made.signatures} == {GATEWAY.public.kid}
    changed = {name for name in card if (made.card or {})[name] != card[name]}
    assert changed == {"supportedInterfaces", "capabilities"}
    assert upstream_of(made.card) == {
        "issuer": trusted.subject,
        "payload_sha256": decider.payload_sha256,
        "verified_at": "2026-11-23T12:00:00Z",
        "via": [AT],
    }
    assert examine_card(copied, jwks=TIDES.jwks(), now=NOW).verdict != "trusted"


@each_case(__file__, "moves", "members", "url", "expected")
def test_every_endpoint_moves(members: str, url: str, expected: dict[str, Any]) -> None:
    """One that stayed would lead callers past the gateway; it announces no extended card."""
    card = {**TIDES.card_members(), **json.loads(members)}
    upstream = report({name: value for name, value in card.items() if value is not None})
    assert upstream.verdict == "trusted"
    copied = copy(upstream, url)
    made = verdict(copied)
    assert made.verdict == "trusted"
    assert TIDES.origin not in copied.decode().replace(f"{TIDES.origin}/gateway", "")
    assert {name: (made.card or {}).get(name) for name in expected} == expected
    assert b"extended" not in copied.lower()


@each_case(__file__, "refused", "members", "url", "kind", "words")
def test_what_no_gateway_could_serve_is_refused(
    members: str, url: str, kind: str, words: str
) -> None:
    """Two endpoints would become one, a query would go, or callers would go round in a circle."""
    upstream = report({**TIDES.card_members(), **json.loads(members)})
    assert upstream.verdict == "trusted"
    with pytest.raises(UsageFault if kind == "usage" else CardRefused, match=words):
        copy(upstream, url)


def test_what_is_not_trusted_is_not_copied() -> None:
    """With the reason of the verdict."""
    forged = TIDES.signed_card(TIDES.card_members()).replace(b"Tides", b"Tidal")
    for jwks, code in ((TIDES.jwks(), "sig.bad"), (JwkSet.of([GATEWAY.public]), "key.unknown")):
        with pytest.raises(NotTrusted, match=code):
            copy(examine_card(forged, jwks=jwks, now=NOW))


def test_a_card_does_not_come_twice_through_one_gateway() -> None:
    """Directly, or by way of others, of which four are allowed."""
    upstream = report(TIDES.card_members())
    for number in range(MAX_GATEWAYS):
        upstream = verdict(copy(upstream, f"https://gw{number}.example/"))
        for url in (f"https://gw{number}.example", "https://gw0.example/"):
            with pytest.raises(CardRefused, match=r"gateway\.loop"):
                copy(upstream, url)
    assert len(read_via(upstream.card or {})) == MAX_GATEWAYS
    with pytest.raises(CardRefused, match=r"came through .*gw3"):
        copy(upstream, "https://last.example/")


@each_case(__file__, "claims", "claim")
def test_a_claim_that_no_gateway_writes_is_refused(claim: str) -> None:
    """It would be taken over under the gateway's signature; the twin without it is read."""
    made = json.loads(copy(report(TIDES.card_members())))
    assert read_via(made) == (AT,)
    upstream = json.loads(claim.replace("LONG", "x" * 100_000))
    made["capabilities"]["extensions"][-1]["params"]["upstream"] = upstream
    with pytest.raises(CardRefused, match=r"gateway\.upstream"):
        read_via(made)
    made.pop("signatures")
    with pytest.raises(CardRefused, match=r"gateway\.upstream"):
        copy(report(made), "https://other.example/")
