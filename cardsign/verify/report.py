"""The verdict on one card: four answers, each signature's findings, reasons; and in words."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, NoReturn

from cardsign.card.profiles import PROFILES, ProfileName
from cardsign.card.values import Json
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK, CardsignError, check_types
from cardsign.findings import Finding, cut, rate_findings
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.times import second

_LOG: Final = logging.getLogger(__name__)
# Quiet, unless the program that uses the package listens.
logging.getLogger("cardsign").addHandler(logging.NullHandler())

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
        """Return the object of the verdict's `answers` member."""
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
            most 100, their tokens cut to 64 characters.
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
        """Return the element of the verdict's `signatures` member."""
        shown = {name: getattr(self, name) for name in _SHOWN}
        reasons = [reason.to_json() for reason in self.reasons]
        return {**shown, "uncovered": list(self.uncovered), "reasons": reasons}


def some_of(pointers: Sequence[str], count: int) -> str:
    """Return the first of some places, as part of a sentence."""
    shown = [*pointers[:_MAX_SHOWN]]
    if count > len(shown):
        shown.append(f"{count - len(shown)} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


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
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    card: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        reasons = rate_findings(self.reasons, trusted=self.verdict == "trusted")
        object.__setattr__(self, "reasons", reasons)

    def __bool__(self) -> NoReturn:
        """Refuse `if report:`, which would be true of an invalid card."""
        example = 'write report.verdict == "trusted", or let verify_card() raise'
        raise TypeError(f"a Report is neither true nor false: {example}")

    @property
    def all_but(self) -> str | None:
        """What a complete card leaves unsigned because the policy accepts it; None for nothing."""
        if self.answers.complete != "yes" or not self.uncovered:
            return None
        return f"all but {some_of(self.uncovered, self.uncovered_count)}, accepted by your policy"

    @property
    def exit_status(self) -> int:
        """0 trusted, 1 untrusted or invalid, 3 indeterminate."""
        others = {"trusted": EXIT_OK, "indeterminate": EXIT_NO_VERDICT}
        return others.get(self.verdict, EXIT_NOT_TRUSTED)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``cardsign verify --json`` (schema cardsign.verdict/2)."""
        coverage: dict[str, Any] = {"profile": self.profile, "uncovered": list(self.uncovered)}
        coverage |= {"uncovered_count": self.uncovered_count, "all_but": self.all_but}
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "subject": self.subject,
            "answers": self.answers.to_json(),
            "reasons": [reason.to_json() for reason in self.reasons],
            "signatures": [signature.to_json() for signature in self.signatures],
            "coverage": coverage,
            "issuer": self.issuer,
            "statements": {
                "keyset": self.keyset and _statement(self.keyset.label, self.keyset),
                "release": self.release and _statement(str(self.release.seq), self.release),
            },
            "checked_at": self.checked_at.isoformat() if self.checked_at else None,
            "valid_until": self.valid_until.isoformat() if self.valid_until else None,
            "historic": self.historic,
            "card": self.card,
        }


def _statement(number: str, statement: KeysetStatement | ReleaseStatement) -> dict[str, Json]:
    return {"number": number, "digest": statement.digest, "exp": statement.exp}


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
        """Return the error that fits a verdict other than ``trusted``."""
        check_types("VerificationError.of(examine_card(...))", report=(report, Report))
        return NoVerdict(report) if report.verdict == "indeterminate" else NotTrusted(report)


class NotTrusted(VerificationError):
    """The verdict is ``untrusted`` or ``invalid``: the card was checked and refused."""


class NoVerdict(VerificationError):
    """The verdict is ``indeterminate``: what would decide it is missing, or not available now."""


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
        """Return a copy of a member of the verified document, such as ``card["skills"]``."""
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
    """Return the card of a report, if it is trusted.

    Raises:
        NotTrusted: The verdict is ``untrusted`` or ``invalid``.
        NoVerdict: The verdict is ``indeterminate``.
    """
    if report.verdict != "trusted":
        raise VerificationError.of(report)
    return VerifiedCard(report, token=_TOKEN)


#: What a copy that is older than another explains.
_OF_TWO_AGES: Final = {
    *("card.digest_unlisted", "card.rollback", "extended.ahead", "extended.rollback"),
    *("key.expired", "key.revoked", "key.unknown", "statement.expired", "statement.gap"),
    *("statement.keyset", "statement.rollback"),
}


def logged(report: Report) -> Report:
    """Return a verdict, which is logged unless it is `trusted`."""
    if report.verdict != "trusted" and _LOG.isEnabledFor(logging.INFO):
        subject = ascii(report.subject or "nobody")
        _LOG.info("%s: %s (%s)", subject, report.verdict, report.reasons[0].code)
    return report


def ask_again(report: Report) -> bool:
    """Return whether copies of different ages may explain a verdict, so that all are fetched again.

    Card, release and keyset lie in caches of their own, and are replaced at different times.
    """
    codes = [reason.code for reason in report.reasons]
    return report.verdict != "trusted" and not _OF_TWO_AGES.isdisjoint(codes)


# For a person, line by line.

_ANSWERS: Final = {
    ("integrity", "yes"): "the card is as it was signed",
    ("integrity", "no"): "no signature that counts fits the card as it is",
    ("integrity", "unknown"): "there is no signature by a key that you accept",
    ("authorised", "yes"): "the key may sign for the subject; every endpoint is in its origins",
    ("authorised", "no"): "the key may not sign it, or it is of another kind, or leads elsewhere",
    ("authorised", "unknown"): "not checked, because no signature could be",
    ("current", "yes"): "the issuer lists this card as current",
    ("current", "no"): "the key is revoked, or the issuer no longer lists this card as current",
    ("current", "unknown"): "not known, because there is no valid statement of the issuer",
    ("complete", "yes"): "everything in the card is signed",
    ("complete", "no"): "not everything in the card is signed as the policy demands",
    ("complete", "unknown"): "not checked, because no signature could be",
}
_MAX_DECISIVE: Final = 3  # reasons of a short verdict
_MAX_REASONS: Final = 12  # of a long one; --json has them all


def verdict_lines(
    name: str, report: Report, policy: str = "", *, verbose: bool = False
) -> Iterator[str]:
    """Yield a verdict in a few lines: whose card it is, then what decided.

    Args:
        name: What was judged.
        report: The verdict.
        policy: Which policy decided, where nobody named it; part of the first line.
        verbose: Show the four answers, statements, every signature and every reason as well.
    """
    yield first_line(name, report, policy)
    yield from _every_line(report) if verbose else _deciding_lines(report)


def first_line(name: str, report: Report, policy: str) -> str:
    """Return what was judged, and the verdict on it."""
    expected = "a card of" if report.verdict == "trusted" else "expected a card of"
    subject = f", {expected} {cut(report.subject)}" if report.subject else ", no subject was named"
    return f"{report.verdict}: {cut(name)}{subject}" + (policy and f" ({policy})")


def _deciding_lines(report: Report) -> Iterator[str]:
    """Yield what a trusted card calls itself and what was not checked, else what decided."""
    if report.verdict == "trusted":
        ends = report.valid_until
        until = "" if ends is None else f"; until {second(ends, report.checked_at)}"
        yield f"  {_claims(report.card or {})}{until}"
        if report.answers.current != "yes":
            yield f"  current: {_describe(report, 'current', report.answers.current)}"
        if report.all_but is not None:
            yield f"  complete: {cut(report.all_but, 300)}"
    severity = "warning" if report.verdict == "trusted" else "error"
    decisive = [reason for reason in report.reasons if reason.severity == severity]
    yield from list_reasons(decisive, _MAX_DECISIVE, "--verbose")


def _every_line(report: Report) -> Iterator[str]:
    if report.issuer is not None:
        yield f"  issuer      {cut(report.issuer)}"
    if report.card is not None:
        yield f"  card says   {_claims(report.card)}"
    for question, answer in report.answers.to_json().items():
        yield f"  {question:<11} {answer:<8} {_describe(report, question, str(answer))}"
    if report.keyset is not None:
        yield f"  keyset      {report.keyset.label} until {second(report.keyset.exp)}"
    if report.release is not None:
        yield f"  release     {report.release.seq} until {second(report.release.exp)}"
    if report.valid_until is not None:
        yield f"  valid until {second(report.valid_until, report.checked_at)}"
    if report.historic and report.checked_at is not None:
        yield f"  historic    about {second(report.checked_at)}, a time of your choice"
    for signature in report.signatures:
        yield f"  signature {signature.index} {_signature(signature)}"
    yield from list_reasons(report.reasons, _MAX_REASONS, "--json")


def _describe(report: Report, question: str, answer: str) -> str:
    """Return an answer in words."""
    if question == "complete" and report.all_but is not None:
        return cut(report.all_but, 300)
    is_waived = any(reason.code == "trust.freshness_waived" for reason in report.reasons)
    if (question, answer) == ("current", "unknown") and is_waived:
        why = "your policy waives it" if report.keyset else "a key set alone cannot show revocation"
        return f"not checked ({why})"
    return _ANSWERS[question, answer]


def _claims(card: dict[str, Json]) -> str:
    name, version = (cut(str(card.get(member, ""))) for member in ("name", "version"))
    return f'"{name}", version {version or "not given"}'


def _signature(signature: SignatureReport) -> str:
    if signature.alg is None:
        return f"{signature.verdict}, does not count: its header was not accepted"
    kid = cut(signature.kid, 64) if signature.kid is not None else "no kid"
    profile = f" under {signature.profile}" if signature.profile else ""
    counts = "" if signature.counts else ", does not count"
    holder = f", held by {cut(signature.holder)}" if signature.holder else ""
    return f"{signature.verdict} ({signature.alg}, {kid}{holder}){profile}{counts}"


def list_reasons(reasons: Iterable[Finding], limit: int, more: str) -> Iterator[str]:
    """Yield reasons and what to do; those that differ in their place alone are said once."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for reason in reasons:
        grouped.setdefault((reason.code, reason.worded), []).append(reason)
    for alike in list(grouped.values())[:limit]:
        shown = cut(alike[0].worded, 300)
        # The message names the place already where it is about a part of the card.
        paths = [path for reason in alike if (path := reason.path) and cut(path) not in shown]
        where = f" ({', '.join(cut(path, 120) for path in paths)})" if paths else ""
        yield f"  {alike[0].code}: {shown}{where}"
        if alike[0].hint:
            yield f"      {cut(alike[0].hint, 300)}"
    if len(grouped) > limit:
        yield f"  and {len(grouped) - limit} more; see {more}"
