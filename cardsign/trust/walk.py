"""Statements at hand, the walk from an anchor to the newest keyset, and what is asked for.

Rules K5 to K11.

Every statement is untrusted until a step has been checked. Junk cannot end a walk: what does not
fit is reported and left out. The walk is linear in the number of statements.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import chain, groupby
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from cardsign.errors import FetchFailed, InputRefused, UsageFault, of_the_user
from cardsign.files import MAX_INPUT_BYTES, read_bytes, walk
from cardsign.findings import Finding
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    TYP_KEYSET,
    TYP_RELEASE,
    StatementRefused,
    check_past,
    list_signers,
    read_envelope,
)
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    RootAnchor,
    check_first,
    check_recovery,
    check_successor,
    read_keyset,
)
from cardsign.statements.release import (
    ReleaseStatement,
    check_release,
    effective_revoked,
    read_release,
)
from cardsign.trust.lock import Floor, recovery_digest
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, Headers

#: Steps and bytes of statements of one refresh (K9). Statements of the cache have the same bound.
MAX_STEPS: Final = 256
MAX_CHAIN_BYTES: Final = 2 * 1024 * 1024
_LEAST_BYTES: Final = 1024  # what a statement counts at least, so that crumbs do not fill a refresh

Number = tuple[int, int]
Statement = TypeVar("Statement", KeysetStatement, ReleaseStatement)


# Statements at hand: what came with a card, from files, or from its server. Nothing of them has
# been checked, and none brings trust (threat 16).

#: Files of one folder: all the steps of a refresh, and as many releases.
MAX_FILES: Final = 512


@dataclass(frozen=True, slots=True)
class SuppliedStatements:
    """Statements and key sets as received: from files or from the issuer's server.

    Attributes:
        untrusted_keysets: Keyset statements, in any order; superfluous ones do no harm.
        untrusted_releases: Release statements, likewise.
        untrusted_jwks: A JWK Set.
        jwks_url: Where the JWK Set was fetched from, over TLS; None if that is not known. A
            `jwks` anchor reads a set that comes from its own URL and no other.
    """

    untrusted_keysets: tuple[bytes, ...] = ()
    untrusted_releases: tuple[bytes, ...] = ()
    untrusted_jwks: bytes | None = None
    jwks_url: str | None = None

    def joined(self, other: SuppliedStatements) -> SuppliedStatements:
        """Return what both hold; neither vouches for the other. The other's key set comes first."""
        jwks = other if other.untrusted_jwks is not None else self
        return SuppliedStatements(
            tuple(dict.fromkeys((*self.untrusted_keysets, *other.untrusted_keysets))),
            tuple(dict.fromkeys((*self.untrusted_releases, *other.untrusted_releases))),
            jwks.untrusted_jwks,
            jwks.jwks_url,
        )


NO_STATEMENTS: Final = SuppliedStatements()
#: Statements, in each form that a program may have them: a file or folder of them, their bytes in
#: any order, or sorted already.
Statements: TypeAlias = SuppliedStatements | Path | str | Sequence[bytes]


def read_supplied(statements: Statements) -> SuppliedStatements:
    """Sort the statements that a program hands over.

    Raises:
        TypeError: They are in no form of :data:`Statements`.
        UsageFault, FileFault: As :func:`load_statements`, of a path.
    """
    if isinstance(statements, SuppliedStatements):
        return statements
    if isinstance(statements, str | Path):
        return load_statements([Path(statements)])
    if isinstance(statements, list | tuple) and all(isinstance(data, bytes) for data in statements):
        supplied = NO_STATEMENTS
        for data in statements:
            try:
                supplied = supplied.joined(sort_statement(data))
            except InputRefused:  # a peer's: the verdict says what is wrong with it
                supplied = supplied.joined(SuppliedStatements((data,)))
        return supplied
    problem = f"statements takes a folder or a list of bytes, not {type(statements).__name__}"
    raise TypeError(f"{problem}: statements=[keyset, release]")


