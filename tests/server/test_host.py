"""Several agents on one host: whose card is where, the catalogue, and what may be switched off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cardsign.errors import ServeFault
from cardsign.jose.keys import PrivateKey
from cardsign.publish.publication import publish_statements
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.served import Served, write_tokens
from tests.server.served import serve as serve_app

CARD = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"


def card(name: str) -> dict[str, Any]:
    """A card whose interface has a path of its own."""
    interface = {"url": f"https://x.example/{name}/a2a", "protocolBinding": "JSONRPC"}
    return {
        **PUBLIC,
        "name": name,
        "supportedInterfaces": [{**interface, "protocolVersion": "1.0"}],
    }


@pytest.fixture
def serve(tmp_path: Path, key: PrivateKey) -> Callable[..., Served]:
    """Publish an agent of each name, and serve them all."""

    def make(*names: str, settings: ServerSettings | None = None) -> Served:
        (tmp_path / "all").mkdir(exist_ok=True)
        for name in names:
            publish_cards(tmp_path / "all" / name, key, card(name), "staff")
        return Served(tmp_path / "all", settings)

    return make


def test_each_agent_is_below_its_path(serve: Callable[..., Served]) -> None:
    """Card, key set; nothing of an agent that is not there."""
    served = serve("tides", "waves")
    assert served.name(f"/agents/tides{CARD}") == "tides"
    assert served.name(f"/agents/waves{CARD}") == "waves"
    assert served.name(f"/agents/waves{LEGACY}") == "waves"
    assert served.status("/agents/tides/.well-known/jwks.json") == 200
    assert served.status(f"/agents/storms{CARD}") == 404
    assert served.status(f"/agents/{CARD}") == 404


def test_an_agent_may_have_the_name_of_a_file(serve: Callable[..., Served]) -> None:
    """Its folder is not the file that names a generation, and hides nobody."""
    served = serve("tides", "current")
    assert served.name(f"/agents/tides{CARD}") == "tides"
    assert served.name(f"/agents/current{CARD}") == "current"


def test_L2_the_template_of_the_paths_is_a_setting(serve: Callable[..., Served]) -> None:
    """Requirement L2."""
    settings = ServerSettings(agent_path="/v1/agent-systems/{name}")
    served = serve("tides", "waves", settings=settings)
    assert served.name(f"/v1/agent-systems/tides{CARD}") == "tides"
    assert served.status(f"/agents/tides{CARD}") == 404


@pytest.mark.parametrize("path", ["agents/{name}", "/agents", "/{name}/{name}"])
def test_a_template_without_one_name_is_refused(path: str) -> None:
    """With what is expected."""
    with pytest.raises(ValidationError, match="agent_path"):
        ServerSettings(agent_path=path)


@pytest.mark.parametrize("path", ["/", "/healthz", "/extendedAgentCard", CARD])
def test_a_catalogue_in_the_place_of_something_else_is_refused(path: str) -> None:
    """It would be lost, or would hide the card."""
    with pytest.raises(ValidationError, match="something else is at this path"):
        ServerSettings(catalogue=path)


def test_L1_the_root_has_a_card_only_where_it_is_clear_whose(serve: Callable[..., Served]) -> None:
    """Of one agent its own (L1); of several none's, or the one that the settings name."""
    only = serve("tides")
    assert (only.name(CARD), only.status("/extendedAgentCard")) == ("tides", 400)
    rootless = serve("tides", settings=ServerSettings(root="waves"))
    assert (rootless.status(CARD), rootless.status("/extendedAgentCard")) == (404, 404)
    assert serve("tides", "waves").status(CARD) == 404
    served = serve("tides", "waves", settings=ServerSettings(root="waves"))
    assert served.name(CARD) == "waves"
    disabled = ServerSettings(disabled=frozenset({"waves"}))
    assert serve("tides", "waves", settings=disabled).name(CARD) == "tides"


