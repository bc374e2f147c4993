"""What an issuer lacks, in the order in which one thing allows the next.

A gap is found from the key store, the project and what is published; nothing is changed or opened
to find it. So `keys doctor` may look, and any number of hosts may close the same gap: who comes
second finds it closed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cardsign.errors import (
    FileFault,
    FileMissing,
    PassphraseFault,
    PublishRefused,
    ServeFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes, write_atomic
from cardsign.issuer.adoption import find_adoption_gap, name_keys_elsewhere
from cardsign.issuer.cards import find_card_gaps, find_ending_cards
from cardsign.issuer.keyset import KeysetDraft, accept_keyset, review_keyset, sign_keyset
from cardsign.issuer.publishing import (
    check_ours,
    explain_trust,
    find_live_gap,
    find_removal_gap,
    find_update_gap,
    newest_generation,
    still_trusted,
)
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.release import find_release_gap
from cardsign.issuer.work import NOTICE, Gap, Progress, Work, key_holder
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, SigningAlg
from cardsign.jose.keys import PrivateKey, short_kid
from cardsign.keys import lifecycle
from cardsign.keys.agenda import Step, steps
from cardsign.keys.drafts import (
    draft_if_due,
    keyset_due,
    quorum_signatures,
    read_draft,
    says_more,
)
from cardsign.keys.history import (
    awaits_recovery,
    follow_events,
    has_ended,
    kept_keyset,
    kept_keysets,
    kept_release,
    stolen_with,
    unlisted_roots,
)
from cardsign.keys.model import KeyRecord, StoreState
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetStatement, OnlineRole, check_step
from cardsign.times import day, utc

ADD_ROOT: Final = "cardsign keyset draft --add-root HOLDER=KEY"
_PAST = {
    "activate": "activated",
    "retire": "retired",
}


def find_gaps(work: Work, *, only_cards: bool = False) -> Iterator[Gap]:
    """Yield what is missing; a caller that closes a gap asks anew.

    Args:
        work: What is looked at.
        only_cards: Look at the cards alone, and leave the keys as they are.
    """
    store = work.store
    stranger, has_forked = _find_stranger(work)
    adoption = [] if stranger else [*find_adoption_gap(work)]
    if stranger or adoption:
        yield from (*stranger, *adoption)
        yield from find_removal_gap(work)
        if adoption or has_forked:
            return  # another statement of a number that is taken would be a fork
        work = replace(work, config=replace(work.config, publish=None))
    state, keyset = store.load(), kept_keyset(store)
    if has_ended(state, keyset):
        yield from _find_key_gaps(work)
        yield from find_update_gap(work)
        return
    if keyset is not None and not only_cards:
        yield from _find_unkept_keysets(work)
        yield from _find_followers(work)
    is_recovering = keyset is not None and awaits_recovery(state, keyset)
    if keyset is not None and (is_recovering or not only_cards):
        yield from _find_unlisted_roots(state, keyset)
    yield from _find_untold_revocations(work, is_recovering=is_recovering)
    if not is_recovering:
        if not only_cards:
            yield from _find_key_gaps(work)
            yield from _find_keyset_gaps(work)
        yield from find_card_gaps(work, is_astray=bool(stranger))
        yield from find_ending_cards(work)
    yield from find_live_gap(work)
    yield from _find_endangered(work)


def foresee(work: Work) -> Progress:
    """Return what is ahead of the keys and of the keyset."""
    state, keyset = work.store.load(), kept_keyset(work.store)
    settings, renewal = work.config.timeline, None
    if keyset and not has_ended(state, keyset) and not awaits_recovery(state, keyset):
        renewal = keyset_due(state, keyset, now=work.now)
    return Progress(ahead=steps(state, settings, work.now), renewal=renewal)


# What is published, and not by this key store, or further than it has come.


def _find_stranger(work: Work) -> tuple[list[Gap], bool]:
    """Return the gap where what is published is not ours, and whether the roots have forked."""
    try:
        check_ours(work)
    except (UsageFault, ServeFault, FileFault) as fault:
        move = f"mv {shlex.quote(str(work.config.publish))} ELSEWHERE && {work.again}"
        message = "find out who wrote what is published, and move it away if nobody here did"
        return [Gap(f"{message}: {fault.message}", command=move)], False
    except PublishRefused as fault:
        message = f"go on with the key store that has published: {fault.message}"
        return [Gap(message, command="cardsign keys rotate --keystore DIR")], True
    return [], False


def _find_unkept_keysets(work: Work) -> Iterator[Gap]:
    """Yield a statement that enough roots have signed, and that a key store here lacks.

    It is no draft any more, whatever became of the keys since. Somebody may hold it, so another one
    of its number would be a fork. The one after it says what has changed. Each holder keeps what
    the next draft is held against.
    """
    holders = [(work, "")]
    if work.roots is not None:
        holders.append((work.roots, " in the key store of the root keys"))
    statements = [keyset for holder, _ in holders for keyset in kept_keysets(holder.store)]
    # What is wrong with the file is said once a draft is due, which would go there.
    with suppress(FileFault, UsageFault):
        untrusted_draft = read_draft_file(work.draft)
        statements += [] if untrusted_draft is None else [read_draft(untrusted_draft)]
    for holder, where in holders:
        for statement in statements:
            with suppress(StatementRefused):
                check_step(statement, kept_keyset(holder.store))
                close = partial(_accept_keyset, holder, statement, where)
                yield Gap(f"keep keyset {statement.label}{where}", close=close)


def _accept_keyset(holder: Work, statement: KeysetStatement, where: str) -> list[str]:
    is_new = accept_keyset(holder, statement, name=str(holder.draft), is_overtaken=True)
    return [f"kept keyset {statement.label}{where}"] if is_new else []


def _find_followers(work: Work) -> Iterator[Gap]:
    """Yield that keys are not as the newest keyset says."""
    if follow_events(work.store, work.store.load(), work.now):
        yield Gap("bring the keys up to date with the newest keyset", close=partial(_follow, work))


def _follow(work: Work) -> list[str]:
    work.store.commit(lambda state: follow_events(work.store, state, work.now), now=work.now)
    return []


def _find_unlisted_roots(state: StoreState, keyset: KeysetStatement) -> Iterator[Gap]:
    """Yield that a recovery was begun and is not published: until then the old roots count."""
    for root in unlisted_roots(state, keyset):
        message = f"publish the keyset that lists {root.named}, or draft one with --add-root; "
        message += "revoke the key if nobody wants it"
        yield Gap(message, command="cardsign keyset publish FILE")


# Revocations come before everything else: told by a release, and by a key set without the keys.


def _find_untold_revocations(work: Work, *, is_recovering: bool) -> Iterator[Gap]:
    """Yield the revoked keys that verifiers still trust, and what tells them."""
    state = work.store.load()
    revoked = [key for key in state.keys if key.state == "revoked"]
    trusted = still_trusted(work, revoked)
    why, command = explain_trust(work, trusted) if trusted else ("", "")
    gaps = [] if is_recovering else _tell_verifiers(work, revoked, trusted)
    for gap in gaps[:1]:  # it tells the verifiers
        yield gap._replace(why=why or gap.why, until=work.now)
    yield from gaps[1:]
    if trusted and not any(gap.close for gap in gaps):
        yield Gap(why, command=command, until=work.now)
    thumbprints = [key.thumbprint for key in revoked if key not in trusted]
    if is_recovering:
        return
    if ended := lifecycle.end_told_releases(state, thumbprints, now=work.now):
        names = ", ".join(state.find(str(event["key"])).named for event in ended)
        yield Gap(f"revoke {names}", close=partial(_end_releases, work, thumbprints, names))


def _tell_verifiers(
    work: Work, revoked: Sequence[KeyRecord], trusted: Sequence[KeyRecord]
) -> list[Gap]:
    """Return the release and the key set that are missing."""
    gaps = [*find_release_gap(work)] if trusted else []
    newest = newest_generation(work.config.publish)
    if trusted or (newest and not {key.kid for key in revoked}.isdisjoint(newest.kids)):
        gaps += find_update_gap(work)
    return gaps


def _end_releases(work: Work, thumbprints: Sequence[str], names: str) -> list[str]:
    work.store.apply(lifecycle.end_told_releases, thumbprints, now=work.now)
    return [f"revoked {names}"]


def _find_endangered(work: Work) -> Iterator[Gap]:
    """Yield the keys that a thief may have taken with a stolen one, until each has ended."""
    state, keyset = work.store.load(), kept_keyset(work.store)
    if has_ended(state, keyset):
        return
    others, only = stolen_with(state, keyset)
    if names := ", ".join(key.named for key in others if "release" in key.roles):
        message = (
            f"revoke {names}: not done, since it has to sign the release that revokes the others"
        )
        yield Gap(message, key_holder("release"), work.again)
    if names := ", ".join(key.named for key in others if not key.rotates):
        message = f"{names} may be stolen too: sign the next keyset with other root keys"
        yield Gap(message, command=work.again)
    if keyset and only and not unlisted_roots(state, keyset):  # else a recovery waits already
        yield _replace_roots(state, keyset, only)


def _replace_roots(state: StoreState, keyset: KeysetStatement, roots: Sequence[KeyRecord]) -> Gap:
    """Return the gap of roots that may be stolen, and without which nothing can be signed."""
    stolen = [short_kid(key.kid) for key in state.keys if key.revoked_because == "compromised"]
    beside = f", stored with {', '.join(stolen)}" if stolen else ""
    message = f"{', '.join(key.named for key in roots)}{beside}, may be stolen too; "
    message += "without it no keyset can be signed"
    if keyset.recovery:
        message += ", so the recovery key has to open a new epoch"
        return Gap(message, "the holder of the recovery key", RECOVER)
    message += ", and there is no recovery key: list another root, then revoke this one"
    return Gap(message, command=ADD_ROOT)


# Keys.


def _find_key_gaps(work: Work) -> Iterator[Gap]:
    """Yield every due step of a key, and every key that is to be made."""
    state, now = work.store.load(), work.now
    for step in steps(state, work.config.timeline, now):
        if not step.is_due(now):
            continue
        if step.key is not None:
            yield Gap(step.what, close=partial(_take_step, work))
            continue
        if _has_turned(_line_of(state, step), now):
            continue  # with waits of zero this would go on for ever
        message = f"make the next {step.alg} {step.role} key"
        is_lost = not any(key.alg == step.alg for key in state.active_keys(step.role))
        if is_lost and name_keys_elsewhere(work.store):
            continue  # another copy of this key store has made it
        if is_made_here(state, step):
            close = partial(_make_key, work, step)
            until, command = now if is_lost else None, ""
            if any(key.is_stolen for key in _keys_before(state, step)):
                message += ", under a passphrase that the thief does not have"
                command = f"CARDSIGN_{step.role.upper()}_PASSPHRASE='A NEW ONE' {work.again}"
            yield Gap(message, key_holder(step.role), command, until, close)
        else:
            command = "cardsign keys import URI"
            yield Gap(f"{message} where the active one is", command=command)


def is_replacing(state: StoreState, ahead: Sequence[Step]) -> bool:
    """Say whether a key is still to be made in the place of one that was revoked."""
    return any(
        step.action == "generate"
        and not any(key.alg == step.alg for key in state.active_keys(step.role))
        for step in ahead
    )


def is_made_here(state: StoreState, step: Step) -> bool:
    """Say whether the keys before the next one are sealed in the key store."""
    return all(key.custody.startswith("file:") for key in _keys_before(state, step))


def _keys_before(state: StoreState, step: Step) -> list[KeyRecord]:
    """Return the active keys that a new one follows, or the last that was."""
    line = _line_of(state, step)
    active = [key for key in line if key.state == "active"]
    used = [key for key in line if key.times.activated is not None]
    return active or used[-1:]


def _line_of(state: StoreState, step: Step) -> list[KeyRecord]:
    return [key for key in state.keys if step.role in key.roles and key.alg == step.alg]


def _has_turned(line: Sequence[KeyRecord], now: datetime) -> bool:
    """Say whether this call has made a key, let it sign, and taken the one before it away."""
    begun = now.replace(microsecond=0)
    gone = [key.times.retired for key in line if key.state == "retired"]
    return any(at is not None and at >= begun for at in gone) and any(
        key.state == "active" and key.created >= begun for key in line
    )


def _take_step(work: Work) -> list[str]:
    taken = work.store.tick(now=work.now, settings=work.config.timeline)
    if taken is None or taken.key is None:
        return []
    done = [f"{_PAST[taken.action]} {taken.key.named}"]
    state = work.store.state
    if taken.action == "activate" and not (state.keysets or state.publications):
        done.append("sign your cards again, and hand out the key set: cardsign keys jwks")
    return done


def _make_key(work: Work, step: Step) -> list[str]:
    key = make_successor(work, step)
    return [] if key is None else [f"made {key.named}, the next {step.alg} {step.role} key"]


def make_successor(
    work: Work,
    step: Step,
    *,
    new_key: Callable[[SigningAlg], PrivateKey] = PrivateKey.generate,
) -> KeyRecord | None:
    """Make the key that a step asks for; None if another process was faster.

    Raises:
        PassphraseFault: ``passphrase.wrong``: the passphrase is not that of the key before it.
        StoreFault: ``keystore.same_custody``: with this passphrase a thief would have it.
    """
    store, secret, seq = work.store, work.passphrase(step.role), work.store.state.seq
    for key in _keys_before(store.state, step):
        if key.custody.startswith("file:") and not key.is_stolen:
            _check_opens(store, key, secret)
    state = store.load()
    if step not in steps(state, work.config.timeline, work.now):
        return None
    alg = next(alg for alg in SIGNING_ALGORITHMS if alg == step.alg)
    return store.add_key(new_key(alg), secret, now=work.now, roles=(step.role,), expect_seq=seq)


def _check_opens(store: KeyStore, key: KeyRecord, passphrase: bytes) -> None:
    """Check that a passphrase is that of a key; one whose file is not here cannot tell."""
    try:
        store.signer(key, passphrase)
    except FileMissing:
        return
    except PassphraseFault as fault:
        role = " and ".join(key.roles)
        message = (
            f"this is not the passphrase of {key.named}, which the next {role} key is to have too"
        )
        raise PassphraseFault(fault.code, message) from fault


# The keyset statement.


def _find_keyset_gaps(work: Work) -> Iterator[Gap]:
    """Yield what the statement that is due lacks: its draft, signatures of roots here, others'."""
    state, newest, now = work.store.load(), kept_keyset(work.store), work.now
    if newest is None or not keyset_due(state, newest, now=now).is_due(now):
        return
    if is_replacing(state, steps(state, work.config.timeline, now)):
        return  # the roots sign once, when the keys that take the places of revoked ones are made
    until, file = _keyset_wanted_by(work, newest), work.draft
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
            f"ask who drafted keyset {draft.label} in {file}, and sign it by the digest that "
            "they tell you; remove the file if nobody did. It says what nobody here has "
            "drafted: " + "; ".join(additions)
        )
        show = f"cardsign keyset show {file}"
        yield Gap(message, "each root holder", show, until, awaits_roots=True)
    else:
        yield from _find_missing_signatures(work, draft, newest)


