"""The statements that an issuer, or a holder of a root key, has signed and keeps.

They lie beside the key store, in files or in its database. What is
read is checked anew, each statement by the one before, and the key store's state must name the
newest: so neither of the two can be put back or exchanged by itself. A statement is written
before the state names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cardsign.errors import StoreFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.audit import AuditEvent, holds_line, verify_chain
from cardsign.keys.lifecycle import keep_keyset
from cardsign.keys.model import (
    ENDED,
    HeldRelease,
    KeyRecord,
    StatementsHeld,
    StoreState,
    suspects,
)
from cardsign.keys.stores.base import KeyStore
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import (
    IssuerKey,
    KeysetStatement,
    OnlineRole,
    Quorum,
    check_step,
    read_keyset,
)
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import utc


class StatementHistory:
    """An issuer's own statements, oldest first, held against what its key store says of them."""

    __slots__ = ("_checked", "_looks_again", "_store", "held")

    def __init__(self, store: KeyStore, held: StatementsHeld, *, looks_again: bool = False) -> None:
        """Look at nothing yet.

        With `looks_again` the state is loaded anew if a release is newer than `held` says.
        """
        self._store = store
        self._checked: list[tuple[KeysetStatement, bytes]] = []
        self.held = held
        self._looks_again = looks_again

    @classmethod
    def of(cls, store: KeyStore) -> StatementHistory:
        """The one history beside a key store, with what the state says by now.

        Each call of a method reads what is kept anew. Signatures are verified once: what was
        verified, and is still the same to the byte, is not verified again.
        """
        held = store.load().statements
        if not isinstance(store.history, cls):
            store.history = cls(store, held, looks_again=True)
        store.history.held = held
        return store.history

    def keysets(self) -> tuple[KeysetStatement, ...]:
        """Return every keyset statement, oldest first, each checked by the one before.

        Raises:
            StoreFault: ``keystore.audit_broken``: they are no history, or not the one that the
                key store's state names.
        """
        return tuple(statement for statement, _ in self._history())

    def newest_keyset(self) -> KeysetStatement | None:
        """Return the newest keyset statement, or None; see :meth:`keysets`."""
        statements = self.keysets()
        return statements[-1] if statements else None

    def newest_release(self) -> ReleaseStatement | None:
        """Return the release of the highest number, or None.

        What the next release says comes from it, so it must be signed by a release key of the
        keyset that it names, and be what the key store's state says was signed last.

        Raises:
            StoreFault: ``keystore.audit_broken``: it is not; or as :meth:`keysets`.
        """
        found = self._newest_release()
        return None if found is None else found[0]

    def to_publish(self) -> tuple[tuple[bytes, ...], bytes | None]:
        """Return every keyset statement as it is served, oldest first, and the newest release."""
        release, history = self._newest_release(), self._history()
        return tuple(data for _, data in history), release and release[1]

    def keep_keyset(self, statement: KeysetStatement, untrusted_bytes: bytes) -> bool:
        """Keep a statement as the newest one, and say whether it is new.

        Raises:
            StatementRefused: It does not follow the newest, or too few have signed it.
            StoreFault: ``file.busy``, or as :meth:`keysets`.
        """
        with self._store.adding_statements():
            newest = self.newest_keyset()
            if newest is not None and newest.digest == statement.digest:
                return False
            check_step(statement, newest)
            self._store.add_statement("keysets", statement.number, untrusted_bytes)
        return True

    def check_listed(self, keys: Iterable[PublicKey], role: OnlineRole) -> None:
        """Check that the roots have listed keys that are to be used, if there is a keyset at all.

        This finds a key that a stranger has edited into the key store (threat 22).

        Raises:
            StoreFault: ``keystore.not_listed``, or as :meth:`keysets`.
        """
        keyset = self.newest_keyset()
        for key in keys:
            if keyset is not None and not keyset.lists(key.thumbprint, role):
                what = f"keyset {keyset.label} lists no {role} key {key.kid!r}"
                raise StoreFault("keystore.not_listed", what)

    def listed(self, keys: Iterable[KeyRecord], role: OnlineRole) -> tuple[KeyRecord, ...]:
        """Return those of some keys that the roots have listed: all, if there is no keyset.

        Raises:
            StoreFault: ``keystore.not_listed``: there are keys, and none is listed.
        """
        asked, keyset = tuple(keys), self.newest_keyset()
        found = [key for key in asked if keyset is None or keyset.lists(key.thumbprint, role)]
        if not found:
            self.check_listed((key.public for key in asked), role)
        return tuple(found)

    def _history(self) -> list[tuple[KeysetStatement, bytes]]:
        found: list[tuple[KeysetStatement, bytes]] = []
        checked = iter(self._checked)
        for number, untrusted_bytes in self._store.read_statements("keysets").items():
            before = next(checked, None)
            if before and (before[0].number, before[1]) == (number, untrusted_bytes):
                found.append(before)
                continue
            checked = iter(())  # each is checked by the one before, so all that follow anew
            try:
                statement = read_keyset(untrusted_bytes)
                if statement.number != number:
                    raise StatementRefused("statement.gap", "its number is not that of its place")
                check_step(statement, found[-1][0] if found else None)
            except StatementRefused as refusal:
                where = self._store.statement_place("keysets", number)
                raise _broken(where, f"{refusal.code}: {refusal.message}") from refusal
            found.append((statement, untrusted_bytes))
        self._checked = found
        if (named := self.held.keyset) is not None:
            # A stranger's history may be the longer one, so the one that is named must be in it.
            digests = {statement.number: statement.digest for statement, _ in found}
            if named.number not in digests:
                raise _broken(self._store.place, f"keyset {named.label} is missing")
            if digests[named.number] != named.digest:
                what = f"keyset {named.label} is not {named.digest}"
                raise _broken(self._store.place, what)
        return found

    def _newest_release(self) -> tuple[ReleaseStatement, bytes] | None:
        newest = self._store.read_newest_statement("releases")
        if newest is None:
            self._check_release_held(None, self._store.place)
            return None
        number, untrusted_bytes = newest
        where = self._store.statement_place("releases", number)
        try:
            release = read_release(untrusted_bytes)
            if (release.seq,) != number:
                raise _broken(where, "its number is not that of its place")
            self._check_release_held(release, where)
            check_signed(release, self.keysets())
        except StatementRefused as refusal:
            raise _broken(where, f"{refusal.code}: {refusal.message}") from refusal
        return release, untrusted_bytes

    def _check_release_held(self, found: ReleaseStatement | None, where: str) -> None:
        """A release is noted before it is kept, so a crash may lose the newest, and no other."""
        number, digest = (found.seq, found.digest) if found else (0, None)
        if number > self.held.release_seq and self._looks_again:  # another process was faster?
            self.held = self._store.load().statements
        held = self.held
        if number > held.release_seq:
            raise _broken(where, f"no release after {held.release_seq} was signed here")
        if held.release is None:
            return
        if digest != (held.release.digest if number == held.release_seq else held.release.previous):
            raise _broken(where, f"release {number} is not the newest that was signed here")


