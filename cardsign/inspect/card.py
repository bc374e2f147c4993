"""What a card is, what its signatures cover, and why one does not fit. No verdict is given.

What is *not* said: that a card is trusted. That takes a subject and a policy
(:mod:`cardsign.verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from cardsign.card.canonical import PROFILES, Payloads
from cardsign.card.document import Card
from cardsign.card.security import security_problems
from cardsign.card.values import Json, members_of
from cardsign.errors import InputRefused, SignatureRefused
from cardsign.findings import Finding, Place, cap_findings
from cardsign.inspect.clients import predict_clients
from cardsign.inspect.description import describe_card
from cardsign.inspect.report import InspectedSignature, Inspection
from cardsign.inspect.spellings import Spelling, write_spellings
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import decode_part, header_members
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.supplied import NO_STATEMENTS
from cardsign.verify.report import SignatureReport
from cardsign.verify.signature import Inquiry, examine_signature
from cardsign.verify.verifier import Verifier

# Pinned keys have no deadlines, so that the time decides nothing.
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
#: What crewAI's signatures are refused for, whatever they fit: typ JWS, and a kid that the
#: unprotected header repeats.
_CREWAI: Final = frozenset({"sig.typ_forbidden", "sig.header_overlap"})
_CHANGED: Final = Finding(
    "sig.bad",
    "the signature fits this card by no profile and in no known spelling: changed after signing, "
    "or signed by a rule that is not known here (a2a-sdk before 1.1.4, crewAI)",
    fix="Ask the issuer which card it signed, and compare: cardsign diff SIGNED_CARD CARD",
)
# Said of what a card leaves open or is; this is about what its signatures are.
_ABOUT_THE_CARD: Final = ("coverage.", "extended.")


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
    try:
        card = Card.from_bytes(untrusted_bytes)
    except InputRefused as refusal:
        return Inspection(name, (refusal.finding,))
    problems = [*security_problems(card.document)]
    if "signature" in card.document:
        message = "the `signature` member is not an A2A signature and is ignored"
        problems.append(Finding("card.single_signature_block", message, Place("/signature")))
    payloads = Payloads(card)
    signatures = tuple(_inspect_signatures(card, payloads, jwks))
    return Inspection(
        name,
        cap_findings(problems),
        card.a2a_version,
        describe_card(card),
        {profile: payloads.payload_or_refusal(profile) for profile in PROFILES},
        signatures,
        () if jwks is None else tuple(predict_clients(payloads, signatures)),
    )


def _inspect_signatures(
    card: Card, payloads: Payloads, jwks: JwkSet | None
) -> Iterator[InspectedSignature]:
    policy = Policy.from_jwks(jwks or JwkSet(()), name="the holder of the keys named")
    subject, trust = Subject(is_holder=True), None
    if (issuer := policy.find(subject)) is not None:
        trust = Verifier(policy).session(issuer).resolve(NO_STATEMENTS, _ANY_TIME)
    inquiry = Inquiry(subject, policy, trust, _ANY_TIME)
    spellings = write_spellings(payloads.members) if jwks and card.signatures else []
    for index, entry in enumerate(card.signatures):
        report = examine_signature(index, entry, payloads, inquiry)
        header = _read_header(entry)
        # A signature fits one byte string, and so all the profiles that make it.
        same = ((name, payloads.of(name)) for name in PROFILES if report.payload is not None)
        fitted = tuple(name for name, payload in same if payload and payload.data == report.payload)
        misfit = partial(_explain_misfit, members_of(entry), header or {}, jwks, spellings)
        reasons = tuple(_list_reasons(report, misfit))
        yield InspectedSignature(replace(report, reasons=reasons), header, fitted)


def _list_reasons(
    report: SignatureReport, explain: Callable[[], Finding | None]
) -> Iterator[Finding]:
    """Yield why a signature does not count, and what it was made over, if that can be found."""
    is_invalid = report.verdict == "invalid"
    reasons = [
        finding for finding in report.reasons if not finding.code.startswith(_ABOUT_THE_CARD)
    ]
    yield from () if is_invalid else reasons
    if is_invalid or _CREWAI.intersection(reason.code for reason in reasons):
        misfit = explain()
        if misfit or is_invalid:
            yield (misfit or _CHANGED).at(f"/signatures/{report.index}")


def _read_header(untrusted_entry: Json) -> dict[str, Json] | None:
    """Return the protected header, whatever it says; None where it cannot be read."""
    try:
        return header_members(str(members_of(untrusted_entry).get("protected", "")))
    except SignatureRefused:
        return None


def _explain_misfit(
    entry: dict[str, Json], header: dict[str, Json], jwks: JwkSet | None, spellings: list[Spelling]
) -> Finding | None:
    """Say what a signature was made over that fits no payload of the card, if that can be found."""
    key = jwks.find(str(header.get("kid"))) if jwks else None
    if key is None or header.get("alg") != key.alg:
        return None
    signature = decode_part(str(entry["signature"]), "signature")
    try:
        key.check_length(signature)
    except SignatureRefused as refusal:  # by its length it could not fit anything
        return refusal.finding
    for name, advice, data in spellings:
        try:
            key.check(str(entry["protected"]), data, signature)
        except SignatureRefused:
            continue
        return Finding(
            "sig.bad", f"the signature fits this card as written with {name}", fix=advice
        )
    return None