def load_statements(paths: Iterable[Path]) -> SuppliedStatements:
    """Read keyset and release statements from files, and from the folders among them.

    They are sorted by what they say they are, and not verified. What else is in a folder, such as
    the card itself, is left out. A folder may be that of a verifier's cache.

    Raises:
        UsageFault: A file that was named is no statement, under its own ``statement.*`` code;
            ``usage.conflict``: a folder holds no statement.
        FileFault: A file cannot be read.
    """
    statements = NO_STATEMENTS
    for path in paths:
        if not path.is_dir():
            with of_the_user(str(path)):
                statements = statements.joined(_sort_file(path))
            continue
        below = (Path(place, name) for place, _, names in walk(path) for name in names)
        files, listed = sorted(file for file in below if file.suffix == ".json"), NO_STATEMENTS
        for file in files[:MAX_FILES]:
            with suppress(InputRefused):
                listed = listed.joined(_sort_file(file, is_found=True))
        if listed == NO_STATEMENTS:
            message = f"there is no statement among the first {MAX_FILES} files (*.json) here"
            raise UsageFault("usage.conflict", message, path=str(path))
        statements = statements.joined(listed)
    return statements


def _sort_file(path: Path, *, is_found: bool = False) -> SuppliedStatements:
    """Sort what is in a file: a statement, or a list of the texts of some, as in the cache."""
    texts = [read_bytes(path, max_bytes=MAX_INPUT_BYTES, is_found=is_found)]
    if texts[0].startswith(b"["):
        with suppress(ValueError, RecursionError, AttributeError):
            texts = [text.encode() for text in json.loads(texts[0])] or texts
    return reduce(SuppliedStatements.joined, map(sort_statement, texts[:MAX_STEPS]), NO_STATEMENTS)


def sort_statement(untrusted_bytes: bytes) -> SuppliedStatements:
    """Return a statement as what it says it is; it is not verified.

    Raises:
        StatementRefused: It is neither a keyset nor a release statement.
    """
    try:  # which of the two statements it says it is; its reader holds it to that
        read_envelope(untrusted_bytes, TYP_KEYSET)
    except StatementRefused as refusal:
        if refusal.code != "statement.typ":
            raise
        read_envelope(untrusted_bytes, TYP_RELEASE)
        return SuppliedStatements((), (untrusted_bytes,))
    return SuppliedStatements((untrusted_bytes,))


# Reading them, and walking along them.


