"""A change between two cards, and what it means for a caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

#: What a change means for a caller that knows the old card only. `unclear`: this cannot be told
#: from the two cards, and a person has to decide.
Effect: TypeAlias = Literal["breaking", "additive", "wording", "unclear"]
#: The part of a version (SemVer 2.0.0) that has to grow.
Bump: TypeAlias = Literal["none", "patch", "minor", "major"]

BUMPS: Final[tuple[Bump, ...]] = ("none", "patch", "minor", "major")
NEEDED: Final[dict[Effect, Bump]] = {
    "breaking": "major",
    "additive": "minor",
    "wording": "patch",
    "unclear": "patch",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the old card and the new one.

    Attributes:
        effect: What it means for a caller.
        path: Where, as a JSON pointer: in the new card, or in the old one for what is gone.
        message: What changed, without a final period.
    """

    effect: Effect
    path: str
    message: str
