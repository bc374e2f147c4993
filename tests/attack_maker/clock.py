"""Finding 19 and rule K9: a clock that is wrong, and the first and last second."""

from __future__ import annotations

from corpus import NOW, Corpus
from crafting import CARD, signed
from statements import DAY, HOUR, SKEW, House, no, yes
from workbench import Bench

YEAR = 365 * DAY
#: 2100-01-01
FAR = 4_102_444_800


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_clock, _times):
        make(corpus)


def _clock(corpus: Corpus) -> None:
    house = House()
    bench = Bench(
        corpus,
        119,
        "clock",
        "A clock that is wrong, or was set",
        "A clock set back revives what has expired, and one set forward ends what holds. Signed "
        "times are remembered, never the clock's own; now is never earlier than the newest of "
        "them. What is of the future is neither believed nor remembered.",
        house=house,
        first=house.keyset(keys=[house.entry(name, exp=FAR + YEAR) for name in ("card", "rel")]),
    )
    first, release = bench.first, bench.release
    later = NOW + 100 * DAY
    second = house.after(first, iat=later - DAY, exp=later + 90 * DAY)
    newest = house.release(
        second, seq=99, iat=later - HOUR, exp=later + 7 * DAY, label="release-99"
    )
    held = bench.step(yes(), first, release)
    behind = "time.clock_behind"
    bench.steps(
        "1970",
        "1970, after a statement of 2026 was seen",
        held,
        bench.step(no("indeterminate", behind), now=0),
    )
    bench.steps(
        "1970-shown",
        "1970, and the same statements are shown",
        held,
        bench.step(no("indeterminate", behind), first, release, now=0),
    )
    bench.refused(
        "1970-first",
        "1970, at first sight: all of it is of the future",
        "indeterminate",
        "statement.not_yet",
        first,
        release,
        now=0,
    )
    bench.steps(
        "set-back",
        "The clock is set back to when an old release still held",
        bench.step(yes(), first, second, newest, now=later),
        bench.step(no("indeterminate", behind), now=NOW),
    )
    bench.steps(
        "set-back-key",
        "The clock is set back before the key's time: nothing can be held against the key then",
        held,
        bench.step(no("indeterminate", behind), now=NOW - YEAR),
    )
    bench.steps(
        "past-skew",
        "301 s behind the newest statement",
        held,
        bench.step(no("indeterminate", behind), now=NOW - HOUR - SKEW - 1),
    )
    seen = bench.lock("seen", second, newest)
    bench.refused(
        "lock",
        "Only a lock remembers the newer time",
        "indeterminate",
        behind,
        first,
        release,
        lock=seen,
        memory="none",
    )
    bench.steps(
        "2100",
        "2100: all has expired",
        held,
        bench.step(no("indeterminate", "statement.expired", authorised="yes"), now=FAR),
    )
    for id_, title, at in (
        ("2100-shown", "2100, with statements of 2026", FAR),
        ("8-days", "A week and a day ahead", NOW + 8 * DAY),
    ):
        bench.refused(id_, title, "indeterminate", "statement.expired", first, release, now=at)
    future = house.release(
        first, seq=6, iat=NOW + 6 * DAY, exp=NOW + 12 * DAY, label="release-future"
    )
    bench.steps(
        "future-not-kept",
        "A release of the future is shown: it is not kept, and does not put the clock behind",
        held,
        bench.step(yes("statement.not_yet"), future),
        bench.step(yes(), now=NOW + HOUR),
        twin=True,
    )
    bench.steps(
        "jitter",
        "300 s behind the newest statement",
        held,
        bench.step(yes(), now=NOW - HOUR - SKEW),
        twin=True,
    )
    bench.steps(
        "corrected",
        "A clock at 1970 that is corrected",
        bench.step(no("indeterminate", "statement.not_yet"), first, release, now=0),
        held,
        twin=True,
    )
    bench.steps(
        "fast-then-right",
        "A clock in 2100 that is corrected: its own time was never kept",
        held,
        bench.step(no("indeterminate", "statement.expired"), now=FAR),
        bench.step(yes()),
        twin=True,
    )
    _historic(bench)


