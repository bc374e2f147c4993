"""The keyset statement: the first one, the drafts that follow it, and a new epoch by recovery.

A draft is the statement itself with too few signatures, down to none, so that nothing is signed but
what will be published. It goes from holder to holder of the root keys; the last one publishes it.
Each host computes the same draft from the same state, byte for byte. A recovery key is in no key
store.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from cardsign import errors
from cardsign.card.document import Card, list_origins
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import FileFault, FileMissing, SigningRefused, UsageFault, of_the_user
from cardsign.files import CONFIG_FILE, create_private, read_bytes, remove, write_atomic
from cardsign.issuer import release as releases
from cardsign.issuer.publishing import check_publishable, published_statements
from cardsign.issuer.release import check_in_force, find_still_trusted, open_signers
from cardsign.issuer.work import DRAFT_FILE, NOTICE, RECOVER, Gap, Work
from cardsign.jose.jwk import SigningAlg
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.history import keep_keyset, kept_keyset, kept_keysets
from cardsign.keys.ledger import ENDED, ROTATING, KeyRecord, Role, StoreState, statement_blob
from cardsign.keys.passphrases import MAX_ENVELOPE_BYTES, open_envelope, seal
from cardsign.keys.signers import Access
from cardsign.keys.store import KeyStore, StorePlace, StoreUser, create_store, is_taken, open_store
from cardsign.publish.publication import SKEW, Issued
from cardsign.statements import envelope
from cardsign.statements import keyset as statements
from cardsign.statements.envelope import TYP_KEYSET, Envelope, StatementRefused
from cardsign.statements.keyset import IssuerKey, KeysetStatement, OnlineRole, Quorum, RootKey
from cardsign.times import day, second, utc
from cardsign.trust.walk import load_statements
from cardsign.urls import check_secure, parse_origin

#: How long a statement is believed: a quarter, so that the roots are used often enough to work.
KEYSET_LIFETIME: Final = timedelta(days=90)
#: How long a newly listed key counts. Renewed with the statement; a backstop, not the rotation.
KEY_LIFETIME: Final = timedelta(days=400)

#: Who holds the first keys, and a root key whose record names nobody.
_OWNER: Final = "owner"
#: Who holds an online key whose record names nobody.
DEFAULT_HOLDER: Final = "publisher"
_PUBLICATION: Final = "public"
#: Whose passphrase each key of a new issuer has; without one of its own the recovery key has that
#: of the card key.
RolePassphrases: TypeAlias = Mapping[Role, bytes]

#: What to do about a fork; ``{}`` stands for the statement that this key store keeps.
_FORKED: Final = (
    "Do not publish this one: verifiers may have the kept one already. Send back {}, to replace "
    "the draft. What has changed since goes into the next one: cardsign keys rotate"
)


# What a keyset statement changes, in sentences for those who are asked to sign it.


def differences(old: KeysetStatement | None, new: KeysetStatement) -> Iterator[str]:
    """Say what changes from one statement to another, the gravest first.

    Each line begins with ``+`` added, ``-`` removed, ``~`` changed, or ``=`` only to be known.
    `old` is the signer's own; where they have none, all is new.
    """
    message = f"keyset {new.label} of {new.issuer}"
    if old is None:
        yield f"+ {message}: there is no earlier keyset here to compare it with"
    elif new.epoch != old.epoch:
        yield f"~ {message} opens a new epoch and ends everything after {old.label}"
    else:
        yield f"= {message} follows {old.label}, held here"
    earlier = [*_sentences(old)] if old else []
    later = [*_sentences(new)]
    yield from (f"- {line}" for line in earlier if line not in later)
    yield from (f"+ {line}" for line in later if line not in earlier)
    if new.recovery is None:
        yield "= recovery: none; a stolen root key cannot be replaced"
    yield f"~ valid from {day(new.iat)} until {day(new.exp)}"


def _sentences(statement: KeysetStatement) -> Iterator[str]:
    """Yield what a statement says of its root, recovery, origins, keys and revocations."""
    for name, quorum in (("root", statement.root), ("recovery", statement.recovery)):
        if quorum is not None:
            holders = {key.holder for key in quorum.keys}
            yield f"{name}: {quorum.threshold} of {len(holders)} must sign"
            for root in quorum.keys:
                yield f"{name} {root.public.alg} {root.public.thumbprint} held by {root.holder}"
    yield from (f"origin {origin}" for origin in statement.origins)
    for key in statement.keys:
        public, roles = key.public, " and ".join(key.roles)
        # The kid, which its owner chooses freely, comes last and in quotes.
        kid = "" if public.kid == public.thumbprint else f", kid {json.dumps(public.kid)}"
        holder = f"held by {key.holder}, {day(key.nbf)} to {day(key.exp)}"
        yield f"key {public.alg} {public.thumbprint} for {roles}, {holder}{kid}"
    yield from (f"revoked {name}" for name in sorted(statement.revoked))


# What a keyset says of the keys of a store; drafts, and whose signatures they need.


def with_own_keys(
    statement: KeysetStatement,
    state: StoreState,
    *,
    now: datetime,
    lifetime: timedelta = KEYSET_LIFETIME,
) -> KeysetStatement:
    """Return a statement with what has become of the keys of a store; number and times stay.

    Its keys are listed, also those that wait for that; retired ones no longer, revoked ones as
    revoked, whether they are online keys or roots. So is a stolen release key, whether or not it
    can still be opened to sign its last release. Keys that the store does not hold stay as they
    are. A key that was not listed counts from `now` on; one that would end before a statement
    of this `lifetime` is prolonged.
    """
    ours = {record.thumbprint for record in state.keys}
    revoked = statement.revoked.union(
        record.thumbprint
        for record in state.keys
        if record.state == "revoked" or (record.is_stolen and record.rotates)
    )
    over = revoked | {record.thumbprint for record in state.keys if record.state in ENDED}
    listed = {key.public.thumbprint: key for key in statement.keys}
    kept = [key for name, key in listed.items() if name not in ours | revoked]
    own_keys = [
        _listed(record, listed.get(record.thumbprint), now, now + lifetime)
        for record in state.keys
        if record.rotates and record.thumbprint not in over
    ]
    roots = (key for key in statement.root.keys if key.public.thumbprint not in over)
    root = replace(statement.root, keys=tuple(roots))
    return replace(statement, root=root, keys=(*kept, *own_keys), revoked=revoked)


def draft_next(
    content: KeysetStatement,
    previous: KeysetStatement | None,
    *,
    now: datetime,
    lifetime: timedelta = KEYSET_LIFETIME,
) -> KeysetStatement:
    """Draft, unsigned, the statement after `previous` that says what `content` does.

    It is the first of the epoch of `content`, or the next version of that of `previous`.

    Raises:
        StatementRefused: What a verifier would refuse once everybody has signed.
    """
    version, prev, iat = 1, None, int(now.timestamp())
    if previous is not None and previous.epoch == content.epoch:
        version, prev = previous.version + 1, previous.digest
    exp = iat + int(lifetime.total_seconds())
    content = replace(content, version=version, prev=prev, iat=iat, exp=exp)
    statement = statements.draft_of(content)
    check_draft(statement, previous)
    return statement


def check_draft(statement: KeysetStatement, previous: KeysetStatement | None) -> None:
    """Check all of a step but its signatures.

    Raises:
        StatementRefused: As :func:`check_step`, but for ``statement.unsigned``.
    """
    bare = replace(statement, envelope=Envelope(TYP_KEYSET, statement.envelope.payload, ()))
    try:
        statements.check_step(bare, previous)
    except StatementRefused as refusal:
        if refusal.code != "statement.unsigned":  # the last thing that each of the checks asks
            raise


def _listed(
    record: KeyRecord, entry: IssuerKey | None, now: datetime, until: datetime
) -> IssuerKey:
    """Return the entry of a key; its times stay while they outlast the statement."""
    start, end = int(now.timestamp()), int((now + KEY_LIFETIME).timestamp())
    if entry is not None:
        start = entry.nbf
        end = entry.exp if entry.exp >= until.timestamp() else end
    holder = record.holder or (entry.holder if entry else DEFAULT_HOLDER)
    roles = tuple(role for role in ROTATING if role == record.role)
    return IssuerKey(record.public, roles, holder, start, end)


# A draft as a file, and whether the roots have to sign one.


def write_draft(statement: KeysetStatement) -> bytes:
    """Return a draft as a file: General JSON, like a statement, with its signatures so far."""
    return statement.envelope.to_bytes(indent=2)


def read_draft(untrusted_bytes: bytes) -> KeysetStatement:
    """Read a draft or a statement. No signature is verified.

    Raises:
        StatementRefused: As :func:`cardsign.statements.keyset.read_keyset`.
    """
    return statements.keyset_of(envelope.read_envelope(untrusted_bytes, TYP_KEYSET, is_draft=True))


def keyset_due(state: StoreState, previous: KeysetStatement, *, now: datetime) -> agenda.Renewal:
    """Say when the roots have to sign again: keys have changed, or a third of its time is left.

    Keys that have retired leave with the statement that is due for another reason. Until then each
    release names them as revoked, so the roots are not wanted for them alone.
    """
    ends = utc(previous.exp)
    due = utc(previous.exp - (previous.exp - previous.iat) // 3)  # roots are offline: in good time
    why = f"keyset {previous.label} ends at {second(ends)}"
    if changed := find_changed(state, previous, now):
        kids = ", ".join(key.kid for key in changed)
        why = f"keyset {previous.label} is out of date: {kids} changed since"
        due = min(due, max(map(_last_change, changed)))
    return agenda.Renewal(f"{previous.epoch}.{previous.version + 1}", due, ends, why)


def find_changed(
    state: StoreState, statement: KeysetStatement, now: datetime
) -> tuple[KeyRecord, ...]:
    """Return the keys of a store of which a statement says something else; no retired ones."""
    after = with_own_keys(statement, state, now=now, lifetime=timedelta())
    names = statement.revoked ^ after.revoked
    names |= {key.public.thumbprint for key in {*statement.keys} ^ {*after.keys}}
    names |= {key.public.thumbprint for key in {*statement.root.keys} ^ {*after.root.keys}}
    return tuple(key for key in state.keys if key.thumbprint in names and key.state != "retired")


def _last_change(key: KeyRecord) -> datetime:
    """Return when a key came into its state."""
    times = key.times
    return max(filter(None, (key.created, times.prepublished, times.activated, times.revoked)))


def draft_if_due(
    state: StoreState,
    previous: KeysetStatement,
    draft: KeysetStatement | None,
    *,
    now: datetime,
) -> KeysetStatement | None:
    """Return the next statement if one is due: the draft which is there, if that will do.

    That one follows the newest statement and, once signed, leaves nothing to say.

    Raises:
        StatementRefused: As :func:`draft_next`.
    """
    renewal = keyset_due(state, previous, now=now)
    if renewal.due > now:
        return None
    with suppress(StatementRefused):
        if draft is not None:
            check_draft(draft, previous)
            if keyset_due(state, draft, now=now).due > now:
                return draft
    # The draft says when it came to be due, unless that was too long ago.
    since = max(renewal.due, utc(previous.iat)).replace(microsecond=0)
    issued = now if since > now or now >= since + KEYSET_LIFETIME / 3 else since
    return draft_next(with_own_keys(previous, state, now=issued), previous, now=issued)


def find_additions(
    state: StoreState, previous: KeysetStatement, draft: KeysetStatement, *, now: datetime
) -> tuple[str, ...]:
    """Return what a draft changes besides what the key store has to say; nobody vouches for it.

    A person may have drafted it so, `cardsign keyset draft --add-root`, or a stranger may have put
    it there. A draft from a later time than `now` says that as well. Not checked: that it follows
    `previous`; see :func:`check_draft`.
    """
    # A key of ours that has retired since was still to be listed when the draft was made.
    listed = {key.public.thumbprint for key in draft.keys}
    over = [key for key in state.keys if key.state == "retired" and key.thumbprint in listed]
    ours, since = previous, utc(draft.iat)
    with suppress(StatementRefused):  # such as too few roots: only a person can fix that
        restored = state.replacing(key.at("retiring") for key in over)
        ours = draft_next(with_own_keys(previous, restored, now=since), previous, now=since)
    *content, times = differences(ours, draft)
    additions = tuple(change for change in content if not change.startswith("="))
    is_of_its_time = draft.exp == ours.exp and since <= now
    return additions if is_of_its_time else (*additions, times)


# What people draft, sign and keep.


def draft_keyset(
    work: Work,
    *,
    origins: Sequence[str] = (),
    add_roots: Sequence[RootKey] = (),
    remove_roots: Sequence[str] = (),
    threshold: int | None = None,
    recovery: Sequence[RootKey] = (),
    lifetime: timedelta = KEYSET_LIFETIME,
) -> KeysetStatement:
    """Draft the next statement: the key store's keys as they are now, and what people change.

    Nothing is written. What is not named stays as it is, so without changes it is a renewal.

    Args:
        work: The key store. Before its first statement every root key of it becomes a root, and
            the settings name the origin unless `origins` do.
        origins: Where interfaces may be; empty for the origins of the statement before.
        add_roots: Root keys to add.
        remove_roots: Holders whose root keys are removed.
        threshold: How many root holders must sign.
        recovery: Recovery keys that replace the earlier ones; any one of them is enough.
        lifetime: How long it is valid.

    Raises:
        UsageFault: The changes do not fit, or no verifier would take the statement;
            ``statement.not_yet``: the newest one is of later than `now`.
    """
    store, now = work.store, work.now
    previous = kept_keyset(store)
    check_begun(previous, now)
    own = (RootKey(key.public, key.holder or _OWNER) for key in store.state.active_keys("root"))
    first = KeysetStatement("", (work.config.issuer or "",), Quorum(1, tuple(own)))
    content = with_own_keys(previous or first, store.state, now=now, lifetime=lifetime)
    holders = {key.holder for key in content.root.keys}
    if unknown := [holder for holder in remove_roots if holder not in holders]:
        message = f"{unknown[0]!r} holds no root key, and so cannot be removed"
        hint = f"The holders are {', '.join(sorted(holders))}."
        raise UsageFault("usage.conflict", message, hint=hint)
    roots = [key for key in content.root.keys if key.holder not in remove_roots] + [*add_roots]
    if not origins and not any(content.origins):
        hint = "Name it: cardsign keyset draft --origin https://HOST"
        raise UsageFault("usage.conflict", "no origin of the issuer is known", hint=hint)
    with of_the_user("the origin"):
        allowed = tuple(str(parse_origin(origin)) for origin in origins or content.origins)
    content = replace(
        content,
        issuer=content.issuer or allowed[0].partition("://")[2],
        origins=allowed,
        root=Quorum(threshold or content.root.threshold, tuple(roots)),
        recovery=Quorum(1, tuple(recovery)) if recovery else content.recovery,
    )
    with of_the_user("the draft"):
        return draft_next(content, previous, now=now, lifetime=lifetime)


def check_begun(
    keyset: KeysetStatement | None, now: datetime, name: str = "the newest keyset here"
) -> None:
    """Refuse to follow a statement that was issued later than now.

    Raises:
        UsageFault: ``statement.not_yet``.
    """
    if keyset is not None:
        with of_the_user(name):
            envelope.check_past(keyset.iat, now, timedelta(), name=f"keyset {keyset.label}")


def review_keyset(work: Work, draft: KeysetStatement, *, name: str = "the draft") -> None:
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
    with _advising(work.store, draft, name):
        check_draft(draft, work.keyset)
    again = "Draft it again: cardsign keys rotate, or cardsign keyset draft."
    _check_still_right(work, draft, name, again)


def _check_still_right(work: Work, draft: KeysetStatement, name: str, hint: str) -> None:
    """Refuse a draft that does not say what has become of the keys of this store, or has ended.

    It may list a key that has retired since: it leaves with the next.

    Raises:
        UsageFault: ``rotate.draft``, or as :func:`check_in_force`.
    """
    if changed := find_changed(work.store.state, draft, utc(draft.iat)):
        changes = "; ".join(f"{key.named} is {key.state}" for key in changed)
        message = f"this draft was made before the key store changed: {changes}"
        raise UsageFault("rotate.draft", message, path=name, hint=hint)
    check_in_force(draft, name, work.now, "draft it again")


@contextmanager
def _advising(store: KeyStore, statement: KeysetStatement, name: str) -> Iterator[None]:
    """Say which statement a refusal is about, and how a store gets the keysets that it lacks."""
    try:
        yield
    except StatementRefused as refusal:
        hint = refusal.finding.fix
        if refusal.code == "statement.fork":
            kept = {keyset.number: keyset for keyset in store.state.keysets}[statement.number]
            hint = _FORKED.format(store.place_of(statement_blob(kept.blob)))
        elif refusal.code == "statement.gap":
            keep = f"cardsign keyset publish STATEMENT --keystore {shlex.quote(store.place)}"
            hint = f"Fetch the versions that are served one by one, and keep each: {keep}"
        raise StatementRefused(refusal.code, refusal.message, path=name, hint=hint) from refusal


def sign_keyset(
    work: Work,
    draft: KeysetStatement,
    *,
    digest: str,
    recovery: Callable[[], tuple[PrivateKey, bytes]] | None = None,
) -> KeysetStatement:
    """Add the signatures of this key store's holder to a draft.

    Args:
        work: The key store with root or recovery keys, and what opens them.
        draft: What :func:`review_keyset` has checked.
        digest: What the holder was told, over another channel.
        recovery: Opens a recovery key that is elsewhere, which signs instead of those of the
            store; called once the digest is the same.

    Raises:
        UsageFault: ``statement.digest``.
        SigningRefused: ``sign.no_key``.
    """
    if "".join(digest.split()).lower() != draft.digest:
        raise UsageFault("statement.digest", "this draft has another digest")
    able = list_able(draft, work.keyset)
    signers: Sequence[Signer] = [recovery()[0]] if recovery else open_signers(work, able)
    if not signers or any(signer.public.thumbprint not in able for signer in signers):
        message = "no key in this key store is among those that must sign this statement"
        hint = "See who has to: cardsign keyset show DRAFT."
        raise SigningRefused("sign.no_key", message, path=work.store.place, hint=hint)
    return with_signatures(draft, signers)


def list_able(draft: KeysetStatement, previous: KeysetStatement | None) -> set[str]:
    """Return the thumbprints of the keys that may sign a draft."""
    quorums = (signatures.quorum for signatures in statements.quorum_signatures(draft, previous))
    return {key.public.thumbprint for quorum in quorums for key in quorum.keys}


def with_signatures(statement: KeysetStatement, signers: Sequence[Signer]) -> KeysetStatement:
    envelope = statement.envelope
    signed = statements.sign_keyset(envelope.payload, signers, envelope.signatures)
    return statements.read_keyset(signed)


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
    store, data = work.store, write_draft(statement)
    is_new = statement.digest not in {kept.digest for kept in store.state.keysets}
    if is_new:
        with _advising(store, statement, name):
            statements.check_step(statement, kept_keyset(store))
        if is_overtaken:
            check_begun(statement, work.now + SKEW, name)
        else:
            both = f"Publish it with the keyset that says so: mv {name} {DRAFT_FILE}; {work.again}"
            _check_still_right(work, statement, name, both)
        if not is_root_holder(store):
            check_publishable(work, keyset=data)
    keep_keyset(store, statement, data, now=work.now)
    return is_new


def is_root_holder(store: KeyStore) -> bool:
    """Say whether a store has no release key, so that another one publishes."""
    return not any(key.role == "release" for key in store.state.keys)


# The gap of the statement that is due.


def find_keyset_gaps(work: Work) -> Iterator[Gap]:
    """Yield what the statement that is due lacks: its draft, signatures of roots here, others'."""
    newest = work.keyset
    steps = agenda.steps(work.store.state, work.config.timeline, work.now)
    ahead = [step for step in steps if step.action == "generate"]
    if newest is None or any(step.key.state != "active" or step.key.is_stolen for step in ahead):
        return  # the roots sign once, when the keys that take the places of revoked ones are made
    until = _keyset_needed_by(work, newest)
    # A key that is due to be made changes the draft.
    is_final = not any(step.is_due(work.now) for step in ahead) or until <= work.now + NOTICE
    for gap in _find_draft_gaps(work, newest, is_final=is_final):
        yield gap._replace(until=until, awaits_roots=True)


