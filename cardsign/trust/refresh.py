"""What a verifier asks an issuer for, and what comes of it (threats 13 and 15; K7, K9).

Pure: fetching is an argument. The result is supplied statements, as untrusted as any other:
:class:`cardsign.trust.session.Session` checks and keeps them. The walk here only finds out
what to ask for next, so no answer can send it anywhere but one lawful step further. Recovery is
asked for before the successors, so that no long chain of a thief can crowd it out. It is tried
after them, because recovery keys that were replaced must open nothing.

A release that names the newest keyset vouches for it, number and digest. Only where none does is
that number asked for again: it may have vanished, or be another statement by now.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from cardsign.errors import FetchFailed
from cardsign.findings import Finding
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.trust.lock import Floor
from cardsign.trust.supplied import SuppliedStatements
from cardsign.trust.walk import MAX_CHAIN_BYTES, MAX_STEPS, Walk
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, Headers


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a URL answered. Only ``absent`` says that there is nothing: 404 or 410.

    Attributes:
        url: In its normal form; as given where it is no URL that may be asked.
        outcome: ``found``; ``unchanged``, where it was asked whether it has changed; ``absent``;
            ``failed`` (any other status, no answer, too large).
        untrusted_body: What was found; of a failure what was found before it, where that may
            still be used.
        failure: Why nothing was found; None for ``found`` and ``unchanged``.
        is_stale: Whether `untrusted_body` is from before a failure.
        headers: Names in lower case; empty for what was kept.
    """

    url: str
    outcome: Literal["found", "unchanged", "absent", "failed"]
    untrusted_body: bytes = field(default=b"", repr=False)
    failure: FetchFailed | None = None
    is_stale: bool = False
    headers: Headers = field(default=(), repr=False)


Ask: TypeAlias = Callable[[str, int], FetchResult]
"""Asks for a URL, whose answer may have so many bytes. Raises nothing."""


#: Failures of a host that answered, and not with 404 or 410.
_ANSWERED: Final = ("fetch.status", "fetch.content_type", "fetch.encoding", "fetch.too_large")


def no_answer(result: FetchResult) -> Finding:
    """Why there is nothing of what was asked for."""
    failure = result.failure or FetchFailed("fetch.failed", f"{result.url} gave no answer")
    return Finding("refresh.no_answer", failure.message, fix=failure.hint)


