"""Signing: one card in, the same card with our signatures out.

The plan is made and checked before anything is signed:

(1) the card is read, and marked if it is an extended one     :func:`_marked`
(2) it is one that a verifier can accept                      :func:`_check_card`
(3) which of the signatures already there stay                :func:`_keep_foreign`
(4) which payloads it has, and which signatures they need     :func:`payloads_to_sign`
(5) each is made, unless it is already there                  :func:`_sign`
(6) they are written into the card
(7) what was signed is verified with the public keys alone    :func:`self_check`

What each signature is for is described at the end, if somebody asks.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, get_args

from cardsign import errors
from cardsign.card import profiles
from cardsign.card.document import (
    MAX_SIGNATURES,
    Card,
    check_interfaces,
    check_is_agent_card,
    current_interfaces,
    interfaces_of,
    with_signatures,
)
from cardsign.card.extensions import ExtendedMarker, find_marker, with_marker
from cardsign.card.profiles import Compat, Payload, Payloads, ProfileName, Uncovered
from cardsign.card.rules import without_empties
from cardsign.card.schema import check_members
from cardsign.card.security import security_problems
from cardsign.card.values import Json, members_of
from cardsign.errors import CardRefused, SigningRefused, UsageFault
from cardsign.findings import Finding, Place, cap_findings, counted
from cardsign.jose import jws
from cardsign.jose.jws import Signer
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.urls import interface_url
from cardsign.verify.report import SignatureReport
from cardsign.verify.signature import examine_signature
from cardsign.verify.verdict import judge_card
from cardsign.verify.verifier import inquire_by

_UNREADABLE: Final = frozenset({"sig.shape", "sig.base64url", "sig.header"})
#: What the self-check finds of ours: full signatures, and those of compat, of which it tries none.
_AS_SIGNED: Final = frozenset({"valid", "not-tried"})
_RESIGN: Final = "Ask that signer to sign the new card."
#: What becomes of a signature of another signer, and what can be done about it.
_FATES: Final = {
    "garbage": ("dropped", "Nothing is lost: it was no signature by RFC 7515."),
    "misfit": ("dropped because it does not fit the card", _RESIGN),
    "unwanted": ("dropped as asked", _RESIGN),
    "unchecked": ("kept unchecked", "Drop it with --drop-foreign if you do not know it."),
}


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """How a card is to be signed; the defaults are what nearly everybody wants.

    Attributes:
        compat: Which compat signatures are made. ``safe``: those whose payload keeps every
            endpoint, security scheme and scope of the card. ``all``: one for each profile whose
            payload has an endpoint. ``none``.
        force: Sign what has a canonical form even if it is no Agent Card or has members of
            the wrong type; what was passed over is noted.
        known_keys: Keys of other signers, with which their signatures are checked.
        own_kids: Every kid that ours is or was (:func:`cardsign.keys.history.list_own_kids`); such
            signatures are replaced.
        drop_foreign: Drop other signers' signatures.
        header: The unprotected header of each signature, which no signature covers.
        extended: Mark the card as an extended one; that this has not expired is not checked.
        file: What the commands that a note proposes call the card.
    """

    compat: Compat = "safe"
    force: bool = False
    known_keys: JwkSet | None = None
    own_kids: Collection[str] = field(default_factory=frozenset)
    drop_foreign: bool = False
    header: Mapping[str, str] = field(default_factory=dict, hash=False)
    extended: ExtendedMarker | None = None
    file: str = "CARD"


@dataclass(frozen=True, slots=True)
class SignedPayload:
    """One payload of a signed card, which each key has signed.

    Attributes:
        profile: The first profile that makes it.
        compat: Its signatures are marked: other SDKs accept them, cardsign never counts them.
        verifiers: The names of the SDKs that verify by it, with their versions.
        leaves_open: Where the card has what it does not hold, at most 100 pointers; those
            verifiers notice no change there.
        leaves_open_count: How many places that are.
    """

    profile: ProfileName
    compat: bool
    verifiers: tuple[str, ...]
    leaves_open: tuple[str, ...]
    leaves_open_count: int


@dataclass(frozen=True, slots=True)
class SignedCard:
    """The result of signing.

    Attributes:
        document: The card's bytes: as given where nothing had to change, else with the signatures
            as last member. Where those given stood elsewhere, or a marker was put in, it is
            written anew, with an indent of two spaces; member order is kept.
        changed: Whether `document` differs from what was given.
        payloads: What was signed, in the order of the signatures.
        notes: Which SDKs will refuse the card, what a compat signature leaves open, what was
            passed over or dropped.
        is_trusted: Whether a verifier with these keys trusts it; with `force` it may not.
    """

    document: bytes
    changed: bool
    payloads: tuple[SignedPayload, ...]
    notes: tuple[Finding, ...]
    is_trusted: bool


def signers_of(key: Signer | Sequence[Signer]) -> tuple[Signer, ...]:
    """Return one signer or several as a tuple; raise `TypeError` for what is no signer."""
    signers = tuple(key) if isinstance(key, list | tuple) else (key,)
    example = "sign_card(card, open_signer('file:key.pem')), or PrivateKey.from_pem(data)"
    for signer in signers:
        if not hasattr(signer, "public"):
            raise TypeError(f"key takes a signer, not {type(signer).__name__}: {example}")
    return signers


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
            or a schema member has the wrong JSON type; ``extended.marker``.
        KeyRefused: ``jwks.duplicate_kid``: two signers' keys cannot be told apart.
        SigningRefused: ``sign.no_key``, ``sign.too_many``, ``sign.header_too_long``,
            ``sign.self_check``, or the code for which a reader refuses the result.
        SignerFault: A signer failed, or answered with another key's signature.
        UsageFault: ``usage.conflict``: `options.compat` names no compat signatures, or
            `options.header` holds what only a protected header may hold.
    """
    return _sign(document, signers, options)[0]


