"""The verdict on one card: four answers, each signature's findings, reasons."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, NoReturn

from cardsign.card.profiles import PROFILES, ProfileName
from cardsign.card.values import Json
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK, CardsignError, InputRefused
from cardsign.findings import Finding, rate_findings

Answer = Literal["yes", "no", "unknown"]
Verdict = Literal["trusted", "untrusted", "invalid", "indeterminate"]
SignatureVerdict = Literal[
    "valid",
    "invalid",
    "unknown-key",
    "not-enrolled",
    "revoked",
    "other-profile",
    "refused",
    "not-tried",
]

SCHEMA: Final = "cardsign.verdict/2"
#: The exit status of each verdict.
EXIT_OF: Final = {
    "trusted": EXIT_OK,
    "untrusted": EXIT_NOT_TRUSTED,
    "invalid": EXIT_NOT_TRUSTED,
    "indeterminate": EXIT_NO_VERDICT,
}
_MAX_SHOWN: Final = 4  # places in a sentence
#: The members of a signature in a verdict's JSON, in their order.
_SHOWN: Final = (
    *("index", "kid", "alg", "typ", "profile", "verdict", "counts", "holder", "payload_sha256"),
    *("uncovered", "uncovered_count", "reasons"),
)


class Answers(NamedTuple):
    """The four questions, answered by one and the same signature (rule V2).

    Attributes:
        integrity: A permitted profile of the received document verifies (V3).
        authorised: By a key with role card for this subject, every interface inside (V4).
        current: Listed, unexpired, unrevoked, not rolled back (V5).
        complete: Nothing of the document is left uncovered (V6).
    """

    integrity: Answer = "unknown"
    authorised: Answer = "unknown"
    current: Answer = "unknown"
    complete: Answer = "unknown"

    def to_json(self) -> dict[str, Json]:
        """The object of the verdict's `answers` member."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class SignatureReport:
    """What was found about one entry of `signatures`.

    Attributes:
        index: Its place in `signatures`, from 0.
        kid: The header's kid, or None where the header could not be read; not verified.
        alg: The header's alg, likewise.
        typ: The header's typ, or None where there is none.
        verdict: See the table in `docs/concepts/verdicts.md`.
        reasons: Why, the weightiest first; at least one unless it counts.
        profile: The profile whose payload it verifies and by which it was judged; None if
            there is none, or if no key is known. Others may make the same payload.
        counts: Whether the signature can make the card trusted.
        uncovered: JSON pointers of what it leaves open, the closed table's rows left out: at
            most 100, their tokens cut to 64 characters (:func:`cardsign.card.profiles.listed`).
        uncovered_count: How many there are.
        holder: Who holds the key, as the anchor's source says; None where it does not.
        payload: The payload by which it was judged, or None. Only signatures over one payload
            count together.
        answers: The four answers if this signature alone were asked.
        ends: When what it is worth ends; None where nothing sets a deadline.
    """

    index: int
    kid: str | None
    alg: str | None
    typ: str | None
    verdict: SignatureVerdict
    reasons: tuple[Finding, ...]
    profile: ProfileName | None = None
    counts: bool = False
    uncovered: tuple[str, ...] = ()
    uncovered_count: int = 0
    holder: str | None = None
    payload: bytes | None = field(default=None, repr=False)
    answers: Answers = field(default_factory=Answers)
    ends: datetime | None = None

    @property
    def payload_sha256(self) -> str | None:
        """SHA-256 of the payload in hex, as release statements name it."""
        return None if self.payload is None else hashlib.sha256(self.payload).hexdigest()

    @property
    def rank(self) -> tuple[int, ...]:
        """Orders signatures from worst to best.

        First of all whether one counts, then whether it fits anything, then its answers; only
        where those are equal does it matter how much of the card is covered.
        """
        answers = self.answers
        profile = list(PROFILES).index(self.profile) if self.profile else len(PROFILES)
        fits = self.counts, self.profile is not None
        return *fits, answers.count("yes"), -answers.count("no"), -self.uncovered_count, -profile

    def to_json(self) -> dict[str, Any]:
        """The element of the verdict's `signatures` member."""
        shown = {name: getattr(self, name) for name in _SHOWN}
        reasons = [reason.to_json() for reason in self.reasons]
        return {**shown, "uncovered": list(self.uncovered), "reasons": reasons}


