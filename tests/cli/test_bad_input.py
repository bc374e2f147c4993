"""Bad input: one clear line with a code and a hint, the right status, nothing half-written."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from cardsign import html
from cardsign.cli.frame import run
from cardsign.cli.printer import json_text, safe
from cardsign.keys.stores.directory import DirectoryStore
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE

# arguments, exit status, code; run beside signed.json, jwks.json and a key store
COMPLAINTS: dict[str, tuple[list[str], int, str]] = {
    "an unknown command": (["frobnicate"], 2, "usage.invalid"),
    "an unknown option": (["verify", "signed.json", "--trust-me"], 2, "usage.invalid"),
    "no card": (["sign", "-o", "out.json"], 2, "usage.conflict"),
    "an unknown profile": (["verify", "signed.json", "--profile", "x"], 2, "usage.invalid"),
    "a missing card": (["sign", "absent.json", "-o", "out.json"], 2, "file.not_found"),
    "a directory for an output": (["sign", "card.json", "-o", "keys"], 2, "file.unreadable"),
    "an output in no directory": (["sign", "card.json", "-o", "no/o.json"], 2, "file.unwritable"),
    "a card that is a list": (["sign", "list.json", "-o", "out.json"], 1, "json.not_object"),
    "half a card": (["sign", "half.json", "-o", "out.json"], 1, "json.syntax"),
    "an error page": (["sign", "page.json", "-o", "out.json"], 1, "card.not_agent_card"),
    "a card for a key set": (["verify", "signed.json", "--jwks", "card.json"], 2, "jwks.malformed"),
    "a list for a key set": (["verify", "signed.json", "--jwks", "list.json"], 2, "jwks.malformed"),
    "no such key set": (["verify", "signed.json", "--jwks", "absent.json"], 2, "file.not_found"),
    "a card for known keys": (
        ["sign", "card.json", "-o", "out.json", "--known-keys", "card.json"], 2, "jwks.malformed",
    ),
    "an origin with a path": (
        ["verify", "signed.json", "--origin", "https://a.example/x"], 2, "card.interface_url",
    ),
    "an issuer without a scheme": (["init", "--issuer", "a.example"], 2, "card.interface_url"),
    "no such key": (["keys", "export", "absent"], 2, "keystore.unknown_key"),
    "no key store": (["keys", "list", "--keystore", "absent"], 2, "keystore.missing"),
    "a card that is no key": (["keys", "import", "card.json"], 2, "key."),
    "a kid that nobody may have": (
        ["keys", "import", "card.json", "--kid", "k\u00e9"],
        2,
        "usage.invalid",
    ),
    "a key set that is no URL": (
        ["keys", "look", "https://a.example/card", "--jwks", "file:///jwks"],
        2,
        "usage.invalid",
    ),
    "a key store without a name": (["keys", "list", "--keystore", ""], 2, "usage.invalid"),
    "an issuer without https": (
        ["init", "--issuer", "http://a.example"],
        2,
        "usage.invalid",
    ),
    "both ends of stdout": (["sign", "card.json", "--json"], 2, "usage.conflict"),
    "nothing published": (["serve", "absent"], 2, "serve.no_generation"),
    "nothing published, and not enabled": (
        ["serve", "absent", "--settings", "off.toml"], 2, "serve.no_generation",
    ),
    "no port to bind": (["serve", "pub", "--bind", "localhost"], 2, "usage.conflict"),
    "a card of others to publish": (
        ["publish", "card.json", "-o", "pub"], 1, "publish.not_verifying",
    ),
    "no place to publish": (["publish", "signed.json"], 2, "usage.conflict"),
    "an extended card without a name": (
        ["publish", "signed.json", "-o", "pub", "--extended", "x.json"], 2, "usage.conflict",
    ),
    "an audience that is a path": (
        ["tokens", "create", "--audience", "../x"], 2, "publish.audience_name",
    ),
    "a token that has ended already": (
        ["tokens", "create", "--audience", "x", "--expires", "2020-01-01"], 2, "usage.invalid",
    ),
    "a token that a file has not": (
        ["tokens", "revoke", "0abc", "--token-file", "empty"], 2, "cardsign tokens list",
    ),
    "a token of a file that is not there": (
        ["tokens", "revoke", "0abc", "--token-file", "nowhere"], 2, "file.not_found",
    ),
    "a URL with a user": (["verify", "https://me@a.example/"], 3, "fetch.url"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "status", "code"), COMPLAINTS.values(), ids=COMPLAINTS)
def test_bad_input_ends_in_one_clear_complaint(
    cardsign: Cardsign, signed: Path, arguments: list[str], status: int, code: str
) -> None:
    """The code, the status, a hint; no traceback; nothing written."""
    Path("empty").touch()
    Path("list.json").write_text("[]")
    Path("off.toml").write_text("format = 1\nenabled = false\n")
    Path("half.json").write_bytes(signed.read_bytes()[:300])
    Path("page.json").write_text('{"error": "not found"}')
    before = _files()
    ended = cardsign(*arguments)
    assert ended.status == status
    complaint = ended.err if status != 3 else ended.text
    assert code in complaint
    assert "Traceback" not in complaint
    assert "internal error" not in complaint
    assert len(complaint.splitlines()) <= 8
    assert _files() == before


def _files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


PASSPHRASES: dict[str, tuple[dict[str, str | None], str]] = {
    "a wrong one": ({"CARDSIGN_PASSPHRASE": "wrong horse"}, "passphrase.wrong"),
    "none, and no terminal": ({"CARDSIGN_PASSPHRASE": None}, "passphrase.none"),
    "an empty one": ({"CARDSIGN_PASSPHRASE": ""}, "passphrase.unfit"),
}


@pytest.mark.parametrize(("environment", "code"), PASSPHRASES.values(), ids=PASSPHRASES)
def test_without_the_right_passphrase_nothing_is_signed(
    cardsign: Cardsign, signed: Path, environment: dict[str, str | None], code: str
) -> None:
    """Status 2, and the output is left as it was."""
    before = signed.read_bytes()
    ended = cardsign("sign", "portable.json", "-o", signed, **environment)
    assert (ended.status, code in ended.err) == (2, True)
    assert signed.read_bytes() == before
    assert cardsign("sign", "portable.json", "-o", signed).status == 0


def test_the_passphrase_may_come_from_a_private_file_or_a_descriptor(
    cardsign: Cardsign, signed: Path
) -> None:
    """A file that others can read is refused."""
    secret = Path("secret")
    secret.write_text("correct horse battery staple\n")
    secret.chmod(0o600)
    arguments = ("sign", "card.json", "-o", "out.json")
    given = ("--passphrase-file", "secret")
    assert cardsign(*arguments, *given, CARDSIGN_PASSPHRASE=None).status == 0
    descriptor = os.open("secret", os.O_RDONLY)
    by_number = ("--passphrase-fd", str(descriptor))
    assert cardsign(*arguments, *by_number, CARDSIGN_PASSPHRASE=None).status == 0
    secret.chmod(0o644)
    refused = cardsign(*arguments, *given, CARDSIGN_PASSPHRASE=None)
    assert (refused.status, "file.permissions" in refused.err) == (2, True)


def test_a_checkout_by_git_signs_and_doctor_tells(
    cardsign: Cardsign, keystore: DirectoryStore
) -> None:
    """git keeps no mode 0600; the key file is encrypted. What others could write is an alarm."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    (private,) = (keystore.path / "private").iterdir()
    private.chmod(0o644)
    assert cardsign("sign", "card.json", "-o", "out.json").status == 0
    told = cardsign("keys", "doctor")
    assert (told.status, "doctor.permissions" in told.err) == (0, True)
    private.chmod(0o666)
    assert cardsign("keys", "doctor").status == 1
    assert cardsign("keys", "doctor", "--fix").status == 0
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_private_keys_are_made_private(cardsign: Cardsign, keystore: DirectoryStore) -> None:
    """0600 in a folder of 0700, whatever the umask."""
    for private in (keystore.path / "private").iterdir():
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE((keystore.path / "private").stat().st_mode) == 0o700


