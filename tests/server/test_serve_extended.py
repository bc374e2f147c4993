"""The extended card over REST: who gets it, where, and what everybody else is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.publish.publications import PUBLIC, PUBLIC_0_3
from tests.server.served import Site, fields

EXTENDED = "/extendedAgentCard"
UNDECLARED = {**PUBLIC, "capabilities": {}}


def test_the_right_token_opens_the_extended_card(site: Site) -> None:
    """The exact bytes, for this client alone, to be asked for each time."""
    answer = site.client.get(EXTENDED, headers=site.bearer())

    body = site.generation.extended["staff"]
    assert (answer.status_code, answer.data) == (200, body)
    assert fields(answer) == {
        "Content-Type": "application/a2a+json",
        "Content-Length": str(len(body)),
        "ETag": f'"{hashlib.sha256(body).hexdigest()}"',
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization",
        "X-Content-Type-Options": "nosniff",
    }


#: What a client sends in place of the token, and whether the challenge names it as an error.
WITHOUT_TOKEN = {
    "no header": ({}, False),
    "an empty header": ({"Authorization": ""}, False),
    "Basic": ({"Authorization": "Basic dXNlcjpwdw=="}, False),
    "the token without a scheme": ({"Authorization": "TOKEN"}, False),
    "no space": ({"Authorization": "BearerTOKEN"}, False),
    "another header": ({"X-Api-Key": "TOKEN"}, False),
    "a scheme alone": ({"Authorization": "Bearer"}, True),
    "wrong token": ({"Authorization": "Bearer wrong"}, True),
    "longer": ({"Authorization": "Bearer TOKENx"}, True),
    "the header twice": ({"Authorization": "Bearer TOKEN,Bearer TOKEN"}, True),
}


@pytest.mark.parametrize(("headers", "is_error"), WITHOUT_TOKEN.values(), ids=WITHOUT_TOKEN)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_without_the_token_there_is_a_challenge_and_no_card(
    site: Site, method: str, headers: dict[str, str], is_error: bool
) -> None:
    """RFC 6750 3: an error only where a token was given; the scheme is the card's."""
    sent = {name: text.replace("TOKEN", site.tokens["staff"]) for name, text in headers.items()}
    answer = site.client.open(EXTENDED, method=method, headers=sent)

    assert answer.status_code == 401
    challenge = 'Bearer realm="harbour"' + (', error="invalid_token"' if is_error else "")
    assert answer.headers.getlist("WWW-Authenticate") == [challenge]
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.headers["Vary"] == "Authorization"
    assert "ETag" not in answer.headers
    if method == "GET":
        assert answer.json is not None
        assert answer.json["error"]["status"] == "UNAUTHENTICATED"
        assert b"staff" not in answer.data


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", " Bearer  "])
def test_the_scheme_is_read_in_any_case(site: Site, scheme: str) -> None:
    """RFC 9110 11.1."""
    headers = {"Authorization": f"{scheme} {site.tokens['staff']}"}
    assert site.client.get(EXTENDED, headers=headers).status_code == 200


def test_a_token_in_the_query_is_not_read(site: Site) -> None:
    """Queries end up in logs (RFC 6750 2.3)."""
    answer = site.client.get(f"{EXTENDED}?access_token={site.tokens['staff']}")

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="harbour"'


def test_a_token_in_two_places_is_a_bad_request(site: Site) -> None:
    """RFC 6750 3.1: more than one method."""
    answer = site.client.get(f"{EXTENDED}?access_token=x", headers=site.bearer())

    assert answer.status_code == 400
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="harbour", error="invalid_request"'


def test_each_audience_gets_its_own_card_under_its_own_tag(make_site: Callable[..., Site]) -> None:
    """And a tag of the one is worth nothing to the other."""
    site = make_site(audiences=("crew", "staff"), tokens=("crew", "staff"))
    answers = {
        name: site.client.get(EXTENDED, headers=site.bearer(name)) for name in ("crew", "staff")
    }

    for name, answer in answers.items():
        assert answer.data == site.generation.extended[name]
    crew_tag = answers["crew"].headers["ETag"]
    headers = {"If-None-Match": crew_tag}
    assert site.client.get(EXTENDED, headers=headers | site.bearer("crew")).status_code == 304
    assert site.client.get(EXTENDED, headers=headers | site.bearer("staff")).status_code == 200


def test_a_time_alone_is_no_validator(site: Site) -> None:
    """The cards of all audiences are as old, so by it one would be taken for another's."""
    plain = site.client.get(EXTENDED, headers=site.bearer("staff"))
    assert "Last-Modified" not in plain.headers
    headers = {"If-Modified-Since": "Fri, 31 Dec 2999 23:59:59 GMT"}
    assert site.client.get(EXTENDED, headers=headers | site.bearer("staff")).status_code == 200


