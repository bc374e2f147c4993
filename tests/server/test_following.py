"""What is taken up from disk while a server runs, and what is refused: the last good state stays.

What is answered then is in `exchanges/following.txt` and `exchanges/host.txt`.
"""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import ServeFault
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.page import card_page
from cardsign.publish.generation import load_current
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.settings import ProviderSettings, ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW, PUBLIC, publish_cards, put_in_place, sign
from tests.server.served import Site, look, publications_of, serve

CARD = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
MTLS = ServerSettings(providers=(ProviderSettings(type="mtls", opens="staff"),))
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def version_of(site: Site) -> str:
    version: str = json.loads(site.client.get(CARD).data)["version"]
    return version


def truncate_card(directory: Path) -> None:
    (max(directory.glob("0*")) / "agent-card.json").write_bytes(b"{")


def publish_anew(directory: Path) -> None:
    """Somebody removed the directory, and so begins with the first number again."""
    shutil.rmtree(directory)
    publish_cards(directory, PrivateKey.generate("ES256"))


def put(directory: Path, name: str, body: bytes) -> None:
    """Put this in the place of a published file; publishing makes no such thing."""
    newest = load_current(directory)
    (directory / newest.folder / name).parent.mkdir(exist_ok=True)
    put_in_place(directory, replace(newest, files={**newest.files, name: body}))


EXTENDED, UNMARKED = "extended/staff.json", b'{"name":"x","capabilities":{}}'


def go_back(directory: Path) -> None:
    """Put the first generation in place again, which would revive withdrawn cards and keys."""
    shutil.copy(directory.parent / "first", directory / "current")


#: What is done to the directory, and what the operator is told.
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a damaged card": (truncate_card, "serve.corrupt_generation"),
    "no directory any more": (shutil.rmtree, "serve.no_generation"),
    "an earlier generation": (go_back, "generation 1 is not newer, and is refused"),
    "one that begins anew, and is not later": (publish_anew, "generation 1 is not newer"),
    "an extended card that is none": (lambda d: put(d, EXTENDED, b"{"), ""),
    "an extended card without marker": (lambda d: put(d, EXTENDED, UNMARKED), ""),
}


@pytest.mark.parametrize(("spoil", "words"), SPOILT.values(), ids=SPOILT)
def test_whatever_is_wrong_with_a_newer_one_the_last_good_one_stays(
    site: Site, key: PrivateKey, spoil: Callable[[Path], object], words: str
) -> None:
    """The operator is told once, however often it is looked at."""
    shutil.copy(site.directory / "current", site.directory.parent / "first")
    publish_cards(site.directory, key, {**PUBLIC, "version": "2.0.0"}, "staff")
    look(site.client)
    publish_cards(site.directory, key, {**PUBLIC, "version": "3.0.0"}, "staff")
    spoil(site.directory)
    for _ in range(3):
        look(site.client)
        assert version_of(site) == "2.0.0"
    (line,) = site.log
    assert line.startswith("warning: still serving generation 2: ")
    assert words in line
    assert site.client.get("/extendedAgentCard", headers=site.bearer()).status_code == 200


def test_other_settings_take_over_what_is_served(site: Site, key: PrivateKey) -> None:
    """They revive nothing, and lose nothing of which the files are broken now."""
    first = (site.directory / "current").read_bytes()
    publish_cards(site.directory, key, {**PUBLIC, "version": "2.0.0"}, "staff")
    look(site.client)
    served = publications_of(site.client)
    (site.directory / "current").write_bytes(first)
    settings = site.settings.model_copy(update={"legacy": False})
    newer = Publications(site.directory, settings, now=served.now, previous=served)
    (site.directory / "current").unlink()
    newer = Publications(site.directory, settings, now=served.now, previous=newer)
    assert newer.site.agents[""].generation.number == 2
    assert LEGACY not in newer.site.documents
    assert [line.split(": ")[1] for line in site.log] == ["still serving generation 2"] * 2
    with pytest.raises(ServeFault, match="and no provider accepts that"):
        Publications(site.directory, MTLS, now=served.now, previous=newer)
    disabled = site.settings.model_copy(update={"enabled": False})
    newer = Publications(site.directory, disabled, now=served.now, previous=newer)
    assert newer.site.agents == {}


def test_a_publication_that_begins_anew_is_served_if_it_is_later(
    site: Site, key: PrivateKey
) -> None:
    """As from a pipeline, whose folder is empty each time; the key of before may be stolen."""
    for version in ("2.0.0", "3.0.0"):
        publish_cards(site.directory, key, {**PUBLIC, "version": version}, "staff")
    look(site.client)
    shutil.rmtree(site.directory)
    card = {**PUBLIC, "version": "4.0.0"}
    later = NOW + timedelta(days=1)
    publish_cards(site.directory, PrivateKey.generate("ES256"), card, "staff", now=later)
    look(site.client)
    assert version_of(site) == "4.0.0"
    assert site.log == []
    for _ in range(2):  # of an earlier time again, under a higher number
        publish_cards(site.directory, key, {**PUBLIC, "version": "5.0.0"}, "staff")
    current = json.loads((site.directory / "current").read_bytes())
    early = json.dumps({**current, "published_at": "2026-11-21T12:00:01Z"})
    (site.directory / "current").write_text(early)
    look(site.client)
    assert version_of(site) == "4.0.0"


