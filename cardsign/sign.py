"""Signing: one card in, the same card with our signatures out.

The plan is made and checked before anything is signed: which payloads the card has, which
signatures they need, which of the present ones stay. What is signed is verified
as an outsider would, who reads it; it is not read anew where that is proven to give what we hold.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache, reduce
from operator import getitem
from typing import Any, Final, cast, get_args

from cardsign.card.canonical import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    PROFILES,
    Compat,
    CompatWord,
    Payload,
    Payloads,
    ProfileName,
)
from cardsign.card.coverage import Excuse, Uncovered, uncovered_parts
from cardsign.card.document import (
    MAX_SIGNATURES,
    Card,
    check_is_agent_card,
    render,
    with_signatures,
)
from cardsign.card.extensions import ExtendedMarker, cannot_name_us, find_marker, with_marker
from cardsign.card.interfaces import check_interfaces, current_interfaces, interfaces_of
from cardsign.card.members import check_members
from cardsign.card.paranoid import is_paranoid
from cardsign.card.profiles.rules import without_empties
from cardsign.card.profiles.verifiers import RUST, RUST_ALG, RUST_PROFILE, VERIFIERS, SdkVerifier
from cardsign.card.strictjson import Json
from cardsign.card.tree import Listed, listed, read, write
from cardsign.errors import (
    CanonicalizationError,
    CardRefused,
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
from cardsign.jose.keys import PublicKey
from cardsign.reasons import Reason
from cardsign.records import dataclass
from cardsign.trust.policy import Extended, Holder, Policy
from cardsign.trust.resolve import IssuerTrust, resolve_issuer
from cardsign.trust.supplied import NO_STATEMENTS
from cardsign.verify.signature import matching_payload
from cardsign.verify.verdict import verdict_on

# Pinned keys with freshness waived have no deadlines: the time of the self-check decides nothing.
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
#: What ``compat`` takes besides names.
COMPAT_WORDS: Final[tuple[CompatWord, ...]] = get_args(CompatWord)
#: The profiles of which a compat signature can be made.
COMPAT_PROFILES: Final = tuple(name for name in PROFILES if name not in FULL_PROFILES)

#: What may be safe (decision E8), and what may be so for a document of A2A 0.3 alone.
_SAFE: Final = ("prune-empty", "prune-empty-upgraded", "sdk-1.0-legacy")
_SAFE_FOR_0_3: Final = (*_SAFE, "sdk-0.3", "js-instance")
#: What goes first where a card would have more signatures than are read.
_DROPPED_FIRST: Final = ("rule-1-descriptor-scope", "sdk-1.0-legacy", "sdk-0.3", "js-instance")
# Some verifiers read only the first signatures, and those read the pruning profiles.
_ORDER: Final = (*COMPAT_PROFILES, "rule-1-as-written", "served-as-is")
_UNREADABLE: Final = frozenset({"sig.shape", "sig.base64url", "sig.header"})
#: Sets of keys kept for the check of what they signed.
MAX_HOLDERS: Final = 16
_OUR_MEMBERS: Final = frozenset({"protected", "signature"})
_SHOWN: Final = 5  # pointers listed in one note before "and N more"


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """How a card is to be signed; the defaults are what nearly everybody wants.

    Attributes:
        compat: Which compat signatures are made. ``safe``: those whose payload keeps every
            endpoint, security scheme and scope of the card. ``all``: one for each profile whose
            payload has an endpoint. ``none``. Or names of :data:`COMPAT_PROFILES`, which are made
            besides the safe ones in any case.
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
class SignedPayload:
    """One payload of a signed card, which each key has signed.

    Attributes:
        profile: The first profile that makes it.
        compat: Its signatures are marked: other SDKs accept them, cardsign never counts them.
        verifiers: The names of the SDKs that verify by it, with their versions.
        leaves_open: What of the card it does not hold; those verifiers notice no change there.
    """

    profile: ProfileName
    compat: bool
    verifiers: tuple[str, ...]
    leaves_open: Listed


