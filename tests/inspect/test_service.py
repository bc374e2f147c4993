"""`inspect` of a URL: what is said of a server that does things wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from cardsign.errors import FetchFailed
from cardsign.inspect import Inspection, inspect_url
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.net import endpoints, fetch
from cardsign.trust.walk import FetchResult
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH
from tests.support import NOW, PORTABLE, dump, put, signed

ORIGIN = "https://tides.example"
CARD = put(PORTABLE, "/capabilities/extendedAgentCard", True)
GOOD = {"cache-control": "max-age=3600", "etag": '"abc"'}


@dataclass
class Server:
    """What tides.example answers, and which endpoints were asked for the extended card."""

    card: bytes
    keys: bytes
    headers: dict[str, str] = field(default_factory=lambda: dict(GOOD))
    path: str = CARD_PATH
    extended: bytes | None = None
    asked: list[str] = field(default_factory=list)

    def inspect(self) -> Inspection:
        """Inspect it."""
        return inspect_url(ORIGIN, now=NOW, fetch=fetch.DEFAULT_SETTINGS)

    def rules(self) -> set[str]:
        """What is found of the service."""
        return {finding.code for finding in self.inspect().service}


@pytest.fixture
def server(alice: PrivateKey, monkeypatch: pytest.MonkeyPatch) -> Server:
    """It serves a card that declares an extended one, its keys and good headers."""
    server = Server(dump(signed(CARD, alice)), JwkSet.of([alice.public]).to_bytes())

    def answer(path: str, body: bytes) -> FetchResult:
        return FetchResult(f"{ORIGIN}{path}", "found", body, headers=tuple(server.headers.items()))

    def keys(*_: object) -> FetchResult:
        if not server.keys:
            raise FetchFailed("fetch.status", "404")
        return answer("/.well-known/jwks.json", server.keys)

    def extended(endpoint: Any, credential: object, _: object) -> bytes:
        assert credential is None
        server.asked.append(str(endpoint.url))
        if server.extended is None:
            raise FetchFailed("fetch.status", "401")
        return server.extended

    monkeypatch.setattr(fetch, "fetch_card", lambda *_: answer(server.path, server.card))
    monkeypatch.setattr(fetch, "fetch_document", keys)
    monkeypatch.setattr(endpoints, "ask_for_extended_card", extended)
    return server


def test_a_server_that_does_it_right(server: Server) -> None:
    """It is asked for the extended card, without a credential, and refuses."""
    report = server.inspect()
    assert (report.service, report.exit_status) == ((), 0)
    assert server.asked == [f"{ORIGIN}/a2a"]


MISLEADING = [
    ("etag", 'W/"abc"', "check.etag-unsigned"),
    ("cache-control", "public, max-age=31536000, immutable", "check.cache-long"),
]


@pytest.mark.parametrize(("name", "value", "rule"), MISLEADING)
def test_headers_that_mislead(server: Server, name: str, value: str, rule: str) -> None:
    """One header at a time is wrong."""
    server.headers[name] = value
    assert server.rules() == {rule}


@pytest.mark.parametrize(("seconds", "rules"), [(60, {"check.cache-long"}), (7200, set())])
def test_caches_that_outlive_a_key(server: Server, seconds: int, rules: set[str]) -> None:
    """The key set says when its key ends."""
    keys = json.loads(server.keys)
    keys["keys"][0]["exp"] = int(NOW.timestamp()) + seconds
    server.keys = json.dumps(keys).encode()
    assert server.rules() == rules


def test_keys_that_are_not_there_weak_or_private(server: Server) -> None:
    """Absent is a note; refused is an error."""
    weak = {"kty": "RSA", "kid": "w", "n": "AQAB" * 20, "e": "AQAB"}
    private = {**json.loads(server.keys)["keys"][0], "d": "AAAA"}
    server.keys = b""
    assert server.rules() == {"check.no-keys"}
    assert "not checked: its origin has no good keys" in next(server.inspect().lines())
    for key in (weak, private):
        server.keys = json.dumps({"keys": [key]}).encode()
        assert server.rules() == {"check.bad-keys"}


def test_an_extended_card_that_is_given_to_anyone(server: Server) -> None:
    """It is an error, unless what comes is no card."""
    server.extended = server.card
    report = server.inspect()
    assert [finding.code for finding in report.service] == ["check.extended-open"]
    assert report.exit_status == 1
    server.extended = b'{"error": "no"}'
    assert server.rules() == set()


def test_other_hosts_are_not_asked(server: Server) -> None:
    """The card names another origin; its extended card is not asked for there."""
    server.card = dump(put(CARD, "/supportedInterfaces/0/url", "https://elsewhere.example/a2a"))
    assert server.rules() == set()
    assert server.asked == []


def test_a_card_at_the_legacy_path_is_inspected(server: Server) -> None:
    """It is said to be there."""
    server.path = LEGACY_CARD_PATH
    assert server.rules() == {"card.legacy_path"}
    assert [entry.report.verdict for entry in server.inspect().signatures] == ["valid"]
