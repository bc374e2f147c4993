"""Bad input: one clear line with a code and a hint, the right status, nothing half-written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from cardsign.cli.frame import confirm, json_text, run, safe
from cardsign.cli.sarif import annotation_lines, sarif_log
from cardsign.findings import Finding, Place, ScanResult, list_findings
from cardsign.inspect import as_html
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE

#: What a card may say to whoever reads it on a screen, or in the log of a pipeline.
WORDS: dict[str, str] = {
    "a command of GitHub": "::stop-commands::x",
    "a command of GitHub after blanks": "  ::add-mask::x",
    "a command of GitHub in a new line": "x\n::error::y",
    "an old command of GitHub": "##[error]x",
    "a command of Azure": "##vso[task.setvariable variable=PATH]x",
    "a command of Azure after a return": "x\r##vso[task.complete]y",
    "a command of TeamCity": "##teamcity[buildStatus status='FAILURE']",
    "a terminal's commands": "\x1b[2J\x1b]0;owned\x07",
    "8-bit commands": "\x9b2J",
    "text that is turned round": "\u202egnp.exe\u2066b\u2069",
    "lines and blanks of Unicode": "a\u200b\u2028b\u2029\x85",
    "tags and fillers": "\U000e0041\u3164\u2800\ufe0f",
    "a line of our own": "x\n  current     yes      the issuer still calls the card current",
    "private and missing characters": "\ue000\ufffe\u034f\uffa0\U000e0fff",
    "60,000 characters": "n" * 60_000,
}
#: Commands that read a stranger's card, with their forms.
READERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "inspect": (("inspect", "card.json", "--jwks", "jwks.json"), ("text", "json", "sarif")),
    "lint": (("lint", "card.json"), ("text", "json", "sarif", "github")),
    "verify": (("verify", "card.json", "--jwks", "jwks.json", "-v"), ("text", "json")),
    "diff": (("diff", "honest.json", "card.json"), ("text", "json")),
    "diff from it": (("diff", "card.json", "honest.json"), ("text",)),
    "diff --live": (("diff", "honest.json", "card.json", "--live"), ("text", "json")),
    "sign": (("sign", "card.json", "-o", "out.json", "--force", "--explain"), ("text", "json")),
}
_CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u034f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufffe\ud800-\uf8ff\U000e0000-\U000e0fff]"
)
#: What a line of `--format github` begins with; the words after it are a card's.
_ANNOTATION = re.compile(r"::(error|warning|notice) file=card\.json,[^:]*::")


def card_that_says(words: str) -> dict[str, Any]:
    """A card with these words wherever it has words, and as names of members."""
    scheme = {words: {"httpAuthSecurityScheme": {"scheme": words}}}
    skill = {"id": words, "name": words, "description": words, "tags": [words], words: None}
    interface = {"url": words, "protocolBinding": words, "protocolVersion": words}
    return {
        **PORTABLE,
        "name": words,
        "version": words,
        "description": "",
        words: None,
        f"x{words}": {words: None},
        "securitySchemes": scheme,
        "securityRequirements": [{"schemes": {words: {"list": [words]}, f"y{words}": {}}}],
        "skills": [skill],
        "supportedInterfaces": [interface],
        "signatures": [{"protected": words, "signature": words}, {"header": {words: words}}],
    }


def dangers(printed: str, form: str) -> list[str]:
    """What in an output a terminal or a pipeline could take for a command, or is too long."""
    lines = printed.splitlines()
    if form == "github":
        lines = [_ANNOTATION.sub("", line) for line in lines]
    return [
        *["control"] * bool(_CONTROL.search(printed)),
        *[line for line in lines if line.lstrip().startswith(("::", "current     yes"))],
        *re.findall(r"##[A-Za-z\[]\w*", printed),
        *["too long"] * (len(printed) > 2**20),
    ]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_no_words_of_a_card_deceive_a_terminal_or_a_pipeline(
    cardsign: Cardsign, signed: Path, words: str, reader: str
) -> None:
    """On either stream, in every form; and the command ends as for any card."""
    data = json.dumps(card_that_says(words), ensure_ascii=False).encode()
    if len(words) > 1000:  # a card has 256 KiB
        data = json.dumps({**PORTABLE, "name": words, words: None, "skills": [{words: 1}]}).encode()
    Path("card.json").write_bytes(data)
    Path("honest.json").write_text(json.dumps(PORTABLE))
    command, forms = READERS[reader]
    for form in forms:
        options = {"text": (), "json": ("--json",)}.get(form, ("--format", form))
        ended = cardsign(*command, *options)
        assert dangers(ended.text, form) == []
        assert dangers(ended.err, "text") == []
        assert ended.status in (0, 1, 3), ended.err
        assert "Traceback" not in ended.err


def test_a_file_s_name_deceives_neither(cardsign: Cardsign, signed: Path) -> None:
    """Nor one that is not there, which an error names."""
    for name in ("::error::x.json", "##vso[task.complete]x.json", "\x1b[2J\u202ex.json"):
        Path(name).write_text(json.dumps({**PORTABLE, "version": "two"}))
        for path in (name, f"absent{name}"):
            for words in (
                ("lint", path),
                ("lint", path, "--format", "sarif"),
                ("inspect", path),
                ("verify", path, "--jwks", "jwks.json"),
                ("verify", path, "--jwks", "jwks.json", "--json"),
            ):
                ended = cardsign(*words)
                assert dangers(ended.text + ended.err, "text") == []
            shown = cardsign("lint", path, "--format", "github").text
            assert re.findall(r"::\w+ ", shown) in ([], ["::warning "])
            assert dangers(shown.replace("::warning ", ""), "text") == []


def test_what_is_said_to_deceive_is_seen() -> None:
    """The checks above can fail, and an honest annotation passes."""
    for words in WORDS.values():
        assert dangers(words if len(words) < 1000 else words * 20, "text")
    honest = "::error file=card.json,line=1,col=2,title=x.y::/a: it is::so. Do it"
    assert dangers(honest, "github") == []
    assert dangers(f"{honest}\n::error::y", "github")


def _with_our_code() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


_ENDLESS = """
import itertools, sys
from cardsign.cli.frame import Answer, run, show
sys.exit(run(lambda: show(Answer(None, (f"line {number}" for number in itertools.count())))))
"""


def test_a_report_without_an_end_ends_with_its_reader() -> None:
    """Lines are printed as they come; nobody waits for the last one."""
    program = shlex.join([sys.executable, "-c", _ENDLESS])
    words = ["/bin/sh", "-c", f"({program}; echo $? >&2) | head -n 2"]
    ended = subprocess.run(words, capture_output=True, text=True, env=_with_our_code(), check=True)
    assert (ended.stdout, ended.stderr) == ("line 0\nline 1\n", "2\n")


#: Where no character beyond ASCII can be shown.
PLAIN = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PLAIN |= {"COLUMNS": "20", "LINES": "5", "TERM": "dumb"}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("inspect", "card.json"), 0),
        (("lint", "card.json", "--format", "github"), 1),
        (("verify", "Gezeiten-天気.json", "--jwks", "jwks.json"), 2),
        (("verify", "--help"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_neither_a_narrow_terminal_nor_a_plain_one_stops_a_command(
    signed: Path, words: tuple[str, ...], status: int
) -> None:
    """It says what it has to say, and ends as elsewhere."""
    card = {**PORTABLE, "name": "Gezeiten für Zürich, 天気", "version": "zwölf", "Größe": 1}
    Path("card.json").write_text(json.dumps(card, ensure_ascii=False), encoding="utf-8")
    program = [sys.executable, "-m", "cardsign", *words]
    environment = {**_with_our_code(), **PLAIN}
    ended = subprocess.run(program, env=environment, capture_output=True, check=False)
    assert ended.returncode == status, ended.stderr
    assert b"Traceback" not in ended.stderr
    assert ended.stdout or status == 2
    assert (ended.stdout + ended.stderr).isascii()


def test_safe_leaves_honest_words_alone() -> None:
    """Letters of every script are shown; what moves, hides or reorders is not."""
    assert safe("Wetter für Zürich, 天気") == "Wetter für Zürich, 天気"
    assert safe("a\nb") == "a\\u{a}b"
    assert safe("# of [tides]") == "# of [tides]"
    # Commands to the runners of pipelines: GitHub Actions, Azure Pipelines, TeamCity.
    assert "##[" not in safe("##[add-matcher]x ###[error]")
    assert "##" not in safe("a ##vso[task.x] ##teamcity[x]")
    assert not safe("  ::stop-commands::x").strip().startswith("::")
    for shown in (str(as_html("a\n ::stop-commands::x ##vso[task.x]")), str(as_html("##[x]"))):
        assert not any(line.strip().startswith("::") for line in shown.splitlines())
        assert "##" not in shown
    hostile = {"a": "##vso[task.x] ##[x] ##teamcity[x]", "##b[": 1}
    assert "##" not in json_text(hostile)
    assert json.loads(json_text(hostile)) == hostile
    assert safe("std::vector ## heading") == "std::vector ## heading"
    assert safe("y" * 300, limit=10) == "y" * 7 + "..."


ENDINGS = (ZeroDivisionError("oh"), KeyboardInterrupt(), click.Abort(), click.ClickException("no"))


@pytest.mark.parametrize("raised", ENDINGS, ids=repr)
def test_no_ending_but_a_verdict_exits_with_one(
    raised: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 says "not trusted"; a crash must not."""

    def command() -> Any:
        raise raised

    assert run(command) == 2
    assert "Traceback" not in capsys.readouterr().err


