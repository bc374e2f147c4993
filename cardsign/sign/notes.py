"""What is told of a signed card: whom each signature serves, what it leaves open, who refuses it.

No byte of the card hangs on it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cardsign.card.canonical import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    Payload,
    Payloads,
    ProfileName,
)
from cardsign.card.coverage import Excuse, Uncovered, uncovered_parts
from cardsign.card.profiles.verifiers import RUST, RUST_ALG, RUST_PROFILE, VERIFIERS
from cardsign.card.tree import Listed, listed
from cardsign.findings import Finding

_SHOWN: Final = 5  # pointers listed in one note before "and N more"


@dataclass(frozen=True, slots=True)
class SignedPayload:
    """One payload of a signed card, which each key has signed unless there were too many.

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


def signed_payloads(
    signed: Sequence[Payload], payloads: Payloads, algs: Collection[str]
) -> Iterator[SignedPayload]:
    """What each payload that was signed is good for, where the keys have these algorithms."""
    readers: list[tuple[ProfileName, str]] = [(one.profile, one.name) for one in VERIFIERS]
    if RUST_ALG in algs:
        readers.append((RUST_PROFILE, RUST))
    for one in signed:
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


def what_they_lose(
    signed: Sequence[Payload], described: Sequence[SignedPayload]
) -> Iterator[Finding]:
    """What SDKs do not check, in one note for all that do not check the same."""
    readers: dict[str, list[str]] = {}
    for payload, description in zip(signed, described, strict=True):
        if description.compat and (lost := _shown(payload)):
            readers.setdefault(lost, []).extend(description.verifiers)
    for lost, names in readers.items():
        yield Finding(
            "sign.compat_lossy",
            f"these do not notice a change of {lost}: {'; '.join(names) or 'SDKs'}",
        )


def _lost(payload: Payload) -> list[Uncovered]:
    """What a payload leaves open, but for defaults, which say what their absence says."""
    parts = uncovered_parts(payload)
    return [part for part in parts if part.excuse is not Excuse.SCHEMA_DEFAULT]


def _shown(payload: Payload) -> str:
    """What a payload leaves open, security first; empty if that is nothing."""
    loses = sorted(_lost(payload), key=lambda part: not part.security)
    more = f" and {len(loses) - _SHOWN} more" if len(loses) > _SHOWN else ""
    return ", ".join(listed(part.source for part in loses[:_SHOWN]).pointers) + more


def who_refuses(payloads: Payloads, made: Sequence[Payload], file: str) -> Iterator[Finding]:
    """Each SDK that can use the card and will refuse it, with the ways out."""
    signed = {one.data for one in made}
    file = shlex.quote(file)
    for verifier in VERIFIERS:
        payload = payloads.of(verifier.profile)
        if payload is None or payload.data in signed or not payload.names_an_endpoint:
            continue
        lint = ""
        if verifier.profile in DEFAULT_PROFILES:
            lint = f"`cardsign lint {file} --group portable` says why. "
        loses = _shown(payload)
        opens = f". It then does not notice a change of {loses}" if loses else ""
        pause = "," if "," in verifier.name else ""
        yield Finding(
            "sign.sdk_refuses",
            f"{verifier.name}{pause} will refuse this card. {lint}To sign for it all the same: "
            f"`--compat all`{opens}",
        )
