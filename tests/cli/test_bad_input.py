"""Bad input: one clear line with a code and a hint, the right status, no word that deceives."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import click
import pytest

from cardsign.cli.frame import confirm, json_text, run, safe
from cardsign.cli.sarif import annotation_lines, sarif_log
from cardsign.findings import Finding, Place, list_findings
from cardsign.page import as_html
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, each_case, read_cases

CASES = read_cases(__file__)
#: What a card may say to whoever reads it on a screen, or in the log of a pipeline.
WORDS: dict[str, str] = {**CASES["words"], "60,000 characters": "n" * 60_000}
HONEST = ("Wetter für Zürich, 天気", "# of [tides]", "std::vector ## heading")
_CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u034f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufffe\ud800-\uf8ff\U000e0000-\U000e0fff]"
)
#: What a line of `--format github` begins with; the words after it are a card's.
_ANNOTATION = re.compile(r"::(error|warning|notice) file=card\.json,[^:]*::")


def card_that_says(words: str) -> dict[str, Any]:
    """A card with these words wherever it has words, and as names of members."""
    if len(words) > 1000:  # a card has 256 KiB
        return {**PORTABLE, "name": words, words: None, "skills": [{words: 1}]}
    return {
        **PORTABLE,
        "name": words,
        "version": words,
        "description": "",
        words: None,
        f"x{words}": {words: None},
        "securitySchemes": {words: {"httpAuthSecurityScheme": {"scheme": words}}},
        "securityRequirements": [{"schemes": {words: {"list": [words]}, f"y{words}": {}}}],
        "skills": [{"id": words, "name": words, "description": words, "tags": [words], words: 1}],
        "supportedInterfaces": [{"url": words, "protocolBinding": words, "protocolVersion": words}],
        "signatures": [{"protected": words, "signature": words}, {"header": {words: words}}],
    }


def dangers(printed: str, *, github: bool = False) -> list[str]:
    """What in an output a terminal or a pipeline could take for a command, or is too long."""
    lines = printed.splitlines()
    if github:
        lines = [_ANNOTATION.sub("", line) for line in lines]
    return [
        *["control"] * bool(_CONTROL.search(printed)),
        *[line for line in lines if line.lstrip().startswith(("::", "current     yes"))],
        *re.findall(r"##[A-Za-z\[]\w*", printed),
        *["too long"] * (len(printed) > 2**20),
    ]


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_what_could_deceive_is_escaped(words: str) -> None:
    """In a line, in JSON, which keeps its value, and on the page for people."""
    assert dangers(words * 20)  # the check can fail
    assert not dangers(safe(words))
    assert not dangers(json_text({words: words}))
    assert json.loads(json_text({words: words})) == {words: words}
    shown = str(as_html(words))
    assert "##" not in shown
    assert not re.search(r"^\s*::", shown, re.MULTILINE)


def test_honest_words_are_shown_as_they_are() -> None:
    """Letters of every script; what is long is cut, and an annotation of ours is none of theirs."""
    assert [safe(words) for words in HONEST] == list(HONEST)
    assert safe("y" * 300, limit=10) == "y" * 7 + "..."
    honest = "::error file=card.json,line=1,col=2,title=x.y::/a: it is::so. Do it"
    assert not dangers(honest, github=True)
    assert dangers(f"{honest}\n::error::y", github=True)
    # What `init` prints once is for its owner.
    begin = "-----BEGIN ENCRYPTED {}-----".format("PRIVATE KEY")
    assert safe(begin) == begin
    assert begin in json_text({"recovery": f"{begin}\nMIIB"})


@each_case(__file__, "readers", "command", "forms")
def test_no_words_of_a_card_deceive_a_terminal_or_a_pipeline(
    cardsign: Cardsign, signed: Path, command: str, forms: list[str]
) -> None:
    """On either stream, in every form; and the command ends as for any card."""
    Path("honest.json").write_text(json.dumps(PORTABLE))
    for words in WORDS.values():
        data = json.dumps(card_that_says(words), ensure_ascii=False).encode()
        Path("card.json").write_bytes(data)
        for form in forms:
            ended = cardsign(*command.split(), *form.split())
            assert not dangers(ended.text, github=form.endswith("github"))
            assert not dangers(ended.err)
            assert ended.status in (0, 1, 3), ended.err
            assert "Traceback" not in ended.err


@pytest.mark.parametrize("name", ["::error::x", "##vso[task.complete]x", "\x1b[2J\u202ex"])
def test_a_file_s_name_deceives_neither(name: str, cardsign: Cardsign, signed: Path) -> None:
    """Nor one that is not there, which an error names."""
    Path(name).write_text(json.dumps({**PORTABLE, "version": "two"}))
    for path in (name, f"absent{name}"):
        for words in ("lint", "lint --format sarif", "inspect", "verify --jwks jwks.json"):
            ended = cardsign(*words.split(), path)
            assert not dangers(ended.text + ended.err)
        shown = cardsign("lint", path, "--format", "github").text
        assert re.findall(r"::\w+ ", shown) in ([], ["::warning "])
        assert not dangers(shown.replace("::warning ", ""))


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


# How a command ends.


def start(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell, in which `cardsign` is this one."""
    program = shlex.join([sys.executable, "-m", "cardsign"])
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment}
    line = ["/bin/sh", "-c", re.sub(r"\bcardsign\b", program, words)]
    return subprocess.run(line, capture_output=True, text=True, env=surroundings, check=False)