@dataclass(frozen=True)  # without slots: what is told of it is found out when it is asked for
class SignedCard:
    """What came of signing.

    Attributes:
        document: The card's bytes: as given where nothing had to change, else with the signatures
            as last member. Where those given stood elsewhere, or a marker was put in, it is
            written anew, with an indent of two spaces; member order is kept.
        changed: Whether `document` differs from what was given.
    """

    document: bytes
    changed: bool
    _card: Card = field(repr=False, compare=False)
    _payloads: Payloads = field(repr=False, compare=False)
    _made: tuple[Payload, ...] = field(repr=False, compare=False)
    _algs: frozenset[str] = field(repr=False, compare=False)
    _options: SigningOptions = field(repr=False, compare=False)
    _noted: tuple[Reason, ...] = field(repr=False, compare=False)

    @property
    def profiles(self) -> tuple[ProfileName, ...]:
        """The profiles that have a signature now, in the order of the signatures."""
        return tuple(one.profile for one in self._made)

    @cached_property
    def payloads(self) -> tuple[SignedPayload, ...]:
        """What each key has signed, in the order of its signatures."""
        return tuple(_described(self._made, self._payloads, self._algs))

    @cached_property
    def notes(self) -> tuple[Reason, ...]:
        """Which SDKs will refuse the card, what a compat signature leaves open, what was passed
        over or dropped."""
        loses = _what_they_lose(self._made, self.payloads)
        refusals = _who_refuses(self._card, self._payloads, self._made, self._options)
        return (*self._noted, *loses, *refusals)


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
        UsageFault: ``usage.conflict``: `options.compat` names no compat signatures.
    """
    if not signers:
        raise SigningRefused("sign.no_key", "no key to sign with was given")
    _check_compat(options.compat)
    _holder(tuple(signer.public for signer in signers))
    card = given = Card.from_bytes(document)
    payloads = Payloads(card)
    whole = payloads.of("served-as-is")
    unmarked = whole is not None and cannot_name_us(whole.data)
    marker = None if unmarked else find_marker(card.document)
    if options.extended not in (None, marker):
        marker = options.extended
        card = Card.from_object(with_marker(card.document, marker))
        payloads = Payloads(card)
    notes = list(_check_card(card, payloads, options))
    kept = _foreign(card, payloads, signers, options, notes)
    plan = _plan(card, payloads, options.compat, notes)
    chosen = _as_many_as_are_read(plan, signers, len(kept), notes)
    entries = [_entry(card, payload, signer) for signer, payload in chosen]
    entries.extend(kept)
    changed = card is not given or entries != list(card.signatures)
    signed, members = document, dict(card.document) if card is given else None
    if changed:
        written = document if card is given else None
        signed, members = with_signatures(card.document, entries, written)
    known = None
    if members is not None and not is_paranoid():
        as_signed = Card(members, card.a2a_version, tuple(entries), card.free_parts)
        known = as_signed, payloads
    check_as_an_outsider(signed, signers, marker=marker, force=options.force, known=known)
    made = tuple(one for one in plan if any(payload is one for _, payload in chosen))
    algs = frozenset(signer.public.alg for signer in signers)
    return SignedCard(signed, changed, card, payloads, made, algs, options, tuple(notes))


def check_as_an_outsider(
    signed: bytes,
    signers: Sequence[Signer],
    *,
    marker: ExtendedMarker | None = None,
    force: bool = False,
    known: tuple[Card, Payloads] | None = None,
) -> None:
    """Verify what was signed as a reader does who has the public keys alone.

    Args:
        signed: The card.
        signers: By whom.
        marker: That of an extended card.
        force: Whether it may be something else than a card.
        known: What these bytes are proven to be read as; None lets them be read.

    Raises:
        SigningRefused: ``sign.self_check``, or the code for which a reader refuses the bytes.
    """
    expect = Holder() if marker is None else Extended(Holder(), marker.audience)
    policy, trust = _holder(tuple(signer.public for signer in signers))
    report = verdict_on(signed, expect, policy, trust, _ANY_TIME, known)
    answers = report.answers
    complete = (answers.integrity, answers.complete) == ("yes", "yes")
    is_bad = any(one.verdict == "invalid" for one in report.signatures)
    if is_bad or not complete or (report.verdict != "trusted" and not force):
        raise SigningRefused(
            report.reasons[0].code if report.verdict == "invalid" else "sign.self_check",
            f"what was signed is {report.verdict} when read again: {report.reasons[0].message}",
            path=report.reasons[0].path,
        )


@lru_cache(maxsize=MAX_HOLDERS)
def _holder(keys: tuple[PublicKey, ...]) -> tuple[Policy, IssuerTrust]:
    """Whom an outsider trusts who has these keys alone."""
    policy = Policy.from_jwks(JwkSet.of(keys), name="the signer")
    (issuer,) = policy.issuers
    return policy, resolve_issuer(issuer, policy.limits, NO_STATEMENTS, None, now=_ANY_TIME)


def _check_compat(compat: Compat) -> None:
    names = () if isinstance(compat, str) and compat in COMPAT_WORDS else compat
    for name in (names,) if isinstance(names, str) else names:
        if name not in COMPAT_PROFILES:
            raise UsageFault(
                "usage.conflict",
                f"{name!r} names no compat signatures; what does is "
                + ", ".join((*COMPAT_WORDS, *COMPAT_PROFILES)),
            )


# ------------------------------------------------------------------ is it a card?


def _check_card(card: Card, payloads: Payloads, options: SigningOptions) -> Iterator[Reason]:
    document = card.document
    problems: list[tuple[str, str, str]] = []
    if document.get("name") is None or not card.has_endpoint:
        lacking = "a name" if document.get("name") is None else "any interface or url"
        problems.append(("card.not_agent_card", f"the object lacks {lacking}", ""))
    if "signature" in document:
        block = "a single `signature` block is no A2A signature and cannot be converted to one"
        problems.append(("card.single_signature_block", block, "/signature"))
    members = check_members(payloads.members, card.a2a_version)
    problems.extend(("card.type", p.message, p.pointer) for p in members if not p.missing)
    if not problems:  # what would make every verifier refuse it: its shape, its endpoints (V4)
        try:
            check_is_agent_card(document)
            check_interfaces(document, None)
        except CardRefused as refusal:
            problems.append((refusal.code, refusal.message, refusal.path))
    for code, message, path in problems:
        if not options.force:
            more = f"; {len(problems) - 1} more such problems" if len(problems) > 1 else ""
            raise CardRefused(code, message + more, path=path)
        # It did not stop the signing: an error stands only where something was refused.
        yield replace(Reason.of(code, f"passed over: {message}", path), severity="warning")
    for problem in members:
        if problem.missing:
            if options.strict:
                raise CardRefused("card.missing_required", problem.message, path=problem.pointer)
            yield Reason.of("card.missing_required", problem.message, problem.pointer)
    if card.a2a_version == "mixed":
        dual = "one document for A2A 0.3 and 1.0: SDKs leave its 0.3 members, such as `url`, open"
        yield Reason.of("sign.dual_document", dual)


# ------------------------------------------------------------------ the plan


def _plan(
    card: Card,
    payloads: Payloads,
    compat: Compat,
    notes: list[Reason],
) -> list[Payload]:
    """One signature for each distinct payload; full profiles claim a payload first."""
    named = compat if isinstance(compat, tuple) else ()
    safe = _SAFE_FOR_0_3 if card.a2a_version == "0.3" else _SAFE
    claimed: dict[bytes, Payload] = {}
    for name in FULL_PROFILES if compat == "none" else PROFILES:
        if compat != "all" and name not in (*FULL_PROFILES, *safe, *named):
            continue
        payload = payloads.made(name)
        if isinstance(payload, CanonicalizationError):
            # A profile that is tried on the off chance need not read the card.
            if name in named or name in DEFAULT_PROFILES:
                notes.append(Reason.of("sign.profile_skipped", payload.message, payload.path))
        elif payload.data in claimed:
            continue
        elif name in (*FULL_PROFILES, *named):
            claimed[payload.data] = payload
        elif not payload.names_an_endpoint:
            if name in DEFAULT_PROFILES:
                readers = " and ".join(one.name for one in VERIFIERS if one.profile == name)
                text = f"this card has no endpoint for {readers}, so nothing was signed for it"
                notes.append(Reason.of("sign.compat_no_endpoint", text))
        elif compat == "all" or is_safe(card, payload):
            claimed[payload.data] = payload
    return sorted(claimed.values(), key=lambda one: _ORDER.index(one.profile))


def is_safe(card: Card, payload: Payload) -> bool:
    """Whether readers of a lossy payload are safe with it as the card (decision E8).

    It holds every endpoint that they would call, every security scheme, and every requirement
    that names a scope. A requirement without scopes is lost under nearly every lossy profile.
    """
    held = {(one.url, one.binding) for one in interfaces_of(payload.value)}
    if not held.issuperset((one.url, one.binding) for one in current_interfaces(card.document)):
        return False
    lost = uncovered_parts(payload, accept_lossy=True)
    return not any(_matters(part, payload) for part in lost if part.security)


def _matters(part: Uncovered, payload: Payload) -> bool:
    """Whether something of a security member is lost that says who may call, and how."""
    if part.excuse not in (None, Excuse.DROPPED_BY_VALUE):
        return False
    assert payload.received is not None  # noqa: S101 - it leaves something out
    tokens = part.source.tokens
    value: Json = reduce(getitem, tokens, cast(Any, write(payload.received)))
    if tokens[0] not in ("securitySchemes", "security_schemes"):
        return not without_empties(read(value)).is_empty  # such as a scope
    if len(tokens) <= 2:  # a whole scheme, or all of them
        return len(tokens) == 2 or bool(value)
    return part.excuse is None and not _is_implied(part, payload)


def _is_implied(part: Uncovered, payload: Payload) -> bool:
    """Whether sdk-0.3 leaves a member out that its readers put in again, or cannot misread.

    The other members of a scheme tell its `type`, which is left out with every default.
    """
    tokens = part.source.tokens
    default = tokens in (("protocolVersion",), ("preferredTransport",))
    scheme_type = len(tokens) == 3 and (tokens[0], tokens[2]) == ("securitySchemes", "type")
    return payload.profile == "sdk-0.3" and (default or scheme_type)


def _as_many_as_are_read(
    plan: Sequence[Payload], signers: Sequence[Signer], kept: int, notes: list[Reason]
) -> list[tuple[Signer, Payload]]:
    """The signatures to make, in their order. Over the limit whole profiles go (decision E8)."""
    chosen = [(signer, payload) for signer in signers for payload in plan]
    for profile in _DROPPED_FIRST:
        for signer in signers:  # the key that retires first is the oldest
            if len(chosen) + kept <= MAX_SIGNATURES:
                return chosen
            fewer = [one for one in chosen if one[0] is not signer or one[1].profile != profile]
            if len(fewer) < len(chosen):
                dropped = f"no signature for {profile} by {signer.public.kid!r}: the limit of "
                notes.append(Reason.of("sign.compat_dropped", f"{dropped}{MAX_SIGNATURES}"))
            chosen = fewer
    total = len(chosen) + kept
    if total > MAX_SIGNATURES:
        raise SigningRefused(
            "sign.too_many",
            f"{len(plan)} payloads by {len(signers)} keys and {kept} kept foreign signatures "
            f"make {total}; at most {MAX_SIGNATURES} are read",
            path="/signatures",
        )
    return chosen


# ------------------------------------------------------------------ what it does for whom


def _described(
    made: Sequence[Payload], payloads: Payloads, algs: Collection[str]
) -> Iterator[SignedPayload]:
    readers: list[tuple[ProfileName, str]] = [(one.profile, one.name) for one in VERIFIERS]
    if RUST_ALG in algs:
        readers.append((RUST_PROFILE, RUST))
    for one in made:
        verifiers = (
            name
            for profile, name in readers
            if (payload := payloads.of(profile)) and payload.data == one.data
        )
        yield SignedPayload(
            one.profile,
            one.profile not in FULL_PROFILES,
            tuple(verifiers),
            listed(part.source for part in _lost(one)),
        )


def _what_they_lose(
    made: Sequence[Payload], described: Sequence[SignedPayload]
) -> Iterator[Reason]:
    """What SDKs do not check, in one note for all that do not check the same."""
    readers: dict[str, list[str]] = {}
    for payload, one in zip(made, described, strict=True):
        if one.compat and (lost := _shown(payload)):
            readers.setdefault(lost, []).extend(one.verifiers)
    for lost, names in readers.items():
        yield Reason.of(
            "sign.compat_lossy",
            f"these do not notice a change of {lost}: {'; '.join(names) or 'SDKs'}",
        )


def _lost(payload: Payload) -> list[Uncovered]:
    """What a payload leaves open, but for defaults, which say what their absence says."""
    return [
        part
        for part in uncovered_parts(payload)
        if part.excuse is not Excuse.SCHEMA_DEFAULT and not _is_implied(part, payload)
    ]


def _shown(payload: Payload) -> str:
    """What a payload leaves open, security first; empty if that is nothing."""
    loses = sorted(_lost(payload), key=lambda part: not part.security)
    more = f" and {len(loses) - _SHOWN} more" if len(loses) > _SHOWN else ""
    return ", ".join(listed(part.source for part in loses[:_SHOWN]).pointers) + more


def _who_refuses(
    card: Card,
    payloads: Payloads,
    made: Sequence[Payload],
    options: SigningOptions,
) -> Iterator[Reason]:
    """Each SDK that can use the card and will refuse it, with the ways out."""
    signed = {one.data for one in made}
    file = shlex.quote(options.file)
    for verifier in VERIFIERS:
        payload = payloads.of(verifier.profile)
        if payload is None or payload.data in signed or not payload.names_an_endpoint:
            continue
        option = f"--for {verifier.lint_target}"
        lint = f"`cardsign lint {file} {option}` says why"
        if _is_served_once_fixed(card, payloads, verifier, options.compat):
            lint = f"`cardsign lint {file} {option} --fix -o fixed.json` makes it acceptable"
        loses = _shown(payload)
        opens = f". It then does not notice a change of {loses}" if loses else ""
        pause = "," if "," in verifier.name else ""
        yield Reason.of(
            "sign.sdk_refuses",
            f"{verifier.name}{pause} will refuse this card. {lint}. To sign for it all the same: "
            f"`--compat {verifier.profile}`{opens}",
        )


def _is_served_once_fixed(
    card: Card, payloads: Payloads, verifier: SdkVerifier, compat: Compat
) -> bool:
    """Whether `lint --fix` changes the card so that the SDK's payload is signed."""
    from cardsign.lint.cards import fix

    if payloads.is_portable:
        return False  # there is nothing to fix in it
    fixed = fix(render(card.document), verifier.lint_target)
    if not fixed.fixed:
        return False
    fixed_card = Card.from_bytes(fixed.document)
    payloads = Payloads(fixed_card)
    payload = payloads.of(verifier.profile)
    plan = _plan(fixed_card, payloads, compat, [])
    return payload is not None and payload.data in {one.data for one in plan}


