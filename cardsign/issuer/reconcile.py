"""What an issuer does: compare what should be published with what is, and close the gaps.

A gap is found from the key store, the project and what is published; nothing is changed or opened
to find it. Gaps come in the order in which one thing allows the next, and any number of hosts may
close the same one. So this may be stopped anywhere, called at any time, and by any command: they
differ in the one line that they write into the log before.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from cardsign import errors
from cardsign.errors import CardsignError, StoreFault, UsageFault
from cardsign.findings import counted
from cardsign.issuer import keyset as keysets
from cardsign.issuer import publishing
from cardsign.issuer import release as releases
from cardsign.issuer.cards import find_card_gaps, find_ending_cards, list_due_cards
from cardsign.issuer.work import NEEDS_A_PERSON, RECOVER, Gap, Work, key_holder
from cardsign.jose.jwk import SIGNING_ALGORITHMS
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda, history, ledger
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement, check_step
from cardsign.times import minute, read_stamp, second


def find_gaps(work: Work) -> Iterator[Gap]:
    """Yield the gaps in the order in which to close them. After closing one, call this again.

    The key stores are read once, before the first gap; what other processes change meanwhile is
    seen by the next call, and refused where this one would write.
    """
    store = work.store
    for holder in filter(None, (work, work.roots)):
        holder.store.load()
    yield from _find_clock_gap(work)
    yield from publishing.find_setting_gaps(work)
    yield from publishing.find_stale_publications(work)
    obstacles, is_stranger = _find_obstacles(work)
    if obstacles:
        yield from obstacles
        yield from publishing.find_removal_gap(work)
        if not is_stranger:
            return  # another statement of a number that is taken would be a fork
        work = replace(work, config=work.config.model_copy(update={"publish": None}))
    state, keyset = store.state, work.keyset
    if history.has_ended(state, keyset):
        yield from find_key_gaps(work)
        yield from publishing.find_update_gap(work)
        yield from publishing.find_removal_gap(work)
        return
    is_recovering = keyset is not None and history.awaits_recovery(state, keyset)
    if keyset is not None:
        yield from _find_unkept_keysets(work)
        if history.follow_events(state, history.kept_keysets(store)):
            follow = partial(_accept_keyset, work, keyset)
            yield Gap("bring the keys up to date with the newest keyset", close=follow)
        yield from _find_unlisted_roots(work, keyset)
    yield from releases.find_untold_revocations(work, is_recovering=is_recovering)
    if not is_recovering:
        yield from _find_early_rotations(work)
        yield from find_key_gaps(work)
        yield from keysets.find_keyset_gaps(work)
        yield from find_card_gaps(work)
        yield from find_ending_cards(work)
    yield from publishing.find_live_gap(work)


def foresee(
    work: Work,
) -> tuple[tuple[agenda.Step, ...], agenda.Renewal | None, list[agenda.Renewal]]:
    """Return what is ahead of the keys, of the keyset if there is one, and of extended cards."""
    state, keyset, renewal = work.store.state, work.keyset, None
    if keyset and not history.has_ended(state, keyset):
        renewal = keysets.keyset_due(state, keyset, now=work.now)
    cards = [card for part in work.by_agent() for card in list_due_cards(part)]
    return agenda.steps(state, work.config.timeline, work.now), renewal, cards


def _find_clock_gap(work: Work) -> Iterator[Gap]:
    """Yield that this machine's clock is behind the log, so that much of it is not valid yet."""
    for line in work.store.read_lines()[-1:]:
        newest = read_stamp(json.loads(line)["time"])
        if newest > work.now + timedelta(seconds=work.config.timeline.skew):
            message = f"set this machine's clock: it says {second(work.now)}, and the newest line "
            yield Gap(f"{message}of the log is of {second(newest)}", until=work.now)


# What is published, and not by this key store; keysets that were signed, and not kept here.