FULL = "cardsign: file.unwritable: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
@pytest.mark.parametrize(
    ("shell", "options", "said"),
    [("{} | true", (), ""), ("{} > /dev/full", (), FULL), ("{} > /dev/full", ("--json",), FULL)],
    ids=["whoever read it has left", "the disk is full", "the disk is full, JSON"],
)
def test_a_verdict_that_is_not_heard_is_a_fault_of_this_machine(
    cardsign: Cardsign, signed: Path, shell: str, said: str, options: tuple[str, ...]
) -> None:
    """Exit 2, and one line unless the reader left; the interpreter adds nothing at its end."""
    # More cards than fit into a pipe, so that the reader has certainly left.
    cards = ["signed.json"] * 99
    words = [sys.executable, "-m", "cardsign", "verify", *cards, "--jwks", "jwks.json", *options]
    piped = shell.format(f"({shlex.join(words)}; echo $? > status)")
    shell_words = ["/bin/sh", "-c", piped]
    ended = subprocess.run(shell_words, env=_with_our_code(), capture_output=True, check=False)
    assert Path("status").read_text() == "2\n"
    assert ended.stderr.decode() == said


def test_a_crash_shows_its_traceback_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """CARDSIGN_DEBUG lets it through."""
    monkeypatch.setenv("CARDSIGN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)


BODY = "TOPSECRET" * 7  # so that a part of it is seen too
KEY = f'{{"kty":"EC","d":"{BODY}","crv":"P-256"}}'
PEM = "-----BEGIN EC {0}-----\n{1}\n-----END EC {0}-----\n".format("PRIVATE KEY", BODY)
LONG = f"https://me:{'TOPSECRET' * 150}@tides.example/"


@pytest.mark.parametrize("secret", [KEY, PEM, LONG, "https:/me:TOPSECRET@tides.example"])
@pytest.mark.parametrize(
    "words",
    [
        ("lint", "SECRET", "--fix"),
        ("lint", "card.json", "--fail-on", "SECRET"),
        ("verify", "SECRET", "card.json", "--jwks", "jwks.json"),
        ("verify", "card.json", "--issuer", "SECRET"),
        ("verify", "card.json", "--jwks", "jwks.json", "--at", "SECRET"),
        ("inspect", "SECRET"),
        ("help", "SECRET"),
        ("SECRET",),
        ("keys", "import", "SECRET"),
        ("sign", "SECRET", "-o", "signed.json"),
        ("sign", "card.json", "-o", "signed.json", "--key", "SECRET"),
        ("sign", "card.json", "-o", "signed.json", "--key", "env:K", "--public", "SECRET"),
    ],
    ids=" ".join,
)
def test_no_secret_that_was_typed_in_a_wrong_place_is_repeated(
    words: tuple[str, ...], secret: str, cardsign: Cardsign
) -> None:
    """Neither a private key nor a password, in any form of the answer."""
    Path("card.json").write_text('{"name": "Tides"}')
    Path("jwks.json").write_text('{"keys": []}')
    typed = [secret if word == "SECRET" else word for word in words]
    for form in ((), ("--json",), ("--format", "sarif")):
        ended = cardsign(*typed, *form)
        assert ended.status in (1, 2, 3)
        assert "TOPSECRET" not in ended.text + ended.err


def test_an_encrypted_key_that_a_command_makes_is_shown(cardsign: Cardsign) -> None:
    """The twin: what `init` prints once is for its owner, as text and as JSON."""
    begin = "-----BEGIN ENCRYPTED {}-----".format("PRIVATE KEY")
    assert safe(begin) == begin
    assert begin in json_text({"recovery": f"{begin}\nMIIB"})


def test_a_question_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is asked about may be a stranger's word."""
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda text, err: click.echo(text, err=err) or True)
    confirm(False, "\x1b[2J\n::error::the key tides")
    asked = "cardsign: \\u{1b}[2J\\u{a}::error::the key tides. Go on?\n"
    assert capsys.readouterr().err == asked


