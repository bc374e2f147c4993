"""What goes where: stdout is data, stderr is talk, and no card's words reach a terminal raw."""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

import click

from cardsign.reasons import Reason

# Categories that move the cursor, reorder text or hide in it: controls, formats (bidi,
# zero-width, tags), surrogates, private use, unassigned, line and paragraph separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing, so that two names differ and look alike: the rest of
# Unicode's Default_Ignorable_Code_Point, and the blank braille pattern.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
DEFAULT_LIMIT: Final = 200  # characters of foreign text shown in one place


def safe(text: str, *, limit: int = DEFAULT_LIMIT) -> str:
    """Foreign text for a terminal: escaped where it could deceive, shortened where long."""
    shown = "".join(
        f"\\u{{{ord(char):x}}}" if _deceives(char) else char for char in text[: limit + 1]
    )
    return shown if len(text) <= limit else shown[: limit - 3] + "..."


def _deceives(char: str) -> bool:
    return unicodedata.category(char) in _UNSAFE or bool(_INVISIBLE.match(char))


def say(line: str) -> None:
    """One line of talk, on stderr; that nobody can hear it changes no verdict."""
    with contextlib.suppress(OSError):
        click.echo(f"cardsign: {line}" if not line.startswith(" ") else line, err=True)


def say_notes(notes: Iterable[Reason]) -> None:
    """Notes of a report, one line each, on stderr."""
    for note in notes:
        where = f" ({safe(note.path, limit=120)})" if note.path else ""
        say(f"{note.code}: {safe(note.message, limit=300)}{where}")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value on stdout; ASCII, so that no card can play tricks on a terminal.

    A surrogate, which stands for an octet of a file name that is not UTF-8, is no character and
    would make the text unreadable to strict parsers (RFC 8259 8.2): it is escaped as by `safe`.
    """
    text = json.dumps(value, ensure_ascii=False)
    if _SURROGATE.search(text):
        value = json.loads(_SURROGATE.sub(lambda one: f"\\\\u{{{ord(one[0]):x}}}", text))
    click.echo(json.dumps(value, indent=indent, ensure_ascii=True))
