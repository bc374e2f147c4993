"""A publication in front of the agent's own application: what is answered, what passes on."""

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
from tests.publish.publications import PUBLIC, PUBLIC_0_3, publish_cards
from tests.server.served import Site

CARD = "/.well-known/agent-card.json"
CALL = {"jsonrpc": "2.0", "id": "7", "method": "GetExtendedAgentCard"}
SEND = {"jsonrpc": "2.0", "id": "7", "method": "SendMessage", "params": {}}


def agent(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """An agent that says what came to it."""
    start_response("202 ACCEPTED", [("X-Path", environ["PATH_INFO"])])
    return [environ["REQUEST_METHOD"].encode(), b" ", environ["wsgi.input"].read()]


async def async_agent(scope: Any, receive: Any, send: Any) -> None:
    """The same, each message of the body by itself."""
    said = [scope.get("method", scope["type"]).encode()]
    more = scope["type"] == "http"
    while more:
        message = await receive()
        said.append(message.get("body", b"") if message["type"] == "http.request" else b"gone")
        more = message.get("more_body", False)
    start = {"type": "http.response.start", "status": 202, "headers": []}
    for one in (start, {"type": "http.response.body", "body": b"|".join(said)}):
        await send(one)


Ask = Callable[..., tuple[int, bytes]]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published is taken up before each request, and by no thread."""
    monkeypatch.setattr(Publications, "start_watching", Publications.look_at_all)


@pytest.fixture
def settings(site: Site) -> ServerSettings:
    """The tokens of the site."""
    return site.settings


@pytest.fixture
def ask_wsgi(site: Site, settings: ServerSettings) -> Ask:
    mounted = Client(mount_cards(agent, site.directory, settings))

    def ask(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        try:
            answer = mounted.open(path, method=method, data=body, headers=headers)
        except RequestEntityTooLarge as error:  # werkzeug's client raises what an answer is about
            return error.code, b""
        return answer.status_code, answer.data

    return ask


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


@pytest.fixture
def ask_asgi(site: Site, settings: ServerSettings) -> Ask:
    mounted = mount_cards(async_agent, site.directory, settings)

    def ask(method: str, path: str, *pieces: bytes, **headers: str) -> tuple[int, bytes]:
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": raw,
        }
        pieces = pieces or (b"",)
        messages = [
            {"type": "http.request", "body": one, "more_body": number < len(pieces)}
            for number, one in enumerate(pieces, start=1)
        ]
        return asked(mounted, scope, *messages)

    return ask


@pytest.fixture(params=["wsgi", "asgi"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks a mounted agent, of either kind."""
    chosen: Ask = request.getfixturevalue(f"ask_{request.param}")
    return chosen


@pytest.mark.parametrize("path", [CARD, "/.well-known/agent.json"])
def test_the_public_card_is_the_publications(ask: Ask, site: Site, path: str) -> None:
    """The agent is not asked."""
    assert ask("GET", path) == (200, site.generation.card)
    assert ask("OPTIONS", path) == (204, b"")


def test_nothing_that_is_answered_to_head_has_a_body(ask: Ask) -> None:
    """Not even under ASGI."""
    assert ask("HEAD", CARD) == (200, b"")
    assert ask("HEAD", "/extendedAgentCard") == (401, b"")


@pytest.mark.parametrize("path", ["/extendedAgentCard", "/rest/v1/extendedAgentCard"])
def test_the_extended_card_needs_its_token(ask: Ask, site: Site, path: str) -> None:
    """401 by the card server, with the token the card as it was signed."""
    assert ask("GET", path)[0] == 401
    assert ask("GET", path, **site.bearer()) == (200, site.generation.extended["staff"])


def test_the_one_method_of_json_rpc_is_answered(ask: Ask, site: Site) -> None:
    """At the agent's own URL."""
    status, body = ask("POST", "/a2a", json.dumps(CALL).encode(), **site.bearer())
    assert status == 200
    assert site.generation.extended["staff"] in body
    assert ask("POST", "/a2a", json.dumps(CALL).encode())[0] == 401


OTHERS = {
    "another method": json.dumps(SEND).encode(),
    "no JSON": b"\xff{",
    "nothing": b"",
    "a batch": b"[" + json.dumps(SEND).encode() + b"]",
    "a member twice": b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","method":"x"}',
    "the name in a text": json.dumps({"message": {"text": CALL["method"]}}).encode(),
    "as long as may be read": b"x" * MAX_CALL_BYTES,
    "longer than may be read": b"x" * (MAX_CALL_BYTES + 1),
    "far longer": b"x" * (20 * MAX_CALL_BYTES),
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_any_other_body_reaches_the_agent_whole(ask: Ask, body: bytes) -> None:
    """Our limits and our strict reading are not the agent's."""
    status, said = ask("POST", "/a2a", body)
    assert status == 202
    assert said in (b"POST " + body, b"POST|" + body)


@pytest.mark.parametrize("path", ["/a2a", "/other", CARD])
@pytest.mark.parametrize(
    "body",
    [
        b"[" + json.dumps(CALL).encode() + b"]",
        b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","method":"x"}',
        json.dumps(CALL).encode() + b" " * MAX_CALL_BYTES,
        json.dumps(CALL).encode("utf-16"),
        rb'{"method":"\u0047etExtendedAgentCard",}',
        json.dumps({**CALL, "id": []}).encode(),
    ],
    ids=["a batch", "a member twice", "too long", "UTF-16", "an escaped letter", "no id"],
)
def test_what_an_agent_could_take_for_a_request_for_the_card_is_refused(
    ask: Ask, path: str, body: bytes
) -> None:
    """It may have a card of its own; `tests/integrations` has one, and the other forms."""
    for method in ("POST", "post"):
        status, said = ask(method, path, body)
        assert status in (401, 404, 405, 413)
        if status == 200:
            assert "error" in json.loads(said)


#: Where gRPC-Web and Connect ask for the extended card; in A2A 0.3 `GetAgentCard` returns it.
GRPC_CARDS = ("lf.a2a.v1.A2AService/GetExtendedAgentCard", "a2a.v1.A2AService/GetAgentCard")


@pytest.mark.parametrize("method", GRPC_CARDS)
@pytest.mark.parametrize("prefix", ["/", "/rpc/"])
def test_no_form_of_the_grpc_method_reaches_the_agent(ask: Ask, prefix: str, method: str) -> None:
    """gRPC names its method in the path, and the body is a few bytes; Connect asks by GET too."""
    frame, kind = b"\0\0\0\0\0", "application/grpc-web+proto"
    for verb, body in (("POST", frame), ("POST", b"{}"), ("post", frame), ("GET", b"")):
        assert ask(verb, prefix + method, body, **{"Content-Type": kind})[0] == 404
    other = prefix + method.rpartition("/")[0] + "/SendMessage"
    assert ask("POST", other, frame, **{"Content-Type": kind})[0] == 202


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/healthz"),
        ("GET", "/a2a"),
        ("PUT", CARD),
        ("POST", CARD),
        ("POST", "/extendedAgentCard"),
        ("POST", "/rest/v1/message:send"),
        ("DELETE", "/a2a/tasks/1"),
    ],
)
def test_any_other_request_reaches_the_agent(ask: Ask, method: str, path: str) -> None:
    """Health too, which is the agent's own."""
    status, said = ask(method, path, b"body")
    assert status == 202
    assert said in (method.encode() + b" body", method.encode() + b"|body")


