"""The keyset statement: drafted from a key store, signed by the roots, kept and published.

A draft is the statement itself with too few signatures. It goes from holder to holder of the
root keys; the last one publishes it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cardsign.errors import SigningRefused, UsageFault, of_the_user
from cardsign.issuer.publishing import check_publishable
from cardsign.issuer.release import check_in_force, needed_keyset, open_signers
from cardsign.issuer.work import Work
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import drafts
from cardsign.keys.history import keep_keyset, kept_keyset, kept_keysets
from cardsign.keys.model import statement_blob
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import TYP_KEYSET, StatementRefused
from cardsign.statements.keyset import KeysetStatement, Quorum, RootKey, check_step, read_keyset
from cardsign.statements.signing import add_signatures, sign_statement
from cardsign.times import second, utc
from cardsign.urls import KEYSET_PATH, parse_origin

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
        origins: Where interfaces may be; empty: as before.
        add_roots: Root keys more.
        remove_roots: Holders whose root keys go.
        threshold: How many root holders must sign; None: as before.
        recovery: The recovery keys instead of those before, any of which will do; empty: as before.
    """

    origins: tuple[str, ...] = ()
    add_roots: tuple[RootKey, ...] = ()
    remove_roots: tuple[str, ...] = ()
    threshold: int | None = None
    recovery: tuple[RootKey, ...] = ()


_NO_CHANGES: Final = KeysetChanges()


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
        return drafts.write_draft(self.statement)

    @property
    def changes(self) -> tuple[str, ...]:
        """What it changes of the newest statement, the gravest first; see `differences`."""
        return tuple(drafts.differences(self.previous, self.statement))

    @property
    def signings(self) -> tuple[drafts.QuorumSignatures, ...]:
        """Whose signatures it needs, and has."""
        return drafts.quorum_signatures(self.statement, self.previous)

    @property
    def is_complete(self) -> bool:
        """Whether enough have signed it."""
        return not any(signing.missing for signing in self.signings)

    @property
    def label(self) -> str:
        """Its number, as people write it."""
        return self.statement.label


# Drafting.


def draft_keyset(
    work: Work,
    changes: KeysetChanges = _NO_CHANGES,
    *,
    lifetime: timedelta = drafts.KEYSET_LIFETIME,
) -> KeysetDraft:
    """Draft the next statement: the key store's keys as they are now, and the changes.

    Nothing is written. Without any change it renews the one before.

    Args:
        work: The key store. Before its first statement every root key of it becomes a root, and
            the settings name the origin unless the changes do.
        changes: What else it says.
        lifetime: How long it is valid.

    Raises:
        UsageFault: The changes do not fit, or no verifier would take the statement;
            ``statement.not_yet``: the newest one is of later than `now`.
    """
    store, now = work.store, work.now
    previous = kept_keyset(store)
    check_begun(previous, now)
    if previous is not None:
        plan = drafts.KeysetPlan.of(previous)
    else:  # every root key of the store, one of them being enough
        state = store.state
        root, recovery = (
            tuple(RootKey(key.public, key.holder or "owner") for key in state.active_keys(role))
            for role in ("root", "recovery")
        )
        quorum = Quorum(1, recovery) if recovery else None
        plan = drafts.KeysetPlan("", (work.config.issuer or "",), Quorum(1, root), quorum)
    plan = plan.following(store.state, now=now, until=now + lifetime)
    plan = _changed(plan, changes)
    with of_the_user("the draft"):
        return KeysetDraft(drafts.draft_next(plan, previous, now=now, lifetime=lifetime), previous)


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