def test_L19_an_agent_that_is_not_enabled_is_on_no_route(serve: Callable[..., Served]) -> None:
    """Requirement L19: its paths, those of its card, the catalogue."""
    served = serve("tides", "waves", settings=ServerSettings(disabled=frozenset({"waves"})))
    for path in (f"/agents/waves{CARD}", "/waves/a2a/extendedAgentCard"):
        assert served.status(path) == 404
    assert json.loads(served.client.get("/a2a/agents").data)["total"] == 1
    assert served.status("/tides/a2a/extendedAgentCard") == 400  # no token table: not configured


def test_L19_a_withdrawn_agent_leaves_the_root_to_the_other(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """Requirements L1 and L19: its keys stay below its path."""
    served = serve("tides", "waves")
    publish_statements(None, tmp_path / "all/waves", now=NOW, withdraws=True)
    served.look()
    assert served.name(CARD) == "tides"
    assert served.status(f"/agents/waves{CARD}") == 404
    assert served.status("/agents/waves/.well-known/jwks.json") == 200
    assert json.loads(served.client.get("/a2a/agents").data)["total"] == 1


def test_an_agent_that_only_the_settings_know_is_named(serve: Callable[..., Served]) -> None:
    """A misspelt name takes nobody off a route, so it is said: once, and again when it is gone."""
    settings = ServerSettings(root="tides", disabled=frozenset({"waevs", "surf"}))
    served = serve("tides", "waves", "surf", settings=settings)
    said = "warning: the settings name agent waevs, which is not here"
    assert [line for line in served.log if "the settings name" in line] == [said]
    served.look()
    served.status(CARD)
    assert [line for line in served.log if "the settings name" in line] == [said]


def test_settings_for_several_agents_do_no_harm_to_one(tmp_path: Path, key: PrivateKey) -> None:
    """They name nobody here, which is said; the only agent keeps each of its paths."""
    publish_cards(tmp_path / "one", key, card("tides"))
    served = Served(tmp_path / "one", ServerSettings(root="tides"))
    assert "warning: the settings name agent tides, which is not here" in served.log
    for path in (CARD, LEGACY, "/.well-known/jwks.json", "/a2a/agents"):
        assert served.status(path) == 200
    assert served.client.get("/", headers={"Accept": "text/html"}).status_code == 200


def test_extended_cards_are_found_by_the_paths_of_their_cards(
    tmp_path: Path, serve: Callable[..., Served]
) -> None:
    """Each agent answers for its own."""
    token, line = create_token("staff")
    served = serve(
        "tides", "waves", settings=ServerSettings(token_file=write_tokens(tmp_path, line))
    )
    bearer = {"Authorization": f"Bearer {token}"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    for name in ("tides", "waves"):
        found = served.client.get(f"/{name}/a2a/extendedAgentCard", headers=bearer)
        assert json.loads(found.data)["name"] == name
        found = served.client.post(f"/{name}/a2a", json=call, headers=bearer)
        assert json.loads(found.data)["result"]["name"] == name
        below = served.client.get(f"/agents/{name}/extendedAgentCard", headers=bearer)
        assert json.loads(below.data)["name"] == name
    assert served.status("/extendedAgentCard") == 404


def test_tokens_that_open_nothing_are_one_line(
    tmp_path: Path, key: PrivateKey, serve: Callable[..., Served]
) -> None:
    """They serve one agent of several, or none, which the operator learns."""
    settings = ServerSettings(token_file=write_tokens(tmp_path, create_token("staff")[1]))
    line = "warning: no public card declares an extended card, so tokens and providers have no use"
    plain = {**card("berths"), "capabilities": {}}
    publish_cards(tmp_path / "all" / "berths", key, plain)
    assert Served(tmp_path / "all", settings).log.count(line) == 1
    assert serve("tides", settings=settings).log == []


# ------------------------------------------------------------------ the catalogue


def test_the_catalogue_holds_every_card_as_it_was_signed(
    tmp_path: Path, serve: Callable[..., Served]
) -> None:
    """In the order of names, with validators (O4)."""
    served = serve("waves", "tides")
    answer = served.client.get("/a2a/agents")
    assert [one["name"] for one in answer.json["agents"]] == ["tides", "waves"]
    assert answer.json["total"] == 2
    signed = (tmp_path / "all/tides/000001/agent-card.json").read_bytes()
    assert signed in answer.data
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    tag = {"If-None-Match": answer.headers["ETag"]}
    assert served.client.get("/a2a/agents", headers=tag).status_code == 304
    assert served.client.head("/a2a/agents").headers["Content-Length"] == str(len(answer.data))
    assert served.client.post("/a2a/agents").status_code == 405


def test_O4_B29_the_catalogue_has_pages(serve: Callable[..., Served]) -> None:
    """By limit and offset; `total` is of all."""
    served = serve("a", "b", "c")
    page = served.client.get("/a2a/agents?limit=2&offset=2").json
    assert ([one["name"] for one in page["agents"]], page["total"]) == (["c"], 3)
    assert served.client.get("/a2a/agents?offset=9").json == {"agents": [], "total": 3}


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "offset=x", "page=2", "limit=1&x=1"])
def test_another_page_is_refused(serve: Callable[..., Served], query: str) -> None:
    """As google.rpc.Status."""
    answer = serve("a").client.get(f"/a2a/agents?{query}")
    assert answer.status_code == 400
    assert answer.json["error"]["status"] == "INVALID_ARGUMENT"


