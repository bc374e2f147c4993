"""The public files of a generation for hosts that serve files."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from cardsign import verify_card
from cardsign.errors import FileFault, UsageFault
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.generation import Generation, export_files, public_files
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.app import create_app
from tests.publish.publications import NOW, PUBLIC, failing_after, publish_cards, sign, with_skill


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.fixture
def generation(tmp_path: Path, key: PrivateKey) -> Generation:
    """A card with an extended one."""
    return publish_cards(tmp_path / "pub", key, PUBLIC, "staff")


def static_headers(text: str) -> dict[str, dict[str, str]]:
    """The headers that a `_headers` file gives to each path."""
    found: dict[str, dict[str, str]] = {}
    path = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            path = line
            found[path] = {}
        else:
            name, _, value = line.strip().partition(": ")
            found[path][name] = value
    return found


def test_every_public_path_of_the_server_is_a_file(generation: Generation, tmp_path: Path) -> None:
    """With the same bytes, and the same headers but those that the host makes itself."""
    export_files(generation, tmp_path / "out")
    paths = tuple(public_files(generation))
    site = tmp_path / "out" / "site"
    told = static_headers((site / "_headers").read_text())
    client = create_app(tmp_path / "pub").test_client()
    assert set(told) == set(paths)
    assert "/.well-known/agent-card.json" in paths
    for path in paths:
        answer = client.get(path)
        assert (site / path[1:]).read_bytes() == answer.data
        own = {"Content-Length", "ETag", "Last-Modified", "Date"}
        assert told[path] == {k: v for k, v in answer.headers.items() if k not in own}


def test_no_extended_card_leaves(generation: Generation, tmp_path: Path) -> None:
    """Not in the site, and not beside it."""
    export_files(generation, tmp_path / "out")
    marker = b'"id":"staff"'
    assert marker in generation.extended["staff"].replace(b" ", b"")
    for file in (tmp_path / "out").rglob("*"):
        assert "extended" not in file.name
        assert file.is_dir() or marker not in file.read_bytes().replace(b" ", b"")


def test_nginx_is_told_the_same(generation: Generation, tmp_path: Path) -> None:
    """And caches keep no answer that a statement is not there."""
    export_files(generation, tmp_path / "out")
    paths = tuple(public_files(generation))
    told = static_headers((tmp_path / "out/site/_headers").read_text())
    nginx = (tmp_path / "out/nginx.conf").read_text()
    for path in paths:
        block = nginx.partition(f"location = {path} {{")[2].partition("}\nlocation")[0]
        assert f"add_header Cache-Control '{told[path]['Cache-Control']}'" in block
    assert 'add_header Cache-Control "no-store" always;' in nginx


def test_files_of_others_stay(generation: Generation, tmp_path: Path) -> None:
    """An export replaces its own files alone."""
    out = tmp_path / "out"
    export_files(generation, out)
    (out / "site/index.html").write_text("ours")
    export_files(generation, out)
    assert (out / "site/index.html").read_text() == "ours"


@pytest.mark.parametrize(
    "name", ["nginx.conf", "site", "site/_headers", "site/.well-known/agent-card.json"]
)
def test_no_export_goes_through_a_link(generation: Generation, tmp_path: Path, name: str) -> None:
    """Somebody else's clone may have planted one; the typed directory itself may be a link."""
    (tmp_path / "real").mkdir()
    out, target = tmp_path / "out", tmp_path / "target"
    out.symlink_to("real")
    export_files(generation, out)
    place = out / name
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    target.mkdir() if name == "site" else target.write_text("precious")
    place.symlink_to(target)
    with pytest.raises(FileFault, match=r"file\.not_plain"):
        export_files(generation, out)
    assert not list(target.iterdir()) if name == "site" else target.read_text() == "precious"


def test_the_same_export_is_the_same_bytes(generation: Generation, tmp_path: Path) -> None:
    """So that an upload finds nothing to do."""
    trees = []
    for name in ("a", "b"):
        export_files(generation, tmp_path / name)
        files = [one for one in sorted((tmp_path / name).rglob("*")) if one.is_file()]
        trees.append({str(one.relative_to(tmp_path / name)): one.read_bytes() for one in files})
    assert trees[0] == trees[1]


@pytest.mark.parametrize("operations", range(6))
def test_a_host_that_fails_in_the_middle_serves_a_card_that_verifies(
    operations: int, generation: Generation, tmp_path: Path, key: PrivateKey
) -> None:
    """While keys change hands, as a new card by a new key is exported; a new try mends it."""
    out, successor = tmp_path / "out", PrivateKey.generate("ES256")
    export_files(generation, out)
    both, only = JwkSet.of([key.public, successor.public]), JwkSet.of([successor.public])
    new = sign(with_skill(PUBLIC, "new"), successor)
    for step in (Documents(new, both), Documents(new, only)):
        following = publish_generation(step, tmp_path / "keys", now=NOW)
        with failing_after(operations), suppress(FileFault):
            export_files(following, out)
        card, keys = (out / "site/.well-known" / name for name in ("agent-card.json", "jwks.json"))
        assert verify_card(card.read_bytes(), jwks=json.loads(keys.read_bytes()))
        export_files(following, out)
        assert (card.read_bytes(), keys.read_bytes()) == (following.card, following.jwks)


def test_a_publication_directory_is_refused(generation: Generation, tmp_path: Path) -> None:
    """It holds the extended cards, and must not become the root of a host."""
    with pytest.raises(UsageFault, match="extended cards"):
        export_files(generation, tmp_path / "pub")
