"""The strict URL grammar: what may be compared with a trusted origin at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import CardRefused
from cardsign.urls import (
    MAX_URL_LENGTH,
    Origin,
    interface_url,
    parse_origin,
    parse_url,
    without_passwords,
)

URLS: dict[str, tuple[str, Origin, str, str]] = {
    "a host": ("https://a.example", Origin("https", "a.example", 443), "/", ""),
    "its default port": ("https://a.example:443/", Origin("https", "a.example", 443), "/", ""),
    "another port": ("https://a.example:8443/x", Origin("https", "a.example", 8443), "/x", ""),
    "http": ("http://a.example/x", Origin("http", "a.example", 80), "/x", ""),
    "the greatest port": ("https://a.example:65535", Origin("https", "a.example", 65535), "/", ""),
    "a path and a query": (
        "https://a.example/a2a/v1,x=1/@me:2?q=%2e%2F&r=/../",
        Origin("https", "a.example", 443),
        "/a2a/v1,x=1/@me:2",
        "?q=%2e%2F&r=/../",
    ),
    "an escape in the path": (
        "https://a.example/caf%C3%A9",
        Origin("https", "a.example", 443),
        "/caf%C3%A9",
        "",
    ),
    "an escape of what no path can hold": (
        "https://a.example/two%20words%3F",
        Origin("https", "a.example", 443),
        "/two%20words%3F",
        "",
    ),
    "dots inside a segment": (
        "https://a.example/.well-known/a..b/...",
        Origin("https", "a.example", 443),
        "/.well-known/a..b/...",
        "",
    ),
    "a name in Punycode": (
        "https://xn--mnchen-3ya.example",
        Origin("https", "xn--mnchen-3ya.example", 443),
        "/",
        "",
    ),
    "an address": ("http://127.0.0.1:8080", Origin("http", "127.0.0.1", 8080), "/", ""),
    "an IPv6 address, compressed": (
        "https://[2001:db8:0:0::1]:8443/x",
        Origin("https", "[2001:db8::1]", 8443),
        "/x",
        "",
    ),
    "a label of digits within a name": (
        "https://1.2.example",
        Origin("https", "1.2.example", 443),
        "/",
        "",
    ),
    "a single label": ("http://localhost", Origin("http", "localhost", 80), "/", ""),
}


@pytest.mark.parametrize(("text", "origin", "path", "query"), URLS.values(), ids=URLS)
def test_accepted(text: str, origin: Origin, path: str, query: str) -> None:
    """Read into its origin, path and query."""
    url = parse_url(text)

    assert (url.origin, url.path, url.query) == (origin, path, query)


REFUSED = {
    "nothing": "",
    "no scheme": "a.example",
    "a relative one": "//a.example/x",
    "another scheme": "ftp://a.example",
    "a scheme in capitals": "HTTPS://a.example",
    "a script": "javascript:alert(1)//https://a.example",
    "one slash": "https:/a.example",
    "no host": "https:///x",
    "a host in capitals": "https://A.example",
    "userinfo": "https://a.example@evil.example",
    "an empty userinfo": "https://@evil.example",
    "a password": "https://u:p@evil.example/",
    "a backslash": "https://a.example\\@evil.example",
    "a backslash for the slashes": "https:\\\\evil.example",
    "a tab in the host": "https://a.exa\tmple",
    "a tab before": "\thttps://a.example",
    "a newline behind": "https://a.example\n",
    "a space": "https://a.example/a b",
    "a NUL": "https://a.example/\0",
    "a fragment": "https://a.example/#x",
    "a fragment without path": "https://a.example#@evil.example",
    "a non-ASCII host": "https://\u0430.example",
    "a full-width dot": "https://a\uff0eexample",
    "a full-width digit in the port": "https://a.example:\uff14\uff14\uff13",
    "a trailing dot": "https://a.example.",
    "an empty label": "https://a..example",
    "a leading hyphen": "https://-a.example",
    "a trailing hyphen": "https://a-.example",
    "an underscore": "https://a_b.example",
    "a label of 64": f"https://{'a' * 64}.example",
    "an empty port": "https://a.example:/x",
    "port 0": "https://a.example:0",
    "a port with a leading zero": "https://a.example:0443",
    "a port beyond 65535": "https://a.example:65536",
    "a dot segment": "https://a.example/x/../y",
    "a single dot": "https://a.example/./y",
    "a trailing dot segment": "https://a.example/x/..",
    "an escaped dot": "https://a.example/%2e%2E/y",
    "an escaped slash": "https://a.example/x%2Fy",
    "a dot segment with parameters": "https://a.example/x/..;/y",
    "a dot segment with parameters at the end": "https://a.example/x/..;v=1",
    "an escape that is escaped": "https://a.example/x/%252e%252e/y",
    "an escaped tab": "https://a.example/x%09/y",
    "an escaped delete": "https://a.example/x%7F",
    "an escaped backslash": "https://a.example/x%5cy",
    "half an escape": "https://a.example/%e",
    "a letter that is escaped": "https://a.example/%61lice/",
    "a comma that is escaped": "https://a.example/a%2Cb",
    "an escape in small digits": "https://a.example/caf%c3%a9",
    "an empty segment": "https://a.example//alice/",
    "an empty segment at the end": "https://a.example/alice//",
    "parameters of a segment": "https://a.example/alice;x/",
    "parameters that are escaped": "https://a.example/alice%3Bx/",
    "an address of version 4 as version 6": "https://[::ffff:127.0.0.1]",
    "an address as one number": "http://2130706433",
    "an address in hex": "http://0x7f000001",
    "a hex part at the end": "http://127.0.0.0x1",
    "an address of three parts": "http://127.0.1",
    "an octal part": "http://0177.0.0.1",
    "an address beyond its range": "http://256.0.0.1",
    "an IPv6 zone": "http://[fe80::1%25eth0]",
    "no IPv6 address": "http://[a.example]",
    "an unclosed bracket": "http://[::1",
    "a template": "{{BASE_URL}}/a2a",
    "a template in the path": "https://a.example/{id}",
    "too long": "https://a.example/" + "a" * MAX_URL_LENGTH,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    """Whatever two parsers could read differently is not interpreted."""
    with pytest.raises(CardRefused) as caught:
        parse_url(text)
    assert caught.value.code == "card.interface_url"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("https://Weather.example/a", "Write https://weather.example/a"),
        (f"https://Weather.example/{'a' * 90}", f"Write https://weather.example/{'a' * 90}"),
        ("https://Weather.example/".ljust(MAX_URL_LENGTH + 1, "a"), ""),
        ("weather.example", "Write it with its scheme: https://weather.example"),
        (f"weather.example/{'a' * 90}", ""),
    ],
)
def test_no_hint_offers_a_url_that_was_cut(text: str, hint: str) -> None:
    """It would be another one."""
    with pytest.raises(CardRefused) as caught:
        parse_url(text)
    assert (hint in caught.value.hint) if hint else ("Write" not in caught.value.hint)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at (https://me:pw@a.example/x).", "at (https://...@a.example/x)."),
        ("https://token@a.example/ failed", "https://...@a.example/ failed"),
        ("postgresql://me:pw@db.example/x", "postgresql://...@db.example/x"),
        ("postgresql://me@db.example/x", "postgresql://me@db.example/x"),
        ("(https://a.example/@me)", "(https://a.example/@me)"),
        ("me@a.example, see https://a.example", "me@a.example, see https://a.example"),
    ],
)
def test_a_text_is_shown_without_the_passwords_of_its_urls(text: str, shown: str) -> None:
    """A user name alone may be a token, but not where a database is."""
    assert without_passwords(text) == shown


def test_the_longest_url() -> None:
    """The limit itself passes."""
    parse_url("https://a.example/".ljust(MAX_URL_LENGTH, "a"))


def test_an_origin_is_no_more_than_that() -> None:
    """A slash may follow, nothing else."""
    assert parse_origin("https://a.example/") == parse_origin("https://a.example:443")
    for text in ("https://a.example/x", "https://a.example?x", "https://a.example/?x", "a.example"):
        with pytest.raises(CardRefused):
            parse_origin(text)


def test_an_origin_as_text() -> None:
    """The default port is left out, another shown; what is printed can be read again."""
    for text in ("https://a.example", "http://a.example:443", "https://[::1]:8443"):
        assert str(parse_origin(text)) == text
    assert str(parse_url("https://a.example:443/x?y")) == "https://a.example/x?y"


INTERFACES: dict[str, tuple[str, str, str | None]] = {
    "a url": ("https://a.example/x", "JSONRPC", "https://a.example"),
    "a url by GRPC": ("https://a.example:50051", "GRPC", "https://a.example:50051"),
    "an authority by GRPC": ("a.example:50051", "GRPC", "https://a.example:50051"),
    "an authority by grpc in small letters": ("a.example:443", "grpc", "https://a.example"),
    "an IPv6 authority by GRPC": ("[::1]:50051", "GRPC", "https://[::1]:50051"),
    "an authority by another transport": ("a.example:50051", "JSONRPC", None),
    "an authority by none": ("a.example:50051", "", None),
    "an authority without port": ("a.example", "GRPC", None),
    "an authority with a path": ("a.example:50051/x", "GRPC", None),
    "an authority with userinfo": ("a.example@evil.example:443", "GRPC", None),
    "a gRPC name scheme": ("dns:///a.example:50051", "GRPC", None),
    "an authority beyond the ports": ("a.example:65536", "GRPC", None),
}


@pytest.mark.parametrize(("url", "binding", "origin"), INTERFACES.values(), ids=INTERFACES)
def test_the_origin_of_an_interface(url: str, binding: str, origin: str | None) -> None:
    """`host:port` is what GRPC clients are given; nobody else may be."""
    if origin is None:
        with pytest.raises(CardRefused):
            interface_url(url, binding)
    else:
        assert str(interface_url(url, binding).origin) == origin


@given(st.text(max_size=40))
def test_any_text_at_all(text: str) -> None:
    """Read or refused, never an error of another kind."""
    for candidate in (text, "https://" + text, "https://a.example" + text):
        try:
            url = parse_url(candidate)
        except CardRefused:
            continue
        assert parse_url(str(url)) == url
