"""Applications for other servers, in a folder with `pub` and `serve.toml`.

Behind the cards is an agent that gives its own extended card to whoever asks, however the request
is written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cardsign.server import create_app, mount_cards, read_server_settings

SETTINGS = Path("pub"), read_server_settings(Path("serve.toml"))
METHODS = ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard")


def answer(path: str, body: bytes) -> bytes:
    """What the agent says."""
    try:
        is_asked = json.loads(body)["method"] in METHODS
    except Exception:  # noqa: BLE001 - whatever else it is
        is_asked = path.rstrip("/").endswith(("/extendedAgentCard", "/v1/card"))
    return b"the agent's own card" if is_asked else b"the agent"


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    text = answer(environ["PATH_INFO"], environ["wsgi.input"].read())
    start_response("202 Accepted", [("Content-Length", str(len(text)))])
    return [text]


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", scope["type"] == "http"
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": answer(scope.get("path", ""), body)})


alone = create_app(*SETTINGS)
mounted, mounted_asgi = mount_cards(wsgi, *SETTINGS), mount_cards(asgi, *SETTINGS)
