"""What each code means, from ``codes.toml``; read when a code is shown, never for a verdict."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CodeText:
    """What is said of one code.

    Attributes:
        title: What it means; one sentence.
        why: What follows from that, and for whom; may be empty.
        fix: What a person can do about it.
        reference: Where it comes from; may be empty.
        bad: Of a rule of lint: what makes a sound card break it.
        good: Of a rule of lint: what it accepts, close to that.
    """

    title: str = ""
    why: str = ""
    fix: str = ""
    reference: str = ""
    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()


@cache
def _registry() -> str:
    return Path(__file__).with_name("codes.toml").read_text("utf-8")


def list_codes() -> tuple[str, ...]:
    """Return every code, in the order of the registry."""
    lines = _registry().splitlines()
    return tuple(line[2:-2] for line in lines if line.startswith('["'))


@cache
def describe_code(code: str) -> CodeText:
    """Return what a code means. Every text is empty for a code that there is not.

    One table is parsed: to parse them all takes as long as to start Python.
    """
    start = _registry().find(f'\n["{code}"]\n') + 1
    if not start:
        return CodeText()
    members: dict[str, Any] = tomllib.loads(_registry()[start:].partition("\n\n")[0])[code]
    bad, good = (tuple(members.pop(name, ())) for name in ("bad", "good"))
    return CodeText(**members, bad=bad, good=good)
