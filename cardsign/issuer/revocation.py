"""The end of keys that were stolen or lost: revoked, told to verifiers, and replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from cardsign.errors import PassphraseFault, PublishRefused, StoreFault, UsageFault
from cardsign.issuer.cards import renew_listing, update
from cardsign.issuer.publishing import still_trusted
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.rotation import (
    ADD_ROOT,
    check_opens,
    endangered,
    leave_out_strangers,
    revoke_command,
    rotate,
    take_up,
    warned,
)
from cardsign.issuer.tasks import Progress, Task, Work, key_holder
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.drafts import changed_since
from cardsign.keys.history import (
    is_needed,
    kept_keyset,
    stored_with_stolen,
)
from cardsign.keys.model import (
    ENDED,
    ROTATING,
    KeyRecord,
    RevocationReason,
    StoreState,
    suspects,
)
from cardsign.keys.store import KeyStore
from cardsign.statements.keyset import KeysetStatement

# Which keys a thief may have too.


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
    return stored_with_stolen(state.replacing(list(stolen)), keyset)[0]


# The end of stolen or lost keys in one call: what verifiers are told, and what replaces them.


def revoke_and_replace(
    work: Work,
    kids: Sequence[str],
    *,
    reason: RevocationReason,
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
        work: As for :func:`rotate_keys`.
        kids: Kids or thumbprints, or beginnings of them.
        reason: Why.
        same_custody_accepted: Activate a standby that was stored beside a compromised key.
        wait: Waits until a moment, less than a second from now, and returns it.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.still_needed``: only root keys are named,
            without which no statement can revoke them; or as :func:`rotate_keys`.
        UsageFault: ``usage.conflict``: a key is revoked already, for another reason.
    """
    records = list(dict.fromkeys(work.store.state.find(kid) for kid in kids))
    for record in records:
        if record.state == "revoked" and record.revoked_because != reason:
            raise UsageFault(
                "usage.conflict",
                f"{record.named} is revoked already, as {record.revoked_because}, and that stays",
                hint="If a thief may have it, revoke the keys that were stored with it.",
            )
    _check_signable(work.store, records)
    leave_out_strangers(work)
    return _end(work, records, reason, same_custody_accepted, wait)


def _check_signable(store: KeyStore, records: Sequence[KeyRecord]) -> None:
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


def _end(
    work: Work,
    records: Sequence[KeyRecord],
    reason: RevocationReason,
    accepted: bool,
    wait: Callable[[datetime], datetime],
) -> Progress:
    """Revoke keys, tell it, replace them; what has to sign all this is revoked after it."""
    store, keyset = work.store, kept_keyset(work.store)

    def revoke(record: KeyRecord) -> None:
        kid, now = record.thumbprint, work.now
        if store.load().find(kid).state != "revoked":
            store.apply(
                lifecycle.revoke, kid, reason=reason, now=now, same_custody_accepted=accepted
            )
            work.done.append(f"revoked {record.named}")

    releases, needed = list[KeyRecord](), list[KeyRecord]()
    for record in sorted(records, key=lambda one: not one.rotates):
        if keyset and not record.rotates and is_needed(record, keyset, store.load()):
            needed.append(record)
        elif keyset and "release" in record.roles:
            releases.append(record)
        else:
            revoke(record)
    _tell(work)
    # A revoked release key can sign no more: while it has to tell of the others, it stays.
    waits = still_trusted(work, records)
    able = [one for one in releases if waits and one.state in ("active", "retiring")]
    for record in releases:
        if record not in able:
            revoke(record)
    if releases and not able:
        _tell(work)
    # A key of the second of the theft would count as stolen with it.
    ended = [store.state.find(record.thumbprint).times.revoked for record in records]
    last = max((one for one in ended if one is not None), default=None)
    if last is not None and last >= work.now:
        work.now = wait(last + timedelta(seconds=1))
        if work.roots is not None:
            work.roots.now = work.now
    for record in records:
        if record not in able:
            _replace(work, record)
    progress = rotate(work)
    if needed and _may_end(store, needed, records):
        for record in needed:
            revoke(record)
        work.left.clear()
        progress, needed = rotate(work), []
    again = f"again: {revoke_command(work, reason, records)}"
    kept = tuple(_kept(work, able, needed, again))
    progress = warned(work, replace(progress, left=(*progress.left, *kept)), records)
    return replace(progress, left=(*progress.left, *endangered(work)))


