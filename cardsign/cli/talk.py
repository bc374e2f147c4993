"""What goes where: stdout is data, stderr is talk, and no card's words reach a terminal raw."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

import click

from cardsign.reasons import Reason

# Categories that move the cursor, reorder text or hide in it: controls, formats (bidi,
# zero-width, tags), surrogates, private use, unassigned, line and paragraph separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
DEFAULT_LIMIT: Final = 200  # characters of foreign text shown in one place


def safe(text: str, *, limit: int = DEFAULT_LIMIT) -> str:
    """Foreign text for a terminal: escaped where it could deceive, shortened where long."""
    shown = "".join(
        char if unicodedata.category(char) not in _UNSAFE else f"\\u{{{ord(char):x}}}"
        for char in text[: limit + 1]
    )
    return shown if len(text) <= limit else shown[: limit - 3] + "..."


def say(line: str) -> None:
    """One line of talk, on stderr."""
    click.echo(f"cardsign: {line}" if not line.startswith(" ") else line, err=True)


def say_notes(notes: Iterable[Reason]) -> None:
    """Notes of a report, one line each, on stderr."""
    for note in notes:
        where = f" ({safe(note.path, limit=120)})" if note.path else ""
        say(f"{note.code}: {safe(note.message, limit=300)}{where}")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value on stdout; ASCII, so that no card can play tricks on a terminal."""
    click.echo(json.dumps(value, indent=indent, ensure_ascii=True))
