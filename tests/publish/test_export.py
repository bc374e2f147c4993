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

KEY, SUCCESSOR = (PrivateKey.generate("ES256") for _ in range(2))


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    """A card with an extended one."""
    return publish_cards(tmp_path / "pub", KEY, PUBLIC, "staff")


@pytest.fixture
def out(generation: Generation, tmp_path: Path) -> Path:
    """The folder of an export."""
    export_files(generation, tmp_path / "out")
    return tmp_path / "out"


def headers_of(text: str) -> dict[str, dict[str, str]]:
    """The headers that a `_headers` file gives to each path."""
    headers, path = dict[str, dict[str, str]](), ""
    for line in text.splitlines():
        if line.startswith(" "):
            name, _, value = line.strip().partition(": ")
            headers[path][name] = value
        else:
            path = line
            headers[path] = {}
    return headers


def test_every_public_path_of_the_server_is_a_file(out: Path, generation: Generation) -> None:
    """With the same bytes and headers but those that the host makes itself; nginx is told, too."""
    paths = tuple(public_files(generation))
    site, nginx = out / "site", (out / "nginx.conf").read_text()
    headers = headers_of((site / "_headers").read_text())
    client = create_app(out.parent / "pub").test_client()
    assert set(headers) == set(paths)
    assert "/.well-known/agent-card.json" in paths
    for path in paths:
        answer = client.get(path)
        assert (site / path[1:]).read_bytes() == answer.data
        own = {"Content-Length", "ETag", "Last-Modified", "Date"}
        assert headers[path] == {k: v for k, v in answer.headers.items() if k not in own}
        block = nginx.partition(f"location = {path} {{")[2].partition("}\nlocation")[0]
        assert f"add_header Cache-Control '{headers[path]['Cache-Control']}'" in block
    # Caches keep no answer that a statement is not there.
    assert 'add_header Cache-Control "no-store" always;' in nginx


def test_no_extended_card_leaves(out: Path, generation: Generation) -> None:
    """Not in the site, and not beside it."""
    marker = b'"id":"staff"'
    assert marker in generation.extended["staff"].replace(b" ", b"")
    for file in out.rglob("*"):
        assert "extended" not in file.name
        assert file.is_dir() or marker not in file.read_bytes().replace(b" ", b"")


def test_an_export_replaces_its_own_files_alone(out: Path, generation: Generation) -> None:
    """With the same bytes, so that an upload finds nothing to do."""
    (out / "site/index.html").write_text("ours")
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    export_files(generation, out)
    assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "name", ["nginx.conf", "site", "site/_headers", "site/.well-known/agent-card.json"]
)
def test_no_export_goes_through_a_link(out: Path, generation: Generation, name: str) -> None:
    """Somebody else's clone may have planted one; the typed directory itself may be a link."""
    out.rename(out.with_name("real"))
    out.symlink_to("real")
    export_files(generation, out)
    place, target = out / name, out.with_name("target")
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    target.mkdir() if name == "site" else target.write_text("precious")
    place.symlink_to(target)
    with pytest.raises(FileFault, match=r"file\.not_plain"):
        export_files(generation, out)
    assert not list(target.iterdir()) if name == "site" else target.read_text() == "precious"


@pytest.mark.parametrize("operations", range(6))
def test_a_host_that_fails_in_the_middle_serves_a_card_that_verifies(
    operations: int, out: Path, tmp_path: Path
) -> None:
    """While keys change hands, as a new card by a new key is exported; a new try mends it."""
    both, only = JwkSet.of([KEY.public, SUCCESSOR.public]), JwkSet.of([SUCCESSOR.public])
    new = sign(with_skill(PUBLIC, "new"), SUCCESSOR)
    for step in (Documents(new, both), Documents(new, only)):
        following = publish_generation(step, tmp_path / "keys", now=NOW)
        with failing_after(operations, "replace", "rename"), suppress(FileFault):
            export_files(following, out)
        card, keys = (out / "site/.well-known" / name for name in ("agent-card.json", "jwks.json"))
        assert verify_card(card.read_bytes(), jwks=json.loads(keys.read_bytes()))
        export_files(following, out)
        assert (card.read_bytes(), keys.read_bytes()) == (following.card, following.jwks)


def test_a_publication_directory_is_refused(generation: Generation, tmp_path: Path) -> None:
    """It holds the extended cards, and must not become the root of a host."""
    with pytest.raises(UsageFault, match="extended cards"):
        export_files(generation, tmp_path / "pub")