@pytest.mark.parametrize("name", ["release.json", "keyset/9.9.json"])
def test_a_statement_that_is_not_published_is_404(ask: Ask, name: str) -> None:
    """A verifier tells by it that there is no newer one, whatever the agent would answer."""
    assert ask("GET", f"/.well-known/cardsign/{name}")[0] == 404
    assert ask("GET", f"/.well-known/other/{name}")[0] == 202


def test_a_card_that_is_published_later_is_answered(
    site: Site, key: PrivateKey, settings: ServerSettings
) -> None:
    """The publication is followed, as by `cardsign serve`."""
    client = Client(mount_cards(agent, site.directory, settings))
    newer = publish_cards(site.directory, key, {**PUBLIC, "version": "7.0.0"})
    assert client.get(CARD).data == newer.card


# ------------------------------------------------------------------ streams


def test_messages_of_asgi_pass_on_one_by_one(ask_asgi: Ask) -> None:
    """What was read ahead is one message; beyond it their bounds are kept."""
    half = b"y" * (MAX_CALL_BYTES // 2)
    expected = [b"POST", half + half + b"z", b"more", b"end", b""]
    assert ask_asgi("POST", "/a2a", half, half, b"z", *expected[2:]) == (202, b"|".join(expected))


def test_a_request_for_the_card_may_come_in_pieces(ask_asgi: Ask, site: Site) -> None:
    """It is known by its whole body."""
    body = json.dumps(CALL).encode()
    status, said = ask_asgi("POST", "/a2a", body[:9], body[9:], **site.bearer())
    assert status == 200
    assert site.generation.extended["staff"] in said


def test_a_header_with_an_underscore_passes_for_no_other() -> None:
    """A proxy that sets X-SSL-Client-Verify lets X_SSL_Client_Verify pass."""
    headers = [(b"x_ssl_client_verify", b"SUCCESS"), (b"x-ssl-client-cert", b"a certificate")]
    environ = make_environ({"method": "GET", "path": "/", "headers": headers})
    assert environ["HTTP_X_SSL_CLIENT_CERT"] == "a certificate"
    assert "HTTP_X_SSL_CLIENT_VERIFY" not in environ


@pytest.mark.parametrize("name", [b"GetExtendedAgentCard", rb"\u0047etExtendedAgentCard"])
def test_no_piece_of_a_long_body_ends_within_the_name_unseen(ask_asgi: Ask, name: bytes) -> None:
    """Wherever it is cut; the twin names no card."""
    long = b"{" + b" " * MAX_CALL_BYTES
    for cut in range(1, len(name)):
        body = b'"method":"' + name[:cut]
        assert ask_asgi("POST", "/a2a", long, body, name[cut:], b'"}')[0] == 413
    assert ask_asgi("POST", "/a2a", long, b'"method":"SendM', b"essage", b'"}')[0] == 202


def test_a_client_that_has_gone_is_the_agents(site: Site, settings: ServerSettings) -> None:
    """The agent hears of it, as without us."""
    mounted = mount_cards(async_agent, site.directory, settings)
    scope = {"type": "http", "method": "POST", "path": "/a2a", "headers": []}
    part = {"type": "http.request", "body": b"{", "more_body": True}
    assert asked(mounted, scope, part, {"type": "http.disconnect"}) == (202, b"POST|{|gone")


def test_no_more_of_a_body_of_asgi_is_read_ahead_than_tells(
    site: Site, settings: ServerSettings
) -> None:
    """What comes after that waits until the agent asks for it."""

    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413})

    mounted = mount_cards(deaf, site.directory, settings)
    scope = {"type": "http", "method": "POST", "path": "/a2a", "headers": []}
    part = {"type": "http.request", "body": b"x" * (MAX_CALL_BYTES + 1), "more_body": True}
    assert asked(mounted, scope, part) == (413, b"")


