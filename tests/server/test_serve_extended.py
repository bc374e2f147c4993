"""The extended card over REST: who gets it, where, and what everybody else is told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from publications import PUBLIC, PUBLIC_0_3, with_skill
from served import Site, fields

EXTENDED = "/extendedAgentCard"


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


def _raw(value: str) -> Callable[[str], dict[str, str]]:
    return lambda token: {"Authorization": value.replace("TOKEN", token)}


@pytest.mark.parametrize(
    ("make_headers", "challenge"),
    [
        pytest.param(lambda token: {}, 'Bearer realm="harbour"', id="no header"),
        pytest.param(_raw(""), 'Bearer realm="harbour"', id="an empty header"),
        pytest.param(_raw("Basic dXNlcjpwdw=="), 'Bearer realm="harbour"', id="Basic"),
        pytest.param(_raw("TOKEN"), 'Bearer realm="harbour"', id="the token without a scheme"),
        pytest.param(_raw("BearerTOKEN"), 'Bearer realm="harbour"', id="no space"),
        pytest.param(
            lambda token: {"X-Api-Key": token}, 'Bearer realm="harbour"', id="another header"
        ),
        pytest.param(
            _raw("Bearer"), 'Bearer realm="harbour", error="invalid_token"', id="a scheme alone"
        ),
        pytest.param(
            _raw("Bearer wrong"), 'Bearer realm="harbour", error="invalid_token"', id="wrong token"
        ),
        pytest.param(
            _raw("Bearer TOKENx"), 'Bearer realm="harbour", error="invalid_token"', id="longer"
        ),
        pytest.param(
            _raw("Bearer TOKEN,Bearer TOKEN"),
            'Bearer realm="harbour", error="invalid_token"',
            id="the header twice",
        ),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_without_the_token_there_is_a_challenge_and_no_card(
    site: Site, method: str, make_headers: Callable[[str], dict[str, str]], challenge: str
) -> None:
    """RFC 6750 3: an error only where a token was given; the scheme is the card's."""
    answer = site.client.open(EXTENDED, method=method, headers=make_headers(site.tokens["staff"]))

    assert answer.status_code == 401
    assert answer.headers.getlist("WWW-Authenticate") == [challenge]
    assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == (
        "private, no-cache",
        "Authorization",
    )
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


def test_head_is_get_without_the_body(site: Site) -> None:
    """The same headers."""
    get = site.client.get(EXTENDED, headers=site.bearer())
    head = site.client.head(EXTENDED, headers=site.bearer())

    assert (head.status_code, head.data) == (200, b"")
    assert fields(head) == fields(get)


@pytest.mark.parametrize(
    ("card", "path"),
    [
        pytest.param(PUBLIC, "/a2a/extendedAgentCard", id="below a 1.0 interface"),
        pytest.param(PUBLIC, "/rest/v1/extendedAgentCard", id="below one that ends in a slash"),
        pytest.param(PUBLIC_0_3, "/old/extendedAgentCard", id="below the 0.3 url"),
        pytest.param(PUBLIC_0_3, "/old/rest/extendedAgentCard", id="below a 0.3 interface"),
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


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        pytest.param({}, "", id="absent"),
        pytest.param({"A2A-Version": ""}, "", id="empty"),
        pytest.param({"A2A-Version": "1.0"}, "", id="1.0"),
        pytest.param({"A2A-Version": "0.3"}, "", id="0.3"),
        pytest.param({}, "?A2A-Version=1.0", id="1.0 in the query"),
    ],
)
def test_a_known_version_is_served(site: Site, headers: dict[str, str], query: str) -> None:
    """The same signed bytes for either generation."""
    assert site.client.get(EXTENDED + query, headers=headers | site.bearer()).status_code == 200


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        pytest.param({"A2A-Version": "99.0"}, "", id="99.0"),
        pytest.param({"A2A-Version": "1.0.1"}, "", id="a patch version"),
        pytest.param({"A2A-Version": "1.0,0.3"}, "", id="two"),
        pytest.param({}, "?A2A-Version=2.0", id="2.0 in the query"),
    ],
)
def test_another_version_is_refused_as_a2a_says(
    site: Site, headers: dict[str, str], query: str
) -> None:
    """google.rpc.Status with A2A's ErrorInfo, before anything is said about tokens."""
    answer = site.client.get(EXTENDED + query, headers=headers)

    assert answer.status_code == 400
    assert answer.json == {
        "error": {
            "code": 400,
            "status": "FAILED_PRECONDITION",
            "message": "A2A-Version is not one of 1.0, 0.3",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "VERSION_NOT_SUPPORTED",
                    "domain": "a2a-protocol.org",
                }
            ],
        }
    }


