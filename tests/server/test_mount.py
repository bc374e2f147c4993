"""A publication before an agent: streams, and blueprints. `exchanges/mount.txt` has the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.test import Client, create_environ

from cardsign.jose.keys import PrivateKey
from cardsign.server.a2a import MAX_CALL_BYTES
from cardsign.server.mount import card_blueprint, make_environ, mount_cards
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import publish_cards
from tests.server.served import Site

CARD = "/.well-known/agent-card.json"
CALL = {"jsonrpc": "2.0", "id": "7", "method": "GetExtendedAgentCard"}
SEND = {"jsonrpc": "2.0", "id": "7", "method": "SendMessage", "params": {}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published is taken up before each request, and by no thread."""
    monkeypatch.setattr(Publications, "start_watching", Publications.look_at_all)


async def agent(scope: Any, receive: Any, send: Any) -> None:
    """An agent that says what came to it, each message of the body by itself."""
    said = [scope.get("method", scope["type"]).encode()]
    more = scope["type"] == "http"
    while more:
        message = await receive()
        said.append(message.get("body", b"") if message["type"] == "http.request" else b"gone")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": b"|".join(said)})


def asked(application: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> tuple[int, bytes]:
    """What an ASGI application answers to these messages."""
    sent: list[dict[str, Any]] = []
    waiting = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(waiting)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


POST = {"type": "http", "method": "POST", "path": "/a2a", "headers": []}


def pieces(*bodies: bytes, is_whole: bool = True) -> list[dict[str, Any]]:
    """The messages of a body."""
    last = len(bodies) - 1 if is_whole else len(bodies)
    return [
        {"type": "http.request", "body": body, "more_body": number < last}
        for number, body in enumerate(bodies)
    ]


@pytest.fixture
def mounted(site: Site) -> Any:
    """The agent behind the cards."""
    return mount_cards(agent, site.directory, site.settings)


# ------------------------------------------------------------------ streams


def test_messages_of_asgi_pass_on_one_by_one(mounted: Any) -> None:
    """What was read ahead is one message; beyond it their bounds are kept."""
    half = b"y" * (MAX_CALL_BYTES // 2)
    expected = [b"POST", half + half + b"z", b"more", b"end", b""]
    body = pieces(half, half, b"z", *expected[2:])
    assert asked(mounted, POST, *body) == (202, b"|".join(expected))


def test_a_request_for_the_card_may_come_in_pieces(mounted: Any, site: Site) -> None:
    """It is known by its whole body."""
    body = json.dumps(CALL).encode()
    bearer = (b"authorization", site.bearer()["Authorization"].encode())
    status, said = asked(mounted, {**POST, "headers": [bearer]}, *pieces(body[:9], body[9:]))
    assert (status, site.generation.extended["staff"] in said) == (200, True)


def test_a_header_with_an_underscore_passes_for_no_other() -> None:
    """A proxy that sets X-SSL-Client-Verify lets X_SSL_Client_Verify pass."""
    headers = [(b"x_ssl_client_verify", b"SUCCESS"), (b"x-ssl-client-cert", b"a certificate")]
    environ = make_environ({"method": "GET", "path": "/", "headers": headers})
    assert environ["HTTP_X_SSL_CLIENT_CERT"] == "a certificate"
    assert "HTTP_X_SSL_CLIENT_VERIFY" not in environ


@pytest.mark.parametrize("name", [b"GetExtendedAgentCard", rb"\u0047etExtendedAgentCard"])
def test_no_piece_of_a_long_body_ends_within_the_name_unseen(mounted: Any, name: bytes) -> None:
    """Wherever it is cut; the twin names no card."""
    long = b"{" + b" " * MAX_CALL_BYTES
    for cut in range(1, len(name)):
        body = pieces(long, b'"method":"' + name[:cut], name[cut:], b'"}')
        assert asked(mounted, POST, *body)[0] == 413
    other = pieces(long, b'"method":"SendM', b"essage", b'"}')
    assert asked(mounted, POST, *other)[0] == 202


def test_a_client_that_has_gone_is_the_agents(mounted: Any) -> None:
    """The agent hears of it, as without us."""
    part = pieces(b"{", is_whole=False)
    assert asked(mounted, POST, *part, {"type": "http.disconnect"}) == (202, b"POST|{|gone")


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_what_is_no_http_reaches_the_agent(mounted: Any, kind: str) -> None:
    """Whatever its path."""
    assert asked(mounted, {"type": kind, "path": CARD}) == (202, kind.encode())


def test_no_more_of_a_body_of_asgi_is_read_ahead_than_tells(site: Site) -> None:
    """What comes after that waits until the agent asks for it."""

    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413})

    mounted = mount_cards(deaf, site.directory, site.settings)
    part = pieces(b"x" * (MAX_CALL_BYTES + 1), is_whole=False)
    assert asked(mounted, POST, *part) == (413, b"")