def sign_with_notes(
    document: bytes, signers: Sequence[Signer], options: SigningOptions
) -> SignedCard:
    """Sign a card as :func:`sign_document` does, and tell what each signature is for."""
    signed, payloads, plan, notes, is_trusted = _sign(document, signers, options)
    algs = frozenset(signer.public.alg for signer in signers)
    described = describe_payloads(plan, payloads, algs)
    notes += note_sdks(plan, described, payloads, options.file)
    notes += cap_findings(note_interfaces(payloads.members))
    return SignedCard(signed, signed != document, described, tuple(notes), is_trusted)


def _sign(
    document: bytes, signers: Sequence[Signer], options: SigningOptions
) -> tuple[bytes, Payloads, list[Payload], list[Finding], bool]:
    """Return the signed card, its payloads, those signed, what is noted, and if it is trusted."""
    if not signers:
        raise SigningRefused("sign.no_key", "no key to sign with was given")
    # Two keys of one kid are refused before a signer is asked.
    public_keys = JwkSet.of(signer.public for signer in signers)
    card_given = Card.from_bytes(document)
    card, payloads, marker = _marked(card_given, options.extended)
    notes = [*cap_findings(_check_card(card, payloads, options))]
    kept = _keep_foreign(card, payloads, signers, options, notes)
    plan = payloads_to_sign(card, payloads, options.compat, notes)
    if (total := len(signers) * len(plan) + len(kept)) > MAX_SIGNATURES:
        own, keys = counted(len(signers) * len(plan), "signature"), counted(len(signers), "key")
        message = f"{own} by {keys} and {counted(len(kept), 'kept foreign signature')} make {total}"
        message += f"; at most {MAX_SIGNATURES} are read"
        raise SigningRefused("sign.too_many", message, path="/signatures")
    notes += _note_header(options.header)
    entries = [
        _find_present(card, payload, signer.public, options.header)
        or _make_entry(payload, signer, options.header)
        for signer in signers
        for payload in plan
    ]
    entries += kept
    source = document if card is card_given else None
    if source is None or entries != [*card.signatures]:
        document = with_signatures(card.document, entries, source)
    is_trusted = self_check(document, public_keys, marker=marker, force=options.force)
    return document, payloads, plan, notes, is_trusted


def _marked(
    card: Card, new_marker: ExtendedMarker | None
) -> tuple[Card, Payloads, ExtendedMarker | None]:
    """Return the card with the marker that it should have, its payloads, and that marker."""
    payloads = Payloads(card)
    whole = payloads.of("served-as-is")
    marker = find_marker(card.document, whole.data if whole else None)
    if new_marker is None or new_marker == marker:
        return card, payloads, marker
    card = Card.from_object(with_marker(card.document, new_marker))
    return card, Payloads(card), new_marker


# The plan.

#: What ``compat`` takes.
COMPAT: Final[tuple[Compat, ...]] = get_args(Compat)


