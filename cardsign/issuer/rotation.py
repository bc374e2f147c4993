"""Rotating keys: the next allowed step of a key store, read from top to bottom in one function."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from cardsign.errors import (
    FileMissing,
    PassphraseFault,
    StoreFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes, write_atomic
from cardsign.issuer.keyset import KeysetDraft
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, SigningAlg
from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import StatementHistory, note_keyset
from cardsign.keys.keyset_drafts import (
    KeysetDue,
    draft_if_due,
    keyset_due,
    read_draft,
    says_more,
)
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings, cards_to_sign, withdraw
from cardsign.keys.model import KeyRecord, PublishedCard, Role, short
from cardsign.keys.rotation import Step, steps
from cardsign.keys.stores.base import KeyStore
from cardsign.records import dataclass
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused


@dataclass(frozen=True, slots=True)
class WaitingDraft:
    """A keyset statement that waits for the roots.

    Attributes:
        file: Where it is.
        draft: The statement, beside the newest one.
        additions: What it says beyond what the key store says; that was not drafted here.
    """

    file: Path
    draft: KeysetDraft
    additions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rotation:
    """What one call of :func:`rotate_keys` came to: at most one of the first three.

    Attributes:
        taken: The step of a key's lifecycle that was taken.
        made: The successor that was made.
        draft: The draft of a keyset statement that is due.
        elsewhere: Successors that are due and must be made where the active key is kept.
        needs_passphrase: A successor is due, and its passphrase is missing.
        ahead: Every step ahead, the next one first.
        cards_to_sign: Published cards that a new key has to sign.
        renewal: When the roots have to sign next; None where there is no keyset.
    """

    taken: Step | None
    made: KeyRecord | None
    draft: WaitingDraft | None
    elsewhere: tuple[Step, ...]
    needs_passphrase: bool
    ahead: tuple[Step, ...]
    cards_to_sign: tuple[PublishedCard, ...]
    renewal: KeysetDue | None

    @property
    def needs_person(self) -> bool:
        """Whether cron cannot go on alone."""
        waits = self.draft is not None or self.needs_passphrase
        return waits or bool(self.elsewhere or self.cards_to_sign)


def rotate_keys(
    store: KeyStore,
    passphrase: Callable[[Role], bytes],
    *,
    now: datetime,
    draft: Path | None = None,
    settings: TimelineSettings = DEFAULT_SETTINGS,
    asked: bool = True,
    withdrawn: str | None = None,
    new_key: Callable[[SigningAlg], PrivateKey] = PrivateKey.generate,
    random: Callable[[int], bytes] = os.urandom,
) -> Rotation:
    """Take the next allowed step of the key rotation, and say which follow.

    Any number of hosts may call; a step is taken once.

    Args:
        store: The key store.
        passphrase: Gives that of a role's keys; called only if a successor is due.
        now: The time, with its zone, in whole seconds.
        draft: Where a draft goes, unless one is there that will do. None: make none.
        settings: What is assumed of caches.
        asked: Rotate as soon as that is allowed; False: only what is due, as from cron.
        withdrawn: First forget the publications of the card with this endpoint.
        new_key: Makes a key for an algorithm.
        random: Gives that many fresh bytes.

    Raises:
        PassphraseFault: As :func:`make_successor`, if `asked`.
        StoreFault: ``keystore.audit_broken``; or as the store's operations.
        UsageFault: ``rotate.draft``; or no verifier would take the draft.
    """
    if withdrawn is not None:
        store.apply(withdraw, withdrawn, now=now)
    keyset = StatementHistory.of(store).newest_keyset()
    if keyset is not None:
        note_keyset(store, keyset, now=now)
    taken = store.tick(now=now, settings=settings, asked=asked)
    made, waiting = None, None
    here, elsewhere = ((), ()) if taken else successors_due(store, settings, now, asked)
    needs_passphrase = False
    for step in here:
        try:
            made = made or make_successor(store, step, passphrase, now, new_key, random)
        except PassphraseFault:
            if asked:
                raise
            needs_passphrase = True
    if keyset is not None and draft is not None and taken is None and made is None:
        waiting = draft_keyset_due(store, draft, now=now)
    return Rotation(
        taken=taken,
        made=made,
        draft=waiting,
        elsewhere=elsewhere,
        needs_passphrase=needs_passphrase,
        ahead=steps(store.state, settings, now, asked=asked),
        cards_to_sign=cards_to_sign(store.state, now),
        renewal=None if keyset is None else keyset_due(store.state, keyset, now=now),
    )


def successors_due(
    store: KeyStore, settings: TimelineSettings, now: datetime, asked: bool
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The successors to make: in this key store, and wherever else an active key is kept."""
    state = store.state
    here: list[Step] = []
    elsewhere: list[Step] = []
    for step in steps(state, settings, now, asked=asked):
        if step.action == "generate" and step.is_due(now):
            active = [key for key in state.active_keys(step.role) if key.alg == step.alg]
            is_here = all(key.custody.startswith("file:") for key in active)
            (here if is_here else elsewhere).append(step)
    return tuple(here), tuple(elsewhere)