@pytest.mark.parametrize("more", [b"", b"and a last one"])
def test_a_body_in_single_bytes_is_kept_in_few_messages(site: Site, more: bytes) -> None:
    """Each message takes two hundred times what a byte does, until the client sends the rest."""
    kept = list[dict[str, Any]]()

    async def keeper(scope: Any, receive: Any, send: Any) -> None:
        while not kept or kept[-1]["more_body"]:
            kept.append(await receive())
        await send({"type": "http.response.start", "status": 202})

    mounted = mount_cards(keeper, site.directory, site.settings)
    assert asked(mounted, POST, *pieces(*[b"x"] * 20_000, more)) == (202, b"")
    assert b"".join(message["body"] for message in kept) == b"x" * 20_000 + more
    assert len(kept) < 20


def test_an_application_is_known_by_how_it_is_called(site: Site) -> None:
    """A wrapper need not be a coroutine function to be ASGI's."""

    class Wrapped:
        def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
            return agent(scope, receive, send)

    for app in (lambda scope, receive, send: agent(scope, receive, send), Wrapped()):
        mounted = mount_cards(app, site.directory, site.settings)
        assert asked(mounted, {**POST, "method": "GET"}, *pieces(b""))[0] == 202


# ------------------------------------------------------------------ bodies of WSGI


