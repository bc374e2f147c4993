"""JSON-RPC from the caller's side: one answer, read in one way only (threat 27)."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.document import Card
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.errors import CallFailed
from cardsign.net.discovery import MAX_ANSWER_BYTES, ask_for_extended_card
from cardsign.net.endpoints import PeerError, endpoints_of, result_of, strict_object
from cardsign.net.fetch import FetchSettings
from cardsign.trust.walk import FetchResult
from tests.support import PORTABLE

ID = "c0ffee"


def answer(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ID, **members}).encode()


def read(body: bytes) -> dict[str, Any]:
    """What is read of an answer, as of one that holds an extended card."""
    answer = strict_object(body, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_DEPTH + 1)
    return result_of(answer, ID)


def test_an_answer_gives_its_result() -> None:
    """Whatever the order and the white space."""
    assert read(b' {"result":{"name":"x"},"id":"c0ffee",\n"jsonrpc":"2.0"} ') == {"name": "x"}


REFUSED = {
    "nothing": b"",
    "a list, as of a batch": b"[" + answer(result={}) + b"]",
    "both result and error": answer(result={}, error={"code": 1, "message": ""}),
    "both, one of them null": answer(result={}, error=None),
    "neither result nor error": answer(),
    "an error of null": answer(error=None),
    "another id": answer(result={}, id="deadbeef"),
    "no id": b'{"jsonrpc":"2.0","result":{}}',
    "an id of null with a result": answer(result={}, id=None),
    "an id twice": b'{"jsonrpc":"2.0","id":"x","id":"c0ffee","result":{}}',
    "a result twice": b'{"jsonrpc":"2.0","id":"c0ffee","result":{"a":1},"result":{"a":2}}',
    "no version": b'{"id":"c0ffee","result":{}}',
    "version 1.0": answer(result={}, jsonrpc="1.0"),
    "a member more": answer(result={}, Result={"name": "evil"}),
    "a request": answer(result={}, method="SendMessage"),
    "a result that is no object": answer(result=[{}]),
    "an error without a code": answer(error={"message": "no"}),
    "an error that is text": answer(error="no"),
    "an error whose code is true": answer(error={"code": True, "message": "no"}),
    "something behind it": answer(result={}) + b"{}",
    "bytes that are no UTF-8": answer(result={"name": "x"}).replace(b'"x"', b'"\xff"'),
    "more than a card": answer(result={"x": "y" * MAX_ANSWER_BYTES}),
    "more levels than a card's": answer(result=json.loads('{"a":' * 33 + "1" + "}" * 33)),
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_an_answer_that_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    """Before anything in it is looked at."""
    with pytest.raises(CallFailed, match=r"call\.error"):
        read(body)


@pytest.mark.parametrize("call_id", [ID, None])
def test_an_error_is_told_by_its_code(call_id: str | None) -> None:
    """Where the request could not be read its id is null (JSON-RPC 2.0 5); no word is quoted."""
    body = answer(error={"code": -32007, "message": "not \x1b[2J here", "data": [1]}, id=call_id)
    with pytest.raises(PeerError) as caught:
        read(body)
    assert (caught.value.code, caught.value.rpc_code) == ("call.error", -32007)
    assert caught.value.untrusted_words == "not \x1b[2J here"
    assert "here" not in str(caught.value)


def test_a_card_of_the_greatest_size_fits() -> None:
    """The wrapping does not count against the card."""
    card = {"x": "y" * (MAX_CARD_BYTES - 8)}
    assert len(json.dumps(card, separators=(",", ":"))) == MAX_CARD_BYTES
    assert read(answer(result=card)) == card


LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text() | st.floats(
    allow_nan=False, allow_infinity=False
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_unwrapping_changes_no_value(more: dict[str, Any]) -> None:
    """The document is the one that was sent, so every payload of it is as well."""
    sent = {**PORTABLE, "params": more}

    def fetched(url: str, *_: object, body: bytes, **__: object) -> FetchResult:
        answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": sent}
        return FetchResult(url, "found", json.dumps(answer).encode())

    (endpoint, *_) = endpoints_of(PORTABLE)
    with mock.patch("cardsign.net.fetch.fetch_document", fetched):
        unwrapped = Card.from_bytes(ask_for_extended_card(endpoint, None, FetchSettings()))
    assert repr(unwrapped.document) == repr(Card.from_bytes(json.dumps(sent).encode()).document)
