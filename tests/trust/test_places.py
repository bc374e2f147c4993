"""Places: an origin, or a path below one, and what lies there."""

from __future__ import annotations

import pytest

from cardsign.errors import CardRefused
from cardsign.urls import may_stand_at, parse_place, parse_url
from tests.support import each_case, read_cases

A, ANN = "https://a.example", "https://a.example/ann"
CASES = read_cases(__file__)


@pytest.mark.parametrize(("place", "urls"), CASES["holds"].items(), ids=CASES["holds"])
def test_what_lies_there(place: str, urls: list[list[str]]) -> None:
    """The prefix ends where a name of the path ends."""
    for url in urls[0]:
        assert parse_place(place).holds(parse_url(url)), url
    for url in urls[1]:
        assert not parse_place(place).holds(parse_url(url)), url


@pytest.mark.parametrize(("text", "shown"), CASES["spelled"])
def test_a_place_has_one_spelling(text: str, shown: str) -> None:
    """What it shows reads as the same place."""
    place = parse_place(text)
    assert (str(place), place.prefix == "/") == (shown, shown == A)
    assert parse_place(str(place)) == place


@pytest.mark.parametrize("text", CASES["no place"])
def test_what_is_no_place(text: str) -> None:
    """The strict grammar of urls, and no query."""
    with pytest.raises(CardRefused) as refused:
        parse_place(text)
    assert refused.value.code == "card.interface_url"


@pytest.mark.parametrize("path", CASES["respelled"])
def test_no_other_spelling_of_anothers_place(path: str) -> None:
    """What some server reads as a reserved place is refused, or reserved as well (S10)."""
    try:
        url = parse_url(A + path)
    except CardRefused:
        return
    assert not may_stand_at(url, (parse_place(A),), (parse_place(ANN),))


#: One's own places, those of others, and whether one may stand at `ANN`/a2a.
@each_case(__file__, "narrowest", "own", "reserved", "may")
def test_the_narrowest_place_counts(own: list[str] | None, reserved: list[str], may: bool) -> None:
    """On a shared host the agents of several issuers lie below one origin."""
    mine = None if own is None else tuple(map(parse_place, own))
    others = tuple(map(parse_place, reserved))
    assert may_stand_at(parse_url(f"{ANN}/a2a"), mine, others) == may
