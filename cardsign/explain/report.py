"""What is said of a card, as data: what `explain_card` found, and the card's own words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Literal

from cardsign.card.canonical import DEFAULT_PROFILES, Payloads, ProfileName
from cardsign.card.coverage import left_open
from cardsign.card.document import A2aVersion, Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.members import check_members
from cardsign.card.security import Scheme, requirements_of, schemes_of, security_problems
from cardsign.card.tree import MAX_LISTED
from cardsign.card.values import Json, children_of, members_of, objects_in, value_at
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, CanonicalizationError, SignatureRefused
from cardsign.findings import Finding, Place, cut
from cardsign.jose.jws import read_entry
from cardsign.verify.report import SignatureVerdict

SCHEMA: Final = "cardsign.explanation/1"

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
        """Return the element of the explanation's `profiles` member."""
        refusal = None if self.refusal is None else _problem(self.refusal, ())
        return {**_members(self), "refusal": refusal}


@dataclass(frozen=True, slots=True)
class HeldAt:
    """Where a payload holds a value of the card.

    Attributes:
        pointers: JSON pointers into the payload; empty where only something inside is kept.
        value: The value there as JSON text, shortened.
    """

    pointers: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Parting:
    """One member at which the payloads of the default profiles differ.

    Attributes:
        pointer: JSON pointer into the card as received.
        rule: The lint rule that is broken there (`cardsign lint`), or empty.
        why: What that rule finds, in one sentence; or empty.
        places: For each default profile that has a payload, where it has the member, or None.
        context: A few lines of the card; the member's begins with ``>``.
    """

    pointer: str
    rule: str
    why: str
    places: Mapping[ProfileName, HeldAt | None]
    context: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SignatureExplanation:
    """One entry of `signatures`.

    Attributes:
        index: Its place, from 0.
        header: The protected header, or None where it cannot be read; not verified.
        verdict: As `cardsign verify` gives it to the holder of the keys named.
        profiles: The profiles that verify it, js-instance included; `ProfilePayload.uncovered`
            says what each leaves open.
        reasons: Why, but for coverage.
        spelling: The name of the spelling of this card that it was made over, if it fits no
            payload and that is a known one (:mod:`cardsign.explain.spellings`); or empty.
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
        """Return the element of the explanation's `signatures` member."""
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
class Explanation:
    """Everything that could be said about a card and its signatures.

    Attributes:
        a2a_version: ``1.0``, ``0.3``, ``mixed`` or ``none``; None where the card is unreadable
            or ambiguous.
        read_on: The card is refused, and what follows is what a lenient reader makes of it.
        portable: Whether the default profiles all give one payload; None without a document.
        problems: Why `cardsign verify` would refuse the card before any signature.
        context: A few lines of the text around the place of the first of them; the one at fault
            begins with ``>``.
        profiles: One for each profile; empty without a document.
        partings: Where the default profiles differ, in document order.
        partings_left_out: How many more there are.
        signatures: One for each entry.
        signatures_left_out: How many more entries there are.
        predictions: One for each verifier; empty where no keys were named.
        name: The file or URL.
    """

    a2a_version: A2aVersion | None
    read_on: bool
    portable: bool | None
    problems: tuple[Finding, ...]
    context: tuple[str, ...] = ()
    profiles: tuple[ProfilePayload, ...] = ()
    partings: tuple[Parting, ...] = ()
    partings_left_out: int = 0
    signatures: tuple[SignatureExplanation, ...] = ()
    signatures_left_out: int = 0
    predictions: tuple[Prediction, ...] = ()
    name: str = ""

    @property
    def exit_status(self) -> int:
        """1 if the card is refused, or a signature is, or one by a known key fits nothing."""
        bad = any(one.verdict in ("invalid", "refused") for one in self.signatures)
        return EXIT_NOT_TRUSTED if self.problems or bad else EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """The explanation as ``cardsign explain --json`` prints it (cardsign.explanation/1)."""
        contexts = (self.context if index == 0 else () for index in range(len(self.problems)))
        return {
            "schema": SCHEMA,
            "a2a_version": self.a2a_version,
            "read_on": self.read_on,
            "portable": self.portable,
            "problems": list(map(_problem, self.problems, contexts)),
            "profiles": [profile.to_json() for profile in self.profiles],
            "partings": [asdict(parting) for parting in self.partings],
            "partings_left_out": self.partings_left_out,
            "signatures": [signature.to_json() for signature in self.signatures],
            "signatures_left_out": self.signatures_left_out,
            "predictions": [asdict(prediction) for prediction in self.predictions],
        }

    def lines(self) -> Iterator[str]:
        """Yield the explanation for a person."""
        from cardsign.explain.text import explanation_lines

        return explanation_lines(self)


