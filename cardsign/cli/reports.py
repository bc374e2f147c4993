"""What came of one card: a verdict, or a fault of this machine in its place. Data only.

All output formats are made of outcomes and of nothing else, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cardsign.card.document import Card
from cardsign.card.strictjson import Json
from cardsign.cli.talk import safe
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    InputRefused,
    LocalFault,
)
from cardsign.reasons import Reason
from cardsign.verify.report import Report, SignatureReport, StatementUsed

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
            return (Reason.from_error(self.result),)
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


# A verdict for a person: what is true, what is not, what to do next.


_ANSWERS: Final = {
    "integrity": {
        "yes": "the card is as it was signed",
        "no": "no signature fits the card as it is",
        "unknown": "there is no key to check a signature with",
    },
    "authorised": {
        "yes": "the key may sign for the subject, and every endpoint stands where it may",
        "no": "the key may not sign this card for the subject, or an endpoint stands elsewhere",
        "unknown": "cannot be said without a signature that fits",
    },
    "current": {
        "yes": "the issuer still calls the card current",
        "no": "the key is revoked, or the card is not what the issuer calls current",
        "unknown": "nobody has said that card and key are not outdated or revoked",
    },
    "complete": {
        "yes": "everything in the card is signed",
        "no": "not everything in the card is signed as the policy demands",
        "unknown": "cannot be said without a signature that fits",
    },
}
# It would read like tampering otherwise, which a signature that fits does not show.
_FITS_OTHERWISE: Final = "a signature fits what it covers, but by rules that do not count here"
_OF_ANOTHER_KIND: Final = frozenset(
    {"extended.served_as_public", "extended.not_marked", "extended.audience_mismatch"}
)
_MAX_REASONS: Final = 12  # lines; --json has them all


def render_verdict(name: str, report: Report, policy: str = "") -> str:
    """Several lines of text, without a newline at the end.

    Args:
        name: What was judged.
        report: The verdict.
        policy: Which policy decided, where nobody named it; part of the first line.
    """
    return "\n".join(_lines(name, report, policy))


def _lines(name: str, report: Report, policy: str) -> Iterator[str]:
    yield f"{report.verdict}: {safe(name)}" + (policy and f" ({policy})")
    if report.issuer is not None:
        yield f"  issuer      {safe(report.issuer)}"
    if report.issuer is None or report.subject != report.issuer:
        yield f"  subject     {safe(report.subject) if report.subject else 'nobody was named'}"
    if report.card is not None:
        yield f"  card says   {_claims(report.card)}"
    for question, answer in report.answers.to_json().items():
        yield f"  {question:<11} {answer:<8} {_said(report, question, str(answer))}"
    yield from _grounds(report)
    for signature in report.signatures:
        yield f"  signature {signature.index} {_signature(signature)}"
    grouped = _grouped(report.reasons)
    for reason, paths in grouped[:_MAX_REASONS]:
        yield from _reason(reason, paths)
    if len(grouped) > _MAX_REASONS:
        yield f"  and {len(grouped) - _MAX_REASONS} more; see --json"


def _said(report: Report, question: str, answer: str) -> str:
    """An answer in words; "no" to integrity sounds like tampering where it need not be."""
    fitting = any(one.profiles for one in report.signatures)
    bad = any(one.verdict == "invalid" for one in report.signatures)
    if (question, answer) == ("integrity", "no") and fitting and not bad:
        return _FITS_OTHERWISE
    if (question, answer) == ("authorised", "no") and any(
        reason.code in _OF_ANOTHER_KIND for reason in report.reasons
    ):
        return "the card is not of the kind, or not for the audience, that was asked for"
    return _ANSWERS[question][answer]


def _grounds(report: Report) -> Iterator[str]:
    """What the verdict rests on, and for how long it holds."""
    used = {"keyset": report.keyset, "release": report.release}
    statements = [_statement(name, one) for name, one in used.items() if one is not None]
    if statements:
        yield f"  statements  {', '.join(statements)}"
    if report.valid_until is not None:
        yield f"  valid until {_moment(report.valid_until)}"
    if report.historic and report.checked_at is not None:
        yield f"  historic    about {_moment(report.checked_at)}, a time of your choice"


def _statement(name: str, used: StatementUsed) -> str:
    return f"{name} {used.number} until {_moment(datetime.fromtimestamp(used.exp, UTC))}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _grouped(reasons: tuple[Reason, ...]) -> list[tuple[Reason, list[str]]]:
    """Reasons that differ in their place alone, said once."""
    places: dict[tuple[str, str], tuple[Reason, list[str]]] = {}
    for reason in reasons:
        _, paths = places.setdefault((reason.code, reason.message), (reason, []))
        paths.append(reason.path)
    return list(places.values())


def _claims(card: dict[str, Json]) -> str:
    name, version = (safe(str(card.get(member, ""))) for member in ("name", "version"))
    return f'"{name}", version {version or "not given"}'


def _signature(signature: SignatureReport) -> str:
    kid = safe(signature.kid, limit=64) if signature.kid is not None else "no kid"
    profiles = f" under {', '.join(signature.profiles)}" if signature.profiles else ""
    counts = "" if signature.counts else ", does not count"
    holder = f", held by {safe(signature.holder)}" if signature.holder else ""
    return f"{signature.verdict} ({signature.alg or 'no alg'}, {kid}{holder}){profiles}{counts}"


def _reason(reason: Reason, paths: list[str]) -> Iterator[str]:
    shown = safe(reason.message, limit=300)
    # The message names the place already where it is about a part of the card.
    places = [safe(path, limit=120) for path in paths if path and safe(path) not in shown]
    where = f" ({', '.join(places)})" if places else ""
    yield f"  {reason.code}: {shown}{where}"
    if reason.hint:
        yield f"      {safe(reason.hint, limit=300)}"
