"""The statements that an issuer, or a holder of a root key, has signed and keeps.

The log of the key store names them. What is read is checked anew, each statement by the one before,
since a stranger may have written the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from cardsign.errors import FileMissing, StoreFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.agenda import move
from cardsign.keys.ledger import ENDED, Event, HeldStatement, KeyRecord, StoreState, statement_blob
from cardsign.keys.store import KeyStore, digest_of
from cardsign.statements import keyset as keysets
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import IssuerKey, KeysetStatement, OnlineRole, read_keyset
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import utc


def kept_keysets(store: KeyStore) -> tuple[KeysetStatement, ...]:
    """Return every keyset statement that a store keeps as it was last read, oldest first.

    Each is checked by the one before. Signatures are verified once, as long as a process holds the
    store.

    Raises:
        StoreFault: ``keystore.audit_broken``: one is missing, or they are no history.
    """
    verified: list[KeysetStatement] = store.verified_keysets
    for kept in store.state.keysets[len(verified) :]:
        with _checking(store, kept):
            statement = read_keyset(_read(store, kept))
            _check_named(kept, statement.number, statement.digest)
            keysets.check_step(statement, verified[-1] if verified else None)
        verified.append(statement)
    return tuple(verified)


def kept_keyset(store: KeyStore) -> KeysetStatement | None:
    """Return the newest keyset statement of a store, or None; see :func:`kept_keysets`."""
    statements = kept_keysets(store)
    return statements[-1] if statements else None


def kept_release(store: KeyStore) -> ReleaseStatement | None:
    """Return the release of the highest number, or None.

    What the next release says comes from it, so it must be signed by a release key of the keyset
    that it names.

    Raises:
        StoreFault: ``keystore.audit_broken``: it is not; or as :func:`kept_keysets`.
    """
    earlier = kept_keysets(store)
    if (kept := store.state.release) is None:
        return None
    with _checking(store, kept):
        release = read_release(_read(store, kept))
        _check_named(kept, (release.seq,), release.digest)
        check_signed(release, earlier)
    return release


def statements_to_publish(store: KeyStore) -> tuple[tuple[bytes, ...], bytes | None]:
    """Return every keyset statement as it is served, oldest first, and the newest release."""
    kept_release(store)
    release = store.state.release
    statements = tuple(_read(store, kept) for kept in store.state.keysets)
    return statements, _read(store, release) if release else None


def _read(store: KeyStore, kept: HeldStatement) -> bytes:
    return store.checked_blob(statement_blob(kept.blob))


@contextmanager
def _checking(store: KeyStore, kept: HeldStatement) -> Iterator[None]:
    """Say of what is no statement of this issuer, or missing, that the log is broken."""
    try:
        yield
    except (StatementRefused, FileMissing) as fault:
        where = store.place_of(statement_blob(kept.blob))
        message = f"statement {kept.label}: {fault.code}: {fault.message}"
        raise StoreFault("keystore.audit_broken", message, path=where) from fault


def _check_named(kept: HeldStatement, number: tuple[int, ...], digest: str) -> None:
    if (number, digest) != (kept.number, kept.digest):
        raise StatementRefused("statement.gap", "the log names another statement")


_Key = TypeVar("_Key", KeyRecord, PublicKey)


def find_listed(store: KeyStore, keys: Iterable[_Key], role: OnlineRole) -> tuple[_Key, ...]:
    """Return those of some keys that the roots have listed: all, if there is no keyset.

    This finds a key that a stranger has edited into the key store (threat 22).

    Raises:
        StoreFault: ``keystore.not_listed``: there are keys, and none is listed; or as
            :func:`kept_keysets`.
    """
    asked, keyset = tuple(keys), kept_keyset(store)
    listed = tuple(key for key in asked if keyset is None or keyset.lists(key.thumbprint, role))
    if keyset is not None and asked and not listed:
        message = f"keyset {keyset.label} lists no {role} key {asked[0].kid!r}"
        raise StoreFault("keystore.not_listed", message)
    return listed


def list_own_kids(store: KeyStore) -> frozenset[str]:
    """Return every kid that is or was ours; signatures under them are ours to replace.

    That of a key which the newest keyset revokes is, too: it was lost before a recovery.
    """
    kept, kids = kept_keysets(store), {key.kid for key in store.state.keys}
    listed = {key.public for keyset in kept for key in keyset.keys}
    return frozenset(kids.union(key.kid for key in listed if key.thumbprint in kept[-1].revoked))


def check_signed(release: ReleaseStatement, history: Sequence[KeysetStatement]) -> frozenset[str]:
    """Check that a release was signed by right when it was issued; return who signed it.

    Raises:
        StatementRefused: ``statement.keyset``: `history` has not the keyset that it names; else
            as :func:`cardsign.statements.release.check_release`.
    """
    named = [keyset for keyset in history if keyset.digest == release.keyset.digest]
    if not named:
        message = f"it names {release.keyset}, which is not kept"
        raise StatementRefused("statement.keyset", message, path="/keyset")
    issued, skew = utc(release.iat), timedelta(minutes=5)  # the roots may have another clock
    return check_release(release, named[0], None, now=issued, skew=skew)


def keep_keyset(store: KeyStore, statement: KeysetStatement, data: bytes, *, now: datetime) -> None:
    """Keep a statement as the newest one, if it is new to this key store, and follow it.

    Raises:
        StatementRefused: It does not follow the newest, or too few have signed it.
        StoreFault: ``file.busy``, or as :func:`kept_keysets`.
    """
    blob = digest_of(data)

    def decide(state: StoreState) -> list[Event]:
        earlier = kept_keysets(store)
        if statement.digest in {keyset.digest for keyset in earlier}:
            return follow_events(state, earlier)
        keysets.check_step(statement, earlier[-1] if earlier else None)
        number = {"epoch": statement.epoch, "version": statement.version}
        event = {"event": "keyset", **number, "digest": statement.digest, "blob": blob}
        return [event, *follow_events(state, (*earlier, statement))]

    store.commit(decide, now=now, blobs={statement_blob(blob): data})


def follow_events(state: StoreState, kept: Sequence[KeysetStatement]) -> list[Event]:
    """Return what brings the keys up to date with the newest keyset, which is the last.

    The keys that waited for it to list them may be published from then on. Those that it revokes
    are revoked here too, and so are those that an earlier one listed and it does not: where another
    copy of the key store has retired them, this one must not list them again.
    """
    listed = {key.public.thumbprint for key in kept[-1].keys}
    listed_before = {key.public.thumbprint for keyset in kept for key in keyset.keys}
    over = kept[-1].revoked | (listed_before - listed)
    events: list[Event] = []
    for key in state.keys:
        if key.state == "generated" and key.thumbprint in listed:
            events.append(move(key, "prepublished"))
        elif key.state not in ENDED and key.thumbprint in over:
            reason = "compromised" if key.is_stolen else "superseded"
            events.append(move(key, "revoked", reason=reason))
    return events


def keep_release(store: KeyStore, release: ReleaseStatement, data: bytes, *, now: datetime) -> None:
    """Keep a release as the newest one.

    Raises:
        StoreFault: ``keystore.changed``: its number is taken.
    """
    blob = digest_of(data)
    kept = {"event": "release", "seq": release.seq, "digest": release.digest, "blob": blob}
    store.commit(lambda _: [kept], now=now, blobs={statement_blob(blob): data})


def check_witnessed(store: KeyStore, release: ReleaseStatement | None) -> None:
    """Check that the log holds the line that the newest release names.

    Anyone who can write the log can write it anew, but not what was published.

    Raises:
        StoreFault: ``keystore.audit_broken``.
    """
    head = release.audit_head if release else None
    if release and head and head not in map(digest_of, store.read_lines()):
        message = f"the line that release {release.seq} names as the newest of its time is gone"
        raise StoreFault("keystore.audit_broken", f"the log is broken: {message}", path=store.place)


# What a key store and its newest keyset statement say together.


def has_ended(state: StoreState, keyset: KeysetStatement | None) -> bool:
    """Say whether the issuer ended on purpose: of each role the last key was revoked as ceased.

    Keys that another holder keeps, and that the keyset lists, let it go on.
    """
    online = [key for key in state.keys if key.rotates]
    ours = {key.thumbprint for key in online}
    if any(key.public.thumbprint not in ours for key in (keyset.keys if keyset else ())):
        return False
    revoked = [key for key in online if key.state == "revoked"]
    # Of two revoked at the same time, one whose reason is not "ceased" counts.
    revoked.sort(key=lambda key: (key.times.revoked, key.revoked_because != "ceased"))
    reasons = {key.role: key.revoked_because for key in revoked}
    return all(key.state in ENDED for key in online) and {*reasons.values()} == {"ceased"}


def unlisted_roots(state: StoreState, keyset: KeysetStatement) -> tuple[KeyRecord, ...]:
    """Return the root keys of a store that a keyset does not list, as while a recovery waits."""
    listed = {key.public.thumbprint for key in keyset.root.keys}
    roots = (key for key in state.keys if key.role == "root" and key.state == "active")
    return tuple(key for key in roots if key.thumbprint not in listed)


def awaits_recovery(state: StoreState, keyset: KeysetStatement) -> bool:
    """Say whether a store was made anew, and the recovery that lists its keys is not kept yet."""
    ours = {key.thumbprint for key in state.keys}
    is_listed = any(key.public.thumbprint in ours for key in keyset.keys)
    return not is_listed and bool(unlisted_roots(state, keyset))


def keys_elsewhere(state: StoreState, keyset: KeysetStatement) -> tuple[IssuerKey, ...]:
    """Return listed keys of the holders of a store that it lacks: another copy has made them."""
    ours = {key.thumbprint for key in state.keys}
    holders = {key.holder for key in state.keys if key.rotates}
    return tuple(
        key for key in keyset.keys if key.public.thumbprint not in ours and key.holder in holders
    )


def is_needed(key: KeyRecord, keyset: KeysetStatement, state: StoreState) -> bool:
    """Say whether too few holders are left without a root or recovery key to sign what is next."""
    ended = {other.thumbprint for other in state.keys if other.state in ENDED} | {key.thumbprint}
    return any(
        len({root.holder for root in quorum.keys if root.public.thumbprint not in ended})
        < quorum.threshold
        for quorum in (keyset.root, keyset.recovery)
        if quorum and any(root.public.thumbprint == key.thumbprint for root in quorum.keys)
    )


def stolen_with(
    state: StoreState, keyset: KeysetStatement | None
) -> tuple[list[KeyRecord], list[KeyRecord]]:
    """Return the keys that a thief may have taken, and have not ended.

    Returns:
        Those that the next statements end, online keys before roots; and the roots without which no
        statement could be signed.
    """
    roots = {key.public.thumbprint for key in keyset.root.keys} if keyset else set()
    stolen = [key for key in state.keys if key.is_stolen and key.state not in ENDED]
    usable = [key for key in stolen if key.rotates or keyset is None or key.thumbprint in roots]
    usable.sort(key=lambda key: not key.rotates)
    only = [key for key in usable if keyset and not key.rotates and is_needed(key, keyset, state)]
    return [key for key in usable if key not in only], only