def _problem(problem: Finding, context: tuple[str, ...]) -> dict[str, Any]:
    return {
        **problem.to_json(),
        "message": problem.message,
        "line": problem.place.line,
        "column": problem.place.column,
        "context": context,
    }


def _members(value: ProfilePayload | SignatureExplanation) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


# ------------------------------------------------------------------ short excerpts


MAX_SHOWN: Final = 80  # characters of one value, or of one line of the input
_AROUND: Final = 1  # lines, or members, before and behind the one that is meant
_HERE, _BESIDE = "> ", "  "


def shown(value: Json) -> str:
    """A value as compact JSON, shortened where long; still foreign text."""
    return cut(json.dumps(value, separators=(",", ":"), ensure_ascii=False), MAX_SHOWN)


def members_around(document: Mapping[str, Json], tokens: Sequence[str]) -> tuple[str, ...]:
    """The member or element at a place, one line for it and each neighbour."""
    parent, last = value_at(document, tokens[:-1]), tokens[-1]
    here = list(parent).index(last) if isinstance(parent, dict) else int(last)
    first = max(0, here - _AROUND)
    children = islice(children_of(parent), first, here + _AROUND + 1)
    lines = []
    for number, (token, child) in enumerate(children, first):
        name = f"[{token}]" if isinstance(token, int) else f"{shown(token)}:"
        lines.append(f"{_HERE if number == here else _BESIDE}{name} {shown(child)}")
    return tuple(lines)


