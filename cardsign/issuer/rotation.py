"""What a rotation makes: successors of keys, and the draft of the next keyset statement."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from cardsign.errors import (
    FileFault,
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
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import (
    draft_if_due,
    keyset_due,
    read_draft,
    says_more,
)
from cardsign.keys.lifecycle import TimelineSettings
from cardsign.keys.model import KeyRecord, Role
from cardsign.keys.rotation import Step, steps
from cardsign.keys.stores.base import KeyStore
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.succession import check_step


def successors_due(
    store: KeyStore, settings: TimelineSettings, now: datetime
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The successors to make: in this key store, and wherever else an active key is kept."""
    state = store.state
    here: list[Step] = []
    elsewhere: list[Step] = []
    for step in steps(state, settings, now):
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
        what = (
            f"this is not the passphrase of {key.named}, which the next {role} key is to have too"
        )
        raise PassphraseFault(fault.code, what) from fault


def draft_keyset_due(
    store: KeyStore, file: Path, *, now: datetime
) -> tuple[KeysetDraft, tuple[str, ...]] | None:
    """The draft of the keyset statement that is due, written unless one is there that will do.

    Returns:
        The draft, and what it says beyond what the key store says: that was not drafted here.

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
    return draft, () if is_new else says_more(store.state, newest, statement, now=now)


def signed_keysets(store: KeyStore, file: Path, roots: KeyStore | None) -> Iterator[KeysetDraft]:
    """What enough roots have signed, and a key store has yet to keep: in a file, or kept by roots.

    Such a statement is no draft any more, whatever became of the keys since. Somebody may hold
    it, so another one of its number would be a fork. The one after it says what has changed.

    Yields:
        Each that follows the newest statement of the store; it is to be kept before the next.
    """
    found: list[KeysetStatement] = []
    # What is wrong with the file is said once a draft is due, which would go there.
    with contextlib.suppress(FileFault, UsageFault):
        untrusted_draft = _drafted_before(file)
        found += [] if untrusted_draft is None else [read_draft(untrusted_draft)]
    found += [] if roots is None else StatementHistory.of(roots).keysets()
    for statement in found:
        newest = StatementHistory.of(store).newest_keyset()
        with contextlib.suppress(StatementRefused):
            check_step(statement, newest)
            yield KeysetDraft(statement, newest)


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
