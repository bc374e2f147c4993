"""What every command has alike: help, ``--json`` and ``--quiet``, errors and exit statuses.

A command is a function under ``@click.command(cls=Command)``. It reads its options, calls one
function of the library, and returns what :func:`cardsign.cli.printer.show` returns: the exit
status. ``docs/contributing/commands.md`` adds one, step by step.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign.cli.printer import FORM, QUIET, print_error, print_json, safe, write_line
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_OK,
    CardsignError,
    LocalFault,
    UsageFault,
    closest,
)
from cardsign.findings import ScanResult

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def moment() -> datetime:
    """Return the time of a command, to the second, as statements have it."""
    return datetime.now(UTC).replace(microsecond=0)


def choose_form(context: click.Context, _: click.Parameter, form: str | bool | None) -> None:
    """Take up what ``--json`` or ``--format`` says of how results are printed."""
    if not form or context.resilient_parsing:
        return
    chosen = "json" if form is True else str(form)
    earlier = context.meta.setdefault(FORM, chosen)
    if earlier != chosen:
        raise UsageFault("usage.conflict", "--json and --format ask for two formats")


#: Every command has these two.
_COMMON_OPTIONS: Final = (
    click.Option(
        ["--json"],
        is_flag=True,
        is_eager=True,  # what else is wrong is said in the form that was asked for
        expose_value=False,
        callback=choose_form,
        help="Print JSON on stdout.",
    ),
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=lambda context, _, is_quiet: context.meta.__setitem__(QUIET, is_quiet),
        help="Print results, alarms and errors alone.",
    ),
)


def _name_help(error: CardsignError, context: click.Context) -> None:
    """Say which help to read, where nothing else is advised."""
    if error.code in ("usage.invalid", "usage.conflict") and not error.finding.fix:
        error.finding = replace(error.finding, fix=f"See {context.command_path} --help.")


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
        """Read the words; an error says which help to read."""
        try:
            self._refuse_second_values(ctx, args)
            return super().parse_args(ctx, args)
        except CardsignError as error:
            _name_help(error, ctx)
            raise

    def _refuse_second_values(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse a second value of an option, of which click would take the last in silence."""
        try:
            *_, params = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # which click leaves out where a value is missing
            raise
        for param in params if not ctx.resilient_parsing else ():
            if not isinstance(param, click.Option) or param.multiple or params.count(param) == 1:
                continue
            if not param.is_flag or param.secondary_opts:  # another flag says the same twice
                ctx.fail(f"option '{param.opts[-1]}' is given twice, and takes one value")

    def invoke(self, ctx: click.Context) -> Any:
        """Carry it out; an error says which help to read, and names files that the user knows."""
        try:
            return super().invoke(ctx)
        except CardsignError as error:
            _name_help(error, ctx)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that most people need, then the advanced ones."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Advanced": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                is_advanced = not self.advanced.isdisjoint(param.opts)
                sections["Advanced" if is_advanced else "Options"].append(record)
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


class Group(click.Group):
    """A group of commands, which suggests a name for one that is mistyped.

    Args:
        sections: By title, the commands: each name with the place of its function, as
            ``MODULE:FUNCTION`` in ``cardsign.cli``, and one line of what it does. Such a command
            is imported when it is used. A group without sections has its commands added to it.
        exit_statuses: What is said of them below the commands.
    """

    command_class = Command
    group_class = type  # its groups are of this class, too

    def __init__(
        self,
        *settings: Any,
        sections: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
        exit_statuses: Sequence[tuple[str, str]] = (),
        **named: Any,
    ) -> None:
        super().__init__(*settings, **named)
        self.sections = sections or {}
        self.exit_statuses = exit_statuses
        self.places = {
            name: place for names in self.sections.values() for name, place in names.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the sections."""
        return list(self.places or self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it is one of the sections; else None."""
        if cmd_name not in self.places:
            return super().get_command(ctx, cmd_name)
        module, function = self.places[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(f"cardsign.cli.{module}"), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, with the other words."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not args or args[0].startswith("-"):
                raise
            hint = closest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"No such command '{args[0]}'{hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, then what an exit status means."""
        if not self.sections:
            super().format_commands(ctx, formatter)
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in names.items()])
        if self.exit_statuses:
            with formatter.section("Exit status"):
                formatter.write_dl(list(self.exit_statuses))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that fit, without importing their commands."""
        if not self.sections:
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        fitting = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in self.places.items()
            if name.startswith(incomplete)
        ]
        return [*fitting, *click.Command.shell_complete(self, ctx, incomplete)]


# How a command ends: every error is one clear line on stderr and the right exit status.

_DEBUG: Final = "CARDSIGN_DEBUG"  # set it to see the traceback of a crash
_COMPLETE: Final = "_CARDSIGN_COMPLETE"  # set by a shell that asks for completions
# Files are written elsewhere, under a name: here these can only mean standard output.
_UNWRITTEN: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run(command: Callable[[], object], *, form: str = "text") -> int:
    """Carry a command out and turn its end into an exit status.

    Args:
        command: The command; an int that it returns is the status.
        form: How results are to be printed. An error goes to stderr, and under ``json`` and
            ``sarif`` to stdout too: as ``{"error": {...}}``, or as a log of one notification.
    """
    if sys.stdout is None:  # closed by the caller; a file that is opened next would take its place
        _say_unwritten("is closed; nothing was done")
        write_line("  send it to /dev/null if you do not need it", err=True)
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
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"See {context.command_path if context else 'cardsign'} --help."
        message = " ".join(error.format_message().split()).rstrip(".")
        return _fail(UsageFault("usage.invalid", message, hint=hint), form)
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


def _fail(error: CardsignError, form: str) -> int:
    """Print what ended a command, and return its exit status."""
    print_error(error)
    shown: dict[str, Any] = {"error": error.finding.to_json()}
    if form == "sarif":
        from cardsign.cli.sarif import sarif_log

        shown = sarif_log([ScanResult("", [error.finding], is_fault=True)], error.exit_status)
    try:
        if form in ("json", "sarif"):
            print_json(shown)
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
