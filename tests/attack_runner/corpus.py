"""The attack corpus as data: tests/attacks/README.md is the format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from cardsign.testing.conformance import Description, describe_bytes, read_file

CORPUS: Final = Path(__file__).resolve().parents[1] / "attacks"
FORMAT: Final = "cardsign-attacks/2"


@dataclass(frozen=True)
class Attack:
    """One file of the corpus.

    Attributes:
        name: The file's name without its ending, such as `007-crit`.
        about: The whole document.
    """

    name: str
    about: Mapping[str, Any]
    _known: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def number(self) -> int:
        """Its number, unique in the corpus."""
        return int(self.about["number"])

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return str(self.about["title"])

    @property
    def tests(self) -> list[str]:
        """Tests of ours for what cannot be data, as pytest names them."""
        return list(self.about.get("tests", ()))

    @cached_property
    def cases(self) -> list[Case]:
        """The attack in its variants, and their honest twins."""
        return [Case(self, members) for members in self.about["cases"]]

    @cached_property
    def transcripts(self) -> list[Case]:
        """The same of what takes a network: what resolver and servers say."""
        return [Case(self, members) for members in self.about.get("transcripts", ())]

    @property
    def files(self) -> Mapping[str, Description]:
        """What every file of the attack holds, by its name."""
        files: Mapping[str, Description] = self.about["files"]
        return files

    def file(self, name: str) -> bytes:
        """The bytes of a file; each is made once."""
        if name not in self._known:
            self._known[name] = read_file(self.files, name)
        return self._known[name]


@dataclass(frozen=True)
class Case:
    """One case: an attack in one variant, or its honest twin."""

    attack: Attack
    members: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Unique in the corpus: the attack's name and the case's own id."""
        return f"{self.attack.name}/{self.members['id']}"

    @property
    def is_attack(self) -> bool:
        """An attack must not be trusted at its last step, its honest twin must be."""
        return bool(self.members["kind"] == "attack")

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What happens, in order."""
        steps: list[dict[str, Any]] = self.members["steps"]
        return steps

    @property
    def is_transcript(self) -> bool:
        """Whether the verifier fetches what it needs."""
        return "url" in self.steps[0]

    @property
    def policy(self) -> bytes:
        """The verifier's `trust.toml`."""
        return self.attack.file(self.members["policy"])

    @property
    def lock(self) -> bytes | None:
        """The verifier's `trust.lock`, if it has one."""
        name = self.members.get("lock")
        return None if name is None else self.attack.file(name)

    def input(self, described: str | Description) -> bytes:
        """The bytes of an input: a file's by name, or what a description gives."""
        if isinstance(described, str):
            return self.attack.file(described)
        return describe_bytes(self.attack.files, described)


@cache
def load_attacks(folder: Path = CORPUS) -> list[Attack]:
    """The whole corpus, by number; every file is read once in a process."""
    attacks = [read_attack(path) for path in folder.glob("*.json")]
    return sorted(attacks, key=lambda attack: attack.number)


def read_attack(path: Path) -> Attack:
    """One file of the corpus."""
    return Attack(path.stem, json.loads(path.read_bytes()))


# ------------------------------------------------------------------ what a case is given


def inputs(case: Case) -> list[tuple[str, bytes]]:
    """Everything that a case puts to a verifier, each with its role, such as `step 0 card`."""
    return [(role, case.input(one)) for role, one in named_inputs(case.members)]


def named_inputs(members: Mapping[str, Any]) -> Iterator[tuple[str, str | Description]]:
    """The inputs of a case, by role, as the case has them."""
    yield "policy", members["policy"]
    if "lock" in members:
        yield "lock", members["lock"]
    memory = members.get("memory", "none")
    for issuer, known in memory.items() if isinstance(memory, dict) else ():
        for name in ("keyset", "release", "jwks"):
            if name in known:
                yield f"memory {issuer} {name}", known[name]
    for number, step in enumerate(members["steps"]):
        for role, one in _of_step(step):
            yield f"step {number} {role}", one


def _of_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str | Description]]:
    supplied = step.get("evidence", {})
    for role in ("card", "public"):
        if role in step:
            yield role, step[role]
    for role in ("keysets", "releases"):
        for number, one in enumerate(supplied.get(role, ())):
            yield f"{role} {number}", one
    if "jwks" in supplied:
        yield "jwks", supplied["jwks"]
    for url, said in step.get("answers", {}).items():
        for number, answer in enumerate((said or {}).get("turns", [said or {}])):
            then = answer.get("then")
            found = {"body": answer.get("body"), "raw": answer.get("raw")}
            found["storm"] = answer.get("storm", {}).get("card")
            found["then"] = then["send"] if isinstance(then, dict) else None
            for role, one in found.items():
                if one is not None:
                    yield f"{url} {number} {role}", one
    if "card" in step["expect"]:
        yield "expected card", step["expect"]["card"]