def _foreign(
    card: Card,
    payloads: Payloads,
    signers: Sequence[Signer],
    options: SigningOptions,
    notes: list[Reason],
) -> list[Json]:
    """The signatures of others that stay, in their order."""
    own = {signer.public.kid for signer in signers} | set(options.own_kids)
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
            key = options.known_keys.find(entry.header.kid) if options.known_keys else None
            fits = None if key is None else _fits(entry, key, payloads)
            what = f"the signature by {entry.header.kid!r}"
        path = f"/signatures/{index}"
        if fits is False or options.drop_foreign:
            why = "as asked" if fits is not False else "because it does not fit the card"
            hint = "Ask that signer to sign the new card."
            notes.append(Reason.of("sign.foreign", f"{what} was dropped {why}", path, hint=hint))
            continue
        if fits is None:
            hint = "Drop it with --drop-foreign if you do not know it."
            notes.append(Reason.of("sign.foreign", f"{what} was kept unchecked", path, hint=hint))
        kept.append(untrusted_entry)
    return kept


def _fits(entry: Entry, key: PublicKey, payloads: Payloads) -> bool:
    """Whether a signature fits some payload of the card."""
    try:
        return matching_payload(entry, key, payloads) is not None
    except SignatureRefused:
        return False


# ------------------------------------------------------------------ carrying it out


def _entry(card: Card, payload: Payload, signer: Signer) -> Json:
    """A present signature that is just what the plan asks for, so that bytes stay stable; else a
    new one, which the outsider checks if it is a full one."""
    key = signer.public
    typ = TYP_JOSE if payload.profile in FULL_PROFILES else TYP_COMPAT
    header = {"alg": key.alg, "kid": key.kid, "typ": typ}
    for untrusted_entry in card.signatures:
        if not isinstance(untrusted_entry, dict) or set(untrusted_entry) != _OUR_MEMBERS:
            continue
        try:
            entry = read_entry(untrusted_entry)
            if dict(entry.header.members) == header:
                check_entry(entry, payload.data, key, encoded=payload.encoded)
                return untrusted_entry
        except SignatureRefused:
            continue
    will_verify = typ == TYP_JOSE
    new = sign_payload(
        payload.data, signer, typ=typ, encoded=payload.encoded, will_verify=will_verify
    )
    return {**new}
