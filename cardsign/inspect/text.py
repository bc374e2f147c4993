"""A report on a card for a person, line by line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Final

from cardsign.findings import Finding, cut, list_findings
from cardsign.inspect.description import description_lines
from cardsign.inspect.report import (
    InspectedSignature,
    Inspection,
    ProfilePayload,
)

_MAX_POINTERS: Final = 4  # of one line; --json has them all
_SHOWN_DIGEST: Final = 12  # hex digits, enough to compare by eye
_MAX_PATH: Final = 120  # characters of a place
_MAX_SENTENCE: Final = 300  # characters of a message


def inspection_lines(report: Inspection) -> Iterator[str]:
    """Yield what a card is, its problems, its own words, its signatures, payloads and service."""
    yield from _summary(report)
    for client in report.predictions:
        yield f"    {client.outcome:<12} {client.verifier}: {cut(client.because, 160)}"
    for index, problem in enumerate(report.problems):
        yield from _problem(problem, report.context if index == 0 else ())
    if report.read_on:
        yield "  verify goes no further; what follows is how more lenient readers see the card"
    if report.agent:
        yield "  the card's own words, of which nothing is verified:"
        yield from (f"  {line}" for line in description_lines(report.agent))
    hinted: set[str] = set()
    for signature in report.signatures:
        yield from _signature(signature, hinted)
    if report.signatures_left_out:
        yield f"  and {report.signatures_left_out} more signatures, not looked at"
    if report.profiles:
        yield "  payloads"
        yield from map(_payload, report.profiles)
    if report.portable is False:
        yield f"    they differ; see why: cardsign lint {_word(report.name)} --group portable"
    yield from list_findings(report.service, "the service")


def _word(name: str) -> str:
    """The card's name as a word of a command line, where it is a short one."""
    return shlex.quote(name) if name.isprintable() and 0 < len(name) < 80 else "CARD"


def _summary(report: Inspection) -> Iterator[str]:
    """What the card is; then which signatures fit, and what the SDKs would say."""
    name = cut(report.name)
    if report.portable is None:
        yield f"{name}: not a card that can be read"
        yield "  No verifier reads this file as a card."
        return
    named = {"mixed": "A2A 1.0 and 0.3", "none": "of no known A2A version", None: "unclear"}
    kind = named.get(report.a2a_version, f"A2A {report.a2a_version}")
    portable = "portable" if report.portable else "not portable"
    count = len(report.signatures) + report.signatures_left_out
    signed = "not signed" if not count else f"{count} signature{'' if count == 1 else 's'}"
    yield f"{name}: {kind}, {portable}, {signed}"
    clients, signatures = report.predictions, report.signatures
    fitting = sum(bool(signature.profiles) for signature in signatures)
    keys = "by the keys given"
    if report.asked:
        keys = "by the keys that its own origin publishes, for which nobody vouches"
    fit = f"{fitting} of {len(signatures)} signatures fit this card {keys}"
    if not signatures:
        yield "  The card is not signed, so a verifier that wants a signature refuses it."
    elif clients:
        accepted = sum(client.outcome == "accepted" for client in clients)
        yield f"  {fit}; of {len(clients)} clients {accepted} would accept it (predicted):"
    elif all(signature.verdict == "unknown-key" for signature in signatures):
        missing = "its origin publishes none" if report.asked else "give its keys with --jwks FILE"
        yield f"  No signature was checked for want of keys: {missing}."
    else:
        yield f"  {fit}."


def _problem(problem: Finding, context: tuple[str, ...]) -> Iterator[str]:
    line, column = problem.place.line, problem.place.column
    position = f"line {line}, column {column}" if line else ""
    place = ", ".join(part for part in (cut(problem.path, _MAX_PATH), position) if part)
    message = cut(problem.message, _MAX_SENTENCE)
    yield f"  {problem.code}: {message}{f' ({place})' if place else ''}"
    for text in context:
        yield f"      {text}"
    if problem.hint:
        yield f"      {problem.hint}"


def _payload(payload: ProfilePayload) -> str:
    if payload.refusal is not None:
        _, _, why = payload.refusal.message.partition(": ")
        described = f"none: {cut(why or payload.refusal.message, _MAX_PATH)}"
    elif payload.same_as is not None:
        described = f"the same as {payload.same_as}"
    else:
        described = f"{payload.size} bytes, sha256 {(payload.sha256 or '')[:_SHOWN_DIGEST]}"
        if payload.uncovered:
            listed = ", ".join(cut(path, 80) for path in payload.uncovered[:_MAX_POINTERS])
            more = max(0, payload.uncovered_count - _MAX_POINTERS)
            described += f"; not in it: {listed}{f' and {more} more' if more else ''}"
    return f"    {payload.profile:<24} {described}"


def _signature(signature: InspectedSignature, hinted: set[str]) -> Iterator[str]:
    """Yield lines about one signature; `hinted` has the codes whose hint was shown before."""
    yield f"  signature {signature.index}: {_header(signature)}"
    if signature.profiles:
        yield f"    fits {', '.join(signature.profiles)}"
    for reason in signature.reasons:
        yield f"    {reason.code}: {cut(reason.worded, _MAX_SENTENCE)}"
        # What to do about a bad signature is to come here; more of it is said below.
        if reason.code not in hinted and reason.code != "sig.bad":
            hinted.add(reason.code)
            yield f"        {reason.hint}"
    if signature.spelling:
        yield f"    fits this card in another spelling: {signature.spelling}"
        yield f"        {signature.advice}"
    elif signature.spellings_tried:
        yield f"    fits none of {signature.spellings_tried} known spellings of this card"


def _header(signature: InspectedSignature) -> str:
    if signature.header is None:
        return "no header that can be read"
    parts, first = [], ("alg", "kid", "typ")
    for name in first:
        value = signature.header.get(name)
        word = value if isinstance(value, str) else "none" if value is None else json.dumps(value)
        parts.append(f"{name} {cut(word, 64)}")
    others = [cut(name, 40) for name in signature.header if name not in first]
    if others:
        parts.append(f"besides {', '.join(others[:_MAX_POINTERS])}")
    return ", ".join(parts)
