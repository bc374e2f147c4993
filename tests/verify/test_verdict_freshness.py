"""Whether a card is current, of the right kind, and by a key that counts now (V4, V5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.jose.jwks import JwkSet
from cardsign.trust.lock import Floor
from cardsign.trust.policy import Subject
from tests.jose.statement_making import DAY, T0, URL, Members, entry, key, thumbprint
from tests.support import PORTABLE, Remembering, codes, dump, without
from tests.trust.establishing import ORIGIN, listed
from tests.trust.histories import after, keyset
from tests.verify.tides import Tides, card_of, current, later

ELSEWHERE = f"{ORIGIN}/b/agent-card.json"
OTHER = {**PORTABLE, "version": "9.9.9"}

# ------------------------------------------------------------------ what the release lists

LISTED: dict[str, tuple[Members, Subject]] = {
    "at its url": ({}, Subject(url=URL)),
    "among others": ({"cards": [listed(OTHER), listed()]}, Subject(url=URL)),
    "for two urls": ({"cards": [listed(url=ELSEWHERE), listed()]}, Subject(url=URL)),
    "somewhere at the origin": ({"cards": [listed(url=ELSEWHERE)]}, Subject(origin=ORIGIN)),
    "anywhere at home for the issuer": (
        {"cards": [listed(url=ELSEWHERE)]},
        Subject(issuer="tides"),
    ),
    "at the floor": ({"floor": {URL: 3}}, Subject(url=URL)),
    "below another url's floor": ({"floor": {ELSEWHERE: 5}}, Subject(url=URL)),
    "without a floor": ({"floor": {}}, Subject(url=URL)),
    "above the floor at one of two places": (
        {"cards": [listed(), listed(url=ELSEWHERE)], "floor": {URL: 4}},
        Subject(issuer="tides"),
    ),
}
UNLISTED: dict[str, tuple[Members, Subject, str]] = {
    "nothing": ({"cards": []}, Subject(url=URL), "card.digest_unlisted"),
    "another card": ({"cards": [listed(OTHER)]}, Subject(url=URL), "card.digest_unlisted"),
    "it for another url": (
        {"cards": [listed(url=ELSEWHERE)]},
        Subject(url=URL),
        "card.listed_elsewhere",
    ),
    "it for the url without its query": ({}, Subject(url=f"{URL}?x=1"), "card.listed_elsewhere"),
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
    "it below the floor": ({"floor": {URL: 4}}, Subject(url=URL), "card.rollback"),
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


def test_the_digest_is_that_of_the_document() -> None:
    """Signatures that a signer adds later change nothing."""
    tides = Tides()

    assert tides.says(card_of("card", "eve")).verdict == "trusted"


def no_release(tides: Tides) -> dict[str, Any]:
    """Nobody has said which cards are current."""
    return {"releases": []}


def an_old_release(tides: Tides) -> dict[str, Any]:
    """It has expired."""
    return {"releases": [current(tides.one, iat=T0 - 8 * DAY, exp=T0)]}


def a_release_of_before(tides: Tides) -> dict[str, Any]:
    """It speaks of the version before."""
    tides.says()
    return {"keysets": [after(tides.one)], "releases": []}


UNKNOWN: dict[str, tuple[Callable[[Tides], dict[str, Any]], str]] = {
    "no release": (no_release, "trust.freshness_unknown"),
    "an expired release": (an_old_release, "statement.expired"),
    "a release of the version before": (a_release_of_before, "statement.keyset"),
}


@pytest.mark.parametrize(("lacking", "code"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_nobody_has_said_is_unknown(
    lacking: Callable[[Tides], dict[str, Any]], code: str
) -> None:
    """No verdict; trusted only where the policy waives freshness by name, and it is said (V7)."""
    tides = Tides()
    report = tides.says(**lacking(tides))
    assert (report.verdict, report.answers.current) == ("indeterminate", "unknown")
    assert codes(report)[0] == code
    assert report.card is None

    tides = Tides(freshness="waived")
    report = tides.says(**lacking(tides))
    assert (report.verdict, report.answers.current) == ("trusted", "unknown")
    assert codes(report)[:2] == ["trust.freshness_waived", code]


# ------------------------------------------------------------------ the key

KEYS: dict[str, tuple[Members, str | None]] = {
    "as it should be": (entry("card", "card"), None),
    "with both roles": (entry("card", "card", "release"), None),
    "for releases": (entry("card", "release"), "key.role"),
    "from now on": (entry("card", "card", nbf=T0), None),
    "from the end of the skew on": (entry("card", "card", nbf=T0 + 300), None),
    "from a second later on": (entry("card", "card", nbf=T0 + 301), "key.not_yet_valid"),
    "until a second from now": (entry("card", "card", exp=T0 + 1), None),
    "until now": (entry("card", "card", exp=T0), "key.expired"),
}


@pytest.mark.parametrize(("public", "code"), KEYS.values(), ids=KEYS)
def test_a_key_counts_by_its_role_in_its_time(public: Members, code: str | None) -> None:
    """From nbf, less the skew, until before exp (V4)."""
    tides = Tides(keyset("ann", "bob", keys=[public, entry("rel", "release")]))
    report = tides.says()

    assert (report.verdict == "trusted") == (code is None)
    if code is not None:
        assert (report.verdict, report.answers.authorised) == ("untrusted", "no")
        assert codes(report)[0] == code


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


def test_a_revoked_key_never_counts() -> None:
    """By a release while the key is listed, by the keyset when it is no more (K11)."""
    revoked = [thumbprint("card")]
    tides = Tides()
    by_release = tides.says(releases=[current(tides.one, revoked=revoked)])
    keys = [entry("card2", "card"), entry("rel", "release")]
    two = after(tides.one, keys=keys, revoked=revoked)
    by_keyset = tides.says(keysets=[two], releases=[current(two, seq=6)])

    for report in (by_release, by_keyset):
        assert (report.verdict, report.answers.current) == ("untrusted", "no")
        assert codes(report)[0] == "key.revoked"
        assert [one.verdict for one in report.signatures] == ["revoked"]
    assert tides.says(card_of("card2")).verdict == "trusted"


def test_a_revoked_key_takes_nothing_from_another() -> None:
    """The best single signature decides (V2)."""
    keys = [entry("card", "card"), entry("card2", "card"), entry("rel", "release")]
    tides = Tides(keyset("ann", "bob", keys=keys))
    releases = [current(tides.one, revoked=[thumbprint("card")])]

    assert tides.says(card_of("card", "card2"), releases=releases).verdict == "trusted"
    assert tides.says(card_of("card"), releases=releases).verdict == "untrusted"


# ------------------------------------------------------------------ the kind of card


def marked(**changes: Any) -> dict[str, Any]:
    """An extended card of audience `moor`, for release 5, for a day."""
    marker = ExtendedMarker(**{"audience": "moor", "seq": 5, "exp": T0 + DAY, **changes})
    return with_marker(PORTABLE, marker)


def malformed() -> dict[str, Any]:
    """The marker of an extended card, with a member more."""
    card = marked()
    card["capabilities"]["extensions"][0]["required"] = False
    return card


MOOR = Subject(url=URL, audience="moor")
KINDS: dict[str, tuple[Callable[[], dict[str, Any]], Subject, str | None]] = {
    "a public one, as asked": (lambda: PORTABLE, Subject(url=URL), None),
    "an extended one, as asked": (marked, MOOR, None),
    "an extended one as public": (marked, Subject(url=URL), "extended.served_as_public"),
    "a public one as extended": (lambda: PORTABLE, MOOR, "extended.not_marked"),
    "that of another audience": (
        lambda: marked(audience="pier"),
        MOOR,
        "extended.audience_mismatch",
    ),
    "a malformed marker, public": (malformed, Subject(url=URL), "extended.marker"),
    "a malformed marker, extended": (malformed, MOOR, "extended.marker"),
    "its last second": (lambda: marked(exp=T0 + 1), MOOR, None),
    "expired now": (lambda: marked(exp=T0), MOOR, "extended.expired"),
    "at the floor": (lambda: marked(seq=2), MOOR, None),
    "below the floor": (lambda: marked(seq=1), MOOR, "extended.rollback"),
    "of the newest release": (lambda: marked(seq=5), MOOR, None),
    "of a release to come": (lambda: marked(seq=6), MOOR, "extended.ahead"),
}


@pytest.mark.parametrize(("made", "expect", "code"), KINDS.values(), ids=KINDS)
def test_only_the_kind_that_was_asked_for_is_trusted(
    made: Callable[[], dict[str, Any]], expect: Subject, code: str | None
) -> None:
    """A public card is listed, an extended one is marked; neither stands for the other."""
    card = made()
    tides = Tides()
    report = tides.says(card_of(card=card), releases=[current(tides.one)], expect=expect)

    assert report.verdict == ("trusted" if code is None else "untrusted")
    assert code in [None, *codes(report)]
    if code is not None:
        assert codes(report)[0] == code


def test_an_extended_card_says_itself_when_it_ends() -> None:
    """Even without a release; whether it is current is unknown, until it has expired."""
    card = card_of(card=marked(exp=T0 + 60))
    tides = Tides()

    before = tides.says(card, releases=[], expect=MOOR, now=later(59))
    assert (before.verdict, before.answers.current) == ("indeterminate", "unknown")
    after_it = tides.says(card, releases=[], expect=MOOR, now=later(60))
    assert (after_it.verdict, codes(after_it)[0]) == ("untrusted", "extended.expired")


def test_without_a_floor_any_seq_up_to_the_release_s_is_current() -> None:
    """The issuer has not said that an older one is not."""
    tides = Tides()
    releases = [current(tides.one, floor={})]

    assert tides.says(card_of(card=marked(seq=1)), releases=releases, expect=MOOR).verdict == (
        "trusted"
    )


def test_a_marker_is_signed() -> None:
    """Put in or taken out in transit it changes what was signed."""
    put_in = with_marker(json.loads(card_of()), ExtendedMarker("moor", 5, T0 + DAY))
    taken_out = without(json.loads(card_of(card=marked())), "/capabilities/extensions")

    assert Tides().says(dump(put_in), expect=MOOR).verdict == "invalid"
    assert Tides().says(dump(taken_out)).verdict == "invalid"


def test_a_card_outside_its_places_is_not_authorised() -> None:
    """Neither outside the policy's, nor outside the keyset statement's origins (V4)."""
    far = {**PORTABLE, "supportedInterfaces": [
        {**PORTABLE["supportedInterfaces"][0], "url": "https://lamp.example/a2a"}
    ]}  # fmt: skip
    for tides in (Tides(), Tides(places=None)):
        releases = [current(tides.one, card=far)]
        report = tides.says(card_of(card=far), releases=releases, expect=Subject(issuer="tides"))
        assert (report.verdict, codes(report)[0]) == ("untrusted", "card.origin_mismatch")
    wide = Tides(keyset("ann", "bob", origins=[ORIGIN, "https://lamp.example"]), places=None)
    releases = [current(wide.one, card=far)]
    report = wide.says(card_of(card=far), releases=releases, expect=Subject(issuer="tides"))
    assert report.verdict == "trusted"
    nowhere = without(PORTABLE, "/supportedInterfaces")
    assert (
        codes(wide.says(card_of(card=nowhere), expect=Subject(issuer="tides")))[0]
        == "card.no_interface"
    )


def test_a_key_nobody_endorses_explains_itself() -> None:
    """It is published beside, and no statement names it (trust.key_changed)."""
    offered = JwkSet.of([key("eve").public]).to_bytes()
    report = Tides().says(card_of("eve"), more={"untrusted_jwks": offered})
    assert (report.verdict, codes(report)[0]) == ("untrusted", "trust.key_changed")
    stranger = Tides().says(card_of("eve"))
    assert (stranger.verdict, codes(stranger)[0]) == ("untrusted", "key.unknown")