def read_statements(
    received: Iterable[bytes], read: Callable[[bytes], Statement], notes: list[Finding]
) -> list[Statement]:
    """Return the well-formed statements among those received, each once.

    Args:
        received: As they came.
        read: Reads one of them.
        notes: Gets why others are left out.
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
        with noting(notes, f"statement {index}"):
            statements.append(read(data))
    return statements


@contextmanager
def noting(reasons: list[Finding], name: str = "") -> Iterator[None]:
    """Leave out what is refused, and add why to the reasons of a verdict."""
    try:
        yield
    except InputRefused as refusal:  # without its place, which is none of the card's
        message = f"{name}: {refusal.message}" if name else refusal.message
        reasons.append(Finding(refusal.code, message, fix=refusal.finding.fix))


def describe(statement: KeysetStatement | ReleaseStatement) -> str:
    """Return how reasons call a statement."""
    if isinstance(statement, KeysetStatement):
        return f"keyset {statement.label}"
    return f"release {statement.seq} under keyset {statement.keyset.label}"


class Walk:
    """One walk along keyset statements.

    Attributes:
        floor: What the lock says; the walk passes through its keyset.
        now: The time of the verdict.
        skew: How far the issuer's clock may be ahead of ours.
        max_steps: How many steps may be made; those from the cache come on top (K9).
        passed: The statements accepted, in order.
        notes: What was found on the way.
    """

    def __init__(
        self,
        statements: Iterable[KeysetStatement],
        floor: Floor,
        now: datetime,
        skew: timedelta,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.floor, self.now, self.skew, self.max_steps = floor, now, skew, max_steps
        self.passed: list[KeysetStatement] = []
        self.notes: list[Finding] = []
        self._refused: dict[str, list[Finding]] = defaultdict(list)  # by digest, until accepted
        self._by_number: dict[Number, list[KeysetStatement]] = defaultdict(list)
        for statement in statements:
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
            earlier = {statement.digest: statement.prev for statement in self._at(number)}
            number, digest = (number[0], number[1] - 1), earlier.get(digest)
        return required

    def _at(self, number: Number) -> Sequence[KeysetStatement]:
        return self._by_number.get(number, ())

    def begin(self, pin: KeysetId | RootAnchor, issuer: str | None) -> KeysetStatement | None:
        """Accept the statement that the anchor means: of a root set the lowest (K8).

        Raises:
            StatementRefused: ``statement.fork``: the anchor means two of one number.
        """

        def check(statement: KeysetStatement) -> None:
            if issuer is not None and statement.issuer != issuer:
                both = f"it is of {statement.issuer!a:.80}, and the policy's anchor says {issuer!r}"
                raise StatementRefused("statement.issuer", both)
            check_first(statement, pin)

        for number in sorted(self._by_number):
            if lawful := self._lawful(check, number):
                return self._accept(lawful, "statements that the anchor means")
        if self._by_number and not any(self._refused.values()):
            oldest = min(self._by_number)
            message = f"the policy pins another keyset; the oldest here is {self._at(oldest)[0].id}"
            self.notes.append(Finding("statement.anchor", message))
        return None

    def onward(self, keyset: KeysetStatement) -> KeysetStatement:
        """Return the newest statement that can be reached, one lawful step after another.

        Raises:
            StatementRefused: ``statement.fork``: two lawful successors, and the lock decides
                between neither. ``statement.rollback``: the walk ends below the lock.
        """
        self._report_forks(keyset)
        steps = 0
        while lawful := self._next_steps(keyset, steps < self.max_steps):
            keyset = self._accept(lawful, f"lawful successors of {describe(keyset)}")
            steps += 1
        self._report_rest(keyset, steps)
        locked = self.floor.keyset
        if locked is not None and keyset.number < locked.number:
            seen = f"version {locked.version} of epoch {locked.epoch} was seen before"
            message = f"{seen}, and {describe(keyset)} is the newest available"
            raise StatementRefused("statement.rollback", message)
        self._check_lock(keyset)
        return keyset

    def _next_steps(self, keyset: KeysetStatement, more: bool) -> dict[str, KeysetStatement]:
        """Return the lawful next steps, or recovery where there is no single one (K6, K7)."""
        following = keyset.epoch, keyset.version + 1
        lawful = self._lawful(partial(check_successor, keyset), following) if more else {}
        if len(lawful) != 1 and self._may_recover(keyset):
            lawful = self._lawful(partial(check_recovery, keyset), (keyset.epoch + 1, 1)) or lawful
        return lawful

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
        for statement in self._at(number):
            reasons: list[Finding] = []
            with noting(reasons, describe(statement)):
                check(statement)
                check_past(statement.iat, self.now, self.skew)
                self._check_lock(statement)
                lawful[statement.digest] = statement
            if not reasons or reasons[0].code != "statement.anchor":
                self._refused[statement.digest] = reasons
        return lawful

    def _check_lock(self, statement: KeysetStatement) -> None:
        digest = self._required.get(statement.number)
        if digest is not None and digest != statement.digest:
            both = f"was {digest} when it was seen and is {statement.digest} now"
            raise StatementRefused("statement.fork", f"{describe(statement)} {both}")

    def _accept(self, lawful: dict[str, KeysetStatement], description: str) -> KeysetStatement:
        if len(lawful) > 1:
            both = " and ".join(sorted(lawful))
            raise StatementRefused("statement.fork", f"{len(lawful)} {description}: {both}")
        (statement,) = lawful.values()
        self._refused.pop(statement.digest, None)  # of a copy that is not signed as well
        self.passed.append(statement)
        return statement

    def _report_forks(self, keyset: KeysetStatement) -> None:
        """Report other statements of the number from which the walk goes on."""
        for statement in self._at(keyset.number):
            if statement.digest == keyset.digest:
                continue
            keys = (key.public for key in keyset.root.keys)
            signers = keyset.root.holders(list_signers(statement.envelope, keys))
            if len(signers) >= keyset.root.threshold:
                both = f"{describe(keyset)} is {keyset.digest} here and {statement.digest} there"
                self.notes.append(Finding("statement.fork", f"{both}; the first one is kept"))
            else:
                message = f"another {describe(keyset)} is not signed by the root that is trusted"
                self._refused[statement.digest] = [Finding("statement.unsigned", message)]

    def _report_rest(self, keyset: KeysetStatement, steps: int) -> None:
        """Report the statements beyond the end of the walk."""
        every = (statement for group in self._by_number.values() for statement in group)
        beyond = [statement for statement in every if statement.number > keyset.number]
        unexplained = [statement for statement in beyond if not self._refused.get(statement.digest)]
        if beyond and steps >= self.max_steps:
            message = f"{steps} steps were made, to {describe(keyset)}; the rest is left out"
            self.notes.append(Finding("statement.too_many", message))
        elif unexplained:
            nearest = describe(min(unexplained, key=lambda statement: statement.number))
            message = f"{nearest} is here, but not what leads to it from {describe(keyset)}"
            self.notes.append(Finding("statement.gap", message))

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Everything to be told about the walk."""
        return (*self.notes, *chain(*self._refused.values()))