def test_a_304_says_what_the_200_said(site: Site) -> None:
    """Private caching, the tag, and no body."""
    plain = site.client.get(EXTENDED, headers=site.bearer())
    headers = {"If-None-Match": f'"x", W/{plain.headers["ETag"]}'}
    answer = site.client.get(EXTENDED, headers=headers | site.bearer())

    assert (answer.status_code, answer.data) == (304, b"")
    for name in ("ETag", "Cache-Control", "Vary", "X-Content-Type-Options"):
        assert answer.headers[name] == plain.headers[name]
    assert "Content-Type" not in answer.headers


def test_a_tag_without_a_token_opens_nothing(site: Site) -> None:
    """The tag is no secret and must not become a proof."""
    tag = site.client.get(EXTENDED, headers=site.bearer()).headers["ETag"]
    assert site.client.get(EXTENDED, headers={"If-None-Match": tag}).status_code == 401
    assert site.client.get(EXTENDED, headers={"If-None-Match": "*"}).status_code == 401


@pytest.mark.parametrize(
    ("card", "path"),
    [
        (PUBLIC, "/a2a/extendedAgentCard"),
        (PUBLIC, "/rest/v1/extendedAgentCard"),  # its interface ends in a slash
        (PUBLIC_0_3, "/old/extendedAgentCard"),
        (PUBLIC_0_3, "/old/rest/extendedAgentCard"),
    ],
)
def test_the_extended_card_stands_below_each_interface(
    make_site: Callable[..., Site], card: dict[str, Any], path: str
) -> None:
    """Clients append the path to the url of the interface that they chose."""
    site = make_site(card)

    assert site.client.get(path, headers=site.bearer()).status_code == 200
    assert site.client.get(path).status_code == 401
    assert site.client.get(path + "/", headers=site.bearer()).status_code == 404


def test_a_tenant_stands_between_interface_and_card(make_site: Callable[..., Site]) -> None:
    """A2A 1.0 11.3: {url}/{tenant}/extendedAgentCard; percent-escapes are read as usual."""
    interface = {
        "url": "https://tides.example/x%20y",
        "protocolBinding": "HTTP+JSON",
        "protocolVersion": "1.0",
        "tenant": "north",
    }
    site = make_site({**PUBLIC, "supportedInterfaces": [interface]})

    for path in ("/x%20y/north/extendedAgentCard", "/x%20y/extendedAgentCard"):
        assert site.client.get(path, headers=site.bearer()).status_code == 200
    assert site.client.get("/north/extendedAgentCard", headers=site.bearer()).status_code == 404


def test_no_page_of_another_origin_reads_the_extended_card(site: Site) -> None:
    """No CORS: neither on the answer nor on a preflight."""
    answer = site.client.get(EXTENDED, headers={"Origin": "https://x.example", **site.bearer()})
    preflight = site.client.options(EXTENDED, headers={"Origin": "https://x.example"})

    assert (answer.status_code, preflight.status_code) == (200, 204)
    assert preflight.headers["Allow"] == "GET, HEAD, OPTIONS"
    for each in (answer, preflight):
        assert not [name for name, _ in each.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("version", [None, "", "1.0", "0.3", "?A2A-Version=1.0"])
def test_a_known_version_is_served(site: Site, version: str | None) -> None:
    """The same signed bytes for either generation."""
    assert ask_in(site, version, **site.bearer()).status_code == 200


def ask_in(site: Site, version: str | None, **headers: str) -> TestResponse:
    """Ask in a version of A2A, by the header or the query."""
    if version is None or version.startswith("?"):
        return site.client.get(f"{EXTENDED}{version or ''}", headers=headers)
    return site.client.get(EXTENDED, headers={**headers, "A2A-Version": version})


@pytest.mark.parametrize("version", ["99.0", "1.0.1", "1.0,0.3", "?A2A-Version=2.0"])
def test_another_version_is_refused_as_a2a_says(site: Site, version: str) -> None:
    """google.rpc.Status with A2A's ErrorInfo, before anything is said about tokens."""
    answer = ask_in(site, version)

    assert answer.status_code == 400
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "VERSION_NOT_SUPPORTED",
        "domain": "a2a-protocol.org",
    }
    assert answer.json == {
        "error": {
            "code": 400,
            "status": "FAILED_PRECONDITION",
            "message": "A2A-Version is not one of 1.0, 0.3",
            "details": [info],
        }
    }


