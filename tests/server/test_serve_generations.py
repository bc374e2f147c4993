"""One application for each generation: its routes, the legacy path, cards that are not served."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from publications import NOW, PUBLIC, publish_cards
from served import Site
from werkzeug.test import Client

from cardsign.errors import ServeFault
from cardsign.jose.keys import PrivateKey
from cardsign.publish.generation import load_current
from cardsign.server.app import create_app
from cardsign.server.live import LiveApplication
from cardsign.server.settings import ServerSettings

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"
LEGACY = "/.well-known/agent.json"
EXTENDED = "/extendedAgentCard"


@pytest.mark.parametrize("path", [CARD, JWKS, LEGACY])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
@pytest.mark.parametrize("is_held", [False, True])
def test_flask_answers_public_documents_as_the_layer_before_it(
    site: Site, path: str, method: str, is_held: bool
) -> None:
    """The two cannot drift apart: the same status, headers and bytes."""
    app = create_app(site.generation, now=NOW.timestamp)
    tag = site.client.get(path).headers["ETag"] if is_held else '"another"'
    headers = {"If-None-Match": tag}

    before = site.client.open(path, method=method, headers=headers)
    inside = app.test_client().open(path, method=method, headers=headers)
    assert (before.status_code, before.data) == (inside.status_code, inside.data)
    assert sorted(before.headers) == sorted(inside.headers)


def test_an_application_stays_with_its_generation(site: Site, key: PrivateKey) -> None:
    """What is published later is served by another one."""
    app = create_app(site.generation).test_client()
    newer = publish_cards(site.directory, key, now=datetime(2026, 11, 22, tzinfo=UTC))

    assert app.get(CARD).data == site.generation.card
    site.wait()
    assert site.client.get(CARD).data == newer.card


# ------------------------------------------------------------------ the legacy path


def test_F3_F4_the_legacy_path_answers_and_says_where_the_card_is_now(site: Site) -> None:
    """RFC 9745 has a date; no Sunset is told where none is known."""
    answer = site.client.get(LEGACY)

    assert answer.data == site.client.get(CARD).data
    assert answer.headers["Deprecation"] == "@1753833600"
    assert answer.headers["Link"] == '<agent-card.json>; rel="successor-version"'
    assert "Sunset" not in answer.headers
    assert "Deprecation" not in site.client.get(CARD).headers


def test_F3_the_legacy_path_tells_when_it_ends(site: Site) -> None:
    """RFC 8594; on a 304 too, since caches keep its headers."""
    until = datetime(2027, 1, 31, tzinfo=UTC)
    client = Client(LiveApplication(site.directory, ServerSettings(sunset=until)))
    answer = client.get(LEGACY)
    again = client.get(LEGACY, headers={"If-None-Match": answer.headers["ETag"]})

    assert again.status_code == 304
    for each in (answer, again):
        assert each.headers["Sunset"] == "Sun, 31 Jan 2027 00:00:00 GMT"


def test_the_legacy_path_can_be_switched_off(site: Site) -> None:
    """The canonical one stays."""
    client = Client(LiveApplication(site.directory, ServerSettings(legacy=False)))

    assert client.get(LEGACY).status_code == 404
    assert client.get(CARD).status_code == 200


# ------------------------------------------------------------------ extended cards


def test_an_expired_extended_card_is_refused(site: Site) -> None:
    """Over REST and JSON-RPC, from the second of its `exp`; the public card is served all along."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    lasts = 30 * 86_400
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
    site.seconds[0] = 31 * 86_400
    headers = {"If-None-Match": tag, **site.bearer()}
    assert site.client.get(EXTENDED, headers=headers).status_code == 400


SPOILT = {
    "no card": b"{",
    "no marker": b'{"name":"x","capabilities":{}}',
}


@pytest.mark.parametrize("body", SPOILT.values(), ids=SPOILT)
def test_a_broken_extended_card_harms_no_other(make_site: Callable[..., Site], body: bytes) -> None:
    """One line for the operator; every other card is served."""
    site = make_site(audiences=("crew", "staff"), tokens=("crew", "staff"))
    generation = load_current(site.directory)
    files = {**generation.files, "extended/crew.json": body}
    app = create_app(
        replace(generation, files=files),
        ServerSettings(site.client.application._settings.tokens),
        now=NOW.timestamp,
    )
    client = app.test_client()

    (problem,) = app.extensions["cardsign.views"].cards.problems()
    assert problem.startswith("the extended card of audience crew is not served: ")
    assert client.get(CARD).status_code == 200
    assert client.get(EXTENDED, headers=site.bearer("staff")).status_code == 200
    refused = client.get(EXTENDED, headers=site.bearer("crew"))
    assert refused.status_code == 400
    assert b"NOT_CONFIGURED" in refused.data


def test_no_extended_card_is_served_beside_requirements_that_cannot_be_read(site: Site) -> None:
    """Nobody could say who may have it; publishing refuses such a card as well."""
    card = json.loads(site.generation.card)
    card["securityRequirements"] = ["harbour"]
    settings = ServerSettings(site.client.application._settings.tokens)
    names = [name for name, body in site.generation.files.items() if body == site.generation.card]
    files = {**site.generation.files, **dict.fromkeys(names, json.dumps(card).encode())}
    with pytest.raises(ServeFault) as refused:
        create_app(replace(site.generation, files=files), settings, now=NOW.timestamp)
    assert refused.value.code == "serve.schemes"


def test_an_expired_extended_card_is_one_line_at_the_start(site: Site) -> None:
    """The operator learns it from the log."""
    log: list[str] = []
    later = NOW.timestamp() + 31 * 86_400
    LiveApplication(site.directory, now=lambda: later, log=log.append)
    assert "warning: the extended card of audience staff has expired and is not served" in log


def test_a_server_without_providers_says_so_in_one_line(site: Site) -> None:
    """Whether clients could know how to ask does not matter while nobody is answered."""
    log: list[str] = []
    LiveApplication(site.directory, now=NOW.timestamp, log=log.append)
    assert log == ["warning: there is no token, so the extended card cannot be asked for"]


def test_a_token_without_a_scheme_in_the_card_is_one_line(
    make_site: Callable[..., Site],
) -> None:
    """Here clients cannot know how to ask, and that alone is wrong."""
    site = make_site({**PUBLIC, "securitySchemes": {}, "securityRequirements": []})
    (line,) = site.log
    assert line.startswith("warning: the public card declares no security scheme")