def _find_draft_gaps(work: Work, newest: KeysetStatement, *, is_final: bool) -> Iterator[Gap]:
    """Yield what the draft of the statement after the newest lacks, once one is due."""
    state, now, file = work.store.state, work.now, work.draft
    try:
        with of_the_user("the draft"):
            present = read_draft_file(file)
            draft = draft_if_due(state, newest, present, now=now)
    except (FileFault, UsageFault) as fault:
        who, message = "you", f"move {file} away, which is not a draft: {fault.message}"
        command = f"mv {shlex.quote(str(file))} ELSEWHERE && {work.again}"
        if fault.code.startswith("statement."):
            message = f"open a new epoch, since no keyset can follow this one: {fault.message}"
            who, command = "the holder of the recovery key", work.command(RECOVER)
        yield Gap(message, who, command)
        return
    if draft is None:
        return
    if draft is not present:
        write = partial(write_atomic, file, write_draft(draft), plain=True)
        yield Gap(f"draft keyset {draft.label}, and sign it with the root keys", close=write)
    elif additions := find_additions(state, newest, draft, now=now):
        message = (
            f"keyset {draft.label} in {file} has changes that nobody here has drafted: "
            f"{'; '.join(additions)}. Ask who drafted it, and sign it by the digest that they "
            "tell you; if nobody did, remove the file"
        )
        yield Gap(message, "each root holder", work.command(f"keyset show {file}"))
    else:
        yield from _find_missing_signatures(work, draft, newest, is_final=is_final)


