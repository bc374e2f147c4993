"""Which judges there are, as data: what each runs, where it is installed, how it is asked.

A *program* is one process, a *verifier* one way of asking it; the table has one row for each.
README.md says how to add one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.interop.judges import Judge, Path_

_HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Program:
    """One judge.

    Attributes:
        name: Stays when the version changes.
        language: What it is written in.
        variable: The environment variable that says where `nox -s judges rust` has put it;
            empty where it runs under our own interpreter.
        command: Its words; ``{}`` stands for the variable's value.
        environment: Likewise.
    """

    name: str
    language: str
    variable: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """Where it is; None if it is not installed."""
        return os.environ.get(self.variable) or None if self.variable else sys.executable

    def start(self) -> Judge:
        """Start it; only where it is installed."""
        place = self.place or ""
        words = [word.format(place, here=_HERE) for word in self.command]
        return Judge(words, {name: value.format(place) for name, value in self.environment.items()})


@dataclass(frozen=True, slots=True)
class Verifier:
    """One way of asking a program whether a card is good.

    Attributes:
        name: As the table and exceptions.json spell it.
        program: Which one.
        path: The request's `path`.
        asked: How, in a few words.
        payload: Our profile of what it verifies.
    """

    name: str
    program: str
    path: Path_
    asked: str
    payload: str


def _node(name: str, file: str) -> Program:
    command, home = ("node", f"{{here}}/{file}"), {"A2A_JS_HOME": "{}"}
    return Program(name, "JavaScript", "CARDSIGN_JUDGE_JS_HOME", command, home)


PROGRAMS: Final = {
    program.name: program
    for program in (
        Program("a2a-sdk", "Python", "CARDSIGN_JUDGE_PY", ("{}", "{here}/judge_a2a_sdk.py")),
        _node("a2a-js", "judge_a2a_js.mjs"),
        Program("a2a-protocol-types", "Rust", "CARDSIGN_JUDGE_RUST", ("{}",)),
        Program("joserfc", "Python", "", ("{}", "{here}/judge_joserfc.py")),
        _node("jose", "judge_jose.mjs"),
    )
}

_RESOLVER: Final = "its card resolver"
_SERVED: Final = "the JSON as served"
_BY_HAND: Final = f"{_SERVED}, by hand"
VERIFIERS: Final = {
    verifier.name: verifier
    for verifier in (
        Verifier("a2a-sdk", "a2a-sdk", "resolver", _RESOLVER, "prune-empty-upgraded"),
        Verifier("a2a-js plain", "a2a-js", "plain", _SERVED, "prune-empty"),
        Verifier("a2a-js resolver", "a2a-js", "resolver", _RESOLVER, "js-instance"),
        Verifier("a2a-protocol-types", "a2a-protocol-types", "plain", _SERVED, "rule-1-as-written"),
        Verifier("joserfc", "joserfc", "plain", _BY_HAND, "served-as-is"),
        Verifier("jose", "jose", "plain", _BY_HAND, "served-as-is"),
    )
}