def choose_release(
    current: ReleaseStatement | None,
    offered: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    locked: Floor,
    notes: list[Finding],
    *,
    now: datetime,
    skew: timedelta,
) -> tuple[ReleaseStatement | None, frozenset[str], Finding | None]:
    """Choose the newest release that speaks by right under the newest keyset.

    Args:
        current: The release that this session has accepted before.
        offered: Candidates as received.
        keyset: The newest keyset statement, verified.
        locked: What the lock says.
        notes: Gets why others are left out.
        now: The time of the verdict.
        skew: How far the issuer's clock may be ahead of ours.

    Returns:
        The release, or None; the keys that the keyset and lawful releases under it revoke, the
        locked one included; and, of two lawful releases of the highest number, that neither is
        accepted.
    """
    revoked = effective_revoked(keyset, current)
    if locked.release[:2] == keyset.number:
        revoked |= locked.revoked
    signed: list[ReleaseStatement] = []
    for release in sorted(offered, key=lambda release: release.order):
        if current is not None and release.digest == current.digest:
            continue
        with noting(notes, describe(release)):
            check_past(release.iat, now, skew)
            check_release(release, keyset, None, now=now, skew=skew, revoked=revoked)
            signed.append(release)
    # Of those that revoke one another's signers, each is heard before any is accepted.
    revoked = revoked.union(*(release.revoked for release in signed))
    contested = None
    for order, group in groupby(signed, key=lambda release: release.order):
        lawful: dict[str, ReleaseStatement] = {}
        for release in group:
            with noting(notes, describe(release)):
                check_release(release, keyset, current, now=now, skew=skew, revoked=revoked)
                locked.check(release)
                lawful[release.digest] = release
        if len(lawful) > 1:
            both = f"two releases {order[2]}: {' and '.join(sorted(lawful))}"
            contested = Finding("statement.fork", f"{both}; neither is accepted")
            notes.append(contested)
        elif lawful:
            current, contested = next(iter(lawful.values())), None
    return current, revoked, contested


