"""No form of a request reaches the extended card of an agent of a2a-sdk past `mount_cards`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
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
from tests.support import read_cases

pytestmark = pytest.mark.needs_a2a

#: In the SDK's own extended card, which has no guard, and in nothing else.
OWN = "The agent's own extended card"
PADDING = MAX_CALL_BYTES + 1000
V0_3 = {"A2A-Version": "0.3"}
INTERFACES = (("/a2a", "JSONRPC", "1.0"), ("/a2a", "JSONRPC", "0.3"), ("/rest", "HTTP+JSON", "1.0"))
CARD = {
    **PUBLIC,
    "supportedInterfaces": [
        {"url": f"http://x{path}", "protocolBinding": binding, "protocolVersion": version}
        for path, binding, version in INTERFACES
    ],
}


@pytest.fixture(scope="module")
def bare() -> Any:
    """An agent of the SDK with interfaces of A2A 1.0 and 0.3, and nothing before it."""
    from tests.integrations.sdk_agent import SdkAgent, make_app

    return make_app(CARD, b"", SdkAgent(0), extended_name=OWN)


@pytest.fixture(scope="module")
def mounted(bare: Any, tmp_path_factory: pytest.TempPathFactory, alice: PrivateKey) -> Any:
    """The same agent behind a publication with an extended card."""
    directory = tmp_path_factory.mktemp("public")
    publish_cards(directory, alice, CARD, "staff", now=datetime.now(UTC))
    tokens = write_tokens(tmp_path_factory.mktemp("own"), create_token("staff")[1])
    return mount_cards(bare, directory, ServerSettings(token_file=tokens))


def ask(app: Any, method: str, path: str, *pieces: bytes, **headers: str) -> httpx.Response:
    """What an application answers to a body in pieces."""

    async def send() -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            content = body() if pieces else None
            return await client.request(method, path, content=content, headers=headers)

    return asyncio.run(send())


PADS = {
    "PAD": " " * PADDING,
    "LINES": "\n" * PADDING,
    "LETTERS": "x" * PADDING,
    "MEGABYTE": " " * 1_000_000,
    "LIMIT": " " * (MAX_CALL_BYTES - 44),
}


def read_forms(table: str) -> dict[str, bytes]:
    """The bodies of a table of cases."""
    forms = {}
    for name, (text, encoding) in read_cases(__file__)[table].items():
        for word, pad in PADS.items():
            text = text.replace(word, pad)
        forms[name] = text.encode(encoding)
    return forms


FORMS, FORMS_0_3 = read_forms("forms"), read_forms("forms_0_3")
TABLE = [
    *(pytest.param(body, {"A2A-Version": "1.0"}, id=name) for name, body in FORMS.items()),
    *(pytest.param(body, V0_3, id=f"0.3: {name}") for name, body in FORMS_0_3.items()),
]


@pytest.mark.parametrize(("body", "headers"), TABLE)
def test_no_form_of_the_method_reaches_the_agent(
    bare: Any, mounted: Any, body: bytes, headers: dict[str, str]
) -> None:
    """In one piece or many, at the agent's listed URL and at one that its card does not name."""
    in_pieces = [body[at : at + 1009] for at in range(0, len(body), 1009)]
    tiny = [body[at : at + 7] for at in range(0, min(len(body), 700), 7)] + [body[700:]]
    assert OWN in ask(bare, "POST", "/a2a", body, **headers).text
    for path, pieces in (("/a2a", [body]), ("/unlisted", in_pieces), ("/%61%32%61", tiny)):
        text = ask(mounted, "POST", path, *pieces, **headers).text
        assert OWN not in text
        assert "skills" not in text


@pytest.mark.parametrize(
    "path", ["/rest/extendedAgentCard", "/any-tenant/rest/extendedAgentCard", "/rest/v1/card"]
)
def test_no_path_of_rest_reaches_the_agents_own_card(bare: Any, mounted: Any, path: str) -> None:
    """The SDK answers for every tenant, and for A2A 0.3 below the same URL."""
    version = V0_3 if "v1" in path else {"A2A-Version": "1.0"}
    assert OWN in ask(bare, "GET", path, **version).text
    for method in ("GET", "HEAD"):
        answer = ask(mounted, method, path, **version)
        assert answer.status_code in (401, 404)
        assert OWN not in answer.text
