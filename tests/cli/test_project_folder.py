"""What a cloned folder says is a stranger's word: no path of it leads out of the folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign
from tests.support import PORTABLE

pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def prod(cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's own project, whose card is published; the working directory is a clone beside."""
    home = tmp_path / "prod"
    home.mkdir()
    monkeypatch.chdir(home)
    Path("card.json").write_text(json.dumps(PORTABLE))
    for command in (
        ("keys", "generate"),
        ("sign", "card.json", "-o", "signed.json"),
        ("publish", "signed.json"),
    ):
        settings(issuer="https://prod.example", keystore="keys", publish="public")
        assert cardsign(*command).status == 0
    clone = tmp_path / "clone"
    clone.mkdir()
    monkeypatch.chdir(clone)
    Path("card.json").write_text(json.dumps({**PORTABLE, "name": "the stranger's"}))
    return home


def settings(**members: str) -> None:
    """A `cardsign.toml` in the working directory."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in members.items()]
    Path("cardsign.toml").write_text("\n".join(["format = 1", *lines]) + "\n")


def allow(*folders: Path) -> None:
    """The user's own file."""
    file = Path(os.environ["HOME"], ".config/cardsign/signers.toml")
    file.parent.mkdir(parents=True)
    file.write_text(f"format = 1\nfolders = {json.dumps(list(map(str, folders)))}\n")
    file.chmod(0o600)


def link_a_store() -> None:
    """`store` is a symbolic link to the user's key store."""
    Path("store").symlink_to("../prod/keys")
    settings(keystore="store")


def link_the_default() -> None:
    """`keys` is one, and no settings are needed."""
    Path("keys").symlink_to("../prod/keys")


def name_a_detour() -> None:
    """The path begins inside."""
    Path("inside").mkdir()
    settings(keystore="inside/../../prod/keys")


STORES = {
    "by a relative path": lambda: settings(keystore="../prod/keys"),
    "by a detour": name_a_detour,
    "by an absolute path": lambda: settings(keystore=str(Path("../prod/keys").resolve())),
    "by a link that is named": link_a_store,
    "by a link that is the default": link_the_default,
}


@pytest.mark.parametrize("name_it", STORES.values(), ids=STORES)
def test_a_clone_cannot_have_its_card_signed_by_another_projects_keys(
    prod: Path, cardsign: Cardsign, name_it: Callable[[], None]
) -> None:
    """A stranger's card with the keys of production; unless the user's own file allows it."""
    name_it()
    sign = ("sign", "card.json", "-o", "signed.json")
    ended = cardsign(*sign)
    assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
    assert not Path("signed.json").exists()
    allow(prod)  # and with it what lies below
    allowed = cardsign(*sign)
    assert allowed.status == 0, allowed.err


@pytest.mark.parametrize("path", ["keys", "keys/private"])
def test_init_makes_no_keys_where_a_planted_link_leads(
    prod: Path, cardsign: Cardsign, path: str
) -> None:
    """As every other command refuses it; a folder that is typed is the user's own word."""
    Path(path).parent.mkdir(exist_ok=True)
    elsewhere = prod.parent / "elsewhere"
    elsewhere.mkdir()
    Path(path).symlink_to(elsewhere)
    init = ("init", "--issuer", "https://a.example", "--recovery-out", "recovery.key")
    ended = cardsign(*init)
    assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
    assert not Path("cardsign.toml").exists()
    assert not list(elsewhere.iterdir())
    assert cardsign(*init, "--keystore", "own").status == 0


def test_a_folder_that_is_allowed_allows_no_other(prod: Path, cardsign: Cardsign) -> None:
    """Nor does a name that only begins like it."""
    settings(keystore="../prod/keys")
    allow(prod.parent / "pro", prod / "keys" / "private")
    assert "config.not_allowed" in cardsign("keys", "list").err


def test_a_tilde_is_a_name_like_any_other(prod: Path, cardsign: Cardsign) -> None:
    """The user's home is not meant by it."""
    shutil.copytree(prod / "keys", Path(os.environ["HOME"]) / "keys")
    settings(keystore="~/keys")
    ended = cardsign("sign", "card.json", "-o", "signed.json")
    assert (ended.status, "keystore.missing" in ended.err) == (2, True)


@pytest.mark.parametrize("path", ["keys", "./keys", "a/../keys", "linked"])
def test_a_path_that_stays_inside_is_followed(prod: Path, cardsign: Cardsign, path: str) -> None:
    """The honest twin: also by a link, if it stays in the folder."""
    shutil.copytree(prod / "keys", "keys")
    Path("a").mkdir()
    Path("linked").symlink_to("keys")
    settings(keystore=path, publish="public")
    for command in (("sign", "card.json", "-o", "signed.json"), ("publish", "signed.json")):
        ended = cardsign(*command)
        assert ended.status == 0, ended.err
    assert Path("public/current").exists()


