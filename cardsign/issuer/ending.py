"""Ending keys: revoked at once after a theft, or retired and destroyed in good order."""

from __future__ import annotations

from datetime import datetime

from cardsign.keys import lifecycle
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import check_not_needed
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.model import KeyRecord, RevocationReason
from cardsign.keys.stores.base import KeyStore


def revoke_key(
    store: KeyStore,
    kid: str,
    *,
    reason: RevocationReason,
    now: datetime,
    same_custody_accepted: bool = False,
) -> KeyRecord:
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
    thumbprint = store.state.find(kid).thumbprint
    store.apply(
        lifecycle.revoke,
        kid,
        reason=reason,
        now=now,
        same_custody_accepted=same_custody_accepted,
    )
    return store.state.find(thumbprint)


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
