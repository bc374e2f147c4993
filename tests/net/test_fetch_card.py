"""Where a card lies: at the URL given, at the canonical path, or at the legacy one."""

from __future__ import annotations

import socket
from functools import partial

import pytest
from peers import CARD, LOCAL, http, serving

from cardsign.errors import FetchFailed
from cardsign.net.addresses import IPAddress
from cardsign.net.fetch import fetch_card
from cardsign.net.transport import tcp_dial

CANONICAL = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
OLD = b'{"name": "Tide tables, 0.2"}'


def paths(requests: list[bytes]) -> list[str]:
    return [request.split()[1].decode() for request in requests]


@pytest.mark.parametrize("end", ["", "/"])
def test_canonical_path(end: str) -> None:
    """A host is asked for its canonical card, and then for nothing else."""
    with serving({CANONICAL: http(), LEGACY: http(OLD)}) as peer:
        fetched = fetch_card(peer.url(end), policy=LOCAL)
    assert (fetched.url, fetched.body) == (peer.url(CANONICAL), CARD)
    assert paths(peer.requests) == [CANONICAL]


def test_legacy_path() -> None:
    """Where the canonical path answers 404 the legacy one is asked, and the answer says so."""
    with serving({LEGACY: http(OLD)}) as peer:
        fetched = fetch_card(peer.url("/"), policy=LOCAL)
    assert (fetched.url, fetched.body) == (peer.url(LEGACY), OLD)
    assert paths(peer.requests) == [CANONICAL, LEGACY]


@pytest.mark.parametrize("path", ["/agents/tides.json", "/?agent=tides", CANONICAL, LEGACY])
def test_exact_url(path: str) -> None:
    """A URL with a path or a query is asked as it is."""
    with serving({path: http()}) as peer:
        assert fetch_card(peer.url(path), policy=LOCAL).url == peer.url(path)
    assert paths(peer.requests) == [path]


def test_no_second_guess_for_an_exact_url() -> None:
    """A URL with a path that answers 404 has no card, whatever lies elsewhere."""
    elsewhere = {CANONICAL: http(), LEGACY: http()}
    with serving(elsewhere) as peer, pytest.raises(FetchFailed, match=r"/card\.json answered 404"):
        fetch_card(peer.url("/card.json"), policy=LOCAL)
    assert paths(peer.requests) == ["/card.json"]


@pytest.mark.parametrize("answer", ["301 Moved", "401 No", "403 No", "410 Gone", "500 Oh"])
def test_only_404_means_absent(answer: str) -> None:
    """No other refusal makes us read the legacy path, which somebody else may control."""
    answers, words = {CANONICAL: http(status=answer), LEGACY: http()}, f"answered {answer[:3]}"
    with serving(answers) as peer, pytest.raises(FetchFailed, match=words):
        fetch_card(peer.url("/"), policy=LOCAL)
    assert paths(peer.requests) == [CANONICAL]


def test_a_bad_canonical_answer_is_not_absent() -> None:
    """An HTML page with status 200 is refused, not passed over."""
    answers = {CANONICAL: http(content_type="text/html"), LEGACY: http()}
    with serving(answers) as peer, pytest.raises(FetchFailed, match=r"fetch\.content_type"):
        fetch_card(peer.url("/"), policy=LOCAL)
    assert paths(peer.requests) == [CANONICAL]


def test_neither_path() -> None:
    """Where both answer 404, both are named."""
    with serving({}) as peer, pytest.raises(FetchFailed) as refused:
        fetch_card(peer.url("/"), policy=LOCAL)
    assert refused.value.code == "fetch.status"
    assert CANONICAL in refused.value.message
    assert LEGACY in refused.value.message


@pytest.mark.parametrize(("seconds", "in_time"), [(4.9, True), (5.1, False)])
def test_one_deadline_for_both_paths(seconds: float, in_time: bool) -> None:
    """The time that the canonical path took is not given a second time."""
    now = 0.0

    def slow(address: IPAddress, port: int, timeout: float) -> socket.socket:
        nonlocal now
        now += seconds
        return tcp_dial(address, port, timeout)

    with serving({LEGACY: http()}) as peer:
        ask = partial(fetch_card, peer.url("/"), policy=LOCAL, clock=lambda: now, dial=slow)
        if in_time:
            assert ask().url == peer.url(LEGACY)
        else:
            with pytest.raises(FetchFailed, match=rf"fetch\.timeout: .*{LEGACY}"):
                ask()
