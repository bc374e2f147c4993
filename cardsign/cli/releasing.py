"""How the next release comes about: drafted, signed by the release key, and kept.

Cron asks for one, and so does a new keyset statement, which is published together with the
release that speaks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.cli.issuing import needed_keyset, signers_among
from cardsign.cli.options import of_the_user, project_config
from cardsign.cli.publishing import check_publishable
from cardsign.errors import SigningRefused, StoreFault
from cardsign.jose.assembly import sign_statement
from cardsign.jose.jws import Signer
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement, check_release, read_release
from cardsign.jose.statements import TYP_RELEASE, check_times
from cardsign.keys.ledger import Ledger, note_release
from cardsign.keys.opening import AnyStore
from cardsign.keys.passphrase import PassphraseSource
from cardsign.keys.releases import (
    DEFAULT_LIFETIME,
    ReleasePlan,
    draft_following,
    is_needed,
    settled_cards,
)

#: The clock of the roots' machine may be ahead of this one.
SKEW: Final = timedelta(minutes=5)
ATTEMPTS: Final = 5  # at one release; each that fails is one that another process made


@dataclass(frozen=True, slots=True)
class Draft:
    """A release to be signed, the keyset under which it speaks, and the release before it."""

    release: ReleaseStatement
    keyset: KeysetStatement
    previous: ReleaseStatement | None


Planner: TypeAlias = Callable[[KeysetStatement, ReleaseStatement | None], ReleasePlan]


def usual_plan(store: AnyStore, previous: ReleaseStatement | None, now: datetime) -> ReleasePlan:
    """What a release says of itself: which cards have settled, what is revoked, the audit head."""
    state = store.load()
    listed = previous.cards if previous else ()
    return ReleasePlan(
        settled=settled_cards(listed, state, project_config().timeline, now),
        revoked=frozenset(key.thumbprint for key in state.keys if key.state == "revoked"),
        audit_head=state.audit.digest,
    )


def draft_under(
    store: AnyStore,
    keyset: KeysetStatement,
    plan: Planner,
    *,
    now: datetime,
    lifetime: timedelta = DEFAULT_LIFETIME,
) -> Draft:
    """Draft the next release of a store, to speak of `keyset`."""
    ledger = Ledger.beside(store)
    previous = ledger.newest_release()
    with of_the_user("the newest keyset statement"):
        check_times(keyset, now=now, skew=SKEW)
    planned = plan(keyset, previous)
    seq = max(previous.seq if previous else 0, ledger.held.release_seq) + 1
    with of_the_user("the release"):
        draft = draft_following(planned, keyset, previous, seq=seq, now=now, lifetime=lifetime)
    return Draft(draft, keyset, previous)


def release_signers(store: AnyStore, draft: Draft, source: PassphraseSource) -> list[Signer]:
    """Open the release keys of the store that may sign a draft; there may be none."""
    able = {key.public.thumbprint for key in draft.keyset.keys} - draft.release.revoked
    return [one for _, one in signers_among(store, ("release",), able, source)]


def next_release(
    store: AnyStore,
    plan: Planner,
    signers: Callable[[Draft], Sequence[Signer]],
    publication: Path | None,
    *,
    now: datetime,
    lifetime: timedelta = DEFAULT_LIFETIME,
    force: bool = False,
) -> tuple[ReleaseStatement, bool]:
    """Sign and keep the next release if there is anything new to say; it is not published yet.

    Returns:
        The newest release, and whether it is new.

    Raises:
        SigningRefused: ``sign.no_key``.
        PublishRefused: As :func:`check_publishable`.
        StoreFault: ``keystore.no_keyset``, ``keystore.changed``, ``keystore.busy``.
    """
    for attempt in range(ATTEMPTS):
        ledger = Ledger.beside(store)
        try:
            with ledger.alone():
                keyset = needed_keyset(ledger)
                draft = draft_under(store, keyset, plan, now=now, lifetime=lifetime)
                if not force and not is_needed(draft.release, draft.previous, now=now):
                    return draft.previous or draft.release, False
                return _sign(store, draft, signers(draft), publication, now), True
        except StoreFault as fault:  # somebody has changed the key store meanwhile
            if fault.code != "keystore.changed" or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError  # the last attempt returns or raises


def _sign(
    store: AnyStore,
    draft: Draft,
    signers: Sequence[Signer],
    publication: Path | None,
    now: datetime,
) -> ReleaseStatement:
    """Sign a draft, check it as a verifier will, take its number, and keep it."""
    if not signers:
        raise SigningRefused(
            "sign.no_key",
            "no release key of the newest keyset statement is here",
            path=store.place,
            hint="The roots can list one: cardsign keyset draft.",
        )
    data = sign_statement(draft.release.envelope.payload, signers, TYP_RELEASE)
    signed = read_release(data)
    check_release(signed, draft.keyset, draft.previous, now=now, skew=timedelta())
    check_publishable(store, publication, release=data, now=now)
    note_release(store, signed, now=now)
    Ledger.beside(store).keep_release(signed, data)
    return signed
