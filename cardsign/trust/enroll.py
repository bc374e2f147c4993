"""Enrolling an issuer by statements that its verifier has in hand, and compares elsewhere.

Unlike evidence, which a stranger sends, these are handed over on purpose: one that does not fit
is refused, not passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from cardsign.statements.envelope import check_past
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement, check_release
from cardsign.statements.succession import RootPin, check_first, check_recovery, check_successor


def newest_keyset(
    statements: Sequence[KeysetStatement], *, now: datetime, skew: timedelta
) -> KeysetStatement:
    """The last of a history: the first signed by its own root, each next one lawfully after it.

    That the first one is genuine, nobody but a person can say. Not checked: whether the last
    one has expired.

    Args:
        statements: At least one, in any order; none may be missing between them.
        now: Aware.
        skew: How far the issuer's clock may be ahead of ours.

    Raises:
        StatementRefused: What keeps them from being one history, or ``statement.not_yet``.
    """
    first, *following = sorted(statements, key=attrgetter("number"))
    check_first(first, RootPin.of(first.root))
    held = first
    for statement in following:
        if statement.digest == held.digest:
            continue
        if statement.epoch == held.epoch:
            check_successor(held, statement)
        else:
            check_recovery(held, statement)
        held = statement
    check_past(held, now, skew)
    return held


def newest_release(
    releases: Iterable[ReleaseStatement],
    keyset: KeysetStatement,
    *,
    now: datetime,
    skew: timedelta,
) -> ReleaseStatement | None:
    """The last of some releases, which all speak by right under one keyset statement.

    Raises:
        StatementRefused: As :func:`cardsign.statements.release.check_release`, or
            ``statement.not_yet``.
    """
    held = None
    for release in sorted(releases, key=lambda one: one.order):
        check_release(release, keyset, held, now=now, skew=skew)
        check_past(release, now, skew)
        held = release
    return held
