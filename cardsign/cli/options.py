"""What commands read, write and ask, and the options that any command may have.

Under ``--dry-run`` nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.frame import choose_form
from cardsign.cli.printer import DRY_RUN, asked_form, escape_json, safe, say
from cardsign.errors import UsageFault, of_the_user
from cardsign.files import create_private, read_bytes, write_atomic
from cardsign.urls import is_url

if TYPE_CHECKING:  # an HTTP client, which most commands do not need
    from cardsign.jose.keys import JwkSet
    from cardsign.net.fetch import FetchSettings

_Values = TypeVar("_Values")
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The type of an option or argument that is a file or a folder, which need not exist.
PATH: Final = click.Path(path_type=Path)
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


def read_input(name: str, *, max_bytes: int = MAX_CARD_BYTES) -> bytes:
    """Return a file's bytes, or standard input's for ``-``; one byte over the limit at most."""
    if is_url(name):
        hint = "Fetch it first: cardsign fetch URL -o card.json, or curl -O URL for another file."
        raise UsageFault("usage.invalid", "expected a file, and found a URL", path=name, hint=hint)
    if name == STDIO:
        return sys.stdin.buffer.read(max_bytes + 1)
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
    if name == STDIO:
        is_json = data.startswith(b"{") and not is_exact
        sys.stdout.buffer.write(escape_json(data.decode()).encode() if is_json else data)
        sys.stdout.buffer.flush()
    elif not is_dry_run():
        write_atomic(Path(name), data, plain=plain)


def write_secret(path: Path, data: bytes) -> None:
    """Write a new file that only the user can read (mode 0600)."""
    if not is_dry_run():
        create_private(path, data)


def refuse_two_documents(output: str | None) -> None:
    """Refuse to write a document of the command and its result both to standard output."""
    if output == STDIO and asked_form() != "text":
        why = "the file and the report would both be written to standard output"
        raise UsageFault("usage.conflict", why, hint="Write the file elsewhere: -o FILE.")


def _take_output(_context: click.Context, _option: click.Parameter, output: str) -> str:
    refuse_two_documents(output)
    return output


#: ``-o``: where the one document of a command goes.
output_option: Final = click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=STDIO,
    callback=_take_output,
    help="'-' for stdout, the default.",
)


# ``--dry-run``: the command looks, and says what it would do; and what is final asks first.


def begin_dry_run(context: click.Context, _: click.Parameter, is_given: bool) -> bool:
    """Begin a dry run if the option was given, and return whether it was."""
    if is_given and DRY_RUN not in context.meta:
        context.meta[DRY_RUN] = True
        context.call_on_close(lambda: say("nothing was changed"))
    return is_given


#: ``--dry-run``: change nothing.
dry_run_option: Final = click.option(
    "--dry-run",
    is_flag=True,
    expose_value=False,
    callback=begin_dry_run,
    help="Change nothing: say what would be done.",
)


def is_dry_run() -> bool:
    """Return whether ``--dry-run`` was given to the command that runs now."""
    context = click.get_current_context(silent=True)
    return context is not None and DRY_RUN in context.meta


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
        message = f"this needs a yes, and there is no terminal: {warning}"
        raise UsageFault("usage.unanswered", message, hint=hint)
    if not click.confirm(f"cardsign: {safe(warning, limit=600)}. Go on?", err=True):
        message = f"the answer was no: {warning}"
        raise UsageFault("usage.unanswered", message, hint="Nothing was added or changed.")


yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask: this cannot be undone.")


def format_option(*forms: str, text: str = "") -> Callable[[_Function], _Function]:
    """Return ``--format``; :func:`cardsign.cli.printer.show` prints what it names.

    Args:
        forms: What the command can print besides text.
        text: What is said of them in the help.
    """
    return click.option(
        "--format",
        type=click.Choice(("text", *forms)),
        is_eager=True,
        expose_value=False,
        callback=choose_form,
        help=f"How results are printed [default: text]{text}.",
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
