"""The command ``cardsign``: its subcommands, and what every one of them has alike.

Every command has an example in its help, takes ``--quiet``, and reports its errors as JSON where
``--json`` is given. Each command's module is imported when the command is used, so that
``cardsign verify`` reaches its verdict without the web server's libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign import __version__
from cardsign.cli.talk import JSON, QUIET, as_named, printed, run
from cardsign.errors import CardsignError, UsageFault

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: What each command does in one line, so that help imports none of them.
_COMMANDS: Final = {
    "init": "Set up this folder: settings, keys, first statements.",
    "config": "Check cardsign.toml, and print its JSON Schema.",
    "keys": "Make, import, show, rotate and revoke keys.",
    "keyset": "Say which keys may sign for the issuer.",
    "release": "Sign the daily list of current cards.",
    "canonicalize": "Print exactly the bytes that a signature covers.",
    "sign": "Sign a card with every active key.",
    "resign": "Make and sign the copy of a card at a gateway.",
    "verify": "Verify cards and URLs, and say why or why not.",
    "fetch": "Fetch a card, verify it, and write what was verified.",
    "call": "Send a text to an agent whose card is trusted.",
    "trust": "Say which issuers to trust, and by which keys.",
    "peers": "Verify the cards of all issuers, and show their state.",
    "inspect": "Show what a card holds.",
    "explain": "Explain what each signature covers, and why one fails.",
    "build": "Build a card from an agent's files, or convert one.",
    "lint": "Find what is wrong with cards, and fix what can be.",
    "check": "Say what anyone can see of a card.",
    "contract": "Check tasks and responses against a verified card.",
    "drift": "Compare what is live with what was committed.",
    "diff": "Say what changed between two cards, and for whom.",
    "publish": "Publish a signed card with its key set.",
    "serve": "Serve a publication, and follow it as it changes.",
    "mcp": "Answer about cards as an MCP server.",
    "tokens": "Make, list and revoke bearer tokens.",
    "completion": "Print the completion code of a shell.",
    "help": "Show the help of a command, or what a code means.",
}
#: Where a command is that is not in the module of its name.
_ELSEWHERE: Final = {
    "call": "fetch:call",
    "canonicalize": "sign:canonicalize",
    "check": "lint:check",
    "config": "init:config",
    "contract": "lint:contract",
    "drift": "diff:drift",
    "inspect": "explain:inspect",
    "keyset": "statements:keyset",
    "release": "statements:release",
    "trust": "trust:trust_commands",
    "tokens": "serve:tokens",
    "completion": "commands:completion",
    "help": "commands:help_",
}
#: Commands and options that went before the first release, and what to do instead.
_INSTEAD: Final = {
    "bundle": "Run: cardsign verify CARD --issuer NAME --statements DIR",
    "keys backup": "Copy the folder of the keys: it is encrypted.",
    "keys rehearse": "Run: cardsign keys list --ahead",
    "keys restore": "Copy the folder of the keys back.",
    "keys show": "Run: cardsign keys list --json",
    "keys timeline": "Run: cardsign keys list --ahead",
    "keyset verify": "Run: cardsign keyset show FILE",
    "trust test": "Run: cardsign verify CARD --issuer NAME",
    "--explain": "Run: cardsign help RULE",
    "--against": "Run: cardsign diff SIGNED_CARD RECEIVED_CARD",
    "--enforce": "Leave it out; log what cardsign.examine_card says until the partner signs.",
    "--for": "Run: cardsign lint CARD --group portable",
    "--like": "Name the keys: --jwks FILE, with --accept sdk for an SDK's rule.",
    "--paranoid": "Leave it out: rfc8785 makes every payload.",
    "--tofu": "Leave it out: cardsign trust add URL pins what is published now.",
    "--words": "Compare the digest: --digest HEX",
}

JSON_OPTION: Final = click.Option(
    ["--json"],
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, given: context.meta.update({JSON: True} if given else {}),
    help="Print JSON on stdout.",
)
_QUIET: Final = click.Option(
    ["-q", "--quiet"],
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, is_quiet: context.meta.__setitem__(QUIET, is_quiet),
    help="Print no notes, progress or next steps; only results, alarms and errors.",
)


class Command(click.Command):
    """A command with an example in its help, with ``--quiet``, and with ``--json``."""

    def __init__(self, *settings: Any, example: str = "", **named: Any) -> None:
        super().__init__(*settings, **named)
        self.example = example
        self.params += [JSON_OPTION, _QUIET]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; refuse a second value, of which click would take the last in silence."""
        try:
            *_, given = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # which click leaves out where a value is missing
            if isinstance(error, click.NoSuchOption) and error.option_name in _INSTEAD:
                what = f"No such option '{error.option_name}'. {_INSTEAD[error.option_name]}"
                raise click.UsageError(what, ctx) from error
            raise
        for one in given if not ctx.resilient_parsing else ():
            if not isinstance(one, click.Option) or one.multiple or given.count(one) == 1:
                continue
            if not one.is_flag or one.secondary_opts:  # another flag says the same twice
                ctx.fail(f"option '{one.opts[-1]}' is given twice, and takes one value")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry it out; an error says which help to read, and names files that the user knows."""
        try:
            return super().invoke(ctx)
        except CardsignError as error:
            fix = error.hint
            if error.code in ("usage.invalid", "usage.conflict"):
                fix = fix or f"See {ctx.command_path} --help."
            finding = replace(error.finding, message=as_named(error.message), fix=fix)
            error.finding = finding.at(as_named(error.path))
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, one command a line."""
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Group(click.Group):
    """A group of such commands; what is mistyped gets a suggestion."""

    command_class = Command
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not args or args[0].startswith("-"):
                raise
            gone = _INSTEAD.get(f"{ctx.info_name} {args[0]}".removeprefix("cardsign "))
            instead = f". {gone}" if gone else _suggest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"No such command '{args[0]}'{instead}", ctx) from error


