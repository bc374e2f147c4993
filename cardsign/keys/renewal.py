"""When the roots are wanted again, and the draft that waits for them meanwhile.

Pure. Each host computes the same draft from the same state, byte for byte. So `rotate --tick` may
write one without asking whether another host has.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cardsign.keys.history import read_draft
from cardsign.keys.keysets import (
    KEYSET_LIFETIME,
    Difference,
    KeysetPlan,
    check_draft,
    differences,
    draft_next,
)
from cardsign.keys.lifecycle import SHOWN_TIME
from cardsign.keys.model import KeyRecord, StoreState
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement

#: Where a tick writes its draft: one name, so there is one draft. Those of people have others.
DRAFT_FILE: Final = "next-keyset.json"

_SHOWN: Final = 4  # kids in a sentence


@dataclass(frozen=True, slots=True)
class Renewal:
    """What is to come after the newest keyset statement.

    Attributes:
        number: Of the next one, as people write it.
        due: From when on the roots are wanted.
        why: What for, in words.
        ends: When the newest one ends, and with it everything.
    """

    number: str
    due: datetime
    why: str
    ends: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether the roots are wanted at `now`."""
        return self.due <= now


def plan_renewal(state: StoreState, previous: KeysetStatement, *, now: datetime) -> Renewal:
    """Say when the roots have to sign again: keys have changed, or a third of its time is left.

    Args:
        state: The key store's.
        previous: The newest statement.
        now: The time, with its zone.
    """
    number = f"{previous.epoch}.{previous.version}"
    following = f"{previous.epoch}.{previous.version + 1}"
    ends = datetime.fromtimestamp(previous.exp, UTC)
    aged = ends - timedelta(seconds=(previous.exp - previous.iat) // 3)
    changed = _changed(state, previous, now)
    if not changed:
        return Renewal(following, aged, f"keyset {number} ends at {ends:{SHOWN_TIME}}", ends)
    kids = ", ".join(key.kid for key in changed[:_SHOWN])
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    why = f"keyset {number} does not say what has become of {kids}{more}"
    return Renewal(following, min(aged, max(map(_last_change, changed))), why, ends)


def waiting_draft(
    state: StoreState,
    previous: KeysetStatement,
    untrusted_draft: bytes | None,
    *,
    now: datetime,
) -> KeysetStatement | None:
    """Return the draft if it follows the newest statement and, once signed, leaves nothing to say.

    Its signatures are not looked at.
    """
    if untrusted_draft is None:
        return None
    try:
        draft = read_draft(untrusted_draft)
        check_draft(draft, previous)
    except StatementRefused:
        return None
    return None if plan_renewal(state, draft, now=now).is_due(now) else draft


def says_more(
    state: StoreState,
    previous: KeysetStatement,
    draft: KeysetStatement,
    *,
    now: datetime,
    lifetime: timedelta = KEYSET_LIFETIME,
) -> tuple[Difference, ...]:
    """Return what a draft changes besides what the key store has to say; nobody vouches for it.

    A person may have drafted it so, `cardsign keyset draft --add-root`, or a stranger may have
    put it there. A draft from a later time than `now` says that as well.

    Args:
        state: The key store's.
        previous: The newest statement.
        draft: What follows it, by :func:`cardsign.keys.keysets.check_draft`.
        now: The time, with its zone.
        lifetime: How long one that is drafted here would be believed.
    """
    moment = datetime.fromtimestamp(draft.iat, UTC)
    plan = KeysetPlan.of(previous).following(state, now=moment, until=moment + lifetime)
    try:
        ours = draft_next(plan, previous, now=moment, lifetime=lifetime)
    except StatementRefused:  # such as too few roots: only a person can fix that
        ours = previous
    *content, times = differences(ours, draft)
    said = [change for change in content if change.sign != "="]
    if draft.exp > ours.exp or moment > now:
        said.append(times)
    return tuple(said)


def next_draft(
    state: StoreState,
    previous: KeysetStatement,
    untrusted_draft: bytes | None,
    *,
    now: datetime,
    lifetime: timedelta = KEYSET_LIFETIME,
) -> tuple[KeysetStatement, bool] | None:
    """Draft the next statement if one is due, or find that the draft which is there will do.

    Args:
        state: The key store's.
        previous: The newest statement.
        untrusted_draft: What was drafted before, with the signatures that it has got, if any.
        now: The time, with its zone.
        lifetime: How long a new one is to be believed.

    Returns:
        The draft, and whether it is a new one; None if nothing is due.

    Raises:
        StatementRefused: As :func:`cardsign.keys.keysets.draft_next`.
    """
    told = plan_renewal(state, previous, now=now)
    if not told.is_due(now):
        return None
    waiting = waiting_draft(state, previous, untrusted_draft, now=now)
    if waiting is not None:
        return waiting, False
    moment = _moment(told, previous, now, lifetime)
    plan = KeysetPlan.of(previous).following(state, now=moment, until=moment + lifetime)
    return draft_next(plan, previous, now=moment, lifetime=lifetime), True


def _moment(
    told: Renewal, previous: KeysetStatement, now: datetime, lifetime: timedelta
) -> datetime:
    """The time that a draft says: when it came to be due, unless that was too long ago."""
    since = max(told.due, datetime.fromtimestamp(previous.iat, UTC)).replace(microsecond=0)
    return now if since > now or now >= since + lifetime / 3 else since


def _changed(state: StoreState, previous: KeysetStatement, now: datetime) -> tuple[KeyRecord, ...]:
    """The keys of the store of which a statement says something else than the store."""
    before = KeysetPlan.of(previous)
    after = before.following(state, now=now, until=now)
    entries = {*before.keys} ^ {*after.keys}
    names = {entry.public.thumbprint for entry in entries} | (before.revoked ^ after.revoked)
    names |= {key.public.thumbprint for key in {*before.root.keys} ^ {*after.root.keys}}
    return tuple(key for key in state.keys if key.thumbprint in names)


def _last_change(key: KeyRecord) -> datetime:
    """When a key came into the state in which it is."""
    times = key.times
    known = (times.prepublished, times.activated, times.retired, times.revoked)
    return max([key.created, *(time for time in known if time is not None)])
