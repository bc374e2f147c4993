"""Attacks 49 to 52: until when a key or a statement counts."""

from __future__ import annotations

from corpus import JWKS_URL, NOW, Corpus, jwk_set, trusted
from crafting import CARD, header_of, signed
from statements import DAY, HOUR, SKEW, House, no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_frozen, _backdated, _states, _emptied):
        make(corpus)


def _frozen(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        49,
        "freeze",
        "The newest statements are withheld",
        "Who withholds what is new cannot be seen at once; his time ends with what he shows. Only "
        "the last statement of a chain is asked for its end: on the way to it one may have "
        "expired.",
    )
    house, first, release = bench.house, bench.first, bench.release
    held = bench.step(yes(), first, release)
    week, quarter = NOW + 7 * DAY, NOW + 90 * DAY
    fresh = house.release(
        first, seq=60, iat=quarter - HOUR, exp=quarter + 6 * DAY, label="release-60"
    )
    for id_, title, now, code in (
        ("release", "The release has expired", week, "statement.expired"),
        ("keyset", "Keyset and release have expired", quarter, "statement.expired"),
        ("year", "A year later", NOW + 365 * DAY, "statement.expired"),
    ):
        expect = no("indeterminate", code, integrity="yes", authorised="yes", current="unknown")
        bench.steps(id_, f"{title}, and nothing new is shown", held, bench.step(expect, now=now))
        bench.steps(
            f"{id_}-shown",
            f"{title}, and both are shown once more",
            bench.step(expect, first, release, now=now),
        )
    bench.refused(
        "keyset-only",
        "The release is fresh and the keyset statement has expired",
        "indeterminate",
        "statement.expired",
        first,
        fresh,
        now=quarter,
    )
    bench.refused(
        "unknown-key",
        "A card by a key that only the withheld statement names: what is known is too old to say",
        "indeterminate",
        "statement.expired",
        first,
        release,
        by="card2",
        now=quarter,
    )
    waived = bench.policy("short.toml", freshness="required")
    bench.refused(
        "empty-lie",
        "The newest release lists nothing, and an older one lists the card",
        "untrusted",
        "card.digest_unlisted",
        first,
        release,
        house.release(first, seq=6, cards=[], label="release-6-empty"),
        policy=waived,
    )
    renewed = house.after(first, iat=NOW + 60 * DAY, exp=NOW + 150 * DAY)
    spent = house.after(renewed, iat=NOW + 150 * DAY, exp=NOW + 151 * DAY)
    last = house.after(spent, iat=NOW + 200 * DAY, exp=NOW + 290 * DAY)
    times = {"iat": NOW + 210 * DAY - HOUR, "exp": NOW + 217 * DAY}
    newest = house.release(last, seq=200, **times)
    now = NOW + 210 * DAY
    bench.honest(
        "intermediate",
        "All but the last of a chain have expired",
        first,
        renewed,
        spent,
        last,
        newest,
        now=now,
    )
    bench.refused(
        "last-expired",
        "The last of the chain has expired",
        "indeterminate",
        "statement.expired",
        first,
        renewed,
        spent,
        house.release(spent, seq=190, **times, label="release-190"),
        now=now,
    )
    for id_, title, at in (
        ("last-second", "The last second", week - 1),
        ("offline", "Six days without news", NOW + 6 * DAY),
    ):
        bench.steps(id_, title, held, bench.step(yes(), now=at), twin=True)


