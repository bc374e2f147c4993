"""How everything leaves the program: results on stdout, notes and errors on stderr.

A result says what it holds in ``lines()`` and in ``to_json()``. Every finished line and every JSON
text is escaped here, so that no word of a stranger is read as a command by a terminal or by the
runner of a pipeline.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, Final, NamedTuple, Protocol

import click

from cardsign.errors import EXIT_OK, CardsignError, UsageFault
from cardsign.findings import MAX_TEXT, Finding, cap_findings, cut

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
# Where a file or an option belongs, somebody may have given the text of a private key.
_PRIVATE_KEY: Final = (
    r"""(?s)`?-----BEGIN (?!ENCRYPTED)[A-Z ]*PRIVATE.*|\{[^{}]{0,4000}\\?["']kty\\?["'].*"""
)


def escape(text: str) -> str:
    """Return foreign text with everything escaped that could deceive a reader or a program.

    Passwords of URLs and private keys are left out.
    """
    # GitHub Actions, Azure Pipelines and TeamCity take `##[`, `##vso[` and `##teamcity[` for a
    # command, wherever in a line it stands.
    shown = re.sub(_RUNNER_COMMAND, r"#\\u{23}", hide_secrets(text))
    shown = re.sub(r"^(\s*):(?=:)", r"\1\\u{3a}", shown)  # GitHub's `::name::`, after blanks too
    if shown.isascii() and shown.isprintable():
        return shown
    from unicodedata import category  # seldom needed, and a library to load

    return "".join(
        f"\\u{{{ord(char):x}}}" if category(char) in _UNSAFE or re.match(_INVISIBLE, char) else char
        for char in shown
    )


def safe(text: str, *, limit: int = MAX_TEXT) -> str:
    """Return foreign text for a line: escaped where it could deceive, shortened where long."""
    return escape(cut(hide_secrets(text), limit))


#: Members of the JSON that hold what a signature covers, exactly.
_SIGNED: Final = frozenset({"card", "payload"})
#: Where a command's context says that `--quiet` was given, and which form results have.
QUIET: Final = "cardsign.quiet"
FORM: Final = "cardsign.form"
#: Where a command's context says that ``--dry-run`` was given.
DRY_RUN: Final = "cardsign.dry-run"


class Result(Protocol):
    """What a command shows: reports of the library are results, and so is an :class:`Answer`."""

    @property
    def exit_status(self) -> int:
        """What the command exits with."""

    def lines(self) -> Iterable[str]:
        """Return the result as text, line by line; the printer escapes each line."""

    def to_json(self) -> Any:
        """Return the result as a JSON value."""


class Answer(NamedTuple):
    """The result of a command whose library function returns plain data.

    Attributes:
        value: The JSON value.
        text: The same as text, for stdout.
        notes: What a person is told on stderr, where JSON is not asked for.
        exit_status: What the command exits with.
    """

    value: Any
    text: Iterable[str] = ()
    notes: Iterable[str] = ()
    exit_status: int = EXIT_OK

    def lines(self) -> Iterable[str]:
        """Return the text."""
        return self.text

    def to_json(self) -> Any:
        """Return the value."""
        return self.value


def show(result: Result, *, err: bool = False) -> int:
    """Print a result in the form that was asked for, and return its exit status.

    Args:
        result: Reports that have `scan_results()` can be printed as SARIF and as annotations, too.
        err: Text goes to stderr, as the command writes a document to stdout.
    """
    if asked_form() != "text":
        if text := render(result):
            click.echo(text, file=sys.stdout)
        return result.exit_status
    for line in result.lines():
        write_line(line, err=err)
    for note in result.notes if isinstance(result, Answer) else ():
        say(note)
    return result.exit_status


def render(result: Any) -> str:
    """Return a result in the form that was asked for, without a newline at the end."""
    form = asked_form()
    if form == "text":
        return "\n".join(map(escape, result.lines()))
    if form == "json":
        return json_text(result.to_json())
    if not hasattr(result, "scan_results"):
        raise UsageFault("usage.conflict", f"this command has no result as {form}")
    from cardsign.cli.sarif import annotation_lines, sarif_log

    if form == "sarif":
        return json_text(sarif_log(result.scan_results(), result.exit_status))
    return "\n".join(annotation_lines(result.scan_results()))


def write_line(line: str, *, err: bool = False) -> None:
    """Write one finished line; a stderr that cannot be written changes no verdict."""
    # Without a file click writes UTF-8 to a stream that can show ASCII alone.
    with contextlib.suppress(*((OSError,) if err else ())):
        click.echo(escape(line), file=sys.stderr if err else sys.stdout)


