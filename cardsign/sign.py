"""Signing: one card in, the same card with our signatures out.

The plan is made and checked before anything is signed: which payloads the card has, which
signatures they need, which of the present ones stay. What is signed is read again and
verified as an outsider would.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cardsign.card.canonical import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    PROFILES,
    Payload,
    ProfileName,
)
from cardsign.card.coverage import Payloads, uncovered_parts
from cardsign.card.document import MAX_SIGNATURES, Card, render
from cardsign.card.extended import ExtendedMarker, find_marker, mark
from cardsign.card.interfaces import check_interfaces
from cardsign.card.members import check_is_agent_card, check_members
from cardsign.card.strictjson import Json
from cardsign.card.tree import listed
from cardsign.errors import (
    CanonicalizationError,
    CardRefused,
    InputRefused,
    SignatureRefused,
    SigningRefused,
    UsageFault,
)
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
from cardsign.reasons import Reason
from cardsign.trust.policy import Expectation, Extended, Holder, Policy
from cardsign.verify.signature import matching_payloads
from cardsign.verify.verdict import examine_card

# The last step of signing: what was signed is read again as an outsider would read it.


# Pinned keys with freshness waived have no deadlines: the time of the self-check decides nothing.
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


def check_as_an_outsider(signed: bytes, signers: Sequence[Signer], *, force: bool = False) -> None:
    """Verify what was signed with the public keys alone; also worth doing on the file written.

    Raises:
        SigningRefused: ``sign.self_check``, or the code for which a reader refuses the bytes.
    """
    jwks = JwkSet.of(signer.public for signer in signers)
    policy = Policy.from_jwks(jwks, name="the signer")
    report = examine_card(signed, expect=_expectation(signed), policy=policy, now=_ANY_TIME)
    answers = report.answers
    complete = (answers.integrity, answers.complete) == ("yes", "yes")
    if not complete or (report.verdict != "trusted" and not force):
        raise SigningRefused(
            report.reasons[0].code if report.verdict == "invalid" else "sign.self_check",
            f"what was signed is {report.verdict} when read again: {report.reasons[0].message}",
            path=report.reasons[0].path,
        )


def _expectation(signed: bytes) -> Expectation:
    """What a reader who was given this card would ask for: an extended card, if it is marked."""
    try:
        marker = find_marker(Card.from_bytes(signed).document)
    except InputRefused:  # the verdict says why
        return Holder()
    return Holder() if marker is None else Extended(Holder(), marker.audience)


#: The profiles that may be named to be served in any case.
COMPAT_PROFILES: Final = tuple(name for name in PROFILES if name not in FULL_PROFILES)

# Some verifiers read only the first signatures, and those read the pruning profiles.
_ORDER: Final = (*COMPAT_PROFILES, "rule-1-as-written", "served-as-is")
_UNREADABLE: Final = frozenset({"sig.shape", "sig.base64url", "sig.header"})
_OUR_MEMBERS: Final = frozenset({"protected", "signature"})
_SHOWN: Final = 5  # pointers listed in one note before "and N more"


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """How a card is to be signed; the defaults are what nearly everybody wants.

    Attributes:
        profiles: Default profiles to serve; ``served-as-is`` is always among them.
        compat: Opt-in profiles to serve besides, and lossy ones to serve although their
            payload has lost every endpoint; of :data:`COMPAT_PROFILES`.
        strict: Refuse a card that lacks REQUIRED members, instead of a note.
        force: Sign what has a canonical form even if it is no Agent Card or has members of
            the wrong type; what was passed over is noted.
        known_keys: Keys of other signers, with which their signatures are checked.
        own_kids: Every kid that our key store ever held; such signatures are replaced.
        drop_foreign: Drop other signers' signatures.
        extended: Mark the card as an extended one; that this has not expired is not checked.
    """

    profiles: tuple[ProfileName, ...] = DEFAULT_PROFILES
    compat: tuple[str, ...] = ()
    strict: bool = False
    force: bool = False
    known_keys: JwkSet | None = None
    own_kids: Collection[str] = field(default_factory=frozenset)
    drop_foreign: bool = False
    extended: ExtendedMarker | None = None


@dataclass(frozen=True, slots=True)
class SignedCard:
    """What came of signing.

    Attributes:
        document: The card's bytes: as given where nothing had to change, else JSON with an
            indent of two spaces, member order kept, UTF-8, a newline at the end.
        changed: Whether `document` differs from what was given.
        profiles: The profiles that have a signature now, in the order of the signatures.
        notes: What was passed over, what a compat signature leaves open, what was dropped.
    """

    document: bytes
    changed: bool
    profiles: tuple[ProfileName, ...]
    notes: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class _Planned:
    payload: Payload
    typ: str


def sign_with_notes(
    document: bytes, signers: Sequence[Signer], options: SigningOptions
) -> SignedCard:
    """Sign a card for every profile whose payload differs, with every signer.

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
        UsageFault: `profiles` or `compat` names what cannot be chosen there.
    """
    if not signers:
        raise SigningRefused("sign.no_key", "no key to sign with was given")
    _check_profiles(options.profiles, DEFAULT_PROFILES)
    _check_profiles(options.compat, COMPAT_PROFILES)
    JwkSet.of(signer.public for signer in signers)
    given = Card.from_bytes(document)
    card = mark(given, options.extended)
    notes = list(_check_card(card, options))
    plan = _plan(card, options, notes)
    kept = _foreign(card, signers, options, notes)
    total = len(plan) * len(signers) + len(kept)
    if total > MAX_SIGNATURES:
        raise SigningRefused(
            "sign.too_many",
            f"{len(plan)} payloads by {len(signers)} keys and {len(kept)} kept foreign signatures "
            f"make {total}; at most {MAX_SIGNATURES} are read",
            path="/signatures",
        )
    entries: list[Json] = [
        _reuse(card, planned, signer)
        or dict(sign_payload(planned.payload.data, signer, typ=planned.typ))
        for signer in signers
        for planned in plan
    ]
    entries.extend(kept)
    changed = card is not given or entries != list(card.signatures)
    signed = render({**card.document, "signatures": entries}) if changed else document
    check_as_an_outsider(signed, signers, force=options.force)
    return SignedCard(signed, changed, tuple(one.payload.profile for one in plan), tuple(notes))


def _check_profiles(names: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for name in names:
        if name not in allowed:
            raise UsageFault(
                "usage.conflict",
                f"{name!r} is no profile that can be chosen here; those are {', '.join(allowed)}",
            )


# ------------------------------------------------------------------ is it a card?


def _check_card(card: Card, options: SigningOptions) -> Iterator[Reason]:
    document = card.document
    problems: list[tuple[str, str, str]] = []
    if document.get("name") is None or not card.has_endpoint:
        lacking = "a name" if document.get("name") is None else "any interface or url"
        problems.append(("card.not_agent_card", f"the object lacks {lacking}", ""))
    if "signature" in document:
        block = "a single `signature` block is no A2A signature and cannot be converted to one"
        problems.append(("card.single_signature_block", block, "/signature"))
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    members = check_members(unsigned, card.generation)
    problems.extend(("card.type", p.message, p.pointer) for p in members if not p.missing)
    if not problems:
        problems.extend(_refusals_of_verifiers(document))
    for code, message, path in problems:
        if not options.force:
            more = f"; {len(problems) - 1} more such problems" if len(problems) > 1 else ""
            raise CardRefused(code, message + more, path=path)
        yield Reason.of(code, f"passed over: {message}", path)
    for problem in members:
        if problem.missing:
            if options.strict:
                raise CardRefused("card.missing_required", problem.message, path=problem.pointer)
            yield Reason.of("card.missing_required", problem.message, problem.pointer)
    if card.generation == "mixed":
        dual = "one document for A2A 0.3 and 1.0: SDKs leave its 0.3 members, such as `url`, open"
        yield Reason.of("sign.dual_document", dual)


def _refusals_of_verifiers(document: Mapping[str, Json]) -> Iterator[tuple[str, str, str]]:
    """What would make every verifier refuse it: no card's shape, or its endpoints (rule V4)."""
    try:
        check_is_agent_card(document)
        check_interfaces(document, None)
    except CardRefused as refusal:
        yield refusal.code, refusal.message, refusal.path