def _find_obstacles(work: Work) -> tuple[list[Gap], bool]:
    """Return gaps where what is published is not from this log, and whether it is a stranger's."""
    try:
        return [*_find_adoption(work)], False
    except (UsageFault, errors.ServeFault, errors.FileFault) as fault:
        move = f"mv {shlex.quote(str(work.config.publish))} ELSEWHERE && {work.again}"
        message = "find out who wrote what is published: if another key store of yours did, go on "
        message += "with that (--keystore DIR, or CARDSIGN_KEYSTORE); if none did, move it away"
        return [Gap(f"{message}: {fault.message}", command=move)], True
    except errors.PublishRefused as fault:
        message = f"go on with the key store that has published: {fault.message}"
        return [Gap(message, command="cardsign keys rotate --keystore DIR")], False


def _find_adoption(work: Work) -> Iterator[Gap]:
    """Yield that the log lacks what is published; a person says whether it shall be added."""
    adoptable = publishing.find_adoptable(work)

    def adopt() -> list[str]:
        done = list[str]()
        for text, keep in adoptable.items():
            keep()
            done.append(f"adopted {text}")
        if names := publishing.name_keys_elsewhere(work):
            done.append(f"{names}, which another copy of this key store has made")
        # The adopted release names a line of the other copy's log; the next one names ours.
        with suppress(*NEEDS_A_PERSON, UsageFault):
            if release := releases.sign_next_release(work, releases.ReleasePlan(), force=True):
                done.append(f"signed release {release.seq}")
        return done

    # A thief's release must not hold up its own revocation, and peers have its number and floors.
    stolen = {key.role for key in work.store.state.keys if key.is_stolen}
    is_thiefs = "release" in stolen and all(
        text.startswith("the number of release") for text in adoptable
    )
    if adoptable and (work.adopts or is_thiefs):
        yield Gap(f"adopt {'; '.join(adoptable)}", until=work.now, close=adopt)
    elif adoptable:
        message = "find out who published what this key store lacks, and adopt it if it was "
        message += f"another copy of it: {'; '.join(adoptable)}"
        yield Gap(message, command=f"{work.again} --adopt", until=work.now)


def _find_unkept_keysets(work: Work) -> Iterator[Gap]:
    """Yield a statement that enough roots have signed, and that a key store here lacks.

    It is no draft any more, whatever became of the keys since. Somebody may hold it, so another one
    of its number would be a fork. The one after it says what has changed. Each holder keeps what
    the next draft is held against.
    """
    holders = list(filter(None, (work, work.roots)))
    statements = [keyset for holder in holders for keyset in history.kept_keysets(holder.store)]
    # What is wrong with the file is said once a draft is due, which would go there.
    with suppress(errors.FileFault, UsageFault):
        statements += filter(None, [keysets.read_draft_file(work.draft)])
    for holder in holders:
        where = " in the key store of the root keys" if holder is work.roots else ""
        for statement in statements:
            with suppress(StatementRefused):
                check_step(statement, holder.keyset)
                close = partial(_accept_keyset, holder, statement, where)
                yield Gap(f"store keyset {statement.label}{where}", close=close)


def _accept_keyset(holder: Work, statement: KeysetStatement, where: str = "") -> list[str]:
    is_new = keysets.accept_keyset(holder, statement, name=str(holder.draft), is_overtaken=True)
    return [f"stored keyset {statement.label}{where}"] if is_new else []


def _find_unlisted_roots(work: Work, keyset: KeysetStatement) -> Iterator[Gap]:
    """Yield that a recovery was begun and is not published: until then the old roots count."""
    kept = history.kept_keysets(work.store)
    earlier = {root.public.thumbprint for keyset in kept for root in keyset.root.keys}
    for root in history.unlisted_roots(work.store.state, keyset):
        if root.thumbprint not in earlier:  # else another one has taken its place
            message = f"publish the keyset that lists {root.named}, or draft one with --add-root; "
            message += "revoke the key if nobody wants it"
            yield Gap(message, command=work.command("keyset publish FILE"))


# Keys: due steps, and those that are to be made.

#: What is due so soon after a person came with the root keys is done in the same visit.
_VISIT: Final = timedelta(days=7)


