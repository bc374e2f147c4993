"""Walking an issuer's statements from what is trusted to the newest (rules K5 to K11).

Everything received is untrusted until a step has been checked, superfluous statements do no
harm, and nobody can end a walk by adding junk to it: what does not fit is reported and left.
What is held is never given up for something older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.statements import Envelope, StatementRefused, count
from cardsign.jose.succession import (
    RootPin,
    StatementPin,
    check_first,
    check_recovery,
    check_successor,
)
from cardsign.reasons import Reason
from cardsign.trust.known import Floor
from cardsign.trust.receiving import check_past, name_of, number_of, reason_of

#: Keyset statements of one refresh (K9): twenty years of quarterly renewals, and some over.
MAX_STEPS: Final = 256


@dataclass(slots=True)
class Walk:
    """A walk under way; its caller keeps each step durably before the next (K9).

    Attributes:
        now: Fixed at the start (V1).
        skew: How far the issuer's clock may be ahead of ours.
        keep: Keeps a step; raises where it cannot.
        floor: The walk does not end below it, nor pass through another statement of its number.
    """

    now: datetime
    skew: timedelta
    keep: Callable[[KeysetStatement], None]
    floor: Floor = field(default_factory=Floor)
    _findings: list[Reason] = field(default_factory=list)
    _refused: dict[Envelope, Reason] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What was found on the way; what came to be accepted later is not among it."""
        return (*self._findings, *self._refused.values())

    def from_anchor(
        self,
        pin: StatementPin | RootPin,
        issuer: str | None,
        statements: Sequence[KeysetStatement],
    ) -> KeysetStatement | None:
        """The first statement: the lowest that the anchor means (K8).

        Raises:
            StatementRefused: ``statement.fork``: the anchor means two of one number.
        """
        strangers = 0
        lawful: dict[str, KeysetStatement] = {}
        for statement in sorted(statements, key=number_of):
            if any(number_of(lower) < number_of(statement) for lower in lawful.values()):
                break
            try:
                if issuer is not None and statement.issuer != issuer:
                    raise StatementRefused("statement.issuer", f"expected {issuer!r}")
                check_first(statement, pin)
                self._check_believable(statement)
            except StatementRefused as refusal:
                strangers += refusal.code == "statement.anchor"
                if refusal.code != "statement.anchor":
                    self._refused[statement.envelope] = reason_of(refusal, statement)
            else:
                lawful[statement.digest] = statement
        if lawful:
            return self._kept(_only(lawful, "statements that the anchor means"))
        if strangers:
            none = f"none of {len(statements)} statements is the one that the anchor means"
            self._findings.append(Reason.of("statement.anchor", none))
        return None

    def onwards(
        self, held: KeysetStatement, statements: Sequence[KeysetStatement]
    ) -> KeysetStatement:
        """The newest statement that can be reached, one lawful step after another (K6, K7).

        Raises:
            StatementRefused: ``statement.fork``: two lawful successors; neither can be believed.
                ``statement.rollback``: the walk ends below the floor. Steps made stay kept.
        """
        self._report_forks(held, statements)
        steps = 0
        while (following := self._next(held, statements, steps < MAX_STEPS)) is not None:
            held = self._kept(following)
            steps += 1
        beyond = [one for one in statements if number_of(one) > number_of(held)]
        if steps >= MAX_STEPS and beyond:
            more = f"{MAX_STEPS} steps were made, to {name_of(held)}; the rest is left"
            self._findings.append(Reason.of("statement.too_many", more))
            beyond = []
        unexplained = [one for one in beyond if one.envelope not in self._refused]
        if unexplained:
            nearest = min(unexplained, key=number_of)
            missing = f"{name_of(nearest)} is here; what leads to it from {name_of(held)} is not"
            self._findings.append(Reason.of("statement.gap", missing))
        _check_not_below(held, self.floor)
        _check_no_fork(held, self.floor)
        return held

    def _next(
        self, held: KeysetStatement, statements: Sequence[KeysetStatement], goes_on: bool
    ) -> KeysetStatement | None:
        """The lawful next step (K6), or recovery where there is no single one (K7).

        Recovery is looked for after the last step as well: a long chain cannot hide it.

        Recovery beats every version of its epoch, but by the keys that the last one names: those
        that it has replaced, because they may be stolen, open nothing any more.
        """
        after, opened = (held.epoch, held.version + 1), (held.epoch + 1, 1)
        lawful = self._lawful(check_successor, held, statements, after) if goes_on else {}
        if len(lawful) != 1:
            lawful = self._lawful(check_recovery, held, statements, opened) or lawful
        return _only(lawful, f"lawful successors of {name_of(held)}") if lawful else None

    def _lawful(
        self,
        check: Callable[[KeysetStatement, KeysetStatement], object],
        held: KeysetStatement,
        statements: Iterable[KeysetStatement],
        number: tuple[int, int],
    ) -> dict[str, KeysetStatement]:
        """Those of the number that may follow, by digest; why others may not is noted."""
        lawful: dict[str, KeysetStatement] = {}
        for statement in statements:
            if number_of(statement) != number:
                continue
            try:
                check(held, statement)
                self._check_believable(statement)
            except StatementRefused as refusal:
                self._refused[statement.envelope] = reason_of(refusal, statement)
            else:
                lawful[statement.digest] = statement
        return lawful

    def _kept(self, statement: KeysetStatement) -> KeysetStatement:
        self.keep(statement)
        self._refused = {
            envelope: reason
            for envelope, reason in self._refused.items()
            if envelope.payload != statement.envelope.payload
        }
        return statement

    def _check_believable(self, statement: KeysetStatement) -> None:
        """What is issued in the future, or was another when it was seen, is not kept (K8, K9)."""
        check_past(statement, self.now, self.skew)
        _check_no_fork(statement, self.floor)

    def _report_forks(self, held: KeysetStatement, statements: Iterable[KeysetStatement]) -> None:
        """Another statement of the number held; a fork only if the root held has signed it."""
        for statement in statements:
            if number_of(statement) != number_of(held) or statement.digest == held.digest:
                continue
            signed = held.root.holders(
                count(statement.envelope, (key.public for key in held.root.keys))
            )
            if len(signed) >= held.root.threshold:
                both = f"{name_of(held)} is {held.digest} here and {statement.digest} there"
                self._findings.append(Reason.of("statement.fork", f"{both}; the one held stays"))
            else:
                forged = f"{name_of(held)} is held, and the root has not signed the other one"
                self._refused[statement.envelope] = Reason.of("statement.unsigned", forged)


def _check_not_below(keyset: KeysetStatement, floor: Floor) -> None:
    least = floor.keyset
    if least is not None and number_of(keyset) < (least.epoch, least.version):
        raise StatementRefused(
            "statement.rollback",
            f"version {least.version} of epoch {least.epoch} was seen before, "
            f"and {name_of(keyset)} is the newest to be had",
        )


def _check_no_fork(keyset: KeysetStatement, floor: Floor) -> None:
    least = floor.keyset
    if least is None or number_of(keyset) != (least.epoch, least.version):
        return
    if keyset.digest != least.digest:
        raise StatementRefused(
            "statement.fork",
            f"{name_of(keyset)} was {least.digest} when it was seen and is {keyset.digest} now",
        )


def _only(lawful: dict[str, KeysetStatement], what: str) -> KeysetStatement:
    """The one there is; of two neither can be believed."""
    if len(lawful) > 1:
        raise StatementRefused(
            "statement.fork", f"{len(lawful)} {what}: {' and '.join(sorted(lawful))}"
        )
    return next(iter(lawful.values()))
