"""A publication before an agent: streams, and blueprints. `exchanges/mount.txt` has the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable
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
from tests.server.served import Messages, Site, agent, async_agent, exchange

CARD = "/.well-known/agent-card.json"
CALL = {"jsonrpc": "2.0", "id": "7", "method": "GetExtendedAgentCard"}
SEND = {"jsonrpc": "2.0", "id": "7", "method": "SendMessage", "params": {}}
POST = {"type": "http", "method": "POST", "path": "/a2a", "headers": []}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published is taken up before each request, and by no thread."""
    monkeypatch.setattr(Publications, "start_watching", Publications.look_at_all)


def ask(app: Any, scope: dict[str, Any], messages: Messages) -> tuple[int, list[bytes]]:
    """What an ASGI application answers to these messages, each by itself."""
    start, *rest = asyncio.run(exchange(app, scope, *messages))
    return start["status"], [message.get("body", b"") for message in rest]


def pieces(*bodies: bytes, is_whole: bool = True) -> Messages:
    """The messages of a body."""
    last = len(bodies) - 1 if is_whole else len(bodies)
    return [
        {"type": "http.request", "body": body, "more_body": number < last}
        for number, body in enumerate(bodies)
    ]


Mount = Callable[..., Any]


@pytest.fixture
def mount(site: Site) -> Mount:
    """Put the cards before an application."""
    return lambda app: mount_cards(app, site.directory, site.settings)


# ------------------------------------------------------------------ streams

HALF = b"y" * (MAX_CALL_BYTES // 2)
GONE = {"type": "http.disconnect"}
#: What an agent is sent, and the messages that come to it: what was read ahead is one of them.
PASSED_ON: dict[str, tuple[dict[str, Any], Messages, list[bytes]]] = {
    "a long body": (
        POST,
        pieces(HALF, HALF, b"z", b"more", b"end", b""),
        [b"POST ", HALF + HALF + b"z", b"more", b"end", b""],
    ),
    "a client that goes": (POST, [*pieces(b"{", is_whole=False), GONE], [b"POST ", b"{", b"gone"]),
    "a websocket": ({"type": "websocket", "path": CARD}, [], [b"websocket "]),
    "a lifespan": ({"type": "lifespan", "path": CARD}, [], [b"lifespan "]),
}


@pytest.mark.parametrize(("scope", "messages", "passed"), PASSED_ON.values(), ids=PASSED_ON)
def test_messages_of_asgi_pass_on_one_by_one(
    mount: Mount, scope: dict[str, Any], messages: Messages, passed: list[bytes]
) -> None:
    """Beyond what was read ahead their bounds are kept, and those of the answer."""
    assert ask(mount(async_agent), scope, messages) == (202, passed)


def test_a_request_for_the_card_may_come_in_pieces(mount: Mount, site: Site) -> None:
    """It is known by its whole body."""
    body = json.dumps(CALL).encode()
    bearer = (b"authorization", site.bearer()["Authorization"].encode())
    scope = {**POST, "headers": [bearer]}
    status, (answer,) = ask(mount(async_agent), scope, pieces(body[:9], body[9:]))
    assert (status, site.generation.extended["staff"] in answer) == (200, True)


def test_a_header_with_an_underscore_passes_for_no_other() -> None:
    """A proxy that sets X-SSL-Client-Verify lets X_SSL_Client_Verify pass."""
    headers = [(b"x_ssl_client_verify", b"SUCCESS"), (b"x-ssl-client-cert", b"a certificate")]
    environ = make_environ({"method": "GET", "path": "/", "headers": headers})
    assert environ["HTTP_X_SSL_CLIENT_CERT"] == "a certificate"
    assert "HTTP_X_SSL_CLIENT_VERIFY" not in environ


@pytest.mark.parametrize("name", [b"GetExtendedAgentCard", rb"\u0047etExtendedAgentCard"])
def test_no_piece_of_a_long_body_ends_within_the_name_unseen(mount: Mount, name: bytes) -> None:
    """Wherever it is cut; the twin names no card."""
    long, mounted = b"{" + b" " * MAX_CALL_BYTES, mount(async_agent)
    for cut in range(1, len(name)):
        body = pieces(long, b'"method":"' + name[:cut], name[cut:], b'"}')
        assert ask(mounted, POST, body)[0] == 413
    other = pieces(long, b'"method":"SendM', b"essage", b'"}')
    assert ask(mounted, POST, other)[0] == 202


def test_no_more_of_a_body_of_asgi_is_read_ahead_than_tells(mount: Mount) -> None:
    """What comes after that waits until the agent asks for it."""

    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413})

    part = pieces(b"x" * (MAX_CALL_BYTES + 1), is_whole=False)
    assert ask(mount(deaf), POST, part) == (413, [])


@pytest.mark.parametrize("more", [b"", b"and a last one"])
def test_a_body_in_single_bytes_is_kept_in_few_messages(mount: Mount, more: bytes) -> None:
    """Each message takes two hundred times what a byte does, until the client sends the rest."""
    status, (_, *passed) = ask(mount(async_agent), POST, pieces(*[b"x"] * 20_000, more))
    assert (status, b"".join(passed)) == (202, b"x" * 20_000 + more)
    assert len(passed) < 20