def _find_early_rotations(work: Work) -> Iterator[Gap]:
    """Yield rotations that begin soon, where the roots are here because the keyset is due.

    Else the same people would be called again within days, for another keyset.
    """
    state, keyset, now = work.store.state, work.keyset, work.now
    if not (work.roots and keyset and keysets.has_roots(work.roots.store, keyset)):
        return
    if keysets.keyset_due(state, keyset, now=now).due > now:
        return
    every = timedelta(seconds=work.config.timeline.rotate_every)
    for key in state.keys:
        due = (key.times.activated or key.created) + every
        is_ahead = key.rotates and key.state == "active" and key.times.replaced is None
        if is_ahead and now < due <= now + min(_VISIT, every / 8):
            begin = partial(_begin_rotation, work, key)
            yield Gap(f"begin the rotation of {key.named}, due at {second(due)}", close=begin)


def _begin_rotation(work: Work, key: ledger.KeyRecord) -> list[str]:
    work.store.commit(agenda.replace_key, [key.thumbprint], now=work.now)
    return [f"began the rotation of {key.named}"]


def find_key_gaps(work: Work) -> Iterator[Gap]:
    """Yield every due step of a key, and every key that is to be made."""
    state, now, keyset, command = work.store.state, work.now, work.keyset, ""
    holders = {key.holder for key in state.keys}
    is_ours = keyset and any(root.holder in holders for root in keyset.root.keys)
    if keyset and is_ours and not (work.roots or keysets.has_roots(work.store, keyset)):
        command = work.command("keys rotate --root-keystore DIR")  # the roots list what is made
    for step in agenda.steps(state, work.config.timeline, now):
        if not step.is_due(now):
            continue
        if step.action != "generate":
            yield Gap(step.what, close=partial(_take_step, work, step))
        elif _has_turned(work, step.key):
            continue  # with waits of zero, one call would rotate again and again
        elif step.key.state != "active" and publishing.name_keys_elsewhere(work):
            continue  # another copy of this key store has made it
        elif not step.key.custody.startswith("file:"):
            task = f"{step.what} where the active one is"
            yield Gap(task, command=work.command("keys import URI"))
        else:
            message = step.what
            if step.key.is_stolen:
                variable = ledger.passphrase_variable(step.key.role)
                message += f", under a new passphrase: type it when asked, or set {variable}"
            until = None if step.key.state == "active" else now
            close = partial(_make_key, work, step)
            yield Gap(message, key_holder(step.key.role), command, until=until, close=close)


def _has_turned(work: Work, key: ledger.KeyRecord) -> bool:
    """Say whether this call has made an active key, and taken the one before it away."""
    begun = work.now.replace(microsecond=0)
    gone = [other.times.retired for other in work.store.state.keys if other.succeeds(key)]
    is_new = key.state == "active" and key.created >= begun
    return is_new and any(time is not None and time >= begun for time in gone)


def _take_step(work: Work, step: agenda.Step) -> list[str]:
    """Take a step, unless another process was faster."""
    events: list[ledger.Event] = []

    def decide(state: ledger.StoreState) -> list[ledger.Event]:
        is_next = step in agenda.steps(state, work.config.timeline, work.now)
        events[:] = agenda.take(state, step, work.config.timeline, work.now) if is_next else []
        return events

    state = work.store.commit(decide, now=work.now)
    done = [f"{step.action}d {step.key.named}"] if events else []
    if done and step.action == "activate" and not (state.keysets or state.publications):
        done.append("sign your cards again, and hand out the key set: cardsign keys jwks")
    return done


