"""Whom a card is to be fit for, and which rules that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cardsign.card.strictjson import Json
from cardsign.errors import UsageFault
from cardsign.lint.portable import check_js_resolver, check_portable, check_py_1_1
from cardsign.lint.rules import Finding

_Check = Callable[[Mapping[str, Json]], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of reader, or all of them.

    Attributes:
        name: What ``--for`` takes; its own rules carry it in their ids.
        summary: What a card without findings is; for after that verb.
        checks: All that it takes, those of other targets included.
    """

    name: str
    summary: str
    checks: tuple[_Check, ...]


TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        Target(
            "portable",
            "one for which the four default profiles make the same bytes, so that one signature "
            "serves them all",
            (check_portable,),
        ),
        Target(
            "js-resolver",
            "portable, and the client of @a2a-js/sdk (1.0.1 to 1.3.0) verifies it by the same "
            "bytes (profile `js-instance`)",
            (check_portable, check_js_resolver),
        ),
        Target(
            "py-1.1",
            "portable, and a2a-sdk 1.0.0 to 1.1.3 verifies it by the same bytes (profile "
            "`sdk-1.0-legacy`)",
            (check_portable, check_py_1_1),
        ),
    )
}


def lint_document(document: Mapping[str, Json], target: str = "portable") -> tuple[Finding, ...]:
    """List what makes a card unfit for a target, in document order by group of rules.

    Says nothing of whether the card is complete, true or wise, nor of its signatures.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it: what that
            refuses, such as a duplicate member or 2^53, no rule looks for.
        target: A name of :data:`TARGETS`.

    Raises:
        UsageFault: ``usage.conflict``: there is no such target.
    """
    if target not in TARGETS:
        known = ", ".join(TARGETS)
        raise UsageFault("usage.conflict", f"unknown target {target!r}; known are {known}")
    return tuple(finding for check in TARGETS[target].checks for finding in check(document))
