"""The strict URL grammar: what may be compared with a trusted origin at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import CardRefused
from cardsign.urls import MAX_URL_LENGTH, interface_url, parse_origin, parse_url, without_passwords
from tests.support import read_cases

A = "https://a.example"
CASES = read_cases(__file__)


@pytest.mark.parametrize(("text", "parts"), CASES["url"].items())
def test_accepted(text: str, parts: list[Any]) -> None:
    """Read into its origin, path and query."""
    url = parse_url(text)
    origin = url.origin
    assert [origin.scheme, origin.host, origin.port, url.path, url.query] == parts


REFUSED = [text for texts in CASES["refused"].values() for text in texts]
TOO_LONG = [f"https://{'a' * 64}.example", f"{A}/" + "a" * MAX_URL_LENGTH]


@pytest.mark.parametrize("text", REFUSED + TOO_LONG, ids=lambda text: ascii(text[:60]))
def test_refused(text: str) -> None:
    """Whatever two parsers could read differently is not interpreted."""
    with pytest.raises(CardRefused) as caught:
        parse_url(text)
    assert caught.value.code == "card.interface_url"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(("text", "shown"), CASES["shown"].items())
def test_a_text_is_shown_without_the_passwords_of_its_urls(text: str, shown: str) -> None:
    """A user name alone may be a token, but not where a database is."""
    assert without_passwords(text) == shown


def test_the_longest_url() -> None:
    """The limit itself passes."""
    parse_url(f"{A}/".ljust(MAX_URL_LENGTH, "a"))


def test_an_origin_is_no_more_than_that() -> None:
    """A slash may follow, nothing else; what is printed can be read again, without 443."""
    assert parse_origin(f"{A}/") == parse_origin(f"{A}:443")
    for text in (f"{A}/x", f"{A}?x", f"{A}/?x", "a.example"):
        with pytest.raises(CardRefused):
            parse_origin(text)
    for text in (A, "http://a.example:443", "https://[::1]:8443"):
        assert str(parse_origin(text)) == text
    assert str(parse_url(f"{A}:443/x?y")) == f"{A}/x?y"


@pytest.mark.parametrize(("row", "origin"), CASES["interface"].items())
def test_the_origin_of_an_interface(row: str, origin: str) -> None:
    """`host:port` is what GRPC clients are given; nobody else may be."""
    url, binding = row.split(" ")
    if origin:
        assert str(interface_url(url, binding).origin) == origin
    else:
        with pytest.raises(CardRefused):
            interface_url(url, binding)


@given(st.text(max_size=40))
def test_any_text_at_all(text: str) -> None:
    """Read or refused, never an error of another kind."""
    for candidate in (text, "https://" + text, A + text):
        try:
            url = parse_url(candidate)
        except CardRefused:
            continue
        assert parse_url(str(url)) == url
