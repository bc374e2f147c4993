"""The shared cards: real ones of public repositories, and ones made to provoke."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cardsign import CardsignError
from cardsign.card.document import Card
from cardsign.card.values import Json

GROUPS: Final = ("real 0.3", "real 1.0", "real mixed", "real other", "provocative")


@dataclass(frozen=True, slots=True)
class Sample:
    """One file that is, or claims to be, an Agent Card.

    Attributes:
        file: Its name in the collection.
        group: One of `GROUPS`; ``real other`` holds what is of no A2A version, or unreadable.
        data: Its bytes.
    """

    file: str
    group: str
    data: bytes

    @property
    def document(self) -> Mapping[str, Json] | None:
        """The card as we read it, or None where we refuse to."""
        try:
            return Card.from_bytes(self.data).document
        except CardsignError:
            return None


def load_samples(shared: Path) -> tuple[Sample, ...]:
    """Every card of the collection, the real ones first."""
    real = sorted((shared / "corpus" / "cards").glob("[0-9]*"))
    provocative = sorted((shared / "interop" / "cards").glob("*.json"))
    return (
        *(Sample(path.name, f"real {_a2a_version(_read(path))}", _read(path)) for path in real),
        *(Sample(path.name, "provocative", _read(path)) for path in provocative),
    )


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _a2a_version(data: bytes) -> str:
    try:
        a2a_version = Card.from_bytes(data).a2a_version
    except CardsignError:
        return "other"
    return "other" if a2a_version == "none" else a2a_version
