"""A FastAPI application that is an agent itself, and asks another one whom it has to trust.

    cardsign trust add https://agent.example
    uvicorn --factory examples.fastapi_app:from_environment

It serves its own card as it was signed, byte for byte: ``cardsign sign`` made the file, and no key
is here. Its peer's card is verified at each request, by ``trust.toml``; one verifier for the
whole process makes that one conditional request to the peer and no signature check, as a rule.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import httpx
from fastapi import FastAPI, HTTPException, Request, Response

from cardsign import VerificationError, Verifier
from cardsign.errors import CallFailed
from cardsign.net.endpoints import endpoints_of
from cardsign.net.fetch import FetchSettings
from cardsign.net.guarded import GuardedTransport

CARD_PATH = "/.well-known/agent-card.json"


def create_app(card: bytes, peer: str, verifier: Verifier, settings: FetchSettings) -> FastAPI:
    """The application.

    Args:
        card: Its own card, signed.
        peer: The URL of the other agent.
        verifier: What verifies the peer's card.
        settings: How the peer is called.
    """
    app = FastAPI(openapi_url=None)
    tag = f'"{hashlib.sha256(card).hexdigest()}"'
    caching = {"ETag": tag, "Cache-Control": "public, max-age=300"}

    @app.get(CARD_PATH)
    async def own_card(request: Request) -> Response:
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=304, headers=caching)
        return Response(card, headers=caching, media_type="application/json")

    @app.get("/peer")
    async def ask_peer() -> dict[str, object]:
        try:
            trusted = await verifier.adiscover(peer)
            spoken = endpoints_of(trusted.document, ["1.0"])
        except VerificationError as exc:
            raise HTTPException(502, f"the peer is not trusted: {exc.code}") from exc
        except CallFailed as exc:
            raise HTTPException(502, f"the peer cannot be called: {exc.code}") from exc
        endpoint = next((one for one in spoken if one.binding == "JSONRPC"), None)
        if endpoint is None:
            raise HTTPException(502, "the peer cannot be called: it has no endpoint over JSON-RPC")
        params = {"tenant": endpoint.tenant} if endpoint.tenant else {}
        call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}
        transport = GuardedTransport(settings, origins={endpoint.url.origin})
        async with httpx.AsyncClient(transport=transport) as client:
            try:
                answer = await client.post(
                    str(endpoint.url), json=call, headers={"A2A-Version": "1.0"}
                )
                said = answer.raise_for_status().json()
            except (httpx.HTTPError, ValueError) as exc:
                raise HTTPException(502, "the peer gave no answer that can be read") from exc
        return {"peer": trusted.subject, "until": trusted.valid_until, "answer": said}

    return app


def from_environment() -> FastAPI:
    """The application as AGENT_CARD, AGENT_PEER and ./trust.toml say."""
    settings = FetchSettings()
    verifier = Verifier("trust.toml", net=settings)
    card = Path(os.environ["AGENT_CARD"]).read_bytes()
    return create_app(card, os.environ["AGENT_PEER"], verifier, settings)
