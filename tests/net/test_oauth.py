"""Tokens by client credentials: only from the token URL of a verified card, inside the origins."""

from __future__ import annotations

import base64
import contextlib
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.serving import make_server

from cardsign.errors import CallFailed, CardsignError, FetchFailed, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.endpoints import Credential, Peer, find_token_url, open_credential
from cardsign.net.fetch import FetchSettings
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_place, parse_url
from tests.server.identity import Counterpart, counterpart
from tests.statements.making import key

LOGIN = "https://login.example"
AGENT = "https://tides.example"
SETTINGS = FetchSettings(insecure_loopback_http=True)
SECRET = "s3cr3t of mine"
GOOD = {"access_token": "t", "token_type": "bearer", "expires_in": 60}


def peer(payload: dict[str, Any], *places: str, settings: FetchSettings | None = None) -> Peer:
    """Of an issuer with these origins."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    issuer = TrustedIssuer("tides", anchor, tuple(map(parse_place, places)))
    settings = settings or FetchSettings()
    return Peer(f"{AGENT}/card.json", payload, Policy((issuer,)), issuer, settings)


def scheme(url: object = f"{LOGIN}/token", flow: str = "clientCredentials") -> dict[str, Any]:
    return {"oauth2SecurityScheme": {"flows": {flow: {"tokenUrl": url, "scopes": {}}}}}


def card(requirements: list[dict[str, Any]], **schemes: dict[str, Any]) -> dict[str, Any]:
    """A verified payload."""
    lists = [{name: {"list": scopes} for name, scopes in each.items()} for each in requirements]
    return {"securitySchemes": schemes, "securityRequirements": [{"schemes": x} for x in lists]}


BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
OIDC = {"openIdConnectSecurityScheme": {"openIdConnectUrl": f"{LOGIN}/.well-known/x"}}
OLD = {"o": {"type": "oauth2", **scheme()["oauth2SecurityScheme"]}}
FITTING = card([{"k": []}, {"o": ["x"], "k": []}, {"o": ["y"]}], o=scheme(), k=BEARER)
ANSWERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "the one requirement": (card([{"o": ["b", "a"]}], o=scheme()), ("a", "b")),
    "the first that fits": (FITTING, ("y",)),
    "no requirement": (card([], k=BEARER, o=scheme()), ()),
    "of A2A 0.3": ({"securitySchemes": OLD, "security": [{"o": ["read"]}]}, ("read",)),
}


@pytest.mark.parametrize(("payload", "scopes"), ANSWERS.values(), ids=ANSWERS)
def test_G18_the_card_says_where_and_what_for(
    payload: dict[str, Any], scopes: tuple[str, ...]
) -> None:
    """Its token URL, and the scopes of the requirement that is met."""
    found = find_token_url(peer(payload, LOGIN))
    assert found == (parse_url(f"{LOGIN}/token"), scopes)


OTHER_FLOW = {"openIdConnectSecurityScheme": scheme()["oauth2SecurityScheme"]}
EVIL, PLAIN = scheme("https://evil.example/t"), scheme("http://login.example/t")
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no scheme": (card([]), "credential.scheme"),
    "another scheme": (card([{"k": []}], k=BEARER, o=scheme()), "credential.scheme"),
    "two at once": (card([{"k": [], "o": []}], k=BEARER, o=scheme()), "credential.scheme"),
    "OpenID Connect": (card([{"o": []}], o=OIDC), "credential.scheme"),
    "another flow": (card([{"o": []}], o=scheme(flow="authorizationCode")), "credential.scheme"),
    "a URL that is no text": (card([{"o": []}], o=scheme(["x"])), "credential.scheme"),
    "a flow of another scheme": (card([{"o": []}], o=OTHER_FLOW), "credential.scheme"),
    "a scope of two words": (card([{"o": ["a b"]}], o=scheme()), "credential.scheme"),
    "another origin": (card([{"o": []}], o=EVIL), "credential.elsewhere"),
    "plain http": (card([{"o": []}], o=PLAIN), "fetch.url"),
}


@pytest.mark.parametrize(("payload", "code"), REFUSED.values(), ids=REFUSED)
def test_G18_nothing_is_guessed(payload: dict[str, Any], code: str) -> None:
    """Each is refused before a name is looked up."""
    with pytest.raises(CardsignError) as caught:
        find_token_url(peer(payload, LOGIN))
    assert caught.value.code == code


# ------------------------------------------------------------------ a server of tokens


@pytest.fixture
def server() -> Iterator[Counterpart]:
    """It issues `t1`, `t2` and so on."""
    with counterpart() as server:
        forms = server.answers["forms"] = []

        def answer(form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
            forms.append(form)
            return 200, {**GOOD, "access_token": f"t{len(forms)}"}

        server.answers["/token"] = answer
        yield server


class Caller:
    """A user with a client at the server, which is one of the issuer's origins."""

    def __init__(self, server: str, *, secret: str = SECRET) -> None:
        self.server = server
        self.secret = secret
        self.payload = card([{"o": ["card.read", "b"]}], o=scheme(f"{server}/token"))

    def open(self) -> str:
        credential = Credential("env:SECRET", "me:too", {"SECRET": self.secret})
        agent = peer(self.payload, AGENT, self.server, settings=SETTINGS)
        header = open_credential(credential, agent, parse_url(f"{AGENT}/a2a"))
        assert (str(header.origin), header.name) == (AGENT, "Authorization")
        return header.value