def _historic(bench: Bench) -> None:
    house, first, release = bench.house, bench.first, bench.release
    held = bench.step(yes(), first, release)
    later = NOW + 100 * DAY
    second = house.after(first, iat=later - DAY, exp=later + 90 * DAY)
    newest = house.release(
        second, seq=99, iat=later - HOUR, exp=later + 7 * DAY, label="release-99"
    )
    for id_, title, now, brought in (
        ("at-now", "A time of the caller's choice, which happens to be now", NOW, (first, release)),
        ("at-past", "A time at which the statements held", NOW + DAY, (first, release)),
    ):
        bench.refused(
            id_, title, "indeterminate", "time.historic", *brought, now=now, historic=True
        )
    bench.refused(
        "at-waived",
        "A time of the caller's choice, with freshness waived",
        "indeterminate",
        "time.historic",
        first,
        historic=True,
        policy=bench.policy("waived.toml", freshness="waived"),
    )
    bench.steps(
        "at-launders",
        "A time of the caller's choice, to bring an expired release back",
        held,
        bench.step(no("indeterminate", "statement.expired"), now=NOW + 8 * DAY),
        bench.step(no("indeterminate", "time.historic"), historic=True),
        bench.step(no("indeterminate", "statement.expired"), now=NOW + 8 * DAY),
    )
    bench.steps(
        "at-keeps-nothing",
        "What is looked at for another time is not remembered",
        bench.step(
            no("indeterminate", "time.historic"), first, second, newest, now=later, historic=True
        ),
        bench.step(yes(), first, release),
        twin=True,
    )
    evil = ("evil", signed({**CARD, "version": "6.6.6"}, house.key("card")))
    bench.refused(
        "at-untrusted",
        "What speaks against a card speaks against it at any time",
        "untrusted",
        "card.digest_unlisted",
        first,
        release,
        card=evil,
        historic=True,
    )


def _times(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        209,
        "times",
        "The first second and the last",
        "iat - skew <= now < exp, to the second, of the newest keyset statement and the release. "
        "The skew helps only with what is young, never with what has ended.",
        source="rule K9",
    )
    house, first = bench.house, bench.first
    week = {"iat": NOW - HOUR, "exp": NOW + 7 * DAY}
    keyset_exp = first.members["exp"]
    last = house.release(
        first, seq=50, iat=keyset_exp - DAY, exp=keyset_exp + DAY, label="release-50"
    )
    for id_, title, code, brought, now in (
        (
            "release-early",
            "The release, 301 s before it was issued",
            "not_yet",
            (first, bench.release),
            NOW - HOUR - SKEW - 1,
        ),
        (
            "release-late",
            "The release, in the second of its end",
            "expired",
            (first, bench.release),
            week["exp"],
        ),
        (
            "release-skew",
            "The release, within the skew after its end",
            "expired",
            (first, bench.release),
            week["exp"] + SKEW - 1,
        ),
        (
            "keyset-early",
            "The keyset, 301 s before it was issued",
            "not_yet",
            (first, bench.release),
            NOW - DAY - SKEW - 1,
        ),
        (
            "keyset-late",
            "The keyset, in the second of its end",
            "expired",
            (first, last),
            keyset_exp,
        ),
    ):
        bench.refused(id_, title, "indeterminate", f"statement.{code}", *brought, now=now)
    strict = bench.attack.file(
        "no-skew.toml",
        b"format = 1\n\n[limits]\nskew = 0\n" + bench.attack.files["trust.toml"].split(b"\n", 1)[1],
    )
    bench.refused(
        "no-skew",
        "A policy without skew, and a release a second ahead",
        "indeterminate",
        "statement.not_yet",
        first,
        bench.release,
        now=NOW - HOUR - 1,
        policy=strict,
    )
    for id_, title, brought, now in (
        (
            "first",
            "The release, 300 s before it was issued",
            (first, bench.release),
            NOW - HOUR - SKEW,
        ),
        ("last", "The release, a second before its end", (first, bench.release), week["exp"] - 1),
        ("keyset-last", "The keyset, a second before its end", (first, last), keyset_exp - 1),
    ):
        bench.honest(id_, title, *brought, now=now)
    bench.honest(
        "no-skew-issued",
        "Without skew, in the second of issue",
        first,
        bench.release,
        now=NOW - HOUR,
        policy=strict,
    )
