"""Finding 12: what only looks like a marker, and what stands beside an extended card."""

from __future__ import annotations

from corpus import NOW, Corpus
from crafting import OLD, Json, at_url
from extended import PUBLIC, SUBJECT, THEIRS, URI, ExtendedBench, marked, marker
from statements import DAY, no, yes

OLD_PUBLIC: Json = {**OLD, "supportsAuthenticatedExtendedCard": True}


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_markers, _beside):
        make(corpus)


def _markers(corpus: Corpus) -> None:
    bench = ExtendedBench(
        corpus,
        112,
        "markers",
        "What only looks like a marker",
        "A marker that one reader sees and another does not makes one card two. Whatever mentions "
        "our URI is a sound marker in its one place, or the card is refused as either kind; a "
        "card that needs a marker to be told from a public one must never lose it.",
    )
    good = marker()
    params = good["params"]
    other = {"uri": "https://example.org/ext"}
    for id_, title, content in (
        ("twice", "Two markers", marked(good, good)),
        ("two-audiences", "Two markers, for two audiences", marked(good, marker(audience=THEIRS))),
        ("capital-uri", "Its URI in capitals", marked({**good, "uri": URI.upper()})),
        ("blank-uri", "Its URI with a blank", marked({**good, "uri": f" {URI}"})),
        (
            "zero-width",
            "Its URI with a character of no width",
            marked({**good, "uri": URI.replace("46c", "46\u200bc")}),
        ),
        ("in-description", "Its URI in a description", {**PUBLIC, "description": f"see {URI}"}),
        ("in-name", "Its URI as a member's name", {**PUBLIC, "x-note": {URI: params}}),
        ("top-level", "The marker outside the extensions", {**PUBLIC, "extensions": [good]}),
        ("required", "With required", marked({**good, "required": False})),
        ("unknown-param", "With a parameter that nobody knows", marked(marker(note="x"))),
        ("no-params", "Without parameters", marked({"uri": URI})),
        (
            "no-exp",
            "Without an end",
            marked(marker({n: v for n, v in params.items() if n != "exp"})),
        ),
        ("text-seq", "seq as a text", marked(marker(seq="5"))),
        ("true-seq", "seq as true", marked(marker(seq=True))),
        ("half-seq", "seq 5.5", marked(marker(seq=5.5))),
        ("kind", "Of another kind", marked(marker(kind="public"))),
        ("audience-path", "An audience with a path in it", marked(marker(audience="../x"))),
        ("after-year-9999", "It ends after the year 9999", marked(marker(exp=253_402_300_800))),
    ):
        card = bench.told(id_, content)
        as_ours = no("untrusted", "extended.marker")
        bench.steps(
            id_,
            f"{title}: neither as ours, nor as a public card",
            bench.step(as_ours, *bench.both, card=card, public=bench.public, subject=SUBJECT),
            bench.step(as_ours, *bench.both, card=card),
        )
    stripped = bench.told("stripped", marked())
    without = {**stripped[1], "capabilities": PUBLIC["capabilities"]}
    bench.refused(
        "stripped",
        "The marker is cut out of a signed card",
        "invalid",
        "sig.bad",
        *bench.both,
        card=("stripped", without),
    )
    added = {**bench.public[1], "capabilities": marked()["capabilities"]}
    bench.refused(
        "put-in",
        "A marker is put into the public card",
        "invalid",
        "sig.bad",
        *bench.both,
        card=("put-in", added),
        public=bench.public,
        subject=SUBJECT,
    )
    for id_, title, content in (
        ("among-others", "Among other extensions", marked(other, good, other)),
        ("described", "With a description", marked({**good, "description": "For callers"})),
        (
            "float",
            "With numbers as 5.0, which have the same payload",
            marked(marker(seq=5.0, exp=float(NOW + DAY))),
        ),
    ):
        bench.honest(
            id_,
            title,
            *bench.both,
            card=bench.told(id_, content),
            public=bench.public,
            subject=SUBJECT,
        )


