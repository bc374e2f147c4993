"""Attacks 61 and 62: the card's signatures taken together."""

from __future__ import annotations

import json
from typing import Any

from corpus import (
    WAIVED,
    Corpus,
    issuer,
    pinned,
    pinning,
    recipe,
    refused,
    trusted,
)
from crafting import (
    CARD,
    LAX,
    dump,
    ec_key,
    entry,
    payload_of,
    signed,
)

_FIRST = {"first": True}


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_stripping, _partial):
        make(corpus)


def _stripping(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        61,
        "stripping",
        "The signatures are taken away",
        "An editor who cannot sign removes the signatures. A verifier that takes an unsigned card "
        "for one of an older kind has been told nothing at all.",
    )
    lenient = attack.policy(issuer(pinned(key), unsigned="unknown"), name="unsigned-unknown.toml")
    good = signed(CARD, key)
    [one] = good["signatures"]
    for id_, title, card in (
        ("removed", "The member is removed", CARD),
        ("empty", "The list is emptied", {**CARD, "signatures": []}),
        ("null", "It is null", {**CARD, "signatures": None}),
        ("renamed", "It is renamed", {**CARD, "signature_s": [one]}),
        ("moved", "It is moved into the provider", _in_provider(one)),
        ("envelope", "It stands outside, and the card within", {"card": CARD, "signatures": []}),
    ):
        attack.attack(id_, title, card, "untrusted", "sig.none")
    attack.attack(
        "block",
        "A `signature` block stands there instead",
        {**CARD, "signature": {"alg": "ES256", "kid": key.kid, "value": one["signature"]}},
        "untrusted",
        "card.single_signature_block",
    )
    for id_, title, value in (
        ("object", "They are an object", {"0": one}),
        ("text", "They are a text", one["signature"]),
        ("false", "They are false", False),
    ):
        card = {**CARD, "signatures": value}
        attack.attack(id_, title, card, "invalid", "card.signatures_shape")
    attack.attack(
        "unknown-issuer",
        "The policy bears with unsigned cards: nothing can be said of this one",
        CARD,
        "indeterminate",
        "sig.none",
        policy=lenient,
    )
    seen = attack.step("seen", good, trusted())
    gone = attack.step("gone", CARD, refused("untrusted", "card.signature_vanished"))
    attack.case(
        "vanished",
        "attack",
        "It bears with them, and has seen a signed one",
        [seen, gone],
        policy=lenient,
        memory="fresh",
    )
    attack.twin("signed", "The signed card", good)
    again = [attack.step("first", good, trusted()), attack.step("second", good, trusted())]
    attack.case(
        "still-signed", "twin", "Signed at both times", again, policy=lenient, memory="fresh"
    )


def _in_provider(one: dict[str, Any]) -> dict[str, Any]:
    return {**CARD, "provider": {**CARD["provider"], "signatures": [one]}}


def _partial(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        62,
        "several-signatures",
        "Good and bad signatures in one card",
        "One good signature by an enrolled key is enough and none of the others may get in its "
        "way, wherever it stands; but none may lend its authority to another's content either.",
    )
    stranger, other = ec_key("stranger"), ec_key("registry")
    payload = payload_of(CARD)
    good, bad = entry(payload, key), entry(payload_of({**CARD, "version": "9"}), key)
    unknown = entry(payload, stranger)
    elsewhere = attack.policy(
        issuer(pinned(key)),
        issuer(pinned(other), name="registry", origins=["https://registry.example"]),
        name="two-issuers.toml",
    )

    def card(*entries: Any) -> dict[str, Any]:
        return {**CARD, "signatures": list(entries)}

    reported = (*WAIVED, "sig.bad")
    attack.twin("good", "One good signature", card(good))
    attack.twin("bad-good", "A bad one stands before it", card(bad, good), *reported)
    attack.twin("good-bad", "A bad one stands behind it", card(good, bad), *reported)
    attack.twin("unknown-good", "An unknown key's stands before it", card(unknown, good))
    attack.twin("junk-good", "What is no entry stands before it", card(None, 7, {}, "x", good))
    attack.twin("sixteen", "Sixteen, the last being good", card(*[unknown] * 15, good))
    attack.attack("unknown", "Unknown keys alone", card(unknown), "untrusted", "key.unknown")
    attack.attack("bad", "A bad one alone", card(bad), "invalid", "sig.bad", expecting=_FIRST)
    attack.attack(
        "bad-unknown",
        "The honest key's is bad, and a stranger's fits",
        card(bad, unknown),
        "invalid",
        "sig.bad",
        expecting=_FIRST,
    )
    attack.attack(
        "bad-elsewhere",
        "The honest key's is bad, and another issuer's fits",
        card(bad, entry(payload, other)),
        "invalid",
        "sig.bad",
        policy=elsewhere,
    )
    attack.attack(
        "elsewhere",
        "Another issuer's alone, who is enrolled for other hosts",
        card(entry(payload, other)),
        "untrusted",
        "key.not_enrolled",
        policy=elsewhere,
    )
    attack.attack(
        "junk",
        "Entries that are none",
        card(None, [], {}, "x", {"signature": "AA"}),
        "untrusted",
        "sig.shape",
    )
    seventeen = card(*[good] * 17)
    attack.attack(
        "seventeen", "Seventeen good ones", seventeen, "invalid", "card.signatures_too_many"
    )
    head, tail = dump(card("@")).split(b'"@"')
    attack.attack(
        "ten-thousand",
        "10,000 entries",
        recipe(head, ("{},", 10_000), json.dumps(good), tail),
        "invalid",
        "card.signatures_too_many",
    )
    full, lossy = entry(payload_of(LAX), key), entry(payload_of(LAX, "prune-empty"), key)
    bears = attack.policy(
        issuer(pinned(key), profiles=["served-as-is", "prune-empty"]), name="lossy.toml"
    )
    edited = {**LAX, "x-berth": 4, "signatures": [full, lossy]}
    attack.attack(
        "coverage-reduced",
        "What only the better signature covers was changed, and the worse one still fits",
        edited,
        "untrusted",
        "sig.coverage_reduced",
        policy=bears,
    )
    attack.twin(
        "both-fit",
        "Both signatures fit",
        {**LAX, "signatures": [full, lossy]},
        policy=bears,
    )