def payloads_to_sign(
    card: Card, payloads: Payloads, compat: Compat, notes: list[Finding]
) -> list[Payload]:
    """Return each distinct payload that gets a signature, in the order of the signatures.

    Full profiles stand first in the table, so a payload that others make too is theirs, and a
    verifier of RFC 8785 that knows no profiles finds a good signature first.

    Args:
        card: The card.
        payloads: Its payloads.
        compat: As in :class:`SigningOptions`.
        notes: Takes what is said of profiles for which nothing is signed.

    Raises:
        UsageFault: ``usage.conflict``: `compat` names no compat signatures.
    """
    if compat not in COMPAT:
        message = f"compat is 'safe', 'all' or 'none', not {compat!r}"
        hint = "'all' makes one compat signature for each profile."
        raise UsageFault("usage.conflict", message, hint=hint)
    chosen: dict[bytes, Payload] = {}
    for name in profiles.FULL_PROFILES if compat == "none" else profiles.PROFILES:
        # js-instance may be safe for a document of A2A 0.3 alone.
        if not (name in profiles.DEFAULT_PROFILES or compat == "all" or card.a2a_version == "0.3"):
            continue
        payload = payloads.payload_or_refusal(name)
        if isinstance(payload, errors.CanonicalizationError):
            # js-instance may have no payload for this card; that is no error.
            if name in profiles.DEFAULT_PROFILES:
                notes.append(Finding("sign.profile_skipped", payload.message, Place(payload.path)))
        elif payload.data not in chosen and (
            name in profiles.FULL_PROFILES or _serves(payload, card, compat, notes)
        ):
            chosen[payload.data] = payload
    return list(chosen.values())


def _serves(payload: Payload, card: Card, compat: Compat, notes: list[Finding]) -> bool:
    """Return whether a compat signature serves its readers, and safely."""
    if payload.names_an_endpoint:
        return compat == "all" or is_safe(card, payload)
    if payload.profile in profiles.DEFAULT_PROFILES:
        names = [sdk.name for sdk in profiles.VERIFIERS if sdk.profile == payload.profile]
        text = f"this card has no endpoint for {' and '.join(names)}, so nothing was signed for it"
        notes.append(Finding("sign.compat_no_endpoint", text))
    return False


def is_safe(card: Card, payload: Payload) -> bool:
    """Return whether readers of a lossy payload are safe with it as the card (decision E8).

    It holds every endpoint that they would call, every security scheme, and every requirement
    that names a scope. A requirement without scopes is lost under nearly every lossy profile.
    """
    # By their text, for what is signed by force may have any JSON there.
    endpoints, called = (
        {repr((interface.url, interface.binding)) for interface in interfaces}
        for interfaces in (interfaces_of(payload.value), current_interfaces(card.document))
    )
    lost = (part for part in payload.uncovered if part.security)
    return endpoints >= called and not any(map(_matters, lost))


def _matters(part: Uncovered) -> bool:
    """Return whether something of a security member is lost that says who may call, and how."""
    if part.excuse not in (None, "DROPPED_BY_VALUE"):
        return False
    tokens = part.tokens
    if tokens[0] not in ("securitySchemes", "security_schemes"):
        return not without_empties(part.node).is_empty  # such as a scope
    if len(tokens) <= 2:  # a whole scheme, or all of them
        return len(tokens) == 2 or bool(part.node.value)
    return part.excuse is None


# Is it a card?

_CALLED: Final = ("supportedInterfaces", "supported_interfaces", "url")


def _check_card(card: Card, payloads: Payloads, options: SigningOptions) -> Iterator[Finding]:
    """Yield what is passed over; refuse the card for what may not be."""
    members = check_members(payloads.members, card.a2a_version)
    problems = _find_problems(card, members)
    rest = len(problems) - 1
    for problem in problems:
        if not options.force:
            more = f"; {counted(rest, 'more such problem')}" if rest else ""
            raise CardRefused(problem.code, problem.message + more, path=problem.path)
        # It did not stop the signing: an error stands only where something was refused.
        text = f"signed all the same, because it was forced: {problem.message}"
        yield replace(problem, message=text, severity="warning")
    yield from (problem for problem in members if problem.code == "card.missing_required")
    if card.a2a_version == "mixed":
        dual = "one document for A2A 0.3 and 1.0: SDKs leave its 0.3 members, such as `url`, open"
        yield Finding("sign.dual_document", dual)


