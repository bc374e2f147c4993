"""Finding 16 and rule V1: one source of keys, and one subject."""

from __future__ import annotations

from corpus import Corpus, jwk_set, trusted
from crafting import CARD, ORIGIN, at_url, signed
from live_sources import of_other_sources
from statements import House, no, yes
from workbench import Bench

AGENT = f"{ORIGIN}/agents/ebb/agent-card.json"


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_sources, _subject):
        make(corpus)


def _sources(corpus: Corpus) -> None:
    house = House()
    first = house.keyset()
    bench = Bench(
        corpus,
        116,
        "sources",
        "A second source of keys, when the first is missing",
        "An anchor names one source and never weakens into another: a key set is not read where a "
        "keyset is pinned, nor statements where keys or a URL are, and a bundle that brings "
        "its own chain brings no trust.",
        house=house,
        first=first,
    )
    release, card = bench.release, house.key("card")
    other = House()
    url = f"{ORIGIN}/.well-known/jwks.json"
    keys = bench.policy(
        "keys.toml",
        {"keys": [{"public": other.key("card").jwk(), "holder": "harbour"}]},
        freshness="waived",
    )
    fetched = bench.policy("jwks.toml", {"jwks": url}, freshness="waived")
    nobody = bench.policy("nobody.toml", name="somebody", origins=["https://ebb.example"])
    waived = trusted()
    bench.refused(
        "bundle",
        "Chain, release and card, and a policy that knows nobody of the kind",
        "indeterminate",
        "trust.no_anchor",
        first,
        release,
        policy=nobody,
    )
    bench.refused(
        "bundle-url",
        "The same, asked about by URL",
        "indeterminate",
        "trust.no_anchor",
        first,
        release,
        policy=nobody,
        subject={"url": house.url},
    )
    named = ("named", signed(CARD, card.called("tides")))
    bench.refused(
        "keys",
        "Keys are pinned, and statements bring others",
        "untrusted",
        "key.unknown",
        first,
        release,
        policy=keys,
        card=named,
    )
    bench.refused(
        "keys-set",
        "Keys are pinned, and a key set brings others",
        "untrusted",
        "key.unknown",
        policy=keys,
        card=named,
        jwks=jwk_set(card.called("tides")),
    )
    bench.refused(
        "jwks",
        "A URL is pinned, and statements bring keys instead",
        "indeterminate",
        "trust.no_keys",
        first,
        release,
        policy=fetched,
    )
    for id_, title, at in (
        ("other-url", "The set of another URL", f"{ORIGIN}/other.json"),
        ("other-host", "The set of another host", "https://evil.example/.well-known/jwks.json"),
        ("http", "The same URL without TLS", url.replace("https", "http")),
        ("query", "The same URL with a query", f"{url}?v=2"),
    ):
        bench.refused(
            id_,
            title,
            "indeterminate",
            "trust.no_keys",
            policy=fetched,
            jwks=jwk_set(card),
            jwks_url=at,
        )
    bench.refused(
        "bad-set",
        "The set of the URL, with a private half",
        "indeterminate",
        "key.private_material",
        policy=fetched,
        jwks={"keys": [card.jwk(d="AAAA")]},
    )
    bench.steps(
        "bad-set-later",
        "The set of the URL is spoilt after a good one: the good one stays",
        bench.step(waived, jwks=jwk_set(card), policy=fetched),
        bench.step(
            trusted("trust.freshness_waived", "jwks.malformed"), jwks={"keys": None}, policy=fetched
        ),
        twin=True,
    )
    bench.steps(
        "removed",
        "The URL's set has the key no more",
        bench.step(waived, jwks=jwk_set(card), policy=fetched),
        bench.step(
            no("untrusted", "key.unknown"), jwks=jwk_set(house.key("card2")), policy=fetched
        ),
        bench.step(no("untrusted", "key.unknown"), policy=fetched),
    )
    bench.honest(
        "keyset",
        "The pinned keyset, and a set without the key",
        first,
        release,
        jwks=jwk_set(house.key("card2")),
    )
    bench.steps(
        "fetched",
        "The set of the pinned URL",
        bench.step(waived, jwks=jwk_set(card), policy=fetched),
        twin=True,
    )
    mine = ("by-other", other.card())
    bench.steps(
        "pinned",
        "The pinned key, beside statements that do not know it",
        bench.step(waived, first, release, card=mine, policy=keys),
        twin=True,
    )
    of_other_sources(bench.attack)


def _subject(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        301,
        "two-agents",
        "One agent's card for another's, of one issuer",
        "One issuer, one key, two agents on one origin: both cards are genuine, and a registry "
        "that is asked for one answers with the other. The release lists each card for its URL.",
    )
    house, first = bench.house, bench.first
    ebb = at_url(f"{ORIGIN}/agents/ebb/a2a", tenant="ebb")
    ebb_card = ("ebb", signed(ebb, house.key("card")))
    release = house.release(
        first, cards=[house.listing(), house.listing(ebb, url=AGENT)], label="release-two"
    )
    tides, at_ebb = {"url": house.url}, {"url": AGENT}
    bench.refused(
        "swapped",
        "The other agent's card",
        "untrusted",
        "card.listed_elsewhere",
        first,
        release,
        card=ebb_card,
        subject=tides,
    )
    bench.refused(
        "swapped-back",
        "And the other way about",
        "untrusted",
        "card.listed_elsewhere",
        first,
        release,
        subject=at_ebb,
    )
    bench.refused(
        "unlisted-url",
        "At a URL that no card is listed for",
        "untrusted",
        "card.listed_elsewhere",
        first,
        release,
        subject={"url": f"{ORIGIN}/agent.json"},
    )
    bench.refused(
        "query",
        "At the right URL with a query",
        "untrusted",
        "card.listed_elsewhere",
        first,
        release,
        subject={"url": f"{house.url}?agent=ebb"},
    )
    bench.refused(
        "case",
        "At the URL in other letters",
        "untrusted",
        "card.listed_elsewhere",
        first,
        release,
        subject={"url": house.url.replace("agent-card", "Agent-Card")},
    )
    bench.steps(
        "warm",
        "The other agent's card, just trusted at its own URL",
        bench.step(yes(), first, release, card=ebb_card, subject=at_ebb),
        bench.step(no("untrusted", "card.listed_elsewhere"), card=ebb_card, subject=tides),
    )
    bench.refused(
        "elsewhere",
        "A URL whose origin the policy gives to nobody",
        "indeterminate",
        "trust.no_anchor",
        first,
        release,
        subject={"url": "https://evil.example/.well-known/agent-card.json"},
    )
    far = house.release(
        first,
        cards=[house.listing(url="https://ebb.example/.well-known/agent-card.json")],
        label="release-far",
    )
    bench.refused(
        "listed-far",
        "It is listed for another origin only",
        "untrusted",
        "card.listed_elsewhere",
        first,
        far,
        subject={"origin": ORIGIN},
    )
    bench.refused(
        "nobody",
        "Nobody is asked about",
        "indeterminate",
        "trust.no_expectation",
        first,
        release,
        subject={},
    )
    bench.honest("tides", "Each at its own URL", first, release, subject=tides)
    bench.honest("ebb", "And the other", first, release, card=ebb_card, subject=at_ebb)
    bench.honest(
        "port",
        "Its URL with the default port",
        first,
        release,
        subject={"url": house.url.replace("example/", "example:443/")},
    )
    bench.honest("origin", "Asked about the origin", first, release, subject={"origin": ORIGIN})
