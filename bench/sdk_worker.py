"""The official a2a-sdk at the same work, in a process of its own that has never seen cardsign.

Reads one JSON request a line on stdin and answers on stdout. It is run by an interpreter that has
``a2a-sdk[signing]``, such as that of ``make tools``:

    {"do": "version"}                                           its version
    {"do": "refuses", "card": text, "jwk": public}              whether it refuses a card
    {"do": "verify", "card": text, "jwk": public, "times": n}   seconds of CPU for each
    {"do": "sign", "card": text, "jwk": private, "times": n}    the same

Verifying is what its resolver does with the bytes that it has received; signing is from the bytes
of a card to those that its server answers. A card that is refused ends the process.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from a2a.client.card_resolver import parse_agent_card
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.utils.signing import (
    InvalidSignaturesError,
    create_agent_card_signer,
    create_signature_verifier,
)
from jwt import PyJWK


def verifying(request: dict[str, Any]) -> Callable[[], object]:
    """From the bytes of a card to a verdict."""
    untrusted_bytes = request["card"].encode()
    key = PyJWK.from_dict(request["jwk"])
    verify = create_signature_verifier(lambda _kid, _jku: key, [key.algorithm_name])

    def work() -> None:
        verify(parse_agent_card(json.loads(untrusted_bytes)))

    return work


def signing(request: dict[str, Any]) -> Callable[[], object]:
    """From the bytes of a card to those of a signed one."""
    document = request["card"].encode()
    key = PyJWK.from_dict(request["jwk"])
    header = {"kid": request["jwk"]["kid"], "alg": key.algorithm_name, "typ": "JOSE"}
    sign = create_agent_card_signer(key, header)

    def work() -> bytes:
        signed = sign(parse_agent_card(json.loads(document)))
        return json.dumps(agent_card_to_dict(signed)).encode()

    return work


def answer(request: dict[str, Any]) -> str | bool | float:
    """Do what a request wants."""
    if request["do"] == "version":
        return version("a2a-sdk")
    if request["do"] == "refuses":
        try:
            verifying(request)()
        except InvalidSignaturesError:
            return True
        return False
    work = {"verify": verifying, "sign": signing}[request["do"]](request)
    times = request["times"]
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def main() -> None:
    """Answer until stdin ends."""
    logging.disable(logging.CRITICAL)  # it warns of every card that lacks a member
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
