"""The plan: which payloads of a card get a signature, in which order."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces, interfaces_of
from cardsign.card.profiles import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    PROFILES,
    RUST,
    RUST_ALG,
    RUST_PROFILE,
    VERIFIERS,
    Compat,
    Excuse,
    Listed,
    Payload,
    Payloads,
    ProfileName,
    Uncovered,
    listed,
    uncovered_parts,
)
from cardsign.card.rules import without_empties
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError, CardRefused, UsageFault
from cardsign.findings import Finding, Place
from cardsign.urls import interface_url

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
        compat: As in :class:`~cardsign.sign.signing.SigningOptions`.
        notes: Takes what is said of profiles for which nothing is signed.

    Raises:
        UsageFault: ``usage.conflict``: `compat` names no compat signatures.
    """
    if compat not in COMPAT:
        message = f"compat is 'safe', 'all' or 'none', not {compat!r}"
        hint = "'all' makes one compat signature for each profile."
        raise UsageFault("usage.conflict", message, hint=hint)
    chosen: dict[bytes, Payload] = {}
    for name in FULL_PROFILES if compat == "none" else PROFILES:
        # js-instance may be safe for a document of A2A 0.3 alone.
        if not (name in DEFAULT_PROFILES or compat == "all" or card.a2a_version == "0.3"):
            continue
        payload = payloads.payload_or_refusal(name)
        if isinstance(payload, CanonicalizationError):
            # js-instance may have no payload for this card; that is no error.
            if name in DEFAULT_PROFILES:
                notes.append(Finding("sign.profile_skipped", payload.message, Place(payload.path)))
        elif payload.data not in chosen and (
            name in FULL_PROFILES or _serves(payload, card, compat, notes)
        ):
            chosen[payload.data] = payload
    return list(chosen.values())


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
    endpoints, called = (
        {repr((interface.url, interface.binding)) for interface in interfaces}
        for interfaces in (interfaces_of(payload.value), current_interfaces(card.document))
    )
    lost = uncovered_parts(payload, accept_lossy=True)
    return endpoints >= called and not any(_matters(part) for part in lost if part.security)


def _matters(part: Uncovered) -> bool:
    """Whether something of a security member is lost that says who may call, and how."""
    if part.excuse not in (None, Excuse.DROPPED_BY_VALUE):
        return False
    tokens = part.tokens
    if tokens[0] not in ("securitySchemes", "security_schemes"):
        return not without_empties(part.node).is_empty  # such as a scope
    if len(tokens) <= 2:  # a whole scheme, or all of them
        return len(tokens) == 2 or bool(part.node.value)
    return part.excuse is None


# What is told of a signed card: whom each signature serves, what it leaves open, who refuses it. No
# byte of the card hangs on it.


_SHOWN: Final = 5  # pointers listed in one note before "and N more"


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


def describe_payloads(
    signed: Sequence[Payload], payloads: Payloads, algs: Collection[str]
) -> tuple[SignedPayload, ...]:
    """Return what each payload that was signed is good for; the keys have these algorithms."""
    readers: list[tuple[ProfileName, str]] = [(sdk.profile, sdk.name) for sdk in VERIFIERS]
    if RUST_ALG in algs:
        readers.append((RUST_PROFILE, RUST))
    payload_of = [(name, payloads.of(profile)) for profile, name in readers]
    return tuple(
        SignedPayload(
            payload.profile,
            payload.profile not in FULL_PROFILES,
            tuple(name for name, read in payload_of if read and read.data == payload.data),
            _lost(payload)[0],
        )
        for payload in signed
    )


def note_sdks(
    signed: Sequence[Payload], described: Sequence[SignedPayload], payloads: Payloads, file: str
) -> Iterator[Finding]:
    """Yield what SDKs do not check, and each that can use the card and will refuse it."""
    for payload, description in zip(signed, described, strict=True):
        if description.compat and (lost := _lost(payload)[1]):
            readers = "; ".join(description.verifiers) or "SDKs"
            unchecked = f"these do not notice a change of {lost}: {readers}"
            yield Finding("sign.compat_lossy", unchecked)
    data = {payload.data for payload in signed}
    for sdk in VERIFIERS:
        read = payloads.of(sdk.profile)
        if read is None or read.data in data or not read.names_an_endpoint:
            continue
        why = f"`cardsign lint {shlex.quote(file)} --group portable` says why. "
        lost = _lost(read)[1]
        yield Finding(
            "sign.sdk_refuses",
            f"{sdk.name}{',' if ',' in sdk.name else ''} will refuse this card. "
            f"{why if sdk.profile in DEFAULT_PROFILES else ''}To sign for it all the same: "
            f"`--compat all`{f'. It then does not notice a change of {lost}' if lost else ''}",
        )


def note_interfaces(document: Mapping[str, Json]) -> Iterator[Finding]:
    """Yield a warning for each interface whose url the policies of verifiers refuse."""
    for interface in interfaces_of(document, any_spelling=True):
        if not isinstance(interface.url, str):
            continue
        try:
            interface_url(interface.url, str(interface.binding))
        except CardRefused as refusal:
            message = f"verifiers will refuse this card: {refusal.message}"
            place = Place(interface.pointer)
            yield Finding(refusal.code, message, place, severity="warning")


def _lost(payload: Payload) -> tuple[Listed, str]:
    """Return what a payload leaves open, and its first places in words, security before all else.

    Defaults are left out, which say what their absence says.
    """
    parts = uncovered_parts(payload)
    lost = [part for part in parts if part.excuse is not Excuse.SCHEMA_DEFAULT]
    first = sorted(lost, key=lambda part: not part.security)[:_SHOWN]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    places = ", ".join(part.pointer for part in first)
    return listed(lost), places + more
