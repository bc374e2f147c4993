"""No form of a request reaches the extended card of an agent of a2a-sdk past `mount_cards`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.server.a2a import MAX_CALL_BYTES
from cardsign.server.mount import mount_cards
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.served import write_tokens

pytestmark = pytest.mark.needs_a2a

#: In the SDK's own extended card, which has no guard, and in nothing else.
OWN = "The agent's own extended card"
METHOD = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
CALL = {**METHOD, "params": {}}
CALL_0_3 = {**CALL, "method": "agent/getAuthenticatedExtendedCard"}
PADDING = MAX_CALL_BYTES + 1000
V0_3 = {"A2A-Version": "0.3"}


def card_at(port: int) -> dict[str, Any]:
    """The agent's public card; it has interfaces of A2A 1.0 and 0.3."""
    url = f"http://127.0.0.1:{port}"
    interfaces = [
        {"url": f"{url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": f"{url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": f"{url}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ]
    capabilities = {"extendedAgentCard": True, "streaming": True}
    return {**PUBLIC, "capabilities": capabilities, "supportedInterfaces": interfaces}


@contextmanager
def agent(wrap: Any = lambda app, card: app) -> Iterator[httpx.Client]:
    """A client of the agent, under uvicorn."""
    from tests.integrations.sdk_agent import sdk_agent

    with (
        sdk_agent(card_at, wrap=wrap, extended_name=OWN) as running,
        httpx.Client(base_url=f"http://127.0.0.1:{running.port}") as client,
    ):
        yield client


@pytest.fixture(scope="module")
def bare() -> Iterator[httpx.Client]:
    """The agent with nothing before it."""
    with agent() as client:
        yield client


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory, alice: PrivateKey) -> Iterator[httpx.Client]:
    """The same agent behind a publication with an extended card."""
    directory = tmp_path_factory.mktemp("public")

    def mount(app: Any, card: dict[str, Any]) -> Any:
        publish_cards(directory, alice, card, "staff", now=datetime.now(UTC))
        tokens = write_tokens(tmp_path_factory.mktemp("own"), create_token("staff")[1])
        return mount_cards(app, directory, ServerSettings(token_file=tokens))

    with agent(mount) as client:
        yield client


PLAIN, OLD = json.dumps(CALL), json.dumps(CALL_0_3)
SEND_THEN_CARD = '{"jsonrpc":"2.0","id":1,"method":"SendMessage","method":"GetExtendedAgentCard"}'
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in "GetExtendedAgentCard")
#: Forms to which the SDK alone answers with its own extended card.
FORMS: dict[str, bytes] = {
    "plain": PLAIN.encode(),
    "padded before": (" " * PADDING + PLAIN).encode(),
    "padded after": (PLAIN + "\n" * PADDING).encode(),
    "padded by 1 MB": (" " * 1_000_000 + PLAIN).encode(),
    "a long member before": json.dumps({"params": {"tenant": "x" * PADDING}, **METHOD}).encode(),
    "a long member after": json.dumps({**CALL, "params": {"tenant": "x" * PADDING}}).encode(),
    "the name across the limit": (" " * (MAX_CALL_BYTES - 44) + PLAIN + " " * PADDING).encode(),
    "method twice": SEND_THEN_CARD.encode(),
    "method twice, and long": SEND_THEN_CARD.replace(",", " " * PADDING + ",", 1).encode(),
    "id twice": PLAIN.replace('"id": 1', '"id": 1, "id": 2').encode(),
    "BOM": PLAIN.encode("utf-8-sig"),
    "BOM, and long": (PLAIN + " " * PADDING).encode("utf-8-sig"),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16 without BOM": PLAIN.encode("utf-16-be"),
    "UTF-16, and long": (PLAIN + " " * PADDING).encode("utf-16-le"),
    "UTF-32": PLAIN.encode("utf-32"),
    "an escaped letter": PLAIN.replace("GetE", r"\u0047etE").encode(),
    "all letters escaped": PLAIN.replace("GetExtendedAgentCard", ESCAPED).encode(),
    "all letters escaped, long": (
        " " * PADDING + PLAIN.replace("GetExtendedAgentCard", ESCAPED)
    ).encode(),
    "an escaped letter in UTF-16": PLAIN.replace("Card", r"Car\u0064").encode("utf-16"),
    "an escape with a capital digit": PLAIN.replace("Agent", r"\u0041g\u0065\u006Et").encode(),
    "an escaped member": PLAIN.replace("method", r"m\u0065thod").encode(),
    "NaN": PLAIN.replace("{}", '{"a": NaN}').encode(),
    "too deep": PLAIN.replace("{}", '{"a": ' + "[" * 100 + "]" * 100 + "}").encode(),
    "a lone surrogate": PLAIN.replace("{}", r'{"a": "\ud800"}').encode(),
    "a large number": PLAIN.replace('"id": 1', '"id": 99999999999999999999').encode(),
}
#: The same for A2A 0.3.
FORMS_0_3: dict[str, bytes] = {
    "plain": OLD.encode(),
    "padded": (OLD + " " * PADDING).encode(),
    "an escaped slash": OLD.replace("/", r"\/").encode(),
    "an escaped slash, and long": (OLD.replace("/", r"\/") + " " * PADDING).encode(),
    "an escaped letter": (OLD.replace("Card", r"\u0043ard") + " " * PADDING).encode(),
    "method twice": OLD.replace('"method"', '"method": "message/send", "method"').encode(),
    "UTF-16": OLD.encode("utf-16"),
}
TABLE = [
    *(pytest.param(body, {"A2A-Version": "1.0"}, id=name) for name, body in FORMS.items()),
    *(pytest.param(body, V0_3, id=f"0.3: {name}") for name, body in FORMS_0_3.items()),
]


def text_of_answer(client: httpx.Client, path: str, content: Any, headers: dict[str, str]) -> str:
    """What comes back; nothing where the connection ends before the whole body was sent."""
    try:
        return client.post(path, content=content, headers=headers).text
    except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
        return ""


@pytest.mark.parametrize(("body", "headers"), TABLE)
def test_no_form_of_the_method_reaches_the_agent(
    bare: httpx.Client, mounted: httpx.Client, body: bytes, headers: dict[str, str]
) -> None:
    """In one piece or many, at the agent's listed URL and at one that its card does not name."""
    in_pieces = [body[at : at + 1009] for at in range(0, len(body), 1009)]
    tiny = [body[at : at + 7] for at in range(0, min(len(body), 700), 7)] + [body[700:]]
    assert OWN in bare.post("/a2a", content=body, headers=headers).text
    for path, content in (
        ("/a2a", body),
        ("/unlisted", iter(in_pieces)),
        ("/%61%32%61", iter(tiny)),
    ):
        text = text_of_answer(mounted, path, content, headers)
        assert OWN not in text
        assert "skills" not in text


@pytest.mark.parametrize(
    "path",
    ["/rest/extendedAgentCard", "/any-tenant/rest/extendedAgentCard", "/rest/v1/card"],
)
def test_no_path_of_rest_reaches_the_agents_own_card(
    bare: httpx.Client, mounted: httpx.Client, path: str
) -> None:
    """The SDK answers for every tenant, and for A2A 0.3 below the same URL."""
    version = V0_3 if "v1" in path else {"A2A-Version": "1.0"}
    assert OWN in bare.get(path, headers=version).text
    for method in ("GET", "HEAD"):
        answer = mounted.request(method, path, headers=version)
        assert answer.status_code in (401, 404)
        assert OWN not in answer.text
