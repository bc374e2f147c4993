"""What a verifier asks an issuer for, when, and what it takes home (threats.md 13 and 15; K7, K9).

Pure: fetching is an argument. What is brought home is evidence, untrusted as any other:
:func:`cardsign.trust.resolve.establish` checks and keeps it. The walk here only finds out what
to ask for next, so that no answer can send it anywhere but one lawful step further. Recovery is
asked for before the successors, so that no chain of a thief's is long enough to crowd it out, and
tried after them, since keys of recovery that were replaced must open nothing.

A release that names the statement held vouches for it, number and digest. Only where none does is
the held number asked for again: it may have vanished, or be another statement by now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from cardsign.reasons import Reason
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetId, KeysetStatement, read_keyset
from cardsign.statements.release import read_release
from cardsign.statements.succession import RootPin
from cardsign.trust.known import Known
from cardsign.trust.policy import Limits
from cardsign.trust.statements import MAX_CHAIN_BYTES, MAX_STEPS, Evidence, Walk

#: Seconds after which an issuer is asked again; HTTP may shorten it and never lengthen it.
REFRESH_INTERVAL: Final = 300
#: Where statements are, below an origin.
RELEASE_PATH: Final = "/.well-known/cardsign/release.json"
KEYSET_PATH: Final = "/.well-known/cardsign/keyset/{epoch}.{version}.json"


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer. Only ``absent`` says that there is nothing: 404 or 410 and nothing else.

    Attributes:
        outcome: ``found``, ``absent``, or ``failed`` (any other status, no answer, too large).
        untrusted_body: What was found.
        max_age: Seconds for which HTTP lets it be used; None where it says nothing.
        why: Of a failure, one sentence that names the URL; may be empty.
    """

    outcome: Literal["found", "absent", "failed"]
    untrusted_body: bytes = b""
    max_age: int | None = None
    why: str = ""


class Fetcher(Protocol):
    """Asks for one URL, below the issuer's origin. Raises nothing."""

    def __call__(self, url: str, *, max_bytes: int, fresh: bool) -> Fetched:
        """Answer; `fresh` asks every cache on the way to look again."""
        ...


@dataclass(frozen=True, slots=True)
class Brought:
    """What one refresh brought home.

    Attributes:
        evidence: The statements, as received.
        reasons: What could not be had, or has vanished.
        again_after: Seconds after which it is time to ask again.
    """

    evidence: Evidence
    reasons: tuple[Reason, ...]
    again_after: int


@dataclass(slots=True)
class _Errand:
    home: str
    fetch: Fetcher
    fresh: bool
    keysets: list[bytes] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    again_after: int = REFRESH_INTERVAL

    def ask(self, path: str) -> Fetched:
        answer = self.fetch(self.home + path, max_bytes=MAX_STATEMENT_BYTES, fresh=self.fresh)
        if answer.outcome == "failed":
            unanswered = answer.why or f"{self.home}{path} gave no answer"
            self.reasons.append(Reason.of("refresh.no_answer", unanswered))
        if answer.max_age is not None:
            self.again_after = min(self.again_after, max(answer.max_age, 0))
        return answer

    def vanished(self, what: str) -> None:
        """What was seen is there no longer."""
        gone = f"{what} was seen, and now there is none"
        self.reasons.append(Reason.of("statement.vanished", gone))

    def ask_keyset(
        self, epoch: int, version: int, *, is_pinned: bool = False
    ) -> KeysetStatement | None:
        """One keyset statement, if what is found has that number."""
        spent = sum(map(len, self.keysets))
        if len(self.keysets) >= MAX_STEPS or spent + MAX_STATEMENT_BYTES > MAX_CHAIN_BYTES:
            most = (
                f"one refresh ends after {MAX_STEPS} keyset statements or {MAX_CHAIN_BYTES} bytes"
            )
            self.reasons.append(Reason.of("statement.too_many", most))
            return None
        answer = self.ask(KEYSET_PATH.format(epoch=epoch, version=version))
        if answer.outcome == "absent" and is_pinned:  # whoever has pinned it has seen it
            self.vanished(f"keyset {epoch}.{version}")
        if answer.outcome != "found":
            return None
        try:
            statement = read_keyset(answer.untrusted_body)
        except StatementRefused as refusal:
            self.reasons.append(Reason.of(refusal.code, f"keyset {epoch}.{version}: {refusal}"))
            return None
        if statement.number != (epoch, version):
            other = f"keyset {epoch}.{version} was asked for, and {statement.epoch}."
            other += f"{statement.version} is there"
            self.reasons.append(Reason.of("statement.gap", other))
            return None
        self.keysets.append(answer.untrusted_body)
        return statement


