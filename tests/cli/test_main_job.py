"""What commands do that no story can say: a server, a full disk, a closed stream, an option."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from cardsign.cli import frame
from cardsign.errors import PassphraseFault
from cardsign.keys.store import FolderStore
from cardsign.server.settings import read_server_settings
from tests.cli.conftest import Cardsign, run


def test_serve_says_where_it_serves(cardsign: Cardsign, signed: Path) -> None:
    """On stdout as JSON for a program that started it; a real server on a free port."""
    assert cardsign("publish", signed, "-o", "pub").status == 0
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--bind", "127.0.0.1:0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        card = httpx.get(f"{said['url']}/.well-known/agent-card.json", trust_env=False)
        assert card.content == signed.read_bytes()
        verdict = cardsign("verify", said["url"], "--jwks", "jwks.json", "--insecure-loopback-http")
        assert verdict.status == 0
        assert cardsign("verify", said["url"], "--jwks", "jwks.json").status == 3
    finally:
        server.terminate()
        assert server.wait(timeout=120) == 0
        server.stdout.close()


def test_a_publication_that_cannot_be_recorded_says_so(
    cardsign: Cardsign, keystore: FolderStore, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is out; to publish the same again records it."""

    def full(*arguments: object, **named: object) -> None:
        raise PassphraseFault("file.unwritable", "the operating system says: no space left")

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "commit", full)
        ended = cardsign("publish", "signed.json", "-o", "public")
    assert (ended.status, "is published, but not on record" in ended.err) == (2, True)
    assert keystore.load().publications == ()

    run(cardsign("publish", "signed.json", "-o", "public"))
    assert len(keystore.load().publications) == 1


def test_a_closed_stdout_is_told_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is opened next would take its place."""
    done: list[int] = []
    assert frame.run(lambda: done.append(1)) == 0
    monkeypatch.setattr("sys.stdout", None)

    assert frame.run(lambda: done.append(2)) == 2
    assert done == [1]


@pytest.mark.parametrize(
    ("option", "wanted"),
    [((), {}), (("--token-file", "named"), {"token_file": Path("named")})],
    ids=["none", "tokens"],
)
def test_what_serve_is_told_comes_before_its_settings(
    cardsign: Cardsign,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    wanted: dict[str, Any],
) -> None:
    """What it is not told stays as the file says it."""
    text = 'format = 1\nworkers = 3\ntoken_file = "tokens"\n'
    Path("serve.toml").write_text(text)
    seen: list[Any] = []
    monkeypatch.setattr("cardsign.server.run.serve", lambda *given, **_: seen.extend(given))
    run(cardsign("serve", "pub", "--settings", "serve.toml", "--bind", "[::1]:8443", *option))
    read = read_server_settings(Path("serve.toml"))
    where, read_settings, bind = seen
    assert (where, bind) == (Path("pub"), "[::1]:8443")
    assert read_settings() == read.model_copy(update=wanted)
