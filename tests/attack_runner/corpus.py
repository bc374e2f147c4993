"""The attack corpus as data: tests/attacks/README.md is the format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from cardsign.jose.jwk import encode_base64url
from cardsign.testing import conformance
from cardsign.testing.conformance import Description

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
        return read_file({**self.attack.files, "": described}, "")


def read_file(files: Mapping[str, Description], name: str) -> bytes:
    """The bytes of a file that the corpus describes; conformance takes no statements."""
    spelled = {
        name: {"compact": _spell(files, described)} if "statement" in described else described
        for name, described in files.items()
    }
    return conformance.describe_bytes(spelled, spelled[name])


def _spell(files: Mapping[str, Description], described: Description) -> Mapping[str, Any]:
    """A statement with its parts in base64url."""
    signatures = [
        {**entry, "protected": _encode(entry["protected"])}
        for entry in described["statement"]["signatures"]
    ]
    return {"payload": _encode(_payload(files, described)), "signatures": signatures}


def _payload(files: Mapping[str, Description], described: Description) -> Mapping[str, Any]:
    """The payload of a statement, or that of another with some members replaced, sorted."""
    parts = described["statement"]
    payload: Mapping[str, Any] = parts["payload"]
    if "of" not in parts:
        return payload
    members = {**_payload(files, files[parts["of"]]), **payload}
    return {name: members[name] for name in sorted(members) if name not in parts.get("without", ())}


def _encode(value: Any) -> str:
    return encode_base64url(conformance.describe_bytes({}, {"compact": value}))


@cache
def load_attacks(folder: Path = CORPUS) -> list[Attack]:
    """The whole corpus, by number; every file is read once in a process."""
    attacks = [read_attack(path) for path in folder.glob("*.json")]
    return sorted(attacks, key=lambda attack: attack.number)


def read_attack(path: Path) -> Attack:
    """One file of the corpus."""
    return Attack(path.stem, json.loads(path.read_bytes()))
