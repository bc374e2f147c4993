"""Choosing an issuer's newest keyset and release among the statements supplied (rules K5 to K11).

The keyset is reached by a walk from what is trusted: one lawful step after another.

Everything received is untrusted until a step has been checked, superfluous statements do no
harm, and junk cannot end a walk: what does not fit is reported and left.
What is held is never given up for something older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from cardsign.findings import Finding
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    Envelope,
    StatementRefused,
    check_past,
    count,
)
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    RootAnchor,
    check_first,
    check_recovery,
    check_step,
    check_successor,
    is_no_newer,
    read_keyset,
)
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.trust.policy import RollbackFloor
from cardsign.trust.supplied import MAX_CHAIN_BYTES, MAX_STEPS

# Reading statements as they came, within the bounds of one refresh (K9).


#: Bytes that each counts for at least, so that a refresh is not filled with crumbs.
_LEAST_BYTES: Final = 1024

_Statement = TypeVar("_Statement", KeysetStatement, ReleaseStatement)


def receive(
    untrusted_keysets: Iterable[bytes],
    untrusted_releases: Iterable[bytes],
    remembered: KeysetStatement | None = None,
) -> tuple[tuple[KeysetStatement, ...], tuple[ReleaseStatement, ...], tuple[Finding, ...]]:
    """Read statements as they came.

    Nothing in them raises; what is malformed is reported and left out, and so is what is
    beyond the bounds. One that comes again, or is too large to be any, takes no room.

    Args:
        remembered: The keyset that was followed before. Another copy of it, and what is older,
            says nothing new and is left out unread.

    Returns:
        The well-formed keysets and releases, each once, and why others were left out.
    """
    reasons: list[Finding] = []
    keysets = tuple(_read(untrusted_keysets, read_keyset, reasons, remembered))
    releases = tuple(_read(untrusted_releases, read_release, reasons, None))
    return (
        tuple({one.envelope: one for one in keysets}.values()),
        tuple({one.envelope: one for one in releases}.values()),
        tuple(reasons),
    )


def reason_of(refusal: StatementRefused, statement: KeysetStatement | ReleaseStatement) -> Finding:
    """Why a statement was left, with its name."""
    message = f"{name_of(statement)}: {refusal.message}"
    return Finding(refusal.code, message, fix=refusal.finding.fix)


def name_of(statement: KeysetStatement | ReleaseStatement) -> str:
    """How reasons call a statement."""
    if isinstance(statement, KeysetStatement):
        return f"keyset {statement.label}"
    return f"release {statement.seq} under keyset {statement.keyset.label}"


def _read(
    untrusted: Iterable[bytes],
    read: Callable[[bytes], _Statement],
    reasons: list[Finding],
    remembered: KeysetStatement | None,
) -> Iterator[_Statement]:
    total = 0
    for index, untrusted_bytes in enumerate(dict.fromkeys(untrusted)):
        if len(untrusted_bytes) <= MAX_STATEMENT_BYTES:
            total += max(len(untrusted_bytes), _LEAST_BYTES)
        if total > MAX_CHAIN_BYTES:
            beyond = f"they have more than {MAX_CHAIN_BYTES} bytes in all; the rest is left"
            reasons.append(Finding("statement.too_many", beyond))
            return
        if remembered is not None and is_no_newer(untrusted_bytes, remembered):
            continue
        try:
            yield read(untrusted_bytes)
        except StatementRefused as refusal:
            message = f"statement {index}: {refusal.message}"
            reasons.append(Finding(refusal.code, message, fix=refusal.finding.fix))


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
    floor: RollbackFloor = field(default_factory=RollbackFloor)
    _findings: list[Finding] = field(default_factory=list)
    _refused: dict[Envelope, Finding] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """What was found on the way; what came to be accepted later is not among it."""
        return (*self._findings, *self._refused.values())

    def from_anchor(
        self,
        pin: KeysetId | RootAnchor | None,
        issuer: str | None,
        statements: Sequence[KeysetStatement],
    ) -> KeysetStatement | None:
        """The first statement: the lowest that the anchor means (K8).

        Without a pin, at first contact, it is any that its own root has signed.

        Raises:
            StatementRefused: ``statement.fork``: the anchor means two of one number.
        """
        others = 0
        lawful: dict[str, KeysetStatement] = {}
        for statement in sorted(statements, key=attrgetter("number")):
            if any(lower.number < statement.number for lower in lawful.values()):
                break
            try:
                if issuer is not None and statement.issuer != issuer:
                    raise StatementRefused("statement.issuer", f"expected {issuer!r}")
                check_first(statement, pin or RootAnchor.of(statement.root))
                self._check_acceptable(statement)
            except StatementRefused as refusal:
                others += refusal.code == "statement.anchor"
                if refusal.code != "statement.anchor":
                    self._refused[statement.envelope] = reason_of(refusal, statement)
            else:
                lawful[statement.digest] = statement
        if lawful:
            return self._kept(_only(lawful, "statements that the anchor means"))
        if others and pin is not None:
            self._findings.append(Finding("statement.anchor", _another(pin, statements)))
        return None

    def onwards(
        self, held: KeysetStatement, statements: Sequence[KeysetStatement]
    ) -> KeysetStatement:
        """The newest statement that can be reached, one lawful step after another (K6, K7).

        Raises:
            StatementRefused: ``statement.fork``: two lawful successors; neither can be accepted.
                ``statement.rollback``: the walk ends below the floor. Steps made stay kept.
        """
        self._report_forks(held, statements)
        steps = 0
        while (following := self._next(held, statements, steps < MAX_STEPS)) is not None:
            held = self._kept(following)
            steps += 1
        beyond = [one for one in statements if one.number > held.number]
        if steps >= MAX_STEPS and beyond:
            more = f"{MAX_STEPS} steps were made, to {name_of(held)}; the rest is left"
            self._findings.append(Finding("statement.too_many", more))
            beyond = []
        unexplained = [one for one in beyond if one.envelope not in self._refused]
        if unexplained:
            nearest = min(unexplained, key=attrgetter("number"))
            missing = f"{name_of(nearest)} is here; what leads to it from {name_of(held)} is not"
            self._findings.append(Finding("statement.gap", missing))
        least = self.floor.keyset
        if least is not None and held.number < least.number:
            raise StatementRefused(
                "statement.rollback",
                f"version {least.version} of epoch {least.epoch} was seen before, "
                f"and {name_of(held)} is the newest to be had",
            )
        self._check_no_fork(held)
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
            if statement.number != number:
                continue
            try:
                check(held, statement)
                self._check_acceptable(statement)
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

    def _check_acceptable(self, statement: KeysetStatement) -> None:
        """What is issued in the future, or was another when it was seen, is not kept (K8, K9)."""
        check_past(statement.iat, self.now, self.skew)
        self._check_no_fork(statement)

    def _check_no_fork(self, keyset: KeysetStatement) -> None:
        least = self.floor.keyset
        if least and keyset.number == least.number and keyset.digest != least.digest:
            raise StatementRefused(
                "statement.fork",
                f"{name_of(keyset)} was {least.digest} when it was seen and is {keyset.digest} now",
            )

    def _report_forks(self, held: KeysetStatement, statements: Iterable[KeysetStatement]) -> None:
        """Another statement of the number held; a fork only if the root held has signed it."""
        for statement in statements:
            if statement.number != held.number or statement.digest == held.digest:
                continue
            signed = held.root.holders(
                count(statement.envelope, (key.public for key in held.root.keys))
            )
            if len(signed) >= held.root.threshold:
                both = f"{name_of(held)} is {held.digest} here and {statement.digest} there"
                self._findings.append(Finding("statement.fork", f"{both}; the one held stays"))
            else:
                forged = f"another {name_of(held)} is not signed by the root that is trusted"
                self._refused[statement.envelope] = Finding("statement.unsigned", forged)


def _another(pin: KeysetId | RootAnchor, statements: Sequence[KeysetStatement]) -> str:
    """That statements came, and not the one that the policy pins."""
    first = min(statements, key=attrgetter("number"))
    got = f"keyset {first.label} ({first.digest[:4]}...)"
    got = got if len(statements) == 1 else f"{len(statements)} keysets, the oldest {got}"
    if isinstance(pin, RootAnchor):
        return f"the policy pins a root set, but no keyset with it came: got {got}"
    return f"pinned keyset {pin.label} ({pin.digest[:4]}...), but got {got}"


def _only(lawful: dict[str, KeysetStatement], what: str) -> KeysetStatement:
    """The one there is; of two neither can be accepted."""
    if len(lawful) > 1:
        raise StatementRefused(
            "statement.fork", f"{len(lawful)} {what}: {' and '.join(sorted(lawful))}"
        )
    return next(iter(lawful.values()))


# Choosing the newest release that speaks by right (K10, K11).


@dataclass(frozen=True, slots=True)
class Chosen:
    """What came of the releases that were offered.

    Attributes:
        release: The newest one, or the one held where none is newer and lawful; or None.
        denied: Thumbprints that lawful releases under this keyset revoke, that one included.
        contested: Two lawful ones of the highest number: it is unknown which is current.
        reasons: Why others were left.
    """

    release: ReleaseStatement | None
    denied: frozenset[str]
    contested: Finding | None
    reasons: tuple[Finding, ...]


def choose_release(
    held: ReleaseStatement | None,
    offered: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    floor: RollbackFloor,
    *,
    now: datetime,
    skew: timedelta,
) -> Chosen:
    """The newest release that speaks by right under the newest keyset.

    Of two lawful ones of one number neither is accepted. Two that revoke one another's signers
    both deny, and neither speaks: only the roots can tell which is the thief's.

    Args:
        held: The one held, already trusted, under this keyset or an older one.
        offered: Candidates as received.
        keyset: The newest keyset statement, already trusted.
        floor: No release below it is accepted.

    Returns:
        The choice. The times of a release are not asked, but that it is not of the future.
    """
    reasons: list[Finding] = []
    base = frozenset[str]()
    if held is not None and held.keyset.digest == keyset.digest:
        base = held.revoked
    new = (one for one in offered if held is None or one.digest != held.digest)
    rightful = _rightful(new, keyset, base, reasons, now=now, skew=skew)
    denied = base.union(*(release.revoked for release in rightful))
    contested = None
    for _, group in groupby(rightful, key=attrgetter("order")):
        lawful: dict[str, ReleaseStatement] = {}
        for release in group:
            try:
                if rightful[release] <= denied:
                    raise StatementRefused("statement.revoked", "another has revoked its signer")
                check_release(release, keyset, held, now=now, skew=skew)
                check_release_floor(release, floor)
            except StatementRefused as refusal:
                reasons.append(reason_of(refusal, release))
            else:
                lawful[release.digest] = release
        if len(lawful) > 1:
            both = f"two releases {release.seq}: {' and '.join(sorted(lawful))}"
            contested = Finding("statement.fork", f"{both}; neither is accepted")
            reasons.append(contested)
        elif lawful:
            held, contested = next(iter(lawful.values())), None
    return Chosen(held, denied, contested, tuple(reasons))


def _rightful(
    offered: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    revoked: frozenset[str],
    reasons: list[Finding],
    *,
    now: datetime,
    skew: timedelta,
) -> dict[ReleaseStatement, frozenset[str]]:
    """The releases that a key of right has signed, in ascending order, and who has."""
    rightful: dict[ReleaseStatement, frozenset[str]] = {}
    for release in sorted(offered, key=attrgetter("order")):
        try:
            check_past(release.iat, now, skew)
            signers = check_release(release, keyset, None, now=now, skew=skew).good - revoked
            if not signers:
                raise StatementRefused("statement.revoked", "its signer has been revoked")
        except StatementRefused as refusal:
            reasons.append(reason_of(refusal, release))
        else:
            rightful[release] = signers
    return rightful


def check_release_floor(release: ReleaseStatement, floor: RollbackFloor) -> None:
    """Check that a release is not older than, or other than, what a floor names."""
    least = floor.release
    if least is None:
        return
    if release.order < least.order:
        raise StatementRefused(
            "statement.rollback", f"release {least.order[2]} was seen before", path="/seq"
        )
    if release.order == least.order and release.digest != least.digest:
        raise StatementRefused(
            "statement.fork", f"it was {least.digest} when it was seen and is {release.digest} now"
        )


# Histories that were handed over on purpose: what does not fit is refused, not passed over.


def newest_keyset(
    statements: Sequence[KeysetStatement], *, now: datetime, skew: timedelta
) -> KeysetStatement:
    """The last of a history: the first signed by its own root, each next one lawfully after it.

    There is at least one statement, and none is missing between them. Only a person can say that
    the first one is genuine. Not checked: whether the last one has expired.

    Raises:
        StatementRefused: What keeps them from being one history, or ``statement.not_yet``.
    """
    held, *following = sorted(statements, key=attrgetter("number"))
    check_step(held, None)
    for statement in following:
        if statement.digest != held.digest:
            check_step(statement, held)
            held = statement
    check_past(held.iat, now, skew)
    return held


def newest_release(
    releases: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    *,
    now: datetime,
    skew: timedelta,
) -> ReleaseStatement | None:
    """The last of some releases, which all speak by right under one keyset statement.

    Raises:
        StatementRefused: As :func:`cardsign.statements.release.check_release`, or
            ``statement.not_yet``.
    """
    held = None
    for release in sorted(releases, key=attrgetter("order")):
        check_release(release, keyset, held, now=now, skew=skew)
        check_past(release.iat, now, skew)
        held = release
    return held