def test_the_catalogue_is_elsewhere_or_nowhere(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """By its setting; one publication has a catalogue of one."""
    assert serve("tides", settings=ServerSettings(catalogue="/all")).status("/all") == 200
    assert serve("tides", settings=ServerSettings(catalogue="")).status("/a2a/agents") == 404
    only = Served(tmp_path / "all/tides")
    assert only.client.get("/a2a/agents").json["total"] == 1


# ------------------------------------------------------------------ agents come and go


def test_O1_O11_a_host_without_agents_has_no_card(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """404, or by its own word an unsigned placeholder (O1); it is not ready."""
    settings = ServerSettings(enabled=False)
    serve("tides")
    one = Served(tmp_path / "all/tides", settings)
    for path in (CARD, LEGACY, "/.well-known/jwks.json", "/tides/a2a/extendedAgentCard"):
        assert one.status(path) == 404
    assert (one.status("/healthz"), one.status("/a2a/agents")) == (200, 200)
    assert one.status("/readyz") == 503
    placeholder = ServerSettings(enabled=False, placeholder=True)
    shown = Served(tmp_path / "all/tides", placeholder).client.get(CARD).json
    assert shown["supportedInterfaces"] == []
    assert "signatures" not in shown


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "not enabled"])
@pytest.mark.parametrize("name", [".", "no-such-folder"])
def test_a_folder_without_publication_is_no_host(tmp_path: Path, name: str, enabled: bool) -> None:
    """A typing mistake is heard of at once, also where the agent is not served for now."""
    with pytest.raises(ServeFault) as refused:
        serve_app(tmp_path / name, ServerSettings(enabled=enabled))
    assert refused.value.code == "serve.no_generation"


def test_agents_come_and_go(serve: Callable[..., Served], tmp_path: Path, key: PrivateKey) -> None:
    """Without a restart."""
    served = serve("tides")
    publish_cards(tmp_path / "all/waves", key, card("waves"))
    assert served.status(f"/agents/waves{CARD}") == 404
    served.look()
    assert served.name(f"/agents/waves{CARD}") == "waves"
    (tmp_path / "all/tides").rename(tmp_path / "gone")
    served.look()
    assert served.status(f"/agents/tides{CARD}") == 404
    assert served.name(CARD) == "waves"