@pytest.mark.parametrize("more", [b"", b"and a last one"])
def test_a_body_in_single_bytes_is_kept_in_few_messages(
    site: Site, settings: ServerSettings, more: bytes
) -> None:
    """Each message takes two hundred times what a byte does, until the client sends the rest."""
    kept = list[dict[str, Any]]()

    async def agent(scope: Any, receive: Any, send: Any) -> None:
        while not kept or kept[-1]["more_body"]:
            kept.append(await receive())
        await send({"type": "http.response.start", "status": 202})

    mounted = mount_cards(agent, site.directory, settings)
    scope = {"type": "http", "method": "POST", "path": "/a2a", "headers": []}
    byte = {"type": "http.request", "body": b"x", "more_body": True}
    end = {"type": "http.request", "body": more, "more_body": False}
    assert asked(mounted, scope, *[byte] * 20_000, end) == (202, b"")
    assert b"".join(message["body"] for message in kept) == b"x" * 20_000 + more
    assert len(kept) < 20


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_what_is_no_http_reaches_the_agent(site: Site, settings: ServerSettings, kind: str) -> None:
    """Whatever its path."""
    mounted = mount_cards(async_agent, site.directory, settings)
    assert asked(mounted, {"type": kind, "path": CARD}) == (202, kind.encode())


@pytest.mark.parametrize("size", [1000, MAX_CALL_BYTES, 3 * MAX_CALL_BYTES])
@pytest.mark.parametrize("by", ["all", "parts", "lines", "memory"])
def test_a_body_of_wsgi_without_a_length_passes_on_whole(
    site: Site, settings: ServerSettings, size: int, by: str
) -> None:
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

    mounted = mount_cards(reader, site.directory, settings)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/a2a",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
    }
    list(mounted(environ, lambda *_: None))
    assert bytes(got) == body


def test_a_body_of_wsgi_without_an_end_is_not_read(site: Site, settings: ServerSettings) -> None:
    """Reading on would wait for ever."""

    class Endless:
        def read(self, size: int = -1) -> bytes:
            raise AssertionError(size)

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/a2a", "wsgi.input": Endless()}
    mounted = mount_cards(lambda *_: [b"agent"], site.directory, settings)
    assert list(mounted(environ, lambda *_: None)) == [b"agent"]


