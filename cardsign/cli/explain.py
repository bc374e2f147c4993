"""``cardsign explain`` and ``inspect``: what signatures cover, and what a card says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from cardsign.card.document import Card
from cardsign.card.values import Json
from cardsign.cli.frame import Command, moment
from cardsign.cli.options import take, trust_options
from cardsign.cli.printer import Answer, safe, say, show
from cardsign.cli.streams import STDIO, read_input, write_output
from cardsign.cli.verifier import TrustOptions
from cardsign.errors import EXIT_OK, UsageFault, of_the_user
from cardsign.explain.explanation import explain_card
from cardsign.explain.report import (
    Explanation,
    HeldAt,
    Parting,
    ProfilePayload,
    SignatureExplanation,
    describe_card,
)
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.trust.resolve import resolve_issuer
from cardsign.trust.supplied import NO_STATEMENTS

_MAX_POINTERS: Final = 4  # of one line; --json has them all
_MAX_PARTINGS: Final = 8  # of a text; likewise
_SHOWN_DIGEST: Final = 12  # hex digits, enough to compare by eye


@click.command(cls=Command, example="cardsign explain signed.json --jwks jwks.json")
@click.argument("card")
@click.option("--jwks", metavar="FILE", help="The keys to check the signatures with.")
@click.option(
    "--issuer",
    metavar="NAME",
    help="Use the keys of this issuer of your policy, as far as they are known here.",
)
@trust_options
def explain(card: str, jwks: str | None, issuer: str | None, **options: Any) -> int:
    """Explain CARD ('-' for stdin): what each signature covers, and why one does not fit.

    It shows at which members the profiles differ. A signature that fits nothing is tried on the
    card as Python's json, Go's encoding/json and others write it. What SDKs would say is
    predicted; none is run. It gives no verdict: for that, use verify.

    Exit status 0: nothing is wrong. 1: the card cannot be read, a signature is malformed, or a
    signature by a key of --jwks fits nothing.
    """
    trust = take(TrustOptions, options)
    if jwks is not None and issuer is not None:
        raise UsageFault("usage.conflict", "--jwks and --issuer both name the keys")
    untrusted_bytes = read_input(card)
    keys = None
    if jwks is not None:
        with of_the_user(jwks):
            keys = JwkSet.from_bytes(read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES))
    if issuer is not None:
        keys = _keys_of(issuer, trust)
    explanation = explain_card(untrusted_bytes, jwks=keys)
    lines = _lines(card, explanation)
    return show(Answer(explanation.to_json(), lines, exit_status=explanation.exit_status))


def _keys_of(name: str, options: TrustOptions) -> JwkSet:
    """The keys that the policy's anchor and the issuer state give for an issuer now."""
    loaded = options.load()
    if loaded is None:
        missing = "there is no policy that names a trusted issuer"
        raise UsageFault(
            "file.not_found",
            missing,
            hint="Check --trust and CARDSIGN_TRUST, or make one: cardsign trust init",
        )
    issuer = loaded.issuer(name)
    with options.states(loaded).of(issuer) as state:
        now = datetime.now(UTC)
        resolved = resolve_issuer(issuer, loaded.policy.limits, NO_STATEMENTS, state, now=now)
    if not resolved.has_source:
        unknown = f"the keys of {name!r} are not known here yet"
        raise UsageFault(
            "trust.no_keys", unknown, hint="Verify a card of it online first, or give --jwks FILE."
        )
    return JwkSet.of([key.public for key in resolved.keys])


def _lines(name: str, explanation: Explanation) -> Iterator[str]:
    yield from _summary(safe(name), explanation)
    for one in explanation.predictions:
        yield f"    {one.outcome:<12} {one.verifier}: {safe(one.because, limit=160)}"
    for problem in explanation.problems:
        position = f"line {problem.line}, column {problem.column}" if problem.line else ""
        place = ", ".join(part for part in (safe(problem.path, limit=120), position) if part)
        found = safe(problem.message, limit=300)
        yield f"  {problem.code}: {found}{f' ({place})' if place else ''}"
        for line in problem.context:
            yield f"      {safe(line)}"
        if problem.hint:
            yield f"      {problem.hint}"
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


def _summary(name: str, explanation: Explanation) -> Iterator[str]:
    """What the card is; then which signatures fit, and what the SDKs would say."""
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
    fitting = sum(bool(one.profiles) for one in signatures)
    fit = f"{fitting} of {len(signatures)} signatures fit this card by the keys given"
    if not signatures:
        yield "  The card is not signed, so a verifier that wants a signature refuses it."
    elif clients:
        accepted = sum(one.outcome == "accepted" for one in clients)
        yield f"  {fit}; of {len(clients)} clients {accepted} would accept it (predicted):"
    elif all(one.verdict == "unknown-key" for one in signatures):
        yield "  No signature was checked: give its keys with --jwks FILE or --issuer NAME."
    else:
        yield f"  {fit}."