@dataclass(slots=True)
class Refresh:
    """One round of questions: for the newest release, recovery, and every keyset on the way.

    The end of the walk is where no lawful successor is found; whether that is the statement
    which the release names is for the verdict to say, and a 404 proves nothing by itself.

    Attributes:
        home: The origin at which the statements are published.
        ask_url: Asks for one URL.
        now: The time, aware.
        skew: Seconds that the issuer's clock may be ahead.
        keysets: The keyset statements that came.
        releases: The release that came.
        reasons: What could not be fetched, or has vanished.
        misfits: Which of these are answers that are neither a keyset statement nor 404.
    """

    home: str
    ask_url: Ask
    now: datetime
    skew: int
    keysets: list[bytes] = field(default_factory=list)
    releases: list[bytes] = field(default_factory=list)
    reasons: list[Finding] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)

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
        answer, named = self.ask(RELEASE_PATH), None
        if answer.outcome == "absent" and release is not None:
            self.vanished(f"release {release.seq}")
        if answer.outcome == "found":
            self.releases.append(answer.untrusted_body)
            with suppress(StatementRefused):
                named = read_release(answer.untrusted_body).keyset
        with suppress(StatementRefused):  # a fork is for the verdict to say
            reached = self.first(pin) if keyset is None else keyset
            if reached is not None:
                reached = self.onwards(reached)
                if answer.outcome != "failed":  # no answer says nothing
                    self.check_named(reached, named, keyset)
                if named == reached.id and 0 < len(self.reasons) == len(self.misfits):
                    message = f"could not ask whether a newer keyset exists ({self.misfits[0]}; "
                    message += "a host without one answers 404)"
                    self.reasons = [Finding("refresh.next_unknown", message)]
        supplied = SuppliedStatements(tuple(self.keysets), tuple(self.releases))
        return supplied, tuple(dict.fromkeys(self.reasons))

    def walk(self, statement: KeysetStatement) -> Walk:
        """Return a walk that only finds out what to ask for next; the session checks the lock."""
        return Walk([statement], Floor(), self.now, timedelta(seconds=self.skew))

    def ask(self, path: str) -> FetchResult:
        answer = self.ask_url(self.home + path, MAX_STATEMENT_BYTES)
        if answer.outcome == "failed":
            self.reasons.append(no_answer(answer))
        return answer

    def vanished(self, name: str) -> None:
        """What was seen is there no longer."""
        gone = f"{name} was published before and is now gone"
        self.reasons.append(Finding("statement.vanished", gone))

    def ask_keyset(
        self, epoch: int, version: int, *, is_pinned: bool = False
    ) -> KeysetStatement | None:
        """One keyset statement, if what is found has that number."""
        spent = sum(map(len, self.keysets))
        if len(self.keysets) >= MAX_STEPS or spent + MAX_STATEMENT_BYTES > MAX_CHAIN_BYTES:
            most = (
                f"one refresh ends after {MAX_STEPS} keyset statements or {MAX_CHAIN_BYTES} bytes"
            )
            self.reasons.append(Finding("statement.too_many", most))
            return None
        answer = self.ask(KEYSET_PATH.format(epoch=epoch, version=version))
        if answer.outcome == "absent" and is_pinned:  # it was seen when it was pinned
            self.vanished(f"keyset {epoch}.{version}")
        if answer.outcome != "found":
            failure = answer.failure if answer.outcome == "failed" else None
            if failure is not None and failure.code in _ANSWERED:
                self.misfits.append(failure.message.removesuffix(" instead of 200"))
            return None
        try:
            statement = read_keyset(answer.untrusted_body)
        except StatementRefused as refusal:
            self.reasons.append(Finding(refusal.code, f"keyset {epoch}.{version}: {refusal}"))
            if refusal.code == "statement.shape":
                self.misfits.append(f"{answer.url} answered 200 with something else")
            return None
        if statement.number != (epoch, version):
            other = f"keyset {epoch}.{version} was asked for, and {statement.label} is there"
            self.reasons.append(Finding("statement.gap", other))
            return None
        self.keysets.append(answer.untrusted_body)
        return statement

    def first(self, pin: KeysetId | RootAnchor | None) -> KeysetStatement | None:
        """The statement that the anchor means; of a root set, or of none, it may be any."""
        if isinstance(pin, KeysetId):
            statement = self.ask_keyset(pin.epoch, pin.version, is_pinned=True)
            return None if statement is None else self.walk(statement).begin(pin, None)
        epoch, version = 1, 1
        while (statement := self.ask_keyset(epoch, version)) is not None or version > 1:
            if statement is None:
                epoch, version = epoch + 1, 1
            elif (first := self.walk(statement).begin(pin, None)) is not None:
                return first
            else:
                version += 1
        return None

    def onwards(self, keyset: KeysetStatement) -> KeysetStatement:
        """One lawful step after another, and recovery from the last of each epoch (K6, K7)."""
        while True:
            recovery = self.ask_keyset(keyset.epoch + 1, 1)
            while (successor := self.ask_keyset(keyset.epoch, keyset.version + 1)) is not None:
                if (following := self.walk(successor).onward(keyset)) is keyset:
                    break
                keyset = following
            opened = keyset if recovery is None else self.walk(recovery).onward(keyset)
            if opened is keyset:
                return keyset
            keyset = opened

    def check_named(
        self, reached: KeysetStatement, named: KeysetId | None, previous: KeysetStatement | None
    ) -> None:
        """See what became of the statement held where the newest release does not name it."""
        if named is not None and reached.id < named:
            more = f"the release speaks under keyset {named.label}, and the statements that lead "
            more += f"there from {reached.label} could not be fetched"
            self.reasons.append(Finding("statement.gap", more))
        if previous is None or reached != previous or (named and named.digest == reached.digest):
            return
        answer = self.ask(KEYSET_PATH.format(epoch=reached.epoch, version=reached.version))
        if answer.outcome == "absent":
            self.vanished(f"keyset {reached.label}")
        elif answer.outcome == "found":
            self.keysets.append(answer.untrusted_body)  # of another one the walk says what it is