CONFIGS = {
    "no TOML": "format = ",
    "an unknown member": 'format = 1\nkeystor = "keys"\n',
    "a newer format": "format = 2\n",
    "a truth for a format": "format = true\n",
    "a number for a folder": "format = 1\nkeystore = 5\n",
    "no format": 'keystore = "keys"\n',
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=CONFIGS)
def test_a_bad_cardsign_toml_is_a_local_fault(
    cardsign: Cardsign, keystore: DirectoryStore, content: str
) -> None:
    """Its place is named."""
    Path("cardsign.toml").write_text(content)
    ended = cardsign("keys", "list")
    assert (ended.status, "config.malformed" in ended.err) == (2, True)
    assert "cardsign.toml" in ended.err
    Path("cardsign.toml").write_text('format = 1\nkeystore = "keys"\n')
    assert cardsign("keys", "list").status == 0


def test_no_words_of_a_card_reach_the_terminal_raw(cardsign: Cardsign, signed: Path) -> None:
    """Escape sequences, bidi controls and long texts in names, kids and pointers."""
    tricks = "\x1b[2Jtrusted\u202e\u2066\u200b\U000e0041" + "x" * 5000
    header = {"alg": "ES256", "kid": "k", "typ": tricks}
    card = {**PORTABLE, "name": tricks, tricks: 1, "signatures": [{"protected": tricks}, header]}
    Path("tricks.json").write_text(json.dumps(card, ensure_ascii=False))
    for command in (
        ("verify", "tricks.json", "--jwks", "jwks.json"),
        ("inspect", "tricks.json"),
        ("sign", "tricks.json", "-o", "tricked.json"),
        ("verify", "tricked.json", "--jwks", "jwks.json"),
        ("verify", "tricked.json", "--jwks", "jwks.json", "--json"),
    ):
        ended = cardsign(*command)
        for char in "\x1b\u202e\u2066\u200b\U000e0041":
            assert char not in ended.text + ended.err
    assert "x" * 1000 not in cardsign("verify", "tricked.json", "--jwks", "jwks.json").text


