"""The next epoch, opened by a recovery key, which is in no key store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cardsign.errors import (
    CardsignError,
    PassphraseFault,
    SigningRefused,
    StoreFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import create_private, read_bytes, remove
from cardsign.issuer.keyset import KeysetDraft, check_begun, with_signatures
from cardsign.issuer.publishing import published_statements
from cardsign.issuer.release import needed_keyset
from cardsign.issuer.work import Work
from cardsign.jose.keys import PrivateKey
from cardsign.keys import drafts
from cardsign.keys.history import keep_keyset, kept_keyset
from cardsign.keys.model import KeyRecord
from cardsign.keys.sealed import MAX_ENVELOPE_BYTES, open_envelope, seal
from cardsign.publish.checks import CheckedIssued
from cardsign.statements.keyset import KeysetStatement, OnlineRole, Quorum, RootKey

#: How a recovery begins, for hints.
RECOVER: Final = "cardsign keyset recover --recovery-file FILE"
ONLINE_ROLES: Final[tuple[OnlineRole, ...]] = ("card", "release")


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
    return PrivateKey.from_pkcs8_der(pkcs8, kid=label["kid"])


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
    previous, published = _find_newest(work, digest)
    holder = previous.root.keys[0].holder
    old, secret = recovery()
    _check_recovery_key(old, previous)
    present = {role for key in store.state.keys for role in key.roles}
    missing = [role for role in ONLINE_ROLES if role not in present]
    # Everything is asked before anything is written, so that a slip leaves nothing half made.
    secrets = {role: passphrase(role) for role in (*missing, "root")}
    for statement, data in published.items():
        keep_keyset(store, statement, data, now=now)
    lost = _replace_keys(work, previous, missing, secrets)
    root, quorum, envelope = PrivateKey.generate("ES256"), previous.recovery, b""
    if new_recovery_out is not None and quorum is not None:
        renewed, envelope = make_recovery_key(secret)
        quorum = Quorum(1, (RootKey(renewed.public, quorum.keys[0].holder),))
    plan = _plan_recovery(previous, RootKey(root.public, holder), quorum, lost)
    with of_the_user("the draft"):
        plan = plan.following(store.state, now=now, until=now + drafts.KEYSET_LIFETIME)
        statement = drafts.draft_next(plan, previous, now=now, recovery=True)
    draft = KeysetDraft(with_signatures(statement, [old, root]), previous)
    if new_recovery_out is not None:
        create_private(new_recovery_out, envelope)
    try:
        record = store.add_key(root, secrets["root"], now=now, roles=("root",), holder=holder)
    except CardsignError:  # as under a stolen passphrase
        if new_recovery_out is not None:
            remove(new_recovery_out)
        raise
    return draft, record


def _replace_keys(
    work: Work,
    previous: KeysetStatement,
    roles: Sequence[OnlineRole],
    passphrases: Mapping[str, bytes],
) -> frozenset[str]:
    """Make a key of each role that the store lacks; return the thumbprints of the lost keys."""
    if not roles:
        return frozenset()
    for role in roles:
        holder = next((key.holder for key in previous.keys if role in key.roles), None)
        private = PrivateKey.generate("ES256")
        work.store.add_key(private, passphrases[role], now=work.now, roles=(role,), holder=holder)
    ours = {key.thumbprint for key in work.store.state.keys}
    return frozenset(key.public.thumbprint for key in previous.keys) - ours


def _plan_recovery(
    previous: KeysetStatement, root: RootKey, recovery: Quorum | None, lost: frozenset[str]
) -> drafts.KeysetPlan:
    """Plan one new root, and a list of revoked keys that has the old roots and the lost keys."""
    plan = drafts.KeysetPlan.of(previous)
    plan = replace(plan, root=Quorum(1, (root,)), recovery=recovery, revoked=frozenset())
    return plan.revoking(lost.union(key.public.thumbprint for key in previous.root.keys))


def _find_newest(
    work: Work, digest: str | None
) -> tuple[KeysetStatement, Mapping[KeysetStatement, bytes]]:
    """Return the newest keyset, and those to keep: what is published, where none is kept."""
    published = None if kept_keyset(work.store) else published_statements(work.config.publish)
    if published is not None:
        _check_our_own(published, digest)
    newest = published.newest if published else needed_keyset(work.store)
    check_begun(newest, work.now)
    return newest, published.keysets if published else {}


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
