"""What goes where: data to stdout, notes to stderr, and no text of a card unescaped."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Final

import click

from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_OK,
    CardsignError,
    LocalFault,
    StateFault,
    UsageFault,
)

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from cardsign.findings import Finding

# Categories that move the cursor, reorder text or hide in it: controls, formats (bidi,
# zero-width, tags), surrogates, private use, unassigned, line and paragraph separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing, so that two names differ and look alike: the rest of
# Unicode's Default_Ignorable_Code_Point, and the blank braille pattern.
_INVISIBLE: Final = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_RUNNER_COMMAND: Final = r"##(?=[A-Za-z\[])"
_SURROGATE: Final = "[\ud800-\udfff]"
_WIDTH: Final = 96  # columns, whatever the terminal has
DEFAULT_LIMIT: Final = 200  # characters of foreign text shown in one place


def safe(text: str, *, limit: int = DEFAULT_LIMIT) -> str:
    """Foreign text for a terminal: escaped where it could deceive, shortened where long."""
    # GitHub Actions, Azure Pipelines and TeamCity take `##[`, `##vso[` and `##teamcity[` for a
    # command, wherever in a line it stands.
    shown = re.sub(_RUNNER_COMMAND, r"#\\u{23}", _without_password(text))
    shown = re.sub(r"^(\s*):(?=:)", r"\1\\u{3a}", shown)  # GitHub's `::name::`, after blanks too
    is_whole = len(shown) <= limit
    shown = shown[: limit + 1]
    if not (shown.isascii() and shown.isprintable()):
        from unicodedata import category  # seldom needed, and a library to load

        deceives = (category(one) in _UNSAFE or re.match(_INVISIBLE, one) for one in shown)
        pairs = zip(shown, deceives, strict=True)
        shown = "".join(f"\\u{{{ord(one):x}}}" if escape else one for one, escape in pairs)
    return shown if is_whole else shown[: limit - 3] + "..."


#: Members of the JSON that hold what a signature covers, exactly.
_SIGNED: Final = frozenset({"card", "payload"})
#: Where a command's context says that `--quiet` was given, and `--json`.
QUIET: Final = "cardsign.quiet"
JSON: Final = "cardsign.json"
#: Where the context of a dry run says which copy stands for which file or directory.
COPIES: Final = "cardsign.dry-run-copies"


def as_named(text: str) -> str:
    """The text with the paths that the user knows, in place of a dry run's copies."""
    context = click.get_current_context(silent=True)
    for copy, original in (context.meta.get(COPIES, {}) if context else {}).items():
        text = text.replace(copy, original)
    return text


def say(line: str, *, asked: bool = False) -> None:
    """One line of talk, on stderr; under ``--quiet`` only what an option has asked for.

    A dry run says of each line that it is one: what it tells of was not done.
    """
    if asked or not is_quiet():
        context = click.get_current_context(silent=True)
        is_dry = context is not None and COPIES in context.meta and not line.startswith(" ")
        _tell(as_named(f"dry run: {line}" if is_dry else line))


def is_quiet() -> bool:
    """Whether ``--quiet`` was given to the command that runs now."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def is_json() -> bool:
    """Whether ``--json`` was given to it."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(JSON))


def printed(value: Any) -> bool:
    """Print a value if ``--json`` was given, and say whether it was: else a person is told."""
    if is_json():
        print_json(value)
    return is_json()


def _tell(line: str) -> None:
    """One line on stderr; a stderr that cannot be written changes no verdict."""
    line = _without_password(line)
    with contextlib.suppress(OSError):
        click.echo(f"cardsign: {line}" if not line.startswith(" ") else line, err=True)


def counted(number: int, noun: str) -> str:
    """A number and its noun: ``1 card``, ``1,000 cards``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ask_first(warning: str, *, hint: str = "") -> None:
    """Ask the person at the terminal before something final or unverified is done."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm(f"cardsign: {warning}. Go on?", err=True):
            return
        raise UsageFault("usage.unanswered", f"the answer was no: {warning}")
    raise UsageFault(
        "usage.unanswered", f"this needs a yes, and there is no terminal: {warning}", hint=hint
    )