def _keyset_wanted_by(work: Work, newest: KeysetStatement) -> datetime:
    """Return when the next keyset is wanted: as the newest ends, or what no key of it renews.

    Now, if no key of it signs cards, or verifiers still trust a key that was stolen.
    """
    keys = work.store.load().keys
    roles: tuple[OnlineRole, ...] = ("card", "release")
    signing = [key for key in keys if key.state == "active"]
    needed = [
        role
        for role in roles
        if any(role in key.roles for key in keys)
        and not any(newest.lists(key.thumbprint, role) for key in signing)
    ]
    stolen = [key for key in keys if key.revoked_because == "compromised"]
    if "card" in needed or still_trusted(work, stolen):
        return work.now
    release = kept_release(work.store) if "release" in needed else None
    return utc(min(newest.exp, release.exp if release else newest.exp))


def _find_missing_signatures(
    work: Work, draft: KeysetDraft, newest: KeysetStatement
) -> Iterator[Gap]:
    digest, until = draft.statement.digest, _keyset_wanted_by(work, newest)
    message = f"sign keyset {draft.label}, digest {digest}"
    # What a root holder types, whose key store is DIR.
    sign = f"cardsign keyset sign {work.draft} --digest {digest} --keystore DIR && {work.again}"
    if work.now.timestamp() >= newest.exp:
        # Nobody renewed it, or this clock is ahead. A keyset of a wrong, later time would
        # be refused by all, and neither a keyset nor a recovery could follow it until then.
        message += (
            f", if it is {day(work.now)}: keyset {newest.label} has "
            "ended by this machine's clock, which may be ahead"
        )
        yield Gap(message, "each root holder", sign, awaits_roots=True)
        return
    asked: set[str] = set()
    for holder in (work, work.roots):
        if holder is not None and (here := _roots_here(holder, draft)):
            who = here[0].holder or "who holds the root key"
            asked.add(who)
            close = partial(_sign_draft, work, holder, draft, here[0])
            yield Gap(message, who, until=until, close=close, awaits_roots=True)
    yield from _ask_roots(work, draft, message, asked, until)