# What is asked of an issuer (threats 13 and 15; K7, K9). Fetching is an argument. What comes
# is as untrusted as any other statements. The walk here only finds out what to ask for next, so no
# answer can send it anywhere but one lawful step further.


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a URL answered. Only ``absent`` says that there is nothing: 404 or 410.

    Attributes:
        url: In its normal form; as given where it is not a URL that may be asked.
        outcome: ``found``; ``unchanged``, where it was asked whether it has changed; ``absent``;
            ``failed`` (any other status, no answer, too large).
        untrusted_body: What was found; of a failure what was found before it, if that may still
            be used, else empty.
        failure: Why nothing was found; None for ``found`` and ``unchanged``.
        headers: Names in lower case; empty for what was kept.
    """

    url: str
    outcome: Literal["found", "unchanged", "absent", "failed"]
    untrusted_body: bytes = field(default=b"", repr=False)
    failure: FetchFailed | None = None
    headers: Headers = field(default=(), repr=False)


#: Asks for a URL, whose answer may have so many bytes. Raises nothing.
Ask: TypeAlias = Callable[[str, int], FetchResult]


#: Failures of a host that answered, and not with 404 or 410.
_ANSWERED: Final = ("fetch.status", "fetch.content_type", "fetch.encoding", "fetch.too_large")


def no_answer(result: FetchResult) -> Finding:
    """Return why there is nothing of what was asked for."""
    failure = result.failure or FetchFailed("fetch.failed", f"{result.url} gave no answer")
    return Finding("refresh.no_answer", failure.message, fix=failure.finding.hint)


@dataclass(slots=True)
class Refresh:
    """One round of questions: for the newest release, recovery, and every keyset on the way.

    Nothing of what comes is verified here, and it decides only which number is asked for next.
    Whether the last one is the statement that the release names is for the verdict to say, and a
    404 proves nothing by itself. Recovery is asked for before the successors, so that no long
    chain of a thief can crowd it out.

    A release that names the keyset that is known vouches for it, number and digest. Only where it
    does not is that number asked for again: it may have vanished, or be another statement by now.

    Attributes:
        home: The origin at which the statements are published.
        ask_url: Asks for one URL.
        keysets: The keyset statements that came.
        reasons: What could not be fetched, or has vanished.
        misfits: Answers that are neither a statement nor 404.
    """

    home: str
    ask_url: Ask
    keysets: list[bytes] = field(default_factory=list)
    reasons: list[Finding] = field(default_factory=list)
    misfits: list[Finding] = field(default_factory=list)

    def run(
        self,
        pin: KeysetId | RootAnchor | None,
        keyset: KeysetStatement | None = None,
        release: ReleaseStatement | None = None,
    ) -> tuple[SuppliedStatements, tuple[Finding, ...]]:
        """Return the statements that came, and what could not be fetched, or has vanished.

        Args:
            pin: The anchor; None where an issuer is added by what it publishes.
            keyset: The newest keyset statement so far.
            release: The newest release statement so far.
        """
        answer, named = self.ask(RELEASE_PATH, None if release is None else describe(release)), None
        if answer.outcome == "found":
            with suppress(StatementRefused):
                named = read_release(answer.untrusted_body).keyset
        newest = keyset
        if keyset is None and isinstance(pin, KeysetId):  # whoever pinned it has seen it
            newest = self.ask_keyset(pin.epoch, pin.version, is_known=True)
        if newest is not None or not isinstance(pin, KeysetId):
            newest = self.gather(newest)
        if newest is not None and answer.outcome != "failed":  # no answer says nothing
            if named is not None and newest.id < named:
                more = f"the release speaks under keyset {named.label}, and the statements that "
                more += f"lead there from {newest.label} could not be fetched"
                self.reasons.append(Finding("statement.gap", more))
            if keyset is not None and named != keyset.id:
                self.ask_keyset(keyset.epoch, keyset.version, is_known=True)
        if newest is not None and newest.id == named and self.misfits and not self.reasons:
            message = f"could not ask whether a newer keyset exists ({self.misfits[0].message}); "
            message += "a host without one answers 404"
            self.misfits = [Finding("refresh.next_unknown", message)]
        releases = (answer.untrusted_body,) if answer.outcome == "found" else ()
        supplied = SuppliedStatements(tuple(self.keysets), releases)
        return supplied, tuple(dict.fromkeys((*self.reasons, *self.misfits)))

    def ask(self, path: str, seen: str | None = None) -> FetchResult:
        """Ask for one document; `seen` names what was seen there before."""
        answer = self.ask_url(self.home + path, MAX_STATEMENT_BYTES)
        if answer.outcome == "failed":
            is_misfit = answer.failure is not None and answer.failure.code in _ANSWERED
            (self.misfits if is_misfit else self.reasons).append(no_answer(answer))
        if answer.outcome == "absent" and seen is not None:
            gone = f"{seen} was published before and is now gone"
            self.reasons.append(Finding("statement.vanished", gone))
        return answer

    def gather(self, newest: KeysetStatement | None) -> KeysetStatement | None:
        """Ask for what may follow a statement, version after version; return the last that came."""
        epoch, version = (1, 0) if newest is None else newest.number
        while True:
            recovery = self.ask_keyset(epoch + 1, 1)
            while (successor := self.ask_keyset(epoch, version + 1)) is not None:
                newest, version = successor, version + 1
            if recovery is None:
                return newest
            newest, epoch, version = recovery, epoch + 1, 1

    def ask_keyset(
        self, epoch: int, version: int, *, is_known: bool = False
    ) -> KeysetStatement | None:
        """Return one keyset statement, if what is found has that number."""
        spent = sum(map(len, self.keysets))
        if len(self.keysets) >= MAX_STEPS or spent + MAX_STATEMENT_BYTES > MAX_CHAIN_BYTES:
            most = f"one refresh ends after {MAX_STEPS} keysets or {MAX_CHAIN_BYTES} bytes"
            self.reasons.append(Finding("statement.too_many", most))
            return None
        name = f"keyset {epoch}.{version}"
        path = KEYSET_PATH.format(epoch=epoch, version=version)
        answer = self.ask(path, name if is_known else None)
        if answer.outcome != "found":
            return None
        try:
            statement = read_keyset(answer.untrusted_body)
            if statement.number != (epoch, version):
                raise StatementRefused("statement.gap", f"{statement.label} is there")
        except StatementRefused as refusal:
            is_misfit = refusal.code == "statement.shape"
            reason = Finding(refusal.code, f"{name} at {answer.url}: {refusal.message}")
            (self.misfits if is_misfit else self.reasons).append(reason)
            return None
        self.keysets.append(answer.untrusted_body)
        return statement
