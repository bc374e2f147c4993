"""Credentials: where they are read, how a card wants them, where they and tokens may go."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CallFailed, CardsignError, FetchFailed, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.endpoints import (
    BASIC,
    BEARER,
    Credential,
    Endpoint,
    Header,
    HeaderForm,
    Peer,
    header_form_of,
    open_credential,
    quotable,
)
from cardsign.net.fetch import FetchSettings
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_origin, parse_place, parse_url
from tests.net.peers import LOCAL
from tests.server.identity import Counterpart, counterpart
from tests.statements.making import key

SECRET = "tok-6f1c2b9e~A/+="
TIDES, CDN, LOGIN = "https://tides.example", "https://cdn.example", "https://login.example"
ORIGIN = parse_origin(TIDES)

# ------------------------------------------------------------------ sources

MISTAKEN = ("env:hunter2secret", "file:/hunter2secret")
NO_SOURCES = [SECRET, "exec:/bin/hunter2secret", "file://host/token", "env:TOKEN?arg=1", "env:"]
NO_SOURCES += ["env:MY-TOKEN", "file:token", "file:/token?arg=1", f"env:{SECRET}"]
NO_SOURCES += ["file:/t?hunter2secret=1", *MISTAKEN]


@pytest.mark.parametrize("uri", NO_SOURCES)
def test_what_is_no_source_is_refused(uri: str) -> None:
    """What may be the credential itself, put there by mistake, is in no message or traceback."""
    with pytest.raises(UsageFault, match=r"credential\.none") as caught:
        Credential(uri) if uri not in MISTAKEN else Credential(uri).secret()
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(secret in shown for secret in (SECRET, "hunter2secret"))


UNUSABLE = ["", "\n", "one\ntwo", "one\r\nX-Evil: two", "one\x7ftwo", "one\0two"]
UNUSABLE += ["töken", "x" * 8193]


@pytest.mark.parametrize("value", UNUSABLE, ids=lambda value: repr(value[:20]))
def test_one_line_of_printable_ascii(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a variable, or of a file of one's own; the end of the line is not part of it."""
    file = tmp_path / "token"
    file.touch(0o600)
    for uri in ("env:TOKEN", f"file:{file}"):
        credential = Credential(uri)
        for text in (SECRET, SECRET + "\n", SECRET + "\r\n"):
            monkeypatch.setenv("TOKEN", text)
            file.write_bytes(text.encode())
            assert credential.secret() == SECRET
        monkeypatch.setenv("TOKEN", value.replace("\0", "\b"))  # which no variable can hold
        file.write_bytes(value.encode())
        with pytest.raises(UsageFault, match=r"credential\.none") as caught:
            credential.secret()
        assert not value.strip() or value not in str(caught.value)
    file.chmod(0o644)
    with pytest.raises(UsageFault, match=r"file\.permissions"):
        Credential(f"file:{file}").secret()


# ------------------------------------------------------------------ what shows

ECHOES = [
    (BEARER, SECRET, f"no such token: Bearer {SECRET}", True),
    (BEARER, SECRET, f"<{SECRET}>", True),
    (BASIC, "me:pass", "bWU6cGFzcw== is wrong", True),
    (BASIC, "me:pass", "no user me:pass", True),
    (BASIC, "me:passw0rd", "passw0rd", True),
    (BASIC, "me:passw0rd", "bWU6cGFzc3cwcmQ=", True),
    (BASIC, "me:passw0rd", "me and my pass", False),
]


@pytest.mark.parametrize(("form", "secret", "words", "is_echo"), ECHOES)
def test_words_that_repeat_a_credential_are_not_quoted(
    form: HeaderForm, secret: str, words: str, is_echo: bool
) -> None:
    """By itself, with its user, or as it was sent; nor is it in any repr."""
    header = Header.of(ORIGIN, form, secret)
    for shown in (header.masked(words), quotable(words, header)):
        assert ("(the credential)" in shown) is is_echo
        assert (shown == words) is not is_echo
        assert not is_echo or secret not in shown
    assert quotable("no \x1b[2J\u202eaccess", header) == "no ?[2J?access"
    assert len(quotable("x" * 1000, header)) <= 200
    assert secret not in f"{header!r} {header}"
    assert "hunter2secret" not in repr(Credential("env:hunter2secret"))


# ------------------------------------------------------------------ how it is shown


def requires(*alternatives: tuple[str, ...], **schemes: Any) -> dict[str, Any]:
    """A 1.0 card's members about credentials."""
    wanted = [{"schemes": {name: {"list": []} for name in names}} for names in alternatives]
    return {"securityRequirements": wanted, "securitySchemes": schemes}


