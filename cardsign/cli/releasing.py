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
from cardsign.cli.publishing import check_publishable, published_by
from cardsign.cli.talk import safe, say
from cardsign.errors import SigningRefused, StoreFault
from cardsign.jose.assembly import sign_statement
from cardsign.jose.jws import Signer
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement, check_release, read_release
from cardsign.jose.statements import TYP_RELEASE, StatementRefused, check_times
from cardsign.keys.ledger import Ledger, check_signed, note_keyset, note_release
from cardsign.keys.opening import AnyStore
from cardsign.keys.passphrase import PassphraseSource
from cardsign.keys.releases import (
    DEFAULT_LIFETIME,
    SKEW,
    ReleasePlan,
    draft_following,
    is_needed,
    settled_cards,
)

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
    take_up_published(store, publication, now=now)
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


def take_up_published(store: AnyStore, publication: Path | None, *, now: datetime) -> None:
    """Keep statements of this issuer that are published and newer than those kept.

    A key store that was restored from an older backup lacks them. Each is taken by the right of
    what is kept; a history that has parted from the published one is left as it is, for
    :func:`check_publishable` to refuse.

    Raises:
        PublishRefused: As :func:`check_publishable`.
        StoreFault: ``keystore.changed``, ``keystore.busy``.
    """
    published, ledger = published_by(publication), Ledger.beside(store)
    if published is None or ledger.newest_keyset() is None:
        return
    try:
        for statement, data in zip(published.keysets, published.keyset_bytes, strict=True):
            newest = needed_keyset(ledger)
            if (statement.epoch, statement.version) > (newest.epoch, newest.version):
                ledger.keep_keyset(statement, data)
                note_keyset(store, statement, now=now)
                say(f"took up keyset {statement.epoch}.{statement.version} from what is published")
        if published.release is not None and published.release_bytes is not None:
            _take_up_release(store, published.release, published.release_bytes, now)
    except StatementRefused as refusal:
        say(f"what is published is not taken up: {refusal.code}: {safe(refusal.message)}")


def _take_up_release(
    store: AnyStore, release: ReleaseStatement, data: bytes, now: datetime
) -> None:
    """Keep a published release unless a key has signed it that does not count any more."""
    with Ledger.beside(store).alone():
        ledger = Ledger.beside(store)
        newest = ledger.newest_release()
        if newest is not None and (release.seq <= newest.seq or release.order < newest.order):
            return
        signers = check_signed(release, ledger.keysets())
        revoked = {key.thumbprint for key in store.load().keys if key.state == "revoked"}
        if signers <= revoked | needed_keyset(ledger).revoked:
            return
        if ledger.held.release_seq < release.seq:
            note_release(store, release, now=now)
        held = store.load().statements.release
        if held is None or held.digest == release.digest:
            ledger.keep_release(release, data)
            say(f"took up release {release.seq} from what is published")


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