# ------------------------------------------------------------------ the plan


def _plan(card: Card, options: SigningOptions, notes: list[Reason]) -> list[_Planned]:
    """One signature for each distinct payload; full profiles claim a payload first."""
    wanted = {"served-as-is", *options.profiles, *options.compat}
    claimed: dict[bytes, _Planned] = {}
    payloads = Payloads(card.document)
    for name in filter(wanted.__contains__, PROFILES):
        payload = payloads.made(name)
        if isinstance(payload, CanonicalizationError):
            notes.append(Reason.of("sign.profile_skipped", payload.message, payload.path))
            continue
        if payload.data in claimed:
            continue
        if name in FULL_PROFILES:
            claimed[payload.data] = _Planned(payload, TYP_JOSE)
        elif payload.names_an_endpoint or name in options.compat:
            claimed[payload.data] = _Planned(payload, TYP_COMPAT)
            notes.extend(_what_it_loses(payload))
        else:
            lost = f"no {name} signature was made: its payload has lost every endpoint"
            notes.append(Reason.of("sign.compat_no_endpoint", lost))
    return sorted(claimed.values(), key=lambda one: _ORDER.index(one.payload.profile))


def _what_it_loses(payload: Payload) -> Iterator[Reason]:
    found = uncovered_parts(payload)
    if not found:
        return
    loses = sorted(found, key=lambda part: not part.security)
    shown = ", ".join(listed(part.source for part in loses[:_SHOWN]).pointers)
    more = f" and {len(loses) - _SHOWN} more" if len(loses) > _SHOWN else ""
    also = "; that includes who may call" if loses[0].security else ""
    yield Reason.of(
        "sign.compat_lossy",
        f"verifiers of {payload.profile} will not notice changes of {shown}{more}{also}",
    )


