"""The end of stolen or lost keys in one call: what verifiers are told, and what replaces them.

It can be called again until nothing is left, as :func:`cardsign.issuer.rotate_keys`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from cardsign.config import ProjectConfig
from cardsign.errors import PassphraseFault, UsageFault
from cardsign.issuer.ending import (
    ADD_ROOT,
    RECOVER,
    check_signable,
    make_replacements,
    may_end,
    revoke_key,
    shortest,
    still_trusted,
    stored_beside,
)
from cardsign.issuer.guided import Progress, Task, Unlocking, Work, key_holder
from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import is_needed
from cardsign.keys.model import ROTATING, KeyRecord, RevocationReason, short
from cardsign.keys.stores.base import KeyStore
from cardsign.statements.keyset import KeysetStatement


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
    work = _Emergency(store, config, unlocking, now, draft, PrivateKey.generate, os.urandom)
    records = list(dict.fromkeys(store.state.find(kid) for kid in kids))
    for record in records:
        if record.state == "revoked" and record.revoked_because != reason:
            raise UsageFault(
                "usage.conflict",
                f"{record.named} is revoked already, as {record.revoked_because}, and that stays",
                hint="If a thief may have it, revoke the keys that were stored with it.",
            )
    check_signable(store, records)
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
        keyset = StatementHistory.of(self.store).newest_keyset()
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
        self.release(())
        self.update()
        self.left.clear()  # the rest of the work tries again; what was not told is found there

    def _beside(
        self, keyset: KeysetStatement | None, records: Sequence[KeyRecord]
    ) -> Iterator[Task]:
        """The keys that a thief may have taken as well: roots last, and never the only one."""
        others, only = stored_beside(self.store.load(), keyset)
        stolen = ", ".join(short(record.kid) for record in records)
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
        keyset = StatementHistory.of(self.store).newest_keyset()
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
        secret, made = self.unlocking.passphrase, self.new_key
        try:
            for key in make_replacements(self.store, record, secret, self.now, made, self.random):
                self.done.append(f"made {key.named} in its place")
        except PassphraseFault as fault:
            role = next(role for role in record.roles if role in ROTATING)
            command = f"cardsign keys generate --role {role} --alg {record.alg}; then {self.again}"
            self.needs(key_holder(role), f"make another {role} key: {fault.message}", command, None)