def _changed(plan: drafts.KeysetPlan, changes: KeysetChanges) -> drafts.KeysetPlan:
    """The plan with the changes."""
    roots = [key for key in plan.root.keys if key.holder not in changes.remove_roots]
    roots += changes.add_roots
    if not changes.origins and not any(plan.origins):
        hint = "Name it: cardsign keyset draft --origin https://HOST"
        raise UsageFault("usage.conflict", "no origin of the issuer is known", hint=hint)
    if not roots:
        hint = "Make one: cardsign keys generate --role root"
        raise UsageFault("usage.conflict", "there is no root key to sign a keyset", hint=hint)
    with of_the_user("the origin"):
        origins = tuple(str(parse_origin(origin)) for origin in changes.origins or plan.origins)
    return replace(
        plan,
        issuer=plan.issuer or origins[0].partition("://")[2],
        origins=origins,
        root=Quorum(changes.threshold or plan.root.threshold, tuple(roots)),
        recovery=Quorum(1, changes.recovery) if changes.recovery else plan.recovery,
    )


# Signing.


def review_keyset(work: Work, draft: KeysetStatement, *, name: str = "the draft") -> KeysetDraft:
    """Check a draft by the newest statement that is kept here, before its holder signs it.

    Args:
        work: The holder's key store.
        draft: The draft.
        name: Where the draft came from, for messages.

    Raises:
        StatementRefused: It does not follow the newest statement.
        UsageFault: ``statement.expired``, ``statement.not_yet``; ``rotate.draft``: it does not
            say what has become of the keys of this store since.
    """
    previous = kept_keyset(work.store)
    with _with_advice(work.store, draft, name, _NOT_TO_SIGN):
        drafts.check_draft(draft, previous)
    again = "Draft it again: cardsign keys rotate, or cardsign keyset draft."
    _check_still_right(work, draft, previous, name, again)
    return KeysetDraft(draft, previous)


@contextmanager
def _with_advice(
    store: KeyStore, statement: KeysetStatement, name: str, advice: str
) -> Iterator[None]:
    """Say what to do about a fork of what this store keeps, and about keysets that it lacks."""
    try:
        yield
    except StatementRefused as refusal:
        why, hint, newest = refusal.message, refusal.finding.fix, kept_keyset(store)
        if refusal.code == "statement.fork":
            kept = [entry for entry in store.state.keysets if entry.number == statement.number]
            place = store.place_of(statement_blob(kept[0].blob)) if kept else store.place
            why = f"another keyset {statement.label} was signed here before, and this key store "
            why, hint = f"{why}keeps it", advice.format(place)
        elif refusal.code == "statement.gap" and newest:
            epoch, version = newest.number[0], newest.number[1] + 1
            url = newest.origins[0] + KEYSET_PATH.format(epoch=epoch, version=version)
            why = f"this key store keeps keyset {newest.label} as the newest, and lacks later ones"
            hint = f"Get {url} and keep it: cardsign keyset publish {epoch}.{version}.json "
            hint += f"--keystore {shlex.quote(store.place)}; then the next one, if it says so again"
        raise StatementRefused(refusal.code, why, path=name, hint=hint) from refusal


def _check_still_right(
    work: Work, draft: KeysetStatement, previous: KeysetStatement | None, name: str, hint: str
) -> None:
    """Refuse a draft that does not say what has become of the keys of this store, or has ended.

    What another holder has signed may list a key that has retired since: it leaves with the next.

    Raises:
        UsageFault: ``rotate.draft``, or as :func:`check_in_force`.
    """
    changed = drafts.find_changed(work.store.load(), draft, utc(draft.iat))
    if drafts.is_begun(draft, previous):
        changed = tuple(key for key in changed if key.state != "retired")
    if changed:
        changes = "; ".join(f"{key.named} is {key.state}" for key in changed)
        message = f"this draft was made before the key store changed: {changes}"
        raise UsageFault("rotate.draft", message, path=name, hint=hint)
    check_in_force(draft, name, work.now, "draft it again")


