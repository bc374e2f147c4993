"""Ending keys: revoked at once after a theft, or retired and destroyed in good order."""

from __future__ import annotations

from datetime import datetime

from cardsign.keys import lifecycle
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import check_not_needed, is_needed
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings, standby_of
from cardsign.keys.model import KeyRecord, RevocationReason
from cardsign.keys.stores.base import KeyStore
from cardsign.records import dataclass


@dataclass(frozen=True, slots=True)
class Revocation:
    """What the revocation of a key leaves to do.

    Attributes:
        record: The revoked key.
        has_keyset: Whether a release has to tell verifiers, and not only the key set.
        was_active: Whether it signed until now.
        successor: The key that signs instead from now on, if one took over.
        standby: The key that could take over, but was stored beside the revoked one.
        too_few_roots: No keyset statement can be signed any more without a recovery.
    """

    record: KeyRecord
    has_keyset: bool
    was_active: bool
    successor: KeyRecord | None
    standby: KeyRecord | None
    too_few_roots: bool


def revoke_key(
    store: KeyStore,
    kid: str,
    *,
    reason: RevocationReason,
    now: datetime,
    same_custody_accepted: bool = False,
) -> Revocation:
    """Revoke a key at once and for ever, and let its standby sign.

    Args:
        store: The key store.
        kid: Kid or thumbprint, or the beginning of one.
        reason: Why.
        now: The time, with its zone.
        same_custody_accepted: Activate a standby that was stored beside a compromised key.

    Raises:
        StoreFault: As :func:`cardsign.keys.lifecycle.revoke`.
    """
    was_active = store.state.find(kid).state == "active"
    thumbprint = store.state.find(kid).thumbprint
    store.apply(
        lifecycle.revoke,
        kid,
        reason=reason,
        now=now,
        same_custody_accepted=same_custody_accepted,
    )
    record = store.state.find(thumbprint)
    keyset = StatementHistory.of(store).newest_keyset() if not record.rotates else None
    takes_over = (key for key in store.state.keys if key.state == "active" and key.succeeds(record))
    successor = next(takes_over, None) if record.rotates else None
    return Revocation(
        record=record,
        has_keyset=store.state.statements.keyset is not None,
        was_active=was_active,
        successor=successor,
        standby=standby_of(store.state, record) if record.rotates else None,
        too_few_roots=keyset is not None and is_needed(record, keyset, store.state),
    )


def retire_key(
    store: KeyStore,
    kid: str,
    *,
    now: datetime,
    settings: TimelineSettings = DEFAULT_SETTINGS,
) -> KeyRecord:
    """Take a key that has a successor out of the key set; a root or recovery key ends at once.

    Raises:
        StoreFault: As :func:`cardsign.keys.lifecycle.retire`; ``keystore.still_needed``: no keyset
            statement could be signed without it.
    """
    _check_not_needed(store, kid)
    store.apply(lifecycle.retire, kid, now=now, settings=settings)
    return store.state.find(kid)


def destroy_key(
    store: KeyStore,
    kid: str,
    *,
    now: datetime,
    settings: TimelineSettings = DEFAULT_SETTINGS,
) -> KeyRecord:
    """Destroy the private key of a retired or revoked one; the record stays.

    Raises:
        StoreFault: As :func:`cardsign.keys.lifecycle.destroy` and :func:`retire_key`.
    """
    _check_not_needed(store, kid)
    return store.destroy(kid, now=now, settings=settings)


def _check_not_needed(store: KeyStore, kid: str) -> None:
    check_not_needed(store.state.find(kid), StatementHistory.of(store).newest_keyset(), store.state)