def _find_problems(card: Card, members: Sequence[Finding]) -> list[Finding]:
    """Return why the card is not signed without force."""
    document = card.document
    problems: list[Finding] = []
    if "signature" in document:
        block = "a single `signature` block is not an A2A signature and cannot be converted to one"
        problems.append(Finding("card.single_signature_block", block, Place("/signature")))
    try:
        check_is_agent_card(document)
    except CardRefused as refusal:
        problems.append(refusal.finding)
    problems += [problem for problem in members if problem.code == "card.type"]
    problems += security_problems(document)
    if not problems:  # what would make every verifier refuse it: its endpoints (V4)
        try:
            check_interfaces(document, None)
            # No client reads a card that has only additional interfaces or misspelt names.
            if not any(document.get(name) for name in _CALLED):
                raise CardRefused("card.no_interface", "the card names no endpoint")
        except CardRefused as refusal:
            problems.append(refusal.finding)
    return problems


# Signatures already there.


def _keep_foreign(
    card: Card,
    payloads: Payloads,
    signers: Sequence[Signer],
    options: SigningOptions,
    notes: list[Finding],
) -> list[Json]:
    """Return the signatures of others that stay, in their order; the rest is noted."""
    if not card.signatures:
        return []
    own_kids = {*options.own_kids, *(signer.public.kid for signer in signers)}
    others = inquire_by(options.known_keys or JwkSet(()), "other signers")
    kept: list[Json] = []
    for index, untrusted_entry in enumerate(card.signatures):
        report = examine_signature(index, untrusted_entry, payloads, others)
        if report.kid in own_kids:
            continue
        state = _judge_foreign(report, options)
        if state in _FATES:
            outcome, advice = _FATES[state]
            name = f"the signature by {report.kid!r}"
            if report.kid is None:
                name = f"an entry that cannot be verified ({report.reasons[0].message})"
            place = Place(f"/signatures/{index}")
            notes.append(Finding("sign.foreign", f"{name} was {outcome}", place, fix=advice))
        if state in ("fits", "unchecked"):
            kept.append(untrusted_entry)
    return kept


def _judge_foreign(report: SignatureReport, options: SigningOptions) -> str:
    """Return what becomes of another signer's signature."""
    code = report.reasons[0].code if report.reasons else ""
    if code in _UNREADABLE:
        return "garbage"
    if report.verdict == "invalid" or code == "key.alg_mismatch":
        return "misfit"
    if options.drop_foreign:
        return "unwanted"
    # Such as one of an algorithm that we do not know: not ours to judge.
    return "unchecked" if report.profile is None else "fits"


def _find_present(card: Card, payload: Payload, key: PublicKey, header: Mapping[str, str]) -> Json:
    """Return a present signature that is just what the plan asks for, so that bytes stay stable."""
    protected = {"alg": key.alg, "kid": key.kid, "typ": _typ(payload)}
    members = {"protected", "signature", *(["header"] if header else [])}
    for untrusted_entry in map(members_of, card.signatures):
        if untrusted_entry.keys() != members or untrusted_entry.get("header", {}) != header:
            continue
        with suppress(errors.SignatureRefused):
            entry = jws.read_entry(untrusted_entry)
            if dict(entry.members) == protected:
                jws.check_entry(entry, payload.data, key)
                return untrusted_entry
    return None


# Carrying it out.


def _typ(payload: Payload) -> str:
    return jws.TYP_JOSE if payload.profile in profiles.FULL_PROFILES else jws.TYP_COMPAT


def _note_header(header: Mapping[str, str]) -> Iterator[Finding]:
    """Yield that a header is unsigned, or refuse one that no reader would accept."""
    for name in header:
        if not name or name in jws.NEVER_UNPROTECTED:
            hint = f"It takes any name but {', '.join(jws.NEVER_UNPROTECTED)}, such as jku."
            message = f"the unsigned header cannot hold {name!r}"
            raise UsageFault("usage.conflict", message, hint=hint)
        unsigned = f"`{name}` in the header of each signature is not signed"
        yield Finding("sign.header_unsigned", unsigned, Place("/signatures"))


def _make_entry(payload: Payload, signer: Signer, header: Mapping[str, str]) -> Json:
    typ = _typ(payload)
    # `self_check` verifies full ones; those of compat no outsider does, so they are verified here.
    signed = jws.sign_payload(payload.data, signer, typ=typ, will_verify=typ == jws.TYP_JOSE)
    return {**signed, **({"header": {**header}} if header else {})}


# The self-check.