@pytest.mark.parametrize("size", [1000, MAX_CALL_BYTES, 3 * MAX_CALL_BYTES])
@pytest.mark.parametrize("by", ["all", "parts", "lines", "memory"])
def test_a_body_of_wsgi_without_a_length_passes_on_whole(site: Site, size: int, by: str) -> None:
    """Whichever way the agent reads it."""
    body = (b"x" * 99 + b"\n") * (size // 100)
    got = bytearray()

    def reader(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        stream = environ["wsgi.input"]
        if by == "all":
            got.extend(stream.read())
        elif by == "memory":
            memory = bytearray(777)
            while count := stream.readinto(memory):
                got.extend(memory[:count])
        else:
            take = (lambda: stream.read(999)) if by == "parts" else stream.readline
            while part := take():
                got.extend(part)
        start_response("200 OK", [])
        return []

    mounted = mount_cards(reader, site.directory, site.settings)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/a2a",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
    }
    list(mounted(environ, lambda *_: None))
    assert bytes(got) == body


def test_a_body_of_wsgi_without_an_end_is_not_read(site: Site) -> None:
    """Reading on would wait for ever."""

    class Endless:
        def read(self, size: int = -1) -> bytes:
            raise AssertionError(size)

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/a2a", "wsgi.input": Endless()}
    mounted = mount_cards(lambda *_: [b"agent"], site.directory, site.settings)
    assert list(mounted(environ, lambda *_: None)) == [b"agent"]


@pytest.mark.parametrize("length", [None, "100000000"])
def test_what_an_agent_of_wsgi_reads_by_itself_is_looked_at(site: Site, length: str | None) -> None:
    """It gets an error in place of a card method, and again where it goes on; the client 413."""
    body = b" " * MAX_CALL_BYTES + json.dumps(CALL).encode() + b"rest"
    got = b""

    def reader(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        nonlocal got
        start_response("200 OK", [])
        with contextlib.suppress(RequestEntityTooLarge):
            while piece := environ["wsgi.input"].read(10):
                got += piece
        environ["wsgi.input"].read(1)
        return []

    statuses: list[str] = []
    environ = create_environ("/a2a", method="POST", environ_overrides={"wsgi.input": BytesIO(body)})
    environ |= {"wsgi.input_terminated": True} if length is None else {"CONTENT_LENGTH": length}
    mounted = mount_cards(reader, site.directory, site.settings)
    answer = list(mounted(environ, lambda status, *_: statuses.append(status)))
    assert [status[:3] for status in statuses] == ["200", "413"]
    assert b"error" in answer[0]
    assert body.startswith(got)
    assert b"Card" not in got


def test_a_body_of_wsgi_may_come_in_pieces(site: Site) -> None:
    """A stream may give less than it is asked for."""

    class Slow(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 7))

    def echo(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("202 ACCEPTED", [])
        return [environ["wsgi.input"].read()]

    mounted = Client(mount_cards(echo, site.directory, site.settings))
    for method, status in (("GetExtendedAgentCard", 401), ("SendMessage", 202)):
        body = json.dumps({**CALL, "method": method}).encode()
        over = {"wsgi.input": Slow(body), "wsgi.input_terminated": True}
        answer = mounted.post("/a2a", environ_overrides=over)
        assert answer.status_code == status
        assert status == 401 or answer.data == body


# ------------------------------------------------------------------ in Flask


def test_a_blueprint_answers_for_the_card(site: Site) -> None:
    """As :func:`mount_cards` would; all else is the application's."""
    app = Flask("agent")
    app.add_url_rule("/a2a", view_func=lambda: request.get_data(), methods=["POST"])
    app.register_blueprint(card_blueprint(site.directory, site.settings))
    client, staff = app.test_client(), site.generation.extended["staff"]
    assert client.get(CARD).data == site.generation.card
    assert client.get("/rest/v1/extendedAgentCard").status_code == 401
    assert staff in client.post("/a2a", data=json.dumps(CALL), headers=site.bearer()).data
    long = b"x" * (3 * MAX_CALL_BYTES)
    assert client.post("/a2a", data=long).data == long


def test_L19_a_disabled_agent_has_no_card_in_a_blueprint(site: Site) -> None:
    """As in front of an agent."""
    app = Flask("agent")
    app.register_blueprint(card_blueprint(site.directory, ServerSettings(enabled=False)))
    assert app.test_client().get(CARD).status_code == 404


def test_without_settings_an_agent_keeps_an_extended_card_of_its_own(tmp_path: Path) -> None:
    """None is published, and no token table is named."""

    def accept(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("202 ACCEPTED", [])
        return [b""]

    publish_cards(tmp_path / "pub", PrivateKey.generate("ES256"))
    client = Client(mount_cards(accept, tmp_path / "pub"))
    assert client.get("/a2a/extendedAgentCard").status_code == 202
    assert client.post("/a2a", data=json.dumps(CALL)).status_code == 202
    assert client.get(CARD).status_code == 200


def test_a_blueprint_comes_before_what_reads_the_body(site: Site) -> None:
    """A function of the application's own, such as one that logs, may have been there first."""
    app = Flask("agent")
    app.before_request(lambda: request.get_data() and None)
    app.register_blueprint(card_blueprint(site.directory, site.settings))
    app.add_url_rule("/a2a", view_func=lambda: request.get_data(), methods=["POST"])
    client = app.test_client()
    assert client.post("/a2a", data=json.dumps(CALL)).status_code == 401
    assert client.post("/a2a", data=json.dumps(CALL) + " " * MAX_CALL_BYTES).status_code == 413
    assert client.post("/a2a", data=json.dumps(SEND)).data == json.dumps(SEND).encode()
