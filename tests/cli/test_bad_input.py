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
from cardsign.keys.folder import FolderStore
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE

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
    cardsign: Cardsign, keystore: FolderStore
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


def test_private_keys_are_made_private(cardsign: Cardsign, keystore: FolderStore) -> None:
    """0600 in a folder of 0700, whatever the umask."""
    for private in (keystore.path / "private").iterdir():
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE((keystore.path / "private").stat().st_mode) == 0o700


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
        ("keys/log.jsonl", ["keys", "list"]),
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
