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
from cardsign.sign import SignedCard
from cardsign.testing import FakeIssuer
from cardsign.verify.report import Report

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
TIDES = FakeIssuer(NOW)
GATEWAY = PrivateKey.generate("ES256")
AT = "https://gw.example/tides"


def report(card: Mapping[str, Any]) -> Report:
    """The verdict on a card that Tides signed."""
    return examine_card(TIDES.signed_card(card), jwks=TIDES.jwks(), now=NOW)


def copy(upstream: Report, url: str = AT, **more: Any) -> SignedCard:
    """What the gateway makes of it."""
    return resign_card(upstream, [GATEWAY], url=url, now=more.pop("now", NOW), **more)


def verdict(copied: bytes) -> Report:
    """The verdict of somebody who trusts the gateway."""
    return examine_card(copied, jwks=JwkSet.of([GATEWAY.public]), now=NOW)


def upstream_of(card: Any) -> Any:
    """What a copy says of where it came from."""
    return card["capabilities"]["extensions"][-1]["params"]["upstream"]


def test_the_copy_is_the_gateways_and_says_where_it_came_from() -> None:
    """Only endpoints move; the signatures of the upstream stay behind."""
    card = TIDES.card_members(documentationUrl=f"{TIDES.origin}/docs")
    upstream = report(card)
    made = verdict(copy(upstream).document)
    assert made.verdict == "trusted"
    assert made.card is not None
    assert {one.kid for one in made.signatures} == {GATEWAY.public.kid}
    changed = {name for name in card if made.card[name] != card[name]}
    assert changed == {"supportedInterfaces", "capabilities"}
    interfaces: Any = made.card["supportedInterfaces"]
    assert [one["url"] for one in interfaces] == [AT]
    assert upstream_of(made.card) == {
        "issuer": upstream.subject,
        "payload_sha256": upstream.signatures[0].payload_sha256,
        "verified_at": "2026-11-23T12:00:00Z",
        "via": [AT],
    }
    assert examine_card(copy(upstream).document, jwks=TIDES.jwks(), now=NOW).verdict != "trusted"


def test_the_copy_names_the_payload_that_was_trusted() -> None:
    """Another signature may fit as well, by a key that has ended, and stand before it."""
    trusted = report(TIDES.card_members())
    (decider, *others) = trusted.signatures
    ended = replace(decider, profile="prune-empty", payload=b"{}")
    upstream = replace(trusted, signatures=(ended, decider, *others))
    made = json.loads(copy(upstream).document)
    assert upstream_of(made)["payload_sha256"] == decider.payload_sha256


def test_every_endpoint_moves_of_both_versions_and_in_any_spelling() -> None:
    """An endpoint that stayed would lead callers past the gateway; a card of 0.3 stays one."""
    old = {"url": f"{TIDES.origin}/old/rpc", "transport": "JSONRPC"}
    card = TIDES.card_members(url=f"{TIDES.origin}/old/rpc", additionalInterfaces=[old])
    copied = json.loads(copy(report(card), AT + "{path}").document)
    assert copied["url"] == f"{AT}/old/rpc" == copied["additionalInterfaces"][0]["url"]
    assert copied["supportedInterfaces"][0]["url"] == f"{AT}/a2a"
    assert TIDES.origin not in json.dumps(copied)

    card |= {"protocolVersion": "0.3.0"}
    alone = {name: card[name] for name in card if not name.endswith("Interfaces")}
    made = verdict(copy(report(alone)).document)
    assert made.verdict == "trusted"
    assert made.card is not None
    assert (made.card["url"], made.card["protocolVersion"]) == (AT, "0.3.0")


def test_a_gateway_announces_no_extended_card() -> None:
    """It has none; the upstream's names the upstream's endpoints."""
    card = TIDES.card_members(
        capabilities={"extendedAgentCard": True, "streaming": True},
        supportsAuthenticatedExtendedCard=True,
    )
    made = json.loads(copy(report(card)).document)
    assert made["capabilities"].keys() == {"streaming", "extensions"}
    assert "supportsAuthenticatedExtendedCard" not in made


