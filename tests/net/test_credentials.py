"""Credentials: where they are read, how a card wants them, where they and tokens may go."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import CardsignError, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.endpoints import (
    BASIC,
    BEARER,
    Credential,
    Endpoint,
    Header,
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
from tests.support import each_case, read_cases

SECRET = "tok-6f1c2b9e~A/+="
TIDES, LOGIN = "https://tides.example", "https://login.example"
ORIGIN = parse_origin(TIDES)

# ------------------------------------------------------------------ sources


@pytest.mark.parametrize(("uri", "is_read"), read_cases(__file__)["no_sources"].items())
def test_what_is_no_source_is_refused(uri: str, is_read: bool) -> None:
    """What may be the credential itself, put there by mistake, is in no message or traceback."""
    uri = uri.replace("SECRET", SECRET)
    with pytest.raises(UsageFault, match=r"credential\.none") as caught:
        Credential(uri).secret() if is_read else Credential(uri)
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(secret in shown for secret in (SECRET, "hunter2secret"))


@pytest.mark.parametrize("value", read_cases(__file__)["unusable"]["values"])
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
        value = value.replace("LONG", "x" * 8193)
        monkeypatch.setenv("TOKEN", value.replace("\0", "\b"))  # which no variable can hold
        file.write_bytes(value.encode())
        with pytest.raises(UsageFault, match=r"credential\.none") as caught:
            credential.secret()
        assert not value.strip() or value not in str(caught.value)
    file.chmod(0o644)
    with pytest.raises(UsageFault, match=r"file\.permissions"):
        Credential(f"file:{file}").secret()


# ------------------------------------------------------------------ what shows


@each_case(__file__, "echoes", "scheme", "secret", "words", "is_echo")
def test_words_that_repeat_a_credential_are_not_quoted(
    scheme: str, secret: str, words: str, is_echo: bool
) -> None:
    """By itself, with its user, or as it was sent; nor is it in any repr."""
    header = Header.of(ORIGIN, ("Authorization", scheme), secret)
    for shown in (header.masked(words), quotable(words, header)):
        assert ("(the credential)" in shown) is is_echo
        assert (shown == words) is not is_echo
        assert not is_echo or secret not in shown
    assert quotable("no \x1b[2J\u202eaccess", header) == "no ?[2J?access"
    assert len(quotable("x" * 1000, header)) <= 200
    assert secret not in f"{header!r} {header}"
    assert "hunter2secret" not in repr(Credential("env:hunter2secret"))


# ------------------------------------------------------------------ how it is shown


def requires(alternatives: list[list[str]], schemes: Any, *scopes: str) -> dict[str, Any]:
    """A 1.0 card's members about credentials."""
    requirements = [
        {"schemes": {name: {"list": [*scopes]} for name in names}} for names in alternatives
    ]
    return {"securityRequirements": requirements, "securitySchemes": schemes}


def check_form(payload: dict[str, Any], header: str) -> None:
    if header:
        assert ": ".join(header_form_of(payload)) == header
        return
    with pytest.raises(UsageFault, match=r"credential\.scheme"):
        header_form_of(payload)


@each_case(__file__, "forms", "alternatives", "schemes", "header")
def test_a_card_says_how_it_wants_a_credential(
    alternatives: list[list[str]], schemes: dict[str, Any], header: str
) -> None:
    """What no single header holds gets none."""
    check_form(requires(alternatives, schemes), header)


@each_case(__file__, "other_forms", "payload", "header")
def test_an_older_card_says_it_too(payload: dict[str, Any], header: str) -> None:
    """And what is no card's form gets none."""
    check_form(payload, header)


def test_each_form_has_its_value() -> None:
    """RFC 6750 2.1, RFC 7617 2; a key stands by itself. Another form is not sent, nor shown."""
    assert Header.of(ORIGIN, BEARER, "abc.def=").value == "Bearer abc.def="
    assert Header.of(ORIGIN, BASIC, "me:pass").value == "Basic bWU6cGFzcw=="
    assert Header.of(ORIGIN, ("X-Api-Key", ""), "two words").value == "two words"
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


@each_case(__file__, "places", "places", "urls", "chosen")
def test_a_credential_goes_inside_the_issuers_origins(
    places: list[str], urls: list[str], chosen: str
) -> None:
    """To the card's first endpoint there; none there is a local fault, as the card may be sound."""
    interfaces = [{"url": url, "protocolBinding": "JSONRPC"} for url in urls]
    agent = peer({"supportedInterfaces": interfaces}, *places)
    if chosen:
        assert str(agent.choose(Endpoint.for_messages).url) == chosen
        return
    with pytest.raises(UsageFault, match="nothing was sent") as caught:
        agent.choose(Endpoint.for_messages)
    assert (caught.value.code, caught.value.exit_status) == ("credential.elsewhere", 2)


