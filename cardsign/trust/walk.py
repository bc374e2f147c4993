"""The walk from an anchor to the newest keyset, and the choice of a release (rules K5 to K11).

Every statement is untrusted until a step has been checked. Junk cannot end a walk: what does not
fit is reported and left out. The walk is linear in the number of statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Final, TypeVar

from cardsign.errors import InputRefused
from cardsign.findings import Finding
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    StatementRefused,
    check_past,
    list_signers,
)
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    RootAnchor,
    check_first,
    check_recovery,
    check_successor,
    is_no_newer,
)
from cardsign.statements.release import ReleaseStatement, check_kept, check_release
from cardsign.trust.lock import Floor, LockedRelease, recovery_digest

#: Steps and bytes of statements of one refresh (K9). Statements of the cache have the same bound.
MAX_STEPS: Final = 256
MAX_CHAIN_BYTES: Final = 2 * 1024 * 1024
_LEAST_BYTES: Final = 1024  # what a statement counts at least, so that crumbs do not fill a refresh

Number = tuple[int, int]
Statement = TypeVar("Statement", KeysetStatement, ReleaseStatement)


def read_statements(
    received: Iterable[bytes],
    read: Callable[[bytes], Statement],
    notes: list[Finding],
    newest: KeysetStatement | None = None,
) -> list[Statement]:
    """Return the well-formed statements among those received, each once.

    Args:
        received: As they came.
        read: Reads one of them.
        notes: Gets why others are left out.
        newest: Statements that are no newer than this one say nothing new, and are not read.
    """
    statements: list[Statement] = []
    total = 0
    for index, data in enumerate(dict.fromkeys(received)):
        if len(data) <= MAX_STATEMENT_BYTES:
            total += max(len(data), _LEAST_BYTES)
        if total > MAX_CHAIN_BYTES:
            message = f"they have more than {MAX_CHAIN_BYTES} bytes in all; the rest is left out"
            notes.append(Finding("statement.too_many", message))
            break
        if newest is not None and is_no_newer(data, newest):
            continue
        try:
            statements.append(read(data))
        except StatementRefused as refusal:
            notes.append(explain_refusal(refusal, f"statement {index}"))
    return statements


def explain_refusal(refusal: InputRefused, name: str = "") -> Finding:
    """Return why something is left out, as a reason of a verdict."""
    message = f"{name}: {refusal.message}" if name else refusal.message
    return Finding(refusal.code, message, fix=refusal.finding.fix)


def describe(statement: KeysetStatement | ReleaseStatement) -> str:
    """Return how reasons call a statement."""
    if isinstance(statement, KeysetStatement):
        return f"keyset {statement.label}"
    return f"release {statement.seq} under keyset {statement.keyset.label}"


@dataclass
class Walk:
    """One walk along keyset statements.

    Attributes:
        statements: All that are at hand, in any order.
        floor: What the lock says; the walk passes through its keyset.
        now: The time of the verdict.
        skew: How far the issuer's clock may be ahead of ours.
        passed: The statements accepted, in order.
        notes: What was found on the way.
        max_steps: How many steps may be made; those from the cache come on top (K9).
    """

    statements: Sequence[KeysetStatement]
    floor: Floor
    now: datetime
    skew: timedelta
    passed: list[KeysetStatement] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    max_steps: int = MAX_STEPS
    _refused: dict[str, Finding] = field(default_factory=dict)
    _mismatched: list[KeysetStatement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_number: dict[Number, list[KeysetStatement]] = defaultdict(list)
        for statement in self.statements:
            self._by_number[statement.number].append(statement)
        self._required = self._path_to_lock()

    def _path_to_lock(self) -> dict[Number, str]:
        """Return the digest that each number must have for the walk to pass through the lock.

        Each statement names the digest of the one before, so the locked digest determines its
        whole epoch: a fork below it is decided, whoever signed the other branch.
        """
        required: dict[Number, str] = {}
        locked = self.floor.keyset
        number, digest = (locked.number, locked.digest) if locked else ((0, 0), None)
        while digest is not None:
            required[number] = digest
            candidates = self._by_number.get(number, ())
            statement = next(
                (statement for statement in candidates if statement.digest == digest), None
            )
            digest = statement.prev if statement is not None else None
            number = (number[0], number[1] - 1)
        return required

    def begin(
        self, pin: KeysetId | RootAnchor | None, issuer: str | None
    ) -> KeysetStatement | None:
        """Accept the statement that the anchor means: of a root set the lowest (K8).

        Without a pin, where an issuer is added, it is the lowest that its own root has signed.

        Raises:
            StatementRefused: ``statement.fork``: the anchor means two of one number.
        """

        def check(statement: KeysetStatement) -> None:
            if issuer is not None and statement.issuer != issuer:
                raise StatementRefused("statement.issuer", f"expected {issuer!r}")
            check_first(statement, pin or RootAnchor.of(statement.root))

        for number in sorted(self._by_number):
            if lawful := self._lawful(check, number):
                return self._accept(self._single(lawful, "statements that the anchor means"))
        if self._mismatched and pin is not None:
            self.notes.append(Finding("statement.anchor", _mismatch(pin, self._mismatched)))
        return None

    def onward(self, keyset: KeysetStatement) -> KeysetStatement:
        """Return the newest statement that can be reached, one lawful step after another.

        Raises:
            StatementRefused: ``statement.fork``: two lawful successors, and the lock decides
                between neither. ``statement.rollback``: the walk ends below the lock.
        """
        self._report_forks(keyset)
        steps = 0
        while (following := self._step(keyset, steps < self.max_steps)) is not None:
            keyset = self._accept(following)
            steps += 1
        self._report_rest(keyset, steps)
        locked = self.floor.keyset
        if locked is not None and keyset.number < locked.number:
            raise StatementRefused(
                "statement.rollback",
                f"version {locked.version} of epoch {locked.epoch} was seen before, "
                f"and {describe(keyset)} is the newest available",
            )
        self._check_lock(keyset)
        return keyset

    def _step(self, keyset: KeysetStatement, more: bool) -> KeysetStatement | None:
        """Return the lawful next step, or recovery where there is no single one (K6, K7)."""
        following = keyset.epoch, keyset.version + 1
        lawful = self._lawful(partial(check_successor, keyset), following) if more else {}
        if len(lawful) != 1 and self._may_recover(keyset):
            opened = keyset.epoch + 1, 1
            lawful = self._lawful(partial(check_recovery, keyset), opened) or lawful
        return self._single(lawful, f"lawful successors of {describe(keyset)}") if lawful else None

    def _may_recover(self, keyset: KeysetStatement) -> bool:
        """Return whether a recovery may follow, as far as the lock is concerned.

        From below the lock it may only by the recovery keys that were in force at the lock:
        otherwise a recovery key that was replaced long ago could open an epoch.
        """
        locked = self.floor.keyset
        if locked is None or locked.epoch != keyset.epoch or keyset.version >= locked.version:
            return True
        recovery = self.floor.recovery
        return recovery is not None and recovery_digest(keyset) == recovery

    def _lawful(
        self, check: Callable[[KeysetStatement], object], number: Number
    ) -> dict[str, KeysetStatement]:
        """Return the statements of a number that pass a check, by their digests."""
        lawful: dict[str, KeysetStatement] = {}
        for statement in self._by_number.get(number, ()):
            try:
                check(statement)
                check_past(statement.iat, self.now, self.skew)
                self._check_lock(statement)
            except StatementRefused as refusal:
                if refusal.code == "statement.anchor":
                    self._mismatched.append(statement)
                    continue
                reason = explain_refusal(refusal, describe(statement))
                self._refused[statement.digest] = reason
            else:
                lawful[statement.digest] = statement
        return lawful

    def _check_lock(self, statement: KeysetStatement) -> None:
        digest = self._required.get(statement.number)
        if digest is not None and digest != statement.digest:
            raise StatementRefused(
                "statement.fork",
                f"{describe(statement)} was {digest} when it was seen and is "
                f"{statement.digest} now",
            )

    def _accept(self, statement: KeysetStatement) -> KeysetStatement:
        self.passed.append(statement)
        self._refused.pop(statement.digest, None)
        return statement

    def _single(self, lawful: dict[str, KeysetStatement], description: str) -> KeysetStatement:
        if len(lawful) > 1:
            both = " and ".join(sorted(lawful))
            raise StatementRefused("statement.fork", f"{len(lawful)} {description}: {both}")
        return next(iter(lawful.values()))

    def _report_forks(self, keyset: KeysetStatement) -> None:
        """Report other statements of the number from which the walk goes on."""
        for statement in self._by_number.get(keyset.number, ()):
            if statement.digest == keyset.digest:
                continue
            keys = (key.public for key in keyset.root.keys)
            signers = keyset.root.holders(list_signers(statement.envelope, keys))
            if len(signers) >= keyset.root.threshold:
                both = f"{describe(keyset)} is {keyset.digest} here and {statement.digest} there"
                self.notes.append(Finding("statement.fork", f"{both}; the first one is kept"))
            else:
                message = f"another {describe(keyset)} is not signed by the root that is trusted"
                self._refused[statement.digest] = Finding("statement.unsigned", message)

    def _report_rest(self, keyset: KeysetStatement, steps: int) -> None:
        """Report the statements beyond the end of the walk."""
        every = (statement for group in self._by_number.values() for statement in group)
        beyond = [statement for statement in every if statement.number > keyset.number]
        if beyond and steps >= self.max_steps:
            message = f"{steps} steps were made, to {describe(keyset)}; the rest is left out"
            self.notes.append(Finding("statement.too_many", message))
        elif unexplained := [
            statement for statement in beyond if statement.digest not in self._refused
        ]:
            nearest = describe(min(unexplained, key=lambda statement: statement.number))
            message = f"{nearest} is here, but not what leads to it from {describe(keyset)}"
            self.notes.append(Finding("statement.gap", message))

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Everything to be told about the walk."""
        return (*self.notes, *self._refused.values())