def _beside(corpus: Corpus) -> None:
    bench = ExtendedBench(
        corpus,
        305,
        "extended-beside",
        "An extended card beside a bad public one",
        "Credentials are sent, and an extended card asked for, on the word of a trusted public "
        "card alone. All that is asked of a public card is asked of the extended one, except its "
        "listing, which would tell strangers of it.",
    )
    house, first = bench.house, bench.first
    ours = bench.told("ours", marked())
    unlisted = bench.told("public-unlisted", {**PUBLIC, "version": "2"})
    spoilt = ("public-spoilt", {**bench.public[1], "name": "Ebb"})
    stranger = bench.told("public-by-eve", PUBLIC, by="eve")
    ended = bench.told("ours-old", marked(card=OLD_PUBLIC))
    for id_, title, public in (
        ("public-unlisted", "The public card is not released", unlisted),
        ("public-spoilt", "The public card was changed", spoilt),
        ("public-unsigned", "The public card is not signed", ("public-unsigned", PUBLIC)),
        ("public-by-stranger", "The public card is a stranger's", stranger),
        ("extended-twice", "The extended card stands in both places", ours),
    ):
        bench.refused(
            id_,
            title,
            "untrusted",
            "extended.public_untrusted",
            *bench.both,
            card=ours,
            public=public,
            subject=SUBJECT,
        )
    bench.refused(
        "no-release",
        "There is no release for either",
        "indeterminate",
        "trust.freshness_unknown",
        first,
        card=ours,
        public=bench.public,
        subject=SUBJECT,
    )
    forgetful = bench.step(
        no("indeterminate", "state.none"),
        *bench.both,
        card=ours,
        public=bench.public,
        subject=SUBJECT,
        memory="none",
    )
    bench.steps("no-memory", "Nothing is remembered of either", forgetful)
    bench.honest(
        "good", "A good pair", *bench.both, card=ours, public=bench.public, subject=SUBJECT
    )
    bench.honest(
        "no-floor",
        "A release that names no floor for extended cards",
        first,
        house.release(first, cards=[house.listing(PUBLIC)], label="release-no-floor"),
        card=bench.told("seq-1", marked(marker(seq=1))),
        public=bench.public,
        subject=SUBJECT,
    )
    bench.honest(
        "alone",
        "The extended card where the public one was verified before",
        *bench.both,
        card=ours,
        subject=SUBJECT,
    )
    old_listed = house.release(
        first, cards=[house.listing(PUBLIC), house.listing(OLD_PUBLIC)], label="release-old"
    )
    bench.honest(
        "old-generation",
        "A pair of A2A 0.3",
        first,
        old_listed,
        card=ended,
        public=bench.told("public-old", OLD_PUBLIC),
        subject=SUBJECT,
    )
    _itself(bench, ours)


def _itself(bench: ExtendedBench, ours: tuple[str, Json]) -> None:
    house, first = bench.house, bench.first
    for id_, title, verdict, code, card in (
        (
            "by-stranger",
            "The extended card is a stranger's",
            "untrusted",
            "key.unknown",
            bench.told("by-eve", marked(), by="eve"),
        ),
        (
            "by-release-key",
            "The extended card is signed by the release key",
            "untrusted",
            "key.role",
            bench.told("by-rel", marked(), by="rel"),
        ),
        (
            "unsigned",
            "The extended card is not signed",
            "untrusted",
            "sig.none",
            ("unsigned", marked()),
        ),
        (
            "elsewhere",
            "It names an interface elsewhere",
            "untrusted",
            "card.origin_mismatch",
            bench.told("elsewhere", marked(card={**PUBLIC, **_elsewhere()})),
        ),
        (
            "no-interface",
            "It names none",
            "untrusted",
            "card.no_interface",
            bench.told("no-interface", {**marked(), "supportedInterfaces": []}),
        ),
        (
            "changed",
            "It was changed",
            "invalid",
            "sig.bad",
            ("changed", {**ours[1], "version": "9"}),
        ),
    ):
        bench.refused(
            id_, title, verdict, code, *bench.both, card=card, public=bench.public, subject=SUBJECT
        )
    two = house.after(first, keys=house.entries("card", "card2", "rel"))
    late = house.release(
        two,
        cards=[house.listing(PUBLIC)],
        revoked=house.thumbprints("card2"),
        label="release-1.2-revokes",
    )
    bench.refused(
        "revoked",
        "Its key is revoked, and the public card's is not",
        "untrusted",
        "key.revoked",
        first,
        two,
        late,
        card=bench.told("by-card2", marked(), by="card2"),
        public=bench.public,
        subject=SUBJECT,
    )
    bench.refused(
        "raised-floor",
        "A new release raises the floor of all extended cards",
        "untrusted",
        "extended.rollback",
        first,
        house.release(
            first,
            seq=6,
            cards=[house.listing(PUBLIC)],
            floor={house.url: 3, "extended": 6},
            label="release-6-raised",
        ),
        card=ours,
        public=bench.public,
        subject=SUBJECT,
    )
    expired = bench.step(
        no("indeterminate", "statement.expired"),
        card=ours,
        public=bench.public,
        subject=SUBJECT,
        now=NOW + 8 * DAY,
    )
    bench.steps(
        "release-ends",
        "The release ends before the marker does",
        bench.step(yes(), *bench.both, card=ours, public=bench.public, subject=SUBJECT),
        expired,
    )


def _elsewhere() -> Json:
    return {"supportedInterfaces": at_url("https://evil.example/a2a")["supportedInterfaces"]}
