"""Reading a card that is to be explained, even one that a verifier refuses to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cardsign.card.document import MAX_SIGNATURES, Card, Generation
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH, Json, parse_object
from cardsign.errors import CardRefused, InputRefused, JsonRefused
from cardsign.explain.report import Problem
from cardsign.reasons import hint_for

# Short excerpts: of a text around a place, of a card around a member, of one value.


MAX_SHOWN: Final = 80  # characters of one value, or of one line of the input
_AROUND: Final = 1  # lines, or members, before and behind the one that is meant
_HERE, _BESIDE = "> ", "  "


def shown(value: Json) -> str:
    """A value as compact JSON, shortened where long; still foreign text."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def at(document: Json, tokens: Sequence[str]) -> Json:
    """The value at the place to which reference tokens lead.

    Raises:
        KeyError: There is none.
    """
    for token in tokens:
        if isinstance(document, dict):
            document = document[token]
        elif isinstance(document, list) and token.isdecimal() and int(token) < len(document):
            document = document[int(token)]
        else:
            raise KeyError(token)
    return document


def members_around(document: Mapping[str, Json], tokens: Sequence[str]) -> tuple[str, ...]:
    """The member or element at a place, one line for it and each neighbour."""
    parent, last = at(dict(document), tokens[:-1]), tokens[-1]
    if isinstance(parent, dict):
        here = next(number for number, name in enumerate(parent) if name == last)
    elif isinstance(parent, list):
        here = int(last)
    else:
        return ()
    first = max(0, here - _AROUND)
    children: Iterable[tuple[str | int, Json]] = (
        parent.items() if isinstance(parent, dict) else enumerate(parent)
    )
    return tuple(
        f"{_HERE if number == here else _BESIDE}{_called(token)} {shown(child)}"
        for number, (token, child) in enumerate(islice(children, first, here + _AROUND + 1), first)
    )


def _called(token: str | int) -> str:
    return f"[{token}]" if isinstance(token, int) else f"{shown(token)}:"


def lines_around(data: bytes, line: int | None, column: int | None) -> tuple[str, ...]:
    """The lines of an input around a place, each cut to a window about the place's column."""
    if line is None or column is None or not data:
        return ()
    lines = data.decode("utf-8", errors="replace").split("\n")
    start = max(0, column - 1 - MAX_SHOWN // 2)
    first = max(0, line - 1 - _AROUND)
    return tuple(
        (_HERE if number == line else _BESIDE) + text[start : start + MAX_SHOWN]
        for number, text in enumerate(lines[first : line + _AROUND], first + 1)
    )


#: Entries of `signatures` that are explained; four times as many as a verifier looks at, so that
#: a card with some too many is explained whole.
MAX_LISTED: Final = 4 * MAX_SIGNATURES


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read, and what stands against it.

    Attributes:
        document: None where not even a lenient reader sees an object.
        generation: None where the card is ambiguous or unreadable.
        signatures: The first `MAX_LISTED` entries.
        left_out: How many more there are.
        problems: Why a verifier would refuse the card.
        read_on: `document` is what a lenient reader sees.
    """

    document: Mapping[str, Json] | None
    generation: Generation | None
    signatures: tuple[Json, ...]
    left_out: int
    problems: tuple[Problem, ...]
    read_on: bool


def read_card(untrusted_bytes: bytes) -> Reading:
    """Read a card strictly; where that fails say why, and read on as others would."""
    problems = []
    try:
        document: Mapping[str, Json] | None = parse_object(untrusted_bytes)
    except JsonRefused as refusal:
        problems.append(problem_of(refusal, untrusted_bytes))
        document = _read_leniently(untrusted_bytes)
    if document is None:
        return Reading(None, None, (), 0, tuple(problems), False)
    read_on = bool(problems)
    generation, refusals = _generation(document)
    problems.extend(problem_of(refusal) for refusal in refusals)
    if "signature" in document and not document.get("signatures"):
        message = "the `signature` member is no A2A signature and is not looked at"
        code = "card.single_signature_block"
        problems.append(Problem(code, message, "/signature", hint=hint_for(code)))
    entries = document.get("signatures")
    signatures = tuple(entries) if isinstance(entries, list) else ()
    listed, left_out = signatures[:MAX_LISTED], len(signatures[MAX_LISTED:])
    return Reading(document, generation, listed, left_out, tuple(problems), read_on)


def problem_of(refusal: InputRefused, untrusted_bytes: bytes = b"") -> Problem:
    """A refusal as data, with the lines of the input around its place where it has one."""
    return Problem(
        refusal.code,
        refusal.message,
        refusal.path,
        refusal.line,
        refusal.column,
        refusal.hint or hint_for(refusal.code),
        lines_around(untrusted_bytes, refusal.line, refusal.column),
    )


def _generation(document: Mapping[str, Json]) -> tuple[Generation | None, list[CardRefused]]:
    refusals: list[CardRefused] = []
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    for shown in (document, unsigned):
        try:
            return Card.from_object(shown).generation, refusals
        except CardRefused as refusal:
            refusals.append(refusal)
    return None, refusals[:1]  # what is ambiguous is so with signatures or without


def _read_leniently(untrusted_bytes: bytes) -> dict[str, Json] | None:
    """The object that most JSON readers would see: the last of two members, any number.

    For the explanation alone. Nothing that is read so is ever called trusted.
    """
    if len(untrusted_bytes) > MAX_CARD_BYTES:
        return None
    try:
        text = untrusted_bytes.decode("utf-8-sig").lstrip(" \t\r\n")
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _is_shallow(value) else None


def _is_shallow(document: dict[str, Json]) -> bool:
    level: list[Json] = [document]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return not any(isinstance(child, dict | list) for child in level)
