"""A judge: the resolver of the official Python SDK (a2a-sdk) fetches a card and verifies it.

As its users write it: an httpx client with nothing set, a resolver, a signature verifier. Reads
one JSON request a line on stdin and writes one JSON answer a line on stdout, as `judge_a2a_sdk.py`
does, whose keys it uses: `{"do": "resolve", "url": ORIGIN, "jwks": ..., "algorithms": [...]}`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from importlib.metadata import version

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.utils.signing import create_signature_verifier
from judge_a2a_sdk import AgentCard, Json, describe, is_callable, key_provider


async def resolve(request: Json) -> AgentCard:
    """Have the SDK fetch the card of a host, and verify it."""
    verify = create_signature_verifier(key_provider(request["jwks"]), request["algorithms"])
    async with httpx.AsyncClient() as client:
        return await A2ACardResolver(client, request["url"]).get_agent_card(
            signature_verifier=verify
        )


def answer(request: Json) -> Json:
    """The answer to one request."""
    if request["do"] == "version":
        return {"name": "a2a-sdk", "version": version("a2a-sdk"), "beside": {}}
    try:
        card = asyncio.run(resolve(request))
    except Exception as error:  # noqa: BLE001 - the SDK lets many types escape
        return {"outcome": "refused", "why": describe(error), "callable": False}
    return {"outcome": "accepted", "why": "", "callable": is_callable(card)}


def main() -> None:
    """Answer each line of stdin on stdout until stdin ends."""
    logging.disable(logging.CRITICAL)
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
