"""What the keys lack: due steps, keys that are to be made, and the keyset that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cardsign.errors import FileMissing, StoreFault, UsageFault, of_the_user
from cardsign.files import read_bytes, write_atomic
from cardsign.issuer.keyset import (
    KeysetDraft,
    draft_if_due,
    keyset_due,
    read_draft,
    review_keyset,
    says_more,
    sign_keyset,
)
from cardsign.issuer.publishing import name_keys_elsewhere
from cardsign.issuer.release import find_still_trusted
from cardsign.issuer.work import NOTICE, RECOVER, Gap, Work, key_holder
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.keys import PrivateKey
from cardsign.keys.agenda import Step, steps
from cardsign.keys.history import kept_keyset, kept_release
from cardsign.keys.ledger import ROTATING, KeyRecord, StoreState, passphrase_variable
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetStatement
from cardsign.times import day, utc

_PAST: Final = {"activate": "activated", "retire": "retired"}


# Keys.


def find_key_gaps(work: Work) -> Iterator[Gap]:
    """Yield every due step of a key, and every key that is to be made."""
    state, now = work.store.load(), work.now
    for step in steps(state, work.config.timeline, now):
        if not step.is_due(now):
            continue
        if step.action != "generate":
            yield Gap(step.what, close=partial(_take_step, work))
            continue
        if _has_turned(state, step, now):
            continue  # with waits of zero, one call would rotate again and again
        is_lost = step.key.state != "active"
        if is_lost and name_keys_elsewhere(work.store):
            continue  # another copy of this key store has made it
        if not step.key.custody.startswith("file:"):
            command = "cardsign keys import URI"
            yield Gap(f"{step.what} where the active one is", command=command)
            continue
        message = step.what
        if step.key.is_stolen:
            variable = passphrase_variable(step.role)
            message += f", under a new passphrase: type it when asked, or set {variable}"
        until, close = now if is_lost else None, partial(_make_key, work, step)
        yield Gap(message, key_holder(step.role), until=until, close=close)


def _has_turned(state: StoreState, step: Step, now: datetime) -> bool:
    """Say whether this call has made a key, let it sign, and taken the one before it away."""
    begun = now.replace(microsecond=0)
    line = [key for key in state.keys if step.role in key.roles and key.alg == step.key.alg]
    gone = [key.times.retired for key in line if key.state == "retired"]
    return any(at is not None and at >= begun for at in gone) and any(
        key.state == "active" and key.created >= begun for key in line
    )


def _take_step(work: Work) -> list[str]:
    taken = work.store.take_due_step(now=work.now, settings=work.config.timeline)
    if taken is None:
        return []
    done, state = [f"{_PAST[taken.action]} {taken.key.named}"], work.store.state
    if taken.action == "activate" and not (state.keysets or state.publications):
        done.append("sign your cards again, and hand out the key set: cardsign keys jwks")
    return done


def _make_key(work: Work, step: Step) -> list[str]:
    """Make the key that a step asks for, unless another process was faster.

    Raises:
        PassphraseFault: ``passphrase.wrong``: the passphrase is not that of the key before it.
        StoreFault: ``keystore.same_custody``: with this passphrase a thief would have it.
    """
    store, key = work.store, step.key
    access, seq = work.access_for(step.role), store.state.seq
    if key.private == "held" and not key.is_stolen:
        secret = access.passphrase(key.custody, store.name_custody(key))
        with suppress(FileMissing):  # a key whose file is not here cannot tell
            store.signer(key, secret)
    else:
        stolen = " (not the stolen one)" if key.is_stolen else ""
        secret = access.secrets("new passphrase", f"{step.role} keys{stolen}")
    alg = next(alg for alg in SIGNING_ALGORITHMS if alg == key.alg)
    private = PrivateKey.generate(alg)
    try:
        new = store.add_key(private, secret, now=work.now, roles=(step.role,), expect_seq=seq)
    except StoreFault as fault:
        if fault.code != "keystore.changed":
            raise
        return []  # another process was faster; what is still missing then is found again
    access.remember(new.custody, secret)
    return [f"made {new.named}, the next {new.alg} {step.role} key"]


# The keyset statement.


def find_keyset_gaps(work: Work) -> Iterator[Gap]:
    """Yield what the statement that is due lacks: its draft, signatures of roots here, others'."""
    state, newest, now = work.store.load(), kept_keyset(work.store), work.now
    if newest is None or not keyset_due(state, newest, now=now).is_due(now):
        return
    if _is_replacing(state, steps(state, work.config.timeline, now)):
        return  # the roots sign once, when the keys that take the places of revoked ones are made
    until, file = _keyset_needed_by(work, newest), work.draft
    try:
        with of_the_user("the draft"):
            drafted = draft_if_due(state, newest, read_draft_file(file), now=now)
    except UsageFault as fault:
        if not fault.code.startswith("statement."):
            raise
        message = f"open a new epoch, since no keyset can follow this one: {fault.message}"
        yield Gap(message, "the holder of the recovery key", RECOVER, until, awaits_roots=True)
        return
    if drafted is None:
        return
    statement, is_new = drafted
    draft = KeysetDraft(statement, newest)
    if is_new:
        message = f"draft keyset {draft.label}, and sign it with the root keys"
        close = partial(_write_draft, file, draft)
        yield Gap(message, until=until, close=close, awaits_roots=True)
    elif additions := says_more(state, newest, statement, now=now):
        message = (
            f"keyset {draft.label} in {file} has changes that nobody here has drafted: "
            f"{'; '.join(additions)}. Ask who drafted it, and sign it by the digest that they "
            "tell you; if nobody did, remove the file"
        )
        show = f"cardsign keyset show {file}"
        yield Gap(message, "each root holder", show, until, awaits_roots=True)
    else:
        yield from _find_missing_signatures(work, draft, newest, until)


