"""Places: an origin, or a path below one, and what lies there."""

from __future__ import annotations

import pytest

from cardsign.errors import CardRefused
from cardsign.urls import may_stand_at, parse_place, parse_url

A, ANN = "https://a.example", "https://a.example/ann"
#: A place, the URLs that lie there, and those that do not: another origin, or a path that only
#: begins alike.
PLACES: dict[str, tuple[list[str], list[str]]] = {
    A: (
        [A, f"{A}/?x=1", f"{A}:443/x"],
        [f"{A}.evil.example/", "http://a.example/", f"{A}:8443/"],
    ),
    f"{A}:8443": ([f"{A}:8443/"], [f"{A}/"]),
    ANN: (
        [f"{ANN}/card.json", ANN],
        [f"{A}/anna", f"{ANN}.json", f"{A}/", f"{A}/Ann/", f"{A}/?/ann/"],
    ),
    f"{ANN}/": ([ANN], [f"{A}/anna"]),
}


@pytest.mark.parametrize(("place", "urls"), PLACES.items(), ids=PLACES)
def test_what_lies_there(place: str, urls: tuple[list[str], list[str]]) -> None:
    """The prefix ends where a name of the path ends."""
    for url in urls[0]:
        assert parse_place(place).holds(parse_url(url)), url
    for url in urls[1]:
        assert not parse_place(place).holds(parse_url(url)), url


SPELT = [(A, A), (f"{A}/", A), (f"{A}:443", A), (ANN, f"{ANN}/"), (f"{ANN}/", f"{ANN}/")]


@pytest.mark.parametrize(("text", "shown"), SPELT)
def test_a_place_has_one_spelling(text: str, shown: str) -> None:
    """What it shows reads as the same place."""
    place = parse_place(text)
    assert (str(place), place.is_whole_origin) == (shown, shown == A)
    assert parse_place(str(place)) == place


NONE = [f"{A}/?x=1", f"{A}/#x", "a.example", f"{A}/../b", "https://ann@a.example/", ""]


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_place(text: str) -> None:
    """The strict grammar of urls, and no query."""
    with pytest.raises(CardRefused) as refused:
        parse_place(text)
    assert refused.value.code == "card.interface_url"


@pytest.mark.parametrize("path", ["/%61nn/a2a", "//ann/a2a", "/ann;x/a2a", "/./ann", "/ANN/a2a"])
def test_no_other_spelling_of_anothers_place(path: str) -> None:
    """What some server reads as a reserved place is refused, or reserved as well (S10)."""
    try:
        url = parse_url(A + path)
    except CardRefused:
        return
    assert not may_stand_at(url, (parse_place(A),), (parse_place(ANN),))


#: One's own places, those of others, and whether one may stand at `ANN`/a2a.
OWNED: dict[str, tuple[list[str] | None, list[str], bool]] = {
    "one's own": ([A], ["https://b.example"], True),
    "another's within one's own": ([A], [ANN], False),
    "one's own within another's": ([ANN], [A], True),
    "of equal breadth": ([ANN], [ANN], True),
    "nobody's": ([ANN + "e"], [], False),
    "another's in capitals": ([A], [f"{A}/ANN"], False),
    "another's that only begins alike": ([A], [f"{A}/AN"], True),
    "of one who may stand anywhere": (None, [ANN], True),
}


@pytest.mark.parametrize(("own", "reserved", "may"), OWNED.values(), ids=OWNED)
def test_the_narrowest_place_counts(own: list[str] | None, reserved: list[str], may: bool) -> None:
    """On a shared host the agents of several issuers lie below one origin."""
    mine = None if own is None else tuple(map(parse_place, own))
    others = tuple(map(parse_place, reserved))
    assert may_stand_at(parse_url(f"{ANN}/a2a"), mine, others) == may
