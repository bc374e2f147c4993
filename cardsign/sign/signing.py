"""Signing: one card in, the same card with our signatures out.

The plan is made and checked before anything is signed:

(1) the card is read, and marked if it is an extended one     :func:`_marked`
(2) it is one that a verifier can accept                      :func:`_check_card`
(3) which of the signatures already there stay                :func:`_foreign`
(4) which payloads it has, and which signatures they need     :mod:`cardsign.sign.plan`
(5) each is made, unless it is already there                  :func:`_reusable`
(6) they are written into the card
(7) what was signed is verified with the public keys alone    :func:`self_check`

What each signature is for is told by :mod:`cardsign.sign.notes`, if somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from cardsign.card.canonical import FULL_PROFILES, Compat, Payload, Payloads, ProfileName
from cardsign.card.document import Card, check_is_agent_card, with_signatures
from cardsign.card.extensions import ExtendedMarker, find_marker, with_marker
from cardsign.card.interfaces import check_interfaces
from cardsign.card.members import check_members
from cardsign.card.security import security_problems
from cardsign.card.values import Json
from cardsign.errors import CardRefused, SignatureRefused, SigningRefused
from cardsign.findings import Finding, Place, cap_findings
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import (
    TYP_COMPAT,
    TYP_JOSE,
    Entry,
    Signer,
    check_entry,
    read_entry,
    sign_payload,
)
from cardsign.jose.keys import PublicKey
from cardsign.sign.notes import SignedPayload, signed_payloads, what_they_lose, who_refuses
from cardsign.sign.plan import check_compat, payloads_to_sign, within_the_limit
from cardsign.trust.policy import Policy, Subject
from cardsign.verify.signature import matching_payload
from cardsign.verify.verifier import Verifier

# Pinned keys with freshness waived have no deadlines: the time of the self-check decides nothing.
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_UNREADABLE: Final = frozenset({"sig.shape", "sig.base64url", "sig.header"})
_OUR_MEMBERS: Final = frozenset({"protected", "signature"})
#: What the self-check finds of ours: full signatures, and those of compat, of which it tries none.
_AS_SIGNED: Final = frozenset({"valid", "not-tried"})


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """How a card is to be signed; the defaults are what nearly everybody wants.

    Attributes:
        compat: Which compat signatures are made. ``safe``: those whose payload keeps every
            endpoint, security scheme and scope of the card. ``all``: one for each profile whose
            payload has an endpoint. ``none``. Over 16 signatures the least useful go, and a note
            says so.
        strict: Refuse a card that lacks REQUIRED members, instead of a note.
        force: Sign what has a canonical form even if it is no Agent Card or has members of
            the wrong type; what was passed over is noted.
        known_keys: Keys of other signers, with which their signatures are checked.
        own_kids: Every kid that our key store ever held; such signatures are replaced.
        drop_foreign: Drop other signers' signatures.
        extended: Mark the card as an extended one; that this has not expired is not checked.
        file: What the commands that a note proposes call the card.
    """

    compat: Compat = "safe"
    strict: bool = False
    force: bool = False
    known_keys: JwkSet | None = None
    own_kids: Collection[str] = field(default_factory=frozenset)
    drop_foreign: bool = False
    extended: ExtendedMarker | None = None
    file: str = "CARD"


@dataclass(frozen=True, slots=True)
class SignedCard:
    """What came of signing.

    Attributes:
        document: The card's bytes: as given where nothing had to change, else with the signatures
            as last member. Where those given stood elsewhere, or a marker was put in, it is
            written anew, with an indent of two spaces; member order is kept.
        changed: Whether `document` differs from what was given.
        payloads: What was signed, in the order of the signatures.
        notes: Which SDKs will refuse the card, what a compat signature leaves open, what was
            passed over or dropped.
    """

    document: bytes
    changed: bool
    payloads: tuple[SignedPayload, ...]
    notes: tuple[Finding, ...]

    @property
    def profiles(self) -> tuple[ProfileName, ...]:
        """The profiles that have a signature now, in the order of the signatures."""
        return tuple(payload.profile for payload in self.payloads)


@dataclass(frozen=True, slots=True)
class _Signed:
    """A signed card, and what is known of it: its payloads, and those `made` that were signed."""

    document: bytes
    payloads: Payloads
    made: tuple[Payload, ...]
    notes: tuple[Finding, ...]


def sign_document(document: bytes, signers: Sequence[Signer], options: SigningOptions) -> bytes:
    """Sign a card for each profile of the plan whose payload differs, with every signer.

    Only `signatures` is replaced; signatures by the same keys are, others are kept last. A
    card that is signed fully already comes back unchanged, byte for byte.

    Args:
        document: The card, UTF-8 JSON.
        signers: The active keys, older first.
        options: How it is to be signed.

    Raises:
        JsonRefused, CardRefused: The bytes are no Agent Card that can be read one way only,
            or a schema member has the wrong JSON type; ``extended.marker``;
            ``card.missing_required`` under `strict`.
        KeyRefused: ``jwks.duplicate_kid``: two signers' keys cannot be told apart.
        SigningRefused: ``sign.no_key``, ``sign.too_many``, ``sign.header_too_long``,
            ``sign.self_check``, or the code for which a reader refuses the result.
        SignerFault: A signer failed, or answered with another key's signature.
        UsageFault: ``usage.conflict``: `options.compat` names no compat signatures.
    """
    return _signed(document, signers, options).document


def sign_with_notes(
    document: bytes, signers: Sequence[Signer], options: SigningOptions
) -> SignedCard:
    """Sign a card as :func:`sign_document` does, and tell what each signature is for."""
    signed = _signed(document, signers, options)
    algs = frozenset(signer.public.alg for signer in signers)
    payloads = tuple(signed_payloads(signed.made, signed.payloads, algs))
    loses = what_they_lose(signed.made, payloads)
    refusals = who_refuses(signed.payloads, signed.made, options.file)
    notes = (*signed.notes, *loses, *refusals)
    return SignedCard(signed.document, signed.document != document, payloads, notes)


def _signed(document: bytes, signers: Sequence[Signer], options: SigningOptions) -> _Signed:
    if not signers:
        raise SigningRefused("sign.no_key", "no key to sign with was given")
    check_compat(options.compat)
    # Two keys of one kid are refused before a signer is asked.
    _holder(tuple(signer.public for signer in signers))
    card_given = Card.from_bytes(document)
    card, payloads, marker = _marked(card_given, options.extended)
    notes = [*cap_findings(_check_card(card, payloads, options))]
    kept = _foreign(card, payloads, signers, options, notes)
    plan = payloads_to_sign(card, payloads, options.compat, notes)
    chosen = within_the_limit(plan, signers, len(kept), notes)
    entries: list[Json] = []
    for signer, payload in chosen:
        typ = _typ(payload)
        is_checked = typ == TYP_JOSE  # by `self_check`; those of compat by no outsider, so here
        new = _reusable(card, payload, signer)
        new = new or {**sign_payload(payload.data, signer, typ=typ, will_verify=is_checked)}
        entries.append(new)
    entries.extend(kept)
    source = document if card is card_given else None
    unchanged = source is not None and entries == list(card.signatures)
    signed = document if unchanged else with_signatures(card.document, entries, source)
    self_check(signed, signers, marker=marker, force=options.force)
    made = tuple(one for one in plan if any(payload is one for _, payload in chosen))
    return _Signed(signed, payloads, made, tuple(notes))


def _marked(
    card: Card, wanted: ExtendedMarker | None
) -> tuple[Card, Payloads, ExtendedMarker | None]:
    """The card with the marker that it should have, its payloads, and the marker it has now."""
    payloads = Payloads(card)
    whole = payloads.of("served-as-is")
    marker = find_marker(card.document, whole.data if whole else None)
    if wanted is None or wanted == marker:
        return card, payloads, marker
    card = Card.from_object(with_marker(card.document, wanted))
    return card, Payloads(card), wanted


# ------------------------------------------------------------------ is it a card?


def _check_card(card: Card, payloads: Payloads, options: SigningOptions) -> Iterator[Finding]:
    document = card.document
    problems: list[Finding] = []
    if document.get("name") is None or not card.has_endpoint:
        lacking = "a name" if document.get("name") is None else "any interface or url"
        problems.append(Finding("card.not_agent_card", f"the object lacks {lacking}"))
    if "signature" in document:
        block = "a single `signature` block is no A2A signature and cannot be converted to one"
        problems.append(Finding("card.single_signature_block", block, Place("/signature")))
    members = check_members(payloads.members, card.a2a_version)
    problems += [problem for problem in members if problem.code == "card.type"]
    problems += security_problems(document)
    if not problems:  # what would make every verifier refuse it: its shape, its endpoints (V4)
        try:
            check_is_agent_card(document)
            check_interfaces(document, None)
        except CardRefused as refusal:
            problems.append(refusal.finding)
    for problem in problems:
        if not options.force:
            more = f"; {len(problems) - 1} more such problems" if len(problems) > 1 else ""
            raise CardRefused(problem.code, problem.message + more, path=problem.path)
        # It did not stop the signing: an error stands only where something was refused.
        text = f"signed all the same, because it was forced: {problem.message}"
        yield replace(problem, message=text, severity="warning")
    for problem in members:
        if problem.code == "card.missing_required":
            if options.strict:
                raise CardRefused(problem.code, problem.message, path=problem.path)
            yield problem
    if card.a2a_version == "mixed":
        dual = "one document for A2A 0.3 and 1.0: SDKs leave its 0.3 members, such as `url`, open"
        yield Finding("sign.dual_document", dual)


# ------------------------------------------------------------------ signatures already there


def _foreign(
    card: Card,
    payloads: Payloads,
    signers: Sequence[Signer],
    options: SigningOptions,
    notes: list[Finding],
) -> list[Json]:
    """The signatures of others that stay, in their order."""
    own = {signer.public.kid for signer in signers} | set(options.own_kids)
    kept: list[Json] = []
    for index, untrusted_entry in enumerate(card.signatures):
        try:
            entry = read_entry(untrusted_entry)
        except SignatureRefused as refusal:
            # Such as an algorithm that we do not know: not ours to judge, unless it is garbage.
            is_garbage = refusal.code in _UNREADABLE
            fits = False if is_garbage else None
            described = f"an entry that cannot be verified ({refusal.message})"
        else:
            if entry.header.kid in own:
                continue
            is_garbage = False
            key = options.known_keys.find(entry.header.kid) if options.known_keys else None
            fits = None if key is None else _fits(entry, key, payloads)
            described = f"the signature by {entry.header.kid!r}"
        place = Place(f"/signatures/{index}")
        if fits is False or options.drop_foreign:
            why = " as asked" if fits is not False else " because it does not fit the card"
            hint = "Ask that signer to sign the new card."
            if is_garbage:
                why, hint = "", "Nothing is lost: it was no signature by RFC 7515."
            notes.append(Finding("sign.foreign", f"{described} was dropped{why}", place, fix=hint))
            continue
        if fits is None:
            hint = "Drop it with --drop-foreign if you do not know it."
            notes.append(
                Finding("sign.foreign", f"{described} was kept unchecked", place, fix=hint)
            )
        kept.append(untrusted_entry)
    return kept


def _fits(entry: Entry, key: PublicKey, payloads: Payloads) -> bool:
    """Whether a signature fits some payload of the card."""
    try:
        return matching_payload(entry, key, payloads) is not None
    except SignatureRefused:
        return False


def _reusable(card: Card, payload: Payload, signer: Signer) -> Json:
    """A present signature that is just what the plan asks for, so that bytes stay stable."""
    key = signer.public
    header = {"alg": key.alg, "kid": key.kid, "typ": _typ(payload)}
    for untrusted_entry in card.signatures:
        if not isinstance(untrusted_entry, dict) or set(untrusted_entry) != _OUR_MEMBERS:
            continue
        try:
            entry = read_entry(untrusted_entry)
            if dict(entry.header.members) == header:
                check_entry(entry, payload.data, key)
                return untrusted_entry
        except SignatureRefused:
            continue
    return None


# ------------------------------------------------------------------ carrying it out


def _typ(payload: Payload) -> str:
    return TYP_JOSE if payload.profile in FULL_PROFILES else TYP_COMPAT


# ------------------------------------------------------------------ the self-check


def self_check(
    signed: bytes,
    signers: Sequence[Signer],
    *,
    marker: ExtendedMarker | None = None,
    force: bool = False,
) -> None:
    """Verify what was signed as a reader does who has the public keys alone.

    Every full signature of ours must be valid, and each signer must have one.

    Args:
        signed: The card.
        signers: By whom.
        marker: That of an extended card.
        force: Whether it may be something else than a card.

    Raises:
        SigningRefused: ``sign.self_check``, or the code for which a reader refuses the bytes.
    """
    audience = None if marker is None else marker.audience
    verifier = _holder(tuple(signer.public for signer in signers))
    report = verifier.judge(signed, Subject(is_holder=True, audience=audience))
    again = "what was signed is {} when read again: {}"
    answers = report.answers
    complete = (answers.integrity, answers.complete) == ("yes", "yes")
    if not complete or (report.verdict != "trusted" and not force):
        first = report.reasons[0]
        code = first.code if report.verdict == "invalid" else "sign.self_check"
        message = again.format(report.verdict, first.message)
        raise SigningRefused(code, message, path=first.path)
    # All of them, not only what made the verdict: no full one was verified before.
    signatures = report.signatures
    kids = {signer.public.kid for signer in signers}
    for signature in signatures:
        if signature.kid in kids and signature.verdict not in _AS_SIGNED:
            bad = f"what was signed has a signature that is {signature.verdict} when read again: "
            reason = signature.reasons[0]
            raise SigningRefused("sign.self_check", bad + reason.message, path=reason.path)
    lacking = kids.difference(
        signature.kid for signature in signatures if signature.verdict == "valid"
    )
    if lacking:
        names = " and ".join(map(repr, sorted(lacking)))
        none = f"what was signed has no valid signature by {names} when read again"
        raise SigningRefused("sign.self_check", none, path="/signatures")


def _holder(keys: tuple[PublicKey, ...]) -> Verifier:
    """Return an outsider who has these keys alone."""
    policy = Policy.from_jwks(JwkSet.of(keys), name="the signer")
    return Verifier(policy, clock=lambda: _ANY_TIME)