def old(scheme: dict[str, Any], *scopes: str) -> dict[str, Any]:
    """The same of a 0.3 card with one scheme."""
    return {"security": [{"a": list(scopes)}], "securitySchemes": {"a": scheme}}


def api_key(name: str = "X-Api-Key", location: str = "header") -> dict[str, Any]:
    return {"apiKeySecurityScheme": {"location": location, "name": name}}


def oauth(url: object = f"{LOGIN}/token", flow: str = "clientCredentials") -> dict[str, Any]:
    return {"oauth2SecurityScheme": {"flows": {flow: {"tokenUrl": url, "scopes": {}}}}}


HTTP_BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
HTTP_BASIC = {"httpAuthSecurityScheme": {"scheme": "basic"}}
DIGEST = {"httpAuthSecurityScheme": {"scheme": "Digest"}}
OIDC = {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example"}}
MTLS = {"mtlsSecurityScheme": {}}
API_KEY = ("X-Api-Key", "")
SCHEMES = {"a": OIDC, "b": HTTP_BEARER, "m": MTLS, "q": api_key(location="query"), "k": api_key()}
FIRST = requires(("m",), ("a", "b"), ("q",), ("k",), ("b",), **SCHEMES)
IN_WORDS = {"security": [{"schemes": {"a": {"list": []}}}], "securitySchemes": {"a": HTTP_BEARER}}
OLD_KEY = {"type": "apiKey", "in": "header", "name": "X-Api-Key"}
#: What a card says, and the form in which it wants a credential; None for no form.
HEADER_FORMS: dict[str, tuple[dict[str, Any], HeaderForm | None]] = {
    "HTTP bearer": (requires(("a",), a=HTTP_BEARER), BEARER),
    "HTTP basic": (requires(("a",), a=HTTP_BASIC), BASIC),
    "OAuth 2": (requires(("a",), a={"oauth2SecurityScheme": {"flows": {}}}), BEARER),
    "OpenID Connect": (requires(("a",), a=OIDC), BEARER),
    "a key in a header": (requires(("a",), a=api_key()), API_KEY),
    "the first alternative that a header holds": (FIRST, API_KEY),
    "anonymous or bearer": (requires((), ("a",), a=HTTP_BEARER), BEARER),
    "nothing required, one declared": (requires(m=MTLS, a=HTTP_BEARER), BEARER),
    "0.3, HTTP bearer": (old({"type": "http", "scheme": "bearer"}), BEARER),
    "0.3, OAuth 2": (old({"type": "oauth2", "flows": {}}), BEARER),
    "0.3, a key": (old(OLD_KEY), API_KEY),
    "0.3 in the words of its proto": (IN_WORDS, BEARER),
    "nothing at all": ({}, None),
    "nothing declared": (requires(("a",)), None),
    "a requirement of two": (requires(("a", "b"), a=HTTP_BEARER, b=api_key()), None),
    "two required, one declared besides": (requires(("a", "b"), a=OIDC, b=OIDC, c=OIDC), None),
    "a certificate": (requires(("a",), a=MTLS), None),
    "a key in the query": (requires(("a",), a=api_key(location="query")), None),
    "a key in a cookie": (requires(("a",), a=api_key(location="cookie")), None),
    "another HTTP scheme": (requires(("a",), a=DIGEST), None),
    "the header that names the host": (requires(("a",), a=api_key("Host")), None),
    "the header that ends the body": (requires(("a",), a=api_key("transfer-encoding")), None),
    "the header of cookies": (requires(("a",), a=api_key("Cookie")), None),
    "two headers in one": (requires(("a",), a=api_key("X-A: b\r\nX-B")), None),
    "a requirement that is a name": ({**requires(("a",), a=HTTP_BEARER), "security": ["a"]}, None),
    "schemes that are none": ({"security": [{"a": []}], "securitySchemes": ["a"]}, None),
}


@pytest.mark.parametrize(("payload", "form"), HEADER_FORMS.values(), ids=HEADER_FORMS)
def test_a_card_says_how_it_wants_a_credential(
    payload: dict[str, Any], form: HeaderForm | None
) -> None:
    """Of either version. What no single header holds gets none: nothing is guessed."""
    if form is not None:
        assert header_form_of(payload) == form
        return
    with pytest.raises(UsageFault, match=r"credential\.scheme"):
        header_form_of(payload)


def test_each_form_has_its_value() -> None:
    """RFC 6750 2.1, RFC 7617 2; a key stands by itself. Another form is not sent, nor shown."""
    assert Header.of(ORIGIN, BEARER, "abc.def=").value == "Bearer abc.def="
    assert Header.of(ORIGIN, BASIC, "me:pass").value == "Basic bWU6cGFzcw=="
    assert Header.of(ORIGIN, API_KEY, "two words").value == "two words"
    for form, secret in ((BEARER, "two words"), (BEARER, 'a"b'), (BASIC, "password")):
        with pytest.raises(UsageFault, match=r"credential\.none") as caught:
            Header.of(ORIGIN, form, secret)
        assert secret not in str(caught.value)


# ------------------------------------------------------------------ where it goes


def peer(payload: dict[str, Any], *places: str, settings: FetchSettings = LOCAL) -> Peer:
    """Of an issuer with these places; by keys alone without any."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    issuer = TrustedIssuer("tides", anchor, tuple(map(parse_place, places)) or None)
    return Peer(f"{TIDES}/card.json", payload, Policy((issuer,)), issuer, settings)


HERE, THERE, BELOW = f"{TIDES}/a2a", f"{CDN}/a2a", f"{CDN}/tides/a2a"
PLACES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str | None]] = {
    "the first": ((TIDES,), (HERE, THERE), HERE),
    "the first inside the origins": ((TIDES,), (THERE, HERE), HERE),
    "another origin of the issuer's": ((TIDES, CDN), (THERE, HERE), THERE),
    "a path of the issuer's": ((f"{CDN}/tides/",), (THERE, BELOW), BELOW),
    "by keys alone, the card's own origin": ((), (THERE, HERE), HERE),
    "another host": ((TIDES,), (THERE,), None),
    "another port": ((f"{TIDES}:8443",), (HERE,), None),
    "another path": ((f"{CDN}/tides/",), (THERE,), None),
    "another host than the card's, by keys alone": ((), (THERE,), None),
}


@pytest.mark.parametrize(("places", "urls", "chosen"), PLACES.values(), ids=PLACES)
def test_a_credential_goes_inside_the_issuers_origins(
    places: tuple[str, ...], urls: tuple[str, ...], chosen: str | None
) -> None:
    """To the card's first endpoint there; none there is a local fault, as the card may be sound."""
    interfaces = [{"url": url, "protocolBinding": "JSONRPC"} for url in urls]
    agent = peer({"supportedInterfaces": interfaces}, *places)
    if chosen is not None:
        assert str(agent.choose(Endpoint.for_messages).url) == chosen
        return
    with pytest.raises(UsageFault, match="nothing was sent") as caught:
        agent.choose(Endpoint.for_messages)
    assert (caught.value.code, caught.value.exit_status) == ("credential.elsewhere", 2)


# ------------------------------------------------------------------ tokens of OAuth clients


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counterpart]:
    """A server of tokens, which knows the secret that a variable holds."""
    monkeypatch.setenv("SECRET", "s3cr3t of mine")
    with counterpart() as server:
        server.answers["/token"] = (200, {"access_token": "t1", "token_type": "bearer"})
        yield server


