"""The examples for users of httpx and of FastAPI do what they say, and refuse what they should."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from cardsign import CardsignError, JwkSet, NotTrusted, Policy, Verifier
from cardsign.trust.policy import KeysAnchor, TrustedIssuer
from cardsign.urls import parse_place
from tests.net.internet import Network, Request
from tests.net.peers import http
from tests.publish.publications import PUBLIC, PUBLIC_0_3, sign
from tests.statements.making import key

EXAMPLES = Path(__file__).parents[2] / "examples"
HOST = "https://tides.example"
PATH = "/.well-known/agent-card.json"


def example(name: str) -> ModuleType:
    """An example, as Python would load it."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agent(request: Request) -> bytes:
    """Answers a call with its method and its text."""
    call = json.loads(request.body)
    result = {"method": call["method"], "version": request.headers["a2a-version"]}
    return http(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode())


def redirect(request: Request) -> bytes:
    return http(b"", status="307 There", location="https://evil.example/")


@pytest.fixture
def peer(network: Network) -> Any:
    """An agent on the small internet; `evil.example` is there too."""
    network.host("evil.example", agent)
    answers = {PATH: http(sign(PUBLIC, key("card"))), "/a2a": agent}
    return network.host("tides.example", answers)


def now() -> datetime:
    return datetime.now(UTC)


JWKS = JwkSet.of([key("card").public]).to_bytes()


def test_the_httpx_example(peer: Any, network: Network) -> None:
    """A trusted agent is called; of any other the card alone is asked for."""
    ask = example("httpx_client").ask
    answer = ask(HOST, JWKS, "when?", network.settings())
    assert answer == {"method": "SendMessage", "version": "1.0"}

    network.forget()
    strangers = JwkSet.of([key("mallory").public]).to_bytes()
    with pytest.raises(NotTrusted):
        ask(HOST, strangers, "when?", network.settings())
    assert peer.targets == [f"GET {PATH}"]

    peer.answers = {**peer.answers, "/a2a": redirect}
    with pytest.raises(httpx.TransportError, match="307"):
        ask(HOST, JWKS, "when?", network.settings())
    assert "evil.example" not in network.names


def rest_only() -> bytes:
    """A card without an endpoint over JSON-RPC."""
    one = {"url": f"{HOST}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    return sign({**PUBLIC, "supportedInterfaces": [one]}, key("card"))


PEERS: dict[str, tuple[bytes, Any]] = {
    "speaks REST alone": (rest_only(), agent),
    "speaks 0.3 alone": (sign(PUBLIC_0_3, key("card")), agent),
    "redirects": (sign(PUBLIC, key("card")), redirect),
    "answers no JSON": (sign(PUBLIC, key("card")), http(b"<html>")),
}


@pytest.mark.parametrize("name", PEERS)
def test_the_httpx_example_and_a_peer_who(name: str, peer: Any, network: Network) -> None:
    """One of the errors that it promises, and nothing else."""
    card, answer = PEERS[name]
    peer.answers = {PATH: http(card), "/a2a": answer}
    with pytest.raises((CardsignError, httpx.HTTPError, ValueError)):
        example("httpx_client").ask(HOST, JWKS, "when?", network.settings())


@pytest.mark.needs_a2a
def test_the_fastapi_example(peer: Any, network: Network) -> None:
    """It serves its card as it was signed, and asks its peer once the peer is trusted."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    places = (parse_place(HOST),)
    policy = Policy((TrustedIssuer("tides", anchor, places=places, freshness="waived"),))
    settings = network.settings()
    own = sign(PUBLIC, key("card"))
    app = example("fastapi_app").create_app(own, HOST, Verifier(policy, net=settings), settings)

    async def visit() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="https://own.example") as client:
            served = await client.get(PATH)
            assert served.content == own
            tag = {"If-None-Match": served.headers["ETag"]}
            assert (await client.get(PATH, headers=tag)).status_code == 304

            answer = (await client.get("/peer")).json()
            assert answer["peer"] == "tides"
            assert answer["answer"]["result"] == {"method": "ListTasks", "version": "1.0"}

            peer.answers = {PATH: http(sign(PUBLIC, key("mallory"))), "/a2a": agent}
            anew = Verifier(policy, net=settings)
            changed = example("fastapi_app").create_app(own, HOST, anew, settings)
            transport = httpx.ASGITransport(changed)
            async with httpx.AsyncClient(transport=transport, base_url=HOST) as other:
                refused = await other.get("/peer")
            assert refused.status_code == 502
            assert "key.unknown" in refused.text

    asyncio.run(visit())
    assert peer.targets.count("POST /a2a") == 1


@pytest.mark.needs_a2a
def test_the_fastapi_example_as_it_is_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a policy file, a memory and two variables."""
    public = ", ".join(f'{k} = "{v}"' for k, v in key("card").public.jwk().items())
    (tmp_path / "trust.toml").write_text(
        f'format = 1\n[[issuer]]\nname = "tides"\norigins = ["{HOST}"]\nfreshness = "waived"\n'
        f"[issuer.anchor]\nkeys = [{{ public = {{ {public} }} }}]\n"
    )
    (tmp_path / "card.json").write_bytes(sign(PUBLIC, key("card")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_CARD", "card.json")
    monkeypatch.setenv("AGENT_PEER", HOST)
    app = example("fastapi_app").from_environment()
    assert PATH in {route.path for route in app.routes}
