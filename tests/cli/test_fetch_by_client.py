"""`cardsign fetch --extended` with a token that Authlib's server gives to a client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from cardsign.urls import CARD_PATH
from tests.cli.conftest import Cardsign, Ended
from tests.cli.live_peer import LivePeer, live_peer
from tests.cli.peer import AUDIENCE
from tests.publish.publications import sign
from tests.statements.making import key

pytestmark = pytest.mark.needs_authlib

SECRET = "wh1spered+to/one"


@dataclass
class Login:
    """An OAuth 2.0 server.

    Attributes:
        url: Its origin.
        issued: The tokens that it gave, each with its scope.
        asked: How often it was asked.
    """

    url: str
    issued: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    """Authlib's, in Flask, on loopback; it knows one client, for one scope."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    from authlib.integrations.flask_oauth2 import AuthorizationServer
    from authlib.oauth2.rfc6749 import ClientMixin
    from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
    from flask import Flask, Response

    class Client(ClientMixin):  # type: ignore[misc, unused-ignore]
        client_id = "partner"

        def check_client_secret(self, client_secret: str) -> bool:
            return client_secret == SECRET

        def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
            return (method, endpoint) == ("client_secret_basic", "token")

        def check_grant_type(self, grant_type: str) -> bool:
            return grant_type == "client_credentials"

        def get_allowed_scope(self, scope: str) -> str:
            return " ".join(one for one in scope.split() if one == "card.read")

    def save(token: dict[str, Any], request: object) -> None:
        one.issued[token["access_token"]] = token.get("scope", "")

    app = Flask("login")
    app.config["OAUTH2_SCOPES_SUPPORTED"] = ["card.read"]
    server = AuthorizationServer(
        app, query_client=lambda name: Client() if name == "partner" else None, save_token=save
    )
    server.register_grant(ClientCredentialsGrant)

    @app.post("/oauth/token")
    def token() -> Response:
        one.asked.append("/oauth/token")
        answer: Response = server.create_token_response()
        return answer

    http = make_server("127.0.0.1", 0, app, threaded=True)
    http.log = lambda *words: None  # type: ignore[method-assign]
    one = Login(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield one
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture
def peer(cardsign: Cardsign, login: Login, tmp_path: Path) -> Iterator[LivePeer]:
    """A peer whose card has its tokens from that server, and who takes no others."""
    with live_peer(tmp_path / "published") as one:
        declare(one, login.url)

        def answer(request: Any) -> Any:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if login.issued.get(token) != "card.read":
                one.serve("/a2a", b"{}", 401)
            else:
                one.serve_called("/a2a", one.extended())
            answered = one.overrides["/a2a"](request)
            one.overrides["/a2a"] = answer
            return answered

        one.overrides["/a2a"] = answer
        one.write_policy("trust.toml", login.url)
        yield one


def declare(peer: LivePeer, origin: str) -> None:
    """Serve a signed card that has its tokens from there."""
    flow = {"tokenUrl": f"{origin}/oauth/token", "scopes": {"card.read": "the extended card"}}
    scheme = {"oauth2SecurityScheme": {"flows": {"clientCredentials": flow}}}
    peer.card |= {
        "securitySchemes": {"login": scheme},
        "securityRequirements": [{"schemes": {"login": {"list": ["card.read"]}}}],
    }
    peer.serve(CARD_PATH, sign(peer.card, key("card")))


def fetch(cardsign: Cardsign, peer: LivePeer, secret: str = SECRET, *more: str) -> Ended:
    """Nothing that is shown holds the secret."""
    command = ("fetch", peer.origin, "--insecure-loopback-http", "--extended")
    options = ("--audience", AUDIENCE, "--credential", "env:TIDES_TOKEN", "--client-id", "partner")
    ended = cardsign(*command, *options, *more, TIDES_TOKEN=secret)
    assert secret not in ended.err + ended.text
    return ended


def test_G18_a_real_server_of_tokens(cardsign: Cardsign, login: Login, peer: LivePeer) -> None:
    """The client gets a token by the verified card, and the token opens the extended card."""
    ended = fetch(cardsign, peer)
    assert ended.status == 0, ended.err
    assert [skill["id"] for skill in ended.json["skills"]] == ["tides", "pilots"]
    (token,) = login.issued
    assert token not in ended.err + ended.text
    assert [said for _, said in peer.seen if said] == [f"Bearer {token}"]


def test_G18_a_client_that_is_refused_shows_the_peer_nothing(
    cardsign: Cardsign, login: Login, peer: LivePeer
) -> None:
    """Authlib refuses it, and the refusal is told by its status alone."""
    ended = fetch(cardsign, peer, "guessed-wrongly")
    assert (ended.status, "credential.refused" in ended.err) == (3, True)
    assert (login.asked, login.issued) == (["/oauth/token"], {})
    assert not any(said for _, said in peer.seen)
