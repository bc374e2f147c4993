"""Attacks 43 to 45: whose key it is."""

from __future__ import annotations

from corpus import JWKS_URL, Corpus, issuer, jwk_set, refused, trusted
from crafting import CARD, at_url, ec_key, signed
from statements import House, no, pin, yes
from workbench import Bench

EBB = "https://ebb.example"


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_cross_origin, _substitution, _poisoned):
        make(corpus)


def _cross_origin(corpus: Corpus) -> None:
    attack = corpus.attack(
        43,
        "cross-origin-kid",
        "Another issuer publishes a key under our issuer's name",
        "A kid is a name within one key set. A cache of keys by kid alone hands one issuer's "
        "cards to whoever publishes that kid in a set of his own.",
    )
    ours, theirs = ec_key("harbour-1"), ec_key("ebb-1")
    theirs_url = f"{EBB}/.well-known/jwks.json"
    attack.policy(
        issuer({"jwks": JWKS_URL}),
        issuer({"jwks": theirs_url}, name="ebb", origins=[EBB]),
    )
    claimed = theirs.called("harbour-1")
    sets = {"ours": jwk_set(ours), "theirs": jwk_set(claimed)}
    forged = signed(CARD, claimed)
    at_ebb = signed(at_url(f"{EBB}/a2a"), claimed)
    attack.attack(
        "own-set",
        "Their key, and our issuer's own set",
        forged,
        "invalid",
        "sig.bad",
        jwks=sets["ours"],
    )
    attack.attack(
        "their-set",
        "Their key, and their set, fetched from their URL",
        forged,
        "indeterminate",
        "trust.no_keys",
        jwks=sets["theirs"],
        jwks_url=theirs_url,
    )
    warm = [
        attack.step(
            "ebb",
            at_ebb,
            trusted(),
            subject={"issuer": "ebb"},
            jwks=sets["theirs"],
            jwks_url=theirs_url,
        ),
        attack.step("own-set", forged, refused("invalid", "sig.bad"), jwks=sets["ours"]),
    ]
    attack.case(
        "warm", "attack", "After their set was read for a card of theirs", warm, memory="fresh"
    )
    cold = [
        warm[0],
        attack.step("cold", forged, refused("indeterminate", "trust.no_keys")),
    ]
    attack.case("warm-only", "attack", "Their set was read, and ours never", cold, memory="fresh")
    attack.twin("ours", "Our issuer's card and set", signed(CARD, ours), jwks=sets["ours"])
    both = [warm[0], attack.step("ours", "ours.card.json", trusted(), jwks=sets["ours"])]
    attack.case(
        "both", "twin", "Both issuers use one kid, each for his own key", both, memory="fresh"
    )


