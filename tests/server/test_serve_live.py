"""Following a publication: what is taken, what is refused, what the operator is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import ServeFault
from cardsign.jose.keys import PrivateKey
from cardsign.publish.publication import publish_statements
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.served import Site, serve

CARD = "/.well-known/agent-card.json"


def _version(number: int) -> dict[str, Any]:
    return {**PUBLIC, "version": f"{number}.0.0"}


def _served(site: Site) -> str:
    version: str = json.loads(site.client.get(CARD).data)["version"]
    return version


def test_a_newer_generation_is_taken_whole(site: Site, key: PrivateKey) -> None:
    """Card, extended card and tag change together, and the operator is told."""
    old = site.client.get(CARD).headers
    new = publish_cards(site.directory, key, _version(2), "staff")
    site.wait()

    answer = site.client.get(CARD)
    assert answer.data == new.card
    assert answer.headers["ETag"] != old["ETag"]
    assert answer.headers["Last-Modified"] == "Sat, 21 Nov 2026 12:00:01 GMT"
    extended = site.client.get("/extendedAgentCard", headers=site.bearer())
    assert extended.data == new.extended["staff"]
    assert site.log == ["serving generation 2"]


def test_a_newer_card_brings_its_own_paths_and_challenges(site: Site, key: PrivateKey) -> None:
    """They are the generation's, not the server's."""
    interface = {"url": "https://x.example/new", "protocolBinding": "JSONRPC"}
    schemes = {"quay": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    card = {
        **PUBLIC,
        "supportedInterfaces": [interface],
        "securitySchemes": schemes,
        "securityRequirements": [],
    }
    publish_cards(site.directory, key, card, "staff")
    site.wait()

    answer = site.client.get("/new/extendedAgentCard")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="quay"'
    assert site.client.get("/a2a/extendedAgentCard").status_code == 404


def test_a_withdrawn_card_is_gone_and_the_keys_stay(site: Site, key: PrivateKey) -> None:
    """So is its extended card, until both are published again."""
    withdrawn = publish_statements(None, site.directory, now=NOW, withdraws=True)
    assert withdrawn is not None
    site.wait()

    for path in (CARD, "/.well-known/agent.json", "/"):
        answer = site.client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 404, path
    assert site.client.get("/.well-known/jwks.json").data == withdrawn.jwks
    assert json.loads(site.client.get("/a2a/agents").data) == {"agents": [], "total": 0}
    assert site.client.get("/extendedAgentCard", headers=site.bearer()).status_code == 400
    assert site.log == ["serving generation 2"]

    publish_cards(site.directory, key, _version(2), "staff")
    site.wait()
    assert _served(site) == "2.0.0"
    assert site.client.get("/extendedAgentCard", headers=site.bearer()).status_code == 200


def _truncate_card(directory: Path) -> None:
    newest = max(directory.glob("0*"))
    (newest / "agent-card.json").write_bytes(b"{")


#: What is done to the directory, and what the operator is told.
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a damaged card": (_truncate_card, "serve.corrupt_generation"),
    "a damaged current": (lambda d: (d / "current").write_text("{"), "it is no JSON"),
    "no current any more": (lambda d: (d / "current").unlink(), "serve.no_generation"),
    "no directory any more": (shutil.rmtree, "serve.no_generation"),
    "a format of the future": (
        lambda d: (d / "current").write_text('{"format": 9}'),
        "serve.newer_format",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), SPOILT.values(), ids=SPOILT)
def test_whatever_is_wrong_with_a_newer_one_the_last_good_one_stays(
    site: Site, key: PrivateKey, spoil: Callable[[Path], object], words: str
) -> None:
    """The operator is told once, however often it is looked at."""
    publish_cards(site.directory, key, _version(2))
    spoil(site.directory)

    for _ in range(3):
        site.wait()
        assert _served(site) == "1.2.0"
    (line,) = site.log
    assert line.startswith("warning: still serving generation 1: ")
    assert words in line


def test_a_lower_generation_is_refused(site: Site, key: PrivateKey) -> None:
    """Going back would revive withdrawn cards and keys."""
    first = (site.directory / "current").read_bytes()
    publish_cards(site.directory, key, _version(2), "staff")
    site.wait()
    assert _served(site) == "2.0.0"

    (site.directory / "current").write_bytes(first)
    for _ in range(3):
        site.wait()
        assert _served(site) == "2.0.0"
    assert site.log[1:] == [
        "warning: still serving generation 2: generation 1 is lower and is refused"
    ]


def test_another_generation_of_the_same_number_is_refused(site: Site, key: PrivateKey) -> None:
    """Somebody removed the directory and published anew: a person must look at that."""
    shutil.rmtree(site.directory)
    publish_cards(site.directory, key, _version(9), "staff")
    site.wait()

    assert _served(site) == "1.2.0"
    assert site.log == ["warning: still serving generation 1: there is another generation 1 now"]


def test_a_token_never_opens_the_card_of_another_audience(site: Site, key: PrivateKey) -> None:
    """Its own card was withdrawn while the server ran, and the only one left is another's."""
    publish_cards(site.directory, key, _version(2), "crew")
    site.wait()
    answer = site.client.get("/extendedAgentCard", headers=site.bearer("staff"))

    assert answer.status_code == 400
    assert b"NOT_CONFIGURED" in answer.data
    problem = "there is no extended card for the audience of this caller"
    assert site.log == ["serving generation 2", f"warning: a caller of audience staff: {problem}"]
    assert _served(site) == "2.0.0"


def test_there_is_no_server_on_a_damaged_publication(tmp_path: Path, key: PrivateKey) -> None:
    """At the start a fault is a fault: nothing good is there to keep."""
    publish_cards(tmp_path / "pub", key, now=NOW)
    _truncate_card(tmp_path / "pub")
    with pytest.raises(ServeFault) as refused:
        serve(tmp_path / "pub")
    assert refused.value.code == "serve.corrupt_generation"