def _keyset_needed_by(work: Work, newest: KeysetStatement) -> datetime:
    """Return when the next keyset is needed: as the newest ends, or what no key of it renews.

    Now, if no key of it signs cards, or verifiers still trust a key that was stolen.
    """
    keys, release = work.store.state.keys, work.release
    active = {key.thumbprint for key in keys if key.state == "active"}
    signing = {role for key in newest.keys if key.public.thumbprint in active for role in key.roles}
    lacking = {key.role for key in keys} - signing
    stolen = [key for key in keys if key.revoked_because == "compromised"]
    if "card" in lacking or find_still_trusted(work, stolen):
        return work.now
    ends = release.exp if release and "release" in lacking else newest.exp
    return utc(min(newest.exp, ends))


def _find_missing_signatures(
    work: Work, draft: KeysetStatement, newest: KeysetStatement, *, is_final: bool
) -> Iterator[Gap]:
    """Yield which roots have to sign: those that are here, and the holders of others.

    Who works here brings the root key. Holders elsewhere are asked once the draft is final.
    """
    message = f"sign keyset {draft.label}"
    if is_final:
        message += f", digest {draft.digest}"
    if work.now.timestamp() >= newest.exp:
        # Nobody renewed it, or this clock is ahead. A keyset of a wrong, later time would
        # be refused by all, and neither a keyset nor a recovery could follow it until then.
        message += f", if it is {day(work.now)}: keyset {newest.label} has ended by this machine's "
        message += "clock, which may be ahead"
        place = shlex.quote(work.roots.store.place) if work.roots else "DIR"
        sign = f"cardsign keyset sign {work.draft} --digest {draft.digest} --keystore {place}"
        yield Gap(message, "each root holder", f"{sign} && {work.again}")
        return
    able = list_able(draft, newest) - {signature.kid for signature in draft.envelope.signatures}
    asked = set[str | None]()
    for holder, root in _find_roots_here(work, able):
        asked.add(root.holder)
        close = partial(_sign_draft, work, holder, draft, root)
        yield Gap(message, root.holder or "the holder of the root key", close=close)
    yield from _find_roots_elsewhere(work, draft, newest, message, asked, is_final=is_final)


