"""`trusted_client`: a2a-sdk's own client, for an agent whose card is trusted, and for no other."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from internet import Answer, Host, Network, Request
from peers import LOCAL, http

from cardsign.errors import CallFailed, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.endpoints import Credential
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.verifier import Verifier
from tests.jose.statement_making import key
from tests.publications import PUBLIC, sign
from tests.support import put

pytestmark = pytest.mark.needs_a2a

HOST = "https://tides.example"
PATH = "/.well-known/agent-card.json"
TOKEN = "tok-71c0de5512"
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "at noon"}]}}
SECURED = {
    **PUBLIC,
    "securitySchemes": {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"harbour": {"list": []}}}],
}


CREDENTIAL = Credential.parse("env:TIDES", environment={"TIDES": TOKEN})


def policy(place: str = HOST) -> Policy:
    """The agent, by its key."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    return Policy((TrustedIssuer("tides", anchor, (parse_place(place),), freshness="waived"),))


def answer(request: Request) -> bytes:
    """An agent that has one answer."""
    call = json.loads(request.body)
    return http(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": MESSAGE}).encode())


def told(client: Any, text: str = "when?") -> Any:
    """Send a text by the SDK's client; the text of its last answer."""
    from a2a.helpers import get_message_text, new_text_message
    from a2a.types import Role, SendMessageRequest

    async def ask() -> str:
        message = new_text_message(text, role=Role.ROLE_USER)
        found = ""
        async for event in client.send_message(SendMessageRequest(message=message)):
            found = get_message_text(event.message)
        return found

    return ask()


def talk(network: Network, use: Any = told, **how: Any) -> Any:
    """Use a trusted client of the agent."""
    from cardsign.integrations.calling import trusted_client

    async def run() -> Any:
        making = {name: how.pop(name) for name in ("clock",) if name in how}
        verifier = Verifier(how.pop("policy", policy()), net=network.settings(), **making)
        async with trusted_client(verifier, HOST, **how) as client:
            return await use(client)

    return asyncio.run(run())


def serve(network: Network, card: bytes, agent: Answer = answer) -> Host:
    return network.host("tides.example", {PATH: http(card), "/a2a": agent})


def test_a_trusted_agent_answers(network: Network) -> None:
    """The client is the SDK's; what it asks is the endpoint of the verified card."""
    from a2a.client import Client

    host = serve(network, sign(PUBLIC, key("card")))

    async def use(client: Client) -> str:
        assert isinstance(client, Client)
        first = await told(client)
        return first + ", " + await told(client, "and then?")

    assert talk(network, use) == "at noon, at noon"
    assert host.targets == [f"GET {PATH}", "POST /a2a", "POST /a2a"]


def test_a_real_agent_of_the_sdk() -> None:
    """On loopback, by its own server: a message, and a task with its stream of events."""
    from a2a.helpers import new_text_message
    from a2a.types import Role, SendMessageRequest, TaskState

    from cardsign.integrations.calling import trusted_client

    def card_at(port: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{port}/a2a"
        one = {**PUBLIC["supportedInterfaces"][0], "url": url}
        return {**PUBLIC, "supportedInterfaces": [one], "capabilities": {"streaming": True}}

    async def run(origin: str) -> tuple[str, str]:
        async with trusted_client(Verifier(policy(origin), net=LOCAL), origin) as client:
            said = await told(client, "hello")
            request = SendMessageRequest(message=new_text_message("work", role=Role.ROLE_USER))
            states = [
                event.status_update.status.state
                async for event in client.send_message(request)
                if event.HasField("status_update")
            ]
            return said, TaskState.Name(states[-1])

    from tests.integrations.sdk_agent import sdk_agent

    with sdk_agent(card_at, lambda card: sign(card, key("card"))) as agent:
        said = asyncio.run(run(f"http://127.0.0.1:{agent.port}"))
    assert said == ("you said: hello", "TASK_STATE_COMPLETED")


EVIL = put(PUBLIC, "/supportedInterfaces/0/url", "https://evil.example/a2a")
REFUSED = {
    "a stranger's card": (sign(PUBLIC, key("mallory")), "key.unknown"),
    "an interface elsewhere": (sign(EVIL, key("card")), "card.origin_mismatch"),
}


@pytest.mark.parametrize(("card", "code"), REFUSED.values(), ids=REFUSED)
def test_no_other_agent_is_called(card: bytes, code: str, network: Network) -> None:
    """Nothing but the card is asked for, and no credential is sent."""
    from a2a.client.errors import AgentCardResolutionError

    from cardsign.integrations.a2a_sdk import CardNotTrusted

    network.host("evil.example", answer)
    host = serve(network, card)
    with pytest.raises(CardNotTrusted) as caught:
        talk(network, credential=CREDENTIAL)
    assert isinstance(caught.value, AgentCardResolutionError)
    assert code in [reason.code for reason in caught.value.report.reasons]
    assert set(host.targets) == {f"GET {PATH}"}
    assert network.told(TOKEN.encode()) == set()
    assert "evil.example" not in network.names


def test_the_credential_goes_inside_the_issuers_origins(network: Network) -> None:
    """As the verified card wants it; the client follows no redirect with it."""
    host = serve(network, sign(SECURED, key("card")))
    assert talk(network, credential=CREDENTIAL) == "at noon"
    assert [one.headers.get("authorization") for one in host.requests] == [None, f"Bearer {TOKEN}"]
    network.host("evil.example", answer)
    elsewhere = http(b"", status="307 There", location="https://evil.example/a2a")
    serve(network, sign(SECURED, key("card")), elsewhere)
    with pytest.raises(Exception, match="307"):
        talk(network, credential=CREDENTIAL)
    assert "evil.example" not in network.names


def test_the_extended_card_is_not_fetched_unverified(network: Network) -> None:
    """The SDK would take it in place of the verified one."""
    from a2a.types import GetExtendedAgentCardRequest

    card = {**PUBLIC, "capabilities": {"extendedAgentCard": True}}
    host = serve(network, sign(card, key("card")))

    async def use(client: Any) -> None:
        await client.get_extended_agent_card(GetExtendedAgentCardRequest())

    with pytest.raises(UsageFault, match="extended"):
        talk(network, use)
    assert host.targets == [f"GET {PATH}"]


def test_the_client_ends_with_the_verdict(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later call would rest on a card that may be revoked by then."""
    from cardsign.integrations import calling

    host = serve(network, sign(PUBLIC, key("card")))
    begun = datetime(2026, 3, 1, tzinfo=UTC)
    now = begun
    monkeypatch.setattr(  # pinned keys set no end, so this verdict is given one
        calling.VerifiedCard, "valid_until", property(lambda card: begun + timedelta(hours=1))
    )

    async def use(client: Any) -> None:
        nonlocal now
        assert await told(client) == "at noon"
        now = begun + timedelta(hours=2)
        await told(client)

    with pytest.raises(CallFailed) as caught:
        talk(network, use, clock=lambda: now)
    assert caught.value.code == "call.verdict_over"
    assert host.targets == [f"GET {PATH}", "POST /a2a"]