def _suggest(word: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(names), n=1)
    return f". Did you mean '{close[0]}'?" if close else ""


def command(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command: as `click.command`, with ``example=``."""
    return click.command(name, cls=Command, **settings)


def group(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Group]:
    """Make a function a group of commands."""
    return click.group(name, **{"cls": Group, **settings})


class _Root(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _ELSEWHERE.get(cmd_name, f"{cmd_name}:{cmd_name}").split(":")
        found: click.Command = getattr(import_module(f"cardsign.cli.{module}"), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))
        with formatter.section("Exit status"):
            formatter.write_dl(list(EXIT_STATUSES))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=summary)
            for name, summary in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]


#: What every command's exit status means.
EXIT_STATUSES: Final = (
    ("0", "trusted, clean, or done"),
    ("1", "not trusted, or something was found that needs action"),
    ("2", "wrong usage, or a fault of this machine; nothing is known about the card"),
    ("3", "no verdict: something needed was not available"),
)


@group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cardsign", message="%(prog)s %(version)s")
def command_line() -> None:
    """Sign, publish and verify A2A Agent Cards.

    A first signature takes three commands: keys generate, sign, verify.
    """


@command(
    "completion",
    example="cardsign completion bash > ~/.local/share/bash-completion/completions/cardsign",
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the code that makes SHELL complete cardsign's commands and options.

    bash: save it as ~/.local/share/bash-completion/completions/cardsign. zsh: save it as _cardsign
    in a folder of $fpath. fish: save it as ~/.config/fish/completions/cardsign.fish. Completion
    works in the next shell that you open.
    """
    from click.shell_completion import get_completion_class

    made: Any = get_completion_class(shell)
    try:
        code = made(command_line, {}, "cardsign", "_CARDSIGN_COMPLETE").source()
    except RuntimeError as error:
        raise UsageFault("usage.invalid", f"{shell}: {error}") from error
    if not printed({"shell": shell, "code": code}):
        click.echo(code)


@command("help", example="cardsign help verify\ncardsign help sig.bad")
@click.argument("words", nargs=-1, metavar="[COMMAND...|CODE]")
def help_(words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, as COMMAND --help does, or what CODE means.

    CODE is the code of an error, a reason or a finding, such as a rule of lint. "codes" lists them.
    """
    if len(words) == 1 and ("." in words[0] or words[0] == "codes"):
        text = "\n".join(_code_lines(words[0]))
    else:
        context = click.Context(command_line, info_name="cardsign")
        for word in words:
            asked = context.command
            if not isinstance(asked, click.Group):
                raise UsageFault("usage.invalid", f"{context.command_path} has no commands")
            _, found, _ = asked.resolve_command(context, [word])
            context = click.Context(found or asked, context, word)
        text = context.get_help()
    if not printed({"help": text}):
        click.echo(text)


def _code_lines(code: str) -> Iterator[str]:
    """Yield what a code means, or every code with its title for ``codes``."""
    from cardsign.cli.talk import wrapped
    from cardsign.findings import describe_code, list_codes

    if code == "codes":
        yield from (f"{name}: {describe_code(name).title}" for name in list_codes())
        return
    text = describe_code(code)
    if not text.title:
        raise UsageFault(
            "usage.invalid", f"there is no code {code!r}{_suggest(code, list_codes())}"
        )
    yield f"{code}: {text.title}"
    labelled = {"why": text.why, "fix": text.fix, "see": text.reference}
    labelled |= {"bad": "; ".join(text.bad), "good": "; ".join(text.good)}
    yield from (wrapped(label, words) for label, words in labelled.items() if words)


def run_words(words: Sequence[str]) -> int:
    """Carry out a command line, without the program's name, and return its exit status.

    Errors go to stderr, and where ``--json`` is given to stdout as well, as one object.
    """
    before = words[: words.index("--")] if "--" in words else words
    return run(
        lambda: command_line.main(list(words), prog_name="cardsign", standalone_mode=False),
        as_json="--json" in before,
    )


def main() -> None:
    """Entry point of the ``cardsign`` command."""
    sys.exit(run_words(sys.argv[1:]))