def kept_keyset(store: KeyStore) -> KeysetStatement | None:
    """The newest keyset statement of a store, or None; see :meth:`StatementHistory.keysets`."""
    return StatementHistory.of(store).newest_keyset()


def check_signed(release: ReleaseStatement, history: Sequence[KeysetStatement]) -> frozenset[str]:
    """Check that a release was signed by right when it was issued; return who signed it.

    Raises:
        StatementRefused: ``statement.keyset``: `history` has not the keyset that it names; else
            as :func:`cardsign.statements.release.check_release`.
    """
    named = [one for one in history if one.digest == release.keyset.digest]
    if not named:
        raise StatementRefused(
            "statement.keyset", f"it names {release.keyset}, which is not kept", path="/keyset"
        )
    issued = utc(release.iat)
    return check_release(release, named[0], None, now=issued, skew=timedelta()).good


def verify_log(
    store: KeyStore, state: StoreState, release: ReleaseStatement | None
) -> tuple[tuple[AuditEvent, ...], int]:
    """Check that the audit log is whole, and holds the line that the newest release names.

    Anyone who can write the log and the state can write both anew, but not what was published.

    Returns:
        The events that count, oldest first; and how many lines are of attempts.

    Raises:
        StoreFault: ``keystore.audit_broken``.
    """
    log, where = store.read_audit(), store.log_place
    events, _, aborted = verify_chain(log, state.audit, where=where)
    if release is not None and not holds_line(log, release.audit_head):
        what = f"the line that release {release.seq} names as the newest of its time is gone"
        raise _broken(where, f"the audit log is broken: {what}")
    return events, aborted


