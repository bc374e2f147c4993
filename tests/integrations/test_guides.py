"""The guide for httpx, FastAPI and a2a-sdk: true against an agent over TLS.

The code runs as the page shows it. The agent is reached by the proxy that the policy names, over
real sockets, so that ``https://agent.example`` leads to this machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cardsign import JwkSet, NotTrusted, canonicalize, discover, verify_card
from cardsign.jose.keys import PublicKey
from cardsign.urls import CARD_PATH
from tests.net.authorities import Authority
from tests.net.internet import Host, Network, Request
from tests.net.peers import http, read_head, speaking
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import key

pytestmark = pytest.mark.needs_a2a

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "at noon"}]}
TASK = {"id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": MESSAGE}}
ENDPOINT = {**PUBLIC["supportedInterfaces"][0], "url": "https://agent.example/a2a"}
CARD = {**PUBLIC, "supportedInterfaces": [ENDPOINT]}


def code_of(page: str) -> str:
    """The first block of a section of python.md."""
    text = (GUIDES / "python.md").read_text(encoding="utf-8").partition(f"## With {page}\n")[2]
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]


def answer(request: Request, **outcome: Any) -> bytes:
    call = json.loads(request.body)
    return http(json.dumps({"jsonrpc": "2.0", "id": call["id"], **outcome}).encode())


@pytest.fixture
def agent(
    network: Network, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Host]:
    """The agent behind a proxy, and a folder with a policy that names both."""
    host = network.host("agent.example", {CARD_PATH: http(sign(CARD, key("card"))), "/a2a": answer})

    def proxy(connection: socket.socket) -> None:
        assert read_head(connection).startswith(b"CONNECT agent.example:443 ")
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        host.serve(connection)

    with speaking(proxy) as port:
        public = ", ".join(f'{k} = "{v}"' for k, v in key("card").public.jwk().items())
        (tmp_path / "trust.toml").write_text(
            'format = 1\n[[issuer]]\nname = "agent"\norigins = ["https://agent.example"]\n'
            f'freshness = "waived"\nproxy = "http://127.0.0.1:{port}"\n'
            f"[issuer.anchor]\nkeys = [{{ public = {{ {public} }} }}]\n"
        )
        (tmp_path / "ca.pem").write_text(authority.pem())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        monkeypatch.chdir(tmp_path)
        yield host


def run(page: str) -> dict[str, Any]:
    """Run the guide's code as it stands; its names."""
    names: dict[str, Any] = {"__name__": page}
    exec(compile(code_of(page), page, "exec"), names)
    return names


ERROR = {"error": {"code": -32601, "message": "no such method"}}
ANSWERS = [
    *((page, {"result": {"message": MESSAGE}}, "at noon") for page in ("httpx", "a2a-sdk")),
    *((page, {"result": {"task": TASK}}, "at noon") for page in ("httpx", "a2a-sdk")),
    ("httpx", ERROR, "no such method"),
]


@pytest.mark.parametrize(("page", "outcome", "words"), ANSWERS)
def test_a_guide_gets_an_answer(
    page: str, outcome: dict[str, Any], words: str, agent: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what the agent says; the card was asked for first."""
    agent.answers = {**agent.answers, "/a2a": partial(answer, **outcome)}
    run(page)
    assert words in capsys.readouterr().out
    assert agent.targets == [f"GET {CARD_PATH}", "POST /a2a"]


def test_a_partner_who_signs_as_the_sample_of_the_sdk(agent: Host) -> None:
    """Its keys are `{kid: PEM}` at a URL; without ``accept = "sdk"`` the card is refused."""
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.types import AgentCard
    from a2a.utils.signing import create_agent_card_signer
    from google.protobuf.json_format import ParseDict

    private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signer = create_agent_card_signer(private, {"kid": "my-key", "alg": "ES256"})
    card = agent_card_to_dict(signer(ParseDict({**CARD, "capabilities": {}}, AgentCard())))
    keys = {"my-key": public.decode()}
    agent.answers = {
        CARD_PATH: http(json.dumps(card).encode()),
        "/public_keys.json": http(json.dumps(keys).encode()),
    }
    policy = Path("trust.toml").read_text().partition("[issuer.anchor]")[0]
    anchor = '[issuer.anchor]\njwks = "https://agent.example/public_keys.json"\n'
    Path("trust.toml").write_text(policy + 'accept = "sdk"\n' + anchor)
    assert discover("https://agent.example", policy="trust.toml")["name"] == CARD["name"]
    Path("trust.toml").write_text(policy + anchor)
    with pytest.raises(NotTrusted):
        discover("https://agent.example", policy="trust.toml")


@pytest.mark.parametrize("page", ["httpx", "a2a-sdk"])
def test_a_guide_calls_nobody_else(page: str, agent: Host) -> None:
    """An edited card is not trusted, and its endpoint is not asked."""
    edited = {**json.loads(sign(CARD, key("card"))), "description": "Send money."}
    agent.answers = {CARD_PATH: http(json.dumps(edited).encode()), "/a2a": answer}
    from cardsign.integrations.a2a_sdk import CardNotTrusted

    with pytest.raises((NotTrusted, CardNotTrusted)):
        run(page)
    assert set(agent.targets) == {f"GET {CARD_PATH}"}


def test_the_fastapi_guide(agent: Host) -> None:
    """Its route has the verified card, or says why there is none."""

    async def visit() -> httpx.Response:
        transport = httpx.ASGITransport(run("FastAPI")["app"])
        async with httpx.AsyncClient(transport=transport, base_url="https://own.example") as client:
            return await client.get("/skills")

    assert asyncio.run(visit()).json() == [skill["id"] for skill in CARD["skills"]]
    agent.answers = {CARD_PATH: http(sign(CARD, key("mallory")))}
    refused = asyncio.run(visit())
    assert (refused.status_code, "key.unknown" in refused.text) == (502, True)


def test_who_migrates_keeps_scripts() -> None:
    """A card that a script signs with PyJWT, as migrate.md says, is trusted as it always was."""
    jwt = pytest.importorskip("jwt")
    private = ec.generate_private_key(ec.SECP256R1())
    jwks = JwkSet.of([PublicKey.from_cryptography(private.public_key(), kid="card-2025")])
    payload = canonicalize(json.dumps(PUBLIC).encode(), profile="served-as-is").data

    def verify(*, detached: bool = False, **changed: str) -> Mapping[str, Any]:
        header = {"kid": "card-2025", "typ": "JOSE"}
        encoded = jwt.api_jws.encode(
            payload, private, "ES256", header, is_payload_detached=detached
        )
        protected, _, signature = encoded.split(".")
        signatures = [{"protected": protected, "signature": signature}]
        data = json.dumps({**PUBLIC, **changed, "signatures": signatures}).encode()
        return verify_card(data, jwks=jwks)

    assert verify()["name"] == PUBLIC["name"]
    with pytest.raises(NotTrusted, match=r"^sig\.bad"):
        verify(name="Pirates")
    with pytest.raises(NotTrusted, match=r"^sig\.crit"):
        verify(detached=True)  # as the page says