def _payload(payload: ProfilePayload) -> str:
    if payload.refusal is not None:
        _, _, why = payload.refusal.message.partition(": ")
        described = f"none: {safe(why or payload.refusal.message, limit=120)}"
    elif payload.same_as is not None:
        described = f"the same as {payload.same_as}"
    else:
        described = f"{payload.size} bytes, sha256 {(payload.sha256 or '')[:_SHOWN_DIGEST]}"
        if payload.uncovered:
            listed = ", ".join(safe(one, limit=80) for one in payload.uncovered[:_MAX_POINTERS])
            more = max(0, payload.uncovered_count - _MAX_POINTERS)
            described += f"; not in it: {listed}{f' and {more} more' if more else ''}"
    return f"    {payload.profile:<24} {described}"


def _parting(parting: Parting) -> Iterator[str]:
    yield f"    {safe(parting.pointer, limit=120)}"
    for line in parting.context:
        yield f"        {safe(line)}"
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
    where = "" if place.pointers[0] == pointer else f"at {safe(place.pointers[0], limit=120)} "
    return f"{where}as {safe(place.value)} in"


def _signature(signature: SignatureExplanation, hinted: set[str]) -> Iterator[str]:
    """One signature; `hinted` holds the codes that have been said what to do about."""
    yield f"  signature {signature.index}: {_header(signature)}"
    if signature.profiles:
        yield f"    fits {', '.join(signature.profiles)}"
    for reason in signature.reasons:
        yield f"    {reason.code}: {safe(reason.worded, limit=300)}"
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
        parts.append(f"{name} {safe(word, limit=64)}")
    others = [safe(name, limit=40) for name in signature.header if name not in first]
    if others:
        parts.append(f"besides {', '.join(others[:_MAX_POINTERS])}")
    return ", ".join(parts)


# What a card says of itself: nothing of it is verified.


@click.command(
    cls=Command, example="cardsign inspect card.json\ncardsign inspect public --html page.html"
)
@click.argument("card")
@click.option(
    "--html",
    "page",
    metavar="OUT",
    help="Write one page for people instead, as `cardsign serve` does at /; '-' for stdout.",
)
@click.option("--jwks", metavar="FILE", help="The keys that the page judges signatures by.")
def inspect(card: str, page: str | None, jwks: str | None) -> int:
    """Show what CARD ('-' for stdin) holds. Nothing is verified: these are its own words.

    With --html, CARD may also be a publication directory, with its issuer's statements. The
    page shows the verdict of a verifier that trusts the newest of these statements.
    """
    if page is not None:
        write_output(page, _page(card, jwks).encode())
        if page != STDIO:
            say(f"wrote {safe(page)}")
        return EXIT_OK
    described = describe_card(Card.from_bytes(read_input(card)))
    return show(Answer(described, _described_lines(described)))


def _described_lines(described: dict[str, Any]) -> Iterator[str]:
    described = dict(described)
    yield "nothing here is verified; these are the card's own words"
    if described.pop("signature_block"):
        yield "  a `signature` block is there: it is no signature of A2A; sign the card again"
    left_out = described.pop("left_out")
    for member, value in described.items():
        name = "A2A version" if member == "a2a_version" else member
        if not isinstance(value, list):
            yield f"  {name:<15} {safe(_value(value)) if value is not None else '-'}"
            continue
        more = left_out.get(member, 0)
        yield f"  {name:<15} {len(value) + more}"
        for element in value:
            yield f"    {_element(member, element)}"
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
        return safe(" and ".join(named) or "none: anybody may call")
    if not isinstance(element, dict):
        return safe(str(element))
    return safe("  ".join(f"{k}={_value(v)}" for k, v in element.items() if v not in (None, [])))


def _value(value: Json) -> str:
    """A value of a line, without JSON's or Python's marks."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)


def _page(card: str, jwks: str | None) -> str:
    from cardsign.explain.page import Published, card_page
    from cardsign.publish.generation import load_current

    keys = None if jwks is None else read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES)
    if card != STDIO and Path(card).is_dir():
        one = load_current(Path(card))
        given = one.card, Published(tuple(one.keysets.values()), one.release, keys or one.jwks)
    else:
        given = read_input(card), Published(jwks=keys)
    return card_page(*given, now=moment())[0]
