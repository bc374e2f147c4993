"""What a card is, what its signatures cover, and why one does not fit. No verdict is given.

:func:`inspect_card` says for each signature which profiles it fits, and whether one that fits
nothing was made over the card in a known spelling that is not canonical. What a named SDK would say
is predicted and labelled so.

What is *not* said: that a card is trusted. That takes a subject and a policy
(:mod:`cardsign.verify`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from cardsign.card.canonical import DEFAULT_PROFILES, PROFILES, Payload, Payloads, ProfileName
from cardsign.card.coverage import left_open
from cardsign.card.document import (
    MAX_SIGNATURES,
    Card,
    has_too_many_values,
    parse_card,
    unsigned,
)
from cardsign.card.security import security_problems
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.card.values import Json, elements_of, is_deeper, jcs, members_of
from cardsign.errors import CanonicalizationError, CardRefused, JsonRefused, SignatureRefused
from cardsign.findings import Finding, Place, cap_findings
from cardsign.inspect.clients import predict_clients
from cardsign.inspect.description import describe_card
from cardsign.inspect.report import InspectedSignature, Inspection, ProfilePayload
from cardsign.inspect.spellings import SPELLINGS, find_spellings
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import decode_part, header_members
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.supplied import NO_STATEMENTS
from cardsign.verify.signature import Inquiry, examine_signature
from cardsign.verify.verifier import Verifier

#: Entries of `signatures` that are looked at; four times as many as a verifier looks at, so that
#: a card with some too many is seen whole.
MAX_LISTED: Final = 4 * MAX_SIGNATURES

_HOLDER: Final = "the holder of the keys named"
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
#: What crewAI's signatures are refused for, whatever they fit: typ JWS, and a kid that the
#: unprotected header repeats.
_CREWAI: Final = frozenset({"sig.typ_forbidden", "sig.header_overlap"})
# Said of what a card leaves open or is; this is about what its signatures are.
_ABOUT_THE_CARD: Final = ("coverage.", "extended.")
_MAX_SHOWN: Final = 80  # characters of one line of the input


def inspect_card(untrusted_bytes: bytes, *, jwks: JwkSet | None, name: str = "") -> Inspection:
    """Say what a card is, and what its signatures cover.

    Args:
        untrusted_bytes: The card as received, before any conversion.
        jwks: The keys by which signatures are checked, whoever holds them; without them nothing
            can be said of which payload one fits.
        name: For the report.

    Returns:
        The report. Nothing in the card makes this function raise.
    """
    document, report = _read(untrusted_bytes, name)
    if document is None:
        return report
    known = Payloads(document)
    try:
        jcs(known.members)
    except CanonicalizationError as refusal:  # read on, past a number that no double holds
        known = Payloads(document, refusal)
    payloads = {name: known.payload_or_refusal(name) for name in PROFILES}
    payloads_made = {
        name: payload for name, payload in payloads.items() if isinstance(payload, Payload)
    }
    entries = elements_of(document.get("signatures"))[:MAX_LISTED]
    signatures = tuple(_signatures(entries, known, payloads_made, jwks))
    if jwks is not None and payloads_made:
        # Around an ambiguous text there is nothing to search.
        most = 0 if report.read_on else MAX_SIGNATURES
        signatures = _with_spellings(signatures, entries, known, jwks, most=most)
    distinct = {
        payloads_made[name].data if name in payloads_made else None for name in DEFAULT_PROFILES
    }
    predictable = jwks is not None and report.a2a_version is not None and not report.read_on
    left_out = len(elements_of(document.get("signatures"))[MAX_LISTED:])
    clients = predict_clients(document, payloads, signatures, all_listed=not left_out)
    return replace(
        report,
        portable=len(distinct) == 1 and None not in distinct,
        profiles=tuple(_profiles(payloads)),
        signatures=signatures,
        signatures_left_out=left_out,
        predictions=tuple(clients) if predictable else (),
    )


def _profiles(
    payloads: Mapping[ProfileName, Payload | CanonicalizationError],
) -> Iterator[ProfilePayload]:
    first: dict[bytes, str] = {}
    for name, payload in payloads.items():
        if isinstance(payload, CanonicalizationError):
            yield ProfilePayload(name, refusal=payload.finding)
            continue
        same_as = first.setdefault(payload.data, name)
        uncovered = left_open(payload).listed
        yield ProfilePayload(
            name,
            size=len(payload.data),
            sha256=payload.sha256,
            same_as=same_as if same_as != name else None,
            uncovered=uncovered.pointers,
            uncovered_count=uncovered.count,
        )


def _signatures(
    entries: Sequence[Json],
    card_payloads: Payloads,
    payloads: Mapping[ProfileName, Payload],
    jwks: JwkSet | None,
) -> Iterator[InspectedSignature]:
    policy = Policy() if jwks is None else Policy.from_jwks(jwks, name=_HOLDER)
    subject, trust = Subject(is_holder=True), None
    if (issuer := policy.find(subject)) is not None:
        # Pinned keys have no deadlines, so that the time decides nothing.
        trust = Verifier(policy).session(issuer).resolve(NO_STATEMENTS, _ANY_TIME)
    inquiry = Inquiry(subject, policy, trust, _ANY_TIME)
    for index, entry in enumerate(entries):
        report = examine_signature(index, entry, card_payloads, inquiry)
        # A signature fits one byte string, and so all the profiles that make it.
        fitted = payloads[report.profile].data if report.profile else None
        yield InspectedSignature(
            index,
            _header(entry),
            report.verdict,
            tuple(name for name, payload in payloads.items() if payload.data == fitted),
            tuple(
                reason for reason in report.reasons if not reason.code.startswith(_ABOUT_THE_CARD)
            ),
        )


def _header(untrusted_entry: Json) -> dict[str, Json] | None:
    """The protected header, whatever it says; None where there is none that can be read."""
    protected = members_of(untrusted_entry).get("protected")
    if not isinstance(protected, str):
        return None
    try:
        return header_members(protected)
    except SignatureRefused:
        return None


def _with_spellings(
    signatures: Sequence[InspectedSignature],
    entries: Sequence[Json],
    payloads: Payloads,
    jwks: JwkSet,
    *,
    most: int,
) -> tuple[InspectedSignature, ...]:
    """Say of signatures that fit nothing how the card was written when they were made.

    At most as many entries as `most` are tried.
    """
    completed = {one.index: one for one in signatures}
    checks: dict[int, Callable[[bytes], None]] = {}
    for index, signature in enumerate(signatures):
        is_refused = any(one.code in _CREWAI for one in signature.reasons)
        entry, header = members_of(entries[index]), signature.header or {}
        key = jwks.find(str(header.get("kid")))
        if signature.verdict != "invalid" and not is_refused:
            continue
        if key is None or header.get("alg") != key.alg:
            continue
        data = decode_part(str(entry["signature"]), "signature")
        try:
            key.check_length(data)
        except SignatureRefused as refusal:  # by its length it could not fit anything
            reason = refusal.finding.at(f"/signatures/{index}{refusal.path}")
            reasons = signature.reasons if is_refused else (reason,)
            completed[index] = replace(signature, reasons=reasons)
            continue
        if index < most:
            checks[index] = partial(key.check, str(entry["protected"]), signature=data)
    fitting = find_spellings(checks, payloads.members)
    for index in checks:
        if (spelling := fitting.get(index)) is not None:
            completed[index] = replace(
                completed[index], spelling=spelling.name, advice=spelling.advice
            )
        elif completed[index].verdict == "invalid":
            completed[index] = replace(completed[index], spellings_tried=len(SPELLINGS))
    return tuple(completed.values())


def _read(untrusted_bytes: bytes, name: str) -> tuple[Mapping[str, Json] | None, Inspection]:
    """Read a card strictly; where that fails say why, and read on as others would.

    The document is None where not even a lenient reader sees an object. The version is None
    where the card is ambiguous or unreadable.
    """
    problems: list[Finding] = []
    context: tuple[str, ...] = ()
    try:
        document: Mapping[str, Json] | None = parse_card(untrusted_bytes)
    except JsonRefused as refusal:
        problems.append(refusal.finding)
        context = _lines_around(untrusted_bytes, refusal.finding.place)
        document = _read_leniently(untrusted_bytes)
    read_on = bool(problems) and document is not None
    if document is None:
        return None, Inspection(None, read_on, None, tuple(problems), context, name=name)
    card, refusals = _read_card(document)
    problems.extend(refusals)
    if "signature" in document and not document.get("signatures"):
        message = "the `signature` member is not an A2A signature and is ignored"
        problems.append(Finding("card.single_signature_block", message, Place("/signature")))
    own = {}
    if card is not None and not read_on:
        own = describe_card(card)
        problems.extend(cap_findings(security_problems(card.document)))
    version = None if card is None else card.a2a_version
    return document, Inspection(version, read_on, None, tuple(problems), context, own, name=name)


def _read_card(document: Mapping[str, Json]) -> tuple[Card | None, list[Finding]]:
    refusals: list[Finding] = []
    for form in (document, unsigned(document)):
        try:
            return Card.from_object(form), refusals
        except CardRefused as refusal:
            refusals.append(refusal.finding)
    return None, refusals[:1]  # what is ambiguous is so with signatures or without


def _read_leniently(untrusted_bytes: bytes) -> dict[str, Json] | None:
    """The object that most JSON readers would see: the last of two members, any number.

    For the report alone. Nothing that is read so is ever called trusted.
    """
    if len(untrusted_bytes) > MAX_CARD_BYTES:
        return None
    try:
        text = untrusted_bytes.decode("utf-8-sig").lstrip(" \t\r\n")
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or is_deeper(value, MAX_DEPTH):
        return None
    return None if has_too_many_values(value) else value


def _lines_around(data: bytes, place: Place) -> tuple[str, ...]:
    """The lines of an input around a place, each cut to a window about the place's column."""
    line, column = place.line, place.column
    # A private key that was named by mistake is not shown.
    if line is None or column is None or not data or b"-----BEGIN" in data or b'"kty"' in data:
        return ()
    lines = data.decode("utf-8", errors="replace").split("\n")
    start, first = max(0, column - 1 - _MAX_SHOWN // 2), max(0, line - 2)
    return tuple(
        ("> " if number == line else "  ") + text[start : start + _MAX_SHOWN]
        for number, text in enumerate(lines[first : line + 1], first + 1)
        if text or number == line
    )