def _substitution(corpus: Corpus) -> None:
    ebb = House("ebb.example", EBB)
    house = House()
    first, theirs = house.keyset(), ebb.keyset(label="keyset-ebb")
    bench = Bench(
        corpus,
        44,
        "key-substitution",
        "A genuine key speaks for somebody else",
        "Whose key it is matters as much as that it is one: an issuer whom the policy knows "
        "cannot sign for another whom it knows, nor bring his own statements for it.",
        house=house,
        first=first,
    )
    policy = bench.attack.policy(
        issuer(pin(first), freshness="required"),
        issuer(pin(theirs), name="ebb", origins=[EBB], freshness="required"),
        name="two.toml",
    )
    release = ebb.release(theirs, label="release-ebb", cards=[ebb.listing(at_url(f"{EBB}/a2a"))])
    content, key = at_url(f"{EBB}/a2a"), house.key("card")
    at_ebb, called = (
        ("at-ebb", signed(content, key)),
        ("called", signed(content, key.called("tides"))),
    )
    subject = {"issuer": "ebb"}
    said = {"policy": policy, "subject": subject}
    bench.refused(
        "other-key",
        "One issuer signs a card of the other",
        "untrusted",
        "key.unknown",
        theirs,
        release,
        card=called,
        **said,
    )
    bench.refused(
        "other-statements",
        "He brings his own statements for it",
        "indeterminate",
        "statement.anchor",
        first,
        bench.release,
        card=at_ebb,
        **said,
    )
    bench.refused(
        "both-statements",
        "He brings both",
        "untrusted",
        "key.unknown",
        first,
        theirs,
        bench.release,
        release,
        card=called,
        **said,
    )
    wide = house.after(first, origins=["https://tides.example", EBB])
    bench.refused(
        "widened",
        "His statement claims the other's origin, which the policy does not give him",
        "untrusted",
        "card.origin_mismatch",
        first,
        wide,
        house.release(wide, cards=[house.listing(at_url(f"{EBB}/a2a"))]),
        card=at_ebb,
        policy=policy,
    )
    bench.refused(
        "own-origins",
        "The policy gives him both origins, and his own statement one",
        "untrusted",
        "card.origin_mismatch",
        first,
        house.release(first, cards=[house.listing(at_url(f"{EBB}/a2a"))], label="release-at-ebb"),
        card=at_ebb,
        policy=bench.policy("wide.toml", origins=["https://tides.example", EBB]),
    )
    foreign = ebb.release_of(house.release_members(first), "rel", label="release-by-ebb")
    bench.refused(
        "other-release",
        "The other's release key signs a release for him",
        "indeterminate",
        "statement.unsigned",
        first,
        foreign,
    )
    named = house.release(first, issuer="ebb.example", label="release-of-ebb")
    bench.refused(
        "release-issuer",
        "His release names the other as its issuer",
        "indeterminate",
        "statement.issuer",
        first,
        named,
    )
    bench.honest("own", "His own card", first, bench.release, policy=policy)
    mine = ("ebb", signed(at_url(f"{EBB}/a2a"), ebb.key("card")))
    bench.honest(
        "other",
        "The other's own card, with the statements of both",
        first,
        theirs,
        release,
        card=mine,
        warnings=("statement.unsigned",),
        **said,
    )


def _poisoned(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        45,
        "jwks-poisoning",
        "A key appears in the key set that no statement endorses",
        "Who controls the web server, or a cache before it, can publish any key. A keyset anchor "
        "reads no key set for trust: a key there is news, and never a reason.",
    )
    house, first, release = bench.house, bench.first, bench.release
    evil, card = house.key("evil"), house.key("card")
    added, alone = jwk_set(card, evil), jwk_set(evil)
    claimed = jwk_set(evil.called("card"))
    evil_card = ("by-evil", house.card("evil"))
    for id_, title, jwks in (("added", "It is added", added), ("alone", "It is alone", alone)):
        bench.refused(
            id_, title, "untrusted", "trust.key_changed", first, release, card=evil_card, jwks=jwks
        )
    bench.refused(
        "claimed",
        "It has the honest name",
        "invalid",
        "sig.bad",
        first,
        release,
        card=("as-card", signed(CARD, evil.called("card"))),
        jwks=claimed,
    )
    bench.steps(
        "no-keyset",
        "The keyset statement is dropped, so that one falls back to the key set",
        bench.step(no("indeterminate", "trust.no_keys"), card=evil_card, jwks=added),
    )
    bench.steps(
        "no-keyset-honest",
        "The same with the honest card: the anchor does not weaken",
        bench.step(no("indeterminate", "trust.no_keys"), jwks=added),
    )
    bench.steps(
        "dropped-later",
        "The keyset statement vanishes after it was seen",
        bench.step(yes(), first, release),
        bench.step(no("untrusted", "trust.key_changed"), card=evil_card, jwks=added),
    )
    bench.refused(
        "not-listed",
        "A bundle brings an honest card, the release and a key set, and no chain",
        "indeterminate",
        "trust.no_keys",
        release,
        jwks=added,
    )
    bench.refused(
        "waived",
        "Freshness is waived: the key is no better for it",
        "untrusted",
        "trust.key_changed",
        first,
        card=evil_card,
        jwks=added,
        policy=bench.policy("waived.toml", freshness="waived"),
    )
    for id_, title, jwks in (
        ("poisoned", "The honest card beside a poisoned set", added),
        ("removed", "Its key is missing from the set", alone),
    ):
        bench.honest(id_, title, first, release, jwks=jwks)
    rotated = house.after(first, keys=house.entries("evil", "rel"))
    bench.honest(
        "endorsed",
        "The roots endorse it",
        first,
        rotated,
        house.release(rotated),
        card=evil_card,
        jwks=alone,
    )
