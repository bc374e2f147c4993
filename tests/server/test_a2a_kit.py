"""What the public conformance kits ask of whoever serves cards, by the kits' own names.

1.0-dev asks without credentials, which A2A 1.0 13.3 forbids to answer; here they are sent. The 0.3
kit also wants a card at GET of the card's url, which the agent's own endpoint is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from publications import PUBLIC, PUBLIC_0_3
from served import Site
from werkzeug.test import TestResponse

CARD = "/.well-known/agent-card.json"
REQUIRED = {
    *("name", "description", "version", "capabilities", "skills", "supportedInterfaces"),
    *("defaultInputModes", "defaultOutputModes"),
}
#: Of A2A 1.0, and no other member: the kit's schema allows none.
KNOWN = REQUIRED | {
    *("provider", "documentationUrl", "iconUrl", "securitySchemes", "securityRequirements"),
    "signatures",
}


def by_rpc(site: Site, method: str, **headers: str) -> dict[str, Any]:
    """The answer to a call, which the kit POSTs to the interface's url and a slash."""
    call = {"jsonrpc": "2.0", "id": 7, "method": method}
    answer = site.client.post("/a2a/", json=call, headers=headers)
    assert answer.headers["Content-Type"] == "application/json"  # JSONRPC-FMT-002
    said: dict[str, Any] = answer.json or {}
    assert (said["jsonrpc"], said["id"]) == ("2.0", 7)
    return said


def is_card(card: Any) -> bool:
    return isinstance(card, dict) and card.keys() >= REQUIRED and card.keys() <= KNOWN


def a_card(answer: TestResponse) -> bool:
    return answer.status_code == 200 and is_card(answer.json)


KIT_1_0: dict[str, Callable[[Site], bool]] = {
    "CARD-DISC-001": lambda site: site.client.get(CARD).status_code == 200,
    "CARD-STRUCT-001": lambda site: a_card(site.client.get(CARD)),
    "CARD-PROTO-001": lambda site: bool(site.client.get(CARD).json["supportedInterfaces"]),  # type: ignore[index]
    "CARD-CACHE-001": lambda site: "max-age=" in site.client.get(CARD).headers["Cache-Control"],
    "CARD-CACHE-002": lambda site: bool(site.client.get(CARD).headers["ETag"]),
    "CARD-CACHE-003": lambda site: bool(site.client.get(CARD).headers["Last-Modified"]),
    "CARD-EXT-001 by JSON-RPC": lambda site: is_card(
        by_rpc(site, "GetExtendedAgentCard", **site.bearer(), **{"A2A-Version": "1.0"})["result"]
    ),
    "CARD-EXT-001 by HTTP+JSON": lambda site: a_card(
        site.client.get("/rest/v1/extendedAgentCard", headers=site.bearer())
    ),
    "CARD-EXT-001 without credentials": lambda site: (
        site.client.get("/rest/v1/extendedAgentCard").status_code == 401
    ),
    "VER-SERVER-002": lambda site: (
        "error" in by_rpc(site, "SendMessage", **site.bearer(), **{"A2A-Version": "99"})
    ),
    "VER-SERVER-003": lambda site: (
        "error" in by_rpc(site, "SendMessage", **site.bearer(), **{"A2A-Version": ""})
    ),
}


@pytest.mark.parametrize("holds", KIT_1_0.values(), ids=KIT_1_0)
def test_the_kit_of_1_0(site: Site, holds: Callable[[Site], bool]) -> None:
    """Each of its rules on cards."""
    assert holds(site)


def test_the_kit_of_1_0_where_no_extended_card_is_declared(
    make_site: Callable[..., Site],
) -> None:
    """CORE-CAP-003: an error, whoever asks."""
    site = make_site({**PUBLIC, "capabilities": {}}, audiences=())
    assert by_rpc(site, "GetExtendedAgentCard", **site.bearer())["error"]["code"] == -32004


INVALID = ["", "Bearer", "Bearer ", "Bearer invalid", "Basic eDp5", "nonsense", "bearer a b"]


@pytest.mark.parametrize("credential", INVALID)
@pytest.mark.parametrize("path", ["/old/v1/card", "/old/rest/v1/card"])
def test_the_kit_of_0_3(make_site: Callable[..., Site], path: str, credential: str) -> None:
    """`{url}/v1/card` is there, even where url is of JSON-RPC; an invalid credential opens none."""
    site = make_site(PUBLIC_0_3)
    assert site.client.get(path, headers={"Authorization": credential}).status_code == 401
    assert site.client.get(path, headers=site.bearer()).status_code == 200