def test_a_folder_that_cannot_be_read_takes_no_agent_away(
    serve: Callable[..., Served], tmp_path: Path, key: PrivateKey
) -> None:
    """It is one line for the operator; when it can be read again it is followed again."""
    served = serve("tides", "waves")
    (tmp_path / "all").rename(tmp_path / "away")
    for _ in range(3):
        served.look()
        assert served.name(f"/agents/waves{CARD}") == "waves"
    assert len([one for one in served.log if "still serving the agents" in one]) == 1
    (tmp_path / "away").rename(tmp_path / "all")
    (tmp_path / "all/tides").rename(tmp_path / "gone")
    served.look()
    assert served.status(f"/agents/tides{CARD}") == 404


def test_a_broken_agent_harms_no_other(serve: Callable[..., Served], tmp_path: Path) -> None:
    """It is one line for the operator."""
    serve("tides", "waves")
    (tmp_path / "all/waves/000001/agent-card.json").write_bytes(b"{")
    served = serve("tides")
    served.look()
    assert served.name(f"/agents/tides{CARD}") == "tides"
    assert served.status(f"/agents/waves{CARD}") == 404
    (line,) = [one for one in served.log if "waves" in one]
    assert line.startswith("warning: agent waves: not served: serve.corrupt_generation")


# ------------------------------------------------------------------ probes, metadata, spellings


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_is_of_this_moment_and_is_only_read(
    serve: Callable[..., Served], tmp_path: Path, key: PrivateKey, path: str
) -> None:
    """It names a newer generation at once, no cache keeps it, and nobody writes to it.

    Of several agents it says how many there are.
    """
    assert serve("tides", "waves").client.get(path).json["agents"] == 2
    one = Served(tmp_path / "all/tides")
    publish_cards(tmp_path / "all/tides", key, card("waves"), "staff")
    one.look()
    answer = one.client.get(path)
    assert answer.json is not None
    assert answer.json["generation"] == 2
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        refused = one.client.open(path, method=method)
        assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


def test_nobody_is_served_where_two_agents_name_the_same_place(
    serve: Callable[..., Served], tmp_path: Path, key: PrivateKey
) -> None:
    """One agent cannot take the callers of another; the operator is told once."""
    token, line = create_token("staff")
    settings = ServerSettings(token_file=write_tokens(tmp_path, line))
    bearer = {"Authorization": f"Bearer {token}", "Host": "x.example"}
    served = serve("tides", "waves", settings=settings)
    path = "/tides/a2a/extendedAgentCard"
    assert served.client.get(path, headers=bearer).status_code == 200
    publish_cards(tmp_path / "all/waves", key, {**card("tides"), "name": "waves"}, "staff")
    for _ in range(3):
        served.look()
        assert served.client.get(path, headers=bearer).status_code == 404
        assert served.client.post("/tides/a2a", json={}, headers=bearer).status_code == 404
    (told,) = [one for one in served.log if f"{path};" in one]
    assert (
        told
        == f"warning: agents tides and waves both name x.example{path}; neither is served there"
    )
    assert served.name("/agents/tides/.well-known/agent-card.json") == "tides"


def served_with_root(tmp_path: Path, key: PrivateKey, *urls: str) -> tuple[Served, dict[str, Any]]:
    """An agent at the root, and one whose card names these interfaces as well."""
    token, line = create_token("staff")
    made: dict[str, Any] = {"bearer": {"Authorization": f"Bearer {token}"}}
    for name, more in (("bank", ()), ("evil", urls)):
        places = (f"https://h.example/agents/{name}/a2a", *more)
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        whole = {**card(name), "supportedInterfaces": [{**interface, "url": one} for one in places]}
        made[name] = publish_cards(tmp_path / "all" / name, key, whole, "staff")
    settings = ServerSettings(token_file=write_tokens(tmp_path, line), root="bank")
    return Served(tmp_path / "all", settings), made