def some_of(pointers: Sequence[str], count: int) -> str:
    """The first of some places, as part of a sentence."""
    shown = [*pointers[:_MAX_SHOWN]]
    if count > len(shown):
        shown.append(f"{count - len(shown)} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


@dataclass(frozen=True, slots=True)
class StatementUsed:
    """A statement on which a verdict rests.

    Attributes:
        number: ``epoch.version`` of a keyset statement, ``seq`` of a release.
        digest: SHA-256 of its payload, lower-case hex.
        exp: When it ends by itself, Unix seconds.
    """

    number: str
    digest: str
    exp: int

    def to_json(self) -> dict[str, Json]:
        """The object of the verdict's `statements` member."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on (bytes, subject, policy, time), with everything that led to it.

    Attributes:
        verdict: ``trusted`` is four times yes, or `current` waived by name.
        subject: Whom the verdict is about, in the policy's words; None if nobody was named.
        answers: Those of the best single signature.
        reasons: About the card as a whole, the weightiest first.
        signatures: One report for each entry; with `stop_early`, up to the one that decided.
        profile: The best signature's profile, or None.
        uncovered: What the best signature leaves open, as it says it.
        uncovered_count: How many places that are.
        issuer: The policy's name of the issuer, or None.
        valid_until: The earliest deadline, or None where there is none.
        historic: The verdict is about a time that the caller chose.
        checked_at: The time that the verdict is about.
        keyset: The keyset statement on which it rests, or None.
        release: The release statement on which it rests, or None.
        card: The object parsed from the verified payload; None unless trusted.
    """

    verdict: Verdict
    subject: str | None
    answers: Answers
    reasons: tuple[Finding, ...]
    signatures: tuple[SignatureReport, ...] = ()
    profile: ProfileName | None = None
    uncovered: tuple[str, ...] = ()
    uncovered_count: int = 0
    issuer: str | None = None
    valid_until: datetime | None = None
    historic: bool = False
    checked_at: datetime | None = None
    keyset: StatementUsed | None = None
    release: StatementUsed | None = None
    card: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        reasons = rate_findings(self.reasons, trusted=self.verdict == "trusted")
        object.__setattr__(self, "reasons", reasons)

    def __bool__(self) -> NoReturn:
        """Refuse `if report:`, which would be true of an invalid card."""
        raise TypeError(
            'a Report is neither true nor false: write report.verdict == "trusted", or let '
            "verify_card() raise"
        )

    @classmethod
    def unread(cls, refusal: InputRefused, subject: str | None, now: datetime) -> Report:
        """The verdict where there is no card to look at: what came cannot be read as one."""
        reasons = (refusal.finding,)
        return cls("invalid", subject, Answers(integrity="no"), reasons, checked_at=now)

    @property
    def all_but(self) -> str | None:
        """What a complete card leaves unsigned because the policy accepts it; None for nothing."""
        if self.answers.complete != "yes" or not self.uncovered:
            return None
        unsigned = some_of(self.uncovered, self.uncovered_count)
        return f"all but {unsigned}, accepted by your policy"

    @property
    def exit_status(self) -> int:
        """0 trusted, 1 untrusted or invalid, 3 indeterminate."""
        return EXIT_OF[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """The verdict as ``cardsign verify --json`` prints it (schema cardsign.verdict/2)."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "subject": self.subject,
            "answers": self.answers.to_json(),
            "reasons": [reason.to_json() for reason in self.reasons],
            "signatures": [signature.to_json() for signature in self.signatures],
            "coverage": {
                "profile": self.profile,
                "uncovered": list(self.uncovered),
                "uncovered_count": self.uncovered_count,
                "all_but": self.all_but,
            },
            "issuer": self.issuer,
            "statements": {
                "keyset": self.keyset.to_json() if self.keyset else None,
                "release": self.release.to_json() if self.release else None,
            },
            "checked_at": self.checked_at.isoformat() if self.checked_at else None,
            "valid_until": self.valid_until.isoformat() if self.valid_until else None,
            "historic": self.historic,
            "card": self.card,
        }


class VerificationError(CardsignError):
    """A card was not returned, because it is not trusted or because nobody can say yet.

    It carries the first of the report's reasons as its code, message, path and hint.

    Attributes:
        report: The whole verdict.
    """

    def __init__(self, report: Report) -> None:
        first = report.reasons[0]
        super().__init__(first.code, first.message)
        self.finding = replace(first, fix=first.hint)
        self.report = report
        self.exit_status = report.exit_status

    @classmethod
    def of(cls, report: Report) -> VerificationError:
        """The error that fits a verdict other than ``trusted``."""
        return NoVerdict(report) if report.verdict == "indeterminate" else NotTrusted(report)


class NotTrusted(VerificationError):
    """The verdict is ``untrusted`` or ``invalid``: something speaks against the card."""


class NoVerdict(VerificationError):
    """The verdict is ``indeterminate``: what would decide it is missing or cannot be had now."""


_TOKEN: Final = object()  # what only this module can give to VerifiedCard


class VerifiedCard(Mapping[str, Any]):
    """A card that was verified: its members, read-only; `verify_card` and `discover` make it.

    A type checker refuses an unverified dict in its place. Hostile code in this process can
    still forge one.

    Attributes:
        report: The whole verdict.
    """

    __slots__ = ("report",)

    def __init__(self, report: Report, *, token: object) -> None:
        if token is not _TOKEN or report.verdict != "trusted":
            raise TypeError("a VerifiedCard is made by verify_card alone")
        self.report = report

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the object parsed from the payload that the signature covers."""
        return copy.deepcopy(self._members)

    @property
    def _members(self) -> dict[str, Any]:
        return self.report.card or {}

    def __getitem__(self, name: str) -> Any:
        """A copy of a member of the verified document, such as ``card["skills"]``."""
        return copy.deepcopy(self._members[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def subject(self) -> str:
        """Whom the verdict is about, in the policy's words."""
        return self.report.subject or ""

    @property
    def valid_until(self) -> datetime | None:
        """The earliest deadline (rule V8); None where nothing sets one."""
        return self.report.valid_until

    def __repr__(self) -> str:
        return f"VerifiedCard(subject={self.subject!r}, profile={self.report.profile!r})"


def trusted_card(report: Report) -> VerifiedCard:
    """The card of a report that `reach_verdict` has made.

    Raises:
        NotTrusted: The verdict is ``untrusted`` or ``invalid``.
        NoVerdict: The verdict is ``indeterminate``.
    """
    if report.verdict != "trusted":
        raise VerificationError.of(report)
    return VerifiedCard(report, token=_TOKEN)


# ------------------------------------------------------------------ asking again


# What a copy that is older than another explains.
_OF_TWO_AGES: Final = frozenset(
    {
        "card.digest_unlisted",
        "card.rollback",
        "extended.ahead",
        "extended.rollback",
        "key.expired",
        "key.revoked",
        "key.unknown",
        "statement.expired",
        "statement.gap",
        "statement.keyset",
        "statement.rollback",
    }
)


def ask_again(report: Report) -> bool:
    """Whether copies of different ages may explain a verdict, so that all are fetched anew, once.

    Card, release and keyset lie in caches of their own, and are replaced at different times.
    """
    codes = {reason.code for reason in report.reasons}
    return report.verdict != "trusted" and not codes.isdisjoint(_OF_TWO_AGES)