def _mismatch(pin: KeysetId | RootAnchor, statements: Sequence[KeysetStatement]) -> str:
    """Return that statements came, and not the one that the policy pins."""
    first = min(statements, key=lambda statement: statement.number)
    got = f"keyset {first.label} ({first.digest[:4]}...)"
    got = got if len(statements) == 1 else f"{len(statements)} keysets, the oldest {got}"
    if isinstance(pin, RootAnchor):
        return f"the policy pins a root set, but no keyset with it came: got {got}"
    return f"pinned keyset {pin.label} ({pin.digest[:4]}...), but got {got}"


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """The newest release that speaks by right, or None.

    Attributes:
        release: The release.
        revoked: The keys that lawful releases under this keyset revoke, the locked one included.
        contested: Two lawful releases of the highest number, so neither is accepted.
        notes: Why others were left out.
    """

    release: ReleaseStatement | None
    revoked: frozenset[str]
    contested: Finding | None
    notes: tuple[Finding, ...]


def choose_release(
    current: ReleaseStatement | None,
    offered: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    locked: LockedRelease | None,
    *,
    now: datetime,
    skew: timedelta,
) -> ReleaseChoice:
    """Choose the newest release that speaks by right under the newest keyset.

    Args:
        current: The release that this session has accepted before.
        offered: Candidates as received.
        keyset: The newest keyset statement, verified.
        locked: What the lock says of releases.
        now: The time of the verdict.
        skew: How far the issuer's clock may be ahead of ours.
    """
    notes: list[Finding] = []
    revoked = frozenset[str]()
    if locked is not None and locked.order[:2] == keyset.number:
        revoked |= locked.revoked
    if current is not None and current.keyset == keyset.id:
        revoked |= current.revoked
    by_signers: dict[ReleaseStatement, frozenset[str]] = {}
    for release in sorted(offered, key=lambda release: release.order):
        if current is not None and release.digest == current.digest:
            continue
        try:
            check_past(release.iat, now, skew)
            by_signers[release] = check_signers(release, keyset, revoked, now=now, skew=skew)
        except StatementRefused as refusal:
            notes.append(explain_refusal(refusal, describe(release)))
    revoked = revoked.union(*(release.revoked for release in by_signers))
    contested = None
    for order, group in groupby(by_signers, key=lambda release: release.order):
        lawful: dict[str, ReleaseStatement] = {}
        for release in group:
            try:
                if by_signers[release] <= revoked:
                    raise StatementRefused("statement.revoked", "another has revoked its signer")
                check_release(release, keyset, current, now=now, skew=skew)
                check_locked(release, locked)
            except StatementRefused as refusal:
                notes.append(explain_refusal(refusal, describe(release)))
            else:
                lawful[release.digest] = release
        if len(lawful) > 1:
            both = f"two releases {order[2]}: {' and '.join(sorted(lawful))}"
            contested = Finding("statement.fork", f"{both}; neither is accepted")
            notes.append(contested)
        elif lawful:
            current, contested = next(iter(lawful.values())), None
    return ReleaseChoice(current, revoked, contested, tuple(notes))


