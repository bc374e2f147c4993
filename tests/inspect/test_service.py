"""`inspect` of a URL: what is said of a server that does things wrong."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.errors import FetchFailed
from cardsign.inspect.card import Inspection
from cardsign.inspect.service import inspect_url
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.net.fetch import FetchSettings
from tests.support import PORTABLE

SETTINGS = FetchSettings(insecure_loopback_http=True, total_timeout=20.0)


def rules(report: Inspection) -> set[str]:
    """What was found of the service."""
    return {one.code for one in report.service}


def signed(card: dict[str, Any], key: PrivateKey) -> bytes:
    """The card with one signature or more."""
    return sign_card(json.dumps(card).encode(), key)


# ------------------------------------------------------------------ servers


@dataclass
class Server:
    """A server on this machine that says what the test wants."""

    origin: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    posted: bytes | None = None
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    """It serves until the test is over."""
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def answer(self, body: bytes | None) -> None:
            served.asked.append(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            for name, value in served.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body or b"")

        def do_GET(self) -> None:
            self.answer(served.bodies.get(self.path))

        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert "Authorization" not in self.headers
            if served.posted is None:
                self.answer(None)
                return
            result = json.loads(served.posted)
            answer = {"jsonrpc": "2.0", "id": call["id"], "result": result}
            self.answer(json.dumps(answer).encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        served.origin = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            listening.shutdown()
            thread.join()


def serve(server: Server, key: PrivateKey, card: dict[str, Any], **headers: str) -> bytes:
    """The card, signed, with its keys and good headers unless others are given."""
    body = signed(card, key)
    server.bodies["/.well-known/agent-card.json"] = body
    server.bodies["/.well-known/jwks.json"] = JwkSet.of([key.public]).to_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    server.headers = {"Cache-Control": "max-age=3600", "ETag": etag, **headers}
    return body


def asked(server: Server) -> set[str]:
    """What is found at the server."""
    return rules(inspect_url(server.origin, fetch=SETTINGS))


def test_a_server_that_does_it_right(server: Server, alice: PrivateKey) -> None:
    """Only the card and its keys are asked for."""
    serve(server, alice, PORTABLE)
    report = inspect_url(server.origin, fetch=SETTINGS)
    assert rules(report) == set()
    assert server.asked == ["/.well-known/agent-card.json", "/.well-known/jwks.json"]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("ETag", 'W/"abc"', "check.etag-unsigned"),
        ("ETag", None, "check.etag-absent"),
        ("Cache-Control", "public, max-age=31536000, immutable", "check.cache-long"),
        ("Cache-Control", None, "check.cache-unsaid"),
    ],
)
def test_headers_that_mislead(
    server: Server, alice: PrivateKey, name: str, value: str | None, rule: str
) -> None:
    """One header at a time is wrong."""
    serve(server, alice, PORTABLE)
    del server.headers[name]
    server.headers |= {name: value} if value else {}
    assert asked(server) == {rule}


def test_keys_that_are_not_there_weak_or_private(server: Server, alice: PrivateKey) -> None:
    """Absent is a note; refused is an error."""
    serve(server, alice, PORTABLE)
    keys = server.bodies.pop("/.well-known/jwks.json")
    assert asked(server) == {"check.no-keys"}
    weak = {"kty": "RSA", "kid": "w", "n": "AQAB" * 20, "e": "AQAB"}
    private = {**json.loads(keys)["keys"][0], "d": "AAAA"}
    for key in (weak, private):
        server.bodies["/.well-known/jwks.json"] = json.dumps({"keys": [key]}).encode()
        assert asked(server) == {"check.bad-keys"}


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_an_extended_card_that_is_given_to_anyone(
    server: Server, alice: PrivateKey, binding: str
) -> None:
    """The twin answers 404, as would 401."""
    interface = {"url": f"{server.origin}/a2a", "protocolBinding": binding}
    card = {
        **PORTABLE,
        "supportedInterfaces": [{**interface, "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True, "extendedAgentCard": True},
    }
    body = serve(server, alice, card)
    assert asked(server) == set()
    server.posted = body
    server.bodies["/a2a/extendedAgentCard"] = body
    report = inspect_url(server.origin, fetch=SETTINGS)
    assert rules(report) == {"check.extended-open"}
    assert report.service[0].severity == "error"


def test_other_hosts_are_not_asked(server: Server, alice: PrivateKey) -> None:
    """The card names another origin; its extended card is not asked for there."""
    capabilities = {"streaming": True, "extendedAgentCard": True}
    serve(server, alice, {**PORTABLE, "capabilities": capabilities})
    report = inspect_url(server.origin, fetch=SETTINGS)
    assert rules(report) == set()


def test_a_card_at_the_legacy_path_is_inspected(server: Server, alice: PrivateKey) -> None:
    """It is asked for where there is none at the path of today, and said to be there."""
    serve(server, alice, PORTABLE)
    card = server.bodies.pop("/.well-known/agent-card.json")
    server.bodies["/.well-known/agent.json"] = card
    report = inspect_url(server.origin, fetch=SETTINGS)
    assert rules(report) == {"card.legacy_path"}
    assert [signature.report.verdict for signature in report.signatures] == ["valid"]


def test_a_card_that_cannot_be_fetched(server: Server) -> None:
    """No report: nothing is known."""
    with pytest.raises(FetchFailed, match="agent-card"):
        inspect_url(server.origin, fetch=SETTINGS)
