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
    RpcError,
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
from tests.support import PORTABLE

HOST = "https://tides.example"
REST = "HTTP+JSON"


def new(*interfaces: dict[str, Any]) -> dict[str, Any]:
    """A 1.0 payload."""
    return {"supportedInterfaces": list(interfaces)}


def interface(
    path: str = "/a2a", binding: str = "JSONRPC", version: Any = "1.0", **more: Any
) -> dict[str, Any]:
    url = f"{HOST}{path}"
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


def endpoint(
    path: str = "/a2a", binding: str = "JSONRPC", version: str = "1.0", tenant: str = ""
) -> Endpoint:
    return Endpoint(parse_url(f"{HOST}{path}"), binding, version, tenant)


GRPC = {"url": "tides.example:443", "protocolBinding": "GRPC"}
OLD = {"url": f"{HOST}/old", "protocolVersion": "0.3.0"}
SILENT = {"url": f"{HOST}/a2a", "protocolBinding": "JSONRPC"}
MINE = interface(binding="urn:x:y")
TENANTS = ("t1", "...", "a b", "a:b;c", "müller", "a" * 256)
LEADING_OUT = ("../../other", "..", ".", "a/b", "a\\b", "x?y=", "x#y", "%2e%2e", "\0", "a\nb")
#: What a payload offers, in its order; 1.0 goes before 0.3 in one document.
OFFERS: list[tuple[dict[str, Any], list[Endpoint]]] = [
    (new(interface("/b", REST), interface("/a")), [endpoint("/b", REST), endpoint("/a")]),
    (new(interface(version="1.0.1")), [endpoint(version="1.0.1")]),
    (new(interface(version="1.7")), [endpoint(version="1.7")]),
    (new(SILENT), [endpoint()]),
    (new(interface(version="0.3"), interface("/b")), [endpoint(version="0.3"), endpoint("/b")]),
    (new(GRPC, MINE, interface(version="2.0"), interface(version=7), interface()), [endpoint()]),
    ({**new(interface("/new")), **OLD}, [endpoint("/new")]),
    (
        {**OLD, "additionalInterfaces": [{"url": f"{HOST}/rest", "transport": REST}]},
        [endpoint("/old", version="0.3.0"), endpoint("/rest", REST, "0.3.0")],
    ),
    ({"url": f"{HOST}/old", "preferredTransport": REST}, [endpoint("/old", REST, "0.3.0")]),
    *((new(interface(tenant=tenant)), [endpoint(tenant=tenant)]) for tenant in TENANTS),
    # A tenant that HTTP+JSON cannot put into its path is passed over, in either binding.
    *(
        (new(interface(tenant=tenant), interface("/r", REST, tenant=tenant), interface("/b")), [b])
        for tenant, b in ((text, endpoint("/b")) for text in (*LEADING_OUT, "\x85", "a" * 257))
    ),
    # nothing that we could speak to
    (new(), []),
    ({}, []),
    (new(GRPC), []),
    (new(MINE), []),
    (new(interface(version="2.0")), []),
    (new(interface(version=7)), []),
    ({**OLD, "protocolVersion": "0.2.6"}, []),
    ({**OLD, "protocolVersion": "0.1"}, []),
    (new(interface(version="1.0-evil")), []),
    (new({**interface(), "url": "https://u@tides.example/a2a"}), []),
]


@pytest.mark.parametrize(("payload", "endpoints"), OFFERS)
def test_what_a_payload_offers(payload: dict[str, Any], endpoints: list[Endpoint]) -> None:
    """Those that we can speak to, as the card has them; nothing is guessed."""
    if endpoints:
        assert endpoints_of(payload) == tuple(endpoints)
        return
    with pytest.raises(CallFailed, match=r"call\.no_interface"):
        endpoints_of(payload)


MESSAGE_URLS = [
    (endpoint(tenant="t1"), "/a2a"),
    (endpoint("/a2a", REST, tenant="a b"), "/a2a/a%20b/message:send"),
    (endpoint("/a2a/?key=v", REST), "/a2a/message:send"),
    (endpoint("/", REST), "/message:send"),
    (endpoint("/old", REST, "0.3.0"), "/old/v1/message:send"),
]


@pytest.mark.parametrize(("target", "path"), MESSAGE_URLS)
def test_where_a_message_is_sent(target: Endpoint, path: str) -> None:
    """As HTTP+JSON of each version has it; over JSON-RPC the endpoint is all there is."""
    assert str(target.for_messages()) == HOST + path


