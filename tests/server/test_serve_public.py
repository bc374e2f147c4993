"""The public documents over HTTP: bytes, validators, caching, CORS."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from urllib.parse import unquote

import pytest
from flask import Response, request_finished
from werkzeug.http import http_date
from werkzeug.test import Client

from cardsign.server.mount import mount_cards
from tests.publish.publications import PUBLIC
from tests.server.served import Site, fields

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"


@pytest.mark.parametrize(
    ("path", "name", "media_type"),
    [
        (CARD, "agent-card.json", "application/json"),
        (JWKS, "jwks.json", "application/jwk-set+json"),
    ],
)
def test_a_public_document_is_served_as_published(
    site: Site, path: str, name: str, media_type: str
) -> None:
    """The exact bytes, and every header that a cache or a browser needs."""
    answer = site.client.get(path)

    body = site.generation.files[name]
    assert (answer.status_code, answer.data) == (200, body)
    assert fields(answer) == {
        "Content-Type": media_type,
        "Content-Length": str(len(body)),
        "ETag": f'"{hashlib.sha256(body).hexdigest()}"',
        "Last-Modified": "Sat, 21 Nov 2026 12:00:00 GMT",
        "Cache-Control": "public, max-age=300",
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "ETag",
        "X-Content-Type-Options": "nosniff",
    }


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS"])
def test_flask_answers_every_request(site: Site, method: str) -> None:
    """Alone and mounted: nothing answers past it, a hit of a cache, a refusal or a 404 either."""
    paths = [CARD, JWKS, "/.well-known/agent.json", "/", "/a2a/agents", "/healthz", "/readyz"]
    paths += ["/a2a/extendedAgentCard", "/a2a", "/nothing", "//"]
    headers = [{}, site.bearer(), {"If-None-Match": "*"}, {"Accept": "text/html"}]
    answered: list[int] = []

    def note(sender: object, response: Response) -> None:
        answered.append(response.status_code)

    def agent(environ: object, start_response: object) -> list[bytes]:
        raise AssertionError("a card was asked for")

    with request_finished.connected_to(note):
        for path, extra in product(paths, headers):
            answer = site.client.open(path, method=method, headers=extra)
            assert answered.pop() == answer.status_code
            assert answered == []
        mounted = Client(mount_cards(agent, site.directory, site.settings))
        asked = {"POST": "/a2a"}.get(method, CARD)
        if method != "PUT":
            answer = mounted.open(asked, method=method, json={"method": "GetExtendedAgentCard"})
            assert answered == [answer.status_code]


@pytest.mark.parametrize("path", [CARD, JWKS])
def test_head_is_get_without_the_body(site: Site, path: str) -> None:
    """The same headers, the length included (RFC 9110 9.3.2)."""
    get, head = site.client.get(path), site.client.head(path)

    assert (head.status_code, head.data) == (200, b"")
    assert fields(head) == fields(get)


#: The condition, where TAG is the card's; hours from its time to If-Modified-Since; the status.
CONDITIONS: list[tuple[dict[str, str], int | None, int]] = [
    ({"If-None-Match": "TAG"}, None, 304),
    ({"If-None-Match": "*"}, None, 304),
    ({"If-None-Match": '"old", TAG , "older"'}, None, 304),
    ({"If-None-Match": "W/TAG"}, None, 304),
    ({"If-None-Match": '"old"'}, None, 200),
    ({"If-None-Match": "CUT"}, None, 200),
    ({"If-None-Match": ""}, None, 200),
    ({"If-None-Match": '"old"'}, 0, 200),
    ({"If-None-Match": "TAG"}, -1, 304),
    ({}, 0, 304),
    ({}, 1, 304),
    ({}, -1, 200),
    ({"If-Modified-Since": "yesterday"}, None, 200),
    ({"If-Match": "TAG"}, None, 200),
    ({"If-Match": '"old"'}, None, 412),
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("condition", "hours", "status"), CONDITIONS)
def test_a_conditional_request_is_answered_by_what_the_client_holds(
    site: Site, method: str, condition: dict[str, str], hours: int | None, status: int
) -> None:
    """RFC 9110 13.1: weak comparison, and a date counts only without a tag."""
    tag = site.client.get(CARD).headers["ETag"]
    values = {"TAG": tag, "CUT": f'{tag[:-2]}"'}
    headers = dict(condition)
    for word, value in values.items():
        headers = {name: text.replace(word, value) for name, text in headers.items()}
    if hours is not None:
        when = site.generation.published_at + timedelta(hours=hours)
        headers["If-Modified-Since"] = http_date(when)

    assert site.client.open(CARD, method=method, headers=headers).status_code == status


def test_a_304_repeats_what_a_cache_must_refresh(site: Site) -> None:
    """Its tag and lifetime, but no body and nothing about it (RFC 9110 15.4.5)."""
    plain = site.client.get(CARD)
    answer = site.client.get(CARD, headers={"If-None-Match": plain.headers["ETag"]})

    assert (answer.status_code, answer.data) == (304, b"")
    assert fields(plain) == {
        **fields(answer),
        "Content-Type": "application/json",
        "Content-Length": str(len(plain.data)),
        "Last-Modified": plain.headers["Last-Modified"],
    }


def test_a_preflight_lets_any_page_read_and_revalidate(site: Site) -> None:
    """Only reading, only the headers that this needs, and no credentials."""
    answer = site.client.options(
        CARD,
        headers={
            "Origin": "https://page.example",
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "if-none-match",
        },
    )

    assert (answer.status_code, answer.data) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS"
    assert "If-None-Match" in answer.headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", [CARD, JWKS])
def test_nobody_writes_to_a_public_path(site: Site, method: str, path: str) -> None:
    """405 with what is allowed, in JSON."""
    answer = site.client.open(path, method=method)

    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"
    assert answer.json is not None
    assert answer.json["error"]["code"] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nothing",
        "//",
        "//.well-known/agent-card.json",
        "/.well-known/agent-card.json/",
        "/.well-known/",
        "/.well-known/../healthz",
        "/static/x",
        "/000001/extended/staff.json",
        "/%00",
        "/größe",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_anything_else_is_404_in_json(site: Site, path: str, method: str) -> None:
    """No redirects, no HTML, no listing."""
    path_info = unquote(path).encode().decode("latin-1")
    answer = site.client.open("/", method=method, environ_overrides={"PATH_INFO": path_info})

    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.json is not None
    assert answer.json["error"]["status"] == "NOT_FOUND"


def test_a_card_without_interfaces_on_http_serves_the_public_part_alone(
    make_site: Callable[..., Site],
) -> None:
    """A gRPC url is no path of this server."""
    grpc = {"url": "tides.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    site = make_site({**PUBLIC, "supportedInterfaces": [grpc]})

    assert site.client.get(CARD).status_code == 200
    assert site.client.post("/443").status_code == 404
    assert site.client.get("/extendedAgentCard", headers=site.bearer()).status_code == 200