def _foreign(
    card: Card, signers: Sequence[Signer], options: SigningOptions, notes: list[Reason]
) -> list[Json]:
    """The signatures of others that stay, in their order."""
    own = {signer.public.kid for signer in signers} | set(options.own_kids)
    payloads = Payloads(card.document)
    kept: list[Json] = []
    for index, untrusted_entry in enumerate(card.signatures):
        try:
            entry = read_entry(untrusted_entry)
        except SignatureRefused as refusal:
            # Such as an algorithm that we do not know: not ours to judge, unless it is garbage.
            fits = False if refusal.code in _UNREADABLE else None
            what = f"an entry that cannot be verified ({refusal.message})"
        else:
            if entry.header.kid in own:
                continue
            fits = _fits_its_key(entry, payloads, options.known_keys)
            what = f"the signature by {entry.header.kid!r}"
        path = f"/signatures/{index}"
        if fits is False or options.drop_foreign:
            why = "as asked" if fits is not False else "because it does not fit the card"
            notes.append(Reason.of("sign.foreign_dropped", f"{what} was dropped {why}", path))
            continue
        if fits is None:
            notes.append(Reason.of("sign.foreign_unchecked", f"{what} was kept unchecked", path))
        kept.append(untrusted_entry)
    return kept


def _fits_its_key(entry: Entry, payloads: Payloads, known_keys: JwkSet | None) -> bool | None:
    """Whether a signature fits some payload of the card; None where its key is not known."""
    key = known_keys.find(entry.header.kid) if known_keys else None
    if key is None:
        return None
    try:
        return bool(matching_payloads(entry, key, payloads))
    except SignatureRefused:
        return False


# ------------------------------------------------------------------ carrying it out


def _reuse(card: Card, planned: _Planned, signer: Signer) -> Json:
    """A present signature that is just what the plan asks for, so that bytes stay stable."""
    key = signer.public
    header = {"alg": key.alg, "kid": key.kid, "typ": planned.typ}
    for untrusted_entry in card.signatures:
        if not isinstance(untrusted_entry, dict) or set(untrusted_entry) != _OUR_MEMBERS:
            continue
        try:
            entry = read_entry(untrusted_entry)
            if dict(entry.header.members) == header:
                check_entry(entry, planned.payload.data, key)
                return untrusted_entry
        except SignatureRefused:
            continue
    return None