def test_a_place_of_anothers_below_an_endpoint() -> None:
    """What is asked there is his; the endpoint itself, and its other paths, are not."""
    anchor, below = KeysAnchor(JwkSet.of([]), {}), parse_place(f"{HOST}/a2a/t1/")
    tides = TrustedIssuer("tides", anchor, places=(parse_place(HOST),))
    anywhere = TrustedIssuer("anywhere", anchor, places=None)
    both = Policy((tides, TrustedIssuer("other", anchor, places=(below,))))
    theirs, own = (endpoint("/a2a", REST, tenant=name).for_messages() for name in ("t1", "t2"))
    asked = [(both, tides, theirs), (both, tides, own)]
    asked += [(Policy((tides,)), tides, theirs), (both, anywhere, theirs)]
    outside = [
        Peer(HOST, {}, policy, issuer, LOCAL).is_outside(url) for policy, issuer, url in asked
    ]
    assert outside == [True, False, False, False]
    with pytest.raises(UsageFault, match=r"credential\.elsewhere"):  # of nobody's
        Peer.of(Verifier(Policy()), HOST, new(interface()), Subject())


# ------------------------------------------------------------------ answers (threat 27)

ID = "c0ffee"


def answer(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ID, **members}).encode()


def read(body: bytes) -> dict[str, Any] | RpcError:
    """What is read of an answer, as of one that holds an extended card."""
    answer = strict_object(body, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_DEPTH + 1)
    return read_answer(answer, ID)


GREATEST = {"x": "y" * (MAX_CARD_BYTES - 8)}
#: What is read of an answer; None where it could be read in two ways, and is refused.
ANSWERS: dict[str, tuple[bytes, dict[str, Any] | RpcError | None]] = {
    "a result": (b' {"result":{"name":"x"},"id":"c0ffee",\n"jsonrpc":"2.0"} ', {"name": "x"}),
    "a card of the greatest size": (answer(result=GREATEST), GREATEST),
    "an error": (
        answer(error={"code": -32007, "message": "not \x1b[2J here", "data": [1]}),
        RpcError(-32007, "not \x1b[2J here"),
    ),
    # Where the request could not be read (JSON-RPC 2.0 5).
    "an error about no id": (answer(error={"code": 1}, id=None), RpcError(1, "")),
    "nothing": (b"", None),
    "a list, as of a batch": (b"[" + answer(result={}) + b"]", None),
    "both result and error": (answer(result={}, error={"code": 1, "message": ""}), None),
    "both, one of them null": (answer(result={}, error=None), None),
    "neither result nor error": (answer(), None),
    "an error of null": (answer(error=None), None),
    "another id": (answer(result={}, id="deadbeef"), None),
    "no id": (b'{"jsonrpc":"2.0","result":{}}', None),
    "an id of null with a result": (answer(result={}, id=None), None),
    "an id twice": (b'{"jsonrpc":"2.0","id":"x","id":"c0ffee","result":{}}', None),
    "a result twice": (
        b'{"jsonrpc":"2.0","id":"c0ffee","result":{"a":1},"result":{"a":2}}',
        None,
    ),
    "no version": (b'{"id":"c0ffee","result":{}}', None),
    "version 1.0": (answer(result={}, jsonrpc="1.0"), None),
    "a member more": (answer(result={}, Result={"name": "evil"}), None),
    "a request": (answer(result={}, method="SendMessage"), None),
    "a result that is no object": (answer(result=[{}]), None),
    "an error about another call": (answer(error={"code": 1}, id="deadbeef"), None),
    "an error without a code": (answer(error={"message": "no"}), None),
    "an error that is text": (answer(error="no"), None),
    "an error whose code is true": (answer(error={"code": True, "message": "no"}), None),
    "something behind it": (answer(result={}) + b"{}", None),
    "bytes that are no UTF-8": (answer(result={"name": "x"}).replace(b'"x"', b'"\xff"'), None),
    "more than a card": (answer(result={"x": "y" * MAX_ANSWER_BYTES}), None),
    "more levels than a card's": (answer(result=json.loads('{"a":' * 33 + "1" + "}" * 33)), None),
}


@pytest.mark.parametrize(("body", "result"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_in_one_way(
    body: bytes, result: dict[str, Any] | RpcError | None
) -> None:
    """Or refused, before anything in it is looked at."""
    if result is not None:
        assert read(body) == result
        return
    with pytest.raises(CallFailed, match=r"call\.error"):
        read(body)


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