@pytest.mark.parametrize("host", ["h.example", "elsewhere.example"])
@pytest.mark.parametrize("path", [CARD, LEGACY, "/.well-known/jwks.json"])
def test_no_card_takes_what_the_root_publishes(
    tmp_path: Path, key: PrivateKey, path: str, host: str
) -> None:
    """An interface may have any path, also a well-known one."""
    served, _ = served_with_root(tmp_path, key, f"https://{host}{path}")
    honest, _ = served_with_root(tmp_path / "honest", key)
    for name in ("h.example", host):
        answers = [one.client.get(path, headers={"Host": name}) for one in (served, honest)]
        assert [one.status_code for one in answers] == [200, 200]
        assert json.loads(answers[0].data).keys() == json.loads(answers[1].data).keys()
    assert served.name(CARD) == "bank"


@pytest.mark.parametrize(
    ("url", "host", "whose"),
    [
        ("https://h.example/", "h.example", "bank"),
        ("https://h.example/agents/bank/a2a", "h.example", "bank"),
        ("https://evil.example/", "h.example", "bank"),
        ("https://evil.example/", "evil.example", "evil"),
        ("https://h.example/other", "h.example", "evil"),
    ],
)
def test_the_extended_card_of_the_root_is_its_own(
    tmp_path: Path, key: PrivateKey, url: str, host: str, whose: str
) -> None:
    """Another has it at a path that the root does not know, or on a host of its own."""
    served, made = served_with_root(tmp_path, key, url)
    path = ("/other" if url.endswith("other") else "") + "/extendedAgentCard"
    answer = served.client.get(path, headers={**made["bearer"], "Host": host})

    assert answer.status_code == 200
    assert answer.data == made[whose].extended["staff"]


def test_two_hosts_may_have_the_same_path(
    serve: Callable[..., Served], tmp_path: Path, key: PrivateKey
) -> None:
    """The host that is asked decides; where it is none of theirs, nobody is served."""
    token, line = create_token("staff")
    interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    made = {}
    for name in ("tides", "waves"):
        one = {**interface, "url": f"https://{name}.example/a2a"}
        whole = {**card(name), "supportedInterfaces": [one]}
        made[name] = publish_cards(tmp_path / "all" / name, key, whole, "staff")
    served = Served(tmp_path / "all", ServerSettings(token_file=write_tokens(tmp_path, line)))
    for host, status, body in (
        ("tides.example", 200, made["tides"].extended["staff"]),
        ("WAVES.example:443", 200, made["waves"].extended["staff"]),
        ("evil.example", 404, None),
    ):
        headers = {"Authorization": f"Bearer {token}", "Host": host}
        answer = served.client.get("/a2a/extendedAgentCard", headers=headers)
        assert answer.status_code == status
        assert body is None or answer.data == body
    assert served.log == []


def test_oauth_is_told_as_its_clients_look_for_it(tmp_path: Path, key: PrivateKey) -> None:
    """Protected resource metadata (RFC 9728), from the card alone; paths come decoded."""
    url = "https://login.example/t1/.well-known/openid-configuration"
    flows = {"clientCredentials": {"tokenUrl": "https://x.example", "scopes": {"card.read": ""}}}
    schemes = {
        "sso": {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}},
        "oauth": {"oauth2SecurityScheme": {"flows": flows}},
    }
    interface = {**card("x")["supportedInterfaces"][0], "url": "https://x.example/high%20tide"}
    members = {"supportedInterfaces": [interface], "securityRequirements": []}
    publish_cards(tmp_path / "pub", key, {**card("tides"), **members, "securitySchemes": schemes})
    served = Served(tmp_path / "pub")
    path = "/.well-known/oauth-protected-resource/high%20tide"
    assert served.client.get(path).json == {
        "resource": "https://x.example/high%20tide",
        "authorization_servers": ["https://login.example/t1"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["card.read"],
        "resource_name": "tides",
    }
