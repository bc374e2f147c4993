"""Ending keys: revoked at once after a theft, or retired and destroyed in good order."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cardsign.config import ProjectConfig
from cardsign.errors import PassphraseFault, PublishRefused, StoreFault, UsageFault
from cardsign.issuer.publishing import still_trusted
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.rotation import Progress, Task, Unlocking, Work, check_opens, key_holder
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.keys import PrivateKey, short_kid
from cardsign.keys import lifecycle
from cardsign.keys.history import kept_keyset
from cardsign.keys.keyset_drafts import changed_since, check_not_needed, is_needed
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
    check_not_needed(store.state.find(kid), kept_keyset(store), store.state)


def check_signable(store: KeyStore, records: Sequence[KeyRecord]) -> None:
    """Refuse to revoke only root keys without which no statement can be signed."""
    keyset = kept_keyset(store)
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


def replacements(state: StoreState, record: KeyRecord) -> list[KeyRecord]:
    """The keys that can take the place of one, and that no thief may have."""
    endangered = suspects(state)
    line = [key for key in state.keys if key.succeeds(record) and key.state not in ENDED]
    return [key for key in line if key.state == "active" or key.thumbprint not in endangered]


def make_replacements(
    store: KeyStore, record: KeyRecord, passphrase: Callable[[Role], bytes], now: datetime
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
        made = PrivateKey.generate(alg)
        yield store.add_key(made, secret, now=now, random=os.urandom, roles=record.roles)


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


def keys_stored_with(
    state: StoreState, records: Sequence[KeyRecord], keyset: KeysetStatement | None, now: datetime
) -> list[KeyRecord]:
    """The keys that a thief of these may have too, but no root that is still needed to sign."""
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
    state, keyset = store.load(), kept_keyset(store)
    if keyset is None or any(state.find(key.thumbprint).state == "revoked" for key in needed):
        return True  # too few are left already
    others = [state.find(key.thumbprint) for key in records if key not in needed]
    return (
        keyset.recovery is not None
        and all(key.state == "revoked" for key in others)
        and all(replacements(state, key) for key in others if key.rotates)
        and not changed_since(state, keyset)
    )


# The end of stolen or lost keys in one call: what verifiers are told, and what replaces them.


def revoke_and_replace(
    store: KeyStore,
    kids: Sequence[str],
    config: ProjectConfig,
    unlocking: Unlocking,
    *,
    reason: RevocationReason,
    now: datetime,
    draft: Path,
    same_custody_accepted: bool = False,
    wait: Callable[[datetime], datetime] = lambda until: until,
) -> Progress:
    """Revoke keys, tell it at once, and put others in their places.

    All are revoked before any other is made, so that no new key was stored with a stolen one. They
    leave the published key set, and the release revokes them, before anything else is done; a
    release key that has to sign that release is revoked after it. One keyset statement then lists
    all new keys, their successors included. A root key without which no statement can be signed
    is revoked last: once the newest statement lists those and revokes the others, and only if
    there is a recovery key. What cannot be done yet is left as a task.

    A key that is revoked already is replaced, so that the call can be repeated.

    Args:
        store: The key store.
        kids: Kids or thumbprints, or beginnings of them.
        config, unlocking, now, draft: As for :func:`rotate_keys`.
        reason: Why.
        same_custody_accepted: Activate a standby that was stored beside a compromised key.
        wait: Waits until a moment, less than a second from `now`, and returns it.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.still_needed``: only root keys are named,
            without which no statement can revoke them; or as :func:`rotate_keys`.
        UsageFault: ``usage.conflict``: a key is revoked already, for another reason.
    """
    work = _Emergency(store, config, unlocking, now, draft)
    records = list(dict.fromkeys(store.state.find(kid) for kid in kids))
    for record in records:
        if record.state == "revoked" and record.revoked_because != reason:
            raise UsageFault(
                "usage.conflict",
                f"{record.named} is revoked already, as {record.revoked_because}, and that stays",
                hint="If a thief may have it, revoke the keys that were stored with it.",
            )
    check_signable(store, records)
    work.leave_out_strangers()
    return work.end(records, reason, same_custody_accepted, wait)


class _Emergency(Work):
    """The work of one call that begins with the end of keys."""

    def end(
        self,
        records: Sequence[KeyRecord],
        reason: RevocationReason,
        accepted: bool,
        wait: Callable[[datetime], datetime],
    ) -> Progress:
        """Revoke keys, tell it, replace them; what has to sign all this is revoked after it."""
        keyset = kept_keyset(self.store)
        releases, needed = list[KeyRecord](), list[KeyRecord]()
        for record in sorted(records, key=lambda one: not one.rotates):
            if keyset and not record.rotates and is_needed(record, keyset, self.store.load()):
                needed.append(record)
            elif keyset and "release" in record.roles:
                releases.append(record)
            else:
                self.revoke(record, reason, accepted)
        self.tell()
        # A revoked release key can sign no more: while it has to tell of the others, it stays.
        waits = still_trusted(self.store, self.config.publish, records)
        able = [one for one in releases if waits and one.state in ("active", "retiring")]
        for record in releases:
            if record not in able:
                self.revoke(record, reason, accepted)
        if releases and not able:
            self.tell()
        # A key of the second of the theft would count as stolen with it.
        ended = [self.store.state.find(record.thumbprint).times.revoked for record in records]
        last = max((one for one in ended if one is not None), default=None)
        if last is not None and last >= self.now:
            self.now = wait(last + timedelta(seconds=1))
        for record in records:
            if record not in able:
                self.replace_lost(record)
        progress = self.rotate()
        again = f"again: {self._revoke_command(reason, records)}"
        kept = [self._release_keys_kept(able, again)] if able else []
        if keyset and needed:
            if may_end(self.store, needed, records):
                for record in needed:
                    self.revoke(record, reason, accepted)
                self.left.clear()
                progress = self.rotate()
            else:
                kept += [self._root_kept(needed, again)]
        beside = self._beside(keyset, [one for one in records if one not in able])
        progress = self.warned(replace(progress, left=(*progress.left, *kept)), records)
        return replace(progress, left=(*progress.left, *beside))

    def tell(self) -> None:
        """Let the release and the published key set say what was revoked, before all else."""
        self.take_up()
        self.release(())
        with suppress(PublishRefused):  # whatever is published already, the keys end here
            self.update()
        self.left.clear()  # the rest of the work tries again; what was not told is found there

    def _beside(
        self, keyset: KeysetStatement | None, records: Sequence[KeyRecord]
    ) -> Iterator[Task]:
        """The keys that a thief may have taken as well: roots last, and never the only one."""
        others, only = stored_beside(self.store.load(), keyset)
        stolen = ", ".join(short_kid(record.kid) for record in records)
        if others:
            names = ", ".join(key.named for key in others)
            what = f"these keys were stored with {stolen} and may be stolen too: {names}"
            yield Task("you", what, self._revoke_command("compromised", others))
        if only:
            names = ", ".join(key.named for key in only)
            what = f"{names} was stored with {stolen} too; without it no keyset can be signed"
            if keyset and keyset.recovery:
                who, command = "the holder of the recovery key", RECOVER
                what += ", so the recovery key has to open a new epoch"
            else:
                who, command = "you", ADD_ROOT
                what += ", and there is no recovery key: list another root, then revoke this one"
            yield Task(who, what, command)

    def _revoke_command(self, reason: RevocationReason, records: Sequence[KeyRecord]) -> str:
        # A kid may begin with a dash, and an imported one may hold what a shell reads.
        state = self.store.load()
        typed = " ".join(shlex.quote(shortest(key, state)) for key in records)
        options = f"--reason {reason} {self.unlocking.options}".rstrip()
        return f"cardsign keys revoke {options} -- {typed}"

    def _release_keys_kept(self, able: Sequence[KeyRecord], again: str) -> Task:
        names = ", ".join(key.named for key in able)
        what = (
            f"revoke {names}: not done, since it has to sign the release that revokes the "
            "others; if its passphrase is lost, revoke it alone"
        )
        return Task(key_holder("release"), what, f"cardsign release renew; then {again}")

    def _root_kept(self, needed: Sequence[KeyRecord], again: str) -> Task:
        keyset = kept_keyset(self.store)
        names = ", ".join(key.named for key in needed)
        if keyset is None or keyset.recovery is None:
            what = f"revoke {names}: not done, since no keyset could follow without a recovery key"
            return Task("you", what, f"{ADD_ROOT}; then {again}")
        what = (
            f"revoke {names}: not done, since it has yet to sign keyset {keyset.epoch}."
            f"{keyset.version + 1}, which revokes the other keys and lists those in their places"
        )
        command = f"cardsign keyset sign {self.draft}; then {again}"
        return Task(needed[0].holder or "who holds the root key", what, command)

    def revoke(self, record: KeyRecord, reason: RevocationReason, accepted: bool) -> None:
        """Revoke a key in the store, unless it is revoked."""
        kid, now = record.thumbprint, self.now
        if self.store.load().find(kid).state != "revoked":
            revoke_key(self.store, kid, reason=reason, now=now, same_custody_accepted=accepted)
            self.done.append(f"revoked {record.named}")

    def replace_lost(self, record: KeyRecord) -> None:
        """Make keys in the place of a revoked one, unless safe ones are there."""
        secret = self.unlocking.passphrase
        try:
            for key in make_replacements(self.store, record, secret, self.now):
                self.done.append(f"made {key.named} in its place")
        except PassphraseFault as fault:
            role = next(role for role in record.roles if role in ROTATING)
            command = f"cardsign keys generate --role {role} --alg {record.alg}; then {self.again}"
            self.needs(key_holder(role), f"make another {role} key: {fault.message}", command, None)