def _meta(name: str) -> Any:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(name)


def say(line: str, *, asked: bool = False) -> None:
    """Write one note on stderr; under ``--quiet`` only what an option has asked for.

    A dry run says of each note that it is one: what it tells of was not done.
    """
    if asked or not is_quiet():
        prefix = "cardsign: dry run: " if _meta(DRY_RUN) else "cardsign: "
        write_line(line if line.startswith(" ") else f"{prefix}{line}", err=True)


def is_quiet() -> bool:
    """Return whether ``--quiet`` was given to the command that runs now."""
    return bool(_meta(QUIET))


def asked_form() -> str:
    """Return how results are printed: ``text``, or what ``--json`` or ``--format`` names."""
    return _meta(FORM) or "text"


def is_json() -> bool:
    """Return whether JSON was asked for."""
    return asked_form() == "json"


def print_json(value: Any, *, indent: int | None = 2, file: IO[str] | None = None) -> None:
    """Print one JSON value, or write it to a file; in ASCII, which tricks no terminal.

    No password of a URL and no key is repeated, but in what was signed, which is data.

    A surrogate, which stands for an octet of a file name that is not UTF-8, is no character and
    would make the text unreadable to strict parsers (RFC 8259 8.2): it is escaped as by `safe`.
    """
    click.echo(json_text(value, indent=indent), file=file)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return a JSON value as text in ASCII, in which no runner of a pipeline finds a command."""
    import json

    value = _without_secrets(value)
    text = json.dumps(value, ensure_ascii=False)
    shown = re.sub(_SURROGATE, lambda match: f"\\\\u{{{ord(match[0]):x}}}", text)
    if shown != text:
        value = json.loads(shown)
    return escape_json(json.dumps(value, indent=indent))


def escape_json(text: str) -> str:
    """Return the text of a JSON value with no command of a pipeline's runner in it.

    ``#`` stands in strings alone, where the escape is the same character.
    """
    return re.sub(_RUNNER_COMMAND, r"#\\u0023", text)


def table_lines(columns: Mapping[str, int], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield one line for each row, its columns aligned; a terminal gets headings, too.

    Args:
        columns: The headings, each with the least width of its column.
        rows: A text for each column.
    """
    table = [tuple(row) for row in rows]
    if table and sys.stdout.isatty():
        table.insert(0, tuple(columns))
    for row in table:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, columns.values(), strict=True))
        yield "  ".join(cells).rstrip()


def whole(text: str) -> str:
    """Return what a statement says, for a terminal: escaped as ever, and never shortened."""
    return safe(text, limit=len(text))


def members(value: object, names: str) -> dict[str, Any]:
    """Return the named members of a value for programs: times as ISO 8601, and sets in order."""
    values: dict[str, Any] = {}
    for name in names.split():
        member = values[name] = getattr(value, name)
        if isinstance(member, datetime):
            values[name] = member.isoformat()
        elif isinstance(member, Mapping):
            values[name] = dict(member)
        elif isinstance(member, frozenset | tuple):
            values[name] = sorted(member) if isinstance(member, frozenset) else list(member)
    return values


def hide_secrets(text: str) -> str:
    """Return the text without passwords of URLs, and without private keys in the clear."""
    if "-----BEGIN" in text or "kty" in text:
        text = re.sub(_PRIVATE_KEY, "(not shown: it may be a key)", text)
    if "@" in text and ":/" in text:  # most texts hold none, and need no reader of URLs
        from cardsign.urls import without_passwords

        text = without_passwords(text)
    return text


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, dict):
        exact = _SIGNED.intersection(value)
        return {
            hide_secrets(name): member if name in exact else _without_secrets(member)
            for name, member in value.items()
        }
    return [*map(_without_secrets, value)] if isinstance(value, list | tuple) else value


def say_notes(notes: Iterable[Finding]) -> None:
    """Say notes of a report on stderr; under ``--quiet`` only what was refused."""
    for note in cap_findings(notes):
        _say_finding(note, is_asked=note.severity == "error")


def print_error(error: CardsignError) -> None:
    """Print an error: code, what and where, then what to do."""
    _say_finding(error.finding, is_asked=True)
    if error.hint:
        say(f"  {safe(error.hint, limit=600)}", asked=True)


def _say_finding(finding: Finding, *, is_asked: bool) -> None:
    where = str(finding.place)
    place = f" ({safe(where, limit=120)})" if where else ""
    say(f"{finding.code}: {safe(finding.message, limit=400)}{place}", asked=is_asked)
