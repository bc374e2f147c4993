"""The keyset statement: drafted from a key store, signed by the roots, kept and published.

A draft is the statement itself with too few signatures. It goes from holder to holder of the
root keys; the last one publishes it. A recovery key, which is in no key store, opens the next
epoch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Final

from cardsign.errors import (
    PassphraseFault,
    SigningRefused,
    StoreFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import create_private, read_bytes
from cardsign.issuer.publishing import (
    Published,
    check_publishable,
    newest_generation,
    published_statements,
    update_publication,
)
from cardsign.issuer.release import (
    check_in_force,
    draft_release,
    needed_keyset,
    open_signers,
    release_signers,
    sign_next_release,
)
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.drafts import (
    KEY_LIFETIME,
    KEYSET_LIFETIME,
    SKEW,
    KeysetPlan,
    QuorumSignatures,
    changed_since,
    check_draft,
    differences,
    draft_next,
    quorum_signatures,
    write_draft,
)
from cardsign.keys.history import StatementHistory, kept_keyset, note_keyset
from cardsign.keys.key_files import DEFAULT_COST, MAX_ENVELOPE_BYTES, KeyLabel, open_envelope, seal
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.model import ENDED, KeyRecord
from cardsign.keys.signers.access import Access
from cardsign.keys.stores.base import KeyStore
from cardsign.records import dataclass
from cardsign.statements.envelope import TYP_KEYSET, StatementRefused
from cardsign.statements.keyset import (
    IssuerKey,
    KeysetStatement,
    OnlineRole,
    Quorum,
    RootKey,
    check_step,
    read_keyset,
)
from cardsign.statements.release import ReleaseStatement
from cardsign.statements.signing import add_signatures, sign_statement
from cardsign.times import second, utc
from cardsign.urls import parse_origin

#: How a recovery begins, for hints.
RECOVER: Final = "cardsign keyset recover --recovery-file FILE"
_ONLINE: Final[tuple[OnlineRole, ...]] = ("card", "release")
#: What a fork is told with: ``{}`` stands for the statement that this key store keeps.
_NOT_TO_SIGN: Final = (
    "Do not sign this one. Send back {}, to be put in the place of the draft. "
    "Who drafted it then types: cardsign keys rotate"
)
_NOT_TO_PUBLISH: Final = (
    "Do not publish this one: verifiers may have {} already. "
    "What has changed since goes into the next: cardsign keys rotate"
)


@dataclass(frozen=True, slots=True)
class KeysetChanges:
    """What a keyset says beyond what the key store knows.

    Attributes:
        issuer: The issuer's name; None: as before, at first the host of the first origin.
        origins: Where interfaces may be; empty: as before.
        add_roots: Root keys more.
        remove_roots: Holders whose root keys go.
        threshold: How many root holders must sign; None: as before.
        recovery: The recovery keys instead of those before; empty: as before.
        recovery_threshold: How many of them; None: one.
        add_keys: Card and release keys that are not in the key store.
        drop: Kids or thumbprints of other keys that are listed now, and that the draft leaves out.
        revoke: Keys that are not in the key store and are revoked.
    """

    issuer: str | None = None
    origins: tuple[str, ...] = ()
    add_roots: tuple[RootKey, ...] = ()
    remove_roots: tuple[str, ...] = ()
    threshold: int | None = None
    recovery: tuple[RootKey, ...] = ()
    recovery_threshold: int | None = None
    add_keys: tuple[tuple[OnlineRole, RootKey], ...] = ()
    drop: tuple[str, ...] = ()
    revoke: tuple[PublicKey, ...] = ()


@dataclass(frozen=True, slots=True)
class KeysetDraft:
    """A draft, with or without signatures, beside the newest statement that is kept here.

    Attributes:
        statement: The draft.
        previous: The newest statement; None if none is kept.
    """

    statement: KeysetStatement
    previous: KeysetStatement | None

    @property
    def data(self) -> bytes:
        """The bytes of its file."""
        return write_draft(self.statement)

    @property
    def changes(self) -> tuple[str, ...]:
        """What it changes of the newest statement, the gravest first; see `differences`."""
        return tuple(differences(self.previous, self.statement))

    @property
    def signings(self) -> tuple[QuorumSignatures, ...]:
        """Whose signatures it needs, and has."""
        return quorum_signatures(self.statement, self.previous)

    @property
    def is_complete(self) -> bool:
        """Whether enough have signed it."""
        return not any(one.missing for one in self.signings)

    @property
    def label(self) -> str:
        """Its number, as people write it."""
        return self.statement.label


@dataclass(frozen=True, slots=True)
class PublishedKeyset:
    """What one call of :func:`publish_keyset` came to.

    Attributes:
        statement: The statement.
        is_new: Whether this call kept it.
        release: The release that names it, if one was signed.
        is_only_kept: Nothing was published: the key store has neither a release nor a release
            key, as that of a root's holder.
        published: What is published now; None where nothing is published.
    """

    statement: KeysetStatement
    is_new: bool
    release: ReleaseStatement | None
    is_only_kept: bool
    published: Published | None

    @property
    def is_published(self) -> bool:
        """Whether verifiers are given it."""
        keysets = self.published.generation.keysets if self.published else ()
        return self.statement.label in keysets


# Drafting.


def draft_keyset(
    store: KeyStore,
    *,
    now: datetime,
    changes: KeysetChanges | None = None,
    origin: str | None = None,
    lifetime: timedelta = KEYSET_LIFETIME,
) -> KeysetDraft:
    """Draft the next statement: the key store's keys as they are now, and the changes.

    Nothing is written. Without any change it renews the one before.

    Args:
        store: The key store. Before its first statement every root key of it becomes a root.
        now: The time, with its zone, in whole seconds.
        changes: What else it says.
        origin: That of a first statement, if the changes name none.
        lifetime: How long it is valid.

    Raises:
        UsageFault: The changes do not fit, or no verifier would take the statement;
            ``statement.not_yet``: the newest one is of later than `now`.
    """
    previous = kept_keyset(store)
    check_begun(previous, now)
    if previous is not None:
        plan = KeysetPlan.of(previous)
    else:  # every root key of the store, one of them being enough
        state = store.state
        root, recovery = (
            tuple(RootKey(key.public, key.holder or "owner") for key in state.active_keys(role))
            for role in ("root", "recovery")
        )
        held = Quorum(1, recovery) if recovery else None
        plan = KeysetPlan("", (origin or "",), Quorum(1, root), held)
    plan = plan.following(store.state, now=now, until=now + lifetime)
    plan = _changed(plan, store, changes or KeysetChanges(), now)
    with of_the_user("the draft"):
        return KeysetDraft(draft_next(plan, previous, now=now, lifetime=lifetime), previous)


def check_begun(keyset: KeysetStatement | None, now: datetime) -> None:
    """Refuse to follow a statement that was issued later than now.

    Raises:
        UsageFault: ``statement.not_yet``.
    """
    if keyset is not None and now.timestamp() < keyset.iat:
        issued = utc(keyset.iat)
        raise UsageFault(
            "statement.not_yet",
            f"keyset {keyset.label}, the newest here, was issued at {second(issued)}",
            hint="Check this machine's clock; if another's was ahead, none can follow before then.",
        )


def find_public(store: KeyStore, name: str) -> PublicKey | None:
    """The key of the store, or of its newest keyset, that has this kid or thumbprint."""
    if any(name in record.names for record in store.state.keys):
        return store.state.find(name).public
    keyset = kept_keyset(store)
    listed = [key.public for key in keyset.keys] if keyset else []
    listed += [key.public for key in keyset.root.keys] if keyset else []
    return next((key for key in listed if name in (key.kid, key.thumbprint)), None)


def _changed(
    plan: KeysetPlan, store: KeyStore, changes: KeysetChanges, now: datetime
) -> KeysetPlan:
    """The plan with the changes."""
    roots = [key for key in plan.root.keys if key.holder not in changes.remove_roots]
    if not changes.origins and not any(plan.origins):
        hint = "Name it: cardsign keyset draft --origin https://HOST"
        raise UsageFault("usage.conflict", "no origin of the issuer is known", hint=hint)
    if not roots and not changes.add_roots:
        hint = "Make one: cardsign keys generate --role root"
        raise UsageFault("usage.conflict", "there is no root key to sign a keyset", hint=hint)
    with of_the_user("the origin"):
        origins = tuple(str(parse_origin(one)) for one in changes.origins or plan.origins)
    # A key of the key store is dropped by its lifecycle alone, which waits for publications.
    alive = [key for key in store.state.keys if key.state not in ENDED]
    dropped = set[str]()
    for name in changes.drop:
        if any(name in key.names for key in alive):
            raise UsageFault(
                "usage.conflict",
                f"{name!r} is a key of this key store, and is dropped once retired or revoked",
                hint="Use cardsign keys retire, or cardsign keys revoke.",
            )
        listed = (one.public for one in plan.keys)
        found = next((key for key in listed if name in (key.kid, key.thumbprint)), None)
        if found is None:
            raise UsageFault("usage.conflict", f"the keyset lists no key {name!r} to be dropped")
        dropped.add(found.thumbprint)
    end = int((now + KEY_LIFETIME).timestamp())
    added = (
        IssuerKey(key.public, (role,), key.holder, int(now.timestamp()), end)
        for role, key in changes.add_keys
    )
    kept = (key for key in plan.keys if key.public.thumbprint not in dropped)
    recovery = Quorum(changes.recovery_threshold or 1, changes.recovery)
    changed = replace(
        plan,
        issuer=changes.issuer or plan.issuer or origins[0].partition("://")[2],
        origins=origins,
        root=Quorum(changes.threshold or plan.root.threshold, (*roots, *changes.add_roots)),
        recovery=recovery if changes.recovery else plan.recovery,
        keys=(*kept, *added),
    )
    return changed.revoking(key.thumbprint for key in changes.revoke)


# Signing.


def review_keyset(
    store: KeyStore, draft: KeysetStatement, *, now: datetime, name: str = "the draft"
) -> KeysetDraft:
    """Check a draft by the newest statement that is kept here, before its holder signs it.

    Args:
        store: The holder's key store.
        draft: The draft.
        now: The time, with its zone.
        name: Where the draft came from, for messages.

    Raises:
        StatementRefused: It does not follow the newest statement.
        UsageFault: ``statement.expired``, ``statement.not_yet``; ``rotate.draft``: it does not
            say what has become of the keys of this store since.
    """
    previous = kept_keyset(store)
    with _fork_told(store, draft, name, _NOT_TO_SIGN):
        check_draft(draft, previous)
    again = "Draft it again: cardsign keys rotate, or cardsign keyset draft."
    _check_not_stale(store, draft, name, again)
    check_in_force(draft, name, now, "draft it again")
    return KeysetDraft(draft, previous)


@contextmanager
def _fork_told(
    store: KeyStore, statement: KeysetStatement, name: str, advice: str
) -> Iterator[None]:
    """Of a fork say which statement of the same number this store keeps, and what to do."""
    try:
        yield
    except StatementRefused as refusal:
        if refusal.code != "statement.fork":
            raise
        label, kept = statement.label, store.statement_place("keysets", statement.number)
        why = f"another keyset {label} was signed here before, and this key store keeps it"
        hint = advice.format(kept)
        raise StatementRefused(refusal.code, why, path=name, hint=hint) from refusal


def _check_not_stale(store: KeyStore, draft: KeysetStatement, name: str, hint: str) -> None:
    """Refuse a draft that does not say what has become of the keys of this store since.

    Raises:
        UsageFault: ``rotate.draft``.
    """
    if changes := changed_since(store.load(), draft):
        raise UsageFault(
            "rotate.draft",
            f"this draft was made before the key store changed: {'; '.join(changes)}",
            path=name,
            hint=hint,
        )


def sign_keyset(
    store: KeyStore,
    draft: KeysetDraft,
    access: Access | bytes,
    *,
    digest: str,
    kids: Sequence[str] = (),
    recovery: Callable[[], PrivateKey | None] = lambda: None,
) -> KeysetDraft:
    """Add the signatures of this key store's holder to a draft.

    Args:
        store: The key store with root or recovery keys.
        draft: As :func:`review_keyset` gives it.
        access: What signers may use; a passphrase is enough for keys in files.
        digest: What the holder was told, over another channel.
        kids: Only these keys of the store; by default every one that has to sign, or none where
            there is a recovery key.
        recovery: Opens a recovery key that is elsewhere; called once the digest is the same.

    Raises:
        UsageFault: ``statement.digest``.
        SigningRefused: ``sign.no_key``.
    """
    if "".join(digest.split()).lower() != draft.statement.digest:
        raise UsageFault("statement.digest", "this draft has another digest")
    wanted = {key.public.thumbprint for one in draft.signings for key in one.quorum.keys}
    if kids:
        wanted &= {store.state.find(kid).thumbprint for kid in kids}
    apart = recovery()
    signers: list[Signer] = [] if apart is None else [apart]
    if apart is None or kids:
        signers += open_signers(store, ("root", "recovery"), wanted, access)
    if not signers or any(one.public.thumbprint not in wanted for one in signers):
        raise SigningRefused(
            "sign.no_key",
            "no key that is here has to sign this statement",
            path=store.place,
            hint="See who has to: cardsign keyset show DRAFT.",
        )
    return replace(draft, statement=with_signatures(draft.statement, signers))


def with_signatures(statement: KeysetStatement, signers: Sequence[Signer]) -> KeysetStatement:
    if not statement.envelope.signatures:
        return read_keyset(sign_statement(statement.envelope.payload, signers, TYP_KEYSET))
    return read_keyset(add_signatures(write_draft(statement), signers, TYP_KEYSET))


# Publishing.


def publish_keyset(
    store: KeyStore,
    statement: KeysetStatement,
    access: Access | bytes,
    *,
    now: datetime,
    directory: Path | None = None,
    settings: TimelineSettings = DEFAULT_SETTINGS,
    without_release: bool = False,
    name: str = "the statement",
    is_overtaken: bool = False,
) -> PublishedKeyset:
    """Keep a statement as the newest, and publish it with a release that names it.

    Without a passphrase for the release key it is withheld until :func:`renew_release`.

    Args:
        store: The key store.
        statement: Signed by enough.
        access: What signers may use; a passphrase is enough for keys in files.
        now: The time, with its zone, in whole seconds.
        directory: The publication directory; None for none.
        settings: What is assumed of caches.
        without_release: Publish it even if no release names it yet.
        name: Where the statement came from, for messages.
        is_overtaken: Publish it even if the key store has changed since, or it has ended. The next
            one has to say so; :func:`cardsign.issuer.rotate_keys` drafts that.

    Raises:
        StatementRefused: It does not follow the newest statement, or too few have signed it.
        UsageFault: ``statement.expired``, ``statement.not_yet``, ``rotate.draft``.
        PublishRefused: As :func:`cardsign.issuer.publishing.check_publishable`.
    """
    history = StatementHistory.of(store)
    data = write_draft(statement)
    is_only_kept = _is_root_holders(store, directory)
    if statement.digest not in {one.digest for one in history.keysets()}:
        with _fork_told(store, statement, name, _NOT_TO_PUBLISH):
            check_step(statement, history.newest_keyset())
        _check_now(store, statement, now, name, is_overtaken)
        if not is_only_kept:
            check_publishable(store, directory, keyset=data, now=now)
    signers: Sequence[Signer] = ()
    if newest_generation(directory) is not None and not is_only_kept:
        try:  # before anything is kept, so that a wrong passphrase changes nothing
            draft = draft_release(store, statement, now=now, settings=settings)
            signers = release_signers(store, draft, access)
        except PassphraseFault as fault:
            if fault.code != "passphrase.none":
                raise
    is_new = history.keep_keyset(statement, data)
    note_keyset(store, statement, now=now)
    release = published = None
    if signers:
        release, _ = sign_next_release(
            store, lambda _: signers, directory, now=now, settings=settings
        )
    if not is_only_kept:
        published = update_publication(store, directory, now=now, without_release=without_release)
    return PublishedKeyset(statement, is_new, release, is_only_kept, published)


def _check_now(
    store: KeyStore, statement: KeysetStatement, now: datetime, name: str, is_overtaken: bool
) -> None:
    """Check a statement by the clock, and by what has become of the keys."""
    if is_overtaken:
        check_begun(statement, now + SKEW)
        return
    both = f"Publish it with the keyset that says so: cardsign keys rotate --draft {name}"
    _check_not_stale(store, statement, name, both)
    check_in_force(statement, name, now, "draft it again")


def _is_root_holders(store: KeyStore, directory: Path | None) -> bool:
    """Whether what is published has a release, to which this store can say nothing."""
    if StatementHistory.of(store).newest_release() is not None:
        return False
    if any("release" in key.roles for key in store.state.keys):
        return False
    published = published_statements(directory)
    return published is not None and published.release is not None


# Reading.


def verify_keysets(
    store: KeyStore, statements: Iterable[KeysetStatement]
) -> tuple[KeysetStatement, ...]:
    """Check statements by the ones kept here, each by the one before; nothing is kept.

    Returns:
        The given statements, oldest first.

    Raises:
        StatementRefused: One does not follow, is a fork, or too few have signed it.
    """
    history = list(StatementHistory.of(store).keysets())
    given = sorted(statements, key=attrgetter("number"))
    for statement in given:
        is_known = any(one.digest == statement.digest for one in history)
        newest = history[-1] if history else None
        check_step(statement, _before(statement, history) if is_known else newest)
        history += [] if is_known else [statement]
    return tuple(given)


def show_keyset(store: KeyStore, statement: KeysetStatement | None = None) -> KeysetDraft:
    """Put a statement, by default the newest, beside the one before it.

    Raises:
        StoreFault: ``keystore.no_keyset``, or as :meth:`StatementHistory.keysets`.
    """
    statement = statement or needed_keyset(store)
    return KeysetDraft(statement, _before(statement, StatementHistory.of(store).keysets()))


def _before(
    statement: KeysetStatement, history: Sequence[KeysetStatement]
) -> KeysetStatement | None:
    """The statement that comes before one, among those kept."""
    earlier = [one for one in history if one.id < statement.id]
    return earlier[-1] if earlier else None


# Recovery: the next epoch, opened by a key that is in no key store.


def make_recovery_key(
    passphrase: bytes,
    *,
    new_key: Callable[[], PrivateKey] = lambda: PrivateKey.generate("ES256"),
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = new_key()
    label = KeyLabel.of(private.public)
    data = private.to_pkcs8_der()
    return private, seal(data, passphrase, label=label, cost=DEFAULT_COST, random=random)


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
        raise type(fault)(fault.code, fault.message, path=str(file), hint=fault.hint) from fault
    private = PrivateKey.from_pkcs8_der(pkcs8, kid=label.kid)
    if KeyLabel.of(private.public) != label:
        raise StoreFault(
            "keystore.corrupt",
            "it holds another key than it says",
            path=str(file),
            hint="Restore it from a backup: cardsign keys restore FILE -i IDENTITY.",
        )
    return private


def recover(
    store: KeyStore,
    recovery: Callable[[], tuple[PrivateKey, bytes]],
    *,
    passphrase: Callable[[str], bytes],
    now: datetime,
    root_holder: str | None = None,
    new_recovery_out: Path | None = None,
    drop: Sequence[str] = (),
    directory: Path | None = None,
    new_key: Callable[[], PrivateKey] = lambda: PrivateKey.generate("ES256"),
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[KeysetDraft, KeyRecord]:
    """Open the next epoch with a recovery key, after root keys were stolen or lost.

    A new root key is made, and every old one ends. The old roots and what is dropped are revoked.

    Args:
        store: The key store.
        recovery: Opens a recovery key of the newest statement; gives it with its passphrase, which
            encrypts a new one too.
        passphrase: Gives the passphrase of a role's new key; asked once all else is checked.
        now: The time, with its zone, in whole seconds.
        root_holder: Who holds the new root [default: the holder of the first old one].
        new_recovery_out: Make a new recovery key too, into this new file.
        drop: Kids or thumbprints of online keys that the draft leaves out.
        directory: What is published: a new store takes up its statements, but no lost key.
        new_key, random: Make a key, and that many fresh bytes.

    Returns:
        The draft, signed by the recovery key and the new root; and that root, which is kept now.

    Raises:
        SigningRefused: ``sign.no_key``: the newest statement does not list `recovery`.
        UsageFault: No verifier would take the statement; ``statement.not_yet``.
        StoreFault: ``keystore.no_keyset``: neither kept nor published.
        FileFault: ``file.exists``: something is at `new_recovery_out`.
    """
    if is_new := kept_keyset(store) is None:
        _take_up_history(store, directory, now)
    previous = needed_keyset(store)
    check_begun(previous, now)
    holder = root_holder or previous.root.keys[0].holder
    old, secret = recovery()
    if is_new:
        drop = [*drop, *_replace_online(store, previous, passphrase, now, new_key, random)]
    root, renewed, envelope = new_key(), None, b""
    if new_recovery_out is not None:
        renewed, envelope = make_recovery_key(secret, new_key=new_key, random=random)
    plan = _recovering(previous, RootKey(root.public, holder), renewed, drop)
    with of_the_user("the draft"):
        plan = plan.following(store.state, now=now, until=now + KEYSET_LIFETIME)
        statement = draft_next(plan, previous, now=now, recovery=True)
    draft = KeysetDraft(with_signatures(statement, [old, root]), previous)
    _check_recovery_key(draft)
    new_secret = passphrase("root")
    if new_recovery_out is not None:
        create_private(new_recovery_out, envelope)
    record = store.add_key(root, new_secret, now=now, random=random, roles=("root",), holder=holder)
    return draft, record


def _check_recovery_key(draft: KeysetDraft) -> None:
    if not any(one.signed for one in draft.signings if one.whose != "its own root"):
        raise SigningRefused(
            "sign.no_key",
            "this is no recovery key of the newest statement",
            hint="Name the file of one that it lists: cardsign keyset show --json.",
        )


def _take_up_history(store: KeyStore, directory: Path | None, now: datetime) -> None:
    """Keep the published keysets in a new store; the recovery key proves that they are its."""
    published = published_statements(directory)
    if published is None:
        return
    history = StatementHistory.of(store)
    for statement, data in zip(published.keysets, published.keyset_bytes, strict=True):
        history.keep_keyset(statement, data)
        note_keyset(store, statement, now=now)


def _replace_online(
    store: KeyStore,
    previous: KeysetStatement,
    passphrase: Callable[[str], bytes],
    now: datetime,
    new_key: Callable[[], PrivateKey],
    random: Callable[[int], bytes],
) -> tuple[str, ...]:
    """Make a card and a release key in a new store; returns the listed keys that are lost."""
    for role in _ONLINE:
        if not any(role in key.roles for key in store.state.keys):
            holder = next((key.holder for key in previous.keys if role in key.roles), None)
            made = new_key()
            secret = passphrase(role)
            store.add_key(made, secret, now=now, random=random, roles=(role,), holder=holder)
    ours = {key.thumbprint for key in store.state.keys}
    listed = (key.public.thumbprint for key in previous.keys)
    return tuple(thumbprint for thumbprint in listed if thumbprint not in ours)


def _recovering(
    previous: KeysetStatement, root: RootKey, renewed: PrivateKey | None, drop: Sequence[str]
) -> KeysetPlan:
    """The plan of a new epoch: one new root, and an empty list of revoked keys."""
    held = previous.recovery
    if renewed is not None and held is not None:
        held = Quorum(1, (RootKey(renewed.public, held.keys[0].holder),))
    old = frozenset(key.public.thumbprint for key in previous.root.keys)
    dropped = {
        key.public.thumbprint
        for key in previous.keys
        if {key.public.kid, key.public.thumbprint}.intersection(drop)
    }
    plan = replace(
        KeysetPlan.of(previous), root=Quorum(1, (root,)), recovery=held, revoked=frozenset()
    )
    return plan.revoking(old | dropped)
