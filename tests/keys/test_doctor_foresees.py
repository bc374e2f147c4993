"""What doctor foresees: each finding, the moment from which on it is one, and who has to act."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.findings import Finding
from cardsign.keys.doctor import Examined, coming_findings
from cardsign.keys.drafts import card_digest, draft_if_due, write_draft
from cardsign.keys.lifecycle import DEFAULT_SETTINGS
from cardsign.keys.model import KeyRecord, Publication, PublishedCard, StoreState
from cardsign.statements.envelope import TYP_KEYSET
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.signing import sign_statement
from cardsign.times import second
from tests.keys import issuing
from tests.keys.issuing import DAY, NOW, first, key, released
from tests.keys.states import (
    EMPTY,
    NOON,
    after,
    do,
    enter,
    public,
    published,
    record,
    revoke,
)
from tests.support import PORTABLE

PROGRAM = "exec:/usr/local/bin/sign"


def found(known: Examined, now: datetime, within: timedelta = timedelta(0)) -> list[Finding]:
    """What is foreseen of statements and keys, but for steps that are due."""
    looked = coming_findings(known, DEFAULT_SETTINGS, now, within)
    return [one for one in looked if one.code not in ("doctor.due", "doctor.no_standby")]


def online(name: str, *roles: Any) -> KeyRecord:
    """A key that the statement has listed."""
    custody = "file:one"
    return KeyRecord(key(name).public, "active", roles, custody, NOW)


STATE = StoreState(keys=(online("card", "card"), online("rel", "release")))


@functools.cache
def keyset() -> KeysetStatement:
    """Ninety days from NOW."""
    return first()


def known(**changes: Any) -> Examined:
    """A store in which all is well."""
    whole = {"state": STATE, "keyset": keyset(), "release": released(keyset(), None)}
    return Examined(**{**whole, **changes})


def test_where_all_is_well_nothing_is_foreseen() -> None:
    """Nor is it where there are no statements at all."""
    assert found(known(), NOW + DAY) == []
    assert found(Examined(STATE), NOW + 10_000 * DAY) == []


RELEASES: dict[str, tuple[dict[str, Any], timedelta, str]] = {
    "half of its time is over": ({}, timedelta(days=3, hours=12), "cron has not renewed it"),
    "it has ended": ({}, 8 * DAY, "cron has not renewed it"),
    "it speaks of another keyset": (
        {"release": released(first(lifetime=80 * DAY), None)},
        timedelta(0),
        "and 1.1 is the newest",
    ),
    "there is none": ({"release": None}, timedelta(0), "there is no release"),
}


@pytest.mark.parametrize(("changes", "late", "words"), RELEASES.values(), ids=RELEASES)
def test_a_release_that_nobody_renews_is_an_alarm(
    changes: dict[str, Any], late: timedelta, words: str
) -> None:
    """With the time at which every card ends with it."""
    (finding,) = found(known(**changes), NOW + late)

    assert (finding.code, finding.severity) == ("doctor.release_due", "error")
    assert words in finding.message
    if "cron" in words:
        assert f"ends at {second(NOW + 7 * DAY)}" in finding.message


def test_a_release_is_no_alarm_before_half_of_its_life_is_over() -> None:
    """Who asks for two weeks is told of its end, which cron will see to."""
    early = NOW + timedelta(days=3, hours=11)

    assert found(known(), early) == []
    (finding,) = found(known(), early, 14 * DAY)
    assert (finding.code, finding.severity) == ("doctor.release_due", "note")


def test_a_keyset_is_an_alarm_when_a_third_of_its_life_is_left() -> None:
    """Or so long before as somebody asks for; the date is that of its end."""
    fresh = released(keyset(), None, now=NOW + 57 * DAY)
    due = NOW + 60 * DAY
    assert found(known(release=fresh), due - timedelta(seconds=1)) == [], "not yet"

    (now,) = found(known(release=released(keyset(), None, now=due)), due)
    (soon, _) = found(known(release=fresh), NOW + 57 * DAY, 14 * DAY)

    for finding in (now, soon):
        assert (finding.code, finding.severity) == ("doctor.keyset_due", "error")
        assert f"no card is trusted from {second(NOW + 90 * DAY)} on" in finding.message
    assert "keyset 1.2 now" in now.message
    assert "keyset 1.2 from" in soon.message


def test_a_key_that_no_keyset_lists_is_an_alarm() -> None:
    """It is not used before; and a revoked one is revoked for the time of a release only."""
    added = replace(STATE, keys=(*STATE.keys, replace(online("card2", "card"), state="generated")))

    (finding,) = found(known(state=added), NOW + DAY)

    assert finding.code == "doctor.keyset_due"
    assert issuing.thumbprint("card2") in finding.message


@pytest.mark.parametrize(("signers", "words"), [((), "2 more"), (("ann",), "1 more")])
def test_a_draft_that_waits_is_an_alarm(signers: tuple[str, ...], words: str) -> None:
    """It says how many holders are missing, and where it lies."""
    added = replace(STATE, keys=(*STATE.keys, replace(online("card2", "card"), state="generated")))
    drafted = draft_if_due(added, keyset(), None, now=NOW + DAY)
    assert drafted is not None
    data = write_draft(drafted[0])
    if signers:
        payload = drafted[0].envelope.payload
        data = sign_statement(payload, [key(name) for name in signers], TYP_KEYSET)

    waiting = known(state=added, untrusted_draft=data, draft_file="next.json")
    (finding,) = found(waiting, NOW + DAY)

    assert (finding.code, finding.severity, finding.path) == (
        "doctor.draft_waits",
        "error",
        "next.json",
    )
    assert words in finding.message
    stale = known(state=added, untrusted_draft=b"{}", draft_file="next.json")
    assert [one.code for one in found(stale, NOW + DAY)] == ["doctor.keyset_due"]


def test_a_listed_key_that_nobody_prolongs_is_an_alarm() -> None:
    """Two weeks before it ends; one that lasts as long as its keyset is renewed with it."""
    ours = keyset().keys[0]

    def looked(days: int, now: datetime) -> list[str]:
        short = replace(ours, exp=int((NOW + days * DAY).timestamp()))
        listed = replace(keyset(), keys=(short, *keyset().keys[1:]))
        told = coming_findings(known(keyset=listed), DEFAULT_SETTINGS, now, timedelta(0))
        return [one.message for one in told if one.code == "doctor.key_ends"]

    assert looked(40, NOW + 26 * DAY - timedelta(seconds=1)) == []
    until = f"counts until {second(NOW + 40 * DAY)}"
    for days in (26, 41):
        assert [until in message for message in looked(40, NOW + days * DAY)] == [True]
    assert looked(90, NOW + 89 * DAY) == []


def extended(ends: datetime) -> bytes:
    """An extended card."""
    marker = ExtendedMarker("a" * 32, 7, int(ends.timestamp()))
    return json.dumps(with_marker(PORTABLE, marker)).encode()


CARDS: dict[str, tuple[int, int, bool, list[str]]] = {
    "long before its end": (90, 75, True, []),
    "two weeks before": (90, 76, True, ["error"]),
    "a short one in its third quarter": (8, 5, True, []),
    "a short one in its last": (8, 6, True, ["error"]),
    "one that nobody has published": (90, 76, False, []),
    "at its end": (90, 90, False, ["error"]),
}


@pytest.mark.parametrize(("days", "late", "is_live", "levels"), CARDS.values(), ids=CARDS)
def test_an_extended_card_that_ends_is_an_alarm(
    days: int, late: int, is_live: bool, levels: list[str]
) -> None:
    """In time to sign it again; the public card beside it never ends."""
    data = extended(NOW + days * DAY)
    files = {"card.json": json.dumps(PORTABLE).encode(), "extended.json": data}
    state = STATE
    if is_live:
        card = PublishedCard("extended.json", card_digest(data), ("card",))
        state = replace(STATE, publications=(Publication(1, NOW, 60, ("card",), (card,)),))

    looked = found(Examined(state, untrusted_cards=files), NOW + late * DAY - DAY / 24)
    assert [one for one in looked if one.code == "doctor.card_ends" and late == 90] == []
    looked = found(Examined(state, untrusted_cards=files), NOW + late * DAY)
    ends = [one for one in looked if one.code == "doctor.card_ends"]
    assert [one.severity for one in ends] == levels
    end = second(NOW + days * DAY)
    assert all(one.path == "extended.json" and end in one.message for one in ends)


def test_an_extended_card_is_foreseen_by_who_asks() -> None:
    """Also if nobody has published it, and one that cannot be read is not passed over."""
    data = {"extended.json": extended(NOW + 30 * DAY)}
    assert found(Examined(STATE, untrusted_cards=data), NOW, 29 * DAY) == []
    (soon,) = found(Examined(STATE, untrusted_cards=data), NOW, 30 * DAY)
    assert (soon.code, soon.severity) == ("doctor.card_ends", "error")
    (broken,) = found(Examined(STATE, untrusted_cards={"x.json": b"{"}), NOW)
    assert (broken.code, broken.path) == ("doctor.card_ends", "x.json")


def test_a_draft_says_until_when_it_can_be_signed() -> None:
    """A third before its own end the next one is drafted in its place."""
    added = replace(STATE, keys=(*STATE.keys, replace(online("card2", "card"), state="generated")))
    drafted = draft_if_due(added, keyset(), None, now=NOW + DAY)
    assert drafted is not None
    waiting = known(state=added, untrusted_draft=write_draft(drafted[0]), draft_file="next.json")

    (finding,) = found(waiting, NOW + DAY)

    stale = datetime.fromtimestamp(drafted[0].iat, UTC) + 60 * DAY
    assert finding.code == "doctor.draft_waits"
    assert f"From {stale:%Y-%m-%d %H:%M:%S} UTC on another is drafted" in finding.message
    assert "doctor.draft_waits" not in [one.code for one in found(waiting, stale)]


def test_a_clock_behind_a_statement_is_an_alarm() -> None:
    """By more than the skew."""
    (finding,) = found(known(), NOW - timedelta(seconds=301))

    assert (finding.code, finding.severity) == ("doctor.clock", "error")
    assert found(known(), NOW - timedelta(seconds=300)) == []


def pair(custody: str | None) -> StoreState:
    """`one` is active, `two` prepublished in some custody."""
    state = enter(EMPTY, public("one"), now=NOON)
    return enter(state, public("two"), now=NOON, custody=custody)


STANDBYS: dict[str, tuple[StoreState, str | None]] = {
    "there is none": (enter(EMPTY, public("one"), now=NOON), "there is no standby"),
    "it lies beside the key": (pair(None), "each standby is in the same custody"),
    "it lies elsewhere": (pair(PROGRAM), None),
}


@pytest.mark.parametrize(("state", "words"), STANDBYS.values(), ids=STANDBYS)
def test_a_key_that_nothing_could_replace_is_noted(state: StoreState, words: str | None) -> None:
    """Nobody has to act today; on the day of a theft it is too late."""
    looked = coming_findings(Examined(state), DEFAULT_SETTINGS, NOON, timedelta(0))
    notes = [one for one in looked if one.code == "doctor.no_standby"]

    assert [(note.severity, str(words) in note.message) for note in notes] == (
        [("note", True)] if words else []
    )


def test_cards_that_hold_up_a_rotation_are_an_alarm_once_the_old_key_is_done() -> None:
    """Before that there is time; what a revoked key has signed cannot wait."""
    state = record(pair(None), published(NOON, ["one", "two"], ["one"]))
    active = do(state, "activate", "two", 210)
    revoked = revoke(state, "one", "superseded")

    def levels(state: StoreState, second: int) -> list[tuple[str, str]]:
        looked = found(Examined(state), after(second))
        return [(one.severity, one.path) for one in looked if one.code == "doctor.cards_unsigned"]

    card = "https://tides.example/a2a"
    assert levels(state, 209) == []
    assert levels(active, 300) == [("note", card)]
    assert levels(active, 470) == [("error", card)]
    assert levels(revoked, 2) == [("error", card)]


def test_who_holds_nothing_but_a_root_has_no_release_to_renew() -> None:
    """A holder of a release key has."""
    roots = replace(STATE, keys=tuple(one for one in STATE.keys if "release" not in one.roles))
    late = NOW + 4 * DAY

    codes = [one.code for one in found(known(release=None), late)]
    assert "doctor.release_due" in codes
    codes = [one.code for one in found(known(state=roots, release=None), late)]
    assert "doctor.release_due" not in codes
