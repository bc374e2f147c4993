"""What a verified payload offers to a caller: endpoints of both generations, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.errors import CallFailed
from cardsign.jose.jwks import JwkSet
from cardsign.net.endpoints import Endpoint, endpoints_of, is_outside
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_place, parse_url

HOST = "https://tides.example"


def new(*interfaces: dict[str, Any]) -> dict[str, Any]:
    """A 1.0 payload."""
    return {"supportedInterfaces": list(interfaces)}


def one(
    path: str = "/a2a", binding: str = "JSONRPC", version: str = "1.0", **more: Any
) -> dict[str, Any]:
    url = f"{HOST}{path}"
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


def endpoint(
    path: str = "/a2a",
    binding: str = "JSONRPC",
    a2a_version: Any = "1.0",
    tenant: str = "",
    version: str = "1.0",
) -> Endpoint:
    return Endpoint(parse_url(f"{HOST}{path}"), binding, a2a_version, tenant, version)


OFFERS: dict[str, tuple[dict[str, Any], list[Endpoint]]] = {
    "in the card's order": (
        new(one("/b", "HTTP+JSON"), one("/a")),
        [endpoint("/b", "HTTP+JSON"), endpoint("/a")],
    ),
    "a tenant": (new(one(tenant="t1")), [endpoint(tenant="t1")]),
    "a patch version": (new(one(version="1.0.1")), [endpoint(version="1.0.1")]),
    "a minor version to come": (new(one(version="1.7")), [endpoint(version="1.7")]),
    "no version": (new({"url": f"{HOST}/a2a", "protocolBinding": "JSONRPC"}), [endpoint()]),
    "0.3 among 1.0": (
        new(one(version="0.3"), one("/new")),
        [endpoint(a2a_version="0.3", version="0.3"), endpoint("/new")],
    ),
    "gRPC is passed over": (
        new({"url": "tides.example:443", "protocolBinding": "GRPC"}, one()),
        [endpoint()],
    ),
    "a binding of one's own is passed over": (new(one(binding="urn:x:y"), one()), [endpoint()]),
    "a version to come is passed over": (new(one(version="2.0"), one()), [endpoint()]),
    "what is no interface is passed over": (new(one(version=7), one()), [endpoint()]),
    "1.0 goes before 0.3 in one document": (
        {**new(one("/new")), "url": f"{HOST}/old", "protocolVersion": "0.3.0"},
        [endpoint("/new")],
    ),
    "0.3": (
        {
            "url": f"{HOST}/old",
            "protocolVersion": "0.3.0",
            "additionalInterfaces": [{"url": f"{HOST}/rest", "transport": "HTTP+JSON"}],
        },
        [
            endpoint("/old", a2a_version="0.3", version="0.3.0"),
            endpoint("/rest", "HTTP+JSON", "0.3", version="0.3.0"),
        ],
    ),
    "0.3, said to be HTTP+JSON": (
        {"url": f"{HOST}/old", "preferredTransport": "HTTP+JSON"},
        [endpoint("/old", "HTTP+JSON", "0.3", version="0.3.0")],
    ),
    "0.2": (
        {"url": f"{HOST}/old", "protocolVersion": "0.2.6"},
        [endpoint("/old", a2a_version="0.2", version="0.2.6")],
    ),
}


@pytest.mark.parametrize(("payload", "found"), OFFERS.values(), ids=OFFERS)
def test_what_a_payload_offers(payload: dict[str, Any], found: list[Endpoint]) -> None:
    """Those that we can speak to, as the card has them."""
    assert endpoints_of(payload) == tuple(found)


NOTHING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an empty list": new(),
    "gRPC alone": new({"url": "tides.example:443", "protocolBinding": "GRPC"}),
    "0.1": {"url": f"{HOST}/old", "protocolVersion": "0.1"},
    "a version that only begins like one": new(one(version="1.0-evil")),
    "a URL outside the strict grammar": new({**one(), "url": "https://u@tides.example/a2a"}),
}


@pytest.mark.parametrize("payload", NOTHING.values(), ids=NOTHING)
def test_a_payload_that_offers_nothing(payload: dict[str, Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(CallFailed) as caught:
        endpoints_of(payload)
    assert caught.value.code == "call.no_interface"


LEADING_OUT = ["../../other", "..", ".", "a/b", "a\\b", "x?y=", "x#y", "%2e%2e"]
UNPRINTABLE = ["\0", "a\nb", "\x85"]


@pytest.mark.parametrize("tenant", [*LEADING_OUT, *UNPRINTABLE, "a" * 257], ids=repr)
def test_a_tenant_that_is_no_plain_segment_of_a_path(tenant: str) -> None:
    """HTTP+JSON puts it into the path, so its interface is passed over, in either binding."""
    assert endpoints_of(new(one(tenant=tenant), one("/b"))) == (endpoint("/b"),)
    with pytest.raises(CallFailed):
        endpoints_of(new(one("/a2a", "HTTP+JSON", tenant=tenant)))


@pytest.mark.parametrize("tenant", ["t1", "...", "a b", "a:b;c", "müller", "a" * 256], ids=repr)
def test_a_tenant_that_is_one(tenant: str) -> None:
    """Dots and marks that lead nowhere are left alone."""
    assert endpoints_of(new(one(tenant=tenant))) == (endpoint(tenant=tenant),)


def test_generations_can_be_narrowed() -> None:
    """To those that a caller speaks."""
    payload = new(one(version="0.3"), one("/new"))
    assert endpoints_of(payload, ["1.0"]) == (endpoint("/new"),)
    with pytest.raises(CallFailed, match=r"A2A 0\.2 over"):
        endpoints_of(payload, ["0.2"])


def test_where_a_message_is_sent() -> None:
    """As HTTP+JSON of each a2a_version has it; over JSON-RPC the endpoint is all there is."""
    assert str(endpoint(tenant="t1").for_messages()) == f"{HOST}/a2a"
    rest = endpoint("/a2a", "HTTP+JSON", tenant="a b")
    assert str(rest.for_messages()) == f"{HOST}/a2a/a%20b/message:send"
    old = endpoint("/old", "HTTP+JSON", "0.3", version="0.3.0")
    assert str(old.for_messages()) == f"{HOST}/old/v1/message:send"


def test_a_place_of_anothers_below_an_endpoint() -> None:
    """What is asked there is his; the endpoint itself, and its other paths, are not."""
    anchor = KeysAnchor(JwkSet.of([]), {})
    tides = TrustedIssuer("tides", anchor, places=(parse_place(HOST),))
    other = TrustedIssuer("other", anchor, places=(parse_place(f"{HOST}/a2a/t1/"),))
    policy = Policy((tides, other))
    theirs = endpoint("/a2a", "HTTP+JSON", tenant="t1").for_messages()
    own = endpoint("/a2a", "HTTP+JSON", tenant="t2").for_messages()
    assert is_outside(theirs, policy, tides)
    assert not is_outside(own, policy, tides)
    assert not is_outside(theirs, Policy((tides,)), tides)
    assert not is_outside(theirs, policy, TrustedIssuer("anywhere", anchor, places=None))


def test_a_path_below() -> None:
    """Without doubled slashes, and without the endpoint's query."""
    assert str(endpoint("/a2a/").below("/x")) == f"{HOST}/a2a/x"
    assert str(endpoint("/a2a?key=v").below("/x")) == f"{HOST}/a2a/x"
    assert str(endpoint("/").below("/x")) == f"{HOST}/x"