def _is_replacing(state: StoreState, ahead: Sequence[Step]) -> bool:
    """Say whether a key is still to be made in the place of one that was revoked."""
    return any(step.action == "generate" and step.key.state != "active" for step in ahead)


def _keyset_needed_by(work: Work, newest: KeysetStatement) -> datetime:
    """Return when the next keyset is needed: as the newest ends, or what no key of it renews.

    Now, if no key of it signs cards, or verifiers still trust a key that was stolen.
    """
    keys = work.store.load().keys
    needed = [
        role
        for role in ROTATING
        if any(role in key.roles for key in keys)
        and not any(newest.lists(key.thumbprint, role) for key in keys if key.state == "active")
    ]
    stolen = [key for key in keys if key.revoked_because == "compromised"]
    if "card" in needed or find_still_trusted(work, stolen):
        return work.now
    release = kept_release(work.store) if "release" in needed else None
    return utc(min(newest.exp, release.exp if release else newest.exp))


def _find_missing_signatures(
    work: Work, draft: KeysetDraft, newest: KeysetStatement, until: datetime
) -> Iterator[Gap]:
    digest = draft.statement.digest
    message = f"sign keyset {draft.label}, digest {digest}"
    if work.now.timestamp() >= newest.exp:
        # Nobody renewed it, or this clock is ahead. A keyset of a wrong, later time would
        # be refused by all, and neither a keyset nor a recovery could follow it until then.
        message += (
            f", if it is {day(work.now)}: keyset {newest.label} has "
            "ended by this machine's clock, which may be ahead"
        )
        # What a root holder types, whose key store is DIR.
        sign = f"cardsign keyset sign {work.draft} --digest {digest} --keystore DIR && {work.again}"
        yield Gap(message, "each root holder", sign, awaits_roots=True)
        return
    asked: set[str] = set()
    for holder in (work, work.roots):
        if holder is not None and (here := _roots_here(holder, draft)):
            who = here[0].holder or "the holder of the root key"
            asked.add(who)
            close = partial(_sign_draft, work, holder, draft, here[0])
            yield Gap(message, who, until=until, close=close, awaits_roots=True)
    yield from _ask_roots(work, draft, message, asked, until)


def _write_draft(file: Path, draft: KeysetDraft) -> list[str]:
    write_atomic(file, draft.data, plain=True)
    return []


def _roots_here(holder: Work, draft: KeysetDraft) -> list[KeyRecord]:
    """Return the root keys of a holder that have yet to sign a draft."""
    signed = {signature.kid for signature in draft.statement.envelope.signatures}
    able = {key.public.thumbprint for signing in draft.signings for key in signing.quorum.keys}
    keys = holder.store.load().keys
    return [key for key in keys if key.thumbprint in able - signed and key.state == "active"]


def _sign_draft(work: Work, holder: Work, draft: KeysetDraft, root: KeyRecord) -> list[str]:
    digest = draft.statement.digest
    signed = sign_keyset(holder, review_keyset(holder, draft.statement), digest=digest)
    write_atomic(work.draft, signed.data, plain=True)
    return [f"signed keyset {draft.label} with {root.named}"]


def _ask_roots(
    work: Work, draft: KeysetDraft, message: str, asked: set[str], until: datetime
) -> Iterator[Gap]:
    """Yield which root holders have to sign; who works here brings the root key.

    Holders elsewhere are asked once the draft is final: a key that is due to be made changes it.
    """
    ahead = steps(work.store.state, work.config.timeline, work.now)
    is_final = not any(step.action == "generate" and step.is_due(work.now) for step in ahead)
    is_final |= until <= work.now + NOTICE
    absent = set() if work.roots else {key.holder for key in work.store.state.keys}
    sign = f"cardsign keyset sign {work.draft.name} --digest {draft.statement.digest}"
    sent = (
        f"{message}. Send {work.draft} to them, and the digest over another channel. Each types, "
        f"with their key store for DIR: {sign} --keystore DIR. Put the signed file in the place of "
        f"{work.draft}"
    )
    for signing in draft.signings:
        holders = {key.holder for key in signing.quorum.keys} - signing.signed - asked
        others = sorted(holders - absent) if is_final and signing.missing else []
        is_choice = bool(others) and signing.missing < len(holders)
        ours = sorted(holders & absent) if signing.missing and not is_choice else []
        if ours:
            command = f"{work.again} --root-keystore DIR"
            here = f"{message}, with the root key, which is not here"
            yield Gap(here, ", ".join(ours), command, until, awaits_roots=True)
        if others:
            who = ", ".join(others)
            if is_choice:
                who = f"{signing.missing} of these root holders: {', '.join(sorted(holders))}"
            yield Gap(sent, who, "", until, awaits_roots=True)


def read_draft_file(file: Path) -> bytes | None:
    """Return the draft that is there; any other file is not read, followed or overwritten.

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
