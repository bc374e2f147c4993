"""The extended card by JSON-RPC: envelopes, ids, errors, authentication."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import Policy, Subject
from tests.publish.publications import PUBLIC, PUBLIC_0_3
from tests.server.served import Site
from tests.support import reach_verdict

METHODS = ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard")


def _call(method: str = "GetExtendedAgentCard", **members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, **members}).encode()


def _error_info(reason: str) -> list[dict[str, str]]:
    return [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
        }
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/a2a", "/a2a/"])
def test_the_card_is_the_result_in_the_bytes_that_were_signed(
    site: Site, method: str, path: str
) -> None:
    """1.0 and 0.3 name, with and without a final slash; private, and no tag on a POST."""
    answer = site.client.post(path, data=_call(method), headers=site.bearer())

    assert answer.status_code == 200
    assert site.generation.extended["staff"].strip() in answer.data
    assert answer.json is not None
    assert answer.json.keys() == {"jsonrpc", "id", "result"}
    assert dict(answer.headers) == {
        "Content-Type": "application/json",
        "Content-Length": str(len(answer.data)),
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization",
        "X-Content-Type-Options": "nosniff",
    }


def test_the_result_verifies_after_a_client_wrote_it_anew(site: Site) -> None:
    """A client parses the answer and has only the object, not our bytes."""
    answer = site.client.post("/a2a", data=_call(), headers=site.bearer())
    assert answer.json is not None

    policy = Policy.from_jwks(JwkSet.from_bytes(site.generation.jwks), name="peer")
    report = reach_verdict(
        json.dumps(answer.json["result"]).encode(),
        expect=Subject(issuer="peer", audience="staff"),
        policy=policy,
        now=site.generation.published_at,
    )
    assert report.verdict == "trusted"


@pytest.mark.parametrize("call_id", ["7f", "", 0, -9007199254740991, 1.5, None, '"\\\n\N{SNOWMAN}'])
@pytest.mark.parametrize("method", [METHODS[0], "nonsense"])
def test_the_id_comes_back_as_it_was(site: Site, method: str, call_id: object) -> None:
    """Value and type, on results and on errors (JSON-RPC 2.0 section 5)."""
    answer = site.client.post("/a2a", data=_call(method, id=call_id), headers=site.bearer())

    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["id"] == call_id
    assert type(answer.json["id"]) is type(call_id)


BAD_REQUESTS: dict[str, tuple[bytes, int, object]] = {
    "nothing": (b"", -32700, None),
    "half an object": (b"{", -32700, None),
    "no UTF-8": (b"\xff\xfe", -32700, None),
    "something behind it": (_call() + b"x", -32700, None),
    "two ids": (_call()[:-1] + b',"id":2}', -32700, None),
    "two methods": (_call("GetTask")[:-1] + b',"method":"GetExtendedAgentCard"}', -32700, None),
    "an id that other readers round": (_call("GetTask", id=10**20 - 1), -32700, None),
    "40 levels": (b'{"a":' * 40 + b"1" + b"}" * 40, -32700, None),
    "an empty batch": (b"[]", -32600, None),
    "a batch": (b"[" + _call() + b"]", -32600, None),
    "a string": (b'"call"', -32600, None),
    "an empty object": (b"{}", -32600, None),
    "no method": (b'{"jsonrpc":"2.0","id":3}', -32600, 3),
    "JSON-RPC 1.0": (_call(jsonrpc="1.0", id=3), -32600, 3),
    "the version as a number": (_call(jsonrpc=2.0, id=3), -32600, 3),
    "a method that is a number": (_call(method=7, id=3), -32600, 3),
    "an id that is a list": (_call(id=[1]), -32600, None),
    "an id that is an object": (_call(id={}), -32600, None),
    "an id that is true": (_call(id=True), -32600, None),
    "another case": (_call("getExtendedAgentCard"), -32601, 1),
    "gRPC's old name": (_call("GetAgentCard"), -32601, 1),
    "an empty name": (_call(""), -32601, 1),
    "params by position": (_call(params=[]), -32602, 1),
    "params that are a string": (_call(params="x"), -32602, 1),
    "a tenant that is a number": (_call(params={"tenant": 5}), -32602, 1),
}


@pytest.mark.parametrize(("body", "code", "call_id"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_refused_with_its_code(
    site: Site, body: bytes, code: int, call_id: object
) -> None:
    """HTTP 200, an error, never a result; the id where it could be read."""
    answer = site.client.post("/a2a", data=body, headers=site.bearer())

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.json is not None
    assert answer.json.keys() == {"jsonrpc", "id", "error"}
    assert (answer.json["id"], answer.json["error"]["code"]) == (call_id, code)
    assert "data" not in answer.json["error"]


@pytest.mark.parametrize(
    "params", [None, {}, {"tenant": ""}, {"tenant": "north"}, {"later": [1]}], ids=json.dumps
)
def test_params_may_be_absent_or_name_a_tenant(site: Site, params: object) -> None:
    """The twin; unknown members are ignored as A2A 1.0 5.7 asks."""
    answer = site.client.post("/a2a", data=_call(params=params), headers=site.bearer())
    assert answer.json is not None
    assert "result" in answer.json


@pytest.mark.parametrize(
    "method",
    ["SendMessage", "GetTask", "SubscribeToTask", "message/send", "tasks/get", "tasks/resubscribe"],
)
def test_the_other_operations_of_a2a_are_known_and_not_supported(site: Site, method: str) -> None:
    """A2A's own error, with its reason; a caller who is not known gets 401 for any method."""
    assert site.client.post("/a2a", data=_call(method)).status_code == 401
    answer = site.client.post("/a2a", data=_call(method), headers=site.bearer())

    assert answer.json is not None
    assert answer.json["error"]["code"] == -32004
    assert answer.json["error"]["data"] == _error_info("UNSUPPORTED_OPERATION")


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
@pytest.mark.parametrize("method", [*METHODS, "SendMessage", "nonsense"])
def test_a_notification_of_a_known_caller_is_never_answered(
    site: Site, method: str, headers: dict[str, str]
) -> None:
    """JSON-RPC 2.0 section 4.1: not with an error either. The body of others is not read."""
    body = json.dumps({"jsonrpc": "2.0", "method": method}).encode()
    answer = site.client.post("/a2a", data=body, headers=site.bearer())

    assert (answer.status_code, answer.data) == (204, b"")
    assert "Content-Type" not in answer.headers
    assert site.client.post("/a2a", data=body, headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("headers", "error"),
    [({}, ""), ({"Authorization": "Bearer wrong"}, ', error="invalid_token"')],
)
@pytest.mark.parametrize("method", METHODS)
def test_without_the_token_http_says_401_and_json_rpc_says_why(
    site: Site, method: str, headers: dict[str, str], error: str
) -> None:
    """A client of either layer understands it; the body, and so the id, was not read."""
    granian = {"SERVER_SOFTWARE": "Granian"}
    call = _call(method, id="x")
    answer = site.client.post("/a2a", data=call, headers=headers, environ_overrides=granian)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'Bearer realm="harbour"{error}'
    assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == (
        "private, no-cache",
        "Authorization",
    )
    assert answer.json is not None
    assert answer.json["id"] is None
    assert answer.json["error"]["code"] == -32000
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("version", "code"),
    [("", None), ("1.0", None), ("0.3", None), ("99.0", -32009), ("0.2", -32009), ("1", -32009)],
)
def test_the_protocol_version_is_one_of_two_or_absent(
    site: Site, version: str, code: int | None
) -> None:
    """Either method under either version; anything else is A2A's error, for any method."""
    for method in (*METHODS, "SendMessage"):
        headers = {"A2A-Version": version, **site.bearer()}
        answer = site.client.post("/a2a", data=_call(method), headers=headers)
        assert answer.json is not None
        error = answer.json.get("error", {})
        if code:
            assert error["code"] == code
            assert error["data"] == _error_info("VERSION_NOT_SUPPORTED")
        else:
            assert error.get("code") in (None, -32004)
        unknown = site.client.post("/a2a", data=_call(method), headers={"A2A-Version": version})
        assert unknown.json is not None
        assert unknown.json["error"]["code"] == (code or -32000)  # it is said to anybody