def _find_roots_elsewhere(
    work: Work,
    draft: KeysetStatement,
    newest: KeysetStatement,
    message: str,
    asked: Collection[str | None],
    *,
    is_final: bool,
) -> Iterator[Gap]:
    """Yield whose root keys are not on this machine, but for the holders who are asked already."""
    apart = work.roots.store if work.roots else None
    place = f"in {apart.place}" if apart else "here"
    if apart and not (has_roots(apart, newest) or has_roots(apart, draft)):
        apart = None  # it is the key store of other keys
    present = set() if apart else {key.holder for key in work.store.state.keys}
    for signing in statements.quorum_signatures(draft, newest):
        holders = {key.holder for key in signing.quorum.keys}.difference(signing.signed, asked)
        if not (signing.missing and holders):
            continue
        who = ", ".join(sorted(holders))
        if signing.missing < len(holders):
            who = f"{signing.missing} of these root holders: {who}"
        if ours := ", ".join(sorted(holders & present)):
            here = f"{message}, with the root key, which is not {place}"
            yield Gap(here, ours, work.command("keys rotate --root-keystore DIR"))
        if is_final and holders - present:
            sign = f"cardsign keyset sign {work.draft.name} --digest {draft.digest} --keystore DIR"
            send = f"{message}. Send {work.draft} to them, and the digest over another channel. "
            send += f"Each types, with their key store for DIR: {sign}. Then replace "
            yield Gap(f"{send}{work.draft} with the signed file", who)


