"""`sign --extended` and `publish --extended`: the options, the dates, the way between the two."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cardsign.card.document import Card
from cardsign.card.extensions import find_marker
from cardsign.cli.sign import read_marker
from cardsign.errors import UsageFault
from cardsign.issuer.cards import MAX_LIFETIME
from cardsign.keys.store import FolderStore
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE

NOW = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
IN_TIME = f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}"


def expiry(text: str) -> datetime:
    """The first second at which a card has expired."""
    marker = read_marker("staff", 1, text, NOW)
    assert marker is not None
    return datetime.fromtimestamp(marker.exp, UTC)


# ------------------------------------------------------------------ the date

DATES = {
    "a date is that whole day": ("2027-01-31", datetime(2027, 2, 1, tzinfo=UTC)),
    "a time is in UTC": ("2027-01-31T18:00:00", datetime(2027, 1, 31, 18, tzinfo=UTC)),
    "a time elsewhere": ("2027-01-31T18:00:00+02:00", datetime(2027, 1, 31, 16, tzinfo=UTC)),
    "the next second": ("2026-11-22T10:30:01", NOW + timedelta(seconds=1)),
    "400 days ahead": ("2027-12-27T10:30:00", NOW + MAX_LIFETIME),
}


@pytest.mark.parametrize(("text", "moment"), DATES.values(), ids=DATES)
def test_a_date_is_read(text: str, moment: datetime) -> None:
    """ISO 8601, to the second."""
    assert expiry(text) == moment


NO_DATES = {
    "this very second": ("2026-11-22T10:30:00", "is past"),
    "the year 1": ("0001-01-01T00:00:00+14:00", "is past"),
    "a second beyond 400 days": ("2027-12-27T10:30:01", "more than 400 days ahead"),
    "the day that ends beyond 400 days": ("2027-12-27", "more than 400 days ahead"),
    "the end of all calendars": ("9999-12-31", "more than 400 days ahead"),
    "a day that is none": ("2027-02-29", "takes an ISO date"),
    "a word": ("tomorrow", "takes an ISO date"),
}


@pytest.mark.parametrize(("text", "words"), NO_DATES.values(), ids=NO_DATES)
def test_a_date_that_is_no_use_is_refused(text: str, words: str) -> None:
    """What has ended, and what would outlive the keys that sign it."""
    with pytest.raises(UsageFault, match=words) as refused:
        expiry(text)

    assert refused.value.code == "usage.invalid"


# ------------------------------------------------------------------ the command


def test_what_is_marked_can_be_published_and_what_is_not_cannot(
    cardsign: Cardsign, keystore: FolderStore
) -> None:
    """From `sign --extended` to `publish --extended`, under the same name alone."""
    public = {**PORTABLE, "capabilities": {"extendedAgentCard": True}}
    Path("public.json").write_text(json.dumps(public))
    Path("more.json").write_text(json.dumps({**public, "description": "Says more"}))
    marks = ("--extended", "staff", "--seq", 1, "--expires", IN_TIME)
    for name, options in {"public": (), "more": marks}.items():
        assert cardsign("sign", f"{name}.json", "-o", f"{name}.json", *options).status == 0
    assert cardsign("sign", "public.json", "-o", "unmarked.json").status == 0

    marker = find_marker(Card.from_bytes(Path("more.json").read_bytes()).document)
    assert marker is not None
    assert (marker.audience, marker.seq) == ("staff", 1)
    refused = cardsign("publish", "public.json", "--extended", "staff=unmarked.json", "-o", "pub")
    assert (refused.status, " extended.not_marked: " in refused.err) == (1, True)
    assert not Path("pub").exists()
    done = cardsign("publish", "public.json", "--extended", "staff=more.json", "-o", "pub")
    assert done.status == 0, done.err