def self_check(
    signed: bytes, keys: JwkSet, *, marker: ExtendedMarker | None = None, force: bool = False
) -> bool:
    """Verify what was signed as a reader with the public keys would; return if it is trusted.

    Every full signature by these keys must be valid, and each key must have one.

    Args:
        signed: The card.
        keys: The public keys of the signers.
        marker: That of an extended card.
        force: Whether it may be something else than a card.

    Raises:
        SigningRefused: ``sign.self_check``, or the code for which a reader refuses the bytes.
    """
    audience = None if marker is None else marker.audience
    report = judge_card(signed, inquire_by(keys, "the signer", audience))
    complete = (report.answers.integrity, report.answers.complete) == ("yes", "yes")
    if not complete or (report.verdict != "trusted" and not force):
        first = report.reasons[0]
        code = first.code if report.verdict == "invalid" else "sign.self_check"
        message = f"what was signed is {report.verdict} when read again: {first.message}"
        raise SigningRefused(code, message, path=first.path)
    # All of them, not only what made the verdict: no full one was verified before.
    lacking = {key.kid for key in keys.keys}
    ours = [signature for signature in report.signatures if signature.kid in lacking]
    for signature in ours:
        if signature.verdict not in _AS_SIGNED:
            bad = f"what was signed has a signature that is {signature.verdict} when read again: "
            reason = signature.reasons[0]
            raise SigningRefused("sign.self_check", bad + reason.message, path=reason.path)
    lacking -= {signature.kid for signature in ours if signature.verdict == "valid"}
    if lacking:
        names = " and ".join(map(repr, sorted(lacking)))
        none = f"what was signed has no valid signature by {names} when read again"
        raise SigningRefused("sign.self_check", none, path="/signatures")
    return report.verdict == "trusted"


# Whom each signature serves, what it leaves open, who refuses it. No byte depends on it.

_SHOWN: Final = 5  # pointers listed in one note before "and N more"


def describe_payloads(
    signed: Sequence[Payload], payloads: Payloads, algs: Collection[str]
) -> tuple[SignedPayload, ...]:
    """Return what each payload that was signed is good for; the keys have these algorithms."""
    readers: list[tuple[ProfileName, str]] = [(sdk.profile, sdk.name) for sdk in profiles.VERIFIERS]
    if profiles.RUST_ALG in algs:
        readers.append((profiles.RUST_PROFILE, profiles.RUST))
    payload_of = [(name, payloads.of(profile)) for profile, name in readers]
    return tuple(
        SignedPayload(
            payload.profile,
            payload.profile not in profiles.FULL_PROFILES,
            tuple(name for name, read in payload_of if read and read.data == payload.data),
            profiles.list_pointers(lost := _lost(payload)),
            len(lost),
        )
        for payload in signed
    )


def note_sdks(
    signed: Sequence[Payload], described: Sequence[SignedPayload], payloads: Payloads, file: str
) -> Iterator[Finding]:
    """Yield what SDKs do not check, and each that can use the card and will refuse it."""
    for payload, description in zip(signed, described, strict=True):
        if description.compat and (lost := _in_words(_lost(payload))):
            readers = "; ".join(description.verifiers) or "SDKs"
            yield Finding("sign.compat_lossy", f"these do not notice a change of {lost}: {readers}")
    data = {payload.data for payload in signed}
    for sdk in profiles.VERIFIERS:
        read = payloads.of(sdk.profile)
        if read is None or read.data in data or not read.names_an_endpoint:
            continue
        text = f"{sdk.name}{',' if ',' in sdk.name else ''} will refuse this card. "
        if sdk.profile in profiles.DEFAULT_PROFILES:
            text += f"`cardsign lint {shlex.quote(file)} --group portable` says why. "
        text += "To sign for it all the same: `--compat all`"
        if lost := _in_words(_lost(read)):
            text += f". It then does not notice a change of {lost}"
        yield Finding("sign.sdk_refuses", text)


def note_interfaces(document: Mapping[str, Json]) -> Iterator[Finding]:
    """Yield a warning for each interface whose url the policies of verifiers refuse."""
    for interface in interfaces_of(document, any_spelling=True):
        if not isinstance(interface.url, str):
            continue
        try:
            interface_url(interface.url, str(interface.binding))
        except CardRefused as refusal:
            message = f"verifiers will refuse this card: {refusal.message}"
            yield Finding(refusal.code, message, Place(interface.pointer), severity="warning")


def _lost(payload: Payload) -> list[Uncovered]:
    """Return what a payload leaves open, but for defaults, which say what their absence says."""
    return [part for part in payload.uncovered if part.excuse != "SCHEMA_DEFAULT"]


def _in_words(lost: Sequence[Uncovered]) -> str:
    """Return the first places in words, security before all else."""
    first = sorted(lost, key=lambda part: not part.security)[:_SHOWN]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return ", ".join(part.pointer for part in first) + more
