"""Ending keys: revoked at once after a theft, or retired and destroyed in good order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, PublishRefused, StoreFault
from cardsign.issuer.publishing import published_statements
from cardsign.issuer.rotation import check_opens
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, SigningAlg
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.doctor import Finding
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import changed_since, check_not_needed, has_ended, is_needed
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.model import (
    ENDED,
    ROTATING,
    KeyRecord,
    RevocationReason,
    Role,
    StoreState,
    suspects,
)
from cardsign.keys.stores.base import KeyStore
from cardsign.statements.keyset import KeysetStatement

RECOVER: Final = "cardsign keyset recover --recovery-file FILE"
ADD_ROOT: Final = "cardsign keyset draft --add-root HOLDER=KEY"


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


def check_signable(store: KeyStore, records: Sequence[KeyRecord]) -> None:
    """Refuse to revoke only root keys without which no statement can be signed."""
    keyset = StatementHistory.of(store).newest_keyset()
    if keyset is not None and all(
        record.state != "revoked" and not record.rotates and is_needed(record, keyset, store.state)
        for record in records
    ):
        # It would be of no use: the statement that says so is one that it cannot sign.
        names = ", ".join(one.named for one in records)
        instead = RECOVER if keyset.recovery else f"{ADD_ROOT}, then revoke this one"
        raise StoreFault(
            "keystore.still_needed",
            f"no keyset can be signed without {names}, so none can say that it is revoked",
            hint=f"Replace it: {instead}.",
        )


# Whether a revocation has come to its end.


def shortest(key: KeyRecord, state: StoreState) -> str:
    """The beginning of a kid, where only one key begins so."""
    start = key.kid[:8]
    alone = sum(any(name.startswith(start) for name in one.names) for one in state.keys) == 1
    return start if alone else key.kid


def still_trusted(
    store: KeyStore, directory: Path | None, records: Sequence[KeyRecord]
) -> list[KeyRecord]:
    """The keys that are revoked in the store, but in nothing that verifiers are given."""
    try:
        published = published_statements(directory)
    except PublishRefused:  # no history, as the steps that publish have said
        published = None
    history = StatementHistory.of(store)
    keyset, release = history.newest_keyset(), history.newest_release()
    if published is not None and published.keysets:
        keyset, release = published.keysets[-1], published.release
    if keyset is None:
        return []
    trusted = {key.public.thumbprint for key in keyset.keys} - keyset.revoked
    trusted -= release.revoked if release is not None else frozenset()
    state = store.load()
    found = [state.find(record.thumbprint) for record in records]
    return [key for key in found if key.state == "revoked" and key.thumbprint in trusted]


def examine_revocations(store: KeyStore, directory: Path | None) -> tuple[Finding, ...]:
    """Say which revoked keys verifiers still trust; not once the issuer has ended.

    A key store that has moved or cannot be read is none of this: see `examine_store`.
    """
    try:
        state, keyset = store.load(), StatementHistory.of(store).newest_keyset()
        revoked = [key for key in state.keys if key.state == "revoked"]
        kept = still_trusted(store, directory, revoked)
    except (StoreFault, FileFault):
        return ()
    if has_ended(state, keyset) or not kept:
        return ()
    names = ", ".join(one.named for one in kept)
    message = f"verifiers still trust {names}: nothing that is published revokes them yet"
    return (Finding("doctor.still_trusted", "alarm", message),)


def replacements(state: StoreState, record: KeyRecord) -> list[KeyRecord]:
    """The keys that can take the place of one, and that no thief may have."""
    endangered = suspects(state)
    line = [key for key in state.keys if key.succeeds(record) and key.state not in ENDED]
    return [key for key in line if key.state == "active" or key.thumbprint not in endangered]


def make_replacements(
    store: KeyStore,
    record: KeyRecord,
    passphrase: Callable[[Role], bytes],
    now: datetime,
    new_key: Callable[[SigningAlg], PrivateKey],
    random: Callable[[int], bytes],
) -> Iterator[KeyRecord]:
    """Make a key in the place of a revoked one, and its successor, unless safe ones are there.

    Both at once, since the roots would have to list a later successor by themselves.

    Raises:
        PassphraseFault: There is none, or it is not that of the revoked key.
    """
    safe = replacements(store.load(), record)
    if not record.rotates or any(key.state != "generated" for key in safe):
        return  # the successor of a key that signs, or is about to, is made in its turn
    alg = next(one for one in SIGNING_ALGORITHMS if one == record.alg)
    secret = passphrase(next(role for role in record.roles if role in ROTATING))
    if record.custody.startswith("file:"):
        check_opens(store, record, secret)
    for _ in range(len(safe), 2):
        yield store.add_key(new_key(alg), secret, now=now, random=random, roles=record.roles)


def stored_beside(
    state: StoreState, keyset: KeysetStatement | None
) -> tuple[list[KeyRecord], list[KeyRecord]]:
    """The keys that a thief may have too: online keys before roots, and roots that must sign."""
    endangered = suspects(state)
    roots = {key.public.thumbprint for key in keyset.root.keys} if keyset else set()
    usable = [
        key
        for key in sorted(state.keys, key=lambda key: not key.rotates)
        if key.thumbprint in endangered
        and key.state not in ENDED
        and (key.rotates or keyset is None or key.thumbprint in roots)
    ]
    only = [key for key in usable if keyset and not key.rotates and is_needed(key, keyset, state)]
    return [key for key in usable if key not in only], only


def stored_with(
    state: StoreState, records: Sequence[KeyRecord], keyset: KeysetStatement | None, now: datetime
) -> list[KeyRecord]:
    """The keys that whoever stole these may have too, but no root that is still needed to sign."""
    stolen = (
        replace(
            key,
            state="revoked",
            revoked_because="compromised",
            times=replace(key.times, revoked=key.times.revoked or now),
        )
        for key in records
    )
    return stored_beside(state.replacing(list(stolen)), keyset)[0]


def may_end(store: KeyStore, needed: Sequence[KeyRecord], records: Sequence[KeyRecord]) -> bool:
    """Whether the last roots have nothing left to sign, and a recovery can follow."""
    state, keyset = store.load(), StatementHistory.of(store).newest_keyset()
    if keyset is None or any(state.find(key.thumbprint).state == "revoked" for key in needed):
        return True  # too few are left already
    others = [state.find(key.thumbprint) for key in records if key not in needed]
    return (
        keyset.recovery is not None
        and all(key.state == "revoked" for key in others)
        and all(replacements(state, key) for key in others if key.rotates)
        and not changed_since(state, keyset)
    )
