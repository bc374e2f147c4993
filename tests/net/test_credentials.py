"""Credentials: where they are had from, to whom they belong, how a card wants them."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import UsageFault
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
    quotable,
)
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_origin, parse_place, parse_url
from tests.statements.making import key

SECRET = "tok-6f1c2b9e~A/+="
TIDES, CDN = "https://tides.example", "https://cdn.example"
ORIGIN = parse_origin(TIDES)


def from_variable(value: str) -> Credential:
    return Credential("env:TOKEN", environment={"TOKEN": value})


# ------------------------------------------------------------------ sources


def test_a_credential_comes_from_the_environment() -> None:
    """One line end, which a shell leaves, is not part of it."""
    for value in (SECRET, SECRET + "\n", SECRET + "\r\n"):
        assert from_variable(value).secret() == SECRET


NO_SOURCES = [SECRET, "exec:/bin/token", "file://host/token", "env:TOKEN?arg=1", "env:"]
NO_SOURCES += ["env:MY-TOKEN", "file:token", "file:/token?arg=1"]
MISTAKEN = [f"env:{SECRET}", "env:hunter2secret", "file:/hunter2secret", "file:/t?hunter2secret=1"]


def use(uri: str) -> None:
    """Make a credential, and read it where only that shows that the URI is a mistake."""
    credential = Credential(uri, environment={})
    if uri in MISTAKEN:
        credential.secret()


@pytest.mark.parametrize("uri", [*NO_SOURCES, *MISTAKEN])
def test_what_is_no_source_is_refused(uri: str) -> None:
    """What may be the credential itself, put there by mistake, is in no message or traceback."""
    with pytest.raises(UsageFault, match=r"credential\.none") as caught:
        use(uri)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert "hunter2secret" not in shown
    if uri in MISTAKEN:
        assert caught.value.path == uri.partition(":")[0] + ":..."


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """It holds the credential; one that others can read, or an empty one, gives none."""
    path = tmp_path / "token"
    credential = Credential(f"file:{path}", environment={})
    path.write_text(SECRET + "\n")
    path.chmod(0o644)
    with pytest.raises(UsageFault, match=r"file\.permissions"):
        credential.secret()
    path.chmod(0o600)
    assert credential.secret() == SECRET
    path.write_text("")
    with pytest.raises(UsageFault, match="the file is empty"):
        credential.secret()


UNUSABLE = ["", "\n", "one\ntwo", "one\r\nX-Evil: two", "one\x00two", "töken", "x" * 8193]


@pytest.mark.parametrize("value", UNUSABLE, ids=lambda value: repr(value[:20]))
def test_what_no_header_holds_is_not_sent(value: str) -> None:
    """One line of printable ASCII, whatever variable or file gave it."""
    with pytest.raises(UsageFault, match=r"credential\.none") as caught:
        from_variable(value).secret()
    assert not value.strip() or value not in str(caught.value)


# ------------------------------------------------------------------ what shows


def test_a_credential_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Neither what is to be had nor what was had is in a repr or a log."""
    assert "hunter2secret" not in repr(Credential("env:hunter2secret", environment={}))
    credential = from_variable(SECRET)
    with caplog.at_level(logging.DEBUG):
        header = Header.of(ORIGIN, BEARER, credential.secret())
    assert header.value == f"Bearer {SECRET}"
    assert SECRET not in f"{credential!r} {header!r} {header} {caplog.text}"


ECHOES = [
    (BEARER, SECRET, f"no such token: Bearer {SECRET}", True),
    (BEARER, SECRET, f"<{SECRET}>", True),
    (BASIC, "me:pass", "bWU6cGFzcw== is wrong", True),
    (BASIC, "me:pass", "no user me:pass", True),
    (BASIC, "me:passw0rd", "passw0rd", True),
    (BASIC, "me:passw0rd", "bWU6cGFzc3cwcmQ=", True),
    (BASIC, "me:passw0rd", "me and my pass", False),
    (BASIC, "me:at", "at noon", False),
]


@pytest.mark.parametrize(("form", "secret", "words", "is_echo"), ECHOES)
def test_words_that_repeat_a_credential_are_not_quoted(
    form: HeaderForm, secret: str, words: str, is_echo: bool
) -> None:
    """By itself, with its user, or as it was sent; one of two letters stands in many words."""
    header = Header.of(ORIGIN, form, secret)
    for shown in (header.masked(words), quotable(words, header)):
        assert ("(the credential)" in shown) is is_echo
        assert (shown == words) is not is_echo
        assert not is_echo or secret not in shown
    assert quotable("no \x1b[2J\u202eaccess", header) == "no ?[2J?access"
    assert len(quotable("x" * 1000, header)) <= 200


# ------------------------------------------------------------------ how it is shown


def requires(*alternatives: tuple[str, ...], **schemes: Any) -> dict[str, Any]:
    """A 1.0 card's members about credentials."""
    wanted = [{"schemes": {name: {"list": []} for name in names}} for names in alternatives]
    return {"securityRequirements": wanted, "securitySchemes": schemes}


def old(*alternatives: tuple[str, ...], **schemes: Any) -> dict[str, Any]:
    """The same of a 0.3 card."""
    wanted = [{name: [] for name in names} for names in alternatives]
    return {"security": wanted, "securitySchemes": schemes}