def test_a_position_without_a_column_is_said_without(cardsign: Cardsign) -> None:
    """In text, and SARIF has no null."""
    finding = Finding("json.syntax", "it ends", Place("/name", 3))
    assert (finding.worded, str(finding.place)) == ("it ends (line 3)", "/name, line 3")
    log = sarif_log([ScanResult("card.json", [finding])], 1)
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 3}
    (annotation,) = annotation_lines([ScanResult("card.json", [finding])])
    assert annotation.startswith("::error file=card.json,line=3,title=json.syntax::")


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("/srv/ü.json", "file:///srv/%C3%BC.json"),
        ("https://a.example/b?c=%20", "https://a.example/b?c=%20"),
        ("https://a.example/ <b>", "https://a.example/%20%3Cb%3E"),
        ("https://me:hunter2@a.example/", "https://...@a.example/"),
    ],
)
def test_sarif_names_a_card_by_a_uri(name: str, uri: str) -> None:
    """Every reader finds it, and sees no password."""
    log = sarif_log([ScanResult(name, [Finding("json.syntax", "it ends")])], 1)
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_each_advice_of_one_code_is_shown() -> None:
    """Two findings of one code may need two things."""
    findings = [Finding("sig.bad", "one", fix="Ask Ann"), Finding("sig.bad", "two", fix="Ask Bo")]
    text = "\n".join(list_findings(findings))
    assert "Ask Ann" in text
    assert "Ask Bo" in text
