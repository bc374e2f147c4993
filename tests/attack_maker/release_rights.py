"""Rules K10 and K11: by what right a release speaks."""

from __future__ import annotations

from typing import Any

from corpus import NOW, Corpus
from crafting import CARD, signed
from statements import DAY, HOUR, SKEW, House, Statement, no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_rights, _order, _revoked):
        make(corpus)


def _rights(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        210,
        "release-rights",
        "Releases by whom, of what and for how long",
        "A release speaks by one valid release key of exactly the newest keyset statement. One "
        "that does not is as if there were none: nobody says then which card is current.",
        source="rule K10",
    )
    house, first = bench.house, bench.first
    early, late = house.entry("rel-early", nbf=NOW + HOUR), house.entry("rel-late", exp=NOW)
    almost = house.entry("rel-almost", nbf=NOW + SKEW)
    keys = [*house.entries("card", "rel"), early, late, almost]
    timed = house.after(
        first, keys=keys, label="keyset-1.2-timed", revoked=house.thumbprints("rel-lost")
    )

    def under(*signers: str, **changes: Any) -> Statement:
        return house.release(timed, *signers, label=f"release-by-{signers[0]}", **changes)

    for id_, title, code, brought in (
        (
            "stranger",
            "By a stranger",
            "unsigned",
            (first, house.release(first, "eve", label="release-by-eve")),
        ),
        (
            "recovery",
            "By the recovery key",
            "unsigned",
            (first, house.release(first, "rita", label="release-by-rita")),
        ),
        ("card-role", "By a key with the role card", "unsigned", (first, timed, under("card"))),
        (
            "early",
            "By a key whose time has not come",
            "unsigned",
            (first, timed, under("rel-early")),
        ),
        ("expired", "By a key whose time is over", "unsigned", (first, timed, under("rel-late"))),
        ("revoked", "By a revoked key", "unsigned", (first, timed, under("rel-lost"))),
        (
            "removed",
            "By a key that the newest keyset has no more",
            "unsigned",
            (first, timed, under("rel2")),
        ),
        ("old-keyset", "For the keyset before the newest", "keyset", (first, timed, bench.release)),
    ):
        bench.refused(id_, title, "indeterminate", f"statement.{code}", *brought)
    for id_, title, code, changes in (
        (
            "other-digest",
            "For a keyset of that number and another digest",
            "keyset",
            {"keyset": {**first.pin, "digest": "0" * 64}},
        ),
        (
            "other-version",
            "For the right digest under another number",
            "keyset",
            {"keyset": {**first.pin, "version": 2}},
        ),
        ("other-issuer", "Of another issuer", "issuer", {"issuer": "ebb.example"}),
        ("future", "From the future", "not_yet", {"iat": NOW + SKEW + 1}),
        ("expired-release", "Expired", "expired", {"iat": NOW - 2 * DAY, "exp": NOW}),
        ("15-days", "For 15 days", "time_span", {"iat": NOW, "exp": NOW + 15 * DAY}),
        ("backwards", "It ends before it begins", "time_span", {"exp": NOW - DAY}),
        ("unknown-member", "With a member that nobody knows", "members", {"keys": []}),
        (
            "extended-listed",
            "It lists an extended card",
            "members",
            {"cards": [house.listing(kind="extended")]},
        ),
        (
            "listed-ahead",
            "It lists a card as of a release to come",
            "members",
            {"cards": [house.listing(seq=6)]},
        ),
        (
            "listed-twice",
            "It lists a card twice",
            "members",
            {"cards": [house.listing(), house.listing(seq=4)]},
        ),
        ("floor-above", "Its floor lies above itself", "floor", {"floor": {house.url: 6}}),
        ("floor-zero", "A floor of 0", "members", {"floor": {house.url: 0}}),
        ("audit-head", "An audit head that is no digest", "members", {"audit_head": "none"}),
        ("format", "A format to come", "format", {"format": "cardsign-release/2"}),
    ):
        bad = house.release(first, label=f"release-{id_}", **changes)
        bench.refused(id_, title, "indeterminate", f"statement.{code}", first, bad)
    for id_, title, brought in (
        ("lawful", "By a release key for the newest keyset", (first, timed, under("rel"))),
        ("within-skew", "By a key whose time begins in 300 s", (first, timed, under("rel-almost"))),
        (
            "beside",
            "By a release key and a stranger",
            (first, house.release(first, "eve", "rel", label="release-beside")),
        ),
        (
            "ahead",
            "Issued 300 s ahead",
            (first, house.release(first, iat=NOW + SKEW, label="release-ahead")),
        ),
        (
            "14-days",
            "For 14 days",
            (first, house.release(first, iat=NOW, exp=NOW + 14 * DAY, label="release-14-days")),
        ),
    ):
        bench.honest(id_, title, *brought)
    ends = house.keyset(
        keys=[house.entry("card"), house.entry("rel", exp=NOW + DAY)], label="keyset-rel-ends"
    )
    other = bench.policy("ends.toml", {"keyset": ends.pin})
    given = house.release(ends, label="release-rel-ends")
    bench.steps(
        "key-ends",
        "The key of the release that is held comes to its end before the release does",
        bench.step(yes(), ends, given, policy=other),
        bench.step(no("indeterminate", "statement.unsigned"), now=NOW + DAY, policy=other),
    )