def open_by(tokens: Counterpart, payload: dict[str, Any], settings: FetchSettings = LOCAL) -> str:
    """What the agent gets by a client whose server is one of the issuer's origins."""
    agent = peer(payload, TIDES, tokens.url, LOGIN, settings=settings)
    header = open_credential(Credential("env:SECRET", "me:too"), agent, parse_url(f"{TIDES}/a2a"))
    assert (str(header.origin), header.name) == (TIDES, "Authorization")
    return header.value


def scoped(scheme: dict[str, Any], *scopes: str, **more: Any) -> dict[str, Any]:
    """A card with one requirement."""
    wanted = [{"schemes": {"o": {"list": list(scopes)}}}]
    return {"securityRequirements": wanted, "securitySchemes": {"o": scheme, **more}}


def test_G18_the_secret_goes_to_the_server_alone_and_the_token_to_the_agent(
    tokens: Counterpart,
) -> None:
    """The card says where and for which scopes: in its first requirement that fits, or without."""
    forms: list[dict[str, list[str]]] = []
    tokens.answers["/token"] = lambda form: (
        forms.append(form)
        or (
            200,
            {"access_token": f"t{len(forms)}", "token_type": "Bearer"},
        )
    )
    here = oauth(f"{tokens.url}/token")
    two = {"schemes": {"o": {"list": ["x"]}, "k": {"list": []}}}
    fitting = scoped(here, "y", k=HTTP_BEARER)
    fitting["securityRequirements"].insert(0, two)
    flat = {"type": "oauth2", **here["oauth2SecurityScheme"]}
    payloads = (scoped(here, "b", "a", "b"), fitting, requires(k=HTTP_BEARER, o=here))
    sent = [open_by(tokens, payload) for payload in (*payloads, old(flat, "read"))]
    assert sent == ["Bearer t1", "Bearer t2", "Bearer t3", "Bearer t4"]
    assert [form.get("scope") for form in forms] == [["a b"], ["y"], None, ["read"]]
    assert {*forms[2]} == {"grant_type"}
    assert forms[2]["grant_type"] == ["client_credentials"]
    scheme_name, _, pair = (tokens.authorizations[0] or "").partition(" ")
    # By Basic, whose parts are form-encoded (RFC 6749 2.3.1).
    assert (scheme_name, base64.b64decode(pair)) == ("Basic", b"me%3Atoo:s3cr3t+of+mine")


