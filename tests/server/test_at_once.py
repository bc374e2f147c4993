"""What is answered at once, in the event loop: the bytes of Flask's answer, and no waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from identity import Counterpart, Issuer, counterpart
from publications import PUBLIC, publish_cards
from werkzeug.test import create_environ

from cardsign.jose.keys import PrivateKey
from cardsign.server.host import Host
from cardsign.server.live import LiveApplication
from cardsign.server.providers import AudienceRule, ProviderSettings
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import TokenTable, create_token

PATH = "/a2a/extendedAgentCard"
CARD = "/.well-known/agent-card.json"
AUD = "https://tides.example"


class Ahead:
    """A clock that may be ahead."""

    seconds = 0.0

    def __call__(self) -> float:
        return time.time() + self.seconds


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


@pytest.fixture
def peer() -> Iterator[Counterpart]:
    with counterpart() as served:
        yield served


@pytest.fixture
def issuer(peer: Counterpart) -> Issuer:
    return Issuer(peer)


@pytest.fixture
def token() -> tuple[str, str]:
    return create_token("staff")


@pytest.fixture
def live(
    tmp_path: Path, key: PrivateKey, issuer: Issuer, token: tuple[str, str], clock: Ahead
) -> LiveApplication:
    """Two audiences; a table of tokens, an issuer, and keys in a header, the query or a cookie."""
    schemes = {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    card = {**PUBLIC, "securitySchemes": schemes, "securityRequirements": [{"schemes": {}}]}
    publish_cards(tmp_path / "pub", key, card, "staff", "crew", now=datetime.now(UTC))
    rules = AudienceRule("scope", "crew", "crew"), AudienceRule("scope", "late", "nobody")
    table = TokenTable.from_bytes(token[1].encode())
    jwts = ProviderSettings(
        "oidc", issuer=issuer.url, insecure_loopback_http=True, aud=AUD, rules=rules
    )
    keys = [
        ProviderSettings("api_key", tokens=table, location=place, key="X-Key")
        for place in ("header", "query", "cookie")
    ]
    settings = ServerSettings(tokens=table, providers=(jwts, *keys))
    host = Host(tmp_path / "pub", settings, now=clock, log=lambda _: None, events=lambda _: None)
    (agent,) = host.agents.values()
    agent.app.testing = True
    return agent


Answered = tuple[bytes, int, Sequence[tuple[str, str]]]


def flasks(live: LiveApplication, query: str, headers: dict[str, str]) -> Answered:
    """What Flask's own route answers."""
    answer = live.app.test_client(use_cookies=False).get(PATH, query_string=query, headers=headers)
    return answer.data, answer.status_code, list(answer.headers)


def at_once(live: LiveApplication, query: str = "", **headers: str) -> Answered | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = live.at_once(create_environ(PATH, query_string=query, headers=named))
    return answer and (answer.body, answer.status, list(answer.headers))


def test_each_answer_at_once_is_flasks_to_the_byte(
    live: LiveApplication, issuer: Issuer, token: tuple[str, str]
) -> None:
    """Whatever the headers and the query are; the statuses are all that there may be."""
    crew, late, none = (issuer.token(scope=one) for one in ("crew", "late", "x"))
    assert flasks(live, "", {"Authorization": f"Bearer {crew}"})[1] == 200  # which asks for keys
    callers: list[dict[str, str]] = [
        {},
        *({"Authorization": f"Bearer {one}"} for one in (token[0], crew, late, none, "x", "")),
        {"Authorization": f"Bearer {issuer.token(scope='crew', exp=1)}"},
        {"Authorization": "Basic eDp5"},
        {"X-Key": token[0]},
        {"Cookie": f"X-Key={token[0]}"},
        {"Cookie": "X-Key=x"},
    ]
    etag = dict(flasks(live, "", callers[1])[2])["ETag"]
    versions = [{}, *({"A2A-Version": one} for one in ("1.0", "0.3", "9"))]
    held = [{}, {"If-None-Match": etag}, {"If-None-Match": '"x"'}, {"If-Modified-Since": "x"}]
    queries = ["", f"X-Key={token[0]}", "access_token=x", "A2A-Version=9", "a=%zz&&="]
    seen = set()
    for caller, version, known, query in product(callers, versions, held, queries):
        headers = {**caller, **version, **known}
        answer = live.at_once(create_environ(PATH, query_string=query, headers=headers))
        assert answer is not None
        told = answer.body, answer.status, list(answer.headers)
        assert told == flasks(live, query, headers), (headers, query)
        seen.add(answer.status)
    assert seen == {200, 304, 400, 401, 403}


def test_nobody_is_asked_at_once(live: LiveApplication, issuer: Issuer, peer: Counterpart) -> None:
    """A token is answered at once only where keys are there; an unknown key may be a new one."""
    crew = f"Bearer {issuer.token(scope='crew')}"
    assert at_once(live, Authorization=crew) is None
    assert peer.asked == []
    assert flasks(live, "", {"Authorization": crew})[1] == 200
    assert at_once(live, Authorization=crew) == flasks(live, "", {"Authorization": crew})

    asked = len(peer.asked)
    issuer.add_key("k2")
    newer = f"Bearer {issuer.token(kid='k2', scope='crew')}"
    assert at_once(live, Authorization=newer) is None
    assert len(peer.asked) == asked
    assert flasks(live, "", {"Authorization": newer})[1] == 200
    assert at_once(live, Authorization=newer) is not None


def test_a_token_ends_at_once_with_its_time_and_its_key(
    live: LiveApplication, issuer: Issuer, clock: Ahead
) -> None:
    """The keys that a caller was known by are due some time: then they are asked for first."""
    crew = f"Bearer {issuer.token(scope='crew', exp=int(time.time()) + 30)}"
    longer = f"Bearer {issuer.token(scope='crew', exp=int(time.time()) + 7200)}"
    for one in (crew, longer):
        assert flasks(live, "", {"Authorization": one})[1] == 200
    clock.seconds = 30 + 300  # and whatever a clock may be wrong
    answer = at_once(live, Authorization=crew)
    assert answer is None or answer[1] == 401
    clock.seconds = 3600
    assert at_once(live, Authorization=longer) is None
    del issuer.keys["k1"]
    issuer.add_key("k3")
    assert flasks(live, "", {"Authorization": longer})[1] == 401
    answer = at_once(live, Authorization=longer)
    assert answer is not None
    assert answer[1] == 401


def test_public_documents_are_answered_at_once_and_nothing_else_is(
    live: LiveApplication, token: tuple[str, str]
) -> None:
    """Flask answers the rest, and says 500 where something of ours is broken."""
    answer = live.at_once(create_environ(CARD))
    assert answer is not None
    assert answer.status == 200
    for path in ("/healthz", "/a2a", "/x"):
        assert live.at_once(create_environ(path)) is None
    assert at_once(live, Authorization=f"Bearer {token[0]}") is not None


def test_a_fault_of_ours_is_left_to_flask(
    live: LiveApplication, token: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which logs it."""

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("cardsign.server.app.ExtendedCards.card_for", fail)
    assert at_once(live, Authorization=f"Bearer {token[0]}") is None
