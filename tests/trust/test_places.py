"""Places: an origin, or a path below one, and what lies there."""

from __future__ import annotations

import pytest

from cardsign.errors import CardRefused
from cardsign.urls import may_stand_at, parse_place, parse_url

INSIDE = {
    "the origin itself": ("https://a.example", "https://a.example"),
    "a query": ("https://a.example", "https://a.example/?x=1"),
    "the default port": ("https://a.example", "https://a.example:443/x"),
    "another port that is the place's": ("https://a.example:8443", "https://a.example:8443/"),
    "below the path": ("https://a.example/ann", "https://a.example/ann/card.json"),
    "the path itself": ("https://a.example/ann", "https://a.example/ann"),
    "the path without the slash of the place": ("https://a.example/ann/", "https://a.example/ann"),
}
OUTSIDE = {
    "a host that begins alike": ("https://a.example", "https://a.example.evil.example/"),
    "http": ("https://a.example", "http://a.example/"),
    "another port": ("https://a.example", "https://a.example:8443/"),
    "a path that begins alike": ("https://a.example/ann", "https://a.example/anna"),
    "a file that begins alike": ("https://a.example/ann", "https://a.example/ann.json"),
    "the root": ("https://a.example/ann", "https://a.example/"),
    "a path in capitals": ("https://a.example/ann", "https://a.example/Ann/"),
    "the path in a query": ("https://a.example/ann", "https://a.example/?/ann/"),
}


@pytest.mark.parametrize(("place", "url"), INSIDE.values(), ids=INSIDE)
def test_what_lies_there(place: str, url: str) -> None:
    """The prefix ends where a name of the path ends."""
    assert parse_place(place).holds(parse_url(url))


@pytest.mark.parametrize(("place", "url"), OUTSIDE.values(), ids=OUTSIDE)
def test_what_does_not(place: str, url: str) -> None:
    """Neither another origin nor a path that only begins alike."""
    assert not parse_place(place).holds(parse_url(url))


@pytest.mark.parametrize(
    ("text", "shown", "whole"),
    [
        ("https://a.example", "https://a.example", True),
        ("https://a.example/", "https://a.example", True),
        ("https://a.example:443", "https://a.example", True),
        ("https://a.example/ann", "https://a.example/ann/", False),
        ("https://a.example/ann/", "https://a.example/ann/", False),
    ],
)
def test_a_place_has_one_spelling(text: str, shown: str, whole: bool) -> None:
    """What it shows reads as the same place."""
    place = parse_place(text)

    assert (str(place), place.is_whole_origin) == (shown, whole)
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        "https://a.example/?x=1",
        "https://a.example/#x",
        "a.example",
        "https://a.example/../b",
        "https://ann@a.example/",
        "",
    ],
)
def test_what_is_no_place(text: str) -> None:
    """The strict grammar of urls, and no query."""
    with pytest.raises(CardRefused) as refused:
        parse_place(text)
    assert refused.value.code == "card.interface_url"


A, ANN = "https://a.example", "https://a.example/ann"
OWNED: dict[str, tuple[list[str], list[str], bool]] = {
    "one's own": ([A], ["https://b.example"], True),
    "another's within one's own": ([A], [ANN], False),
    "one's own within another's": ([ANN], [A], True),
    "of equal breadth": ([ANN], [ANN], True),
    "nobody's": ([ANN + "e"], [], False),
    "another's in capitals": ([A], ["https://a.example/ANN"], False),
    "another's that only begins alike": ([A], ["https://a.example/AN"], True),
}


@pytest.mark.parametrize("path", ["/%61nn/a2a", "//ann/a2a", "/ann;x/a2a", "/./ann", "/ANN/a2a"])
def test_no_other_spelling_of_anothers_place(path: str) -> None:
    """What some server reads as a reserved place is refused, or reserved as well (S10)."""
    own, reserved = (parse_place(A),), (parse_place(ANN),)
    try:
        url = parse_url(A + path)
    except CardRefused:
        return
    assert not may_stand_at(url, own, reserved)


@pytest.mark.parametrize(("own", "reserved", "may"), OWNED.values(), ids=OWNED)
def test_the_narrowest_place_counts(own: list[str], reserved: list[str], may: bool) -> None:
    """On a shared host the agents of several issuers lie below one origin."""
    places = [tuple(map(parse_place, one)) for one in (own, reserved)]

    assert may_stand_at(parse_url(ANN + "/a2a"), *places) == may