OTHER_FLOW = {"openIdConnectSecurityScheme": oauth()["oauth2SecurityScheme"]}
NO_TOKEN_URL: dict[str, tuple[dict[str, Any], str]] = {
    "no scheme": ({}, "credential.scheme"),
    "another scheme": (requires(("k",), k=HTTP_BEARER, o=oauth()), "credential.scheme"),
    "two at once": (requires(("k", "o"), k=HTTP_BEARER, o=oauth()), "credential.scheme"),
    "OpenID Connect": (scoped(OIDC), "credential.scheme"),
    "another flow": (scoped(oauth(flow="authorizationCode")), "credential.scheme"),
    "a URL that is no text": (scoped(oauth(["x"])), "credential.scheme"),
    "a flow of another scheme": (scoped(OTHER_FLOW), "credential.scheme"),
    "another origin": (scoped(oauth("https://evil.example/t")), "credential.elsewhere"),
    "another port": (scoped(oauth(f"{LOGIN}:8443/t")), "credential.elsewhere"),
    "plain http": (scoped(oauth("http://login.example/t")), "fetch.url"),
}


@pytest.mark.parametrize(("payload", "code"), NO_TOKEN_URL.values(), ids=NO_TOKEN_URL)
def test_G18_nothing_is_guessed(payload: dict[str, Any], code: str, tokens: Counterpart) -> None:
    """Each is refused before a name is looked up."""
    with pytest.raises(CardsignError) as caught:
        open_by(tokens, payload, replace(LOCAL, insecure_loopback_http=False))
    assert (caught.value.code, tokens.asked) == (code, [])


GOOD = {"access_token": "t", "token_type": "bearer"}
NO_TOKEN: dict[str, tuple[int, object, type[CardsignError], str]] = {
    "a client that is unknown": (401, {"error": SECRET}, CallFailed, "credential.refused"),
    "a scope that is refused": (400, {"error": SECRET}, CallFailed, "credential.refused"),
    "a server out of order": (503, GOOD, FetchFailed, "fetch.status"),
    "a redirect": (307, GOOD, FetchFailed, "fetch.status"),
    "no object": (200, [GOOD], CallFailed, "call.error"),
    "no token": (200, {"token_type": "bearer"}, CallFailed, "call.error"),
    "no type": (200, {"access_token": "t"}, CallFailed, "call.error"),
    "another type": (200, {**GOOD, "token_type": "DPoP"}, CallFailed, "call.error"),
    "two headers": (200, {**GOOD, "access_token": "t\r\nX: y"}, CallFailed, "call.error"),
    "a token too long": (200, {**GOOD, "access_token": "t" * 8193}, CallFailed, "call.error"),
    "too much": (200, {**GOOD, "more": "x" * 300_000}, FetchFailed, "fetch.too_large"),
}


@pytest.mark.parametrize(("status", "answer", "kind", "code"), NO_TOKEN.values(), ids=NO_TOKEN)
def test_G18_what_is_no_token_is_not_shown(
    status: int, answer: object, kind: type[CardsignError], code: str, tokens: Counterpart
) -> None:
    """The peer gets nothing; neither the secret nor a word of the server is repeated."""
    tokens.answers["/token"] = (status, answer)
    tokens.headers["Location"] = f"{tokens.url}/elsewhere"
    with pytest.raises(kind) as caught:
        open_by(tokens, scoped(oauth(f"{tokens.url}/token")))
    assert caught.value.code == code
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(word in shown for word in ("s3cr3t", SECRET))
    assert tokens.asked == ["/token"]
