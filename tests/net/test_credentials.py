"""Credentials: where they are had from, to whom they belong, how a card wants them."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cardsign.errors import CardsignError, CredentialFault, FileFault, UsageFault
from cardsign.net import (
    BASIC,
    BEARER,
    Credential,
    CredentialSource,
    Header,
    HeaderForm,
    OAuthClient,
    credentials,
    header_form_of,
    parse_header_form,
    read_credentials,
)
from cardsign.urls import parse_origin

SECRET = "tok-6f1c2b9e~A/+="
ORIGIN = parse_origin("https://tides.example")


def program(folder: Path, body: str) -> str:
    """A program in Python; its path."""
    path = folder / "gives a token"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o700)
    return str(path)


# ------------------------------------------------------------------ sources


def test_a_credential_comes_from_the_environment() -> None:
    """One line end, which a shell leaves, is not part of it."""
    source = CredentialSource.parse("env:TIDES_TOKEN")
    for value in (SECRET, SECRET + "\n", SECRET + "\r\n"):
        assert source.secret({"TIDES_TOKEN": value}, {}) == SECRET


def test_a_credential_comes_from_a_program(tmp_path: Path) -> None:
    """Its arguments need no shell; it learns for whom, and of the environment what is named."""
    body = """import os, sys
print(sys.argv[1], os.environ["CARDSIGN_ORIGIN"], os.environ.get("SEEN"), os.environ.get("HIDDEN"))
"""
    uri = f"exec:{quote(program(tmp_path, body))}?arg={quote('a $(b)')}&env=SEEN"
    environment = {**os.environ, "SEEN": "yes", "HIDDEN": "no"}
    told = {"CARDSIGN_ORIGIN": "https://tides.example"}

    assert (
        CredentialSource.parse(uri).secret(environment, told)
        == "a $(b) https://tides.example yes None"
    )


NO_SOURCES = {
    "the credential itself": SECRET,
    "a relative program": "exec:bin/token",
    "a program on a host": "exec://host/bin/token",
    "a shell's line": "exec:/bin/token --now",
    "an unknown attribute": "exec:/bin/token?shell=1",
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
        CredentialSource.parse(uri)
    assert caught.value.code == "credential.none"
    assert SECRET not in str(caught.value)


MISTAKEN = {
    "a variable's name": f"env:{SECRET}",
    "what could be a variable's name": "env:hunter2secret",
    "a program": f"exec:{SECRET}",
    "a program that does not exist": "exec:/hunter2secret",
    "a file": "file:/hunter2secret",
    "an argument": "exec:/bin/false?arg=hunter2secret",
    "an attribute": "exec:/bin/false?hunter2secret=1",
}


@pytest.mark.parametrize("uri", MISTAKEN.values(), ids=MISTAKEN)
def test_a_credential_in_place_of_its_source_is_never_repeated(uri: str) -> None:
    """Neither by a message nor by a traceback."""
    with pytest.raises(CredentialFault) as caught:
        CredentialSource.parse(uri).secret({}, {})
    assert caught.value.path == uri.partition(":")[0] + ":..."
    told = str(caught.value) + "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert "hunter2secret" not in told


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """It holds the credential; one that others can read, or an empty one, gives none."""
    path = tmp_path / "token"
    source = CredentialSource.parse(f"file:{path}")
    path.write_text(SECRET + "\n")
    path.chmod(0o644)
    with pytest.raises(CredentialFault, match=r"file\.permissions"):
        source.secret({}, {})
    path.chmod(0o600)
    assert source.secret({}, {}) == SECRET
    path.write_text("")
    with pytest.raises(CredentialFault, match="the file is empty"):
        source.secret({}, {})


def test_a_source_does_not_show_what_it_names() -> None:
    """It may be the credential, put there by mistake."""
    assert "hunter2secret" not in repr(CredentialSource.parse("env:hunter2secret"))


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
    """One line of printable ASCII, whatever variable or program gave it."""
    with pytest.raises(CredentialFault) as caught:
        CredentialSource.parse("env:TOKEN").secret({"TOKEN": value}, {})
    assert caught.value.code == "credential.none"
    assert not value.strip() or value not in str(caught.value)


FAILING = {
    "an exit status": (f"print({SECRET!r}); raise SystemExit(3)", "exited with status 3"),
    "a traceback that shows it": (f"raise ValueError({SECRET!r})", "exited with status 1"),
    "too much": ("print('x' * 9000)", "more than 8194 bytes"),
    "no end": ("import time; time.sleep(60)", "did not answer within"),
}


@pytest.mark.parametrize(("body", "words"), FAILING.values(), ids=FAILING)
def test_a_program_that_fails_is_not_quoted(
    body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote may be the credential."""
    if words == "did not answer within":  # the others are in time, however busy the machine is
        monkeypatch.setattr(credentials, "PROGRAM_SECONDS", 1.0)
    with pytest.raises(CredentialFault, match=words) as caught:
        CredentialSource.parse(f"exec:{quote(program(tmp_path, body))}").secret(os.environ, {})
    assert caught.value.code == "credential.none"
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """It cannot be started, which is said."""
    with pytest.raises(CredentialFault, match="cannot be started"):
        CredentialSource.parse(f"exec:{tmp_path}/absent").secret(os.environ, {})


# ------------------------------------------------------------------ what shows


