"""What docs/concepts/comparison.md calls *measured* of a2a-sdk is what the installed one does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.publications import PUBLIC, PUBLIC_0_3

pytestmark = [pytest.mark.needs_a2a, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PAGE = Path(__file__).resolve().parents[2] / "docs/concepts/comparison.md"
CARD = "/.well-known/agent-card.json"
OWN, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


def row(question: str) -> str:
    """What the page says of a2a-sdk."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (found,) = (line for line in lines if line.startswith(f"| {question}"))
    return found.split("|")[2].strip()


def signed_by_the_sdk(key: ec.EllipticCurvePrivateKey = OWN, kid: str = "own") -> Any:
    """The SDK's card with a signature by its own signer."""
    from a2a.client.card_resolver import parse_agent_card
    from a2a.utils.signing import create_agent_card_signer

    signer = create_agent_card_signer(key, {"alg": "ES256", "kid": kid, "typ": "JOSE"})
    return signer(parse_agent_card(json.loads(json.dumps(PUBLIC))))


def written(card: Any) -> dict[str, Any]:
    """A card of the SDK as its server writes it."""
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict

    made: dict[str, Any] = agent_card_to_dict(card)
    return made


def verify(text: str) -> None:
    """By the SDK's own reader and verifier, which knows one key."""
    from a2a.client.card_resolver import parse_agent_card
    from a2a.utils.signing import create_signature_verifier

    keys = {"own": OWN.public_key()}
    check = create_signature_verifier(lambda kid, _: keys[str(kid)], ["ES256"])
    check(parse_agent_card(json.loads(text)))


def test_the_page_names_the_version_that_is_looked_at() -> None:
    """A newer one has to be looked at anew."""
    assert f"a2a-sdk {version('a2a-sdk')} (Python)" in PAGE.read_text(encoding="utf-8")


def test_a_member_that_occurs_twice() -> None:
    """The last one wins; the twin: the other name alone is refused."""
    assert row("a member that occurs twice") == "accepted, last wins (measured)"
    text = json.dumps(written(signed_by_the_sdk()))
    named = f'"name": "{PUBLIC["name"]}"'
    verify(text)
    verify(text.replace(named, f'"name": "Pirates", {named}', 1))
    with pytest.raises(Exception, match="signature"):
        verify(text.replace(named, '"name": "Pirates"', 1))


def test_an_unsigned_url_for_readers_of_0_3() -> None:
    """It is not in what was signed, and stays in the card."""
    assert row("an unsigned `url` added") == "accepted (measured)"
    verify(json.dumps({**written(signed_by_the_sdk()), "url": PUBLIC_0_3["url"]}))


def test_an_unknown_kid_first() -> None:
    """The check ends there, though a good one follows."""
    assert row("unknown kid first") == "a `KeyError` ends the check (measured)"
    card, theirs = written(signed_by_the_sdk()), written(signed_by_the_sdk(OTHER, "other"))
    with pytest.raises(KeyError):
        verify(json.dumps({**card, "signatures": theirs["signatures"] + card["signatures"]}))
    verify(json.dumps({**card, "signatures": card["signatures"] + theirs["signatures"]}))


def test_the_date_of_a_signature() -> None:
    """An `exp` of long ago in the header is not read."""
    from a2a.client.card_resolver import parse_agent_card
    from a2a.utils.signing import create_agent_card_signer

    assert row("signature dates") == "not read (measured)"
    ended = int((datetime.now(UTC) - timedelta(days=900)).timestamp())
    header: Any = {"alg": "ES256", "kid": "own", "typ": "JOSE", "exp": ended}
    card = create_agent_card_signer(OWN, header)(parse_agent_card(json.loads(json.dumps(PUBLIC))))
    verify(json.dumps(written(card)))


def test_the_etag_of_a_card_that_was_signed_anew() -> None:
    """A client keeps the old signature: the tag is that of the card without it."""
    from a2a.server.routes import create_agent_card_routes
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    assert row("ETag follows the signature") == "no: 304 after signing anew (measured)"
    before, after = signed_by_the_sdk(), signed_by_the_sdk(OTHER, "other")
    old = TestClient(Starlette(routes=create_agent_card_routes(before))).get(CARD)
    asking = {"If-None-Match": old.headers["ETag"]}
    new = TestClient(Starlette(routes=create_agent_card_routes(after)))
    assert new.get(CARD, headers=asking).status_code == 304
    assert new.get(CARD).json()["signatures"] != old.json()["signatures"]


def test_the_extended_card_without_credentials() -> None:
    """By the SDK's own handler, though the card declares a scheme and demands it."""
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from sdk_agent import Agent
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    assert row("extended card without credentials") == "served, 200 (measured)"
    assert PUBLIC["securityRequirements"]
    card = signed_by_the_sdk()
    handler = DefaultRequestHandler(Agent(), InMemoryTaskStore(), card, extended_agent_card=card)
    client = TestClient(Starlette(routes=create_jsonrpc_routes(handler, "/a2a")))
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}
    answer = client.post("/a2a", json=call, headers={"A2A-Version": "1.0"})
    assert (answer.status_code, answer.json()["result"]["name"]) == (200, PUBLIC["name"])