#: Where no character beyond ASCII can be shown.
PLAIN = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PLAIN |= {"COLUMNS": "20", "LINES": "5", "TERM": "dumb"}


@pytest.mark.parametrize(
    ("words", "status"),
    [("lint card.json --format github", 1), ("verify Gezeiten-天気.json --jwks jwks.json", 2)],
)
def test_neither_a_narrow_terminal_nor_a_plain_one_stops_a_command(
    signed: Path, words: str, status: int
) -> None:
    """It says what it has to say, and ends as elsewhere."""
    card = {**PORTABLE, "name": "Gezeiten für Zürich, 天気", "version": "zwölf", "Größe": 1}
    Path("card.json").write_text(json.dumps(card, ensure_ascii=False), encoding="utf-8")
    ended = start(f"cardsign {words}", **PLAIN)
    assert (ended.returncode, "Traceback" in ended.stderr) == (status, False), ended.stderr
    assert ended.stdout or status == 2
    assert (ended.stdout + ended.stderr).isascii()


ENDINGS = (ZeroDivisionError("oh"), KeyboardInterrupt(), click.Abort(), click.ClickException("no"))


@pytest.mark.parametrize("raised", ENDINGS, ids=repr)
def test_no_ending_but_a_verdict_exits_with_one(
    raised: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 says "not trusted"; a crash must not, and shows its traceback only to who asks."""

    def command() -> Any:
        raise raised

    assert run(command) == 2
    assert "Traceback" not in capsys.readouterr().err
    if isinstance(raised, ZeroDivisionError):
        monkeypatch.setenv("CARDSIGN_DEBUG", "1")
        with pytest.raises(ZeroDivisionError):
            run(command)


FULL = "cardsign: file.unwritable: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
@pytest.mark.parametrize(
    ("options", "place", "message"),
    [("", "| true", ""), ("", "> /dev/full", FULL), ("--json", "> /dev/full", FULL)],
    ids=["whoever read it has left", "the disk is full", "the disk is full, JSON"],
)
def test_a_verdict_that_is_not_heard_is_a_fault_of_this_machine(
    signed: Path, options: str, place: str, message: str
) -> None:
    """Exit 2, and one line unless the reader left; the interpreter adds nothing at its end."""
    # More cards than fit into a pipe, so that the reader has certainly left.
    cards = " signed.json" * 99
    ended = start(f"(cardsign verify {cards} --jwks jwks.json {options}; echo $? > status) {place}")
    assert (Path("status").read_text(), ended.stderr) == ("2\n", message)


BODY = "TOPSECRET" * 7  # so that a part of it is seen too
KEY = f'{{"kty":"EC","d":"{BODY}","crv":"P-256"}}'
PEM = "-----BEGIN EC {0}-----\n{1}\n-----END EC {0}-----\n".format("PRIVATE KEY", BODY)
LONG = f"https://me:{'TOPSECRET' * 150}@tides.example/"


@pytest.mark.parametrize("words", CASES["secrets"])
def test_no_secret_that_was_typed_in_a_wrong_place_is_repeated(
    words: str, cardsign: Cardsign
) -> None:
    """Neither a private key nor a password, in any form of the answer."""
    Path("card.json").write_text('{"name": "Tides"}')
    Path("jwks.json").write_text('{"keys": []}')
    base64_pem = b64encode(PEM.encode()).decode()
    for secret in (KEY, PEM, LONG, "https:/me:TOPSECRET@tides.example", base64_pem):
        typed = [secret if word == "SECRET" else word for word in words.split()]
        for form in ((), ("--json",), ("--format", "sarif")):
            ended = cardsign(*typed, *form)
            assert ended.status in (1, 2, 3)
            assert not re.search(f"TOPSECRET|{base64_pem[20:60]}", ended.text + ended.err)


# Where a finding is.


def test_a_position_without_a_column_is_said_without() -> None:
    """In text, and SARIF has no null."""
    finding = Finding("json.syntax", "it ends", Place("/name", 3))
    assert (finding.worded, str(finding.place)) == ("it ends (line 3)", "/name, line 3")
    log = sarif_log([("card.json", [finding], ())], 1)
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 3}
    (annotation,) = annotation_lines([("card.json", [finding], ())])
    assert annotation.startswith("::error file=card.json,line=3,title=json.syntax::")


@pytest.mark.parametrize(("name", "uri"), CASES["uris"].items())
def test_sarif_names_a_card_by_a_uri(name: str, uri: str) -> None:
    """Every reader finds it, and sees no password."""
    log = sarif_log([(name, [Finding("json.syntax", "it ends")], ())], 1)
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_each_advice_of_one_code_is_shown() -> None:
    """Two findings of one code may need two things."""
    findings = [Finding("sig.bad", "x", fix=advice) for advice in ("Ask Ann", "Ask Bo")]
    text = "\n".join(list_findings(findings))
    assert "Ask Ann" in text
    assert "Ask Bo" in text
