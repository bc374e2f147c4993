"""One generation: the legacy path, and extended cards that are not served."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from cardsign.card.extensions import find_marker
from cardsign.errors import ServeFault
from cardsign.jose.keys import PrivateKey
from cardsign.server.settings import ServerSettings
from tests.publish.publications import NOW, PUBLIC, publish_cards, put_in_place
from tests.server.served import Site, serve

CARD = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
EXTENDED = "/extendedAgentCard"
NO_SCHEMES: dict[str, Any] = {"securitySchemes": {}, "securityRequirements": []}


# ------------------------------------------------------------------ the legacy path


def test_F3_F4_the_legacy_path_answers_and_says_where_the_card_is_now(site: Site) -> None:
    """`Deprecation: true`, unless the settings have a date; no Sunset where none is known."""
    answer = site.client.get(LEGACY)

    assert answer.data == site.client.get(CARD).data
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Link"] == '<agent-card.json>; rel="successor-version"'
    assert "Sunset" not in answer.headers
    assert "Deprecation" not in site.client.get(CARD).headers


def test_F3_the_legacy_path_tells_when_it_ends(site: Site) -> None:
    """RFC 8594; on a 304 too, since caches keep its headers."""
    settings = ServerSettings(sunset=date(2027, 1, 31), deprecated=date(2025, 7, 30))
    seconds = [NOW.timestamp()]
    client = serve(site.directory, settings, now=lambda: seconds[0])
    answer = client.get(LEGACY)
    again = client.get(LEGACY, headers={"If-None-Match": answer.headers["ETag"]})

    assert again.status_code == 304
    for each in (answer, again):
        assert each.headers["Sunset"] == "Sun, 31 Jan 2027 00:00:00 GMT"
        assert each.headers["Deprecation"] == "@1753833600"
    end = datetime(2027, 1, 31, tzinfo=UTC).timestamp()
    for seconds[0], status in ((end - 1, 200), (end, 410)):
        assert client.get(LEGACY).status_code == status
        assert client.get(CARD).status_code == 200


# ------------------------------------------------------------------ extended cards


def test_an_expired_extended_card_is_refused(site: Site) -> None:
    """Over REST and JSON-RPC, from the second of its `exp`; the public card is served all along."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    marker = find_marker(json.loads(site.generation.extended["staff"]))
    assert marker is not None
    lasts = marker.exp - int(NOW.timestamp())
    for seconds, status in ((lasts - 1, 200), (lasts, 400)):
        site.seconds[0] = seconds
        rest = site.client.get(EXTENDED, headers=site.bearer())
        rpc = site.client.post("/a2a", json=call, headers=site.bearer()).json
        assert rpc is not None
        assert rest.status_code == status
        assert ("result" in rpc) == (status == 200)
    assert b"has expired" in rest.data
    assert "has expired" in rpc["error"]["message"]
    assert rpc["error"]["code"] == -32007
    assert site.client.get(CARD).status_code == 200


def test_an_expired_extended_card_does_not_answer_304(site: Site) -> None:
    """A client that holds it asks, and learns that it is over."""
    tag = site.client.get(EXTENDED, headers=site.bearer()).headers["ETag"]
    site.seconds[0] = 4_000 * 86_400
    headers = {"If-None-Match": tag, **site.bearer()}
    assert site.client.get(EXTENDED, headers=headers).status_code == 400


SPOILT = {
    "no card": b"{",
    "no marker": b'{"name":"x","capabilities":{}}',
}


@pytest.mark.parametrize("body", SPOILT.values(), ids=SPOILT)
def test_a_generation_with_a_broken_extended_card_is_not_served(
    site: Site, key: PrivateKey, body: bytes
) -> None:
    """Publishing makes none; the last good one stays."""
    newer = publish_cards(site.directory, key, {**PUBLIC, "version": "2.0.0"}, "staff")
    files = {**newer.files, "extended/staff.json": body}
    put_in_place(site.directory, replace(newer, files=files))
    site.wait()
    (problem,) = site.log
    assert problem.startswith("warning: still serving generation 1: ")
    assert site.client.get(EXTENDED, headers=site.bearer("staff")).status_code == 200


def test_no_extended_card_is_served_beside_requirements_that_cannot_be_read(site: Site) -> None:
    """Nobody could say who may have it; publishing refuses such a card as well."""
    card = json.loads(site.generation.card)
    card["securityRequirements"] = ["harbour"]
    names = [name for name, body in site.generation.files.items() if body == site.generation.card]
    files = {**site.generation.files, **dict.fromkeys(names, json.dumps(card).encode())}
    put_in_place(site.directory, replace(site.generation, files=files))
    with pytest.raises(ServeFault) as refused:
        serve(site.directory, site.settings)
    assert refused.value.code == "serve.schemes"


@pytest.mark.parametrize(
    ("days", "changes", "tokens", "line"),
    [
        (
            4_000,
            {},
            ("staff",),
            "the extended card of audience staff has expired and is not served",
        ),
        (0, {}, None, "there is no token, so the extended card cannot be asked for"),
        (0, NO_SCHEMES, ("staff",), "the public card declares no security scheme"),
    ],
    ids=["it has expired", "no token", "no scheme"],
)
def test_what_keeps_callers_from_an_extended_card_is_one_line(
    make_site: Callable[..., Site],
    days: int,
    changes: dict[str, Any],
    tokens: tuple[str, ...] | None,
    line: str,
) -> None:
    """The operator learns it from the log at the start."""
    site = make_site({**PUBLIC, **changes}, tokens=tokens)
    site.log.clear()
    serve(site.directory, site.settings, now=lambda: NOW.timestamp() + days * 86_400)
    (said,) = site.log
    assert said.startswith(f"warning: {line}")
