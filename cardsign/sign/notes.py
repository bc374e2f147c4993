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
    RUST,
    RUST_ALG,
    RUST_PROFILE,
    VERIFIERS,
    Payload,
    Payloads,
    ProfileName,
)
from cardsign.card.coverage import Excuse, uncovered_parts
from cardsign.card.tree import Listed, listed
from cardsign.findings import Finding

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


def _lost(payload: Payload) -> tuple[Listed, str]:
    """Return what a payload leaves open, and its first places in words, security before all else.

    Defaults are left out, which say what their absence says.
    """
    parts = uncovered_parts(payload)
    lost = [part for part in parts if part.excuse is not Excuse.SCHEMA_DEFAULT]
    first = sorted(lost, key=lambda part: not part.security)[:_SHOWN]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    places = ", ".join(part.pointer for part in first)
    return listed(part.source for part in lost), places + more