def _write_draft(file: Path, draft: KeysetDraft) -> list[str]:
    untrusted_draft, signed = read_draft_file(file), set[str]()
    if untrusted_draft is not None:
        earlier = read_draft(untrusted_draft)
        if earlier.number == draft.statement.number:
            signed.update(*(quorum.signed for quorum in quorum_signatures(earlier, draft.previous)))
    write_atomic(file, draft.data, plain=True)
    names = " and ".join(sorted(signed))
    return [f"drafted keyset {draft.label} anew; {names} must sign it again"] if signed else []


def _roots_here(holder: Work, draft: KeysetDraft) -> list[KeyRecord]:
    """Return the root keys of a holder that have yet to sign a draft."""
    signed = {signature.kid for signature in draft.statement.envelope.signatures}
    able = {key.public.thumbprint for signing in draft.signings for key in signing.quorum.keys}
    keys = holder.store.load().keys
    return [key for key in keys if key.thumbprint in able - signed and key.state == "active"]


def _sign_draft(work: Work, holder: Work, draft: KeysetDraft, root: KeyRecord) -> list[str]:
    digest = draft.statement.digest
    try:
        signed = sign_keyset(holder, review_keyset(holder, draft.statement), digest=digest)
    except PassphraseFault as fault:
        message = f"{fault.message}; set CARDSIGN_ROOT_PASSPHRASE"
        raise PassphraseFault(fault.code, message) from fault
    write_atomic(work.draft, signed.data, plain=True)
    return [f"signed keyset {draft.label} with {root.named}"]