def lines_around(data: bytes, place: Place) -> tuple[str, ...]:
    """The lines of an input around a place, each cut to a window about the place's column."""
    line, column = place.line, place.column
    if line is None or column is None or not data:
        return ()
    lines = data.decode("utf-8", errors="replace").split("\n")
    start = max(0, column - 1 - MAX_SHOWN // 2)
    first = max(0, line - 1 - _AROUND)
    return tuple(
        (_HERE if number == line else _BESIDE) + text[start : start + MAX_SHOWN]
        for number, text in enumerate(lines[first : line + _AROUND], first + 1)
    )


# ------------------------------------------------------------------ a card's own words


#: Elements of each list that is described.
MAX_ELEMENTS: Final = 100


@dataclass(frozen=True, slots=True)
class CardDescription:
    """What a card says of itself. Nothing of it is verified.

    Attributes:
        members: By name, as JSON has them. Of a list the first 100 elements are there;
            `left_out` says how many more each list has.
    """

    members: Mapping[str, Any]

    @property
    def exit_status(self) -> int:
        """0: a description is no verdict."""
        return EXIT_OK

    def to_json(self) -> Mapping[str, Any]:
        """Return the description as ``cardsign inspect --json`` prints it."""
        return self.members

    def lines(self) -> Iterator[str]:
        """Yield the description for a person."""
        yield "nothing here is verified; these are the card's own words"
        if self.members["signature_block"]:
            yield "  a `signature` block is there: it is no signature of A2A; sign the card again"
        for member, value in self.members.items():
            name = "A2A version" if member == "a2a_version" else member
            if member in ("signature_block", "left_out"):
                continue
            if not isinstance(value, list):
                yield f"  {name:<15} {cut(_value(value)) if value is not None else '-'}"
                continue
            more = self.members["left_out"].get(member, 0)
            yield f"  {name:<15} {len(value) + more}"
            for element in value:
                yield f"    {cut(_element(member, element))}"
            if more:
                yield f"    and {more:,} more"


def _element(member: str, element: Any) -> str:
    """An element of a list; of a requirement the schemes that it takes together."""
    if member == "requirements" and element is None:
        return "unreadable: it does not say who may call"
    if member == "requirements":
        named = [
            f"{name} ({', '.join(map(str, scopes))})" if scopes else name
            for name, scopes in element.items()
        ]
        return " and ".join(named) or "none: anybody may call"
    if not isinstance(element, dict):
        return str(element)
    return "  ".join(f"{k}={_value(v)}" for k, v in element.items() if v not in (None, []))


def _value(value: Json) -> str:
    """A value of a line, without JSON's or Python's marks."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)


def describe_card(card: Card) -> CardDescription:
    """Describe a card by its own words and its signatures' headers."""
    document = card.document
    schemes = schemes_of(document)
    described = {
        "name": document.get("name"),
        "version": document.get("version"),
        "a2a_version": card.a2a_version,
        "interfaces": [
            {"url": one.url, "binding": one.binding, "version": one.version}
            for one in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document, any_spelling=True),
        "capabilities": _capabilities(document),
        "schemes": [_scheme(schemes[name]) for name in sorted(schemes)],
        "requirements": [
            {name: [*one.schemes[name]] for name in sorted(one.schemes)}
            if one.problem is None
            else None
            for one in requirements_of(document, schemes)
        ],
        "security_problems": [
            {"path": one.path, "problem": one.message}
            for one in islice(security_problems(document), MAX_LISTED)
        ],
        "skills": [
            {name: one.get(name) for name in ("id", "name", "description", "tags")}
            for _, one in objects_in(document.get("skills"))
        ],
        "signature_block": "signature" in document,
        "signatures": [_signature(index, one) for index, one in enumerate(card.signatures)],
        "profiles": list(_profiles(card)),
        "schema": [
            {"path": p.path, "problem": p.message}
            for p in check_members(document, card.a2a_version)
        ],
    }
    left_out = {}
    for name, value in described.items():
        if isinstance(value, list) and len(value) > MAX_ELEMENTS:
            left_out[name] = len(value) - MAX_ELEMENTS
            del value[MAX_ELEMENTS:]
    return CardDescription({**described, "left_out": left_out})


def _capabilities(document: Mapping[str, Json]) -> list[str]:
    """The capabilities that the card says it has; extensions by their URI."""
    said = members_of(document.get("capabilities"))
    extensions = objects_in(said.get("extensions"))
    return [
        *sorted(name for name, value in said.items() if value is True),
        *(f"extension {one.get('uri')}" for _, one in extensions),
    ]


def _scheme(scheme: Scheme) -> dict[str, Any]:
    """A scheme, with what its type says of how a credential is shown."""
    shown = {"scheme": "scheme", "in": "in", "name": "parameter", "openIdConnectUrl": "url"}
    members = {
        shown[name]: value
        for name, value in scheme.members.items()
        if name in shown and isinstance(value, str)
    }
    return {"name": scheme.name, "type": scheme.type, **members}


def _signature(index: int, untrusted_entry: Json) -> dict[str, Any]:
    try:
        header = read_entry(untrusted_entry).header
    except SignatureRefused as refusal:
        return {"index": index, "refused": refusal.code}
    return {"index": index, "kid": header.kid, "alg": header.alg, "typ": header.typ}


def _profiles(card: Card) -> Iterator[dict[str, Any]]:
    payloads = Payloads(card)
    for name in DEFAULT_PROFILES:
        payload = payloads.payload_or_refusal(name)
        if isinstance(payload, CanonicalizationError):
            yield {"profile": name, "refused": payload.message, "path": payload.path}
            continue
        found = left_open(payload).listed
        yield {
            "profile": name,
            "sha256": payload.sha256,
            "uncovered": list(found.pointers),
            "uncovered_count": found.count,
        }
