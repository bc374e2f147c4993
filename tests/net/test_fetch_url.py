"""Which URLs are asked at all: everything here is decided before a connection is made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peers import LOCAL, Names, NoDial

from cardsign.errors import FetchFailed
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, fetch_document

PUBLIC = "93.184.215.14"

# What else the grammar refuses is in tests/trust/test_origins.py.
ODD_URLS = {
    "nothing": "",
    "no scheme": "agent.example/card.json",
    "a file": "file:///etc/passwd",
    "a user and a password": "https://user:word@agent.example/",
    "an escaped @": "https://agent.example%40evil.example/",
    "another header": "https://agent.example/ HTTP/1.1\r\nX: y",
    "a compatibility letter": "https://agent.e\u2169ample/",
    "a partly hexadecimal address": "http://0x7f.1/",
    "a short address": "http://127.1/",
    "a host of 254 characters": f"https://{'a.' * 123}example0/",
}


@pytest.mark.parametrize("url", ODD_URLS.values(), ids=ODD_URLS)
def test_odd_urls(url: str) -> None:
    """What two parsers could read differently is neither resolved nor connected to."""
    names, dial = Names([PUBLIC]), NoDial()
    with pytest.raises(FetchFailed) as refused:
        fetch_document(url, replace(LOCAL, resolver=names, dial=dial))

    assert refused.value.code == "fetch.url"
    assert refused.value.message.isprintable()
    assert (names.asked, dial.asked) == ([], [])


GOOD_URLS = {
    "a host of 253 characters": (f"https://{'a.' * 123}example/", f"{'a.' * 123}example", 443),
    "a port": ("https://agent.example:8443/a?b=c", "agent.example", 8443),
}


@pytest.mark.parametrize(("url", "host", "port"), GOOD_URLS.values(), ids=GOOD_URLS)
def test_good_urls(url: str, host: str, port: int) -> None:
    """The honest twins get as far as the connection."""
    names, dial = Names([PUBLIC]), NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.failed: .*Connection refused"):
        fetch_document(url, FetchSettings(resolver=names, dial=dial))

    assert (names.asked, dial.asked) == ([host], [(PUBLIC, port)])


@pytest.mark.parametrize("host", ["agent.example", "127.0.0.1", "localhost"])
def test_plain_http(host: str) -> None:
    """Plain http is refused before anything is resolved."""
    names, dial = Names(["127.0.0.1"]), NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.url: .* is plain http") as refused:
        fetch_document(f"http://{host}/", FetchSettings(resolver=names, dial=dial))

    assert "--insecure-loopback-http" in refused.value.hint
    assert (names.asked, dial.asked) == ([], [])


def answers(*texts: str) -> Names:
    return Names(list(texts))


FORBIDDEN = {
    "a private literal": ("https://10.0.0.1/", answers(), DEFAULT_SETTINGS),
    "loopback over https": ("https://127.0.0.1/", answers(), DEFAULT_SETTINGS),
    "a name for loopback": ("https://agent.example/", answers("127.0.0.1"), DEFAULT_SETTINGS),
    "a name for metadata": ("https://a.example/", answers("169.254.169.254"), DEFAULT_SETTINGS),
    "one private before public": (
        "https://a.example/",
        answers("10.0.0.1", PUBLIC),
        DEFAULT_SETTINGS,
    ),
    "one private after public": (
        "https://a.example/",
        answers(PUBLIC, "10.0.0.1"),
        DEFAULT_SETTINGS,
    ),
    "private for a test": ("https://a.example/", answers("10.0.0.1"), LOCAL),
    "metadata for a test": ("http://169.254.169.254/", answers(), LOCAL),
    "plain http to a public name": ("http://a.example/", answers(PUBLIC), LOCAL),
    "plain http to both": ("http://a.example/", answers("127.0.0.1", PUBLIC), LOCAL),
}


@pytest.mark.parametrize(("url", "names", "settings"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden_addresses(url: str, names: Names, settings: FetchSettings) -> None:
    """A forbidden address is refused before any connection is made."""
    dial = NoDial()
    with pytest.raises(FetchFailed) as refused:
        fetch_document(url, replace(settings, resolver=names, dial=dial))

    assert refused.value.code == "fetch.forbidden_address"
    assert dial.asked == []


def test_rebinding() -> None:
    """A name that turns to loopback after its first answer is not asked a second time."""
    names, dial = Names([PUBLIC], ["127.0.0.1"]), NoDial()
    with pytest.raises(FetchFailed, match=r"fetch\.failed"):
        fetch_document("https://agent.example/", FetchSettings(resolver=names, dial=dial))

    assert names.asked == ["agent.example"]
    assert dial.asked == [(PUBLIC, 443)]


def test_loopback_hint() -> None:
    """Only where it would help is the way to a test server told."""
    hints = {}
    for host in ("127.0.0.1", "10.0.0.1"):
        with pytest.raises(FetchFailed) as refused:
            fetch_document(f"https://{host}/")
        hints[host] = refused.value.hint

    assert "--insecure-loopback-http" in hints["127.0.0.1"]
    assert "networks" in hints["10.0.0.1"]
