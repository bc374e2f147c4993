"""Findings 5, 13 and 14: releases without roots, withheld, and turned against their issuer."""

from __future__ import annotations

from typing import Any

from corpus import NOW, Corpus
from crafting import CARD, signed
from frozen import frozen
from statements import DAY, HOUR, House, Statement, no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_split, _withheld, _denied):
        make(corpus)


def _split(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        105,
        "split",
        "Twenty releases without a root",
        "If the roots had to sign each release they would be scripted, and stolen. Releases are "
        "signed by an online key, daily, under one keyset statement; and that key can say "
        "nothing about keys.",
    )
    house, first = bench.house, bench.first
    releases = [
        house.release(first, seq=5 + day, iat=NOW + day * DAY - HOUR, exp=NOW + (day + 7) * DAY)
        for day in range(20)
    ]
    days = [
        bench.step(yes(), *([first] if day == 0 else []), one, now=NOW + day * DAY)
        for day, one in enumerate(releases)
    ]
    bench.steps(
        "twenty-days", "Twenty days, one release a day, one keyset statement", *days, twin=True
    )
    late = NOW + 89 * DAY
    last = house.release(first, seq=99, iat=late - HOUR, exp=late + 7 * DAY, label="release-99")
    bench.steps(
        "keyset-ends",
        "A thief of the release key withholds what the roots say: the keyset's end ends him",
        days[0],
        bench.step(yes(), last, now=late),
        bench.step(no("indeterminate", "statement.expired"), now=NOW + 90 * DAY),
    )
    by_release_key = house.after(
        first, "rel", keys=house.entries("card2", "rel"), label="keyset-1.2-by-rel"
    )
    bench.bad_successor(
        "keys-by-release", "The release key names keys", "statement.unsigned", by_release_key
    )
    listed = house.release(first, by_name := "card", label="release-by-card")
    bench.refused(
        "by-card-key",
        "The card key signs a release",
        "indeterminate",
        "statement.unsigned",
        first,
        listed,
    )
    by_root = house.release(first, "ann", label="release-by-root")
    bench.refused(
        "by-root", "The root signs a release", "indeterminate", "statement.unsigned", first, by_root
    )
    bench.refused(
        "card-by-release-key",
        "The release key signs a card",
        "untrusted",
        "key.role",
        first,
        bench.release,
        by="rel",
    )
    assert by_name == "card"


def _withheld(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        113,
        "withheld",
        "Keyset or release vanish on the way",
        "Whoever stands between can answer 404. The end of a chain is what the release names, and "
        "what was seen once cannot vanish: it holds until its own end, and then there is no "
        "verdict, rather than the verdict of an older source.",
    )
    house, first, release = bench.house, bench.first, bench.release
    second = house.after(first, keys=house.entries("card2", "rel"))
    newest = house.release(second, label="release-1.2")
    unknown = no("indeterminate", "trust.freshness_unknown", current="unknown")
    bench.refused(
        "no-release",
        "No release, at first sight",
        "indeterminate",
        "trust.freshness_unknown",
        first,
    )
    bench.refused(
        "no-keyset",
        "No keyset statement, at first sight",
        "indeterminate",
        "trust.no_keys",
        release,
    )
    bench.refused("nothing", "Neither", "indeterminate", "trust.no_keys")
    bench.refused(
        "keyset-behind",
        "The release speaks of version 2, which is withheld",
        "indeterminate",
        "statement.keyset",
        first,
        newest,
    )
    bench.refused(
        "release-behind",
        "The release for version 2 is withheld, and that for 1 is shown",
        "indeterminate",
        "statement.keyset",
        first,
        second,
        release,
        by="card2",
    )
    bench.steps(
        "release-behind-held",
        "The same to one who holds the release for version 1",
        bench.step(yes(), first, release),
        bench.step(no("indeterminate", "statement.keyset"), second, release, by="card2"),
    )
    seen = bench.lock("seen", first, release)
    for id_, title, brought, code in (
        (
            "lock-no-release",
            "A lock has seen a release, and none is shown",
            (first,),
            "trust.freshness_unknown",
        ),
        (
            "lock-no-keyset",
            "A lock has seen a keyset, and none is shown",
            (release,),
            "trust.no_keys",
        ),
    ):
        bench.refused(id_, title, "indeterminate", code, *brought, lock=seen, memory="none")
    garbled = release.sent(b"<html>404</html>", "not-found")
    bench.steps(
        "garbled", "A page of HTML instead of the release", bench.step({**unknown}, first, garbled)
    )
    bench.steps(
        "kept",
        "It was seen before: it holds while nothing is shown",
        bench.step(yes(), first, release),
        bench.step(yes(), now=NOW + DAY),
        bench.step(yes("statement.shape"), garbled, now=NOW + 2 * DAY),
        twin=True,
    )
    short = bench.attack.file(
        "short.toml",
        b'format = 1\n\n[limits]\nrelease_age = "2d"\nkeyset_age = "30d"\n'
        + bench.attack.files["trust.toml"].split(b"\n", 1)[1],
    )
    bench.steps(
        "policy-shortens",
        "The policy believes a release for two days, whatever its exp says",
        bench.step(yes(), first, release, policy=short),
        bench.step(no("indeterminate", "statement.expired"), now=NOW + 2 * DAY, policy=short),
    )
    fresh = house.release(
        first, seq=30, iat=NOW + 29 * DAY - HOUR, exp=NOW + 40 * DAY, label="release-30"
    )
    bench.steps(
        "policy-shortens-keyset",
        "It believes a keyset statement for thirty days",
        bench.step(yes(), first, release, policy=short),
        bench.step(
            no("indeterminate", "statement.expired"), fresh, now=NOW + 29 * DAY, policy=short
        ),
    )
    bench.honest("both", "Both are shown", first, release, policy=short)
    bench.honest(
        "lock", "Both, before one who has a lock", first, release, lock=seen, memory="none"
    )
    frozen(bench.attack)