def test_a_credential_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Neither what is to be had nor what was had is in a repr or a log."""
    credential = Credential("tides", ORIGIN, CredentialSource.parse("env:TOKEN"))
    with caplog.at_level(logging.DEBUG):
        header = Header.of(credential, BEARER, {"TOKEN": SECRET})

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
    header = Header.of(
        Credential("t", ORIGIN, CredentialSource.parse("env:T")), form, {"T": secret}
    )

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
    "schemes that are none": {"security": [{"a": []}], "securitySchemes": ["a"]},
}


@pytest.mark.parametrize("payload", NO_MANNERS.values(), ids=NO_MANNERS)
def test_nothing_is_guessed(payload: dict[str, Any]) -> None:
    """A card that wants what no single header holds gets none."""
    with pytest.raises(CredentialFault) as caught:
        header_form_of(payload)
    assert caught.value.code == "credential.scheme"


def test_the_users_word_about_the_manner() -> None:
    """`send` in his file, in three forms and no other."""
    assert parse_header_form("bearer") == BEARER
    assert parse_header_form("basic") == BASIC
    assert parse_header_form("header:X-Key") == HeaderForm("X-Key")
    assert [
        parse_header_form(text) for text in ("Bearer", "header:", "header:Host", "query:k")
    ] == [None] * 4


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


# ------------------------------------------------------------------ the user's file

FILE = """
format = 1

[[credential]]
issuer = "tides"
origin = "https://tides.example"
audience = "9f2c61d07be84a15"
source = "env:TIDES_TOKEN"

[[credential]]
issuer = "tides"
origin = "https://tides.example"
source = "exec:/usr/local/bin/token?arg=--for&arg=tides"
send = "header:X-Api-Key"
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, mode: int = 0o600) -> Path:
        path = tmp_path / "credentials.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_the_file_says_whose_and_where(written: Callable[..., Path]) -> None:
    """An entry is bound to one issuer and one origin."""
    assert read_credentials(written(FILE)) == (
        Credential("tides", ORIGIN, CredentialSource.parse("env:TIDES_TOKEN"), "9f2c61d07be84a15"),
        Credential(
            "tides",
            ORIGIN,
            CredentialSource.parse("exec:/usr/local/bin/token?arg=--for&arg=tides"),
            None,
            HeaderForm("X-Api-Key"),
        ),
    )


def test_G18_an_entry_may_be_of_a_client(written: Callable[..., Path]) -> None:
    """Its secret, its id, and the one server that may see them."""
    client = 'client = "env:ID"\ntoken_origin = "https://login.example"'
    own, _ = read_credentials(
        written(
            FILE.replace("\n\n[[", f"\n{client}\n\n[[").replace(
                f"format = 1\n{client}\n", "format = 1\n"
            )
        )
    )
    assert own.client == OAuthClient(
        CredentialSource.parse("env:ID"), parse_origin("https://login.example")
    )


def test_no_file_is_no_credential(tmp_path: Path) -> None:
    """Most users have none."""
    assert read_credentials(tmp_path / "credentials.toml") == ()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_may_touch_is_refused(written: Callable[..., Path], mode: int) -> None:
    """Whoever could write it could have programs run, and tokens sent to himself."""
    with pytest.raises(FileFault) as caught:
        read_credentials(written(FILE, mode))
    assert caught.value.code == "file.permissions"


MALFORMED = {
    "no TOML": "[[credential",
    "no format": FILE.replace("format = 1", ""),
    "a format that is no number": FILE.replace("format = 1", "format = true"),
    "a format that is no whole number": FILE.replace("format = 1", "format = 1.0"),
    "too many levels": f"format = 1\ncredential = {'[' * 5000}{']' * 5000}",
    "a newer format": FILE.replace("format = 1", "format = 2"),
    "an unknown member": FILE.replace("\n[[", "\nnext = 1\n[[", 1),
    "a client without its server": FILE.replace("send =", "client =").replace("header:", "env:"),
    "a server without its client": FILE.replace(
        'send = "header:X-Api-Key"', 'token_origin = "https://login.example"'
    ),
    "a client with a form of its own": FILE
    + 'client = "env:ID"\ntoken_origin = "https://login.example"\n',
    "a client's id in the clear": FILE.replace("send", "token_origin").replace(
        "header:X-Api-Key", 'https://login.example"\nclient = "me'
    ),
    "a server that is no origin": FILE.replace("send", "token_origin").replace(
        "header:X-Api-Key", 'https://login.example/token"\nclient = "env:ID'
    ),
    "an unknown member of an entry": FILE.replace("send", "place"),
    "no issuer": FILE.replace('issuer = "tides"', "", 1),
    "no origin": FILE.replace('origin = "https://tides.example"', "", 1),
    "no source": FILE.replace('source = "env:TIDES_TOKEN"', "", 1),
    "a place that is no origin": FILE.replace("tides.example", "tides.example/agents", 1),
    "an origin of two hosts": FILE.replace("https://tides.example", "https://*.example", 1),
    "the secret itself": FILE.replace("env:TIDES_TOKEN", SECRET),
    "a number": FILE.replace('"9f2c61d07be84a15"', "9"),
    "an audience that is none": FILE.replace("9f2c61d07be84a15", "Late Payers"),
    "a form that is none": FILE.replace("header:X-Api-Key", "query:key"),
    "one entry twice": FILE.replace('audience = "9f2c61d07be84a15"', ""),
    "one entry": 'format = 1\ncredential = "env:X"',
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_refused_whole(written: Callable[..., Path], text: str) -> None:
    """With what is wrong, and without what may be a secret."""
    with pytest.raises(UsageFault) as caught:
        read_credentials(written(text))
    assert caught.value.code == "config.malformed"
    assert SECRET not in str(caught.value)


def test_every_fault_of_a_credential_ends_a_command_as_a_local_one() -> None:
    """It says nothing about the card."""
    assert CredentialFault("credential.none", "none").exit_status == 2
    assert issubclass(CredentialFault, CardsignError)
