"""``--dry-run``: the command looks, and says what it would do; and what is final asks first."""

from __future__ import annotations

import sys
from typing import Final

import click

from cardsign.cli.printer import DRY_RUN, safe, say
from cardsign.errors import UsageFault


def begin_dry_run(context: click.Context, _: click.Parameter, is_given: bool) -> bool:
    """What an option begins, if it is given, that makes the command a dry run."""
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
    """Whether ``--dry-run`` was given to the command that runs now."""
    context = click.get_current_context(silent=True)
    return context is not None and DRY_RUN in context.meta


def done(past: str, verb: str) -> str:
    """What a command did, by its verb: `past`; in a dry run what it would do."""
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