def _tell(work: Work) -> None:
    """Let the release and the published key set say what was revoked, before all else."""
    take_up(work)
    renew_listing(work)
    with suppress(PublishRefused):  # whatever is published already, the keys end here
        update(work)
    work.left.clear()  # the rest of the work tries again; what was not told is found there


def _replace(work: Work, record: KeyRecord) -> None:
    """Make a key in the place of a revoked one, and its successor, unless safe ones are there.

    Both at once, since the roots would have to list a later successor by themselves.
    """
    store = work.store
    safe = _replacements(store.load(), record)
    if not record.rotates or any(key.state != "generated" for key in safe):
        return  # the successor of a key that signs, or is about to, is made in its turn
    alg = next(one for one in SIGNING_ALGORITHMS if one == record.alg)
    role = next(role for role in record.roles if role in ROTATING)
    try:
        secret = work.passphrase(role)
        if record.custody.startswith("file:"):
            check_opens(store, record, secret)
        for count in range(len(safe), 2):
            private, now = PrivateKey.generate(alg), work.now
            made = store.add_key(private, secret, now=now, roles=record.roles)
            what = "in its place" if count == 0 else f"the next {alg} {role} key"
            work.done.append(f"made {made.named}, {what}")
    except PassphraseFault as fault:
        command = f"cardsign keys generate --role {role} --alg {record.alg}; then {work.again}"
        work.needs(key_holder(role), f"make another {role} key: {fault.message}", command=command)


def _replacements(state: StoreState, record: KeyRecord) -> list[KeyRecord]:
    """The keys that can take the place of one, and that no thief may have."""
    endangered = suspects(state)
    line = [key for key in state.keys if key.succeeds(record) and key.state not in ENDED]
    return [key for key in line if key.state == "active" or key.thumbprint not in endangered]


def _may_end(store: KeyStore, needed: Sequence[KeyRecord], records: Sequence[KeyRecord]) -> bool:
    """Whether the last roots have nothing left to sign, and a recovery can follow."""
    state, keyset = store.load(), kept_keyset(store)
    if keyset is None or any(state.find(key.thumbprint).state == "revoked" for key in needed):
        return True  # too few are left already
    others = [state.find(key.thumbprint) for key in records if key not in needed]
    return (
        keyset.recovery is not None
        and all(key.state == "revoked" for key in others)
        and all(_replacements(state, key) for key in others if key.rotates)
        and not changed_since(state, keyset)
    )


# What is left to a person.


def _kept(
    work: Work, releases: Sequence[KeyRecord], roots: Sequence[KeyRecord], again: str
) -> Iterator[Task]:
    """The keys that are not revoked yet, because they have to sign that the others are."""
    if releases:
        names = ", ".join(key.named for key in releases)
        what = (
            f"revoke {names}: not done, since it has to sign the release that revokes the "
            "others; if its passphrase is lost, revoke it alone"
        )
        yield Task(key_holder("release"), what, f"cardsign release renew; then {again}")
    keyset = kept_keyset(work.store)
    names = ", ".join(key.named for key in roots)
    if roots and (keyset is None or keyset.recovery is None):
        what = f"revoke {names}: not done, since no keyset could follow without a recovery key"
        yield Task("you", what, f"{ADD_ROOT}; then {again}")
    elif roots and keyset:
        what = (
            f"revoke {names}: not done, since it has yet to sign keyset {keyset.epoch}."
            f"{keyset.version + 1}, which revokes the other keys and lists those in their places"
        )
        command = f"cardsign keyset sign {work.draft}; then {again}"
        yield Task(roots[0].holder or "who holds the root key", what, command)