def note_keyset(store: KeyStore, statement: KeysetStatement, *, now: datetime) -> None:
    """Let the key store's state name the newest keyset statement; again is no change.

    The keys that waited for it to list them may be published from then on. Those that it revokes
    are revoked here too, and so are those that an earlier one listed and it does not: where another
    copy of the key store has retired them, this one must not list them again. All earlier ones
    count, since a kill may have come before one of them was noted.
    """
    listed = {key.public.thumbprint for key in statement.keys}
    keysets = StatementHistory.of(store).keysets()
    earlier = [one for one in keysets if one.number < statement.number]
    before = {key.public.thumbprint for one in earlier for key in one.keys}
    over = statement.revoked | (before - listed)
    store.apply(keep_keyset, statement.id, listed, now=now, revoked=over)


def note_release(store: KeyStore, release: ReleaseStatement, *, now: datetime) -> None:
    """Take the release's number for it, before it is written: no two releases have one.

    Call it within :meth:`KeyStore.adding_statements`, as the one before is read: else what another
    process lists meanwhile would be forgotten.

    Raises:
        StoreFault: ``keystore.changed``: the number is taken.
    """
    state = store.load()
    if state.statements.release_seq >= release.seq:
        newest = state.statements.release_seq
        raise StoreFault("keystore.changed", f"release {newest} was signed meanwhile")
    before = StatementHistory.of(store).newest_release()
    held = HeldRelease(release.digest, before.digest if before else None)
    event = AuditEvent("release.signed", None, {"seq": release.seq, "digest": release.digest})
    statements = replace(state.statements, release_seq=release.seq, release=held)
    changed = replace(state, statements=statements)
    store.commit(changed, (event,), now=now)


# What a key store and its newest keyset statement say together.


def holders_left(quorum: Quorum, state: StoreState) -> frozenset[str]:
    """Return who can still sign for a quorum, as far as a store knows: not with an ended key."""
    ended = {key.thumbprint for key in state.keys if key.state in ENDED}
    return frozenset(key.holder for key in quorum.keys if key.public.thumbprint not in ended)


def has_ended(state: StoreState, keyset: KeysetStatement | None) -> bool:
    """Say whether the issuer ended on purpose: of each role the last key was revoked as ceased.

    Keys that another holder keeps, and that the keyset lists, let it go on.
    """
    online = [key for key in state.keys if key.rotates]
    ours = {key.thumbprint for key in online}
    if any(key.public.thumbprint not in ours for key in (keyset.keys if keyset else ())):
        return False
    last: dict[str, tuple[datetime, bool]] = {}  # when it was revoked, and whether to go on
    for key in online:
        if key.state not in ENDED:
            return False
        if key.times.revoked is not None:
            end = (key.times.revoked, key.revoked_because != "ceased")
            last.update({role: max(last.get(role, end), end) for role in key.roles})
    return bool(last) and not any(goes_on for _, goes_on in last.values())


def unlisted_roots(state: StoreState, keyset: KeysetStatement) -> tuple[KeyRecord, ...]:
    """Return the root keys of a store that a keyset does not list, as while a recovery waits."""
    listed = {key.public.thumbprint for key in keyset.root.keys}
    roots = (key for key in state.keys if "root" in key.roles and key.state == "active")
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
    without = state.replacing([replace(key, state="retired")])
    return any(
        len(holders_left(quorum, without)) < quorum.threshold
        for quorum in (keyset.root, keyset.recovery)
        if quorum and any(one.public.thumbprint == key.thumbprint for one in quorum.keys)
    )


def stored_with_stolen(
    state: StoreState, keyset: KeysetStatement | None
) -> tuple[list[KeyRecord], list[KeyRecord]]:
    """Return the keys that a thief may have taken as well, and have not ended.

    Returns:
        Those that can be revoked, online keys before roots; and the roots without which no
        statement could be signed.
    """
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


def check_not_needed(store: KeyStore, kid: str) -> None:
    """Refuse to end a root or recovery key without which no further statement can be signed.

    Raises:
        StoreFault: ``keystore.still_needed``.
    """
    key, keyset = store.state.find(kid), kept_keyset(store)
    if keyset is not None and is_needed(key, keyset, store.state):
        raise StoreFault(
            "keystore.still_needed",
            f"keyset {keyset.label} needs {' and '.join(key.roles)} key {key.kid!r}: too few "
            "holders are left without it to sign the next",
        )


def _broken(where: str, what: str) -> StoreFault:
    return StoreFault("keystore.audit_broken", what, path=where)
