"""`mount_cards` before a real server of a2a-sdk: its client, a stream of events, both cards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.publish.generation import Generation
from cardsign.server.mount import mount_cards
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.publications import PUBLIC, publish_cards

pytestmark = pytest.mark.needs_a2a

CARD = "/.well-known/agent-card.json"


class Mounted:
    """An agent of the SDK with our publication before it."""

    def __init__(self, port: int, token: str, generation: Generation) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.token = token
        self.generation = generation


@pytest.fixture
def mounted(tmp_path: Path, key: PrivateKey) -> Iterator[Mounted]:
    """It runs under uvicorn, and speaks JSON-RPC and HTTP+JSON."""
    from sdk_agent import sdk_agent

    token, line = create_token("staff")
    made: list[Generation] = []

    def card_at(port: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{port}"
        return {
            **PUBLIC,
            "capabilities": {"extendedAgentCard": True, "streaming": True},
            "supportedInterfaces": [
                {"url": f"{url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": f"{url}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            ],
        }

    def mount(app: Any, card: dict[str, Any]) -> Any:
        made.append(publish_cards(tmp_path / "pub", key, card, "staff", now=datetime.now(UTC)))
        (tmp_path / "tokens").write_text(line)
        settings = ServerSettings(token_file=tmp_path / "tokens")
        return mount_cards(app, tmp_path / "pub", settings)

    with sdk_agent(card_at, wrap=mount) as agent:
        yield Mounted(agent.port, token, made[0])


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_sdks_client_streams_through_the_mount(mounted: Mounted, binding: str) -> None:
    """The card is the publication's; every event of the agent arrives."""
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.helpers import new_text_message
    from a2a.types import Role, SendMessageRequest

    async def events() -> list[str]:
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, mounted.url).get_agent_card()
            config = ClientConfig(
                httpx_client=http, streaming=True, supported_protocol_bindings=[binding]
            )
            client = ClientFactory(config).create(card)
            message = new_text_message("work", role=Role.ROLE_USER)
            request = SendMessageRequest(message=message)
            return [one.WhichOneof("payload") async for one in client.send_message(request)]

    found = asyncio.run(events())
    assert found.count("artifact_update") == 2
    assert found[-1] == "status_update"


def test_both_cards_are_the_publications(mounted: Mounted) -> None:
    """At the agent's own URL, with a token; the agent itself answers every other method."""
    bearer = {"Authorization": f"Bearer {mounted.token}", "A2A-Version": "1.0"}
    staff = mounted.generation.extended["staff"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    with httpx.Client(base_url=mounted.url) as http:
        assert http.get(CARD).content == mounted.generation.card
        assert http.get("/rest/extendedAgentCard").status_code == 401
        assert http.get("/rest/extendedAgentCard", headers=bearer).content == staff
        assert staff in http.post("/a2a", json=call, headers=bearer).content
        unknown = http.post("/a2a", json={**call, "method": "GetTask", "params": {"id": "x"}})
        assert json.loads(unknown.content)["error"]["code"] != -32004