def make_successor(
    store: KeyStore,
    step: Step,
    passphrase: Callable[[Role], bytes],
    now: datetime,
    new_key: Callable[[SigningAlg], PrivateKey],
    random: Callable[[int], bytes],
) -> KeyRecord | None:
    """Make the key that a step asks for; None if another process was faster.

    Raises:
        PassphraseFault: ``passphrase.wrong``: the passphrase is not that of the key before it.
    """
    secret = passphrase(step.role)
    for key in store.state.active_keys(step.role):
        if key.alg == step.alg and key.custody.startswith("file:"):
            check_opens(store, key, secret)
    alg = next(one for one in SIGNING_ALGORITHMS if one == step.alg)
    private = new_key(alg)
    try:
        return store.add_key(
            private,
            secret,
            now=now,
            random=random,
            roles=(step.role,),
            expect_generation=store.state.generation,
        )
    except StoreFault as fault:
        if fault.code != "keystore.changed":
            raise
        return None


def check_opens(store: KeyStore, key: KeyRecord, passphrase: bytes) -> None:
    """Check that a passphrase is that of a key; one whose file is not here cannot tell."""
    try:
        store.signer(key, passphrase)
    except FileMissing:
        return
    except PassphraseFault as fault:
        role = " and ".join(key.roles)
        raise PassphraseFault(
            fault.code,
            f"this is not the passphrase of {role} key {short(key.kid)}, which the next {role} key "
            "is to have too",
        ) from fault


def draft_keyset_due(store: KeyStore, file: Path, *, now: datetime) -> WaitingDraft | None:
    """The draft of the keyset statement that is due, written unless one is there that will do.

    Raises:
        UsageFault: ``rotate.draft``; or no verifier would take the draft.
        FileFault: The file cannot be read, or is a link.
    """
    newest = StatementHistory.of(store).newest_keyset()
    if newest is None:
        return None
    if not keyset_due(store.state, newest, now=now).is_due(now):
        return None
    with of_the_user("the draft"):
        found = draft_if_due(store.state, newest, _drafted_before(file), now=now)
    if found is None:
        return None
    statement, is_new = found
    draft = KeysetDraft(statement, newest)
    if is_new:
        write_atomic(file, draft.data, plain=True)
    additions = () if is_new else says_more(store.state, newest, statement, now=now)
    return WaitingDraft(file, draft, additions)


def _drafted_before(file: Path) -> bytes | None:
    """The draft that is there; any other file is not read, followed or overwritten.

    Raises:
        UsageFault: ``rotate.draft``.
        FileFault: It cannot be read, or is a link.
    """
    try:
        untrusted_draft = read_bytes(file, max_bytes=MAX_STATEMENT_BYTES, plain=True)
        read_draft(untrusted_draft)
    except FileMissing:
        return None
    except StatementRefused as refusal:
        raise UsageFault("rotate.draft", refusal.message, path=str(file)) from refusal
    return untrusted_draft