def _make_key(work: Work, step: agenda.Step) -> list[str]:
    """Make the key that a step asks for.

    Raises:
        StoreFault: ``keystore.changed``: another process was faster.
        PassphraseFault: ``passphrase.wrong``: the passphrase is not that of the key before it.
        StoreFault: ``keystore.same_custody``: with this passphrase a thief would have it.
    """
    store, key = work.store, step.key
    access, seq = work.access.for_role(key.role), store.state.seq
    if key.private == "held" and not key.is_stolen:
        secret = access.passphrase(key.custody, f"{key.role} keys")
        with suppress(errors.FileMissing):  # a key whose file is not here cannot tell
            store.signer(key, secret)
    else:
        stolen = " (not the stolen one)" if key.is_stolen else ""
        secret = access.secrets("new passphrase", f"{key.role} keys{stolen}")
    alg = next(alg for alg in SIGNING_ALGORITHMS if alg == key.alg)
    private = PrivateKey.generate(alg)
    new = store.add_key(private, secret, now=work.now, role=key.role, expect_seq=seq)
    access.remember(new.custody, secret)
    return [f"made {new.named}, the next {new.alg} {new.role} key"]


# The loop.

#: How often one call closes the same gap, or looks again since another process was faster: after
#: that, others keep opening it.
_MAX_CLOSED: Final = 5
#: That no key may sign yet, or that none of the card does now: the next keyset lists other keys.
_UNLISTED: Final = ("sign.no_key", "publish.not_verifying", "keystore.not_listed")


class Progress(NamedTuple):
    """What one call came to.

    Attributes:
        done: What was done, in order, each a short sentence.
        planned: In a dry run what would be done, each in the imperative.
        left: What needs a person; empty where nobody is needed.
        notes: What else the user should know, each a sentence.
    """

    done: tuple[str, ...] = ()
    left: tuple[Gap, ...] = ()
    planned: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def list_gaps(work: Work) -> list[Gap]:
    """Return the gaps of all agents, each once; nothing is closed.

    Whoever publishes has written into the log before. So if that has become longer meanwhile, what
    is published may be newer than what was read of the log, without any fault: look again.
    """
    gaps, seq = list[Gap](), -1
    while work.store.load().seq != seq:
        seq = work.store.state.seq
        gaps = _unique(gap for part in work.by_agent() for gap in find_gaps(part))
    return gaps


def _unique(gaps: Iterable[Gap]) -> list[Gap]:
    """Return the first of each name."""
    named: dict[tuple[str, str], Gap] = {}
    for gap in gaps:
        named.setdefault(gap.name, gap)
    return list(named.values())


def reconcile(work: Work, done: Sequence[str] = ()) -> Progress:
    """Close every gap that can be closed now, and say what needs a person.

    A dry run closes none, and says which it would close first; nothing is opened for that.

    Args:
        work: What it may use.
        done: What the command has done before; in a dry run what it would do.

    Raises:
        LocalFault: As the single steps, where nothing was done before. Else the fault is left for
            a person, beside what was done.
    """
    parts, lines = work.by_agent(), list(done)
    if work.is_dry_run:
        gaps = list_gaps(work)
        planned = (gap.text for gap in gaps if gap.close is not None)
        for_people = (gap._replace(what=gap.text) for gap in gaps if gap.close is None)
        return Progress(left=tuple(for_people), planned=(*lines, *planned))
    try:
        # Twice: what a later agent has released, the earlier ones publish too.
        for part in parts if len(parts) > 1 else ():
            _close_gaps(part, lines)
        remaining = _unique(gap for part in parts for gap in _close_gaps(part, lines))
    except errors.LocalFault as fault:
        if not lines:
            raise
        path = f" ({fault.path})" if fault.path else ""
        task = f"mend the fault below, then go on with `{work.again}`"
        remaining = [Gap(f"{task}: {fault.message}{path}. {fault.finding.hint}")]
    return Progress(tuple(lines), tuple(remaining))