def has_roots(store: KeyStore, keyset: KeysetStatement) -> bool:
    """Say whether a key store has a root key of a keyset."""
    listed = {root.public.thumbprint for root in keyset.root.keys}
    return not listed.isdisjoint(key.thumbprint for key in store.state.keys)


def _find_roots_here(work: Work, able: set[str]) -> Iterator[tuple[Work, KeyRecord]]:
    """Yield, for each key store on this machine, its first active key that is in `able`."""
    for holder in filter(None, (work, work.roots)):
        keys = (key for key in holder.store.state.keys if key.state == "active")
        if root := next((key for key in keys if key.thumbprint in able), None):
            yield holder, root


def _sign_draft(work: Work, holder: Work, draft: KeysetStatement, root: KeyRecord) -> list[str]:
    review_keyset(holder, draft)
    signed = sign_keyset(holder, draft, digest=draft.digest)
    write_atomic(work.draft, write_draft(signed), plain=True)
    return [f"signed keyset {draft.label} with {root.named}"]


def read_draft_file(file: Path) -> KeysetStatement | None:
    """Return the draft that is there; any other file is not followed or overwritten.

    Raises:
        UsageFault: ``rotate.draft``.
        FileFault: It cannot be read, or is a link.
    """
    try:
        return read_draft(read_bytes(file, max_bytes=envelope.MAX_STATEMENT_BYTES, plain=True))
    except FileMissing:
        return None
    except StatementRefused as refusal:
        raise UsageFault("rotate.draft", refusal.message, path=str(file)) from refusal


