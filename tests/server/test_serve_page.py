"""`GET /` for people: only who asks for HTML gets the page, made once for each generation."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cardsign.inspect import page
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.settings import ServerSettings
from cardsign.urls import CARD_PATH
from tests.publish.publications import NOW, PUBLIC, publish_cards, put_in_place, sign
from tests.server.served import look, serve

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_who_asks_for_html_gets_a_page(tmp_path: Path, key: PrivateKey) -> None:
    """With a tag, a policy that allows our style alone, and for HEAD no body."""
    publish_cards(tmp_path, key, PUBLIC)
    site = serve(tmp_path, now=NOW.timestamp)
    shown = site.get("/", headers=HTML)
    assert (shown.status_code, shown.mimetype) == (200, "text/html")
    assert "Tide tables" in shown.text
    assert shown.headers["Vary"] == "Accept"
    policy = shown.headers["Content-Security-Policy"]
    style = re.search("<style>(.*)</style>", shown.text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    held = site.get("/", headers={**HTML, "If-None-Match": shown.headers["ETag"]})
    assert (held.status_code, held.data) == (304, b"")
    assert site.head("/", headers=HTML).data == b""


def test_a_statement_that_cannot_be_read_leaves_the_page_of_the_card(
    tmp_path: Path, key: PrivateKey, log: list[str]
) -> None:
    """Whoever can write the publication may have put it there."""
    generation = publish_cards(tmp_path, key, PUBLIC)
    files = {**generation.files, "keyset/1.1.json": b"{}"}
    (tmp_path / generation.folder / "keyset").mkdir()
    put_in_place(tmp_path, replace(generation, files=files))
    shown = serve(tmp_path, now=NOW.timestamp).get("/", headers=HTML)
    assert (shown.status_code, "Tide tables" in shown.text) == (200, True)
    assert any("the page leaves the statements out" in line for line in log)


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {}), ("GET", {"Accept": "application/json"}), ("POST", HTML)],
    ids=["says nothing", "asks for JSON", "posts"],
)
def test_who_does_not_gets_what_was_there_before(
    tmp_path: Path, key: PrivateKey, method: str, headers: dict[str, str]
) -> None:
    """Nothing."""
    publish_cards(tmp_path, key, PUBLIC)
    answer = serve(tmp_path).open("/", method=method, headers=headers)
    assert answer.status_code == 404
    assert answer.mimetype == "application/json"


def test_it_is_kept_no_longer_than_statements(tmp_path: Path, key: PrivateKey) -> None:
    """However long the card is."""
    documents = Documents(sign(PUBLIC, key), JwkSet.of([key.public]), max_age=86_400)
    publish_generation(documents, tmp_path, now=NOW)
    site = serve(tmp_path, now=NOW.timestamp)
    assert site.get("/", headers=HTML).headers["Cache-Control"] == "public, max-age=300"
    assert site.get(CARD_PATH).headers["Cache-Control"] == "public, max-age=86400"


def test_it_can_be_switched_off(tmp_path: Path, key: PrivateKey) -> None:
    """`page = false`."""
    publish_cards(tmp_path, key, PUBLIC)
    site = serve(tmp_path, ServerSettings(page=False))
    assert site.get("/", headers=HTML).status_code == 404


def test_it_follows_generations_and_is_made_once_for_each(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is asked for."""
    made = []
    real = page.card_page
    monkeypatch.setattr(page, "card_page", lambda *a, **k: made.append(1) or real(*a, **k))
    publish_cards(tmp_path, key, PUBLIC)
    site = serve(tmp_path, now=NOW.timestamp)
    old = site.get("/", headers=HTML)
    assert site.get("/", headers=HTML).data == old.data
    assert len(made) == 1
    publish_cards(tmp_path, key, {**PUBLIC, "version": "9.9.9"})
    look(site)
    new = site.get("/", headers=HTML)
    assert "version 9.9.9" in new.text
    assert new.headers["ETag"] != old.headers["ETag"]
    assert len(made) == 2


def test_each_agent_has_its_own(tmp_path: Path, key: PrivateKey) -> None:
    """Below its path; the root has one only where it is clear whose."""
    for name in ("tides", "waves"):
        publish_cards(tmp_path / name, key, {**PUBLIC, "name": f"The {name}"})
    site = serve(tmp_path, now=NOW.timestamp)
    assert "The waves" in site.get("/agents/waves/", headers=HTML).text
    assert site.get("/", headers=HTML).status_code == 404
    rooted = serve(tmp_path, ServerSettings(root="tides"))
    assert "The tides" in rooted.get("/", headers=HTML).text