@pytest.mark.parametrize(
    ("card", "audiences", "tokens", "reason"),
    [
        pytest.param(
            {**PUBLIC, "capabilities": {}},
            (),
            ("staff",),
            "UNSUPPORTED_OPERATION",
            id="the card declares none",
        ),
        pytest.param(
            PUBLIC, (), ("staff",), "EXTENDED_AGENT_CARD_NOT_CONFIGURED", id="none was published"
        ),
        pytest.param(
            PUBLIC, ("staff",), None, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", id="no token file"
        ),
    ],
)
def test_what_cannot_be_had_by_anybody_is_said_with_a2as_reason(
    make_site: Callable[..., Site],
    card: dict[str, Any],
    audiences: tuple[str, ...],
    tokens: tuple[str, ...] | None,
    reason: str,
) -> None:
    """A2A 1.0 3.1.11: undeclared and not configured are told apart."""
    site = make_site(card, audiences, tokens)
    answer = site.client.get(EXTENDED, headers=site.bearer() if tokens else {})

    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["error"]["details"][0]["reason"] == reason


def test_whether_a_card_is_configured_is_told_to_authenticated_callers_alone(
    make_site: Callable[..., Site],
) -> None:
    """A2A 1.0 3.3.2: no hint about what others may see."""
    site = make_site(PUBLIC, (), ("staff",))
    assert site.client.get(EXTENDED).status_code == 401


@pytest.mark.parametrize(
    ("schemes", "challenges"),
    [
        pytest.param(
            {"a": {"oauth2SecurityScheme": {"flows": {}}}}, ['Bearer realm="a"'], id="1.0 oauth2"
        ),
        pytest.param(
            {"a": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://i.example"}}},
            ['Bearer realm="a"'],
            id="1.0 OpenID Connect",
        ),
        pytest.param(
            {"a": {"type": "http", "scheme": "BEARER"}}, ['Bearer realm="a"'], id="0.3 bearer"
        ),
        pytest.param(
            {"a": {"type": "openIdConnect", "openIdConnectUrl": "https://i.example"}},
            ['Bearer realm="a"'],
            id="0.3 OpenID Connect",
        ),
        pytest.param(
            {
                "a": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
                "b": {"httpAuthSecurityScheme": {"scheme": "Basic"}},
                "c": {"oauth2SecurityScheme": {"flows": {}}},
            },
            ['Bearer realm="a"', 'Bearer realm="c"'],
            id="one for each that a bearer token satisfies",
        ),
        pytest.param(
            {'a"b\\c\r\nd é': {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            ['Bearer realm="a\\"b\\\\c??d ?"'],
            id="a name that would break out of the header",
        ),
        pytest.param(
            {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X"}}},
            ['Bearer realm="extended-agent-card"'],
            id="none that fits: still what this server takes",
        ),
        pytest.param({}, ['Bearer realm="extended-agent-card"'], id="none at all"),
    ],
)
def test_the_challenges_are_generated_from_the_public_card(
    make_site: Callable[..., Site], schemes: dict[str, Any], challenges: list[str]
) -> None:
    """So that card and 401 cannot drift apart."""
    site = make_site({**PUBLIC, "securitySchemes": schemes, "securityRequirements": []})
    assert site.client.get(EXTENDED).headers.getlist("WWW-Authenticate") == challenges


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


def test_the_extended_card_has_what_the_public_one_lacks(site: Site) -> None:
    """The fixture is no copy, so a mix-up of the two would be seen."""
    assert [skill["id"] for skill in with_skill(PUBLIC, "staff")["skills"]] == ["tides", "staff"]
    assert b"Only for staff" in site.generation.extended["staff"]
    assert b"staff" not in site.client.get("/.well-known/agent-card.json").data
    json.loads(site.generation.extended["staff"])