def test_there_is_no_server_on_a_damaged_publication(site: Site) -> None:
    """At the start a fault is a fault: nothing good is there to keep."""
    card = json.loads(site.generation.card) | {"securityRequirements": ["harbour"]}
    put(site.directory, "agent-card.json", json.dumps(card).encode())
    with pytest.raises(ServeFault, match="public card cannot be read") as refused:
        serve(site.directory, site.settings)  # nobody could say who may have the extended card
    assert refused.value.code == "serve.schemes"
    truncate_card(site.directory)
    with pytest.raises(ServeFault, match=r"serve\.corrupt_generation"):
        serve(site.directory)
    for name in ("empty", "no-such-folder"):
        with pytest.raises(ServeFault, match=r"serve\.no_generation"):
            serve(site.directory / name)


def test_agents_come_and_go_and_harm_no_other(
    tmp_path: Path, key: PrivateKey, log: list[str]
) -> None:
    """Without a restart. While their folder cannot be read, those that were there stay."""
    folder = tmp_path / "all"
    for name in ("surf", "tides"):
        publish_cards(folder / name, key, {**PUBLIC, "name": name})
    truncate_card(folder / "surf")
    client = serve(folder, now=NOW.timestamp)

    def served() -> dict[str, str]:
        look(client)
        agents = publications_of(client).site.agents
        cards = {name: client.get(f"/agents/{name}{CARD}").json for name in agents}
        return {name: card["name"] for name, card in cards.items() if card}

    assert served() == {"tides": "tides"}
    (line,) = (line for line in log if "surf" in line)
    assert line.startswith("warning: agent surf: not served: serve.corrupt_generation")
    assert client.get(f"/agents/surf{CARD}").status_code == 404
    shutil.rmtree(folder / "surf")
    publish_cards(folder / "waves", key, {**PUBLIC, "name": "waves"})
    assert client.get(f"/agents/waves{CARD}").status_code == 404  # until it is looked at
    assert served() == {"tides": "tides", "waves": "waves"}
    folder.rename(tmp_path / "away")
    for _ in range(3):
        assert served() == {"tides": "tides", "waves": "waves"}
    assert len([line for line in log if "still serving the agents" in line]) == 1
    (tmp_path / "away").rename(folder)
    publish_cards(folder / "tides", key, PUBLIC, "staff", now=NOW + timedelta(days=1))
    look(client)
    with pytest.raises(ServeFault, match="agent tides: the public card demands"):
        Publications(folder, MTLS, previous=publications_of(client))
    shutil.rmtree(folder / "tides")
    assert served() == {"waves": "waves"}
    assert client.get(f"/agents/tides{CARD}").status_code == 404
    assert client.get(CARD).json == client.get(f"/agents/waves{CARD}").json


# ------------------------------------------------------------------ the page for people


def test_a_page_allows_its_own_style_alone(site: Site) -> None:
    """No script, nothing of other hosts."""
    shown = site.client.get("/", headers=HTML)
    policy = shown.headers["Content-Security-Policy"]
    style = re.search("<style>(.*)</style>", shown.text, re.DOTALL)
    assert style is not None
    assert f"style-src 'sha256-{b64encode(sha256(style[1].encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_statement_that_cannot_be_read_leaves_the_page_of_the_card(site: Site) -> None:
    """Whoever can write the publication may have put it there."""
    put(site.directory, "keyset/1.1.json", b"{}")
    shown = serve(site.directory, now=NOW.timestamp).get("/", headers=HTML)
    assert (shown.status_code, "Tide tables" in shown.text) == (200, True)
    assert any("the page leaves the statements out" in line for line in site.log)


def test_a_page_is_made_once_and_kept_no_longer_than_statements(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is asked for, until its verdict ends; each generation has its own."""
    made, real, ahead = [], card_page, [0.0]

    def count(*args: Any, **options: Any) -> Any:
        made.append(1)
        return real(*args, **options)[0], NOW + timedelta(seconds=400 * len(made))

    monkeypatch.setattr("cardsign.server.site.card_page", count)
    documents = Documents(sign(PUBLIC, key), JwkSet.of([key.public]), max_age=86_400)
    publish_generation(documents, tmp_path, now=NOW)
    client = serve(tmp_path, now=lambda: NOW.timestamp() + ahead[0])
    for ahead[0], times in ((0, 1), (399, 1), (400, 2)):
        answer = client.get("/", headers=HTML)
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert len(made) == times
    assert client.get(CARD).headers["Cache-Control"] == "public, max-age=86400"
    publish_cards(tmp_path, key, {**PUBLIC, "version": "9.9.9"})
    look(client)
    assert client.get("/", headers=HTML).headers["ETag"] != answer.headers["ETag"]
    assert len(made) == 3
