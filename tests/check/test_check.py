"""`check`: what is known of a card by its bytes, and of a server that does things wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.card.values import jcs
from cardsign.check import CheckReport, check_card, check_url
from cardsign.errors import FetchFailed
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.net.fetch import FetchSettings
from tests.support import NOW, PORTABLE, put

SETTINGS = FetchSettings(insecure_loopback_http=True, total_timeout=20.0)
#: On a loopback server the address itself is a finding, and one SDK's client refuses every card
#: with security schemes; what is tested is everything else.
LOCAL = {"secrets.internal-address", "check.sdk-refuses"}


def rules(report: CheckReport) -> set[str]:
    """What was found, but for the address of the test's server."""
    return {one.code for one in report.findings} - LOCAL


def signed(card: dict[str, Any], key: PrivateKey) -> bytes:
    """The card with one signature or more."""
    return sign_card(json.dumps(card).encode(), key)


def test_nothing_is_found_of_a_sound_signed_card(alice: PrivateKey) -> None:
    """Each twin below has one thing wrong."""
    report = check_card(signed(PORTABLE, alice), jwks=JwkSet.of([alice.public]))
    assert (report.summary, rules(report)) == ("1 note", set())
    assert report.explanation.predictions


def test_findings_are_counted_by_severity(alice: PrivateKey) -> None:
    """The gravest first."""
    card = put(
        put(PORTABLE, "/version", "two"), "/supportedInterfaces/0/url", "http://tides.example/"
    )
    report = check_card(json.dumps(card).encode())
    assert report.summary == "1 error, 2 warnings"
    assert [finding.severity for finding in report.findings] == ["error", "warning", "warning"]
    assert check_card(b"{").summary == "1 error"


def test_an_unsigned_card_and_an_unknown_key(alice: PrivateKey, bob: PrivateKey) -> None:
    """Each is named."""
    keys = JwkSet.of([alice.public])
    assert rules(check_card(json.dumps(PORTABLE).encode())) == {"check.unsigned"}
    assert "check.unknown-key" in rules(check_card(signed(PORTABLE, bob), jwks=keys))
    forged = signed(PORTABLE, alice).replace(b"Tide tables", b"Tide tablet")
    assert "check.invalid" in rules(check_card(forged, jwks=keys))


def test_the_page_runs_nothing_and_obeys_no_text() -> None:
    """A card's markup is shown."""
    name = '<script>alert(1)</script><img src=x onerror="x">'
    card = {**put(PORTABLE, "/version", name), name: 1}
    page = check_card(json.dumps(card).encode(), name=name).to_html()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "default-src &#x27;none&#x27;" in page


def test_the_page_hides_nothing_behind_control_characters() -> None:
    """Marks of direction, escapes and bytes of a name that are no text are spelled out."""
    page = check_card(json.dumps(PORTABLE).encode(), name="\u202e\x1b[31m\udcff").to_html()
    assert page.encode()
    assert not {"\u202e", "\x1b", "\udcff"} & set(page)
    assert "\\u202e\\u001b[31m\\udcff" in page


def test_the_report_for_programs_is_json() -> None:
    """Whatever the card is."""
    for data in (b"", b"{}", b"[]", json.dumps(PORTABLE).encode(), b'{"signatures": [1]}'):
        answer = json.loads(json.dumps(check_card(data).to_json()))
        assert answer["schema"] == "cardsign.check/1"
        assert answer["findings"]


@pytest.mark.needs_shared
def test_no_card_of_the_corpus_makes_it_fail(shared: Path) -> None:
    """And they are not all alike."""
    paths = sorted((shared / "corpus/cards").glob("*.json"))[::7]
    assert len({check_card(path.read_bytes()).summary for path in paths}) >= 2


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
    return rules(check_url(server.origin, fetch=SETTINGS, now=NOW))


def test_a_server_that_does_it_right(server: Server, alice: PrivateKey) -> None:
    """Only the card and its keys are asked for."""
    serve(server, alice, PORTABLE)
    report = check_url(server.origin, fetch=SETTINGS, now=NOW)
    assert rules(report) == set()
    assert server.asked == ["/.well-known/agent-card.json", "/.well-known/jwks.json"]
    assert len(report.asked) == 2


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5"])
@pytest.mark.parametrize("is_hex", [True, False], ids=["hex", "base64"])
def test_an_etag_that_does_not_follow_the_signature(
    server: Server, alice: PrivateKey, algorithm: str, is_hex: bool
) -> None:
    """A digest of the card without its signatures; that of the bytes is sound."""
    serve(server, alice, PORTABLE)
    digest = hashlib.new(algorithm, jcs(PORTABLE)).digest()
    tag = digest.hex() if is_hex else base64.b64encode(digest).decode()
    server.headers["ETag"] = f'"{tag}"'
    assert asked(server) == {"check.etag-unsigned"}


def test_an_etag_of_signs_alone_is_no_digest(server: Server, alice: PrivateKey) -> None:
    """Padding without a digest is not taken for the beginning of one."""
    serve(server, alice, PORTABLE)
    server.headers |= {"ETag": '"========"'}
    assert asked(server) == set()


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
    report = check_url(server.origin, fetch=SETTINGS, now=NOW)
    assert rules(report) == {"check.extended-open"}
    assert report.findings[0].severity == "error"


def test_other_hosts_are_asked_with_a_flag_alone(server: Server, alice: PrivateKey) -> None:
    """The card names another origin; by default nothing is asked there."""
    capabilities = {"streaming": True, "extendedAgentCard": True}
    serve(server, alice, {**PORTABLE, "capabilities": capabilities})
    for flag in (False, True):
        report = check_url(server.origin, fetch=SETTINGS, now=NOW, other_hosts=flag)
        elsewhere = [one for one in report.asked if not one.startswith(server.origin)]
        assert bool(elsewhere) is flag


def test_a_card_that_cannot_be_fetched(server: Server) -> None:
    """No report: nothing is known."""
    with pytest.raises(FetchFailed):
        check_url(server.origin, fetch=SETTINGS, now=NOW)