def test_what_is_typed_is_the_users_own_word(
    prod: Path, cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option or the variable may name any key store."""
    link_the_default()
    named = ("--keystore", "../prod/keys")
    assert cardsign("sign", "card.json", "-o", "signed.json", *named).status == 0
    assert cardsign("keys", "list", CARDSIGN_KEYSTORE="../prod/keys").status == 0


@pytest.mark.parametrize("path", ["../prod/public", "{absolute}", "there", "there/public"])
def test_a_clone_cannot_publish_into_another_project(
    prod: Path, cardsign: Cardsign, path: str
) -> None:
    """Without a passphrase, the stranger's card and key set became production's."""
    before = (prod / "public/current").read_bytes()
    Path("there").symlink_to("../prod/public" if path == "there" else "../prod")
    assert cardsign("keys", "generate").status == 0
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    settings(publish=path.format(absolute=prod / "public"))
    ended = cardsign("publish", "signed.json")
    assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
    assert (prod / "public/current").read_bytes() == before


@pytest.mark.parametrize("name", ["card.json", "signed.json", "signed.0.3.json", "skills"])
def test_no_pipe_in_a_clone_is_waited_for(cardsign: Cardsign, name: str) -> None:
    """Nobody would write into it; git has none, and an archive may."""
    source = 'build = ["skills"]' if name == "skills" else 'source = "card.json"'
    table = f'[[card]]\n{source}\nsigned = "signed.json"\nlegacy = "0.3"\n'
    Path("cardsign.toml").write_text(f"format = 1\n{table}")
    assert "a device or pipe" not in cardsign("config", "check").err
    os.mkfifo(name)
    ended = cardsign("config", "check")
    assert (ended.status, "config.malformed" in ended.err) == (2, True)
    assert "a device or pipe" in ended.err


def test_a_publication_directory_takes_no_other_key_store(prod: Path, cardsign: Cardsign) -> None:
    """Even where the user names it: it remembers whose cards it holds."""
    before = (prod / "public/current").read_bytes()
    assert cardsign("keys", "generate").status == 0
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    ended = cardsign("publish", "signed.json", "-o", "../prod/public")
    assert (ended.status, "publish.other_publisher" in ended.err) == (2, True)
    assert (prod / "public/current").read_bytes() == before
    assert cardsign("publish", "signed.json", "-o", "public").status == 0


def test_a_publication_directory_takes_no_other_issuer(prod: Path, cardsign: Cardsign) -> None:
    """One key store may serve two issuers, each of which has a directory of its own."""
    settings(issuer="https://other.example")
    keys = ("--keystore", "../prod/keys")
    assert cardsign("sign", "card.json", "-o", "signed.json", *keys).status == 0
    ended = cardsign("publish", "signed.json", "-o", "../prod/public", *keys)
    assert (ended.status, "publish.other_publisher" in ended.err) == (2, True)
    assert "https://prod.example" in ended.err
    for same in ({"issuer": "https://prod.example"}, {}):  # none is no other one
        settings(**same)
        assert cardsign("publish", "signed.json", "-o", "../prod/public", *keys).status == 0


def test_statements_enter_no_publication_of_another_key_store(
    prod: Path, cardsign: Cardsign
) -> None:
    """Not even where no statements are published yet, which they would have to follow."""
    before = (prod / "public/current").read_bytes()
    made = cardsign("init", "--issuer", "https://other.example", "--recovery-out", "recovery.key")
    assert made.status == 0, made.err
    ended = cardsign("release", "renew", "--force", "--publication", "../prod/public")
    assert (ended.status, "publish.other_publisher" in ended.err) == (2, True)
    assert (prod / "public/current").read_bytes() == before


def test_init_says_what_has_to_be_allowed(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key store outside of the folder is made, and its settings are refused until then."""
    Path("here").mkdir()
    monkeypatch.chdir("here")
    made = cardsign("init", "--issuer", "https://a.example", "--keystore", "../vault")
    assert (made.status, f'folders = ["{tmp_path / "vault"}"]' in made.err) == (0, True)
    refused = cardsign("keys", "list")
    assert (refused.status, f'folders = ["{tmp_path / "vault"}"]' in refused.err) == (2, True)
    allow(tmp_path / "vault")
    assert cardsign("keys", "list").status == 0


@pytest.mark.parametrize("folders", ['["relative"]', "[5]", '"text"'])
def test_a_folder_that_cannot_be_meant_is_refused(cardsign: Cardsign, folders: str) -> None:
    """In the user's own file only absolute paths stand."""
    Path("cardsign.toml").write_text('format = 1\nkeystore = "../vault"\n')
    file = Path(os.environ["HOME"], ".config/cardsign/signers.toml")
    file.parent.mkdir(parents=True)
    file.write_text(f"format = 1\nfolders = {folders}\n")
    file.chmod(0o600)
    ended = cardsign("keys", "list")
    assert (ended.status, "config.malformed" in ended.err) == (2, True)
    assert ("expected a path, in quotes" in ended.err) is (folders == "[5]")


PARTS = ["log.jsonl", "private", ".lock"]


@pytest.mark.parametrize("part", PARTS)
def test_no_part_of_a_clones_key_store_leads_to_another_project(
    prod: Path, cardsign: Cardsign, part: str
) -> None:
    """Through a link in a real folder, `keys generate` rewrote the state of production's store."""
    before = {file: file.read_bytes() for file in (prod / "keys").rglob("*") if file.is_file()}
    shutil.copytree(prod / "keys", "keys")
    there, here = prod / "keys" / part, Path("keys", part)
    shutil.rmtree(here) if here.is_dir() else here.unlink(missing_ok=True)
    here.symlink_to(there)
    for command in (("keys", "generate"), ("sign", "card.json", "-o", "signed.json")):
        ended = cardsign(*command)
        assert (ended.status, "config.not_allowed" in ended.err) == (2, True)
    after = {file: file.read_bytes() for file in (prod / "keys").rglob("*") if file.is_file()}
    assert after == before


def test_a_key_store_may_lie_elsewhere_in_its_folder(prod: Path, cardsign: Cardsign) -> None:
    """The honest twin: what is linked stays in the project."""
    shutil.copytree(prod / "keys", "store")
    Path("keys").symlink_to("store")
    ended = cardsign("keys", "generate")
    assert ended.status == 0, ended.err
