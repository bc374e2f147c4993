"""What is seen of a card without trusting it, as data and as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final, Literal

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.profiles import Payload, ProfileName
from cardsign.card.schema import DocumentVersion
from cardsign.card.security import requirements_of, schemes_of
from cardsign.card.values import Json, members_of, objects_in
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, CanonicalizationError
from cardsign.findings import MAX_PATH, Finding, ScanResult, cap_findings, cut, list_findings
from cardsign.verify.report import SignatureReport, some_of

SCHEMA: Final = "cardsign.inspection/1"
_MAX_MEMBERS: Final = 8  # of a header, in a line
_MAX_SENTENCE: Final = 300  # characters of a message

PredictedOutcome = Literal["accepted", "refused", "unknown"]


def _finding_lines(finding: Finding, indent: str, path: str = "") -> Iterator[str]:
    where = f" at {cut(path, 120)}" if path else ""
    yield f"{indent}{finding.code}: {cut(finding.worded, _MAX_SENTENCE)}{where}"
    yield f"{indent}    {finding.hint}"


@dataclass(frozen=True, slots=True)
class InspectedSignature:
    """One entry of `signatures`.

    Attributes:
        report: What `cardsign verify` says of it to the holder of the keys named. Where it fits
            nothing, its reasons say which spelling of the card it was made over, if that is known.
        header: The protected header, not verified; None where it cannot be read.
        profiles: The profiles that verify it.
    """

    report: SignatureReport
    header: Mapping[str, Json] | None
    profiles: tuple[ProfileName, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the element of the report's `signatures` member."""
        header = None if self.header is None else dict(self.header)
        return {**self.report.to_json(), "header": header, "profiles": [*self.profiles]}

    def lines(self) -> Iterator[str]:
        """Yield what it is, what it fits, and why it does not count."""
        shown = "no header that can be read"
        if self.header is not None:
            members = islice(self.header.items(), _MAX_MEMBERS)
            shown = ", ".join(f"{cut(name, 40)} {cut(str(value), 64)}" for name, value in members)
            shown = shown or "an empty header"
        yield f"  signature {self.report.index}: {shown}"
        if self.profiles:
            places = some_of(self.report.uncovered, self.report.uncovered_count)
            without = f"; not signed: {places}" if places else ""
            yield f"    fits {', '.join(self.profiles)}{without}"
        for reason in self.report.reasons:
            yield from _finding_lines(reason, "    ")


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
        name: The file or URL.
        problems: Why `cardsign verify` would refuse the card before any signature. Where it
            cannot be read in one way, that is all there is.
        a2a_version: ``1.0``, ``0.3``, ``mixed`` or ``none``; None where the card is unreadable.
        agent: The card's own words (:func:`cardsign.inspect.report.describe_card`).
        payloads: Under each profile, or why there is none.
        signatures: One for each entry.
        predictions: One for each verifier; empty where no keys were named.
        service: Of a URL: what is wrong with how it is served.
        asked: Of a URL: every URL that was asked, in order.
    """

    name: str
    problems: tuple[Finding, ...]
    a2a_version: DocumentVersion | None = None
    agent: Mapping[str, Any] = field(default_factory=dict)
    payloads: Mapping[ProfileName, Payload | CanonicalizationError] = field(default_factory=dict)
    signatures: tuple[InspectedSignature, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    service: tuple[Finding, ...] = ()
    asked: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """1 if the card or a signature is refused, one by a known key fits nothing, or the service
        gives away what it must not.
        """
        bad = any(entry.report.verdict in ("invalid", "refused") for entry in self.signatures)
        has_error = any(finding.severity == "error" for finding in self.service)
        return EXIT_NOT_TRUSTED if self.problems or bad or has_error else EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``cardsign inspect --json`` prints it."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "a2a_version": self.a2a_version,
            "problems": [problem.to_json() for problem in self.problems],
            "agent": dict(self.agent),
            "payloads": {
                name: {"size": len(payload.data), "sha256": payload.sha256}
                if isinstance(payload, Payload)
                else {"refusal": payload.finding.to_json()}
                for name, payload in self.payloads.items()
            },
            "signatures": [signature.to_json() for signature in self.signatures],
            "predictions": [asdict(prediction) for prediction in self.predictions],
            "service": [finding.to_json() for finding in self.service],
            "asked": list(self.asked),
        }

    def scan_results(self) -> Iterator[ScanResult]:
        """Yield the report for code scanning."""
        reasons = (reason for entry in self.signatures for reason in entry.report.reasons)
        yield ScanResult(self.name, cap_findings((*self.problems, *reasons, *self.service)))

    def lines(self) -> Iterator[str]:
        """Yield the report for a person."""
        yield f"{cut(self.name)}: {self._summary()}"
        for client in self.predictions:
            yield f"    {client.outcome:<12} {client.verifier}: {cut(client.because, 160)}"
        for problem in self.problems:
            yield from _finding_lines(problem, "  ", problem.path)
        if self.agent:
            yield "  the card's own words, of which nothing is verified:"
            yield from description_lines(self.agent)
        for signature in self.signatures:
            yield from signature.lines()
        if self.payloads:
            yield "  payloads"
        for name, payload in self.payloads.items():
            parts = (
                cut(payload.message, _MAX_SENTENCE)
                if isinstance(payload, Exception)
                else (f"{len(payload.data)} bytes, sha256 {payload.sha256}")
            )
            yield f"    {name:<22} {parts}"
        yield from list_findings(self.service, "the service")

    def _summary(self) -> str:
        """Say what the card is, and how many of its signatures fit."""
        if self.a2a_version is None:
            return "not a card that can be read"
        kind = f"A2A version {self.a2a_version}"
        if not self.signatures:
            return f"{kind}, not signed"
        keys = "the keys that its own origin publishes" if self.asked else "the keys given"
        fitting = sum(bool(signature.profiles) for signature in self.signatures)
        fit = f"{fitting} of {len(self.signatures)} signatures fit this card by {keys}"
        if not self.predictions:
            return f"{kind}, signatures not checked for want of keys (--jwks FILE)"
        return f"{kind}, {fit}; predicted of clients:"


# The card's own words: what the agent is and asks for. Nothing of it is verified.


MAX_ELEMENTS: Final = 100  # of each list or object that is described
_MAX_LINES: Final = 20  # for the elements of a list; --json has more


def describe_card(card: Card) -> dict[str, Any]:
    """Return what a card says of itself, by name, as JSON.

    Of a list the first 100 elements are there, of a text 1,000 characters.
    """
    document = card.document
    schemes = schemes_of(document)
    capabilities = members_of(document.get("capabilities"))
    described = {
        "name": document.get("name"),
        "version": document.get("version"),
        "description": document.get("description"),
        "interfaces": [
            {"url": entry.url, "binding": entry.binding, "version": entry.version}
            for entry in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document, any_spelling=True),
        "capabilities": [
            *sorted(name for name, value in capabilities.items() if value is True),
            *(
                f"extension {entry.get('uri') or 'without a uri'}"
                for _, entry in objects_in(capabilities.get("extensions"))
            ),
        ],
        "schemes": [
            {"name": name, "type": schemes[name].type, **schemes[name].members}
            for name in sorted(schemes)
        ],
        "requirements": [
            "unreadable: it does not say who may call"
            if entry.problem is not None
            else {name: [*entry.schemes[name]] for name in sorted(entry.schemes)}
            or "none: anybody may call"
            for entry in requirements_of(document, schemes)
        ],
        "skills": [
            {name: entry.get(name) for name in ("id", "name", "description", "tags")}
            for _, entry in objects_in(document.get("skills"))
        ],
    }
    bound: dict[str, Any] = _bound(described)
    return bound


def _bound(value: Any) -> Any:
    """Return the value with so many elements of each list at most, and characters of each text."""
    if isinstance(value, dict):
        members = list(value.items())[:MAX_ELEMENTS]
        return {cut(str(name)): _bound(member) for name, member in members}
    if isinstance(value, list):
        return [*map(_bound, value[:MAX_ELEMENTS])]
    return cut(value, MAX_PATH) if isinstance(value, str) else value


def description_lines(agent: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description for a person."""
    for name, value in agent.items():
        if not isinstance(value, list):
            yield f"    {name:<15} {cut(words(value)) or '-'}"
            continue
        yield f"    {name:<15} {'' if value else 'none'}".rstrip()
        yield from (f"      {cut(words(element))}" for element in value[:_MAX_LINES])
        if len(value) > _MAX_LINES:
            yield "      and more: --json"


def words(value: Any) -> str:
    """Return JSON as a few words, without its marks."""
    if isinstance(value, dict):
        shown = {name: words(member) for name, member in value.items() if member is not None}
        shown |= {name: f"({shown[name]})" for name in shown if isinstance(value[name], dict)}
        return "  ".join(f"{name}={text}" if text else name for name, text in shown.items())
    if isinstance(value, list):
        return ", ".join(map(words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
