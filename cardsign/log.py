"""Standard logging under ``cardsign``: quiet, unless the program that uses the package listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger(name: str) -> Logger:
    """The logger of a module, asked for when there is something to say: most runs say nothing."""
    import logging

    root = logging.getLogger("cardsign")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return logging.getLogger(name)
