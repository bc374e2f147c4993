"""Attack 56 as transcripts, and attack 60: clocks that differ, and processes."""

from __future__ import annotations

from typing import Final

from corpus import NOW, Corpus, refused
from crafting import Json
from stage import (
    CEILING,
    EXPIRED,
    INDETERMINATE,
    LATER,
    UNTRUSTED,
    Stage,
)
from statements import DAY, HOUR, SKEW, House, yes

#: 2100-01-01
FAR: Final = 4_102_444_800


def build(corpus: Corpus) -> None:
    """Register them."""
    _clocks(corpus)
    corpus.attack(
        60,
        "processes",
        "Two processes remember at once",
        "Each reads what is remembered, and writes it back with its own news: the later one undoes "
        "the earlier, and a verifier is shown what he had left behind. One at a time.",
    ).tests(
        "tests/net/test_discovery_races.py::test_processes_that_meet_a_moving_issuer_lose_nothing",
        "tests/net/test_discovery_races.py::test_fifty_verifiers_of_one_memory_never_go_back",
    )


def _clocks(corpus: Corpus) -> None:
    attack = corpus.attack(
        56,
        "clocks",
        "Clocks that differ, and clocks that are set",
        "An issuer's clock may be five minutes ahead, and no more. A clock set back revives what "
        "has expired, and must not revive what a cache holds either; one set forward ends what "
        "holds, and no longer than it is wrong.",
    )
    house = House()
    lasting = [house.entry(name, exp=FAR + 365 * DAY) for name in ("card", "rel")]
    stage = Stage(attack, house, house.keyset(keys=lasting))
    by_keyset, first = stage.by_keyset(), stage.first
    attack.standard = by_keyset
    behind = refused(INDETERMINATE, "time.clock_behind")
    met = stage.step(yes())
    newest = stage.release.members["iat"]
    end = stage.release.members["exp"]

    def issued(ahead: int, exp: int) -> Json:
        release = house.release(
            first, iat=NOW + ahead, exp=NOW + exp, label=f"release-{ahead}-{exp}"
        )
        return stage.statements(release)

    for id_, title, expect, ahead, exp in (
        (
            "ahead",
            "A release of 301 s ahead",
            refused(INDETERMINATE, "statement.not_yet"),
            SKEW + 1,
            DAY,
        ),
        ("ended", "A release that ends now", refused(INDETERMINATE, EXPIRED), -HOUR, 0),
        (
            "ended-within-skew",
            "One that ended 300 s ago",
            refused(INDETERMINATE, EXPIRED),
            -HOUR,
            -SKEW,
        ),
        ("ahead-within-skew", "A release of 300 s ahead", yes(), SKEW, DAY),
        ("ending", "A release that ends in a minute", yes(), -HOUR, 60),
    ):
        stage.case(
            id_,
            title,
            stage.step(expect, answers=issued(ahead, exp)),
            policy=by_keyset,
            twin=expect["verdict"] == "trusted",
        )
    for id_, title, expect, now in (
        ("back", "301 s behind the newest statement", behind, newest - SKEW - 1),
        ("1970", "1970", behind, 0),
        ("2100", "2100", refused(INDETERMINATE, EXPIRED), FAR),
        ("end", "The second in which the release ends", refused(INDETERMINATE, EXPIRED), end),
        ("jitter", "300 s behind the newest statement, and no more", yes(), newest - SKEW + 1),
        ("last", "A minute before the release ends", yes(), end - 60),
    ):
        stage.case(
            f"then-{id_}",
            f"Trusted, and then: {title}",
            met,
            stage.step(expect, now=now, elapsed=60),
            policy=by_keyset,
            twin=expect["verdict"] == "trusted",
        )
    stage.refused(
        "1970-first",
        "1970, at first sight",
        INDETERMINATE,
        "statement.not_yet",
        policy=by_keyset,
        now=0,
    )
    revoked = stage.statements(stage.revoking(iat=NOW - HOUR + 60))
    for id_, title, now in (
        ("back", "is set back by half an hour", NOW - HOUR // 2),
        ("on", "goes on", LATER),
    ):
        stage.case(
            f"revoked-{id_}",
            f"Six minutes pass, a key is revoked, and the clock {title}",
            met,
            stage.step(
                refused(UNTRUSTED, "key.revoked"), now=now, elapsed=CEILING + 60, answers=revoked
            ),
            policy=by_keyset,
        )
    stage.case(
        "forward-and-back",
        "A clock that is set to 2100 and back: its own time is not kept",
        met,
        stage.step(refused(INDETERMINATE, EXPIRED), now=FAR, elapsed=1),
        stage.step(yes(), now=NOW + 60, elapsed=1),
        policy=by_keyset,
        twin=True,
    )
    stage.case(
        "revoked-forward-and-back",
        "The same, and the key has been revoked meanwhile",
        met,
        stage.step(refused(INDETERMINATE, EXPIRED), now=FAR, elapsed=1),
        stage.step(refused(UNTRUSTED, "key.revoked"), now=LATER, elapsed=CEILING, answers=revoked),
        policy=by_keyset,
    )
    stage.case(
        "back-unrevoked",
        "The clock is set back by half an hour, and nothing is revoked",
        met,
        stage.step(yes(), now=NOW - HOUR // 2, elapsed=CEILING + 60),
        policy=by_keyset,
        twin=True,
    )
