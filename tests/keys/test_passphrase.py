"""A passphrase comes from where it was said to be, or from a person at a terminal."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardsign.errors import CardsignError, FileFault, PassphraseFault
from cardsign.keys.signers.access import (
    MAX_FILE_BYTES,
    PassphraseSource,
    check_strength,
    new_passphrase,
    read_passphrase,
    terminal_prompt,
)

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


@pytest.mark.parametrize("read", [read_passphrase, new_passphrase])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"passphrase", b"passphrase", id="without newline"),
        pytest.param(b"passphrase\n", b"passphrase", id="with newline"),
        pytest.param(b"passphrase\r\n", b"passphrase", id="with carriage return"),
        pytest.param(b"passphrase\nnote\n", b"passphrase", id="with more lines"),
        pytest.param(b" pass phrase \n", b" pass phrase ", id="with spaces, which count"),
        pytest.param("pässphrase\n".encode(), "pässphrase".encode(), id="in UTF-8"),
        pytest.param(b"\xff\xfe\xfd passphrase\n", b"\xff\xfe\xfd passphrase", id="in no charset"),
    ],
)
def test_the_first_line_of_a_file_counts(read, content, expected, secret_file):
    """Byte for byte, without the end of the line."""
    source = PassphraseSource(file=secret_file(content), environment=ENVIRONMENT, prompt=nobody)

    assert read(source) == expected


def test_a_pipe_is_read_like_a_file():
    """As `--passphrase-file <(pass show cards)` gives it."""
    reading, writing = os.pipe()
    os.write(writing, b"from a pipe\n")
    os.close(writing)

    source = PassphraseSource(Path(f"/dev/fd/{reading}"), environment=ENVIRONMENT, prompt=nobody)

    assert read_passphrase(source) == b"from a pipe"
    os.close(reading)


def test_the_environment_goes_before_the_terminal():
    """Who set it does not want to be asked."""
    source = PassphraseSource(environment=ENVIRONMENT, prompt=nobody)

    assert read_passphrase(source) == b"from the environment"


def test_bytes_of_the_environment_that_are_no_text_come_through():
    """As os.environ holds them: escaped."""
    source = PassphraseSource(environment={"CARDSIGN_PASSPHRASE": os.fsdecode(b"\xff\xfe")})

    assert read_passphrase(source) == b"\xff\xfe"


def test_a_person_is_asked_once_for_what_exists():
    """The answer's UTF-8 counts."""
    assert read_passphrase(PassphraseSource(prompt=answers("ünicode"))) == "ünicode".encode()


def test_a_person_is_asked_twice_for_what_is_new():
    """Nobody can see what is typed."""
    source = PassphraseSource(prompt=answers("long enough", "long enough"))

    assert new_passphrase(source) == b"long enough"


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        pytest.param(["long enough", "long enogh"], "passphrase.unfit", id="mistyped"),
        pytest.param(["short"], "passphrase.unfit", id="short, and not asked again"),
        pytest.param([""], "passphrase.unfit", id="empty"),
    ],
)
def test_a_new_passphrase_must_be_typed_twice_and_long_enough(typed, code):
    """Else nothing is made with it."""
    with pytest.raises(PassphraseFault) as caught:
        new_passphrase(PassphraseSource(prompt=answers(*typed)))

    assert caught.value.code == code


def test_without_a_terminal_nobody_is_asked():
    """The hint names the other ways."""
    with pytest.raises(PassphraseFault) as caught:
        read_passphrase(PassphraseSource())

    assert caught.value.code == "passphrase.none"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("obstacle", [EOFError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "")])
def test_a_terminal_that_gives_nothing_gives_none(obstacle):
    """Control-D is an answer as well."""

    def fail(question: str) -> str:
        raise obstacle

    with pytest.raises(PassphraseFault) as caught:
        read_passphrase(PassphraseSource(prompt=fail))

    assert caught.value.code == "passphrase.none"


@pytest.mark.parametrize(
    ("stdin", "stderr", "asked"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_a_prompt_needs_a_terminal_on_both_sides(stdin, stderr, asked, monkeypatch):
    """In a pipeline a question would hang for ever."""
    for name, answer in (("stdin", stdin), ("stderr", stderr)):
        stream = io.StringIO()
        stream.isatty = lambda answer=answer: answer
        monkeypatch.setattr(f"sys.{name}", stream)

    assert (terminal_prompt() is not None) == asked


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"environment": {"CARDSIGN_PASSPHRASE": ""}}, id="in the environment"),
        pytest.param({"prompt": answers("")}, id="at the terminal"),
    ],
)
def test_an_empty_passphrase_is_no_passphrase(source):
    """An unset secret of a pipeline comes as an empty one, and must not fall through."""
    with pytest.raises(PassphraseFault) as caught:
        read_passphrase(PassphraseSource(**{"prompt": nobody, **source}))

    assert caught.value.code == "passphrase.none"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_passphrase_file_open_to_others_is_refused(mode, secret_file):
    """It is no secret any more."""
    with pytest.raises(FileFault) as caught:
        read_passphrase(PassphraseSource(file=secret_file(b"passphrase", mode)))

    assert caught.value.code == "file.permissions"


def test_a_large_file_was_not_meant(secret_file):
    """A passphrase file is short."""
    with pytest.raises(FileFault) as caught:
        read_passphrase(PassphraseSource(file=secret_file(b"x" * (MAX_FILE_BYTES + 1))))

    assert caught.value.code == "file.unreadable"


def test_eight_are_enough_and_seven_are_not():
    """The limit is where it is said to be."""
    check_strength(b"8 letter")

    with pytest.raises(PassphraseFault):
        check_strength(b"7 lette")


def test_the_source_does_not_print_the_environment():
    """A repr ends up in logs."""
    assert ENVIRONMENT["CARDSIGN_PASSPHRASE"] not in repr(PassphraseSource(environment=ENVIRONMENT))


def test_no_error_repeats_what_was_typed():
    """Not even a passphrase that is refused."""
    with pytest.raises(CardsignError) as caught:
        new_passphrase(PassphraseSource(prompt=answers("hunter2")))

    assert "hunter2" not in f"{caught.value!s}{caught.value!r}{caught.value.hint}"
