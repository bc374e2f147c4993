"""Credentials: where they are had from, to whom they belong, how a card wants them."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CredentialFault
from cardsign.jose.jwks import JwkSet
from cardsign.net.credentials import (
    BASIC,
    BEARER,
    Credential,
    CredentialPlaces,
    Header,
    HeaderForm,
    header_form_of,
)
from cardsign.net.endpoints import Endpoint
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_origin, parse_place, parse_url
from tests.jose.statement_making import key

SECRET = "tok-6f1c2b9e~A/+="
ORIGIN = parse_origin("https://tides.example")


# ------------------------------------------------------------------ sources


def test_a_credential_comes_from_the_environment() -> None:
    """One line end, which a shell leaves, is not part of it."""
    for value in (SECRET, SECRET + "\n", SECRET + "\r\n"):
        credential = Credential.parse("env:TIDES", environment={"TIDES": value})
        assert credential.secret() == SECRET


NO_SOURCES = {
    "the credential itself": SECRET,
    "a program": "exec:/bin/token",
    "a file on a host": "file://host/token",
    "a variable with attributes": "env:TOKEN?arg=1",
    "no variable": "env:",
    "a variable with a dash": "env:MY-TOKEN",
    "a relative file": "file:token",
    "a file with attributes": "file:/token?arg=1",
}


@pytest.mark.parametrize("uri", NO_SOURCES.values(), ids=NO_SOURCES)
def test_what_is_no_source_is_refused(uri: str) -> None:
    """And what may be the credential itself, put there by mistake, is not shown."""
    with pytest.raises(CredentialFault) as caught:
        Credential.parse(uri, environment={})
    assert caught.value.code == "credential.none"
    assert SECRET not in str(caught.value)


MISTAKEN = {
    "a variable's name": f"env:{SECRET}",
    "what could be a variable's name": "env:hunter2secret",
    "a file": "file:/hunter2secret",
    "an attribute": "file:/token?hunter2secret=1",
}


@pytest.mark.parametrize("uri", MISTAKEN.values(), ids=MISTAKEN)
def test_a_credential_in_place_of_its_source_is_never_repeated(uri: str) -> None:
    """Neither by a message nor by a traceback."""
    with pytest.raises(CredentialFault) as caught:
        Credential.parse(uri, environment={}).secret()
    assert caught.value.path == uri.partition(":")[0] + ":..."
    told = str(caught.value) + "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert "hunter2secret" not in told


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """It holds the credential; one that others can read, or an empty one, gives none."""
    path = tmp_path / "token"
    credential = Credential.parse(f"file:{path}", environment={})
    path.write_text(SECRET + "\n")
    path.chmod(0o644)
    with pytest.raises(CredentialFault, match=r"file\.permissions"):
        credential.secret()
    path.chmod(0o600)
    assert credential.secret() == SECRET
    path.write_text("")
    with pytest.raises(CredentialFault, match="the file is empty"):
        credential.secret()


def test_a_source_does_not_show_what_it_names() -> None:
    """It may be the credential, put there by mistake."""
    assert "hunter2secret" not in repr(Credential.parse("env:hunter2secret", environment={}))


UNUSABLE = {
    "nothing": "",
    "a line end alone": "\n",
    "two lines": "one\ntwo",
    "a header more": "one\r\nX-Evil: two",
    "a control character": "one\x00two",
    "no ASCII": "töken",
    "too much": "x" * 8193,
}


@pytest.mark.parametrize("value", UNUSABLE.values(), ids=UNUSABLE)
def test_what_no_header_holds_is_not_sent(value: str) -> None:
    """One line of printable ASCII, whatever variable or file gave it."""
    with pytest.raises(CredentialFault) as caught:
        Credential.parse("env:TOKEN", environment={"TOKEN": value}).secret()
    assert caught.value.code == "credential.none"
    assert not value.strip() or value not in str(caught.value)


# ------------------------------------------------------------------ what shows


def test_a_credential_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Neither what is to be had nor what was had is in a repr or a log."""
    credential = Credential.parse("env:TOKEN", environment={"TOKEN": SECRET})
    with caplog.at_level(logging.DEBUG):
        header = Header.of(ORIGIN, BEARER, credential.secret())

    assert header.value == f"Bearer {SECRET}"
    assert SECRET not in f"{credential!r} {header!r} {header} {caplog.text}"