# ------------------------------------------------------------------ tokens of OAuth clients


@pytest.fixture(scope="module")
def server() -> Iterator[Counterpart]:
    with counterpart() as server:
        yield server


@pytest.fixture
def tokens(server: Counterpart, monkeypatch: pytest.MonkeyPatch) -> Counterpart:
    """A server of tokens, which knows the secret that a variable holds."""
    monkeypatch.setenv("SECRET", "s3cr3t of mine")
    server.asked.clear()
    server.authorizations.clear()
    return server


def open_by(tokens: Counterpart, payload: dict[str, Any], settings: FetchSettings = LOCAL) -> str:
    """What the agent gets by a client whose server is one of the issuer's origins."""
    agent = peer(payload, TIDES, tokens.url, LOGIN, settings=settings)
    header = open_credential(Credential("env:SECRET", "me:too"), agent, parse_url(f"{TIDES}/a2a"))
    assert (str(header.origin), header.name) == (TIDES, "Authorization")
    return header.value


def test_G18_the_secret_goes_to_the_server_alone_and_the_token_to_the_agent(
    tokens: Counterpart,
) -> None:
    """The card says where and for which scopes: in its first requirement that fits, or without."""
    forms: list[dict[str, list[str]]] = []

    def give(form: dict[str, list[str]]) -> tuple[int, dict[str, str]]:
        forms.append(form)
        return 200, {"access_token": f"t{len(forms)}", "token_type": "Bearer"}

    tokens.answers["/token"] = give
    flows = {"flows": {"clientCredentials": {"tokenUrl": f"{tokens.url}/token", "scopes": {}}}}
    schemes = {"o": {"oauth2SecurityScheme": flows}}
    with_key = {"k": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}, **schemes}
    sent = [
        open_by(tokens, requires([["o"]], schemes, "b", "a", "b")),
        open_by(tokens, requires([["o", "k"], ["o"]], with_key, "y")),
        open_by(tokens, requires([], with_key)),
        open_by(
            tokens,
            {"security": [{"o": ["read"]}], "securitySchemes": {"o": {"type": "oauth2", **flows}}},
        ),
    ]
    assert sent == ["Bearer t1", "Bearer t2", "Bearer t3", "Bearer t4"]
    assert [form.get("scope") for form in forms] == [["a b"], ["y"], None, ["read"]]
    assert {*forms[2]} == {"grant_type"}
    assert forms[2]["grant_type"] == ["client_credentials"]
    scheme_name, _, pair = (tokens.authorizations[0] or "").partition(" ")
    # By Basic, whose parts are form-encoded (RFC 6749 2.3.1).
    assert (scheme_name, base64.b64decode(pair)) == ("Basic", b"me%3Atoo:s3cr3t+of+mine")


@each_case(__file__, "no_token_urls", "alternatives", "schemes", "code")
def test_G18_nothing_is_guessed(
    alternatives: list[list[str]], schemes: dict[str, Any], code: str, tokens: Counterpart
) -> None:
    """Each is refused before a name is looked up."""
    settings = replace(LOCAL, insecure_loopback_http=False)
    with pytest.raises(CardsignError) as caught:
        open_by(tokens, requires(alternatives, schemes), settings)
    assert (caught.value.code, tokens.asked) == (code, [])


@each_case(__file__, "no_tokens", "status", "answer", "code")
def test_G18_what_is_no_token_is_not_shown(
    status: int, answer: str, code: str, tokens: Counterpart
) -> None:
    """The peer gets nothing; neither the secret nor a word of the server is repeated."""
    check_no_token(tokens, status, json.loads(answer), code)


@pytest.mark.parametrize(("more", "code"), [(8193, "call.error"), (300_000, "fetch.too_large")])
def test_G18_what_is_too_long_is_no_token(more: int, code: str, tokens: Counterpart) -> None:
    """No header holds the one, and nobody reads the other."""
    answer = {"access_token": "t" * more, "token_type": "bearer"}
    check_no_token(tokens, 200, answer, code)


def check_no_token(tokens: Counterpart, status: int, answer: object, code: str) -> None:
    tokens.answers["/token"] = (status, answer)
    tokens.headers["Location"] = f"{tokens.url}/elsewhere"
    flows = {"flows": {"clientCredentials": {"tokenUrl": f"{tokens.url}/token"}}}
    with pytest.raises(CardsignError) as caught:
        open_by(tokens, requires([["o"]], {"o": {"oauth2SecurityScheme": flows}}))
    assert caught.value.code == code
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(word in shown for word in ("s3cr3t", SECRET))
    assert tokens.asked == ["/token"]
