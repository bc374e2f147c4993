"""What is seen of a card without trusting it, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from cardsign.card.canonical import ProfileName
from cardsign.card.document import A2aVersion
from cardsign.card.values import Json
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.findings import Finding, ScanResult, cap_findings
from cardsign.verify.report import SignatureVerdict

SCHEMA: Final = "cardsign.inspection/1"

PredictedOutcome = Literal["accepted", "refused", "cannot-parse", "unknown"]


@dataclass(frozen=True, slots=True)
class ProfilePayload:
    """The card's payload under one profile.

    Attributes:
        profile: The profile's name.
        size: Bytes of the payload; None where there is none.
        sha256: Hex digest of the payload, likewise.
        same_as: The first profile with the very same bytes, if that is another one.
        uncovered: JSON pointers of what the payload leaves open and nothing excuses: at most
            100, their tokens cut to 64 characters (:func:`cardsign.card.tree.listed`).
        uncovered_count: How many there are.
        refusal: Why there is no payload.
    """

    profile: ProfileName
    size: int | None = None
    sha256: str | None = None
    same_as: str | None = None
    uncovered: tuple[str, ...] = ()
    uncovered_count: int = 0
    refusal: Finding | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the element of the report's `profiles` member."""
        refusal = None if self.refusal is None else self.refusal.to_json()
        return {**_members(self), "refusal": refusal}


@dataclass(frozen=True, slots=True)
class InspectedSignature:
    """One entry of `signatures`.

    Attributes:
        index: Its place, from 0.
        header: The protected header, or None where it cannot be read; not verified.
        verdict: As `cardsign verify` gives it to the holder of the keys named.
        profiles: The profiles that verify it, js-instance included; `ProfilePayload.uncovered`
            says what each leaves open.
        reasons: Why, but for coverage.
        spelling: The name of the spelling of this card that it was made over, if it fits no
            payload and that is a known one (:mod:`cardsign.inspect.spellings`); or empty.
        advice: What its signer should change, where there is a spelling.
        spellings_tried: How many known spellings it fits none of; 0 where none was tried.
    """

    index: int
    header: Mapping[str, Json] | None
    verdict: SignatureVerdict
    profiles: tuple[ProfileName, ...]
    reasons: tuple[Finding, ...]
    spelling: str = ""
    advice: str = ""
    spellings_tried: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the element of the report's `signatures` member."""
        return {**_members(self), "reasons": [reason.to_json() for reason in self.reasons]}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a verifier of other make would say of the card. Predicted; nobody was asked.

    Attributes:
        verifier: Name and versions.
        profile: The profile that it verifies by.
        outcome: ``unknown`` where its behaviour on such a card is not known to us.
        because: Why, in half a sentence.
    """

    verifier: str
    profile: ProfileName
    outcome: PredictedOutcome
    because: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that can be seen of a card. Nothing of it is a verdict.

    Attributes:
        a2a_version: ``1.0``, ``0.3``, ``mixed`` or ``none``; None where the card is unreadable
            or ambiguous.
        read_on: The card is refused, and what follows is what a lenient reader makes of it.
        portable: Whether the default profiles all give one payload; None without a document.
        problems: Why `cardsign verify` would refuse the card before any signature.
        context: A few lines of the text around the place of the first of them; the one at fault
            begins with ``>``.
        agent: The card's own words (:func:`cardsign.inspect.description.describe_card`); empty
            where it cannot be read in one way.
        profiles: One for each profile; empty without a document.
        signatures: One for each entry.
        signatures_left_out: How many more entries there are.
        predictions: One for each verifier; empty where no keys were named.
        service: Of a URL: what is wrong with how it is served.
        asked: Of a URL: every URL that was asked, in order.
        name: The file or URL.
    """

    a2a_version: A2aVersion | None
    read_on: bool
    portable: bool | None
    problems: tuple[Finding, ...]
    context: tuple[str, ...] = ()
    agent: Mapping[str, Any] = field(default_factory=dict)
    profiles: tuple[ProfilePayload, ...] = ()
    signatures: tuple[InspectedSignature, ...] = ()
    signatures_left_out: int = 0
    predictions: tuple[Prediction, ...] = ()
    service: tuple[Finding, ...] = ()
    asked: tuple[str, ...] = ()
    name: str = ""

    @property
    def exit_status(self) -> int:
        """1 if the card or a signature is refused, one by a known key fits nothing, or the service
        gives away what it must not.
        """
        bad = any(signature.verdict in ("invalid", "refused") for signature in self.signatures)
        has_error = any(finding.severity == "error" for finding in self.service)
        return EXIT_NOT_TRUSTED if self.problems or bad or has_error else EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``cardsign inspect --json`` prints it."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "a2a_version": self.a2a_version,
            "read_on": self.read_on,
            "portable": self.portable,
            "problems": [problem.to_json() for problem in self.problems],
            "context": list(self.context),
            "agent": dict(self.agent),
            "profiles": [profile.to_json() for profile in self.profiles],
            "signatures": [signature.to_json() for signature in self.signatures],
            "signatures_left_out": self.signatures_left_out,
            "predictions": [asdict(prediction) for prediction in self.predictions],
            "service": [finding.to_json() for finding in self.service],
            "asked": list(self.asked),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for a person."""
        from cardsign.inspect.text import inspection_lines

        return inspection_lines(self)

    def scan_results(self) -> Iterator[ScanResult]:
        """Yield the report for code scanning."""
        reasons = (reason for signature in self.signatures for reason in signature.reasons)
        yield ScanResult(self.name, cap_findings((*self.problems, *reasons, *self.service)))


def _members(value: ProfilePayload | InspectedSignature) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}