@pytest.mark.parametrize("length", [None, "100000000"])
def test_what_an_agent_of_wsgi_reads_by_itself_is_looked_at(
    site: Site, settings: ServerSettings, length: str | None
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
    mounted = mount_cards(reader, site.directory, settings)
    answer = list(mounted(environ, lambda status, *_: statuses.append(status)))
    assert [status[:3] for status in statuses] == ["200", "413"]
    assert b"error" in answer[0]
    assert body.startswith(got)
    assert b"Card" not in got


def test_a_body_of_wsgi_may_come_in_pieces(site: Site, settings: ServerSettings) -> None:
    """A stream may give less than it is asked for."""

    class Slow(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 7))

    mounted = Client(mount_cards(agent, site.directory, settings))
    for method, status in (("GetExtendedAgentCard", 401), ("SendMessage", 202)):
        body = json.dumps({**CALL, "method": method}).encode()
        over = {"wsgi.input": Slow(body), "wsgi.input_terminated": True}
        answer = mounted.post("/a2a", environ_overrides=over)
        assert answer.status_code == status
        assert status == 401 or answer.data == b"POST " + body


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Encoding": "identity", "Content-Type": 'text/plain;charset="UTF-8"'},
    ],
)
def test_an_encoded_body_is_refused(ask: Ask, headers: dict[str, str]) -> None:
    """Nobody before the agent can tell what the agent would read."""
    expected = 202 if "identity" in headers.values() else 415
    assert ask("POST", "/other", b"body", **headers)[0] == expected
    assert ask("PUT", "/other", b"body", **headers)[0] == 202


@pytest.mark.parametrize("body", [b"", json.dumps(CALL).encode()], ids=["GET", "JSON-RPC"])
def test_an_extended_card_of_the_agents_own_is_left_to_it(
    tmp_path: Path, alice: PrivateKey, body: bytes
) -> None:
    """Where none is published, nobody but the agent can answer."""
    publish_cards(tmp_path, alice, PUBLIC)
    mounted = Client(mount_cards(agent, tmp_path))
    method, path = ("POST", "/a2a") if body else ("GET", "/a2a/extendedAgentCard")
    answer = mounted.open(path, method=method, data=body)
    assert (answer.status_code, answer.data) == (202, method.encode() + b" " + body)
    assert mounted.get(CARD).status_code == 200


def test_an_application_is_known_by_how_it_is_called(site: Site, settings: ServerSettings) -> None:
    """A wrapper need not be a coroutine function to be ASGI's."""

    class Wrapped:
        def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
            return async_agent(scope, receive, send)

    for app in (lambda scope, receive, send: async_agent(scope, receive, send), Wrapped()):
        mounted = mount_cards(app, site.directory, settings)
        scope = {"type": "http", "method": "GET", "path": "/other", "headers": []}
        assert asked(mounted, scope, {"type": "http.request", "body": b""})[0] == 202


# ------------------------------------------------------------------ below a path, and in Flask


@pytest.mark.parametrize("script", ["", "/agents/tides"])
def test_an_agent_below_a_path_has_its_card_there(site: Site, script: str) -> None:
    """The well-known path follows the mount; the paths in the card are whole paths of the host."""
    mounted = Client(mount_cards(agent, site.directory, site.settings))

    def get(path: str) -> tuple[int, bytes]:
        answer = mounted.get(path, base_url=f"http://x{script}", headers=site.bearer())
        return answer.status_code, answer.data

    assert get(CARD) == (200, site.generation.card)
    assert get("/other") == (202, b"GET ")
    staff = site.generation.extended["staff"]
    assert get("/rest/v1/extendedAgentCard") == (200, staff)


def test_the_paths_of_the_card_are_whole_ones(make_site: Callable[..., Site]) -> None:
    """An interface below the mount is found by its whole path, under WSGI and ASGI."""
    interface = {"url": "https://x.example/agents/tides/a2a", "protocolBinding": "JSONRPC"}
    site = make_site({**PUBLIC, "supportedInterfaces": [{**interface, "protocolVersion": "1.0"}]})
    body, staff = json.dumps(CALL).encode(), site.generation.extended["staff"]
    mounted = Client(mount_cards(agent, site.directory, site.settings))
    for script, status in (("/agents/tides", 200), ("/agents/waves", 404)):
        whole = f"http://x{script}"
        answer = mounted.post("/a2a", base_url=whole, data=body, headers=site.bearer())
        assert (answer.status_code, staff in answer.data) == (status, status == 200)

    under_asgi = mount_cards(async_agent, site.directory, site.settings)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/agents/tides/a2a",
        "root_path": "/agents/tides",
        "headers": [(b"authorization", site.bearer()["Authorization"].encode())],
    }
    status, text = asked(under_asgi, scope, {"type": "http.request", "body": body})
    assert (status, staff in text) == (200, True)
    get = {**scope, "method": "GET", "path": f"/agents/tides{CARD}"}
    assert asked(under_asgi, get) == (200, site.generation.card)