RPC = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
REST = {"protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}


@pytest.mark.parametrize(
    ("other", "url"),
    [
        ("https://tides.example/b", AT),
        ("https://evil.example/a2a", AT + "{path}"),
        ("https://tides.example:8443/a2a", AT + "{path}"),
    ],
)
def test_two_endpoints_never_become_one(other: str, url: str) -> None:
    """The gateway could not know which of them a caller means; two paths stay two."""
    first = {**RPC, "url": f"{TIDES.origin}/a2a"}
    upstream = report(TIDES.card_members(supportedInterfaces=[first, {**REST, "url": other}]))
    assert upstream.verdict == "trusted"
    with pytest.raises(UsageFault, match=r"endpoints at 2 URLs"):
        copy(upstream, url)
    second = {**REST, "url": other.replace("/a2a", "/other")}
    twin = TIDES.card_members(supportedInterfaces=[first, second])
    assert verdict(copy(report(twin), AT + "{path}").document).verdict == "trusted"


def test_a_query_is_not_lost() -> None:
    """The path would stay and the query go; one fixed endpoint of the gateway's says it all."""
    card = TIDES.card_members(supportedInterfaces=[{**RPC, "url": f"{TIDES.origin}/a2a?tenant=1"}])
    with pytest.raises(CardRefused, match=r"would lose its query"):
        copy(report(card), AT + "{path}")
    assert json.loads(copy(report(card)).document)["supportedInterfaces"][0]["url"] == AT


def test_what_is_not_trusted_is_not_copied() -> None:
    """With the reason of the verdict."""
    forged = TIDES.signed_card(TIDES.card_members()).replace(b"Tides", b"Tidal")
    with pytest.raises(NotTrusted, match=r"sig\.bad"):
        copy(examine_card(forged, jwks=TIDES.jwks(), now=NOW))
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        copy(examine_card(forged, jwks=JwkSet.of([GATEWAY.public]), now=NOW))


# Loops.


def test_a_card_does_not_come_twice_through_one_gateway() -> None:
    """Directly, or by way of another gateway."""
    plain = report(TIDES.card_members())
    first = verdict(copy(plain).document)
    other = verdict(copy(first, "https://other.example/tides").document)
    own = TIDES.card_members()["supportedInterfaces"][0]["url"]
    loops = [(first, AT), (first, AT + "/"), (other, AT)]
    loops += [(plain, at) for at in (own, TIDES.origin + "{path}", own + "{path}")]
    for upstream, at in loops:
        with pytest.raises(CardRefused, match=r"gateway\.loop"):
            copy(upstream, at)
    # An agent may stand at its gateway's host, outside of what the gateway passes on.
    beside = copy(plain, TIDES.origin + "/gateway{path}")
    assert verdict(beside.document).verdict == "trusted"


def test_a_chain_of_gateways_ends() -> None:
    """Four are allowed, and the copy names each."""
    found = report(TIDES.card_members())
    for number in range(MAX_GATEWAYS):
        found = verdict(copy(found, f"https://gw{number}.example/").document)
    assert len(read_via(found.card or {})) == MAX_GATEWAYS
    with pytest.raises(CardRefused, match=r"4 gateways"):
        copy(found, "https://last.example/")


CLAIMS: list[Any] = [
    *("weather", [], {}, {"via": 1}, {"issuer": 1, "payload_sha256": "", "verified_at": "now"}),
    *({"via": [1, 2]}, {"via": [{"a": 1}]}, {"via": []}, {"via": [AT, AT + "/"]}),
    {"via": ["https://x\u202e\u001b[31m"]},
    {"via": ["https://gw.example/" + "x" * 100_000]},
]


@pytest.mark.parametrize("claim", CLAIMS, ids=range(len(CLAIMS)))
def test_a_claim_that_no_gateway_writes_is_refused(claim: Any) -> None:
    """It would be taken over under the gateway's signature; the twin without it is read."""
    made = json.loads(copy(report(TIDES.card_members())).document)
    assert read_via(made) == (AT,)
    made["capabilities"]["extensions"][-1]["params"]["upstream"] = claim
    with pytest.raises(CardRefused, match=r"gateway\.upstream"):
        read_via(made)
    made.pop("signatures")
    with pytest.raises(CardRefused, match=r"gateway\.upstream"):
        copy(report(made), "https://other.example/")