HTTP_BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
HTTP_BASIC = {"httpAuthSecurityScheme": {"scheme": "basic"}}
OAUTH = {"oauth2SecurityScheme": {"flows": {}}}
OIDC = {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example"}}
MTLS = {"mtlsSecurityScheme": {}}


def api_key(name: str = "X-Api-Key", location: str = "header") -> dict[str, Any]:
    return {"apiKeySecurityScheme": {"location": location, "name": name}}


API_KEY = ("X-Api-Key", "")
SCHEMES = {"a": OAUTH, "b": HTTP_BEARER, "m": MTLS, "q": api_key(location="query"), "k": api_key()}
FIRST = requires(("m",), ("a", "b"), ("q",), ("k",), ("b",), **SCHEMES)
IN_WORDS = {"security": [{"schemes": {"a": {"list": []}}}], "securitySchemes": {"a": HTTP_BEARER}}
OLD_KEY = {"type": "apiKey", "in": "header", "name": "X-Api-Key"}
HEADER_FORMS: dict[str, tuple[dict[str, Any], HeaderForm]] = {
    "HTTP bearer": (requires(("a",), a=HTTP_BEARER), BEARER),
    "HTTP basic": (requires(("a",), a=HTTP_BASIC), BASIC),
    "OAuth 2": (requires(("a",), a=OAUTH), BEARER),
    "OpenID Connect": (requires(("a",), a=OIDC), BEARER),
    "a key in a header": (requires(("a",), a=api_key()), API_KEY),
    "the first alternative that a header holds": (FIRST, API_KEY),
    "anonymous or bearer": (requires((), ("a",), a=HTTP_BEARER), BEARER),
    "nothing required, one declared": (requires(m=MTLS, a=HTTP_BEARER), BEARER),
    "0.3, HTTP bearer": (old(("a",), a={"type": "http", "scheme": "bearer"}), BEARER),
    "0.3, OAuth 2": (old(("a",), a={"type": "oauth2", "flows": {}}), BEARER),
    "0.3, a key": (old(("a",), a=OLD_KEY), API_KEY),
    "0.3 in the words of its proto": (IN_WORDS, BEARER),
}


@pytest.mark.parametrize(("payload", "form"), HEADER_FORMS.values(), ids=HEADER_FORMS)
def test_a_card_says_how_it_wants_a_credential(payload: dict[str, Any], form: HeaderForm) -> None:
    """Of either generation; what takes two credentials together is passed over."""
    assert header_form_of(payload) == form


NO_FORMS: dict[str, dict[str, Any]] = {
    "nothing at all": {},
    "nothing declared": requires(("a",)),
    "a requirement of two": requires(("a", "b"), a=HTTP_BEARER, b=api_key()),
    "two required, one declared besides": requires(("a", "b"), a=HTTP_BEARER, b=OAUTH, c=OAUTH),
    "a certificate": requires(("a",), a=MTLS),
    "a key in the query": requires(("a",), a=api_key(location="query")),
    "a key in a cookie": requires(("a",), a=api_key(location="cookie")),
    "another HTTP scheme": requires(("a",), a={"httpAuthSecurityScheme": {"scheme": "Digest"}}),
    "the header that names the host": requires(("a",), a=api_key("Host")),
    "the header that ends the body": requires(("a",), a=api_key("transfer-encoding")),
    "the header of cookies": requires(("a",), a=api_key("Cookie")),
    "two headers in one": requires(("a",), a=api_key("X-A: b\r\nX-B")),
    "a requirement that is a name": {**requires(("a",), a=HTTP_BEARER), "security": ["a"]},
    "schemes that are none": {"security": [{"a": []}], "securitySchemes": ["a"]},
}


@pytest.mark.parametrize("payload", NO_FORMS.values(), ids=NO_FORMS)
def test_nothing_is_guessed(payload: dict[str, Any]) -> None:
    """A card that wants what no single header holds gets none."""
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


def at(url: str) -> Endpoint:
    return Endpoint(parse_url(url), "JSONRPC", "1.0", "", "1.0")


HERE, THERE, BELOW = at(f"{TIDES}/a2a"), at(f"{CDN}/a2a"), at(f"{CDN}/tides/a2a")
PLACES: dict[str, tuple[tuple[str, ...], tuple[Endpoint, ...], Endpoint | None]] = {
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


@pytest.mark.parametrize(("places", "endpoints", "chosen"), PLACES.values(), ids=PLACES)
def test_a_credential_goes_inside_the_issuers_origins(
    places: tuple[str, ...], endpoints: tuple[Endpoint, ...], chosen: Endpoint | None
) -> None:
    """To the card's first endpoint there; none there is a local fault, as the card may be sound."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    issuer = TrustedIssuer("tides", anchor, tuple(map(parse_place, places)) or None)
    peer = Peer(f"{TIDES}/.well-known/agent-card.json", {}, Policy((issuer,)), issuer)
    if chosen is not None:
        assert peer.choose(endpoints, Endpoint.for_messages) == chosen
        return
    with pytest.raises(UsageFault, match="nothing was sent") as caught:
        peer.choose(endpoints, Endpoint.for_messages)
    assert (caught.value.code, caught.value.exit_status) == ("credential.elsewhere", 2)