def test_G18_the_secret_goes_to_the_server_alone_and_the_token_to_the_agent(
    server: Counterpart,
) -> None:
    """By Basic, whose parts are form-encoded (RFC 6749 2.3.1)."""
    assert Caller(server.url).open() == "Bearer t1"
    assert server.answers["forms"] == [
        {"grant_type": ["client_credentials"], "scope": ["b card.read"]}
    ]
    scheme_name, _, pair = (server.authorizations[0] or "").partition(" ")
    assert (scheme_name, base64.b64decode(pair)) == ("Basic", b"me%3Atoo:s3cr3t+of+mine")


BAD: dict[str, tuple[int, object, type[CardsignError], str]] = {
    "a client that is unknown": (401, {"error": SECRET}, CallFailed, "credential.refused"),
    "a scope that is refused": (400, {"error": "invalid_scope"}, CallFailed, "credential.refused"),
    "a server out of order": (503, GOOD, FetchFailed, "fetch.status"),
    "no object": (200, [GOOD], CallFailed, "call.error"),
    "no token": (200, {"token_type": "bearer"}, CallFailed, "call.error"),
    "no type": (200, {"access_token": "t"}, CallFailed, "call.error"),
    "another type": (200, {**GOOD, "token_type": "DPoP"}, CallFailed, "call.error"),
    "two headers": (200, {**GOOD, "access_token": "t\r\nX: y"}, CallFailed, "call.error"),
    "a token too long": (200, {**GOOD, "access_token": "t" * 8193}, CallFailed, "call.error"),
    "too much": (200, {**GOOD, "more": "x" * 70_000}, FetchFailed, "fetch.too_large"),
}


@pytest.mark.parametrize(("status", "answer", "kind", "code"), BAD.values(), ids=BAD)
def test_G18_what_is_no_token_is_not_shown(
    status: int, answer: object, kind: type[CardsignError], code: str, server: Counterpart
) -> None:
    """The peer gets nothing; neither the secret nor a word of the server is repeated."""
    server.answers["/token"] = (status, answer)
    server.headers["Location"] = f"{server.url}/elsewhere"
    caller = Caller(server.url)
    with pytest.raises(kind) as caught:
        caller.open()
    assert caught.value.code == code
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert server.asked == ["/token"]


def test_G18_a_server_outside_the_issuers_origins_sees_no_secret(server: Counterpart) -> None:
    """Whatever the card says; nobody is asked."""
    caller = Caller(server.url)
    with counterpart() as other:
        caller.payload = card([{"o": []}], o=scheme(f"{other.url}/token"))
        with pytest.raises(UsageFault, match=r"^credential\.elsewhere: "):
            caller.open()
        assert (server.asked, other.asked) == ([], [])


@contextlib.contextmanager
def authlib_server() -> Iterator[tuple[str, dict[str, str]]]:
    """Authlib's server in Flask, which knows the client for one scope; its tokens with theirs."""
    from authlib.integrations.flask_oauth2 import AuthorizationServer
    from authlib.oauth2.rfc6749 import ClientMixin
    from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
    from flask import Flask

    class Client(ClientMixin):  # type: ignore[misc, unused-ignore]
        client_id = "me:too"

        def check_client_secret(self, client_secret: str) -> bool:
            return client_secret == "wh1spered+to/one"

        def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
            return (method, endpoint) == ("client_secret_basic", "token")

        def check_grant_type(self, grant_type: str) -> bool:
            return grant_type == "client_credentials"

        def get_allowed_scope(self, scope: str) -> str:
            return " ".join(word for word in scope.split() if word == "card.read")

    issued: dict[str, str] = {}

    def save(token: dict[str, Any], request: object) -> None:
        issued[token["access_token"]] = token.get("scope", "")

    app = Flask("login")
    authorization = AuthorizationServer(
        app, query_client=lambda name: Client() if name == "me:too" else None, save_token=save
    )
    authorization.register_grant(ClientCredentialsGrant)
    app.add_url_rule("/token", view_func=authorization.create_token_response, methods=["POST"])
    http = make_server("127.0.0.1", 0, app, threaded=True)
    http.log = lambda *words: None  # type: ignore[method-assign]
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", issued
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.mark.needs_authlib
def test_G18_a_real_server_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Authlib's gives a token for the scope that it knows, and refuses another secret."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    with authlib_server() as (url, issued):
        value = Caller(url, secret="wh1spered+to/one").open()
        assert issued == {value.removeprefix("Bearer "): "card.read"}
        with pytest.raises(CallFailed) as caught:
            Caller(url, secret="guessed-wrongly").open()
        assert caught.value.code == "credential.refused"
        assert len(issued) == 1
