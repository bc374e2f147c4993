"""What came of one card: a verdict, or a fault of this machine in its place. Data only.

All output formats are made of outcomes and of nothing else, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from cardsign.card.document import Card
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    InputRefused,
    LocalFault,
    NoVerdict,
)
from cardsign.reasons import Reason
from cardsign.verdict import Report

# Several cards, one exit status: the weightiest of theirs.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One card and what came of it.

    Attributes:
        name: How the user called the card, or the URL that answered.
        result: The verdict, or why the card could not be read here.
        untrusted_bytes: The file or answer, if it is the card itself; empty otherwise.
    """

    name: str
    result: Report | LocalFault
    untrusted_bytes: bytes = b""

    @property
    def exit_status(self) -> int:
        """That of the verdict, or 2."""
        return self.result.exit_status

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why, the weightiest first; a fault is its own reason."""
        if isinstance(self.result, LocalFault):
            return (reason_of_failure(self.result),)
        return self.result.reasons

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column at which the card could not be read, each from 1."""
        if not self.untrusted_bytes:
            return None
        try:
            Card.from_bytes(self.untrusted_bytes)
        except InputRefused as refusal:
            first = self.reasons[0].code if self.reasons else ""
            if refusal.code == first and refusal.line is not None and refusal.column is not None:
                return refusal.line, refusal.column
        return None

    def to_json(self) -> dict[str, Any]:
        """The object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.reasons[0].to_json()}
        return {"input": self.name, **self.result.to_json()}


def weightiest(outcomes: Iterable[Outcome]) -> int:
    """The exit status of all of them: 2 beats 1 beats 3 beats 0."""
    return max((one.exit_status for one in outcomes), key=_WEIGHT.index, default=EXIT_OK)


def reason_of_failure(failure: LocalFault | NoVerdict) -> Reason:
    """A failure as a reason."""
    return Reason.of(failure.code, failure.message, failure.path, failure.hint)
