"""What all commands share: help, options, files, printing, errors and exit statuses.

A command is a function under ``@frame.command(...)``. It reads its options, calls one
function of the library, and returns what :func:`show` returns: the exit status.
``docs/contributing/commands.md`` adds one, step by step.

Results go to stdout, notes and errors to stderr. A result says what it holds in ``lines()`` and in
``to_json()``. Every finished line and every JSON text is escaped here, so that no word of a
stranger is read as a command by a terminal or by the runner of a pipeline. Under ``--dry-run``
nothing is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import click

from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_OK,
    CardsignError,
    FileFault,
    LocalFault,
    UsageFault,
    of_the_user,
)
from cardsign.findings import MAX_TEXT, Finding, cap_findings, cut

if TYPE_CHECKING:  # what a command loads that needs it
    from cardsign.jose.keys import JwkSet
    from cardsign.net.fetch import FetchSettings

# Output: all that the program prints.

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
# Where a file or an option belongs, somebody may have given the text of a private key, as PEM, in
# base64 or not, or as a JWK.
_PRIVATE_KEY: Final = (
    r"""(?s)`?-----BEGIN (?!ENCRYPTED)[A-Z ]*PRIVATE.*|\{[^{}]{0,4000}\\?["']kty\\?["'].*"""
    r"""|LS0tLS1CRUdJTi[A-Za-z0-9+/=\n]*"""
)
#: What only a file with a private key holds: PEM, a JWK of each kind, and an envelope of ours.
_KEY_FILE: Final = (
    rb'''PRIVATE KEY-----|"kty"[^{}]{0,4000}"d"\s*:|"d"\s*:[^{}]{0,4000}"kty"|"ciphertext"'''
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
    """What a command shows: a report of the library, or an :class:`Answer`."""

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
        result: What a command with ``--format`` shows has `scan_results()` too.
        err: Text goes to stderr, as the command writes a document to stdout.
    """
    form = asked_form()
    if form == "text":
        for line in result.lines():
            write_line(line, err=err)
        for note in getattr(result, "notes", ()):
            say(note)
    elif form == "json":
        print_json(result.to_json())
    else:
        from cardsign.cli.sarif import annotation_lines, sarif_log

        report: Any = result
        if form == "sarif":
            print_json(sarif_log(report.scan_results(), result.exit_status))
        else:
            for line in annotation_lines(report.scan_results()):
                click.echo(line, file=sys.stdout)
    return result.exit_status


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


def print_json(value: Any) -> None:
    """Print one JSON value in ASCII, so that no character in it can mislead a terminal.

    No password of a URL and no key is repeated, but in what was signed, which is data.

    A surrogate, which stands for an octet of a file name that is not UTF-8, is no character and
    would make the text unreadable to strict parsers (RFC 8259 8.2): it is escaped as by `safe`.
    """
    click.echo(json_text(value))


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return a JSON value as text in ASCII, in which no runner of a pipeline finds a command."""
    import json

    return escape_json(json.dumps(_without_secrets(value), indent=indent))


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


def members(value: object, names: str) -> dict[str, Any]:
    """Return the named members of a value for programs: times as ISO 8601, and sets in order."""
    values: dict[str, Any] = {}
    for name in names.split():
        member = values[name] = getattr(value, name)
        if isinstance(member, date):
            values[name] = member.isoformat()
        elif isinstance(member, Mapping):
            values[name] = dict(member)
        elif isinstance(member, frozenset | tuple):
            values[name] = sorted(member) if isinstance(member, frozenset) else list(member)
    return values


def hide_secrets(text: str) -> str:
    """Return the text without passwords of URLs, and without private keys in the clear."""
    if "-----BEGIN" in text or "kty" in text or "LS0tLS1CRUdJTi" in text:
        text = re.sub(_PRIVATE_KEY, "(not shown: it may be a key)", text)
    if "@" in text and ":/" in text:  # most texts hold none, and need no reader of URLs
        from cardsign.urls import without_passwords

        text = without_passwords(text)
    return text


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(_SURROGATE, lambda match: f"\\u{{{ord(match[0]):x}}}", hide_secrets(value))
    if isinstance(value, dict):
        return {
            _without_secrets(name): member if name in _SIGNED else _without_secrets(member)
            for name, member in value.items()
        }
    return [*map(_without_secrets, value)] if isinstance(value, list | tuple) else value


def say_notes(notes: Iterable[Finding]) -> None:
    """Say notes of a report on stderr; under ``--quiet`` only what was refused."""
    for note in cap_findings(notes):
        say_finding(note, asked=note.severity == "error")


def print_error(error: CardsignError) -> None:
    """Print an error: code, what and where, then what to do, once for those with the same fix."""
    say_with_hints((error.finding, *error.others), asked=True)


def say_with_hints(findings: Sequence[Finding], *, head: str = "", asked: bool = False) -> None:
    """Say findings on stderr, each hint once, after the last of those that have it."""
    for index, finding in enumerate(findings, 1):
        with_hint = finding.hint not in [later.hint for later in findings[index:]]
        say_finding(finding, head=head, asked=asked, with_hint=with_hint)


def say_finding(
    finding: Finding, *, head: str = "", asked: bool = False, with_hint: bool = False
) -> None:
    """Say a finding on stderr: its code, what and where, then what to do if that is wanted."""
    where = str(finding.place)
    place = f" ({safe(where, limit=120)})" if where else ""
    say(f"{head}{finding.code}: {safe(finding.message, limit=600)}{place}", asked=asked)
    if with_hint and finding.hint:
        say(f"  {safe(finding.hint, limit=600)}", asked=asked)


# Commands.


def moment() -> datetime:
    """Return the time of a command, to the second, as statements have it."""
    return datetime.now(UTC).replace(microsecond=0)


def choose_form(context: click.Context, _: click.Parameter, form: str | None) -> None:
    """Take up what ``--json`` or ``--format`` says of how results are printed."""
    if form and context.meta.setdefault(FORM, form) != form:
        raise UsageFault("usage.conflict", "--json and --format ask for two formats")


def _remember_quiet(context: click.Context, _: click.Parameter, is_quiet: bool) -> None:
    context.meta[QUIET] = is_quiet


#: Every command has these two.
_COMMON_OPTIONS: Final = (
    click.Option(
        ["--json"],
        flag_value="json",
        is_eager=True,  # what else is wrong is said in the form that was asked for
        expose_value=False,
        callback=choose_form,
        help="Print JSON on stdout.",
    ),
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_remember_quiet,
        help="Print only results, alarms and errors.",
    ),
)


@contextlib.contextmanager
def _naming_help(context: click.Context) -> Iterator[None]:
    """Say of an error which help to read, where nothing else is advised."""
    try:
        yield
    except click.UsageError as error:
        error.ctx = error.ctx or context  # which click leaves out where a value is missing
        raise
    except CardsignError as error:
        if error.code in ("usage.invalid", "usage.conflict") and not error.finding.fix:
            error.finding = replace(error.finding, fix=f"See {context.command_path} --help.")
        raise


class Command(click.Command):
    """A command with ``--json`` and ``--quiet``, examples, and a section of advanced options.

    Args:
        example: Command lines that run, one a line.
        advanced: Options that few people need, such as ``--at``: they are listed last.
    """

    def __init__(
        self, *settings: Any, example: str = "", advanced: Iterable[str] = (), **named: Any
    ) -> None:
        super().__init__(*settings, **named)
        self.example = example
        self.advanced = frozenset(advanced)
        self.params += _COMMON_OPTIONS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, each option once; an error says which help to read."""
        with _naming_help(ctx):
            *_, typed = self.make_parser(ctx).parse_args([*args])
            for option in () if ctx.resilient_parsing else typed:  # as completion asks for
                if typed.count(option) < 2:
                    continue
                if isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                    message = f"{option.opts[-1]} is given twice"
                    raise UsageFault("usage.conflict", message, hint="Give the option once.")
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry it out; an error says which help to read."""
        with _naming_help(ctx):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that most people need, then the advanced ones; say what repeats."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Advanced": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                is_advanced = not self.advanced.isdisjoint(param.opts)
                repeats = " May be repeated." if param.multiple else ""
                records = sections["Advanced" if is_advanced else "Options"]
                records.append((record[0], record[1] + repeats))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one command a line."""
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


#: Declares a command of the root, as ``@keys.command`` declares one of a group.
command: Final = partial(click.command, cls=Command)


class Group(click.Group):
    """A group of commands.

    Args:
        sections: By title, the commands: each name with the place of its function, as
            ``MODULE:FUNCTION`` in ``cardsign.cli``, and one line of what it does. Such a command
            is imported when it is used. A group without sections has its commands added to it.
    """

    command_class = Command
    group_class = type  # its groups are of this class, too

    def __init__(
        self,
        *settings: Any,
        sections: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*settings, **named)
        self.sections = sections or {}
        self.places = {
            name: place for names in self.sections.values() for name, (place, _) in names.items()
        }
        for name in self.places:  # click proposes one of these for a name that is mistyped
            self.add_command(click.Command(name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the sections."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it is one of the sections; else None."""
        if cmd_name in self.places:
            module, function = self.places[cmd_name].split(":")
            self.commands[cmd_name] = getattr(import_module(f"cardsign.cli.{module}"), function)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        if not self.sections:
            super().format_commands(ctx, formatter)
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in names.items()])


# Options, and the files that they name.

_Values = TypeVar("_Values")
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The type of an option or argument that is a file or a folder, which need not exist.
PATH: Final = click.Path(path_type=Path)
#: The same where only a file will do, or only a folder: for the help, and for what is there.
FILE: Final = click.Path(path_type=Path, dir_okay=False)
DIR: Final = click.Path(path_type=Path, file_okay=False)
STDIO: Final = "-"


def take(kind: type[_Values], options: dict[str, Any]) -> _Values:
    """Return the options that a dataclass has fields for, and take them out of `options`."""
    names = [field.name for field in fields(kind) if field.name in options]  # type: ignore[arg-type]
    return kind(**{name: options.pop(name) for name in names})


def read_pairs(option: str, form: str, texts: Iterable[str], *, hint: str = "") -> dict[str, str]:
    """Return what a repeated option such as ``--header NAME=VALUE`` says, by name.

    Raises:
        UsageFault: ``usage.invalid``: a text has another form; ``usage.conflict``: a name twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageFault("usage.invalid", f"{option} takes {form}, not {text!r}", hint=hint)
        if name in pairs:
            message = f"{option} names {name!r} twice"
            raise UsageFault("usage.conflict", message, hint="Name it once.")
        pairs[name] = value
    return pairs


# Files, and what is asked.


def read_input(name: str, *, max_bytes: int | None = None, insecure: bool | None = None) -> bytes:
    """Return a file's bytes, or standard input's for ``-``; one byte over the limit at most.

    The limit is that of a card where none is named. A URL is refused, unless `insecure` says
    whether this machine may be asked without TLS: then the card there is fetched.
    """
    from cardsign.card.strictjson import MAX_CARD_BYTES  # no help page reads a file
    from cardsign.files import read_bytes
    from cardsign.urls import is_url

    max_bytes = max_bytes or MAX_CARD_BYTES
    if is_url(name) and insecure is not None:
        from cardsign.net.fetch import fetch_card

        return fetch_card(name, fetch_settings(insecure)).untrusted_body
    if is_url(name):
        hint = "Fetch it first: cardsign fetch URL -o card.json, or curl -O URL for another file."
        raise UsageFault("usage.invalid", "expected a file, found a URL", path=name, hint=hint)
    if name == STDIO:
        data = sys.stdin.buffer.read(max_bytes + 1)
        if not data:
            hint = "Did the command before the pipe fail?"
            raise FileFault("file.unreadable", "standard input is empty", hint=hint)
        return data
    return read_bytes(Path(name), max_bytes=max_bytes, is_cut=True)


def read_jwks(name: str) -> JwkSet:
    """Read a set of public keys that the user hands over."""
    from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet  # which not every command needs

    with of_the_user(name):
        return JwkSet.from_bytes(read_input(name, max_bytes=MAX_JWKS_BYTES))


def write_output(name: str, data: bytes, *, plain: bool = False, is_exact: bool = False) -> None:
    """Write a file whole or not at all, in a dry run not at all; ``-`` is standard output.

    Args:
        name: The file's.
        data: Its bytes. In JSON on standard output a command of a pipeline's runner is escaped,
            which changes no value.
        plain: Follow no link: of names that the user did not type, a cloned folder may have made
            links.
        is_exact: Standard output gets these very bytes, since somebody takes their digest.
    """
    if name == STDIO and (asked_form() == "text" or not is_dry_run()):  # else the report is there
        is_json = data.startswith(b"{") and not is_exact
        sys.stdout.buffer.write(escape_json(data.decode()).encode() if is_json else data)
        sys.stdout.buffer.flush()
    elif not is_dry_run():
        from cardsign.files import write_atomic

        write_atomic(Path(name), data, plain=plain)


def check_output(output: str | None) -> str | None:
    """Refuse standard output for a document and a result both, and a file that is no document."""
    if output == STDIO and asked_form() != "text" and not is_dry_run():
        why = "the file and the report would both be written to standard output"
        raise UsageFault("usage.conflict", why, hint="Write the file elsewhere: -o FILE.")
    if output is not None and output.endswith(os.sep):
        message = "this is a folder, not a file"
        raise FileFault("file.unwritable", message, path=output, hint="Name a file.")
    if output is not None and Path(output).is_file():
        from cardsign.files import read_bytes

        data = read_bytes(Path(output), max_bytes=2**14, is_cut=True).lstrip(b"\xef\xbb\xbf \r\n\t")
        is_key = re.search(_KEY_FILE, data) is not None
        if is_key or (data and not data.startswith((b"{", b"[", b"-----BEGIN"))):
            message = "this file holds a private key" if is_key else "this file is no JSON or PEM"
            hint = "Write elsewhere: -o FILE. Or delete this file yourself."
            raise UsageFault("file.exists", f"{message}, and would be lost", path=output, hint=hint)
    return output


#: ``-o``: where the one document of a command goes; without a default, and to standard output.
file_option: Final = partial(
    click.option,
    "-o",
    "--output",
    metavar="FILE",
    callback=lambda _context, _option, output: check_output(output),
    help="'-' for stdout.",
)
output_option: Final = partial(file_option, default=STDIO)


# ``--dry-run``, which only says what would be done; and the question before what is final.


def _begin_dry_run(context: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        context.meta[DRY_RUN] = True
        context.call_on_close(lambda: say("nothing was changed"))


#: ``--dry-run``: change nothing.
dry_run_option: Final = click.option(
    "--dry-run",
    is_flag=True,
    expose_value=False,
    callback=_begin_dry_run,
    help="Change nothing: say what would be done.",
)


def is_dry_run() -> bool:
    """Return whether ``--dry-run`` was given to the command that runs now."""
    return bool(_meta(DRY_RUN))


def done(past: str, verb: str) -> str:
    """Return what a command did, by its verb: `past`; in a dry run what it would do."""
    return f"would {verb}" if is_dry_run() else past


def confirm(yes: bool, warning: str, *, hint: str = "Add --yes if you are sure.") -> None:
    """Ask before something final or unverified is done, unless ``--yes`` has answered.

    A dry run changes nothing, so it does not ask.
    """
    if yes or is_dry_run():
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        message = f"this needs confirmation, and there is no terminal to ask on: {warning}"
        raise UsageFault("usage.unanswered", message, hint=hint)
    if not click.confirm(f"cardsign: {safe(warning, limit=600)}. Go on?", err=True):
        message = f"the answer was no: {warning}"
        raise UsageFault("usage.unanswered", message, hint="Nothing was added or changed.")


yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask: this cannot be undone.")


#: ``--format``, for a command that prints more than text and JSON.
format_option: Final = partial(
    click.option, "--format", is_eager=True, expose_value=False, callback=choose_form
)


# Whom a command asks over the network.


def fetch_settings(insecure: bool) -> FetchSettings:
    """Return what ``--insecure-loopback-http`` allows, and the usual limits."""
    from cardsign.net.fetch import FetchSettings

    return FetchSettings(insecure_loopback_http=insecure)


network_option: Final = click.option(
    "--insecure-loopback-http",
    "insecure",
    is_flag=True,
    help="Allow URLs of this machine, also over plain HTTP; for trying things out.",
)


# How a command ends: every error is one clear line on stderr and the right exit status.

_DEBUG: Final = "CARDSIGN_DEBUG"  # set it to see the traceback of a crash
_COMPLETE: Final = "_CARDSIGN_COMPLETE"  # set by a shell that asks for completions
# Files are written elsewhere, under a name: here these can only mean standard output.
_UNWRITTEN: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run(command: Callable[[], object], *, form: str = "text") -> int:
    """Carry a command out and turn its end into an exit status.

    Args:
        command: The command; an int that it returns is the status.
        form: How results are to be printed. An error goes to stderr, and under ``json`` to
            stdout too: as ``{"error": {...}}``.
    """
    if sys.stdout is None:  # closed by the caller; a file that is opened next would take its place
        _say_unwritten("is closed; nothing was done")
        return EXIT_LOCAL_FAULT
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else EXIT_OK
    except CardsignError as error:
        return _fail(error, form)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command
        click.echo(error.format_message(), err=True)
        return EXIT_LOCAL_FAULT
    except click.ClickException as error:
        return _fail(_convert_usage(error), form)
    except (click.Abort, KeyboardInterrupt):
        write_line("cardsign: stopped", err=True)
        return EXIT_LOCAL_FAULT
    except SystemExit as end:
        if os.environ.get(_COMPLETE):  # click has answered the shell
            return end.code if isinstance(end.code, int) else EXIT_OK
        # Otherwise click ends so in one case: the reader of our output has left.
        return _end_unwritten(OSError(errno.EPIPE, os.strerror(errno.EPIPE)))
    except Exception as crash:
        if isinstance(crash, OSError) and crash.errno in _UNWRITTEN:
            return _end_unwritten(crash)
        if os.environ.get(_DEBUG):
            raise
        problem = f"{type(crash).__name__}: {safe(str(crash), limit=200)}"
        return _fail(LocalFault("internal.bug", problem), form)


def _convert_usage(error: click.ClickException) -> UsageFault:
    """Return the error for words that click refuses."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"See {context.command_path if context else 'cardsign'} --help."
    message = " ".join(error.format_message().split()).rstrip(".")
    kinds = map(type, context.command.params if context else [])
    if "extra argument" in message and click.Argument in kinds:
        hint = f"For several, repeat the command for each. {hint}"
    return UsageFault("usage.invalid", message, hint=hint)


def _fail(error: CardsignError, form: str) -> int:
    """Print what ended a command, and return its exit status."""
    print_error(error)
    try:
        if form == "json":
            others = [finding.to_json() for finding in error.others]
            print_json({"error": error.finding.to_json()} | ({"others": others} if others else {}))
    except OSError as fault:
        return _end_unwritten(fault)
    return error.exit_status


def _end_unwritten(fault: OSError) -> int:
    """End where the output was not read, so that the exit status does not look like a verdict."""
    if fault.errno != errno.EPIPE:  # a reader that has left, as head does, is not told
        _say_unwritten(f"cannot be written: {fault.strerror}")
    # What is still buffered would fail again when the interpreter ends, with a status of its own.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_LOCAL_FAULT


def _say_unwritten(problem: str) -> None:
    write_line(f"cardsign: file.unwritable: standard output {problem}", err=True)