def _ask_roots(
    work: Work, draft: KeysetDraft, message: str, asked: set[str], until: datetime
) -> Iterator[Gap]:
    """Yield which root holders have to sign; who works here brings the root key.

    Holders elsewhere are asked once the draft is final: a key that is due to be made changes it.
    """
    now = work.now
    absent = set() if work.roots else {key.holder for key in work.store.state.keys}
    ahead = steps(work.store.state, work.config.timeline, now)
    is_final = not any(step.action == "generate" and step.is_due(now) for step in ahead)
    is_final |= until <= now + NOTICE
    for signing in draft.signings:
        holders = {key.holder for key in signing.quorum.keys} - signing.signed - asked
        ours = sorted(holders & absent)
        others = sorted(holders - absent) if is_final else []
        if not signing.missing:
            continue
        if others and signing.missing < len(holders):
            who = f"{signing.missing} of these root holders: {', '.join(sorted(holders))}"
            yield Gap(f"{message}. {_send(draft, work.draft)}", who, "", until, awaits_roots=True)
            continue
        if ours:
            command = f"{work.again} --root-keystore DIR"
            here = f"{message}, with the root key, which is not here"
            yield Gap(here, ", ".join(ours), command, until, awaits_roots=True)
        if others:
            sent = f"{message}. {_send(draft, work.draft)}"
            yield Gap(sent, ", ".join(others), "", until, awaits_roots=True)


def _send(draft: KeysetDraft, file: Path) -> str:
    """Say how a draft comes to the holders of root keys elsewhere, and back."""
    sign = f"cardsign keyset sign {file.name} --digest {draft.statement.digest} --keystore DIR"
    return (
        f"Send {file} to them, and the digest over another channel. Each types, with their key "
        f"store for DIR: {sign}. Put the signed file in the place of {file}"
    )


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