# The first epoch: an issuer's keys, statements and settings.


@dataclass(frozen=True, slots=True)
class IssuerPlan:
    """A new issuer, as it is to be set up.

    Attributes:
        folder: Gets the settings.
        keystore: Where the key store will be.
        origin: The https origin of the cards.
        card: The public card's file, relative to the folder; None: the settings name no card.
        alg: Of the card key.
        root_keystore: Where the root key will be; None: with the others.
        recovery_out: A new file for the recovery key; None: it is returned.
    """

    folder: Path
    keystore: StorePlace
    origin: str
    card: str | None = None
    alg: SigningAlg = "ES256"
    root_keystore: StorePlace | None = None
    recovery_out: Path | None = None

    def check(self) -> None:
        """Check that it can be set up, before anybody is asked for a passphrase.

        Raises:
            FileFault: ``file.exists``: the folder is set up already, or there is a key store.
            UsageFault: ``usage.conflict``: no issuer is named;
                ``card.interface_url``: no https origin, nor http on this machine;
                ``card.origin_mismatch``: the card has no interface there.
        """
        extends = is_taken(self.keystore) and _has_cards_alone(self.keystore)
        if self.has_settings and not extends:
            message = "this folder is set up already"
            hint = "Go on with its key store. If there never was one: cardsign keys generate, then "
            hint += "init again. Another issuer needs another folder."
            raise FileFault("file.exists", message, path=CONFIG_FILE, hint=hint)
        if not self.origin:
            hint = "Name its origin: cardsign init --issuer https://HOST"
            raise UsageFault("usage.conflict", "no issuer is named", hint=hint)
        with of_the_user("the issuer"):
            origin = parse_origin(self.origin)
            check_secure(origin)
        if self.card is not None:
            data = read_bytes(self.folder / self.card, max_bytes=MAX_CARD_BYTES)
            with of_the_user(self.card):
                origins = list_origins(Card.from_bytes(data).document)
            if origins and str(origin) not in origins:
                message = f"{self.card} has an interface at {origins[0]}, and --issuer is {origin}"
                raise UsageFault("card.origin_mismatch", message, hint="Correct one of them.")
        for place in {self.keystore, self.root_place}:
            if is_taken(place) and not (extends and place == self.keystore):
                message = f"{place} holds a key store with keys of an issuer"
                raise FileFault("file.exists", message, hint="Use another folder.")

    @property
    def has_settings(self) -> bool:
        """Whether the folder has settings, be it by a link that leads nowhere."""
        return os.path.lexists(self.folder / CONFIG_FILE)

    @property
    def root_place(self) -> StorePlace:
        """Where the root key will be, which may be with the others."""
        return self.root_keystore or self.keystore

    def list_shared(self, passphrases: RolePassphrases) -> tuple[Role, ...]:
        """Return the roles whose key has the passphrase of the card key and lies beside it."""
        roles: tuple[Role, ...] = ("root", "release")
        same = (role for role in roles if passphrases[role] == passphrases["card"])
        return tuple(role for role in same if role != "root" or self.root_place == self.keystore)


