"""The strict URL grammar: what may be compared with a trusted origin at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import CardRefused
from cardsign.urls import (
    MAX_URL_LENGTH,
    interface_url,
    parse_origin,
    parse_url,
    without_passwords,
)

#: A URL, its scheme, host and port, and its path with its query.
URLS = """
https://a.example                      https a.example 443               /
https://a.example:443/                 https a.example 443               /
https://a.example:8443/x               https a.example 8443              /x
http://a.example/x                     http  a.example 80                /x
https://a.example:65535                https a.example 65535             /
https://a.example/a2a/v1,x=1/@me:2?q=%2e%2F&r=/../ https a.example 443   /a2a/v1,x=1/@me:2 ?q=%2e%2F&r=/../
https://a.example/caf%C3%A9            https a.example 443               /caf%C3%A9
https://a.example/two%20words%3F       https a.example 443               /two%20words%3F
https://a.example/.well-known/a..b/... https a.example 443               /.well-known/a..b/...
https://xn--mnchen-3ya.example         https xn--mnchen-3ya.example 443  /
http://127.0.0.1:8080                  http  127.0.0.1 8080              /
https://[2001:db8:0:0::1]:8443/x       https [2001:db8::1] 8443          /x
https://1.2.example                    https 1.2.example 443             /
http://localhost                       http  localhost 80                /
"""  # noqa: E501  a row is one case


@pytest.mark.parametrize("row", URLS.strip().split("\n"))
def test_accepted(row: str) -> None:
    """Read into its origin, path and query."""
    text, scheme, host, port, path, *query = row.split()
    url = parse_url(text)
    assert (url.origin.scheme, url.origin.host, url.origin.port) == (scheme, host, int(port))
    assert (url.path, url.query) == (path, "".join(query))


A = "https://a.example"
REFUSED = [
    # no scheme, another one, or one that is written otherwise; no host, or user information
    *("", "a.example", "//a.example/x", "ftp://a.example", "HTTPS://a.example", "https:/a.example"),
    *("javascript:alert(1)//https://a.example", "https:///x", "https://A.example"),
    *("https://a.example@evil.example", "https://@evil.example", "https://u:p@evil.example/"),
    # what one reader takes for the end of the host, or drops
    *("https://a.example\\@evil.example", "https:\\\\evil.example", "https://a.exa\tmple"),
    *("\thttps://a.example", f"{A}\n", f"{A}/a b", f"{A}/\0", f"{A}/#x", f"{A}#@evil.example"),
    *("https://\u0430.example", "https://a\uff0eexample", f"{A}:\uff14\uff14\uff13"),
    # labels and ports
    *("https://a.example.", "https://a..example", "https://-a.example", "https://a-.example"),
    *("https://a_b.example", f"https://{'a' * 64}.example", f"{A}:/x", f"{A}:0", f"{A}:0443"),
    f"{A}:65536",
    # dots and slashes in the path, written in every way; an escape that is none, or not needed
    *(f"{A}/x/../y", f"{A}/./y", f"{A}/x/..", f"{A}/%2e%2E/y", f"{A}/x%2Fy", f"{A}/x/..;/y"),
    *(f"{A}/x/..;v=1", f"{A}/x/%252e%252e/y", f"{A}/x%09/y", f"{A}/x%7F", f"{A}/x%5cy", f"{A}/%e"),
    *(f"{A}/%61lice/", f"{A}/a%2Cb", f"{A}/caf%c3%a9", f"{A}//alice/", f"{A}/alice//"),
    *(f"{A}/alice;x/", f"{A}/alice%3Bx/"),
    # addresses in other forms
    *("https://[::ffff:127.0.0.1]", "http://2130706433", "http://0x7f000001", "http://127.0.0.0x1"),
    *("http://127.0.1", "http://0177.0.0.1", "http://256.0.0.1", "http://[fe80::1%25eth0]"),
    *("http://[a.example]", "http://[::1"),
    # a template, and what is too long
    *("{{BASE_URL}}/a2a", f"{A}/{{id}}", f"{A}/" + "a" * MAX_URL_LENGTH),
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:60]))
def test_refused(text: str) -> None:
    """Whatever two parsers could read differently is not interpreted."""
    with pytest.raises(CardRefused) as caught:
        parse_url(text)
    assert caught.value.code == "card.interface_url"
    assert len(caught.value.message) < 400


SHOWN = [
    ("at (https://me:pw@a.example/x).", "at (https://...@a.example/x)."),
    ("https://token@a.example/ failed", "https://...@a.example/ failed"),
    ("postgresql://me:pw@db.example/x", "postgresql://...@db.example/x"),
    ("postgresql://me@db.example/x", "postgresql://me@db.example/x"),
    ("(https://a.example/@me)", "(https://a.example/@me)"),
    ("me@a.example, see https://a.example", "me@a.example, see https://a.example"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
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


#: The URL of an interface, its binding, and its origin; "-" for none.
INTERFACES = """
https://a.example/x          JSONRPC  https://a.example
https://a.example:50051      GRPC     https://a.example:50051
a.example:50051              GRPC     https://a.example:50051
a.example:443                grpc     https://a.example
[::1]:50051                  GRPC     https://[::1]:50051
a.example:50051              JSONRPC  -
a.example:50051              ""       -
a.example                    GRPC     -
a.example:50051/x            GRPC     -
a.example@evil.example:443   GRPC     -
dns:///a.example:50051       GRPC     -
a.example:65536              GRPC     -
"""


@pytest.mark.parametrize("row", INTERFACES.strip().split("\n"))
def test_the_origin_of_an_interface(row: str) -> None:
    """`host:port` is what GRPC clients are given; nobody else may be."""
    url, binding, origin = row.split()
    binding = binding.strip('"')
    if origin == "-":
        with pytest.raises(CardRefused):
            interface_url(url, binding)
    else:
        assert str(interface_url(url, binding).origin) == origin


@given(st.text(max_size=40))
def test_any_text_at_all(text: str) -> None:
    """Read or refused, never an error of another kind."""
    for candidate in (text, "https://" + text, A + text):
        try:
            url = parse_url(candidate)
        except CardRefused:
            continue
        assert parse_url(str(url)) == url