def _denied(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        114,
        "deny",
        "Who may revoke at three in the morning",
        "A release key can revoke any other card or release key at once; it can deny and never "
        "grant. A thief of it can therefore deny everything, until the roots speak: a new "
        "keyset version confirms or drops what releases have said.",
    )
    house, first, release = bench.house, bench.first, bench.release
    no_card = house.release(
        first, seq=6, revoked=house.thumbprints("card"), label="release-6-no-card"
    )
    no_rel = house.release(
        first, "rel2", seq=6, revoked=house.thumbprints("rel"), label="release-6-no-rel"
    )
    back = house.release(first, "rel", seq=7, label="release-7-by-rel")
    back2 = house.release(first, "rel2", seq=7, label="release-7-by-rel2")
    everything = house.release(
        first, seq=6, revoked=house.thumbprints("card", "rel2"), label="release-6-everything"
    )
    again = house.after(
        first,
        keys=house.entries("card", "rel2"),
        revoked=house.thumbprints("rel"),
        label="keyset-1.2-dropped",
    )
    dropped = house.release(again, "rel2", label="release-dropped")
    confirmed = house.after(
        first,
        keys=house.entries("card2", "rel"),
        revoked=house.thumbprints("card"),
        label="keyset-1.2-confirmed",
    )
    held = bench.step(yes(), first, release)
    denied = bench.step(no("untrusted", "key.revoked", current="no"), no_card)
    bench.refused(
        "card", "The card key is revoked by the release", "untrusted", "key.revoked", first, no_card
    )
    bench.steps("card-held", "After the card was trusted", held, denied)
    bench.steps(
        "later",
        "The release that revoked is all there is, and has expired",
        held,
        denied,
        bench.step(no("untrusted", "key.revoked"), now=NOW + 8 * DAY),
    )
    bench.steps(
        "unsaid",
        "The next release says it no more: only the roots can take it back",
        held,
        denied,
        bench.step(no("untrusted", "key.revoked"), back2),
    )
    bench.refused(
        "unsaid-at-once", "Both come together", "untrusted", "key.revoked", first, no_card, back2
    )
    bench.steps(
        "thief-returns",
        "A release key that another has revoked signs the next release",
        held,
        bench.step(yes(), no_rel),
        bench.step(
            no("untrusted", "card.digest_unlisted"),
            _evil(house, first),
            card=_edition(house, "6.6.6")[0],
        ),
    )
    bench.steps(
        "thief-revokes-back",
        "It revokes the one that revoked it",
        held,
        bench.step(yes(), no_rel),
        bench.step(
            no("untrusted", "card.digest_unlisted"),
            _evil(house, first, revoked=house.thumbprints("rel2")),
            card=_edition(house, "6.6.6")[0],
        ),
    )
    bench.steps(
        "everything",
        "A thief of the release key revokes everything else",
        held,
        bench.step(no("untrusted", "key.revoked"), everything),
    )
    bench.steps(
        "confirmed",
        "The roots confirm it",
        held,
        denied,
        bench.step(
            no("untrusted", "key.unknown"),
            confirmed,
            house.release(confirmed, label="release-confirmed"),
        ),
    )
    bench.steps(
        "restored",
        "The roots drop what a thief has revoked",
        held,
        bench.step(no("untrusted", "key.revoked"), everything),
        bench.step(yes(), again, dropped),
        twin=True,
    )
    bench.steps(
        "other-key",
        "The other release key goes on",
        held,
        bench.step(yes(), no_rel),
        bench.step(yes("statement.unrevoked", "statement.unsigned", "statement.revoked"), back),
        twin=True,
    )
    bench.honest(
        "by-other-card-key",
        "A card by a key that was not revoked",
        first_two := house.keyset(
            keys=house.entries("card", "card2", "rel"), label="keyset-two-card-keys"
        ),
        house.release(first_two, revoked=house.thumbprints("card"), label="release-two-card-keys"),
        by="card2",
        policy=bench.policy("two.toml", {"keyset": first_two.pin}),
    )


def _edition(house: House, version: str, by: str = "card") -> tuple[tuple[str, bytes], Any]:
    """A later card of the house: to be served, and as its content."""
    content = {**CARD, "version": version}
    return (f"card-{version}", signed(content, house.key(by))), content


def _evil(house: House, first: Statement, **changes: Any) -> Statement:
    content = {**CARD, "version": "6.6.6"}
    return house.release(first, "rel", seq=7, cards=[house.listing(content)], **changes)
