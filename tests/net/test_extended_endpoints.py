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
from tests.support import PORTABLE

HOST = "https://tides.example"


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
    a2a_version: Any = "1.0" if version.startswith("1") else version[:3]
    return Endpoint(parse_url(f"{HOST}{path}"), binding, a2a_version, tenant, version)


REST = "HTTP+JSON"
GRPC = {"url": "tides.example:443", "protocolBinding": "GRPC"}
OLD = {"url": f"{HOST}/old", "protocolVersion": "0.3.0"}
OLD_REST = {"url": f"{HOST}/rest", "transport": REST}
SILENT = {"url": f"{HOST}/a2a", "protocolBinding": "JSONRPC"}
MINE = interface(binding="urn:x:y")
#: What a payload offers, in its order; 1.0 goes before 0.3 in one document.
OFFERS: list[tuple[dict[str, Any], list[Endpoint]]] = [
    (new(interface("/b", REST), interface("/a")), [endpoint("/b", REST), endpoint("/a")]),
    (new(interface(tenant="t1")), [endpoint(tenant="t1")]),
    (new(interface(version="1.0.1")), [endpoint(version="1.0.1")]),
    (new(interface(version="1.7")), [endpoint(version="1.7")]),
    (new(SILENT), [endpoint()]),
    (new(interface(version="0.3"), interface("/b")), [endpoint(version="0.3"), endpoint("/b")]),
    (new(GRPC, MINE, interface(version="2.0"), interface(version=7), interface()), [endpoint()]),
    ({**new(interface("/new")), **OLD}, [endpoint("/new")]),
    (
        {**OLD, "additionalInterfaces": [OLD_REST]},
        [endpoint("/old", version="0.3.0"), endpoint("/rest", REST, "0.3.0")],
    ),
    ({"url": f"{HOST}/old", "preferredTransport": REST}, [endpoint("/old", REST, "0.3.0")]),
    ({**OLD, "protocolVersion": "0.2.6"}, [endpoint("/old", version="0.2.6")]),
    # nothing that we could speak to
    (new(), []),
    ({}, []),
    (new(GRPC), []),
    (new(MINE), []),
    (new(interface(version="2.0")), []),
    (new(interface(version=7)), []),
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


LEADING_OUT = ["../../other", "..", ".", "a/b", "a\\b", "x?y=", "x#y", "%2e%2e"]
UNPRINTABLE = ["\0", "a\nb", "\x85"]


@pytest.mark.parametrize("tenant", [*LEADING_OUT, *UNPRINTABLE, "a" * 257], ids=repr)
def test_a_tenant_that_is_no_plain_segment_of_a_path(tenant: str) -> None:
    """HTTP+JSON puts it into the path, so its interface is passed over, in either binding."""
    assert endpoints_of(new(interface(tenant=tenant), interface("/b"))) == (endpoint("/b"),)
    with pytest.raises(CallFailed):
        endpoints_of(new(interface("/a2a", REST, tenant=tenant)))


@pytest.mark.parametrize("tenant", ["t1", "...", "a b", "a:b;c", "müller", "a" * 256], ids=repr)
def test_a_tenant_that_is_a_plain_segment(tenant: str) -> None:
    """Dots and marks that lead nowhere are left alone."""
    assert endpoints_of(new(interface(tenant=tenant))) == (endpoint(tenant=tenant),)


def test_generations_can_be_narrowed() -> None:
    """To those that a caller speaks."""
    payload = new(interface(version="0.3"), interface("/new"))
    assert endpoints_of(payload, ["1.0"]) == (endpoint("/new"),)
    with pytest.raises(CallFailed, match=r"A2A 0\.2 over"):
        endpoints_of(payload, ["0.2"])


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
    outside = [Peer(HOST, {}, policy, issuer).is_outside(url) for policy, issuer, url in asked]
    assert outside == [True, False, False, False]


def test_an_issuer_that_the_policy_does_not_have() -> None:
    """Is sent nothing."""
    verifier = Verifier(Policy())
    with pytest.raises(UsageFault, match=r"credential\.elsewhere"):
        Peer.of(verifier, HOST, new(interface()), Subject())


# ------------------------------------------------------------------ answers (threat 27)

ID = "c0ffee"


def answer(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ID, **members}).encode()


def read(body: bytes) -> dict[str, Any] | RpcError:
    """What is read of an answer, as of one that holds an extended card."""
    answer = strict_object(body, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_DEPTH + 1)
    return read_answer(answer, ID)


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
    "an error about another call": answer(error={"code": 1, "message": ""}, id="deadbeef"),
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
    """Where the request could not be read its id is null (JSON-RPC 2.0 5)."""
    body = answer(error={"code": -32007, "message": "not \x1b[2J here", "data": [1]}, id=call_id)
    assert read(body) == RpcError(-32007, "not \x1b[2J here")


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
