"""A rotation in one call: keys, keyset, cards, release and publication, each when it is due.

Cut off anywhere and called again, it goes on. It stops at what needs a person, and says who, what
and until when.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.errors import (
    FileFault,
    FileMissing,
    PassphraseFault,
    PublishRefused,
    ServeFault,
    StoreFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes, write_atomic
from cardsign.issuer.cards import renew_cards, update
from cardsign.issuer.keyset import (
    KeysetDraft,
    publish_keyset,
    review_keyset,
    sign_keyset,
)
from cardsign.issuer.publishing import check_ours, explain_trust, still_trusted
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.release import take_up_published
from cardsign.issuer.tasks import (
    NEEDS_A_PERSON,
    Progress,
    Task,
    Work,
    end_of,
    key_holder,
)
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, SigningAlg
from cardsign.jose.keys import PrivateKey, short_kid
from cardsign.keys.drafts import draft_if_due, keyset_due, read_draft, says_more
from cardsign.keys.history import (
    StatementHistory,
    awaits_recovery,
    follow_keyset,
    has_ended,
    kept_keyset,
    stored_with_stolen,
    unlisted_roots,
)
from cardsign.keys.model import KeyRecord, RevocationReason, same_custody
from cardsign.keys.rotation import Step, steps
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetStatement, check_step
from cardsign.times import day

ADD_ROOT: Final = "cardsign keyset draft --add-root HOLDER=KEY"
_PAST = {
    "activate": "activated",
    "retire": "retired",
    "destroy": "destroyed the private key of",
}


def rotate_keys(work: Work, *, only_cards: bool = False) -> Progress:
    """Do all that is due, and say what needs a person.

    That is: publish a draft that enough have signed; take every due step of the keys; make their
    successors; draft the next keyset, sign it with the root keys that are here and publish it;
    sign the cards again; renew the release; publish.

    Args:
        work: What it may use. Where the settings name no cards, those that are published are
            signed again.
        only_cards: Leave the keys as they are: build, sign, list and publish the cards.

    Raises:
        StoreFault, FileFault, UsageFault: As the single steps; what was done stays done.
    """
    leave_out_strangers(work)
    progress = rotate(work, only_cards=only_cards)
    if has_ended(work.store.load(), kept_keyset(work.store)):
        return progress
    progress = warned(work, progress, work.store.state.keys)
    return replace(progress, left=(*progress.left, *endangered(work)))


def leave_out_strangers(work: Work) -> None:
    """Publish nothing where what is published is not ours, and say so; go on with the rest."""
    folder = work.config.publish
    try:
        check_ours(work)
    except (UsageFault, ServeFault, FileFault) as fault:
        move = f"mv {shlex.quote(str(folder))} ELSEWHERE; then {work.again}"
        what = "find out who wrote what is published, and move it away if nobody here did"
        what += f": {fault.message}"
    except PublishRefused as fault:
        move, work.is_forked = "cardsign keys rotate --keystore DIR", True
        what = f"go on with the key store that has published: {fault.message}"
    else:
        return
    work.astray = (Task("you", what, move),)
    work.config = replace(work.config, publish=None)


def rotate(work: Work, *, only_cards: bool = False) -> Progress:
    """Everything, in the order in which one step allows the next."""
    store = work.store
    if has_ended(store.load(), kept_keyset(store)):
        _step_keys(work)
        update(work)
        work.left.clear()  # nobody is to sign any more
        work.done.append("this issuer has ended; no statement follows")
    elif not work.is_forked:
        if not only_cards:
            _publish_signed(work)
        # A key that is made before a recovery has come to its end would not be in its statement.
        keyset = kept_keyset(store)
        is_recovering = keyset is not None and awaits_recovery(store.load(), keyset)
        if not only_cards or is_recovering:
            _ask_for_recovery(work)
        if not only_cards and not is_recovering:
            _step_keys(work)
            _renew_keyset(work)
            _step_keys(work)  # a key that the roots have listed just now may be due
        if not is_recovering:
            renew_cards(work)
    left = tuple(dict.fromkeys((*work.astray, *work.left)))
    return replace(foresee(work), done=tuple(work.done), left=left)


def foresee(work: Work) -> Progress:
    """Return what is ahead of the keys and of the keyset, and do nothing."""
    state, keyset = work.store.load(), kept_keyset(work.store)
    settings, renewal = work.config.timeline, None
    if keyset and not has_ended(state, keyset) and not awaits_recovery(state, keyset):
        renewal = keyset_due(state, keyset, now=work.now, settings=settings)
    return Progress((), (), steps(state, settings, work.now), renewal)


def warned(work: Work, progress: Progress, records: Sequence[KeyRecord]) -> Progress:
    """Add which revoked keys verifiers still trust, and until when if nobody goes on."""
    release, until = StatementHistory.of(work.store).newest_release(), work.keyset_ends
    kept: dict[datetime | None, list[KeyRecord]] = {}
    for key in still_trusted(work, records):
        end = until
        if end and (sooner := end_of(release)) and "release" not in key.roles:
            end = min(end, sooner)  # only the holder of a release key can prolong that
        kept.setdefault(end, []).append(key)
    told: list[Task] = []
    for end, keys in kept.items():
        what, command = explain_trust(work, keys)
        told.append(Task("you", what, progress.left[0].command if progress.left else command, end))
    return replace(progress, left=(*progress.left, *told))


def endangered(work: Work) -> Iterator[Task]:
    """The keys that a thief may have taken with a stolen one, until each has ended."""
    state, keyset = work.store.load(), kept_keyset(work.store)
    others, only = stored_with_stolen(state, keyset)
    stolen = ", ".join(
        short_kid(key.kid)
        for key in state.keys
        if key.revoked_because == "compromised"
        and any(same_custody(key, other) for other in (*others, *only))
    )
    if others:
        names = ", ".join(key.named for key in others)
        what = f"also stored with {stolen}, so perhaps stolen too: {names}"
        yield Task("you", what, revoke_command(work, "compromised", others))
    if keyset and only and not unlisted_roots(state, keyset):  # else a recovery waits already
        names = ", ".join(key.named for key in only)
        what = f"{names} was stored with {stolen} too; without it no keyset can be signed"
        if keyset.recovery:
            who, command = "the holder of the recovery key", RECOVER
            what += ", so the recovery key has to open a new epoch"
        else:
            who, command = "you", ADD_ROOT
            what += ", and there is no recovery key: list another root, then revoke this one"
        yield Task(who, what, command)


def revoke_command(work: Work, reason: RevocationReason, records: Sequence[KeyRecord]) -> str:
    """The command that revokes keys, each by the beginning of its kid where no other begins so."""
    keys, typed = work.store.load().keys, []
    for record in records:
        start = record.kid[:8]
        same = sum(any(name.startswith(start) for name in one.names) for one in keys)
        # A kid may begin with a dash, and an imported one may hold what a shell reads.
        typed.append(shlex.quote(start if same == 1 else record.kid))
    options = f"--reason {reason} {work.options}".rstrip()
    return f"cardsign keys revoke {options} -- {' '.join(typed)}"


# Keys.


def _step_keys(work: Work) -> None:
    """Every due step of a key, and every successor that is due."""
    store, timeline, now = work.store, work.config.timeline, work.now
    while (taken := store.tick(now=now, settings=timeline)) and taken.key is not None:
        work.done.append(f"{_PAST[taken.action]} {taken.key.named}")
    here, elsewhere = successors_due(work)
    for step in elsewhere:
        what = f"make the next {step.alg} {step.role} key where the active one is"
        work.needs("you", what, command="cardsign keys import --custody URI")
    for step in here:
        try:
            made = make_successor(work, step)
        except PassphraseFault as fault:
            what = f"make the next {step.alg} {step.role} key: {fault.message}; "
            what += f"set CARDSIGN_{step.role.upper()}_PASSPHRASE"
            work.needs(key_holder(step.role), what)
        else:
            if made is not None:
                work.done.append(f"made {made.named}, the next {step.alg} {step.role} key")


def successors_due(work: Work) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The successors to make: in this key store, and wherever else an active key is kept."""
    state = work.store.state
    here: list[Step] = []
    elsewhere: list[Step] = []
    for step in steps(state, work.config.timeline, work.now):
        if step.action == "generate" and step.is_due(work.now):
            active = [key for key in state.active_keys(step.role) if key.alg == step.alg]
            is_here = all(key.custody.startswith("file:") for key in active)
            (here if is_here else elsewhere).append(step)
    return tuple(here), tuple(elsewhere)