def _close_gaps(work: Work, done: list[str]) -> list[Gap]:
    """Close gaps as long as one can be closed, add what was done to `done`, return the others."""
    faults: dict[tuple[str, str], CardsignError] = {}
    closed, looks = Counter[tuple[str, str]](), 0
    while True:
        gaps, start = list[Gap](), work.store.state
        for gap in find_gaps(work):
            if gap.close is None or gap.name in faults or closed[gap.name] >= _MAX_CLOSED:
                gaps.append(gap)
                continue
            try:
                done += gap.close() or ()
            except CardsignError as fault:
                if fault.code != "keystore.changed":  # else another process was faster
                    if not _is_for_a_person(fault):
                        raise
                    faults[gap.name] = fault
                    gaps.append(gap)
                    continue
            closed[gap.name] += 1
            break
        else:
            looks += 1  # again where others write into the log, for the reason of `list_gaps`
            if not gaps or looks > _MAX_CLOSED or work.store.load().seq == start.seq:
                return _for_people(work, gaps, faults)
        # What waited for another key or statement may have it now; with a keyset other keys sign.
        is_new = work.store.state.keysets != start.keysets
        faults = {} if is_new else {at: faults[at] for at in faults if _stays(faults[at])}


def _is_for_a_person(fault: CardsignError) -> bool:
    """Say whether the holder of a passphrase, or the roots, can end a fault."""
    is_draft = isinstance(fault, UsageFault) and fault.code.startswith("statement.")
    codes = (*_UNLISTED, "keystore.same_custody")
    return is_draft or isinstance(fault, NEEDS_A_PERSON) or fault.code in codes


def _stays(fault: CardsignError) -> bool:
    """Say whether nothing that is done in this call can end a fault."""
    kinds = errors.PassphraseFault, errors.SignerFault
    return isinstance(fault, kinds) or fault.code == "keystore.same_custody"


def _for_people(
    work: Work, gaps: Sequence[Gap], faults: dict[tuple[str, str], CardsignError]
) -> list[Gap]:
    """Return gaps as people are told of them; what the roots or a recovery end first is theirs."""
    waiting = [*_UNLISTED, "statement.expired"]
    if not any(gap.awaits_roots and gap.close is None for gap in gaps):
        waiting = []
    elif any(RECOVER in gap.command for gap in gaps):
        waiting.append("keystore.same_custody")
    gaps_left, why = list[Gap](), ""
    stolen = {who for (_, who), fault in faults.items() if fault.code == "keystore.same_custody"}
    roles = (role for role in ledger.ROLES if key_holder(role) in stolen)
    passphrases = "".join(f"export {ledger.passphrase_variable(role)}=NEW; " for role in roles)
    for gap in gaps:
        fault = faults.get(gap.name)
        if gap.close is not None and (fault is None or fault.code in waiting):
            why = why or gap.why
            continue  # without a fault, another process keeps opening it
        if gap.awaits_roots and not gap.why:
            gap = gap._replace(why=why)
        gap = _hand_over(work, gap, fault)
        if gap.command.startswith(work.again):  # where nobody is asked, the stolen one is set
            gap = gap._replace(command=passphrases + gap.command)
        gaps_left.append(gap)
    # After the end of a keyset nothing goes on before the roots have signed by hand.
    gaps_left.sort(key=lambda gap: not gap.command.startswith("cardsign keyset sign "))
    return _unique(gaps_left)


def _hand_over(work: Work, gap: Gap, fault: CardsignError | None) -> Gap:
    """Return a gap as something that a person closes, with the command for it."""
    if fault and fault.code in _UNLISTED and (names := publishing.name_keys_elsewhere(work)):
        message = f"{gap.what} with the other copy of this key store: {names}, which this one lacks"
        return Gap(message, command="cardsign keys rotate --keystore DIR")
    command = gap.command or (work.again if gap.close else "")  # else others act first
    return gap._replace(what=_explain(gap, fault), command=command, close=None)


def _explain(gap: Gap, fault: CardsignError | None) -> str:
    """Return what is to be done, and what hinders it."""
    message = gap.text if fault is None else f"{gap.text}: {fault.message}"
    if isinstance(fault, errors.PassphraseFault) and not fault.finding.fix:  # else it is of a PIN
        roles = (role for role in ledger.ROLES if gap.who == key_holder(role))
        variable = ledger.passphrase_variable("root" if gap.awaits_roots else next(roles, "card"))
        message += "" if variable in message else f"; set {variable}"
        if fault.code == "passphrase.wrong":
            message += " to the passphrase that this key has now"
    return message


