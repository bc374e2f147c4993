"""An explanation for a person, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from cardsign.explain.report import (
    Explanation,
    HeldAt,
    Parting,
    ProfilePayload,
    SignatureExplanation,
)
from cardsign.findings import Finding, cut

_MAX_POINTERS: Final = 4  # of one line; --json has them all
_MAX_PARTINGS: Final = 8  # of a text; likewise
_SHOWN_DIGEST: Final = 12  # hex digits, enough to compare by eye
_MAX_PATH: Final = 120  # characters of a place
_MAX_SENTENCE: Final = 300  # characters of a message


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """Yield what a card is, then its problems, signatures, payloads and where these differ."""
    yield from _summary(explanation)
    for client in explanation.predictions:
        yield f"    {client.outcome:<12} {client.verifier}: {cut(client.because, 160)}"
    for index, problem in enumerate(explanation.problems):
        yield from _problem(problem, explanation.context if index == 0 else ())
    if explanation.read_on:
        yield "  verify goes no further; what follows is how more lenient readers see the card"
    hinted: set[str] = set()
    for signature in explanation.signatures:
        yield from _signature(signature, hinted)
    if explanation.signatures_left_out:
        yield f"  and {explanation.signatures_left_out} more signatures, not looked at"
    if explanation.profiles:
        yield "  payloads"
        yield from map(_payload, explanation.profiles)
    if explanation.partings:
        yield "  where the default profiles differ"
        for parting in explanation.partings[:_MAX_PARTINGS]:
            yield from _parting(parting)
        more = len(explanation.partings[_MAX_PARTINGS:]) + explanation.partings_left_out
        if more:
            yield f"    and at {more} more; see --json"


def _summary(explanation: Explanation) -> Iterator[str]:
    """What the card is; then which signatures fit, and what the SDKs would say."""
    name = cut(explanation.name)
    if explanation.portable is None:
        yield f"{name}: not a card that can be read"
        yield "  No verifier reads this file as a card."
        return
    named = {"mixed": "A2A 1.0 and 0.3", "none": "of no known A2A version", None: "unclear"}
    kind = named.get(explanation.a2a_version, f"A2A {explanation.a2a_version}")
    portable = "portable" if explanation.portable else "not portable"
    count = len(explanation.signatures) + explanation.signatures_left_out
    signed = "not signed" if not count else f"{count} signature{'' if count == 1 else 's'}"
    yield f"{name}: {kind}, {portable}, {signed}"
    clients, signatures = explanation.predictions, explanation.signatures
    fitting = sum(bool(signature.profiles) for signature in signatures)
    fit = f"{fitting} of {len(signatures)} signatures fit this card by the keys given"
    if not signatures:
        yield "  The card is not signed, so a verifier that wants a signature refuses it."
    elif clients:
        accepted = sum(client.outcome == "accepted" for client in clients)
        yield f"  {fit}; of {len(clients)} clients {accepted} would accept it (predicted):"
    elif all(signature.verdict == "unknown-key" for signature in signatures):
        yield "  No signature was checked: give its keys with --jwks FILE or --issuer NAME."
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


def _parting(parting: Parting) -> Iterator[str]:
    yield f"    {cut(parting.pointer, _MAX_PATH)}"
    for line in parting.context:
        yield f"        {cut(line)}"
    places: dict[str, list[str]] = {}
    for profile, place in parting.places.items():
        places.setdefault(_place(parting.pointer, place), []).append(profile)
    for described, profiles in places.items():
        yield f"      {described} {', '.join(profiles)}"
    if parting.rule:
        yield f"      {parting.rule}: {parting.why}"


def _place(pointer: str, place: HeldAt | None) -> str:
    if place is None:
        return "not in"
    if not place.pointers:
        return "only something inside it in"
    where = "" if place.pointers[0] == pointer else f"at {cut(place.pointers[0], _MAX_PATH)} "
    return f"{where}as {cut(place.value)} in"


def _signature(signature: SignatureExplanation, hinted: set[str]) -> Iterator[str]:
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


def _header(signature: SignatureExplanation) -> str:
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