ECHOES = {
    "as it was sent": (BEARER, SECRET, f"no such token: Bearer {SECRET}"),
    "without its scheme": (BEARER, SECRET, f"<{SECRET}>"),
    "Basic": (BASIC, "me:pass", "bWU6cGFzcw== is wrong"),
    "Basic, decoded": (BASIC, "me:pass", "no user me:pass"),
}


@pytest.mark.parametrize(("form", "secret", "words"), ECHOES.values(), ids=ECHOES)
def test_words_that_repeat_a_credential_are_not_quoted(
    form: HeaderForm, secret: str, words: str
) -> None:
    """A server may answer with what it was sent; other words of it are shown, harmlessly."""
    header = Header.of(ORIGIN, form, secret)

    assert header.quotable(words) == "(it repeats the credential)"
    assert header.quotable("no \x1b[2J\u202eaccess") == "no ?[2J?access"
    assert len(header.quotable("x" * 1000)) <= 200


# ------------------------------------------------------------------ how it is shown


def requires(*alternatives: tuple[str, ...], **schemes: Any) -> dict[str, Any]:
    """A 1.0 card's members about credentials."""
    return {
        "securityRequirements": [
            {"schemes": {name: {"list": []} for name in names}} for names in alternatives
        ],
        "securitySchemes": schemes,
    }


def old(*alternatives: tuple[str, ...], **schemes: Any) -> dict[str, Any]:
    """The same of a 0.3 card."""
    return {
        "security": [{name: [] for name in names} for names in alternatives],
        "securitySchemes": schemes,
    }