def test_a_blueprint_answers_for_the_card(site: Site, settings: ServerSettings) -> None:
    """As :func:`mount_cards` would; all else is the application's."""
    app = Flask("agent")
    app.add_url_rule("/a2a", view_func=lambda: request.get_data(), methods=["POST"])
    app.register_blueprint(card_blueprint(site.directory, settings))
    client, staff = app.test_client(), site.generation.extended["staff"]
    assert client.get(CARD).data == site.generation.card
    assert client.get("/rest/v1/extendedAgentCard").status_code == 401
    assert staff in client.post("/a2a", data=json.dumps(CALL), headers=site.bearer()).data
    long = b"x" * (3 * MAX_CALL_BYTES)
    assert client.post("/a2a", data=long).data == long


def test_a_blueprint_comes_before_what_reads_the_body(site: Site, settings: ServerSettings) -> None:
    """A function of the application's own, such as one that logs, may have been there first."""
    app = Flask("agent")
    app.before_request(lambda: request.get_data() and None)
    app.register_blueprint(card_blueprint(site.directory, settings))
    app.add_url_rule("/a2a", view_func=lambda: request.get_data(), methods=["POST"])
    client = app.test_client()
    assert client.post("/a2a", data=json.dumps(CALL)).status_code == 401
    assert client.post("/a2a", data=json.dumps(CALL) + " " * MAX_CALL_BYTES).status_code == 413
    assert client.post("/a2a", data=json.dumps(SEND)).data == json.dumps(SEND).encode()


OPENID = "https://login.example/.well-known/openid-configuration"
OLDER: dict[str, dict[str, Any]] = {
    "a card of 0.3": {
        **PUBLIC_0_3,
        "securitySchemes": {"sso": {"type": "openIdConnect", "openIdConnectUrl": OPENID}},
    },
    "a card of 1.0 with an interface of 0.3": {
        **PUBLIC,
        "supportedInterfaces": [
            {
                "url": "https://x.example/old/rest",
                "protocolBinding": "HTTP+JSON",
                "protocolVersion": "0.3",
            }
        ],
        "securitySchemes": {"sso": {"openIdConnectSecurityScheme": {"openIdConnectUrl": OPENID}}},
        "securityRequirements": [],
    },
}


@pytest.mark.parametrize("card", OLDER.values(), ids=OLDER)
def test_a_blueprint_answers_every_spelling_and_the_metadata(
    make_site: Callable[..., Site], card: dict[str, Any]
) -> None:
    """Of A2A 0.3 and 0.2 too; where the card does not name a path, the agent has it."""
    site = make_site(card)
    app = Flask("agent")
    app.add_url_rule("/<path:any>", view_func=lambda any: f"agent: {any}")
    app.register_blueprint(card_blueprint(site.directory, site.settings))
    client = app.test_client()
    rest = ("v1/card", "extendedAgentCard")
    for path in (*(f"/old/rest/{end}" for end in rest), "/old/agent/authenticatedExtendedCard"):
        opened = client.get(path, headers=site.bearer())
        assert opened.data == site.generation.extended["staff"]
        assert client.get(path).status_code == 401
    metadata = client.get("/.well-known/oauth-protected-resource/old/rest").json
    assert metadata["authorization_servers"] == ["https://login.example"]
    for path in ("v1/card", "x/v1/card", "x/agent/authenticatedExtendedCard", "rest/v1/card/"):
        assert client.get(f"/{path}", headers=site.bearer()).status_code == 404
    for path in ("v1/cards", "v1/card/x", "xv1/card"):
        assert client.get(f"/{path}", headers=site.bearer()).text == f"agent: {path}"


def test_L19_a_disabled_agent_has_no_card_in_front_of_it(site: Site) -> None:
    """Everything is the agent's."""
    off = ServerSettings(enabled=False)
    assert Client(mount_cards(agent, site.directory, off)).get(CARD).status_code == 202
    app = Flask("agent")
    app.register_blueprint(card_blueprint(site.directory, off))
    assert app.test_client().get(CARD).status_code == 404