def test_an_application_is_known_by_how_it_is_called(mount: Mount) -> None:
    """A wrapper need not be a coroutine function to be ASGI's."""

    class Wrapped:
        def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
            return async_agent(scope, receive, send)

    for app in (lambda scope, receive, send: async_agent(scope, receive, send), Wrapped()):
        assert ask(mount(app), {**POST, "method": "GET"}, pieces(b""))[0] == 202


# ------------------------------------------------------------------ bodies of WSGI


def read_into_memory(stream: Any) -> bytes:
    got, memory = b"", bytearray(777)
    while count := stream.readinto(memory):
        got += memory[:count]
    return got


READERS: dict[str, Callable[[Any], bytes]] = {
    "all": lambda stream: bytes(stream.read()),
    "parts": lambda stream: b"".join(iter(lambda: stream.read(999), b"")),
    "lines": lambda stream: b"".join(iter(stream.readline, b"")),
    "memory": read_into_memory,
}


@pytest.mark.parametrize("size", [1000, MAX_CALL_BYTES, 3 * MAX_CALL_BYTES])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_body_of_wsgi_without_a_length_passes_on_whole(
    mount: Mount, size: int, read: Callable[[Any], bytes]
) -> None:
    """Whichever way the agent reads it."""
    body = (b"x" * 99 + b"\n") * (size // 100)
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/a2a", "wsgi.input": BytesIO(body)}
    mounted = mount(lambda environ, start_response: [read(environ["wsgi.input"])])
    assert list(mounted({**environ, "wsgi.input_terminated": True}, None)) == [body]


def test_a_body_of_wsgi_without_an_end_is_not_read(mount: Mount) -> None:
    """Reading on would wait for ever."""

    class Endless:
        def read(self, size: int = -1) -> bytes:
            raise AssertionError(size)

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/a2a", "wsgi.input": Endless()}
    mounted = mount(lambda environ, start_response: [b"agent"])
    assert list(mounted(environ, None)) == [b"agent"]


@pytest.mark.parametrize("length", [None, "100000000"])
def test_what_an_agent_of_wsgi_reads_by_itself_is_looked_at(
    mount: Mount, length: str | None
) -> None:
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
    answer = list(mount(reader)(environ, lambda status, *_: statuses.append(status)))
    assert [status[:3] for status in statuses] == ["200", "413"]
    assert b"error" in answer[0]
    assert body.startswith(got)
    assert b"Card" not in got


def test_an_agent_of_wsgi_may_refuse_a_long_body_by_itself(mount: Mount) -> None:
    """The twin: its own error is for its own server."""

    def refuse(*_: object) -> Iterable[bytes]:
        raise RequestEntityTooLarge

    environ = create_environ("/a2a", method="POST", data=b" " * (MAX_CALL_BYTES + 1))
    with pytest.raises(RequestEntityTooLarge):
        mount(refuse)(environ, lambda *_: None)


def test_a_body_of_wsgi_may_come_in_pieces(mount: Mount) -> None:
    """A stream may give less than it is asked for."""

    class Slow(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 7))

    mounted = Client(mount(agent))
    for call, status in ((CALL, 401), (SEND, 202)):
        body = json.dumps(call).encode()
        over = {"wsgi.input": Slow(body), "wsgi.input_terminated": True}
        answer = mounted.post("/a2a", environ_overrides=over)
        assert answer.status_code == status
        assert status == 401 or answer.data == b"POST " + body


def test_without_settings_an_agent_keeps_an_extended_card_of_its_own(tmp_path: Path) -> None:
    """None is published, and no token table is named."""
    publish_cards(tmp_path / "pub", PrivateKey.generate("ES256"))
    client = Client(mount_cards(agent, tmp_path / "pub"))
    assert client.get("/a2a/extendedAgentCard").status_code == 202
    assert client.post("/a2a", data=json.dumps(CALL)).status_code == 202
    assert client.get(CARD).status_code == 200


# ------------------------------------------------------------------ in Flask


def test_a_blueprint_answers_for_the_card(site: Site) -> None:
    """As `mount_cards` would, before what reads the body: a function that logs may do so first."""
    app = Flask("agent")
    app.before_request(lambda: request.get_data() and None)
    app.add_url_rule("/a2a", view_func=lambda: request.get_data(), methods=["POST"])
    app.register_blueprint(card_blueprint(site.directory, site.settings))
    client, staff = app.test_client(), site.generation.extended["staff"]
    assert client.get(CARD).data == site.generation.card
    assert client.get("/rest/v1/extendedAgentCard").status_code == 401
    assert staff in client.post("/a2a", data=json.dumps(CALL), headers=site.bearer()).data
    assert client.post("/a2a", data=json.dumps(CALL)).status_code == 401
    assert client.post("/a2a", data=json.dumps(CALL) + " " * MAX_CALL_BYTES).status_code == 413
    for body in (json.dumps(SEND).encode(), b"x" * (3 * MAX_CALL_BYTES)):
        assert client.post("/a2a", data=body).data == body


def test_L19_a_disabled_agent_has_no_card_in_a_blueprint(site: Site) -> None:
    """As in front of an agent."""
    app = Flask("agent")
    app.register_blueprint(card_blueprint(site.directory, ServerSettings(enabled=False)))
    assert app.test_client().get(CARD).status_code == 404