#: The card, its audiences, those of the tokens, and A2A's reason.
NOT_TO_BE_HAD: dict[str, tuple[dict[str, Any], tuple[str, ...], Any, str]] = {
    "the card declares none": (UNDECLARED, (), ("staff",), "UNSUPPORTED_OPERATION"),
    "none was published": (PUBLIC, (), ("staff",), "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    "no token file": (PUBLIC, ("staff",), None, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
}


@pytest.mark.parametrize(
    ("card", "audiences", "tokens", "reason"), NOT_TO_BE_HAD.values(), ids=NOT_TO_BE_HAD
)
def test_what_cannot_be_had_by_anybody_is_said_with_a2as_reason(
    make_site: Callable[..., Site],
    card: dict[str, Any],
    audiences: tuple[str, ...],
    tokens: tuple[str, ...] | None,
    reason: str,
) -> None:
    """A2A 1.0 3.1.11: undeclared and not configured are told apart, by REST and by JSON-RPC."""
    site = make_site(card, audiences, tokens)
    headers = site.bearer() if tokens else {}
    answer = site.client.get(EXTENDED, headers=headers)
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    by_rpc = site.client.post("/a2a", json=call, headers=headers)

    assert (answer.status_code, by_rpc.status_code) == (400, 200)
    assert answer.json is not None
    assert by_rpc.json is not None
    details = answer.json["error"]["details"]
    assert details[0]["reason"] == reason
    code = -32004 if reason == "UNSUPPORTED_OPERATION" else -32007
    assert (by_rpc.json["error"]["code"], by_rpc.json["error"]["data"]) == (code, details)


def test_whether_a_card_is_configured_is_told_to_authenticated_callers_alone(
    make_site: Callable[..., Site],
) -> None:
    """A2A 1.0 3.3.2: no hint about what others may see."""
    site = make_site(PUBLIC, (), ("staff",))
    assert site.client.get(EXTENDED).status_code == 401


BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
OPENID = {"openIdConnectUrl": "https://i.example"}
#: The schemes of a card, and the realms of the challenges.
CHALLENGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "1.0 oauth2": ({"a": {"oauth2SecurityScheme": {"flows": {}}}}, ["a"]),
    "1.0 OpenID Connect": ({"a": {"openIdConnectSecurityScheme": OPENID}}, ["a"]),
    "0.3 bearer": ({"a": {"type": "http", "scheme": "BEARER"}}, ["a"]),
    "0.3 OpenID Connect": ({"a": {"type": "openIdConnect", **OPENID}}, ["a"]),
    "one for each that a bearer token satisfies": (
        {
            "a": BEARER,
            "b": {"httpAuthSecurityScheme": {"scheme": "Basic"}},
            "c": {"oauth2SecurityScheme": {"flows": {}}},
        },
        ["a", "c"],
    ),
    "a name that would break out of the header": (
        {'a"b\\c\r\nd é': BEARER},
        ['a\\"b\\\\c??d ?'],
    ),
    "none that fits: still what this server takes": (
        {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X"}}},
        ["extended-agent-card"],
    ),
    "none at all": ({}, ["extended-agent-card"]),
}


@pytest.mark.parametrize(("schemes", "realms"), CHALLENGES.values(), ids=CHALLENGES)
def test_the_challenges_are_generated_from_the_public_card(
    make_site: Callable[..., Site], schemes: dict[str, Any], realms: list[str]
) -> None:
    """So that card and 401 cannot drift apart."""
    site = make_site({**PUBLIC, "securitySchemes": schemes, "securityRequirements": []})
    challenges = site.client.get(EXTENDED).headers.getlist("WWW-Authenticate")
    assert challenges == [f'Bearer realm="{realm}"' for realm in realms]


def test_no_token_is_ever_logged(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a right one nor a wrong one."""
    site.client.get(EXTENDED, headers=site.bearer())
    site.client.get(EXTENDED, headers={"Authorization": "Bearer wrong-token"})

    said = "".join(capfd.readouterr()) + "".join(site.log)
    assert site.tokens["staff"] not in said
    assert "wrong-token" not in said


def test_a_token_for_nobody_is_a_line_when_it_is_used(make_site: Callable[..., Site]) -> None:
    """A typo in an audience harms its own token; every other one and the public card are served."""
    site = make_site(tokens=("staff", "crwe"))

    assert site.client.get("/.well-known/agent-card.json").status_code == 200
    assert site.client.get(EXTENDED, headers=site.bearer("staff")).status_code == 200
    refused = site.client.get(EXTENDED, headers=site.bearer("crwe"))
    assert refused.status_code == 400
    problem = "there is no extended card for the audience of this caller"
    assert problem.encode() in refused.data
    assert site.log == [f"warning: a caller of audience crwe: {problem}"]
