"""Puts what a run has found into a page, between the comments that name it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Final

_WIDTH: Final = 98  # columns of prose, without the indent of an item


def fill(text: str, parts: Mapping[str, Iterable[str]]) -> str:
    """Return a page with the lines of each part after its comment, ``<!-- NAME -->``."""
    for name, lines in parts.items():
        begin = f"<!-- {name} -->\n"
        assert text.count(begin) == 1, name
        body = "\n".join(lines)
        pattern = rf"{re.escape(begin)}.*?(?=\n<!-- end -->\n)"
        text = re.sub(pattern, lambda _: begin + body, text, flags=re.DOTALL)  # noqa: B023
    return text


def rewrite(page: Path, parts: Mapping[str, Iterable[str]]) -> None:
    """Fill a page."""
    page.write_text(fill(page.read_text("utf-8"), parts), encoding="utf-8")


def prose(text: str) -> list[str]:
    """Return the lines of a paragraph."""
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def header(*names: str) -> tuple[str, str]:
    """Return the head of a table."""
    return line(*names), "|" + "---|" * len(names)


def line(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"