def _order(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        220,
        "release-order",
        "Releases in the wrong order",
        "Releases are ordered by epoch, keyset version and seq. A lower one is an old one, the "
        "same number with other words is a fork, and under one keyset no floor ever falls.",
        source="rule K10",
    )
    house, first = bench.house, bench.first
    empty = house.release(first, seq=6, cards=[], label="release-6-empty")
    floors = {house.url: 5, "extended": 4}
    six = house.release(first, seq=6, floor=floors, cards=[house.listing(seq=5)], label="release-6")
    other = house.release(
        first,
        seq=6,
        floor=floors,
        cards=[house.listing(seq=5), house.listing({**CARD, "version": "6"}, seq=6)],
        label="release-6-other",
    )
    held = bench.step(yes(), first, six)
    evil_card = _edition(house, "6")[0]
    bench.steps(
        "lower",
        "Release 5 after one that denies the card",
        bench.step(no("untrusted", "card.digest_unlisted"), first, empty),
        bench.step(no("untrusted", "statement.rollback"), bench.release),
    )
    bench.steps(
        "fork-held",
        "Another release 6",
        held,
        bench.step(yes("statement.fork"), other),
        bench.step(no("untrusted", "statement.fork"), other, card=evil_card),
    )
    for id_, title, brought in (
        ("fork", "Two releases 6 at first sight", (first, six, other)),
        ("fork-turned", "The same, the other first", (first, other, six)),
    ):
        bench.refused(id_, title, "indeterminate", "statement.fork", *brought, card=evil_card)
        bench.refused(
            f"{id_}-honest",
            f"{title}, both listing the card",
            "indeterminate",
            "statement.fork",
            *brought,
        )
    seen = bench.lock("six", first, six)
    bench.refused(
        "fork-lock",
        "A lock names the other release 6",
        "indeterminate",
        "statement.fork",
        first,
        other,
        lock=seen,
        memory="none",
    )
    for id_, title, floor in (
        ("floor-falls", "A floor falls", {**floors, house.url: 3}),
        ("floor-vanishes", "A floor vanishes", {"extended": 4}),
        ("floor-extended", "The floor of extended cards falls", {**floors, "extended": 1}),
        ("floor-all", "All floors vanish", {}),
    ):
        old = house.release(
            first,
            seq=7,
            floor=floor,
            cards=[house.listing({**CARD, "version": "6"}, seq=3)],
            label=f"release-7-{id_}",
        )
        bench.steps(
            id_,
            title,
            held,
            bench.step(yes("statement.floor"), old),
            bench.step(no("untrusted", "statement.floor"), old, card=evil_card),
        )
    second = house.after(first)
    low = house.release(
        second, seq=1, floor={}, cards=[house.listing(seq=1)], label="release-1.2-1"
    )
    bench.steps(
        "higher",
        "Release 7",
        held,
        bench.step(
            yes(),
            house.release(
                first, seq=7, floor=floors, cards=[house.listing(seq=5)], label="release-7"
            ),
        ),
        twin=True,
    )
    bench.steps(
        "new-keyset",
        "Release 1 of a new keyset version, without floors",
        held,
        bench.step(yes(), second, low),
        twin=True,
    )
    bench.honest("all", "Releases 5 and 6 in the wrong order", first, six, bench.release)
    again = house.release_of(six.members, "rel2", label="release-6-by-rel2")
    bench.honest(
        "one-payload", "One release 6, signed by two keys apart: no fork", first, six, again
    )