def refresh_issuer(
    limits: Limits,
    known: Known | None,
    pin: KeysetId | RootPin | None,
    fetch: Fetcher,
    *,
    home: str,
    now: datetime,
    fresh: bool = False,
) -> Brought:
    """Ask for the newest release, for recovery, and for every keyset statement on the way.

    The end of the walk is where no lawful successor is found; whether that is the statement
    which the release names is for the verdict to say, and a 404 proves nothing by itself.

    Args:
        limits: The policy's.
        known: What is remembered of the issuer.
        pin: The anchor, or what was met at first contact; None where this is it.
        fetch: Asks one URL.
        home: The origin at which the statements lie.
        now: Aware.
        fresh: Ask every cache on the way to look again.
    """
    errand = _Errand(home, fetch, fresh)
    release = errand.ask(RELEASE_PATH)
    if release.outcome == "absent" and known is not None and known.release is not None:
        errand.vanished(f"release {known.release.seq}")
    walk = Walk(now, timedelta(seconds=limits.skew), _keep_nothing)
    held = known.keyset if known else None
    if held is None:
        held = _meet(errand, walk, release) if pin is None else _first(errand, walk, pin)
    if held is not None:
        _vouch(errand, known, _onwards(errand, walk, held), release)
    bodies = (release.untrusted_body,) if release.outcome == "found" else ()
    return Brought(
        Evidence(tuple(errand.keysets), bodies, contact=home),
        tuple(dict.fromkeys(errand.reasons)),
        errand.again_after,
    )


def _first(errand: _Errand, walk: Walk, pin: KeysetId | RootPin) -> KeysetStatement | None:
    """The statement that the anchor means; a root set may have become one in any version."""
    if isinstance(pin, KeysetId):
        statement = errand.ask_keyset(pin.epoch, pin.version, is_pinned=True)
        return None if statement is None else walk.from_anchor(pin, None, [statement])
    epoch, version = 1, 1
    while True:
        statement = errand.ask_keyset(epoch, version)
        if statement is not None:
            if (first := walk.from_anchor(pin, None, [statement])) is not None:
                return first
            version += 1
        elif version > 1:
            epoch, version = epoch + 1, 1
        else:
            return None


def _meet(errand: _Errand, walk: Walk, release: Fetched) -> KeysetStatement | None:
    """At first contact: the statement of which the newest release speaks, else the very first."""
    named = _named(release)
    statement = errand.ask_keyset(*(named.number if named else (1, 1)))
    if statement is None:
        return None
    return walk.from_anchor(RootPin.of(statement.root), None, [statement])


def _onwards(errand: _Errand, walk: Walk, held: KeysetStatement) -> KeysetStatement:
    """One lawful step after another, and recovery from the last of each epoch (K6, K7)."""
    while True:
        recovery = errand.ask_keyset(held.epoch + 1, 1)
        while (following := _reached(errand, walk, held)) is not held:
            held = following
        opened = held if recovery is None else walk.onwards(held, [recovery])
        if opened is held:
            return held
        held = opened


def _reached(errand: _Errand, walk: Walk, held: KeysetStatement) -> KeysetStatement:
    successor = errand.ask_keyset(held.epoch, held.version + 1)
    return held if successor is None else walk.onwards(held, [successor])


def _vouch(
    errand: _Errand, known: Known | None, reached: KeysetStatement, release: Fetched
) -> None:
    """See what became of the statement held where the newest release does not name it."""
    if release.outcome == "failed":
        return  # no answer says nothing
    named = _named(release)
    if named is not None and reached.id < named:
        more = f"the release speaks under keyset {named.epoch}.{named.version}; what leads there "
        more += f"from {reached.epoch}.{reached.version} was not to be had"
        errand.reasons.append(Reason.of("statement.gap", more))
    if known is None or reached != known.keyset or (named and named.digest == reached.digest):
        return
    path = KEYSET_PATH.format(epoch=reached.epoch, version=reached.version)
    answer = errand.ask(path)
    if answer.outcome == "absent":
        errand.vanished(f"keyset {reached.epoch}.{reached.version}")
    elif answer.outcome == "found":
        errand.keysets.append(answer.untrusted_body)  # of another one the walk says what it is


def _named(release: Fetched) -> KeysetId | None:
    """The keyset statement under which a release says that it speaks."""
    if release.outcome != "found":
        return None
    try:
        return read_release(release.untrusted_body).keyset
    except StatementRefused:
        return None


def _keep_nothing(statement: KeysetStatement) -> None:
    """What is brought home is checked and kept there."""