def _padded(length: int) -> bytes:
    body = _call()
    return body + b" " * (length - len(body))


def test_a_body_beyond_the_limit_is_413(site: Site) -> None:
    """64 KiB are read, not one byte more; the answer is JSON-RPC's all the same."""
    limit = 64 * 1024
    good = site.client.post("/a2a", data=_padded(limit), headers=site.bearer())
    bad = site.client.post("/a2a", data=_padded(limit + 1), headers=site.bearer())

    assert (good.status_code, bad.status_code) == (200, 413)
    assert bad.json is not None
    assert (bad.json["id"], bad.json["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize(
    ("url", "paths"),
    [
        pytest.param("https://tides.example", ["/"], id="no path"),
        pytest.param("https://tides.example/", ["/"], id="the root"),
        pytest.param("https://tides.example/a/b/", ["/a/b", "/a/b/"], id="a final slash"),
        pytest.param("http://tides.example:81/a?x=1", ["/a", "/a/"], id="a port and a query"),
    ],
)
@pytest.mark.parametrize("binding", ["JSONRPC", "jsonrpc"])
def test_json_rpc_is_spoken_at_the_interfaces_path(
    make_site: Callable[..., Site], url: str, paths: list[str], binding: str
) -> None:
    """Whatever host the url names: proxies stand in between."""
    interface = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
    site = make_site({**PUBLIC, "supportedInterfaces": [interface]})

    for path in paths:
        answer = site.client.post(path, data=_call(), headers=site.bearer())
        assert answer.json is not None
        assert "result" in answer.json
    assert site.client.post("/a2a", data=_call(), headers=site.bearer()).status_code == 404


def test_a_0_3_card_speaks_json_rpc_at_its_url(make_site: Callable[..., Site]) -> None:
    """preferredTransport says so, and is JSONRPC where it is absent."""
    card = {name: value for name, value in PUBLIC_0_3.items() if name != "preferredTransport"}
    site = make_site(card)
    answer = site.client.post("/old", data=_call(METHODS[1]), headers=site.bearer())

    assert answer.json is not None
    assert answer.json["result"]["protocolVersion"] == "0.3.0"


@pytest.mark.parametrize("path", ["/rest/v1", "/rest/v1/", "/", "/extendedAgentCard"])
def test_json_rpc_is_spoken_nowhere_else(site: Site, path: str) -> None:
    """Not at a REST interface, nor at paths of other methods."""
    assert site.client.post(path, data=_call(), headers=site.bearer()).status_code in (404, 405)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_json_rpc_is_posted(site: Site, method: str) -> None:
    """405 says so."""
    answer = site.client.open("/a2a", method=method)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "POST, OPTIONS"
