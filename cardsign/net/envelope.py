"""JSON-RPC 2.0 from the caller's side: one request, and its one answer read strictly.

A2A 1.0 9 and 0.3 7. The same parser as for cards, exactly one of ``result`` and ``error``, and
the id of the request (threats.md 27); what another reader might see in an answer is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH, Json, parse_object
from cardsign.errors import CallFailed, JsonRefused

#: Bytes around a card in an answer: some members, and white space.
MAX_WRAPPING: Final = 16 * 1024
MAX_ANSWER_BYTES: Final = MAX_CARD_BYTES + MAX_WRAPPING

_MEMBERS: Final = frozenset({"jsonrpc", "id", "result", "error"})


class PeerError(CallFailed):
    """The peer answered a well-formed error.

    Attributes:
        rpc_code: Its code; -32007 says that no extended card is configured.
        untrusted_words: Its message, as received.
    """

    def __init__(self, rpc_code: int, untrusted_words: str) -> None:
        super().__init__("call.error", f"the peer answered error {rpc_code}")
        self.rpc_code = rpc_code
        self.untrusted_words = untrusted_words


def request_body(call_id: str, method: str, params: Mapping[str, Json]) -> bytes:
    """The body of a call; ``params`` is left out where it is empty."""
    call: dict[str, Json] = {"jsonrpc": "2.0", "id": call_id, "method": method}
    if params:
        call["params"] = dict(params)
    return json.dumps(call, separators=(",", ":")).encode()


def result_of(
    untrusted_body: bytes,
    call_id: str,
    *,
    max_bytes: int = MAX_ANSWER_BYTES,
    max_depth: int = MAX_DEPTH + 1,
) -> dict[str, Json]:
    """The object that a call resulted in; nothing in it has been checked.

    Args:
        untrusted_body: As it came.
        call_id: Of the request.
        max_bytes: The most that are looked at; without more, those of a card and its wrapping.
        max_depth: The most levels, the answer's own being 1; without more, those of a card.

    Raises:
        CallFailed: ``call.envelope``: not one strict answer to this call.
        PeerError: It is an error.
    """
    answer = strict_object(untrusted_body, max_bytes=max_bytes, max_depth=max_depth)
    if answer.get("jsonrpc") != "2.0" or set(answer) - _MEMBERS:
        raise _refused("expected jsonrpc 2.0, id, and result or error, and no other member")
    if ("result" in answer) == ("error" in answer):
        raise _refused("expected exactly one of result and error")
    error = answer.get("error")
    # Where a request cannot be read its id is not known (JSON-RPC 2.0 5).
    if answer.get("id", ...) != call_id and not (error and answer.get("id", ...) is None):
        raise _refused("its id is not that of the request")
    if "error" in answer:
        raise _peer_error(error)
    result = answer["result"]
    if not isinstance(result, dict):
        raise _refused("its result is not an object")
    return result


def strict_object(untrusted_body: bytes, *, max_bytes: int, max_depth: int) -> dict[str, Json]:
    """The one object that every reader sees in an answer.

    Raises:
        CallFailed: ``call.envelope``; what it is raised in holds no word of the answer.
    """
    try:
        return parse_object(untrusted_body, max_bytes=max_bytes, max_depth=max_depth)
    except JsonRefused as exc:
        code = exc.code
    raise _refused(f"it is not strict JSON ({code})")  # outside, so that no context quotes it


def card_bytes(result: Mapping[str, Json]) -> bytes:
    """A card that stood in an answer, as a document of its own.

    White space and the spelling of numbers are not kept; no payload depends on either.
    """
    return json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()


def _peer_error(error: Json) -> CallFailed:
    if not isinstance(error, dict):
        return _refused("its error is not an object")
    code, words = error.get("code"), error.get("message", "")
    if isinstance(code, bool) or not isinstance(code, int) or not isinstance(words, str):
        return _refused("its error lacks an integer code or a message of text")
    return PeerError(code, words)


def _refused(what: str) -> CallFailed:
    return CallFailed("call.envelope", f"the answer is none to this call: {what}")
