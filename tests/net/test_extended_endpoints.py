"""What a verified payload offers to a caller, and an answer that is read in one way only."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.document import Card
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.errors import CallFailed, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.endpoints import (
    MAX_ANSWER_BYTES,
    Endpoint,
    Peer,
    ask_for_extended_card,
    endpoints_of,
    read_answer,
    strict_object,
)
from cardsign.net.fetch import FetchSettings
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import FetchResult
from cardsign.urls import parse_place, parse_url
from cardsign.verify.verifier import Verifier
from tests.net.peers import LOCAL
from tests.support import PORTABLE, each_case, read_cases

HOST = "https://tides.example"
REST = "HTTP+JSON"


def endpoint(path: str, binding: str, version: str = "1.0", tenant: str = "") -> Endpoint:
    return Endpoint(parse_url(f"{HOST}{path}"), binding, version, tenant)


@each_case(__file__, "offers", "payload", "endpoints")
def test_what_a_payload_offers(payload: dict[str, Any], endpoints: list[list[str]]) -> None:
    """Those that we can speak to, as the card has them; 1.0 goes before 0.3 in one document."""
    assert endpoints_of(payload) == tuple(endpoint(*offered) for offered in endpoints)


@each_case(__file__, "no_offers", "payload")
def test_what_offers_nothing(payload: dict[str, Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(CallFailed, match=r"call\.no_interface"):
        endpoints_of(payload)


TENANTS = read_cases(__file__)["tenants"]


@pytest.mark.parametrize("tenant", [*TENANTS["plain"], *TENANTS["strange"], "a" * 256, "a" * 257])
def test_a_tenant_is_one_segment_of_a_path(tenant: str) -> None:
    """Any other is passed over, in either binding: HTTP+JSON would put it into its path."""
    ways = (("/a2a", "JSONRPC", tenant), ("/r", REST, tenant), ("/b", "JSONRPC", ""))
    interfaces = [
        {"url": f"{HOST}{path}", "protocolBinding": binding, "tenant": name}
        for path, binding, name in ways
    ]
    expected = [endpoint(path, binding, tenant=name) for path, binding, name in ways]
    offered = endpoints_of({"supportedInterfaces": interfaces})
    is_plain = tenant in (*TENANTS["plain"], "a" * 256)
    assert [*offered] == (expected if is_plain else expected[2:])


@each_case(__file__, "message_urls", "path", "binding", "version", "tenant", "target")
def test_where_a_message_is_sent(
    path: str, binding: str, version: str, tenant: str, target: str
) -> None:
    """As HTTP+JSON of each version has it; over JSON-RPC the endpoint is all there is."""
    assert str(endpoint(path, binding, version, tenant).for_messages()) == HOST + target


def test_a_place_of_anothers_below_an_endpoint() -> None:
    """What is asked there is his; the endpoint itself, and its other paths, are not."""
    anchor, below = KeysAnchor(JwkSet.of([]), {}), parse_place(f"{HOST}/a2a/t1/")
    tides = TrustedIssuer("tides", anchor, places=(parse_place(HOST),))
    anywhere = TrustedIssuer("anywhere", anchor, places=None)
    both = Policy((tides, TrustedIssuer("other", anchor, places=(below,))))
    for policy, issuer, tenant, is_outside in (
        (both, tides, "t1", True),
        (both, tides, "t2", False),
        (Policy((tides,)), tides, "t1", False),
        (both, anywhere, "t1", False),
    ):
        url = endpoint("/a2a", REST, tenant=tenant).for_messages()
        assert Peer(HOST, {}, policy, issuer, LOCAL).is_outside(url) is is_outside
    with pytest.raises(UsageFault, match=r"credential\.elsewhere"):  # of nobody's
        Peer.of(Verifier(Policy()), HOST, PORTABLE, Subject())


# ------------------------------------------------------------------ answers (threat 27)


def read(body: bytes) -> dict[str, Any] | tuple[int, str]:
    """What is read of an answer, as of one that holds an extended card."""
    answer = strict_object(body, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_DEPTH + 1)
    return read_answer(answer, "c0ffee")


def result(value: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":"c0ffee","result":{"x":%b}}' % value.encode("latin-1")


@each_case(__file__, "answers", "body", "expected")
def test_an_answer_is_read(body: str, expected: dict[str, Any] | list[Any]) -> None:
    """An error may be about no id: the request could not be read (JSON-RPC 2.0 5)."""
    assert read(body.encode()) == (tuple(expected) if isinstance(expected, list) else expected)


@each_case(__file__, "no_answers", "body")
def test_what_could_be_read_in_two_ways_is_refused(body: str) -> None:
    """Before anything in it is looked at."""
    with pytest.raises(CallFailed, match=r"call\.error"):
        read(body.encode())


def test_an_answer_is_at_most_a_card_in_utf_8() -> None:
    """The card of the greatest size is read, and of the greatest depth."""
    greatest = "y" * (MAX_CARD_BYTES - 8)
    assert read(result(f'"{greatest}"')) == {"x": greatest}
    assert read(result("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)))
    for value in (f'"{"y" * MAX_ANSWER_BYTES}"', '"\xff"', "[" * MAX_DEPTH + "]" * MAX_DEPTH):
        with pytest.raises(CallFailed, match=r"call\.error"):
            read(result(value))


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

    (first, *_) = endpoints_of(PORTABLE)
    with mock.patch("cardsign.net.fetch.fetch_document", fetched):
        unwrapped = Card.from_bytes(ask_for_extended_card(first, None, FetchSettings()))
    assert repr(unwrapped.document) == repr(Card.from_bytes(json.dumps(sent).encode()).document)
