"""How a command ends: every error is one clear line on stderr and the right exit status.

click's own statuses are remapped, for 1 means "not trusted" here and nothing else may say so.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from cardsign.cli.talk import safe, say
from cardsign.errors import EXIT_LOCAL_FAULT, EXIT_OK, CardsignError, UsageFault
from cardsign.reasons import hint_for

_DEBUG: str = "CARDSIGN_DEBUG"  # set it to see the traceback of a crash
# Files are written elsewhere, under a name: here these can only mean standard output.
_UNWRITTEN: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# What click 8.2 raises for a group without a command; before that it printed help by itself.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def run(command: Callable[[], object]) -> int:
    """Carry a command out and turn whatever ends it into an exit status."""
    if sys.stdout is None:  # closed by the caller; a file that is opened next would take its place
        say("file.unwritable: standard output is closed; nothing was done")
        say("  send it to /dev/null if nobody is to hear it")
        return EXIT_LOCAL_FAULT
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else EXIT_OK
    except CardsignError as error:
        complain(error)
        return error.exit_status
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        if isinstance(error, _HELP):
            click.echo(error.format_message(), err=True)
        else:
            complain(_usage_fault(error))
        return EXIT_LOCAL_FAULT
    except (click.Abort, KeyboardInterrupt):
        say("stopped")
        return EXIT_LOCAL_FAULT
    except SystemExit:
        # Without its standalone mode click ends so in one case: whoever read our output has left.
        return _unwritten(OSError(errno.EPIPE, os.strerror(errno.EPIPE)))
    except Exception as crash:
        if isinstance(crash, OSError) and crash.errno in _UNWRITTEN:
            return _unwritten(crash)
        if os.environ.get(_DEBUG):
            raise
        say(f"internal error: {type(crash).__name__}: {safe(str(crash), limit=200)}")
        say(f"  this is a bug in cardsign; set {_DEBUG}=1 to see where")
        return EXIT_LOCAL_FAULT


def _unwritten(fault: OSError) -> int:
    """The verdict was not heard, so the exit status must not be taken for one."""
    if fault.errno != errno.EPIPE:  # whoever has left, as head does, need not be told
        say(f"file.unwritable: standard output cannot be written: {fault.strerror}")
    # What is still buffered would fail again when the interpreter ends, with a status of its own.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_LOCAL_FAULT


def _usage_fault(error: click.ClickException) -> UsageFault:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "cardsign"
    message = " ".join(error.format_message().split()).rstrip(".")
    return UsageFault("usage.invalid", message, hint=f"See {command} --help.")


def complain(error: CardsignError) -> None:
    """Print an error: code, what and where, then what to do."""
    place = f" ({safe(error.place, limit=120)})" if error.place else ""
    say(f"{error.code}: {safe(error.message, limit=300)}{place}")
    hint = error.hint or hint_for(error.code)
    if hint:
        say(f"  {hint}")
