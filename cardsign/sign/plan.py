"""The plan: which payloads of a card get a signature, by which keys, in which order.

A new profile is entered here: in the rows below if it may be safe or may be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

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
from cardsign.card.document import MAX_SIGNATURES, Card
from cardsign.card.interfaces import current_interfaces, interfaces_of
from cardsign.card.profiles.rules import without_empties
from cardsign.card.profiles.verifiers import VERIFIERS
from cardsign.errors import CanonicalizationError, SigningRefused, UsageFault
from cardsign.jose.jws import Signer
from cardsign.reasons import Reason

#: What ``compat`` takes in addition to names.
COMPAT_WORDS: Final[tuple[CompatWord, ...]] = get_args(CompatWord)
#: The profiles of which a compat signature can be made.
COMPAT_PROFILES: Final = tuple(name for name in PROFILES if name not in FULL_PROFILES)

#: What may be safe (decision E8), and what may be so for a document of A2A 0.3 alone.
_MAY_BE_SAFE: Final = ("prune-empty", "prune-empty-upgraded", "sdk-1.0-legacy")
_MAY_BE_SAFE_FOR_0_3: Final = (*_MAY_BE_SAFE, "sdk-0.3", "js-instance")
#: What goes first where a card would have more signatures than are read.
_DROPPED_FIRST: Final = ("rule-1-descriptor-scope", "sdk-1.0-legacy", "sdk-0.3", "js-instance")
# Some verifiers read only the first signatures, and those read the pruning profiles.
_ORDER: Final = (*COMPAT_PROFILES, *reversed(FULL_PROFILES))


def check_compat(compat: Compat) -> None:
    """Refuse what names no compat signatures.

    Raises:
        UsageFault: ``usage.conflict``.
    """
    wrong: list[str]
    if isinstance(compat, str):
        wrong = [] if compat in COMPAT_WORDS else [compat]
    else:
        wrong = [name for name in compat if name not in COMPAT_PROFILES]
    if wrong:
        words, names = ", ".join(COMPAT_WORDS), ", ".join(COMPAT_PROFILES)
        choices = f"choose one of {words}, or several of {names}"
        raise UsageFault("usage.conflict", f"{wrong[0]!r} names no compat signatures; {choices}")


def payloads_to_sign(
    card: Card, payloads: Payloads, compat: Compat, notes: list[Reason]
) -> list[Payload]:
    """Each distinct payload that gets a signature, in the order of the signatures.

    Full profiles stand first in the table, so a payload that others make too is theirs.

    Args:
        card: The card.
        payloads: Its payloads.
        compat: As in :class:`~cardsign.sign.signing.SigningOptions`.
        notes: Takes what is said of profiles for which nothing is signed.
    """
    named = () if isinstance(compat, str) else compat
    claimed: dict[bytes, Payload] = {}
    for name in _asked_for(card, compat, named):
        payload = payloads.payload_or_refusal(name)
        if isinstance(payload, CanonicalizationError):
            # A profile that is tried on the off chance need not read the card.
            if name in named or name in DEFAULT_PROFILES:
                notes.append(Reason.of("sign.profile_skipped", payload.message, payload.path))
            continue
        if payload.data in claimed:
            continue
        if name in (*FULL_PROFILES, *named) or _serves(payload, card, compat, notes):
            claimed[payload.data] = payload
    return sorted(claimed.values(), key=lambda one: _ORDER.index(one.profile))


def _asked_for(card: Card, compat: Compat, named: Sequence[ProfileName]) -> Sequence[ProfileName]:
    """The profiles that may get a signature, in the order of the table."""
    if compat == "none":
        return FULL_PROFILES
    safe = _MAY_BE_SAFE_FOR_0_3 if card.a2a_version == "0.3" else _MAY_BE_SAFE
    wanted = (*FULL_PROFILES, *safe, *named)
    return [name for name in PROFILES if compat == "all" or name in wanted]


def _serves(payload: Payload, card: Card, compat: Compat, notes: list[Reason]) -> bool:
    """Whether a compat signature that nobody has named serves its readers, and safely."""
    if payload.names_an_endpoint:
        return compat == "all" or is_safe(card, payload)
    if payload.profile in DEFAULT_PROFILES:
        readers = " and ".join(one.name for one in VERIFIERS if one.profile == payload.profile)
        text = f"this card has no endpoint for {readers}, so nothing was signed for it"
        notes.append(Reason.of("sign.compat_no_endpoint", text))
    return False


def is_safe(card: Card, payload: Payload) -> bool:
    """Whether readers of a lossy payload are safe with it as the card (decision E8).

    It holds every endpoint that they would call, every security scheme, and every requirement
    that names a scope. A requirement without scopes is lost under nearly every lossy profile.
    """
    # By their text, for what is signed by force may have any JSON there.
    held = {repr((one.url, one.binding)) for one in interfaces_of(payload.value)}
    called = {repr((one.url, one.binding)) for one in current_interfaces(card.document)}
    if not held >= called:
        return False
    lost = uncovered_parts(payload, accept_lossy=True)
    return not any(_matters(part, payload) for part in lost if part.security)


def _matters(part: Uncovered, payload: Payload) -> bool:
    """Whether something of a security member is lost that says who may call, and how."""
    if part.excuse not in (None, Excuse.DROPPED_BY_VALUE):
        return False
    tokens = part.source.tokens
    if tokens[0] not in ("securitySchemes", "security_schemes"):
        return not without_empties(part.node).is_empty  # such as a scope
    if len(tokens) <= 2:  # a whole scheme, or all of them
        return len(tokens) == 2 or bool(part.node.value)
    return part.excuse is None and not is_implied(part, payload)


def is_implied(part: Uncovered, payload: Payload) -> bool:
    """Whether sdk-0.3 leaves a member out that its readers put in again, or cannot misread.

    The other members of a scheme tell its `type`, which is left out with every default.
    """
    tokens = part.source.tokens
    default = tokens in (("protocolVersion",), ("preferredTransport",))
    scheme_type = len(tokens) == 3 and (tokens[0], tokens[2]) == ("securitySchemes", "type")
    return payload.profile == "sdk-0.3" and (default or scheme_type)


def within_the_limit(
    plan: Sequence[Payload], signers: Sequence[Signer], kept: int, notes: list[Reason]
) -> list[tuple[Signer, Payload]]:
    """The signatures to make, in their order; `kept` is how many of others stay.

    Over the limit signatures go, one profile after the other and of each the oldest key's first
    (decision E8), until the rest fits; never a signature of others.
    """
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
            f"{len(chosen)} signatures by {len(signers)} keys and {kept} kept foreign signatures "
            f"make {total}; at most {MAX_SIGNATURES} are read",
            path="/signatures",
        )
    return chosen
