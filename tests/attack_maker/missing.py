"""Rule V7: what is missing, and what speaks against a card."""

from __future__ import annotations

from corpus import JWKS_URL, Corpus, jwk_set, trusted
from crafting import CARD, signed
from statements import no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register it."""
    _missing(corpus)


def _missing(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        307,
        "missing-evidence",
        "What is missing, and what speaks against",
        "Missing or old evidence is no verdict; evidence against a card is one. Neither can "
        "outweigh the other: a bad card is bad without a release, and a good one is not yet "
        "trusted without.",
    )
    house, first, release = bench.house, bench.first, bench.release
    waived = bench.policy("waived.toml", freshness="waived")
    keys = bench.policy(
        "keys.toml", {"keys": [{"public": house.key("card").jwk(), "holder": "harbour"}]}
    )
    fetched = bench.policy("jwks.toml", {"jwks": JWKS_URL})
    far = (
        "far",
        signed(
            {
                **CARD,
                "supportedInterfaces": [
                    {**CARD["supportedInterfaces"][0], "url": "https://evil.example/a2a"}
                ],
            },
            house.key("card"),
        ),
    )
    spoilt = ("spoilt", {**signed(CARD, house.key("card")), "name": "Ebb tables"})
    added = (
        "added",
        {
            **signed(CARD, house.key("card")),
            "signatures": signed(CARD, house.key("card"))["signatures"],
            "x-note": 1,
        },
    )
    unsigned = ("unsigned", CARD)
    for id_, title, verdict, code, card, brought in (
        (
            "elsewhere",
            "No release, and an interface elsewhere",
            "untrusted",
            "card.origin_mismatch",
            far,
            (first,),
        ),
        (
            "spoilt",
            "No release, and a card that was changed",
            "invalid",
            "sig.bad",
            spoilt,
            (first,),
        ),
        (
            "added",
            "No release, and a member added",
            "untrusted",
            "coverage.uncovered",
            added,
            (first,),
        ),
        ("unsigned", "No statement, and no signature", "untrusted", "sig.none", unsigned, ()),
        (
            "spoilt-no-keys",
            "No statement, and a card that was changed: nobody can see it",
            "indeterminate",
            "trust.no_keys",
            spoilt,
            (),
        ),
    ):
        bench.refused(id_, title, verdict, code, *brought, card=card)
    bench.refused(
        "good-no-release",
        "A good card and no release",
        "indeterminate",
        "trust.freshness_unknown",
        first,
    )
    bench.refused(
        "keys-required",
        "Pinned keys, and freshness required",
        "indeterminate",
        "trust.freshness_unknown",
        policy=keys,
    )
    bench.refused(
        "jwks-required",
        "A pinned URL, and freshness required",
        "indeterminate",
        "trust.freshness_unknown",
        jwks=jwk_set(house.key("card")),
        policy=fetched,
    )
    bench.refused(
        "waived-unlisted",
        "Freshness is waived, and the release does not list the card",
        "untrusted",
        "card.digest_unlisted",
        first,
        house.release(first, cards=[], label="release-empty"),
        policy=waived,
    )
    bench.refused(
        "waived-no-keys",
        "Freshness is waived, and there is no keyset",
        "indeterminate",
        "trust.no_keys",
        release,
        policy=waived,
    )
    bench.refused(
        "waived-below-lock",
        "Freshness is waived, and the lock has seen a newer keyset",
        "indeterminate",
        "statement.rollback",
        first,
        policy=waived,
        lock=bench.lock("newer", house.after(first)),
        memory="none",
    )
    bench.steps(
        "waived-clock",
        "Freshness is waived, and the clock is behind",
        bench.step(yes(), first, release, policy=waived),
        bench.step(no("indeterminate", "time.clock_behind"), now=0, policy=waived),
    )
    bench.steps(
        "waived",
        "No release, where freshness is waived by name",
        bench.step(
            trusted("trust.freshness_waived", "trust.freshness_unknown"), first, policy=waived
        ),
        twin=True,
    )
    bench.honest(
        "waived-listed",
        "A release, where freshness is waived: four times yes",
        first,
        release,
        policy=waived,
    )
    bench.honest("required", "Four times yes", first, release)
