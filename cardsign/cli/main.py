"""The command ``cardsign``: its commands, and ``help`` and ``completion``.

A command's module is imported when the command is used, so that ``cardsign verify`` reaches its
verdict without the web server's libraries.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any, Final

import click

from cardsign import __version__
from cardsign.cli import frame
from cardsign.cli.frame import Answer, Group, show
from cardsign.errors import UsageFault, closest

_SECTIONS: Final = {
    "Start": {
        "init": ("project:init", "Set up this folder: settings, keys, first statements."),
        "keys": ("keys:keys", "Make, import, show, rotate and revoke keys."),
        "sign": ("sign:sign", "Sign a card with every active key."),
        "verify": ("verify:verify", "Verify cards and URLs, and say why or why not."),
    },
    "Verify others": {
        "trust": ("trust:trust_commands", "Say which issuers to trust, and by which keys."),
        "peers": ("verify:peers", "Verify the cards of all issuers, and show their state."),
        "inspect": ("cards:inspect", "Show a card, what its signatures cover, and its service."),
        "fetch": ("verify:fetch", "Fetch a card, verify it, and write what was verified."),
        "call": ("verify:call", "Send a text to an agent whose card is trusted."),
    },
    "Write cards": {
        "build": ("cards:build", "Build a card from an agent's files, or convert one."),
        "lint": ("cards:lint", "Find faults in cards, and fix what can be fixed."),
        "diff": ("cards:diff", "Compare two cards, and say whom a change breaks."),
        "contract": ("verify:contract", "Check tasks and responses against a verified card."),
    },
    "Publish": {
        "publish": ("project:publish", "Publish a signed card with its key set."),
        "serve": ("serve:serve", "Serve a publication, and follow it as it changes."),
        "tokens": ("serve:tokens", "Make, list and revoke bearer tokens."),
        "keyset": ("statements:keyset", "Say which keys may sign for the issuer."),
        "release": ("statements:release", "Sign the list of current cards."),
        "resign": ("sign:resign", "Sign a copy of a card for your gateway."),
    },
    "More": {
        "canonicalize": ("sign:canonicalize", "Print exactly the bytes that a signature covers."),
        "conformance": ("cards:conformance", "Check any verifier with attacks and vectors."),
        "mcp": ("mcp:mcp", "Serve card checks as MCP tools."),
        "config": ("project:config", "Check cardsign.toml, and print its JSON Schema."),
        "help": ("main:help_", "Show the help of a command, or what a code means."),
        "completion": ("main:completion", "Print the completion code of a shell."),
    },
}


@click.group(
    cls=Group,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="cardsign", message="%(prog)s %(version)s")
def command_line() -> None:
    """Sign, publish and verify A2A Agent Cards.

    A first signature takes three commands: keys generate, sign, verify.

    \b
    Exit status:
      0  trusted, clean, or done
      1  not trusted, or something was found that needs action
      2  wrong usage, or a fault of this machine; nothing is known about the card
      3  no verdict: something needed was not available
    """


@frame.command(
    example="cardsign completion bash > ~/.local/share/bash-completion/completions/cardsign"
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> int:
    """Print the code that makes SHELL complete cardsign's commands and options.

    bash: save it as ~/.local/share/bash-completion/completions/cardsign. zsh: save it as _cardsign
    in a folder of $fpath. fish: save it as ~/.config/fish/completions/cardsign.fish. Completion
    works in the next shell that you open.
    """
    from click.shell_completion import get_completion_class

    completer: Any = get_completion_class(shell)
    code = completer(command_line, {}, "cardsign", "_CARDSIGN_COMPLETE").source()
    return show(Answer({"shell": shell, "code": code}, code.splitlines()))


@frame.command("help", example="cardsign help verify\ncardsign help sig.bad")
@click.argument("words", nargs=-1, metavar="[COMMAND...|CODE]")
def help_(words: tuple[str, ...]) -> int:
    """Show the help of COMMAND, as COMMAND --help does, or what CODE means.

    CODE is the code of an error, a reason or a finding, such as a rule of lint. "codes" lists them.
    """
    if len(words) == 1 and ("." in words[0] or words[0] == "codes"):
        lines = [*_code_lines(words[0])]
    else:
        with redirect_stdout(io.StringIO()) as printed:
            command_line.main([*words, "--help"], prog_name="cardsign", standalone_mode=False)
        lines = printed.getvalue().splitlines()
    return show(Answer({"help": "\n".join(lines)}, lines))


def _code_lines(code: str) -> Iterator[str]:
    """Yield what a code means, or every code with its title for ``codes``."""
    from cardsign.findings import describe_code, labelled_lines, list_codes

    if code == "codes":
        yield from (f"{name}: {describe_code(name).title}" for name in list_codes())
        return
    text = describe_code(code)
    if not text.title:
        raise UsageFault("usage.invalid", f"there is no code {code!r}{closest(code, list_codes())}")
    yield f"{code}: {text.title}"
    labelled = {"why": text.why, "fix": text.fix, "see": text.reference}
    labelled |= {"bad": "; ".join(text.bad), "good": "; ".join(text.good)}
    for label, words in labelled.items():
        yield from labelled_lines(label, words) if words else ()


def run_words(words: Sequence[str]) -> int:
    """Carry out a command line, without the program's name, and return its exit status.

    Errors go to stderr, and where JSON or SARIF is asked for to stdout as well.
    """
    # Read here too, since the words may be wrong before click has come to the option.
    options = words[: words.index("--")] if "--" in words else words
    asked = re.search(r"(?m)^(?:--json|--format[\n=](json|sarif))$", "\n".join(options))
    return frame.run(
        lambda: command_line.main(list(words), prog_name="cardsign", standalone_mode=False),
        form=(asked[1] or "json") if asked else "text",
    )


def main() -> None:
    """Entry point of the ``cardsign`` command."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # in a locale that cannot show a character
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if not sys.warnoptions:  # what libraries tell developers is no message to a user
        warnings.simplefilter("ignore")
    sys.exit(run_words(sys.argv[1:]))