def _has_cards_alone(place: StorePlace) -> bool:
    """Return whether a key store has signed cards, and is nobody's issuer yet."""
    state = open_store(place).state
    return not state.keysets and all(key.role == "card" for key in state.keys)


def init_issuer(
    plan: IssuerPlan, passphrases: RolePassphrases, *, now: datetime, user: StoreUser | None = None
) -> tuple[KeysetStatement, bytes]:
    """Set up a folder with root, card, release and recovery keys and the first statements.

    A key store that is there keeps its card keys, and the first keyset statement lists them.

    Args:
        plan: What is set up.
        passphrases: Of the keys.
        now: The time, with its zone, in whole seconds.
        user: Whose key stores they are.

    Returns:
        The first keyset, and the recovery key as an encrypted PEM: where the plan names no file for
        it, the only copy.

    Raises:
        UsageFault, FileFault: As :meth:`IssuerPlan.check`.
        StoreFault: As a key store's operations.
        PassphraseFault: ``passphrase.unfit``: the recovery key has that of another key.
    """
    plan.check()
    own = passphrases.get("recovery")
    if own in [passphrases[role] for role in ("card", "root", "release")]:
        message = "the recovery key must have a passphrase of its own"
        hint = "Choose another one for the recovery key, so that a thief of one does not have both."
        raise errors.PassphraseFault("passphrase.unfit", message, hint=hint)
    recovery, text = make_recovery_key(own or passphrases["card"])
    algs: dict[Role, SigningAlg] = {"root": "ES256", "card": plan.alg, "release": "ES256"}
    store = create_store(plan.keystore, user)
    roots = store if plan.root_place == plan.keystore else create_store(plan.root_place, user)
    if store.state.active_keys("card"):
        del algs["card"]
    private = {role: PrivateKey.generate(alg) for role, alg in algs.items()}
    with _written(plan.recovery_out, text):
        for role, key in private.items():
            holding = roots if role == "root" else store
            holding.add_key(key, passphrases[role], now=now, role=role, holder=_OWNER)
    work = Work(store, now, access=Access.by_passphrase(passphrases["release"]))
    root = RootKey(private["root"].public, _OWNER)
    draft = draft_keyset(
        work,
        origins=(plan.origin,),
        add_roots=(root,) if roots is not store else (),  # else it is found in the store
        recovery=(RootKey(recovery.public, _OWNER),),
    )
    keyset = with_signatures(draft, [private["root"]])
    for holding in dict.fromkeys((store, roots)):
        keep_keyset(holding, keyset, write_draft(keyset), now=now)
    releases.sign_next_release(work, releases.ReleasePlan())
    write_settings(plan.folder, keyset.origins[0], plan.keystore, _PUBLICATION, plan.card)
    return keyset, text


def write_settings(
    folder: Path, origin: str, keystore: StorePlace, publish: str, card: str | None = None
) -> bool:
    """Write the settings of an issuer's folder, which name no database; False if it has some."""
    if os.path.lexists(folder / CONFIG_FILE):
        return False
    import tomlkit  # which nothing else here needs

    settings: dict[str, object] = {"format": 1, "issuer": origin}
    if isinstance(keystore, Path):
        settings["keystore"] = str(keystore)
    settings["publish"] = publish
    if card is not None:
        settings["card"] = [{"source": card, "signed": "signed.json"}]
    head = "# Settings for every cardsign command run in this folder; options override them.\n"
    write_atomic(folder / CONFIG_FILE, (head + tomlkit.dumps(settings)).encode(), plain=True)
    return True


# The next epoch.


def make_recovery_key(passphrase: bytes) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = PrivateKey.generate("ES256")
    return private, seal(private, passphrase)


def open_recovery_key(file: Path, passphrase: bytes) -> PrivateKey:
    """Open a recovery key that was printed or written by ``init``.

    Raises:
        FileFault: It cannot be read.
        LocalFault: As :func:`cardsign.keys.passphrases.open_envelope`.
    """
    data = read_bytes(file, max_bytes=MAX_ENVELOPE_BYTES)
    try:
        return open_envelope(data, passphrase)
    except errors.LocalFault as fault:
        fault.finding = fault.finding.at(str(file))
        raise