def _edition(house: House, version: str, by: str = "card") -> tuple[tuple[str, bytes], Any]:
    """A later card of the house: to be served, and as its content."""
    content = {**CARD, "version": version}
    return (f"card-{version}", signed(content, house.key(by))), content


def _revoked(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        211,
        "revocation",
        "What a release may revoke",
        "A release key may deny any other card or release key, and nothing above it: not a root, "
        "not recovery, not itself, not a stranger. A release that tries is refused whole.",
        source="rule K11",
    )
    house = bench.house
    first = bench.first
    for id_, title, names in (
        ("root", "A root key", ("ann",)),
        ("recovery", "The recovery key", ("rita",)),
        ("itself", "Its own signer", ("rel",)),
        ("stranger", "A key that the keyset does not name", ("eve",)),
        ("root-and-card", "A root key among others", ("ann", "rel2")),
    ):
        bad = house.release(
            first, seq=6, revoked=house.thumbprints(*names), label=f"release-6-{id_}"
        )
        bench.refused(id_, title, "indeterminate", "statement.revoked", first, bad)
        bench.steps(
            f"{id_}-held",
            f"{title}: the release held before stays",
            bench.step(yes(), first, bench.release),
            bench.step(yes("statement.revoked"), bad),
            twin=True,
        )
    unordered = house.release(
        first, revoked=house.thumbprints("card", "rel2")[::-1], label="release-unordered"
    )
    bench.refused(
        "unordered",
        "Thumbprints out of order",
        "indeterminate",
        "statement.members",
        first,
        unordered,
    )
    revoked = house.after(
        first, revoked=house.thumbprints("card"), keys=house.entries("card2", "rel")
    )
    two = house.after(revoked, label="keyset-1.3-silent", revoked=[])
    bench.steps(
        "silent",
        "A later keyset statement leaves it out",
        bench.step(yes(), first, bench.release),
        bench.step(no("untrusted", "key.unknown"), revoked, house.release(revoked)),
        bench.step(no("untrusted", "statement.unrevoked"), two, house.release(two)),
    )
    back = house.after(revoked, label="keyset-1.3-back", keys=house.entries("card", "rel"))
    bench.steps(
        "retired-back",
        "A revoked key stands among the keys again",
        bench.step(yes(), first, bench.release),
        bench.step(no("untrusted", "key.unknown"), revoked, house.release(revoked)),
        bench.step(no("untrusted", "statement.bad_key"), back, house.release(back)),
    )
    cosigned = house.release(
        first, "rel2", "rel", revoked=house.thumbprints("rel"), label="release-cosigned"
    )
    bench.honest(
        "cosigned", "The revoked key adds its own signature to what revokes it", first, cosigned
    )
    bench.honest(
        "other",
        "A release key that is not needed",
        first,
        house.release(first, revoked=house.thumbprints("rel2"), label="release-no-rel2"),
    )