def test_safe_leaves_honest_words_alone() -> None:
    """Letters of every script are shown; what moves, hides or reorders is not."""
    assert safe("Wetter für Zürich, 天気") == "Wetter für Zürich, 天気"
    assert safe("a\nb") == "a\\u{a}b"
    assert safe("# of [tides]") == "# of [tides]"
    # Commands to the runners of pipelines: GitHub Actions, Azure Pipelines, TeamCity.
    assert "##[" not in safe("##[add-matcher]x ###[error]")
    assert "##" not in safe("a ##vso[task.x] ##teamcity[x]")
    assert not safe("  ::stop-commands::x").strip().startswith("::")
    for page in (str(html.text("a\n ::stop-commands::x ##vso[task.x]")), str(html.text("##[x]"))):
        assert not any(line.strip().startswith("::") for line in page.splitlines())
        assert "##" not in page
    hostile = {"a": "##vso[task.x] ##[x] ##teamcity[x]", "##b[": 1}
    assert "##" not in json_text(hostile)
    assert json.loads(json_text(hostile)) == hostile
    assert safe("std::vector ## heading") == "std::vector ## heading"
    assert safe("y" * 300, limit=10) == "y" * 7 + "..."


ENDINGS: dict[str, tuple[BaseException, int]] = {
    "a crash": (ZeroDivisionError("oh"), 2),
    "an interrupt": (KeyboardInterrupt(), 2),
    "an abort of click's": (click.Abort(), 2),
    "a click exception": (click.ClickException("no"), 2),
}


@pytest.mark.parametrize(("raised", "status"), ENDINGS.values(), ids=ENDINGS)
def test_no_ending_but_a_verdict_exits_with_one(
    raised: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 says "not trusted"; a crash must not."""

    def command() -> Any:
        raise raised

    assert run(command) == status
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("shell", "why"),
    [
        ("{} | true", None),
        (
            "{} > /dev/full",
            "file.unwritable: standard output cannot be written: No space left on device",
        ),
    ],
    ids=["whoever read it has left", "the disk is full"],
)
def test_a_verdict_that_is_not_heard_is_a_fault_of_this_machine(
    cardsign: Cardsign, signed: Path, shell: str, why: str | None, options: tuple[str, ...]
) -> None:
    """Exit 2, and one line unless the reader left; the interpreter adds nothing at its end."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no full disk to write to")
    words = [sys.executable, "-m", "cardsign", "verify", "signed.json", "--jwks", "jwks.json"]
    # Longer than a pipe holds, so that the reader has certainly left.
    command = shlex.join([*words, *options]).replace("signed.json", " ".join(["signed.json"] * 99))
    piped = shell.format(f"({command}; echo $? > status)")
    ended = subprocess.run(
        ["/bin/sh", "-c", piped],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        check=False,
    )
    assert Path("status").read_text() == "2\n"
    assert ended.stderr.decode() == ("" if why is None else f"cardsign: {why}\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cardsign.toml", ["config", "check"]),
        ("trust.toml", ["verify", "card.json"]),
        ("trust.lock", ["verify", "card.json"]),
        ("keys/keystore.json", ["keys", "list"]),
        ("keys/audit.jsonl", ["keys", "list"]),
        ("public/current", ["serve", "public"]),
        ("cards/a.card.json", ["lint", "cards"]),
        ("statements/a.json", ["verify", "card.json", "--statements", "statements"]),
    ],
)
def test_a_pipe_that_nobody_has_named_is_not_waited_for(
    cardsign: Cardsign, name: str, words: list[str]
) -> None:
    """An archive of a stranger may hold one; no command would ever end."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    if name == "trust.lock":
        assert cardsign("trust", "init").status == 0
    Path(name).parent.mkdir(exist_ok=True)
    if name == "keys/audit.jsonl":
        Path("keys/keystore.json").write_text("{}")
    os.mkfifo(name)
    ended = cardsign(*words)
    assert ended.status != 0
    assert "this is a " in ended.text + ended.err
    assert "pipe" in ended.text + ended.err


def test_a_crash_shows_its_traceback_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """CARDSIGN_DEBUG lets it through."""
    monkeypatch.setenv("CARDSIGN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)
