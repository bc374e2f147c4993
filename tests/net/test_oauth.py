"""Tokens by client credentials: only from the token URL of a verified card, and kept a while."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from cardsign.errors import CallFailed, CardsignError, CredentialFault, FetchFailed
from cardsign.net import (
    Credential,
    CredentialSource,
    CredentialStore,
    Destination,
    Endpoint,
    FetchSettings,
    OAuthClient,
    endpoints_of,
)
from cardsign.net.credentials import (
    MAX_TOKEN_SECONDS,
    MAX_TOKENS,
    TokenCache,
    TokenRequest,
    token_request_of,
)
from cardsign.urls import parse_origin, parse_url
from tests.server.identity import Counterpart, counterpart

LOGIN = "https://login.example"
AGENT = "https://tides.example"
SETTINGS = FetchSettings(insecure_loopback_http=True)
SECRET = "s3cr3t of mine"


def scheme(url: object = f"{LOGIN}/token", flow: str = "clientCredentials") -> dict[str, Any]:
    return {"oauth2SecurityScheme": {"flows": {flow: {"tokenUrl": url, "scopes": {}}}}}


def card(requirements: list[dict[str, Any]], **schemes: dict[str, Any]) -> dict[str, Any]:
    """A verified payload."""
    wanted = [
        {"schemes": {name: {"list": list(scopes)} for name, scopes in one.items()}}
        for one in requirements
    ]
    return {"securitySchemes": schemes, "securityRequirements": wanted}


BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
OIDC = {"openIdConnectSecurityScheme": {"openIdConnectUrl": f"{LOGIN}/.well-known/x"}}
ANSWERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "the one requirement": (card([{"o": ["b", "a"]}], o=scheme()), ("a", "b")),
    "the first that fits": (
        card([{"k": []}, {"o": ["x"], "k": []}, {"o": ["y"]}], o=scheme(), k=BEARER),
        ("y",),
    ),
    "no requirement": (card([], k=BEARER, o=scheme()), ()),
    "of A2A 0.3": (
        {
            "securitySchemes": {
                "o": {
                    "type": "oauth2",
                    "flows": {"clientCredentials": {"tokenUrl": f"{LOGIN}/token"}},
                }
            },
            "security": [{"o": ["card.read"]}],
        },
        ("card.read",),
    ),
}


@pytest.mark.parametrize(("payload", "scopes"), ANSWERS.values(), ids=ANSWERS)
def test_G18_the_card_says_where_and_what_for(
    payload: dict[str, Any], scopes: tuple[str, ...]
) -> None:
    """Its token URL, and the scopes of the requirement that is met."""
    found = token_request_of(payload, parse_origin(LOGIN), FetchSettings())
    assert found == TokenRequest(parse_url(f"{LOGIN}/token"), scopes)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no scheme": (card([]), "credential.scheme"),
    "another scheme": (card([{"k": []}], k=BEARER, o=scheme()), "credential.scheme"),
    "two at once": (card([{"k": [], "o": []}], k=BEARER, o=scheme()), "credential.scheme"),
    "OpenID Connect": (card([{"o": []}], o=OIDC), "credential.scheme"),
    "another flow": (card([{"o": []}], o=scheme(flow="authorizationCode")), "credential.scheme"),
    "a URL that is no text": (card([{"o": []}], o=scheme(["x"])), "credential.scheme"),
    "a flow of another scheme": (
        card([{"o": []}], o={"openIdConnectSecurityScheme": scheme()["oauth2SecurityScheme"]}),
        "credential.scheme",
    ),
    "a scope of two words": (card([{"o": ["a b"]}], o=scheme()), "credential.scheme"),
    "another origin": (
        card([{"o": []}], o=scheme("https://evil.example/t")),
        "credential.elsewhere",
    ),
    "another port": (card([{"o": []}], o=scheme(f"{LOGIN}:8443/t")), "credential.elsewhere"),
    "a host that only begins so": (
        card([{"o": []}], o=scheme("https://login.example.evil.example/t")),
        "credential.elsewhere",
    ),
    "plain http": (card([{"o": []}], o=scheme("http://login.example/t")), "fetch.url"),
    "a user in the URL": (
        card([{"o": []}], o=scheme("https://login.example@evil.example/t")),
        "fetch.url",
    ),
}


@pytest.mark.parametrize(("payload", "code"), REFUSED.values(), ids=REFUSED)
def test_G18_nothing_is_guessed(payload: dict[str, Any], code: str) -> None:
    """Each is refused before a name is looked up."""
    with pytest.raises(CardsignError) as caught:
        token_request_of(payload, parse_origin(LOGIN), FetchSettings())
    assert caught.value.code == code


# ------------------------------------------------------------------ a server of tokens


@pytest.fixture
def server() -> Iterator[Counterpart]:
    """It issues `t1`, `t2` and so on, for an hour."""
    with counterpart() as one:
        forms = []

        def answer(form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
            forms.append(form)
            token = {"access_token": f"t{len(forms)}", "token_type": "bearer", "expires_in": 3600}
            return 200, token

        one.answers["/token"] = answer
        one.answers["forms"] = forms
        yield one


class Caller:
    """A user with a client at the server, and a clock."""

    def __init__(self, server: Counterpart, **secrets: str) -> None:
        self.seconds = 1000.0
        self.settings = replace(SETTINGS, clock=lambda: self.seconds)
        client = OAuthClient(CredentialSource.parse("env:ID"), parse_origin(server.url))
        self.credential = Credential(
            "tides", parse_origin(AGENT), CredentialSource.parse("env:SECRET"), client=client
        )
        environment = {"ID": "me:too", "SECRET": SECRET, **secrets}
        self.store = CredentialStore((self.credential,), environment)
        self.payload = card([{"o": ["card.read", "b"]}], o=scheme(f"{server.url}/token"))
        (self.endpoint,) = endpoints_of({"url": f"{AGENT}/a2a"})

    @property
    def destination(self) -> Destination:
        endpoint: Endpoint = self.endpoint
        return Destination(endpoint, self.credential)

    def open(self) -> str:
        header = self.store.open(self.destination, self.payload, self.settings)
        assert header is not None
        assert (str(header.origin), header.name) == (AGENT, "Authorization")
        return header.value


def test_G18_the_secret_goes_to_the_server_alone_and_the_token_to_the_agent(
    server: Counterpart,
) -> None:
    """By Basic, whose parts are form-encoded (RFC 6749 2.3.1)."""
    assert Caller(server).open() == "Bearer t1"
    assert server.answers["forms"] == [
        {"grant_type": ["client_credentials"], "scope": ["b card.read"]}
    ]
    scheme_name, _, pair = (server.authorizations[0] or "").partition(" ")
    assert (scheme_name, base64.b64decode(pair)) == ("Basic", b"me%3Atoo:s3cr3t+of+mine")


def test_G18_a_token_is_kept_until_it_expires(server: Counterpart) -> None:
    """30 s less, for its way; a card with other scopes has its own."""
    caller = Caller(server)
    assert [caller.open(), caller.open()] == ["Bearer t1"] * 2
    caller.seconds += 3569
    assert caller.open() == "Bearer t1"
    caller.seconds += 1
    assert caller.open() == "Bearer t2"
    caller.payload = card([{"o": []}], o=scheme(f"{server.url}/token"))
    assert caller.open() == "Bearer t3"
    caller.store.tokens.drop(caller.credential)
    assert caller.open() == "Bearer t4"


@pytest.mark.parametrize(
    ("expires", "kept"),
    [(None, 0), ("3600", 0), (True, 0), (-5, 0), (30, 0), (31, 1), (10**9, MAX_TOKEN_SECONDS - 30)],
)
def test_G18_a_server_does_not_decide_how_long_for_ever_is(
    expires: object, kept: int, server: Counterpart
) -> None:
    """One without a time is used once; none is used for more than an hour."""
    answered = []

    def answer(form: object) -> tuple[int, dict[str, Any]]:
        answered.append(form)
        return 200, {
            "access_token": f"t{len(answered)}",
            "token_type": "Bearer",
            "expires_in": expires,
        }

    server.answers["/token"] = answer
    caller = Caller(server)
    assert caller.open() == "Bearer t1"
    caller.seconds += kept - 0.5
    assert caller.open() == ("Bearer t1" if kept else "Bearer t2")
    caller.seconds += 1
    assert caller.open() == ("Bearer t2" if kept else "Bearer t3")


GOOD = {"access_token": "t", "token_type": "bearer", "expires_in": 60}
BAD: dict[str, tuple[int, object, type[CardsignError], str]] = {
    "a client that is unknown": (401, {"error": SECRET}, CallFailed, "credential.refused"),
    "a client that is barred": (403, {"error": SECRET}, CallFailed, "credential.refused"),
    "a scope that is refused": (400, {"error": "invalid_scope"}, CallFailed, "credential.refused"),
    "a server out of order": (503, GOOD, FetchFailed, "fetch.status"),
    "a redirect": (302, GOOD, FetchFailed, "fetch.status"),
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
    caller = Caller(server)
    with pytest.raises(kind) as caught:
        caller.open()
    assert caught.value.code == code
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert server.asked == ["/token"]


def test_G18_a_server_that_the_user_did_not_name_sees_no_secret(server: Counterpart) -> None:
    """Whatever the card says; nobody is asked."""
    caller = Caller(server)
    with counterpart() as other:
        caller.payload = card([{"o": []}], o=scheme(f"{other.url}/token"))
        with pytest.raises(CredentialFault) as caught:
            caller.open()
        assert caught.value.code == "credential.elsewhere"
        assert (server.asked, other.asked) == ([], [])


def test_O18_tokens_kept_are_bounded() -> None:
    """The oldest goes first."""
    kept = TokenCache()
    asked: list[int] = []

    def ask(number: int) -> Callable[[], tuple[str, float]]:
        def new() -> tuple[str, float]:
            asked.append(number)
            return str(number), 60.0

        return new

    request = TokenRequest(parse_url(f"{LOGIN}/token"), ())
    for number in [*range(MAX_TOKENS + 1), MAX_TOKENS, 0]:
        assert kept.get(number, request, SETTINGS, ask(number)) == str(number)
    assert asked == [*range(MAX_TOKENS + 1), 0]