def say_notes(notes: Iterable[Finding]) -> None:
    """Say notes of a report on stderr; under ``--quiet`` only what was refused."""
    from cardsign.findings import cap_findings

    for note in cap_findings(notes):
        where = f" ({safe(note.path, limit=120)})" if note.path else ""
        text = f"{note.code}: {safe(note.message, limit=600)}{where}"
        say(text, asked=note.severity == "error")


def print_json(value: Any, *, indent: int | None = 2, file: IO[str] | None = None) -> None:
    """One JSON value on stdout, or in a file; ASCII, so that no card can play tricks on a terminal.

    No password of a URL is repeated, but in what was signed, which is data for programs.

    A surrogate, which stands for an octet of a file name that is not UTF-8, is no character and
    would make the text unreadable to strict parsers (RFC 8259 8.2): it is escaped as by `safe`.
    """
    click.echo(json_text(value, indent=indent), file=file)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return a JSON value as text in ASCII, in which no runner of a pipeline finds a command."""
    import json

    value = _without_passwords(value)
    text = json.dumps(value, ensure_ascii=False)
    shown = re.sub(_SURROGATE, lambda one: f"\\\\u{{{ord(one[0]):x}}}", as_named(text))
    if shown != text:
        value = json.loads(shown)
    # `#` is in strings alone, where the escape is the same character.
    return re.sub(_RUNNER_COMMAND, r"#\\u0023", json.dumps(value, indent=indent))


def print_table(columns: Mapping[str, int], rows: Iterable[Sequence[str]]) -> None:
    """Print one line for each row; a terminal gets a table with headings.

    Args:
        columns: The headings, each with the least width of its column in plain lines.
        rows: A text for each column, already :func:`safe`.
    """
    rows = list(rows)
    if not (rows and sys.stdout.isatty()):
        for row in rows:
            cells = (f"{cell:<{width}}" for cell, width in zip(row, columns.values(), strict=True))
            click.echo("  ".join(cells).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in columns:
        # What a line cannot hold goes on in the next one: a kid that is cut is of no use.
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def _without_password(text: str) -> str:
    """The text without passwords of URLs; most texts hold none, and need no reader of URLs."""
    if "@" not in text or "://" not in text:
        return text
    from cardsign.urls import without_passwords

    return without_passwords(text)


def _without_passwords(value: Any) -> Any:
    if isinstance(value, str):
        return _without_password(value)
    if isinstance(value, dict):
        exact = _SIGNED.intersection(value)
        return {
            name: one if name in exact else _without_passwords(one) for name, one in value.items()
        }
    return [_without_passwords(one) for one in value] if isinstance(value, list | tuple) else value


def wrapped(label: str, text: str) -> str:
    """Return a label, and beside it a text in lines."""
    first, rest = f"      {label:<4}  ", " " * 12
    return click.wrap_text(text, _WIDTH, initial_indent=first, subsequent_indent=rest)


class Progress:
    """A run over many cards: a bar on a terminal's stderr, and each fault is printed once.

    What keeps many cards from a verdict is told once, and at the end for how many more it holds.
    Under ``--quiet`` there is no bar.
    """

    def __init__(self, total: int) -> None:
        self._said: Counter[str] = Counter()
        self._bar: Bar | None = None
        if total > 1 and is_watched() and not is_quiet():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                TextColumn("cards"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True, force_terminal=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bar.add_task("cards", total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        more = self._said.total() - len(self._said)
        if kind is None and more:
            fault = "fault" if len(self._said) == 1 else "faults"
            say(f"the same {fault} for {counted(more, 'more card')}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bar away while a result is printed, then show one step more."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.advance(self._task)
            self._bar.start()

    def complain(self, fault: LocalFault) -> None:
        """Print a fault of one card, unless it has been printed for another."""
        # A lost folder of issuer states is one fault, whatever issuer it is missed by.
        key = fault.code if isinstance(fault, StateFault) else f"{fault}\n{fault.hint}"
        self._said[key] += 1
        if self._said[key] == 1:
            complain(fault)


def is_watched() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


# How a command ends: every error is one clear line on stderr and the right exit status.


_DEBUG: str = "CARDSIGN_DEBUG"  # set it to see the traceback of a crash
_COMPLETE: Final = "_CARDSIGN_COMPLETE"  # set by a shell that asks for completions
# Where a file or an option belongs, somebody may have given the text of a private key.
_KEY_TEXT: Final = r"""(?s)`?-----BEGIN.*|\{[^{}]{0,4000}\\?["']kty\\?["'].*"""
# Files are written elsewhere, under a name: here these can only mean standard output.
_UNWRITTEN: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What click 8.2 raises for a group without a command; before that it printed help by itself.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def run(command: Callable[[], object], *, as_json: bool = False) -> int:
    """Carry a command out and turn its end into an exit status.

    Args:
        command: The command; an int that it returns is the status.
        as_json: Print an error on stdout too, as ``{"error": {...}}``.
    """
    if sys.stdout is None:  # closed by the caller; a file that is opened next would take its place
        _tell("file.unwritable: standard output is closed; nothing was done")
        _tell("  send it to /dev/null if you do not need it")
        return EXIT_LOCAL_FAULT
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else EXIT_OK
    except CardsignError as error:
        return _failed(error, as_json)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        if isinstance(error, _HELP):
            click.echo(error.format_message(), err=True)
            return EXIT_LOCAL_FAULT
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"See {context.command_path if context else 'cardsign'} --help."
        message = " ".join(error.format_message().split()).rstrip(".")
        return _failed(UsageFault("usage.invalid", message, hint=hint), as_json)
    except (click.Abort, KeyboardInterrupt):
        _tell("stopped")
        return EXIT_LOCAL_FAULT
    except SystemExit as end:
        if os.environ.get(_COMPLETE):  # click has answered the shell
            return end.code if isinstance(end.code, int) else EXIT_OK
        # Otherwise click ends so in one case: the reader of our output has left.
        return _unwritten(OSError(errno.EPIPE, os.strerror(errno.EPIPE)))
    except Exception as crash:
        if isinstance(crash, OSError) and crash.errno in _UNWRITTEN:
            return _unwritten(crash)
        if os.environ.get(_DEBUG):
            raise
        what = f"{type(crash).__name__}: {safe(str(crash), limit=200)}"
        return _failed(LocalFault("internal.bug", what), as_json)


def _failed(error: CardsignError, as_json: bool) -> int:
    complain(error)
    if as_json:
        shown: dict[str, Any] = {"error": error.finding.to_json()}
        if isinstance(error, UsageFault) and error.more:
            shown["more"] = [one.finding.to_json() for one in error.more]
        try:
            print_json(shown)
        except OSError as fault:
            return _unwritten(fault)
    return error.exit_status


def _unwritten(fault: OSError) -> int:
    """The output was not read, so the exit status must not look like a verdict."""
    if fault.errno != errno.EPIPE:  # a reader that has left, as head does, is not told
        _tell(f"file.unwritable: standard output cannot be written: {fault.strerror}")
    # What is still buffered would fail again when the interpreter ends, with a status of its own.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_LOCAL_FAULT


def complain(error: CardsignError) -> None:
    """Print an error: code, what and where, then what to do; and keep texts of keys out of it."""
    hidden = "(not shown: it may be a key)"
    message, path = (re.sub(_KEY_TEXT, hidden, text) for text in (error.message, error.path))
    error.finding = replace(error.finding, message=message).at(path)
    where = str(error.finding.place)
    place = f" ({safe(where, limit=120)})" if where else ""
    _tell(f"{error.code}: {safe(message, limit=300)}{place}")
    if hint := error.finding.hint:
        _tell(f"  {hint}")
    for other in error.more if isinstance(error, UsageFault) else ():
        complain(other)
