"""What commands do besides the library: where keys are found, streams, tokens, statuses."""

from __future__ import annotations

import json
import os
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
from tests.cli.conftest import PASSPHRASE, Cardsign, run


def test_the_environment_beats_cardsign_toml_and_the_option_beats_both(
    cardsign: Cardsign, keystore: FolderStore
) -> None:
    """--keystore, then CARDSIGN_KEYSTORE, then cardsign.toml, then ./keys."""
    Path("cardsign.toml").write_text('format = 1\nkeystore = "absent"\n')
    here = str(keystore.path)
    assert cardsign("keys", "list").status == 2
    assert cardsign("keys", "list", CARDSIGN_KEYSTORE=here).status == 0
    assert cardsign("keys", "list", "--keystore", "other", CARDSIGN_KEYSTORE=here).status == 2
    Path("cardsign.toml").unlink()
    assert cardsign("keys", "list").status == 0


def test_sign_reads_and_writes_pipes(cardsign: Cardsign, signed: Path) -> None:
    """`-` at both ends, the passphrase by a descriptor; what is said goes to stderr."""
    Path("secret").write_text(f"{PASSPHRASE}\n")
    Path("secret").chmod(0o600)
    descriptor = os.open("secret", os.O_RDONLY)
    words = ("sign", "-", "--passphrase-file", f"/dev/fd/{descriptor}")
    done = cardsign(*words, stdin=Path("card.json").read_bytes(), CARDSIGN_PASSPHRASE=None)
    os.close(descriptor)
    assert (done.status, done.out) == (0, signed.read_bytes())
    assert "signed - with" in done.err


STATUSES = {
    "one of them unsigned": (["signed.json", "card.json"], 1),
    "unsigned and not to be had": (["card.json", "absent.json"], 2),
    "one of them a forbidden URL": (["signed.json", "https://user@tides.example/"], 3),
    "unsigned and a forbidden URL": (["card.json", "https://user@tides.example/"], 1),
}


@pytest.mark.parametrize(("cards", "status"), STATUSES.values(), ids=STATUSES)
def test_of_several_cards_the_weightiest_status_counts(
    cardsign: Cardsign, signed: Path, cards: list[str], status: int
) -> None:
    """2 beats 1 beats 3 beats 0, and no failure hides another card's verdict."""
    ended = cardsign("verify", *cards, "--jwks", "jwks.json", "--json")
    assert ended.status == status
    said = [json.loads(line) for line in ended.text.splitlines()]
    assert [one["input"] for one in said] == [card.replace("user@", "...@") for card in cards]
    assert ["error" in one for one in said] == [card == "absent.json" for card in cards]


def test_serve_says_where_it_serves(cardsign: Cardsign, signed: Path) -> None:
    """On stdout as JSON for a program that started it; a real server on a free port."""
    assert cardsign("publish", signed, "-o", "pub").status == 0
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--bind", "127.0.0.1:0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        assert said["generation"] == 1
        card = httpx.get(f"{said['url']}/.well-known/agent-card.json", trust_env=False)
        assert card.content == signed.read_bytes()
        verdict = cardsign("verify", said["url"], "--jwks", "jwks.json", "--insecure-loopback-http")
        assert verdict.status == 0
        assert cardsign("verify", said["url"], "--jwks", "jwks.json").status == 3
    finally:
        server.terminate()
        assert server.wait(timeout=120) == 0
        server.stdout.close()


def test_settings_go_through_no_link_of_the_folder(cardsign: Cardsign, tmp_path: Path) -> None:
    """Not even through one that leads nowhere yet."""
    outside = tmp_path / "outside.toml"
    Path("cardsign.toml").symlink_to(outside)
    refused = cardsign("init", "--issuer", "https://tides.example")
    assert (refused.status, "file.exists" in refused.err) == (2, True)
    assert not outside.exists()
    assert not (tmp_path / "keys").exists()


def test_a_publication_that_cannot_be_recorded_says_so(
    cardsign: Cardsign, keystore: FolderStore, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is out; to publish the same again records it."""

    def full(*arguments: object, **named: object) -> None:
        raise PassphraseFault("file.unwritable", "the operating system says: no space left")

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "apply", full)
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
