"""The plan: which payloads of a card get a signature, by which keys, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from cardsign.card.canonical import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    PROFILES,
    Compat,
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
from cardsign.findings import Finding, Place
from cardsign.jose.jws import Signer

#: What ``compat`` takes.
COMPAT: Final[tuple[Compat, ...]] = get_args(Compat)
# Some verifiers read only the first signatures, and those read the pruning profiles.
_ORDER: Final[tuple[ProfileName, ...]] = (
    "prune-empty",
    "prune-empty-upgraded",
    "js-instance",
    "rule-1-as-written",
    "served-as-is",
)


def check_compat(compat: Compat) -> None:
    """Refuse what names no compat signatures.

    Raises:
        UsageFault: ``usage.conflict``.
    """
    if compat not in COMPAT:
        message = f"compat is 'safe', 'all' or 'none', not {compat!r}"
        hint = "'all' makes one compat signature for each profile."
        raise UsageFault("usage.conflict", message, hint=hint)


def payloads_to_sign(
    card: Card, payloads: Payloads, compat: Compat, notes: list[Finding]
) -> list[Payload]:
    """Each distinct payload that gets a signature, in the order of the signatures.

    Full profiles stand first in the table, so a payload that others make too is theirs.

    Args:
        card: The card.
        payloads: Its payloads.
        compat: As in :class:`~cardsign.sign.signing.SigningOptions`.
        notes: Takes what is said of profiles for which nothing is signed.
    """
    claimed: dict[bytes, Payload] = {}
    for name in _profiles_to_try(card, compat):
        payload = payloads.payload_or_refusal(name)
        if isinstance(payload, CanonicalizationError):
            # js-instance may have no payload for this card; that is no error.
            if name in DEFAULT_PROFILES:
                notes.append(Finding("sign.profile_skipped", payload.message, Place(payload.path)))
            continue
        if payload.data in claimed:
            continue
        if name in FULL_PROFILES or _serves(payload, card, compat, notes):
            claimed[payload.data] = payload
    return sorted(claimed.values(), key=lambda payload: _ORDER.index(payload.profile))


def _profiles_to_try(card: Card, compat: Compat) -> Sequence[ProfileName]:
    """Return the profiles that may get a signature, in the order of the table."""
    if compat == "none":
        return FULL_PROFILES
    # js-instance may be safe for a document of A2A 0.3 alone.
    return tuple(PROFILES) if compat == "all" or card.a2a_version == "0.3" else DEFAULT_PROFILES


def _serves(payload: Payload, card: Card, compat: Compat, notes: list[Finding]) -> bool:
    """Whether a compat signature serves its readers, and safely."""
    if payload.names_an_endpoint:
        return compat == "all" or is_safe(card, payload)
    if payload.profile in DEFAULT_PROFILES:
        readers = " and ".join(sdk.name for sdk in VERIFIERS if sdk.profile == payload.profile)
        text = f"this card has no endpoint for {readers}, so nothing was signed for it"
        notes.append(Finding("sign.compat_no_endpoint", text))
    return False


def is_safe(card: Card, payload: Payload) -> bool:
    """Whether readers of a lossy payload are safe with it as the card (decision E8).

    It holds every endpoint that they would call, every security scheme, and every requirement
    that names a scope. A requirement without scopes is lost under nearly every lossy profile.
    """
    # By their text, for what is signed by force may have any JSON there.
    endpoints = {
        repr((interface.url, interface.binding)) for interface in interfaces_of(payload.value)
    }
    called = {
        repr((interface.url, interface.binding)) for interface in current_interfaces(card.document)
    }
    if not endpoints >= called:
        return False
    lost = uncovered_parts(payload, accept_lossy=True)
    return not any(_matters(part) for part in lost if part.security)


def _matters(part: Uncovered) -> bool:
    """Whether something of a security member is lost that says who may call, and how."""
    if part.excuse not in (None, Excuse.DROPPED_BY_VALUE):
        return False
    tokens = part.source.tokens
    if tokens[0] not in ("securitySchemes", "security_schemes"):
        return not without_empties(part.node).is_empty  # such as a scope
    if len(tokens) <= 2:  # a whole scheme, or all of them
        return len(tokens) == 2 or bool(part.node.value)
    return part.excuse is None


def within_the_limit(
    plan: Sequence[Payload], signers: Sequence[Signer], kept: int, notes: list[Finding]
) -> list[tuple[Signer, Payload]]:
    """The signatures to make, in their order; `kept` is how many of others stay.

    Over the limit those of js-instance go, the oldest key's first, until the rest fits; never
    another one, or a signature of others.
    """
    chosen = [(signer, payload) for signer in signers for payload in plan]
    for signer in signers:  # the key that retires first is the oldest
        if len(chosen) + kept <= MAX_SIGNATURES:
            return chosen
        fewer = [
            (each, payload)
            for each, payload in chosen
            if each is not signer or payload.profile != "js-instance"
        ]
        if len(fewer) < len(chosen):
            dropped = f"no signature for js-instance by {signer.public.kid!r}: the limit of "
            notes.append(Finding("sign.compat_dropped", f"{dropped}{MAX_SIGNATURES}"))
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