def make_successor(
    work: Work,
    step: Step,
    *,
    new_key: Callable[[SigningAlg], PrivateKey] = PrivateKey.generate,
) -> KeyRecord | None:
    """Make the key that a step asks for; None if another process was faster.

    Raises:
        PassphraseFault: ``passphrase.wrong``: the passphrase is not that of the key before it.
    """
    store, secret = work.store, work.passphrase(step.role)
    for key in store.state.active_keys(step.role):
        if key.alg == step.alg and key.custody.startswith("file:"):
            check_opens(store, key, secret)
    alg = next(one for one in SIGNING_ALGORITHMS if one == step.alg)
    private = new_key(alg)
    try:
        return store.add_key(
            private,
            secret,
            now=work.now,
            roles=(step.role,),
            expect_seq=store.state.seq,
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


# The keyset statement.


def take_up(work: Work) -> None:
    """Keep what another operator's copy of this key store has published since, and say so."""
    taken = take_up_published(work)
    for label in taken.keysets:
        work.done.append(f"took keyset {label} from what is published")
    if taken.keysets and (names := work.keys_elsewhere()):
        work.done.append(f"{names}, which another copy of this key store has made")


def _publish_signed(work: Work) -> None:
    """Publish what enough roots have signed; what another copy has published comes first.

    It is in a file, or kept by roots, and no draft any more, whatever became of the keys since.
    Somebody may hold it, so another one of its number would be a fork. The one after it says what
    has changed.
    """
    take_up(work)
    if kept_keyset(work.store) is None:
        return
    follow_keyset(work.store, now=work.now)
    found: list[KeysetStatement] = []
    # What is wrong with the file is said once a draft is due, which would go there.
    with suppress(FileFault, UsageFault):
        untrusted_draft = _drafted_before(work.draft)
        found += [] if untrusted_draft is None else [read_draft(untrusted_draft)]
    if work.roots is not None:
        found += StatementHistory.of(work.roots.store).keysets()
    for statement in found:
        try:
            check_step(statement, kept_keyset(work.store))
        except StatementRefused:
            continue
        _publish_keyset(work, statement)


def _ask_for_recovery(work: Work) -> None:
    """Ask for the statement of a recovery that was begun: until then the old roots count."""
    keyset = kept_keyset(work.store)
    for root in unlisted_roots(work.store.load(), keyset) if keyset else ():
        what = f"publish the keyset that lists {root.named}, or draft one with --add-root; "
        what += "retire the key if nobody wants it"
        work.needs("you", what, command="cardsign keyset publish FILE")


def _renew_keyset(work: Work) -> None:
    """Draft the statement that is due, sign it with the roots that are here, publish it."""
    work.awaits_roots, until, file = False, work.keyset_ends, work.draft
    try:
        waiting = _draft_due(work)
    except UsageFault as fault:
        if not fault.code.startswith("statement."):
            raise
        what = f"open a new epoch, since no keyset can follow this one: {fault.message}"
        work.needs("the holder of the recovery key", what, until=until, command=RECOVER)
        return
    if waiting is None:
        return
    draft, additions = waiting
    what = f"sign keyset {draft.label}, digest {draft.statement.digest}"
    # What a root holder types, whose key store is DIR.
    sign = f"cardsign keyset sign {file} --digest {draft.statement.digest} --keystore DIR; "
    sign += f"then {work.again}"
    if additions:
        what = (
            f"ask who drafted keyset {draft.label} in {file}, and sign it by the digest that "
            "they tell you; remove the file if nobody did. It says what nobody here has "
            "drafted: " + "; ".join(additions)
        )
        work.needs("each root holder", what, until=until, command=f"cardsign keyset show {file}")
        return
    if draft.previous is not None and work.now.timestamp() >= draft.previous.exp:
        # Nobody renewed it, or this clock is ahead. A keyset of a wrong, later time would
        # be refused by all, and neither a keyset nor a recovery could follow it until then.
        what += (
            f", if it is {day(work.now)}: keyset {draft.previous.label} has "
            "ended by this machine's clock, which may be ahead"
        )
        work.needs("each root holder", what, command=sign)
        return
    told = len(work.left)
    for holder in (work, work.roots):
        if holder is not None and (signed := _signed_by(work, holder, draft)) is not None:
            draft = signed
            write_atomic(file, draft.data, plain=True)
    if draft.is_complete:
        _publish_keyset(work, draft.statement)
        return
    work.awaits_roots = True
    _ask_roots(work, draft, what, sign, {task.who for task in work.left[told:]})


def _ask_roots(work: Work, draft: KeysetDraft, what: str, sign: str, asked: set[str]) -> None:
    """Say which root holders have to sign; who works here brings the root key."""
    until = work.keyset_ends
    absent = set() if work.roots else {key.holder for key in work.store.state.keys}
    for one in draft.signings:
        holders = sorted({key.holder for key in one.quorum.keys} - one.signed - asked)
        if not one.missing or not holders:
            continue
        if one.missing < len(holders):
            who = f"{one.missing} of these root holders: {', '.join(holders)}"
            work.needs(who, what, until=until, command=sign)
            continue
        if ours := [name for name in holders if name in absent]:
            told = f"{what}, with the root key, which is not here"
            command = f"{work.again} --root-keystore DIR"
            work.needs(", ".join(ours), told, until=until, command=command)
        if others := [name for name in holders if name not in absent]:
            work.needs(", ".join(others), what, until=until, command=sign)


def _signed_by(work: Work, holder: Work, draft: KeysetDraft) -> KeysetDraft | None:
    """The draft with the signatures of a holder's roots; None if none of them has to sign."""
    signed = {one.kid for one in draft.statement.envelope.signatures}
    wanted = {key.public.thumbprint for one in draft.signings for key in one.quorum.keys}
    here = [
        key
        for key in holder.store.load().keys
        if key.thumbprint in wanted - signed and key.state == "active"
    ]
    if not here:
        return None
    digest = draft.statement.digest
    try:
        made = sign_keyset(holder, review_keyset(holder, draft.statement), digest=digest)
    except NEEDS_A_PERSON as fault:
        what = f"sign keyset {draft.label}, digest {digest}: {fault.message}"
        if isinstance(fault, PassphraseFault):
            what += "; set CARDSIGN_ROOT_PASSPHRASE"
        work.needs(here[0].holder or "who holds the root key", what, until=work.keyset_ends)
        return None
    work.done.append(f"signed keyset {draft.label} with {here[0].named}")
    return replace(draft, statement=made.statement)


def _publish_keyset(work: Work, statement: KeysetStatement) -> None:
    try:
        told = publish_keyset(work, statement, name=str(work.draft), is_overtaken=True)
    except NEEDS_A_PERSON as fault:
        what = f"sign the release that goes with keyset {statement.label}: {fault.message}"
        work.needs(key_holder("release"), what, until=work.keyset_ends)
        return
    # Each holder keeps what the next draft is held against.
    if work.roots is not None:
        publish_keyset(work.roots, statement, is_overtaken=True)
    if told.is_new:
        work.done.append(f"{'published' if told.is_published else 'kept'} keyset {statement.label}")
    if told.release is not None:
        work.done.append(f"signed release {told.release.seq}, which names it")


def _draft_due(work: Work) -> tuple[KeysetDraft, tuple[str, ...]] | None:
    """The draft of the keyset statement that is due, written unless one is there that will do.

    Returns:
        The draft, and what it says beyond what the key store says: that was not drafted here.

    Raises:
        UsageFault: ``rotate.draft``; or no verifier would take the draft.
        FileFault: The file cannot be read, or is a link.
    """
    newest = kept_keyset(work.store)  # which reads the store anew, so the state comes after it
    state, now = work.store.state, work.now
    if newest is None or not keyset_due(state, newest, now=now).is_due(now):
        return None
    with of_the_user("the draft"):
        found = draft_if_due(state, newest, _drafted_before(work.draft), now=now)
    if found is None:
        return None
    statement, is_new = found
    draft = KeysetDraft(statement, newest)
    if is_new:
        write_atomic(work.draft, draft.data, plain=True)
    return draft, () if is_new else says_more(state, newest, statement, now=now)


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
