"""A passphrase comes from where it was said to be, or from a person at a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cardsign.errors import PassphraseFault
from cardsign.keys.secrets import (
    MAX_FILE_BYTES,
    PassphraseSource,
    check_strength,
    new_passphrase,
    read_passphrase,
    terminal_prompt,
)
from tests.keys.elsewhere import refusal

ENVIRONMENT = {"CARDSIGN_PASSPHRASE": "from the environment"}


def answers(*texts: str) -> Callable[[str], str]:
    """A person who types these, one after the other."""
    rest: Iterator[str] = iter(texts)
    return lambda question: next(rest)


def nobody(question: str) -> str:
    """A person who must not be asked."""
    pytest.fail(f"asked {question!r}")


@pytest.fixture
def secret_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a passphrase file."""

    def write(content: bytes, mode: int = 0o600) -> Path:
        path = tmp_path / "passphrase"
        path.write_bytes(content)
        path.chmod(mode)
        return path

    return write


CONTENTS = {
    "without newline": (b"passphrase", b"passphrase"),
    "with carriage return": (b"passphrase\r\n", b"passphrase"),
    "with more lines": (b"passphrase\nnote\n", b"passphrase"),
    "with spaces, which count": (b" pass phrase \n", b" pass phrase "),
    "in no charset": (b"\xff\xfe\xfd passphrase\n", b"\xff\xfe\xfd passphrase"),
}


@pytest.mark.parametrize(("content", "expected"), CONTENTS.values(), ids=CONTENTS)
def test_the_first_line_of_a_file_counts(
    content: bytes, expected: bytes, secret_file: Callable[..., Path]
) -> None:
    """Byte for byte, without the end of the line; nobody is asked."""
    source = PassphraseSource(file=secret_file(content), environment=ENVIRONMENT, prompt=nobody)
    assert read_passphrase(source) == new_passphrase(source) == expected


def test_a_pipe_is_read_like_a_file():
    """As `--passphrase-file <(pass show cards)` gives it."""
    reading, writing = os.pipe()
    os.write(writing, b"from a pipe\n")
    os.close(writing)

    source = PassphraseSource(Path(f"/dev/fd/{reading}"), environment=ENVIRONMENT, prompt=nobody)

    assert read_passphrase(source) == b"from a pipe"
    os.close(reading)


def test_the_environment_goes_before_the_terminal() -> None:
    """As os.environ holds it: bytes that are no text are escaped."""
    source = PassphraseSource(environment=ENVIRONMENT, prompt=nobody)
    assert read_passphrase(source) == b"from the environment"
    assert "from the environment" not in repr(source)
    source = PassphraseSource(environment={"CARDSIGN_PASSPHRASE": os.fsdecode(b"\xff\xfe")})
    assert read_passphrase(source) == b"\xff\xfe"


def test_a_person_is_asked_once_for_what_exists_and_twice_for_what_is_new() -> None:
    """Nobody can see what is typed. The answer's UTF-8 counts."""
    assert read_passphrase(PassphraseSource(prompt=answers("ünicode"))) == "ünicode".encode()
    source = PassphraseSource(prompt=answers("long enough", "long enough"))
    assert new_passphrase(source) == b"long enough"


@pytest.mark.parametrize("typed", [["long enough", "long enogh"], ["hunter2"], [""]])
def test_a_new_passphrase_must_be_typed_twice_and_long_enough(typed: list[str]) -> None:
    """Else nothing is made with it; what is short is not asked for again, and never repeated."""
    with pytest.raises(PassphraseFault) as caught:
        new_passphrase(PassphraseSource(prompt=answers(*typed)))
    assert caught.value.code == "passphrase.unfit"
    assert "hunter2" not in f"{caught.value!s}{caught.value!r}{caught.value.hint}"


def end_of_file(question: str) -> str:
    raise EOFError


NOTHING = {
    "nobody to ask": PassphraseSource(),
    "Control-D": PassphraseSource(prompt=end_of_file),
    "no text": PassphraseSource(prompt=lambda _: b"\xff".decode()),
    "empty in the environment": PassphraseSource(
        environment={"CARDSIGN_PASSPHRASE": ""}, prompt=nobody
    ),
    "empty at the terminal": PassphraseSource(prompt=answers("")),
}


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING)
def test_what_gives_nothing_gives_no_passphrase(source: PassphraseSource) -> None:
    """An unset secret of a pipeline comes as an empty one, and must not fall through."""
    with pytest.raises(PassphraseFault) as caught:
        read_passphrase(source)
    assert (caught.value.code, caught.value.exit_status) == ("passphrase.none", 2)


@pytest.mark.parametrize(("stdin", "stderr"), [(True, True), (True, False), (False, True)])
def test_a_prompt_needs_a_terminal_on_both_sides(
    stdin: bool, stderr: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pipeline a question would hang for ever."""
    for name, answer in (("stdin", stdin), ("stderr", stderr)):
        monkeypatch.setattr(f"sys.{name}", SimpleNamespace(isatty=lambda answer=answer: answer))
    assert (terminal_prompt() is not None) == (stdin and stderr)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_passphrase_file_open_to_others_is_refused(
    mode: int, secret_file: Callable[..., Path]
) -> None:
    """It is no secret any more; nor is a long file one that was meant."""
    open_file = PassphraseSource(file=secret_file(b"passphrase", mode))
    assert refusal(read_passphrase, open_file) == "file.permissions"
    large = PassphraseSource(file=secret_file(b"x" * (MAX_FILE_BYTES + 1)))
    assert refusal(read_passphrase, large) == "file.unreadable"


def test_eight_are_enough_and_seven_are_not() -> None:
    """The limit is where it is said to be."""
    check_strength(b"8 letter")
    assert refusal(check_strength, b"7 lette") == "passphrase.unfit"
