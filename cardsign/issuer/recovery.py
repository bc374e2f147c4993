"""The next epoch, opened by a recovery key, which is in no key store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cardsign.errors import PassphraseFault, SigningRefused, StoreFault, UsageFault, of_the_user
from cardsign.files import create_private, read_bytes
from cardsign.issuer.keyset import KeysetDraft, check_begun, with_signatures
from cardsign.issuer.publishing import published_statements
from cardsign.issuer.release import needed_keyset
from cardsign.issuer.work import Work
from cardsign.jose.keys import PrivateKey
from cardsign.keys.drafts import KEYSET_LIFETIME, KeysetPlan, draft_next
from cardsign.keys.history import keep_keyset, kept_keyset
from cardsign.keys.model import KeyRecord
from cardsign.keys.sealed import (
    MAX_ENVELOPE_BYTES,
    label_of,
    open_envelope,
    seal,
)
from cardsign.publish.checks import CheckedIssued
from cardsign.statements.keyset import KeysetStatement, OnlineRole, Quorum, RootKey

#: How a recovery begins, for hints.
RECOVER: Final = "cardsign keyset recover --recovery-file FILE"
_ONLINE: Final[tuple[OnlineRole, ...]] = ("card", "release")


def make_recovery_key(passphrase: bytes) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = PrivateKey.generate("ES256")
    return private, seal(private.to_pkcs8_der(), passphrase, private.public)


def open_recovery_key(file: Path, passphrase: bytes) -> PrivateKey:
    """Open a recovery key that was printed or written by ``init``.

    Raises:
        StoreFault: ``keystore.corrupt``.
        PassphraseFault: ``passphrase.wrong``.
        FileFault: It cannot be read.
    """
    data = read_bytes(file, max_bytes=MAX_ENVELOPE_BYTES)
    try:
        pkcs8, label = open_envelope(data, passphrase)
    except (StoreFault, PassphraseFault) as fault:
        fault.finding = fault.finding.at(str(file))
        raise
    private = PrivateKey.from_pkcs8_der(pkcs8, kid=label["kid"])
    if label_of(private.public) != label:
        raise StoreFault(
            "keystore.corrupt",
            "it holds another key than it says",
            path=str(file),
            hint="Put back the copy that you keep of it.",
        )
    return private


def recover(
    work: Work,
    recovery: Callable[[], tuple[PrivateKey, bytes]],
    *,
    passphrase: Callable[[str], bytes],
    digest: str | None = None,
    new_recovery_out: Path | None = None,
) -> tuple[KeysetDraft, KeyRecord]:
    """Open the next epoch with a recovery key, after root keys were stolen or lost.

    A new root key is made for the holder of the first old one, and every old one ends. The old
    roots and keys that are lost are revoked.

    Args:
        work: The key store, and what is published: a new store takes up its statements, but no
            lost key.
        recovery: Opens a recovery key of the newest statement; gives it with its passphrase, which
            encrypts a new one too.
        passphrase: Gives the passphrase of a role's new key; asked before anything is written.
        digest: Of one of the issuer's own keysets, in lower-case hex, where none is kept: whoever
            can write what is published could list this recovery key beside one of theirs.
        new_recovery_out: Make a new recovery key too, into this new file.

    Returns:
        The draft, signed by the recovery key and the new root; and that root, which is kept now.

    Raises:
        SigningRefused: ``sign.no_key``: the newest statement does not list `recovery`.
        UsageFault: No verifier would take the statement; ``statement.not_yet``;
            ``statement.digest``: `digest` is missing, or of no published keyset.
        StoreFault: ``keystore.no_keyset``: neither kept nor published.
        FileFault: ``file.exists``: something is at `new_recovery_out`.
    """
    store, now = work.store, work.now
    published = None if kept_keyset(store) else published_statements(work.config.publish)
    previous = published.newest if published else needed_keyset(store)
    if published is not None:
        _check_our_own(published, digest)
    check_begun(previous, now)
    holder = previous.root.keys[0].holder
    old, secret = recovery()
    _check_recovery_key(old, previous)
    missing = [role for role in _ONLINE if not any(role in key.roles for key in store.state.keys)]
    # Everything is asked before anything is written, so that a slip leaves nothing half made.
    secrets = {role: passphrase(role) for role in (*missing, "root")}
    for statement, data in published.keysets.items() if published else ():
        keep_keyset(store, statement, data, now=now)
    lost = _replace_online(work, previous, missing, secrets) if missing else ()
    root, renewed, envelope = PrivateKey.generate("ES256"), None, b""
    if new_recovery_out is not None:
        renewed, envelope = make_recovery_key(secret)
    plan = _recovering(previous, RootKey(root.public, holder), renewed, lost)
    with of_the_user("the draft"):
        plan = plan.following(store.state, now=now, until=now + KEYSET_LIFETIME)
        statement = draft_next(plan, previous, now=now, recovery=True)
    draft = KeysetDraft(with_signatures(statement, [old, root]), previous)
    if new_recovery_out is not None:
        create_private(new_recovery_out, envelope)
    record = store.add_key(root, secrets["root"], now=now, roles=("root",), holder=holder)
    return draft, record


def _check_our_own(published: CheckedIssued, digest: str | None) -> None:
    if "".join((digest or "").split()).lower() in {keyset.digest for keyset in published.keysets}:
        return
    why = "no keyset that is published has this digest" if digest else "no keyset is kept here"
    raise UsageFault(
        "statement.digest",
        f"{why}, so what is published may be somebody else's",
        hint="Give the digest that `cardsign init` printed, or that a verifier's trust.toml pins: "
        f"{RECOVER} --digest SHA-256",
    )


def _check_recovery_key(key: PrivateKey, previous: KeysetStatement) -> None:
    listed = previous.recovery.keys if previous.recovery else ()
    if key.public.thumbprint not in {other.public.thumbprint for other in listed}:
        raise SigningRefused(
            "sign.no_key",
            "this is no recovery key of the newest statement",
            hint="Name the file of one that it lists: cardsign keyset show --json.",
        )


def _replace_online(
    work: Work,
    previous: KeysetStatement,
    missing: Sequence[OnlineRole],
    secrets: Mapping[str, bytes],
) -> tuple[str, ...]:
    """Make the card and release key that a store lacks; returns the listed keys that are lost."""
    store, now = work.store, work.now
    for role in missing:
        holder = next((key.holder for key in previous.keys if role in key.roles), None)
        private = PrivateKey.generate("ES256")
        store.add_key(private, secrets[role], now=now, roles=(role,), holder=holder)
    ours = {key.thumbprint for key in store.state.keys}
    listed = (key.public.thumbprint for key in previous.keys)
    return tuple(thumbprint for thumbprint in listed if thumbprint not in ours)


def _recovering(
    previous: KeysetStatement, root: RootKey, renewed: PrivateKey | None, lost: Sequence[str]
) -> KeysetPlan:
    """The plan of a new epoch: one new root, and an empty list of revoked keys."""
    recovery = previous.recovery
    if renewed is not None and recovery is not None:
        recovery = Quorum(1, (RootKey(renewed.public, recovery.keys[0].holder),))
    old = frozenset(key.public.thumbprint for key in previous.root.keys)
    plan = replace(
        KeysetPlan.of(previous), root=Quorum(1, (root,)), recovery=recovery, revoked=frozenset()
    )
    return plan.revoking(old.union(lost))
