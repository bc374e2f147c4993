"""How commands ask live peers: one option, one way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # an HTTP client, which a verdict on a file does not need
    from cardsign.net.asker import Asker

_Command = TypeVar("_Command", bound=Callable[..., Any])


def loopback_option(command: _Command) -> _Command:
    """``--insecure-loopback-http``: ask this machine, and without TLS."""
    return click.option(
        "--insecure-loopback-http",
        is_flag=True,
        help="Ask URLs of this machine, over plain HTTP too; for trying things out.",
    )(command)


def make_asker(now: Callable[[], datetime], insecure_loopback_http: bool) -> Asker:
    """Asks peers for documents, and keeps them as long as this command runs."""
    from cardsign.net.asker import Asker
    from cardsign.net.fetch import FetchPolicy, Wire

    policy = FetchPolicy(insecure_loopback_http=insecure_loopback_http)
    return Asker(Wire(policy), now=now)


def is_url(name: str) -> bool:
    """Whether a word of the command line is a URL rather than a file."""
    return name.startswith(("https://", "http://"))