def _backdated(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        50,
        "back-dated",
        "A revoked key signs, and says that it was long ago",
        "Whoever has the key writes any date. No time of signing can be believed, so a revoked "
        "key's signatures never count, not even those that were honest once.",
    )
    house, first, release = bench.house, bench.first, bench.release
    card = house.key("card")
    long_ago = NOW - 20 * DAY
    thumbprint = card.thumbprint
    revoked = house.after(
        first, revoked=house.thumbprints("card"), keys=house.entries("card2", "rel")
    )
    newest = house.release(revoked)
    named = card.called(thumbprint)
    held = bench.step(yes(), first, release)
    for id_, title, code, header in (
        (
            "dated-header",
            "A card with a date in its header",
            "key.unknown",
            header_of(card, iat=long_ago),
        ),
        ("thumbprint", "A card under the key's thumbprint", "key.revoked", header_of(named)),
        (
            "thumbprint-dated",
            "The same with a date",
            "key.revoked",
            header_of(named, iat=long_ago, exp=NOW + DAY),
        ),
    ):
        forged = (id_, signed(CARD, card, header))
        bench.refused(id_, title, "untrusted", code, first, revoked, newest, card=forged)
    bench.steps(
        "honest-once",
        "The card that was honest before",
        held,
        bench.step(no("untrusted", "key.unknown"), revoked, newest),
    )
    by_release = house.release(
        first, "rel", seq=6, revoked=house.thumbprints("card"), label="release-6"
    )
    for id_, title, header in (
        ("by-release", "A release revokes it", None),
        (
            "by-release-dated",
            "A release revokes it, and the card has a date",
            header_of(card, iat=long_ago),
        ),
    ):
        forged = (id_, signed(CARD, card, header))
        bench.refused(id_, title, "untrusted", "key.revoked", first, by_release, card=forged)
    drop = house.after(
        first,
        revoked=house.thumbprints("rel"),
        keys=house.entries("card", "rel2"),
        label="keyset-1.2-rel",
    )
    for id_, title, code, bad in (
        (
            "release-dated",
            "A revoked release key dates its release back",
            "statement.unsigned",
            house.release(drop, "rel", iat=long_ago, exp=NOW - 7 * DAY, label="release-dated"),
        ),
        (
            "release-old",
            "It signs for the keyset that still had it",
            "statement.keyset",
            house.release(
                first, "rel", seq=99, iat=NOW - 2 * DAY, exp=NOW + 7 * DAY, label="release-99"
            ),
        ),
    ):
        bench.refused(id_, title, "indeterminate", code, first, drop, bad)
    bench.honest(
        "other-key", "A card by the key that replaced it", first, revoked, newest, by="card2"
    )
    bench.honest(
        "other-release-key",
        "A release by the other release key",
        first,
        drop,
        house.release(drop, "rel2", label="release-rel2"),
    )
    dated = ("dated", signed(CARD, card, header_of(card, iat=long_ago)))
    bench.honest(
        "good-key-dated",
        "A date in the header of a good key says nothing",
        first,
        release,
        card=dated,
    )


def _states(corpus: Corpus) -> None:
    house = House()
    keys = [
        *house.entries("card", "rel"),
        house.entry("next", nbf=NOW + DAY),
        house.entry("prepublished", nbf=NOW - DAY),
        house.entry("spent", exp=NOW),
        house.entry("retiring", exp=NOW + 1),
        house.entry("almost", nbf=NOW + SKEW),
        house.entry("soon", nbf=NOW + SKEW + 1),
        house.entry("reader", "release"),
    ]
    first = house.keyset(keys=keys, revoked=house.thumbprints("lost"))
    bench = Bench(
        corpus,
        51,
        "key-states",
        "Keys before, between and after their time",
        "A verifier knows four things of a key: whether it stands in the keyset statement, its "
        "role, nbf and exp, and whether it is revoked. What state its owner keeps it in is his.",
        house=house,
        first=first,
    )
    for id_, title, code, by in (
        ("not-yet", "Its time begins tomorrow", "key.not_yet_valid", "next"),
        ("past-skew", "Its time begins in 301 s", "key.not_yet_valid", "soon"),
        ("spent", "Its time ends in this second", "key.expired", "spent"),
        ("role", "It may sign releases only", "key.role", "reader"),
        ("root", "It is a root", "key.unknown", "ann"),
        ("recovery", "It is the recovery key", "key.unknown", "rita"),
        ("retired", "It stands there no more, or never did", "key.unknown", "retired"),
    ):
        bench.refused(id_, title, "untrusted", code, first, bench.release, by=by)
    lost = ("by-lost", signed(CARD, house.key("lost").called(house.thumbprints("lost")[0])))
    bench.refused(
        "revoked", "It is revoked", "untrusted", "key.revoked", first, bench.release, card=lost
    )
    waived = bench.policy("waived.toml", freshness="waived")
    for id_, title, code, by in (
        ("not-yet-waived", "Not yet, with freshness waived", "key.not_yet_valid", "next"),
        ("spent-waived", "Spent, with freshness waived", "key.expired", "spent"),
        ("role-waived", "Of another role, with freshness waived", "key.role", "reader"),
    ):
        bench.refused(id_, title, "untrusted", code, first, by=by, policy=waived)
    gone = house.after(first, keys=house.entries("prepublished", "rel"))
    bench.steps(
        "dropped",
        "It was good and has left the keyset, without being revoked",
        bench.step(yes(), first, bench.release),
        bench.step(no("untrusted", "key.unknown"), gone, house.release(gone)),
    )
    back = house.after(gone, keys=house.entries("card", "rel"))
    for id_, title, by in (
        ("active", "Its time is now", "card"),
        ("prepublished", "Prepublished, which the verifier cannot know", "prepublished"),
        ("retiring", "It has one second left", "retiring"),
        ("within-skew", "Its time begins in 300 s", "almost"),
    ):
        bench.honest(id_, title, first, bench.release, by=by)
    bench.steps(
        "comes-back",
        "It has left the keyset, and the roots take it back: they may, as it was not revoked",
        bench.step(no("untrusted", "key.unknown"), first, gone, house.release(gone)),
        bench.step(yes(), back, house.release(back)),
        twin=True,
    )


