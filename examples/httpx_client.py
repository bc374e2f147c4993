"""Call an agent with httpx and no SDK: only once its card is trusted, and nowhere else.

    python examples/httpx_client.py https://agent.example jwks.json "When is high water?"

The card is fetched and verified, by the keys in jwks.json. The message goes to an endpoint that
the verified card names, over a transport that refuses every other place, private addresses,
redirects, and answers without end.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import httpx

from cardsign import Policy, discover
from cardsign.errors import CallFailed
from cardsign.net.endpoints import endpoints_of
from cardsign.net.fetch import FetchSettings
from cardsign.net.guarded import GuardedTransport


def ask(url: str, jwks: bytes, text: str, settings: FetchSettings | None = None) -> dict[str, Any]:
    """Send a text to the agent at a URL; the result of JSON-RPC ``SendMessage``.

    Raises:
        cardsign.VerificationError: The card is not trusted, or not available; nothing was sent.
        cardsign.CardsignError: The card names no endpoint that can be spoken to; nothing was sent.
        httpx.HTTPError: The agent gave no answer, or none that may be taken.
        ValueError: It answered an error, or what is no answer to a JSON-RPC call.
    """
    settings = settings or FetchSettings()
    card = discover(url, policy=Policy.from_jwks(jwks), settings=settings)

    spoken = [one for one in endpoints_of(card.document, ["1.0"]) if one.binding == "JSONRPC"]
    if not spoken:
        raise CallFailed("call.no_interface", "the card names no endpoint of A2A 1.0 over JSONRPC")
    endpoint = spoken[0]
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, **({"tenant": endpoint.tenant} if endpoint.tenant else {})}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}

    transport = GuardedTransport(settings, origins={endpoint.url.origin})
    with httpx.Client(transport=transport, headers={"A2A-Version": "1.0"}) as client:
        answer = client.post(str(endpoint.url), json=call)
    answer.raise_for_status()
    told = answer.json()
    if (
        not isinstance(told, dict)
        or told.get("id") != 1
        or not isinstance(told.get("result"), dict)
    ):
        raise ValueError(f"{endpoint.url} did not answer the call with a result")
    result: dict[str, Any] = told["result"]
    return result


if __name__ == "__main__":
    print(ask(sys.argv[1], Path(sys.argv[2]).read_bytes(), sys.argv[3]))