# The commands that write a line first, and what they would do.


def publish_keyset(work: Work, statement: KeysetStatement, *, name: str) -> Progress:
    """Keep a statement that enough have signed, and close the gaps that this opens.

    A key store without a release key keeps it alone; another one publishes.

    Raises:
        As :func:`cardsign.issuer.keyset.accept_keyset`.
    """
    is_new = keysets.accept_keyset(work, statement, name=name)
    lines = [f"keyset {statement.label} as the newest"] if is_new else []
    done = _describe(work, "store", "stored", lines)
    return Progress(tuple(done)) if keysets.is_root_holder(work.store) else reconcile(work, done)


def renew_release(work: Work, plan: releases.ReleasePlan, *, force: bool = False) -> Progress:
    """Sign the next release if there is anything new to say, and close the gaps.

    Raises:
        As :func:`cardsign.issuer.release.sign_next_release`.
    """
    sign = releases.draft_release if work.is_dry_run else releases.sign_next_release
    release, done = sign(work, plan, force=force), list[str]()
    if release is not None:
        cards = counted(len(release.cards), "card")
        text = f"release {release.seq}, which lists {cards} until {minute(release.exp)}"
        done = _describe(work, "sign", "signed", [text])
        for url in plan.withdrawn:
            done.append(f"{url} is withdrawn; serve what is published until the release has ended")
    return reconcile(work, done)


def rotate_now(work: Work, kids: Sequence[str]) -> Progress:
    """Begin the rotation of these active keys, or of all, and close the gaps."""
    earlier = work.store.state.keys
    state = work.store.commit(agenda.replace_key, kids, now=work.now)
    begun = [key for key in state.keys if key not in earlier]
    verb, past = "begin the rotation of", "began the rotation of"
    return reconcile(work, _describe(work, verb, past, [key.named for key in begun]))


def _describe(work: Work, verb: str, past: str, lines: Iterable[str]) -> list[str]:
    """Say what a command has written; a dry run has written it in memory alone."""
    return [f"{verb if work.is_dry_run else past} {line}" for line in lines]


def revoke_keys(work: Work, kids: Sequence[str], *, reason: ledger.RevocationReason) -> Progress:
    """Revoke keys for ever, and close the gaps that this opens.

    Of a compromised key the whole custody is revoked, see :func:`cardsign.keys.agenda.revoke`.
    A key that is revoked already is passed over, so that the call can be repeated.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.still_needed``: a root key without which no
            statement can say that it is revoked.
        UsageFault: ``usage.conflict``: a key is revoked already, for another reason.
    """
    earlier, now, keyset = work.store.state, work.now, work.keyset
    records = list(dict.fromkeys(earlier.find(kid) for kid in kids))
    for record in records:
        if record.state == "revoked" and record.revoked_because != reason:
            because = f"revoked already, as {record.revoked_because}, and that stays"
            raise UsageFault("usage.conflict", f"{record.named} is {because}")
        is_root = not (record.rotates or record.state in ledger.ENDED or reason == "compromised")
        if keyset and is_root and history.is_needed(record, keyset, earlier):
            # It would be of no use: the statement that says so is one that it cannot sign.
            message = f"no keyset can be signed without {record.named}, so none can say that it is "
            hint = f"Replace it: {work.command(RECOVER)}" if keyset.recovery else ""
            raise StoreFault("keystore.still_needed", f"{message}revoked", hint=hint)

    def decide(state: ledger.StoreState) -> list[ledger.Event]:
        events: list[ledger.Event] = []
        for record in records:
            more = agenda.revoke(state, record.thumbprint, reason=reason)
            state = ledger.fold_all(state, more, now)
            events += more
        return events

    after = work.store.commit(decide, now=now)
    over = {key.thumbprint for key in earlier.keys if key.state == "revoked"}
    ended = [key for key in after.keys if key.state == "revoked" and key.thumbprint not in over]
    return reconcile(work, _describe(work, "revoke", "revoked", [key.named for key in ended]))