def _emptied(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        52,
        "empty-keys",
        "An empty set of keys",
        "An issuer who has lost everything publishes no key at all. That is an answer, and not a "
        "failed request to be made up for from memory.",
    )
    house, first, release = bench.house, bench.first, bench.release
    empty = house.after(first, keys=[])
    held = bench.step(yes(), first, release)
    bench.refused(
        "keyset", "The newest keyset has no keys", "untrusted", "key.unknown", first, empty
    )
    bench.refused(
        "keyset-release",
        "The last release is shown beside it",
        "untrusted",
        "key.unknown",
        first,
        empty,
        release,
    )
    bench.steps(
        "keyset-held",
        "To one who holds keys and release",
        held,
        bench.step(no("untrusted", "key.unknown"), empty),
    )
    bench.steps(
        "keyset-later",
        "And later, when nothing is shown",
        held,
        bench.step(no("untrusted", "key.unknown"), empty),
        bench.step(no("untrusted", "key.unknown"), now=NOW + DAY),
    )
    waived = bench.policy("waived.toml", freshness="waived")
    bench.refused(
        "keyset-waived",
        "With freshness waived",
        "untrusted",
        "key.unknown",
        first,
        empty,
        policy=waived,
    )
    fetched = bench.policy("jwks.toml", {"jwks": JWKS_URL}, freshness="waived")
    full, none = jwk_set(house.key("card")), jwk_set()
    some = bench.step(trusted(), jwks=full, policy=fetched)
    nothing = bench.step(no("untrusted", "key.unknown"), jwks=none, policy=fetched)
    later = bench.step(no("untrusted", "key.unknown"), policy=fetched, now=NOW + HOUR)
    bench.steps("jwks", "The key set is empty", nothing)
    bench.steps("jwks-held", "It was full before", some, nothing)
    bench.steps(
        "jwks-later", "It was full, then empty, and now it is not to be had", some, nothing, later
    )
    bench.steps("jwks-full", "A full key set", some, twin=True)
    bench.steps(
        "jwks-missing",
        "A full key set that is not to be had later",
        some,
        bench.step(trusted(), policy=fetched, now=NOW + HOUR),
        twin=True,
    )
    restored = house.after(empty, keys=house.entries("card2", "rel"))
    bench.steps(
        "restored",
        "The roots name new keys",
        held,
        bench.step(no("untrusted", "key.unknown"), empty),
        bench.step(yes(), restored, house.release(restored), by="card2"),
        twin=True,
    )