def check_signers(
    release: ReleaseStatement,
    keyset: KeysetStatement,
    revoked: frozenset[str],
    *,
    now: datetime,
    skew: timedelta,
) -> frozenset[str]:
    """Return the thumbprints of the unrevoked keys that signed a release, of which there is one.

    Raises:
        StatementRefused: As :func:`cardsign.statements.release.check_release`, and
            ``statement.revoked``.
    """
    signers = check_release(release, keyset, None, now=now, skew=skew) - revoked
    if not signers:
        raise StatementRefused("statement.revoked", "its signer has been revoked")
    return signers


def check_locked(release: ReleaseStatement, locked: LockedRelease | None) -> None:
    """Check a release against the lock.

    Raises:
        StatementRefused: ``statement.rollback``, ``statement.fork``; ``statement.unrevoked`` or
            ``statement.floor``: under the same keyset a key is revoked no longer, or a floor falls.
    """
    if locked is None:
        return
    if release.order < locked.order:
        message = f"release {locked.order[2]} was seen before"
        raise StatementRefused("statement.rollback", message, path="/seq")
    if release.order == locked.order and release.digest != locked.digest:
        message = f"it was {locked.digest} when it was seen and is {release.digest} now"
        raise StatementRefused("statement.fork", message)
    if release.order[:2] != locked.order[:2]:
        return
    check_kept(release, locked.revoked, locked.floor)
