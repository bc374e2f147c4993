"""How an issuer stands by what is remembered of him alone, and what will need a person soon."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cardsign.reasons import Reason
from cardsign.trust.establish import establish
from cardsign.trust.evidence import NO_EVIDENCE
from cardsign.trust.known import Known, TransientMemory
from cardsign.trust.policy import Enrolment, Limits
from cardsign.trust.standing import Standing, end_of

#: Seconds before a keyset statement ends: roots are offline, and their holders may be away.
KEYSET_NOTICE: Final = 14 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would be said of an issuer's cards now if nobody answered.

    Attributes:
        standing: Who may speak for him, by what is remembered.
        alarms: What keeps every card of his from being trusted, then what soon will.
        until: When the first of what is remembered ends, Unix seconds; None where nothing does.
    """

    standing: Standing
    alarms: tuple[Reason, ...]
    until: int | None


def outlook(enrolment: Enrolment, limits: Limits, known: Known, *, now: datetime) -> Outlook:
    """Look at what is remembered of an issuer; nothing is asked and nothing kept.

    Args:
        enrolment: What the policy says of him.
        limits: The policy's.
        known: What is remembered.
        now: Aware.
    """
    with TransientMemory({enrolment.name: known}).of(enrolment) as memo:
        standing = establish(enrolment, limits, NO_EVIDENCE, memo, now=now)
    alarms = list(standing.blocks)
    if enrolment.freshness == "required":
        alarms.extend(standing.hindrances)
    seconds = now.timestamp()
    keyset, release = standing.keyset, standing.release
    if release is not None and seconds - release.iat >= (release.exp - release.iat) / 2:
        late = f"release {release.seq} is past half of its time, and no newer one was seen"
        alarms.append(Reason.of("peer.release_late", late))
    if keyset is not None:
        left = end_of(keyset, limits.keyset_age) - seconds
        if 0 < left <= KEYSET_NOTICE:
            ends = f"keyset {keyset.epoch}.{keyset.version} ends in {left / 86400:.1f} days"
            alarms.append(Reason.of("peer.keyset_ends", ends))
    return Outlook(standing, tuple(dict.fromkeys(alarms)), min(standing.deadlines, default=None))
