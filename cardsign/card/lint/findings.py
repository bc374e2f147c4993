"""What a lint rule is, and what it says of one place in a card."""

from __future__ import annotations

from dataclasses import dataclass

from cardsign.card.strictjson import Json


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule, once released, keeps its id and what it means.

    Attributes:
        id: ``group.name``; the group is the target that the rule belongs to.
        summary: What it finds; one sentence.
        why: Whose readings part there, and what follows from that.
        mend: What a person can do about it.
    """

    id: str
    summary: str
    why: str
    mend: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in a card that breaks a rule.

    Attributes:
        rule: The rule, which says why and how to mend it.
        pointer: JSON pointer (RFC 6901) of the member or element.
        message: What was found there, without a final period.
        mendable: :func:`cardsign.card.lint.fix` mends it, for that loses nothing of meaning.
    """

    rule: Rule
    pointer: str
    message: str
    mendable: bool = False

    def to_json(self) -> dict[str, Json]:
        """The finding for programs, with all that its rule says."""
        return {
            "rule": self.rule.id,
            "path": self.pointer,
            "message": self.message,
            "why": self.rule.why,
            "mend": self.rule.mend,
            "mendable": self.mendable,
        }
