"""The guides for httpx, FastAPI, a2a-sdk and serving: true against an agent, over TLS.

The code runs as the pages show it. Only ports and certificates are this machine's: an agent is
reached by the proxy that a policy names, so that ``https://agent.example`` leads here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cardsign import JwkSet, NotTrusted, canonicalize, discover, verify_card
from cardsign.jose.keys import PublicKey
from cardsign.urls import CARD_PATH
from tests.cli.conftest import Cardsign
from tests.cli.conftest import cardsign as cardsign
from tests.net.authorities import Authority
from tests.net.internet import Host, Network, Request, hand_on
from tests.net.peers import http, read_head, speaking
from tests.publish.publications import PUBLIC, sign
from tests.server.programs import ROOT, asking, nginx
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


@contextlib.contextmanager
def proxying(name: str, speak: Callable[[socket.socket], None]) -> Iterator[int]:
    """A proxy that lets `speak` answer for a host, and its port."""

    def proxy(connection: socket.socket) -> None:
        assert read_head(connection).startswith(f"CONNECT {name}:443 ".encode())
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        speak(connection)

    with speaking(proxy) as port:
        yield port


@pytest.fixture
def agent(
    network: Network, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Host]:
    """The agent behind a proxy, and a folder with a policy that names both."""
    host = network.host("agent.example", {CARD_PATH: http(sign(CARD, key("card"))), "/a2a": answer})

    with proxying("agent.example", host.serve) as port:
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
    agent.answers = {}
    assert asyncio.run(visit()).status_code == 503


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


# ------------------------------------------------------------------ ten minutes

PAGE = (ROOT / "docs/guides/serve.md").read_text("utf-8")
SECTION = PAGE.partition("## Ten minutes")[2].partition("\n## ")[0]
BOTH = {**PUBLIC, "capabilities": {"extendedAgentCard": True, "streaming": True}}
HELLO = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": HELLO}}


def blocks(language: str) -> list[str]:
    """What the section shows in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[list[str]]:
    """The words of each line that a reader types."""
    lines = block.replace("$(cat token)", "TOKEN").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


@pytest.mark.needs_nginx
@pytest.mark.usefixtures("cheap")
def test_a_new_operator_has_both_cards_in_front_of_the_agent(
    cardsign: Cardsign, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its callers see them; the agent answers; a verifier trusts the card."""
    from tests.integrations.sdk_agent import sdk_agent

    def type_in(words: list[str]) -> str:
        ended = cardsign(*words[1:])
        assert (words[0], ended.status) == ("cardsign", 0), ended.err
        return ended.text

    begin, publish, look, verify = map(commands, blocks("console"))
    (second,), (code,), (config,) = blocks("text"), blocks("python"), blocks("nginx")
    Path("card.json").write_text(json.dumps(BOTH))
    Path("partners.json").write_text(json.dumps({**BOTH, "description": "For partners."}))
    assert begin[0][0] == "export"  # of the passphrase, which the fixture has
    type_in(begin[1])
    with Path("cardsign.toml").open("a") as settings:
        settings.write(second)
    for words in publish:
        type_in(words)

    def mount(app: Any, card: dict[str, Any]) -> Any:
        monkeypatch.setitem(sys.modules, "my_agent", SimpleNamespace(app=app))
        names: dict[str, Any] = {}
        exec(code, names)
        return names["app"]

    with sdk_agent(lambda port: BOTH, wrap=mount) as agent:
        places = {"127.0.0.1:8080": f"127.0.0.1:{agent.port}"}
        assert "127.0.0.1:8080" in config
        with nginx(tmp_path, authority, config, **places) as url, asking(authority) as http:
            token = Path("token").read_text().strip()
            for words, file in zip(look, ("signed.json", "partners.signed.json"), strict=True):
                fields = [word.replace("TOKEN", token).split(": ") for word in words[2:-1]]
                asked = words[-1].replace("https://tides.example", url)
                assert http.get(asked, headers=dict(fields)).content == Path(file).read_bytes()
            answer = http.post(f"{url}/a2a", json=CALL, headers={"A2A-Version": "1.0"})
            assert "you said: hello" in answer.text
            behind = httpx.URL(url).port or 0
            add, check = verify
            type_in(add)
            with proxying("tides.example", lambda c: hand_on(c, behind)) as port:
                trust = Path("trust.toml")
                through = f'\nproxy = "http://127.0.0.1:{port}"\norigins ='
                trust.write_text(trust.read_text().replace("\norigins =", through, 1))
                (tmp_path / "ca.pem").write_text(authority.pem())
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
                assert "trusted" in type_in([*check, "--trust", "trust.toml"])