def sign_keyset(
    work: Work,
    draft: KeysetDraft,
    *,
    digest: str,
    recovery: Callable[[], tuple[PrivateKey, bytes]] | None = None,
) -> KeysetDraft:
    """Add the signatures of this key store's holder to a draft.

    Args:
        work: The key store with root or recovery keys, and what opens them.
        draft: As :func:`review_keyset` gives it.
        digest: What the holder was told, over another channel.
        recovery: Opens a recovery key that is elsewhere, which signs instead of those of the
            store; called once the digest is the same.

    Raises:
        UsageFault: ``statement.digest``.
        SigningRefused: ``sign.no_key``.
    """
    if "".join(digest.split()).lower() != draft.statement.digest:
        raise UsageFault("statement.digest", "this draft has another digest")
    able = {key.public.thumbprint for signing in draft.signings for key in signing.quorum.keys}
    signers: Sequence[Signer]
    if recovery is None:
        signers = open_signers(work, ("root", "recovery"), able)
    else:
        signers = [recovery()[0]]
    if not signers or any(signer.public.thumbprint not in able for signer in signers):
        raise SigningRefused(
            "sign.no_key",
            "no key that is here has to sign this statement",
            path=work.store.place,
            hint="See who has to: cardsign keyset show DRAFT.",
        )
    return replace(draft, statement=with_signatures(draft.statement, signers))


def with_signatures(statement: KeysetStatement, signers: Sequence[Signer]) -> KeysetStatement:
    if not statement.envelope.signatures:
        return read_keyset(sign_statement(statement.envelope.payload, signers, TYP_KEYSET))
    return read_keyset(add_signatures(drafts.write_draft(statement), signers, TYP_KEYSET))


# Keeping and reading.


def accept_keyset(
    work: Work,
    statement: KeysetStatement,
    *,
    name: str = "the statement",
    is_overtaken: bool = False,
) -> bool:
    """Keep a statement as the newest, and say whether it is new; it is not published.

    Args:
        work: The key store, and where its statements are published.
        statement: Signed by enough.
        name: Where the statement came from, for messages.
        is_overtaken: Keep it even if the key store has changed since, or it has ended. The next
            one has to say so; :func:`cardsign.issuer.reconcile.reconcile` drafts that.

    Raises:
        StatementRefused: It does not follow the newest statement, or too few have signed it.
        UsageFault: ``statement.expired``, ``statement.not_yet``, ``rotate.draft``.
        PublishRefused: As :func:`cardsign.issuer.publishing.check_publishable`.
    """
    store, keysets = work.store, kept_keysets(work.store)
    newest = keysets[-1] if keysets else None
    if statement.digest not in {keyset.digest for keyset in keysets}:
        with _with_advice(store, statement, name, _NOT_TO_PUBLISH):
            check_step(statement, newest)
        if is_overtaken:
            check_begun(statement, work.now + drafts.SKEW)
        else:
            both = f"Publish it with the keyset that says so: mv {name} {drafts.DRAFT_FILE}; "
            both += "cardsign keys rotate"
            _check_still_right(work, statement, newest, name, both)
        if not is_root_holder(store):
            _check_release_key(statement, name, work.now)
            check_publishable(work, keyset=drafts.write_draft(statement))
    return keep_keyset(store, statement, drafts.write_draft(statement), now=work.now)


def _check_release_key(statement: KeysetStatement, name: str, now: datetime) -> None:
    """Refuse a keyset all release keys of which begin later, so that no release can name it yet.

    Raises:
        UsageFault: ``statement.not_yet``: another machine's clock is ahead of this one.
    """
    begins = min((key.nbf for key in statement.keys if "release" in key.roles), default=0)
    if now.timestamp() < begins:
        start, here = second(utc(begins)), second(now)
        raise UsageFault(
            "statement.not_yet",
            f"keyset {statement.label} begins at {start}, and this clock says {here}",
            path=name,
            hint="Set this machine's clock, or wait until then, and publish it again.",
        )


def is_root_holder(store: KeyStore) -> bool:
    """Say whether a store has no release key, so that another one publishes."""
    return not any("release" in key.roles for key in store.state.keys)


def show_keyset(store: KeyStore, statement: KeysetStatement | None = None) -> KeysetDraft:
    """Put a statement, by default the newest, beside the one before it.

    Raises:
        StoreFault: ``keystore.no_keyset``, or as :func:`.kept_keysets`.
    """
    statement = statement or needed_keyset(store)
    earlier = [keyset for keyset in kept_keysets(store) if keyset.id < statement.id]
    return KeysetDraft(statement, earlier[-1] if earlier else None)