HTTP_BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
HTTP_BASIC = {"httpAuthSecurityScheme": {"scheme": "basic"}}
OAUTH = {"oauth2SecurityScheme": {"flows": {}}}
OIDC = {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example"}}
MTLS = {"mtlsSecurityScheme": {}}


def api_key(name: str = "X-Api-Key", location: str = "header") -> dict[str, Any]:
    return {"apiKeySecurityScheme": {"location": location, "name": name}}


HEADER_FORMS: dict[str, tuple[dict[str, Any], HeaderForm]] = {
    "HTTP bearer": (requires(("a",), a=HTTP_BEARER), BEARER),
    "HTTP basic": (requires(("a",), a=HTTP_BASIC), BASIC),
    "OAuth 2": (requires(("a",), a=OAUTH), BEARER),
    "OpenID Connect": (requires(("a",), a=OIDC), BEARER),
    "a key in a header": (requires(("a",), a=api_key()), HeaderForm("X-Api-Key")),
    "the first alternative that a header holds": (
        requires(("m",), ("a", "b"), ("q",), ("k",), ("b",), a=OAUTH, b=HTTP_BEARER, m=MTLS,
                 q=api_key(location="query"), k=api_key()),
        HeaderForm("X-Api-Key"),
    ),
    "anonymous or bearer": (requires((), ("a",), a=HTTP_BEARER), BEARER),
    "nothing required, one declared": (requires(m=MTLS, a=HTTP_BEARER), BEARER),
    "0.3, HTTP bearer": (old(("a",), a={"type": "http", "scheme": "bearer"}), BEARER),
    "0.3, OAuth 2": (old(("a",), a={"type": "oauth2", "flows": {}}), BEARER),
    "0.3, a key": (
        old(("a",), a={"type": "apiKey", "in": "header", "name": "X-Key"}),
        HeaderForm("X-Key"),
    ),
    "0.3 in the words of its proto": (
        {"security": [{"schemes": {"a": {"list": []}}}], "securitySchemes": {"a": HTTP_BEARER}},
        BEARER,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("payload", "form"), HEADER_FORMS.values(), ids=HEADER_FORMS)
def test_a_card_says_how_it_wants_a_credential(payload: dict[str, Any], form: HeaderForm) -> None:
    """Of either generation; what takes two credentials together is passed over."""
    assert header_form_of(payload) == form


NO_MANNERS: dict[str, dict[str, Any]] = {
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
    "a requirement that is a name": {
        **requires(("a",), a=HTTP_BEARER),
        "security": ["a"],
    },
    "schemes that are none": {"security": [{"a": []}], "securitySchemes": ["a"]},
}


@pytest.mark.parametrize("payload", NO_MANNERS.values(), ids=NO_MANNERS)
def test_nothing_is_guessed(payload: dict[str, Any]) -> None:
    """A card that wants what no single header holds gets none."""
    with pytest.raises(CredentialFault) as caught:
        header_form_of(payload)
    assert caught.value.code == "credential.scheme"


MISFITS = {
    "a bearer token with a space": (BEARER, "two words"),
    "a bearer token with a quote": (BEARER, 'a"b'),
    "Basic without a colon": (BASIC, "password"),
}


@pytest.mark.parametrize(("form", "secret"), MISFITS.values(), ids=MISFITS)
def test_a_credential_of_another_form_is_not_sent(form: HeaderForm, secret: str) -> None:
    """And not shown."""
    with pytest.raises(CredentialFault) as caught:
        form.value(secret)
    assert caught.value.code == "credential.none"
    assert secret not in str(caught.value)


def test_each_manner_has_its_form() -> None:
    """RFC 6750 2.1, RFC 7617 2; a key stands by itself."""
    assert BEARER.value("abc.def=") == "Bearer abc.def="
    assert BASIC.value("me:pass") == "Basic bWU6cGFzcw=="
    assert HeaderForm("X-Key").value("two words") == "two words"


# ------------------------------------------------------------------ where it goes


TIDES, CDN = "https://tides.example", "https://cdn.example"


def at(url: str) -> Endpoint:
    return Endpoint(parse_url(url), "JSONRPC", "1.0", "", "1.0")


HERE, THERE, BELOW = at(f"{TIDES}/a2a"), at(f"{CDN}/a2a"), at(f"{CDN}/tides/a2a")


def places(*allowed: str) -> CredentialPlaces:
    """Of an issuer with these places, or by keys alone."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    stand = tuple(parse_place(place) for place in allowed) or None
    issuer = TrustedIssuer("tides", anchor, stand)
    return CredentialPlaces(f"{TIDES}/.well-known/agent-card.json", Policy((issuer,)), issuer)


CHOSEN = {
    "the first": ((TIDES,), (HERE, THERE), HERE),
    "the first inside the origins": ((TIDES,), (THERE, HERE), HERE),
    "another origin of the issuer's": ((TIDES, CDN), (THERE, HERE), THERE),
    "a path of the issuer's": ((f"{CDN}/tides/",), (THERE, BELOW), BELOW),
    "by keys alone, the card's own origin": ((), (THERE, HERE), HERE),
}


@pytest.mark.parametrize(("allowed", "endpoints", "chosen"), CHOSEN.values(), ids=CHOSEN)
def test_a_credential_goes_inside_the_issuers_origins(
    allowed: tuple[str, ...], endpoints: tuple[Endpoint, ...], chosen: Endpoint
) -> None:
    """To the card's first endpoint there; others are not asked."""
    assert places(*allowed).choose(endpoints, Endpoint.for_messages) == chosen


NOWHERE = {
    "another host": ((TIDES,), (THERE,)),
    "another port": ((f"{TIDES}:8443",), (HERE,)),
    "another path": ((f"{CDN}/tides/",), (THERE,)),
    "another host than the card's, by keys alone": ((), (THERE,)),
}


@pytest.mark.parametrize(("allowed", "endpoints"), NOWHERE.values(), ids=NOWHERE)
def test_a_credential_goes_nowhere_else(
    allowed: tuple[str, ...], endpoints: tuple[Endpoint, ...]
) -> None:
    """It is a fault of this machine: the card may be sound."""
    with pytest.raises(CredentialFault, match="nothing was sent") as caught:
        places(*allowed).choose(endpoints, Endpoint.for_messages)
    assert (caught.value.code, caught.value.exit_status) == ("credential.elsewhere", 2)


@pytest.mark.parametrize(
    ("secret", "told", "shown"),
    [
        ("me:passw0rd", "passw0rd", True),
        ("me:passw0rd", "bWU6cGFzc3cwcmQ=", True),
        ("me:passw0rd", "me:passw0rd", True),
        ("me:passw0rd", "me and my pass", False),
        ("me:at", "at noon", False),
    ],
)
def test_a_password_that_is_repeated(secret: str, told: str, shown: bool) -> None:
    """By itself, with its user, or as it was sent; one of two letters stands in many words."""
    header = Header.of(ORIGIN, BASIC, secret)
    assert (header.quotable(f"so {told}!") == "(it repeats the credential)") is shown
    assert header.masked(f"so {told}!") == ("so (the credential)!" if shown else f"so {told}!")
