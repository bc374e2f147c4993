"""JSON-RPC from the caller's side: one answer, read in one way only (threat 27)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.document import Card
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import CallFailed
from cardsign.net.extended import MAX_ANSWER_BYTES, PeerError, card_bytes, result_of
from tests.support import PORTABLE

ID = "c0ffee"


def answer(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ID, **members}).encode()


def test_an_answer_gives_its_result() -> None:
    """Whatever the order and the white space."""
    assert result_of(b' {"result":{"name":"x"},"id":"c0ffee",\n"jsonrpc":"2.0"} ', ID) == {
        "name": "x"
    }


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
        result_of(body, ID)


@pytest.mark.parametrize("call_id", [ID, None])
def test_an_error_is_told_by_its_code(call_id: str | None) -> None:
    """Where the request could not be read its id is null (JSON-RPC 2.0 5); no word is quoted."""
    body = answer(error={"code": -32007, "message": "not \x1b[2J here", "data": [1]}, id=call_id)
    with pytest.raises(PeerError) as caught:
        result_of(body, ID)
    assert (caught.value.code, caught.value.rpc_code) == ("call.error", -32007)
    assert caught.value.untrusted_words == "not \x1b[2J here"
    assert "here" not in str(caught.value)


def test_a_card_of_the_greatest_size_fits() -> None:
    """The wrapping does not count against the card."""
    card = {"x": "y" * (MAX_CARD_BYTES - 8)}
    assert len(card_bytes(card)) == MAX_CARD_BYTES
    assert result_of(answer(result=card), ID) == card


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
    wrapped = json.dumps({"jsonrpc": "2.0", "id": ID, "result": sent}).encode()
    unwrapped = Card.from_bytes(card_bytes(result_of(wrapped, ID))).document
    assert repr(unwrapped) == repr(Card.from_bytes(json.dumps(sent).encode()).document)