def recover(
    work: Work,
    recovery: Callable[[], tuple[PrivateKey, bytes]],
    *,
    passphrase: Callable[[str], bytes],
    digest: str | None = None,
    copies: Sequence[Path] = (),
    new_recovery_out: Path | None = None,
) -> tuple[KeysetStatement, KeyRecord]:
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
        copies: Files and folders with keysets that others have kept, instead of the published ones.
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
    previous, published = _find_newest(work, digest, copies)
    holder = previous.root.keys[0].holder
    old, secret = recovery()
    quorum = _find_recovery_keys(previous, old)
    missing = [role for role in ROTATING if all(key.role != role for key in store.state.keys)]
    # Everything is asked before anything is written, so that a slip leaves nothing half made.
    secrets, envelope = {role: passphrase(role) for role in (*missing, "root")}, b""
    for statement, data in published.items():
        keep_keyset(store, statement, data, now=now)
    lost = _replace_lost_keys(work, previous, {role: secrets[role] for role in missing})
    root = PrivateKey.generate("ES256")
    if new_recovery_out is not None:
        renewed, envelope = make_recovery_key(secret)
        quorum = Quorum(1, (RootKey(renewed.public, quorum.keys[0].holder),))
    roots = Quorum(1, (RootKey(root.public, holder),))
    lost |= {key.public.thumbprint for key in previous.root.keys}
    content = replace(previous, root=roots, recovery=quorum, revoked=frozenset(lost))
    content = replace(with_own_keys(content, store.state, now=now), epoch=previous.epoch + 1)
    with of_the_user("the draft"):
        draft = draft_next(content, previous, now=now)
    signed = with_signatures(draft, [old, root])
    with _written(new_recovery_out, envelope):
        record = store.add_key(root, secrets["root"], now=now, role="root", holder=holder)
    return signed, record


def _replace_lost_keys(
    work: Work, previous: KeysetStatement, passphrases: Mapping[OnlineRole, bytes]
) -> set[str]:
    """Make a key of each role that the store lacks; return the thumbprints of the lost keys."""
    for role, passphrase in passphrases.items():
        holder = next((key.holder for key in previous.keys if role in key.roles), None)
        private = PrivateKey.generate("ES256")
        work.store.add_key(private, passphrase, now=work.now, role=role, holder=holder)
    listed = {key.public.thumbprint for key in previous.keys} if passphrases else set()
    return listed - {key.thumbprint for key in work.store.state.keys}


def _find_recovery_keys(keyset: KeysetStatement, key: PrivateKey) -> Quorum:
    """Return the recovery keys of a statement; `key` has to be among them."""
    if keyset.recovery and keyset.recovery.holders(frozenset([key.public.thumbprint])):
        return keyset.recovery
    message = "this is not a recovery key of the newest statement"
    hint = "Name the file of one that it lists: cardsign keyset show --json."
    raise SigningRefused("sign.no_key", message, hint=hint)


@contextmanager
def _written(file: Path | None, envelope: bytes) -> Iterator[None]:
    """Write a recovery key into a new file, which goes again if nothing comes to name that key."""
    if file is not None:
        create_private(file, envelope)
    try:
        yield
    except errors.CardsignError:  # such as for a passphrase that was stolen
        if file is not None:
            remove(file)
        raise


def _find_newest(
    work: Work, digest: str | None, copies: Sequence[Path]
) -> tuple[KeysetStatement, Mapping[KeysetStatement, bytes]]:
    """Return the newest keyset, and those to keep: copies or published ones, where none is kept."""
    published = None
    if not work.keyset and (untrusted := load_statements(copies).untrusted_keysets):
        try:
            published = Issued(untrusted).checked(now=None)
        except errors.PublishRefused as refusal:
            hint = "Name each version after the first that you name, or the newest alone."
            raise UsageFault(refusal.code, refusal.message, hint=hint) from refusal
    elif not work.keyset:
        published = published_statements(work.config.publish)
    keysets_to_keep = published.keysets if published else {}
    own = "".join((digest or "").split()).lower()
    digests = {keyset.digest for keyset in keysets_to_keep or kept_keysets(work.store)}
    if digests and (own or keysets_to_keep) and own not in digests:
        message = "no keyset has this digest" if own else "no digest says whose keysets these are"
        hint = "Give the digest that `cardsign init` printed, or that of a verifier's trust.toml: "
        hint += f"{work.command(RECOVER)} --digest SHA-256"
        raise UsageFault("statement.digest", message, hint=hint)
    newest = published.newest if published else work.keyset
    if newest is None:
        message = "there is neither a key store nor a publication of this issuer here"
        hint = "Go to the issuer's folder, or name what is published: --publication DIR. If that "
        hint += "is lost, get the keysets from a verifier: --statements DIR."
        place = str(work.config.publish or work.store.place)
        raise errors.StoreFault("keystore.no_keyset", message, path=place, hint=hint)
    check_begun(newest, work.now)
    return newest, keysets_to_keep
