"""Whether a card is current, of the right kind, and by a key that counts now (V4, V5)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.trust.lock import Floor
from cardsign.trust.policy import Subject
from tests.statements.making import DAY, T0, URL, Members, entry, later
from tests.support import PORTABLE, Remembering, codes
from tests.trust.establishing import ORIGIN, listed
from tests.trust.histories import keyset
from tests.verify.tides import Tides, current

ELSEWHERE = f"{ORIGIN}/b/agent-card.json"

# ------------------------------------------------------------------ what the release lists

LISTED: dict[str, tuple[Members, Subject]] = {
    "somewhere at the origin": ({"cards": [listed(url=ELSEWHERE)]}, Subject(origin=ORIGIN)),
    "anywhere at home for the issuer": (
        {"cards": [listed(url=ELSEWHERE)]},
        Subject(issuer="tides"),
    ),
    "below another url's floor": ({"floor": {ELSEWHERE: 5}}, Subject(url=URL)),
    "above the floor at one of two places": (
        {"cards": [listed(), listed(url=ELSEWHERE)], "floor": {URL: 4}},
        Subject(issuer="tides"),
    ),
}
UNLISTED: dict[str, tuple[Members, Subject, str]] = {
    "it for another origin": (
        {"cards": [listed(url="https://lamp.example/x")]},
        Subject(origin=ORIGIN),
        "card.listed_elsewhere",
    ),
    "it for a place that the policy does not allow": (
        {"cards": [listed(url="https://lamp.example/x")]},
        Subject(issuer="tides"),
        "card.listed_elsewhere",
    ),
    "it below all floors": (
        {"cards": [listed(), listed(url=ELSEWHERE)], "floor": {URL: 4, ELSEWHERE: 5}},
        Subject(issuer="tides"),
        "card.rollback",
    ),
}


@pytest.mark.parametrize(("changes", "expect"), LISTED.values(), ids=LISTED)
def test_what_the_release_lists_is_current(changes: Members, expect: Subject) -> None:
    """By the payload's digest, at the place that was asked, not below the floor."""
    tides = Tides()
    report = tides.says(releases=[current(tides.one, **changes)], expect=expect)

    assert (report.verdict, report.answers.current) == ("trusted", "yes")


@pytest.mark.parametrize(("changes", "expect", "code"), UNLISTED.values(), ids=UNLISTED)
def test_what_speaks_against_a_card_is_no(changes: Members, expect: Subject, code: str) -> None:
    """Even where freshness is waived: it is evidence."""
    for tides in (Tides(), Tides(freshness="waived")):
        report = tides.says(releases=[current(tides.one, **changes)], expect=expect)
        assert (report.verdict, report.answers.current) == ("untrusted", "no")
        assert codes(report)[0] == code


# ------------------------------------------------------------------ the key


def test_a_clock_that_is_behind_accuses_no_key() -> None:
    """It is the clock that is wrong, so there is no verdict at all."""
    tides = Tides(keyset("ann", "bob", keys=[entry("card", "card", nbf=T0 - 10)]))
    tides.memory = Remembering({"tides": Floor(newest_iat=T0)})

    report = tides.says(releases=[], now=later(-DAY))
    assert (report.verdict, codes(report)[0]) == ("indeterminate", "time.clock_behind")
    assert re.fullmatch(
        r"a statement of \d{4}-\d\d-\d\d \d\d:\d\d UTC was seen before, and this clock says "
        r"\d{4}-\d\d-\d\d \d\d:\d\d UTC",
        report.reasons[0].message,
    )
    assert not any("waive" in reason.hint for reason in report.reasons)


# ------------------------------------------------------------------ the kind of card


def marked(**changes: Any) -> dict[str, Any]:
    """An extended card of audience `moor`, for release 5, for a day."""
    marker = ExtendedMarker(**{"audience": "moor", "seq": 5, "exp": T0 + DAY, **changes})
    return with_marker(PORTABLE, marker)
