"""Choosing the newest release that speaks by right (K10, K11).

A release key may revoke others at 3 a.m., and what a revoked key has signed never counts,
whatever its number or date. So what revokes is gathered first, and only then is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement, check_release
from cardsign.jose.statements import StatementRefused
from cardsign.reasons import Reason
from cardsign.trust.known import Floor
from cardsign.trust.receiving import check_past, reason_of


@dataclass(frozen=True, slots=True)
class Chosen:
    """What came of the releases that were offered.

    Attributes:
        release: The newest one, or the one held where none is newer and lawful; or None.
        denied: Thumbprints that lawful releases under this keyset revoke, that one included.
        contested: Two lawful ones of the highest number: nobody knows which is current.
        reasons: Why others were left.
    """

    release: ReleaseStatement | None
    denied: frozenset[str]
    contested: Reason | None
    reasons: tuple[Reason, ...]


def choose_release(
    held: ReleaseStatement | None,
    offered: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    floor: Floor,
    *,
    now: datetime,
    skew: timedelta,
) -> Chosen:
    """The newest release that speaks by right under the newest keyset.

    Of two lawful ones of one number neither is believed. Two that revoke one another's signers
    both deny, and neither speaks: only the roots can tell which is the thief's.

    Args:
        held: The one held, already trusted, under this keyset or an older one.
        offered: Candidates as received.
        keyset: The newest keyset statement, already trusted.
        floor: No release below it is believed.
        now: Aware.
        skew: How far the issuer's clock may be ahead of ours.

    Returns:
        The choice. The times of a release are not asked, but that it is not of the future.
    """
    reasons: list[Reason] = []
    base = frozenset[str]()
    if held is not None and held.keyset.digest == keyset.digest:
        base = held.revoked
    new = (one for one in offered if held is None or one.digest != held.digest)
    rightful = _rightful(new, keyset, base, reasons, now=now, skew=skew)
    denied = base.union(*(release.revoked for release in rightful))
    contested = None
    for _, group in groupby(rightful, key=attrgetter("order")):
        lawful: dict[str, ReleaseStatement] = {}
        for release in group:
            try:
                if rightful[release] <= denied:
                    raise StatementRefused("statement.revoked", "another has revoked its signer")
                check_release(release, keyset, held, now=now, skew=skew)
                check_release_floor(release, floor)
            except StatementRefused as refusal:
                reasons.append(reason_of(refusal, release))
            else:
                lawful[release.digest] = release
        if len(lawful) > 1:
            both = f"two releases {release.seq}: {' and '.join(sorted(lawful))}"
            contested = Reason.of("statement.fork", f"{both}; neither is believed")
            reasons.append(contested)
        elif lawful:
            held, contested = next(iter(lawful.values())), None
    return Chosen(held, denied, contested, tuple(reasons))


def _rightful(
    offered: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    revoked: frozenset[str],
    reasons: list[Reason],
    *,
    now: datetime,
    skew: timedelta,
) -> dict[ReleaseStatement, frozenset[str]]:
    """The releases that a key of right has signed, in ascending order, and who has."""
    rightful: dict[ReleaseStatement, frozenset[str]] = {}
    for release in sorted(offered, key=attrgetter("order")):
        try:
            check_past(release, now, skew)
            signers = check_release(release, keyset, None, now=now, skew=skew).good - revoked
            if not signers:
                raise StatementRefused("statement.revoked", "its signer has been revoked")
        except StatementRefused as refusal:
            reasons.append(reason_of(refusal, release))
        else:
            rightful[release] = signers
    return rightful


def check_release_floor(release: ReleaseStatement, floor: Floor) -> None:
    """Check that a release is not older than, or other than, what a floor names.

    Raises:
        StatementRefused: ``statement.rollback``; ``statement.fork``.
    """
    least = floor.release
    if least is None:
        return
    if release.order < least.order:
        raise StatementRefused(
            "statement.rollback", f"release {least.order[2]} was seen before", path="/seq"
        )
    if release.order == least.order and release.digest != least.digest:
        raise StatementRefused(
            "statement.fork", f"it was {least.digest} when it was seen and is {release.digest} now"
        )
