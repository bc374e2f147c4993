"""What an issuer does: compare what should be published with what is, and close the gaps.

It may be stopped anywhere, called at any time, and by any command: they differ in the one line that
they write into the log before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from cardsign.errors import (
    CardsignError,
    FileFault,
    PassphraseFault,
    SignerFault,
    StoreFault,
    UsageFault,
)
from cardsign.issuer.adoption import adopt_published, check_complete, name_keys_elsewhere
from cardsign.issuer.gaps import ADD_ROOT, find_gaps, foresee
from cardsign.issuer.keyset import accept_keyset, is_root_holder
from cardsign.issuer.publishing import (
    describe_publication,
    explain_refused_card,
    find_update_gap,
    newest_generation,
    update_publication,
)
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.release import (
    ReleaseChanges,
    draft_release,
    find_release_gap,
    sign_next_release,
)
from cardsign.issuer.work import NEEDS_A_PERSON, UNLISTED, Gap, Progress, Work, key_holder
from cardsign.keys import lifecycle
from cardsign.keys.history import is_needed, kept_keyset
from cardsign.keys.log import Event, fold_all
from cardsign.keys.model import ENDED, ROLES, KeyRecord, RevocationReason, StoreState
from cardsign.statements.keyset import KeysetStatement
from cardsign.times import minute

#: The most that one gap is closed in one call: after that another process opens it again.
_TIMES: Final = 5
_Name: TypeAlias = tuple[str, str]
#: Refusals of a key store that the holder of a passphrase, or the roots, can end.
_PERSONS: Final = (*UNLISTED, "keystore.same_custody")


def reconcile(work: Work, *, only_cards: bool = False, done: Sequence[str] = ()) -> Progress:
    """Close every gap that can be closed now, and say what needs a person.

    A dry run closes none, and says which it would close first; nothing is opened for that.

    Args:
        work: What it may use.
        only_cards: Leave the keys as they are: build, sign, list and publish the cards.
        done: What the command has done before; in a dry run what it would do.

    Raises:
        StoreFault, FileFault, UsageFault: As the single steps, where nothing was done before. Else
            the fault is left for a person, beside what was done.
    """
    progress = _close(work, partial(find_gaps, only_cards=only_cards), done)
    if only_cards:
        return progress
    ahead = foresee(work)
    return progress._replace(ahead=ahead.ahead, renewal=ahead.renewal)


def _close(work: Work, find: Callable[[Work], Iterable[Gap]], done: Sequence[str]) -> Progress:
    """Close what `find` yields."""
    if work.is_dry_run:
        progress = list_gaps(find(work))
        return progress._replace(planned=(*done, *progress.planned))
    number_before, lines = _published_number(work), list(done)
    try:
        gaps = _close_gaps(work, find, lines)
    except (StoreFault, FileFault, UsageFault) as fault:
        if not lines:
            raise
        path = f" ({fault.path})" if fault.path else ""
        gaps = (Gap(f"{fault.message}{path}", command=work.again),)
    number = _published_number(work)
    if number > number_before and not any("published generation" in line for line in lines):
        lines.append(f"published generation {number}")
    return Progress(tuple(lines), gaps)


def _published_number(work: Work) -> int:
    """Return the number of what is published; 0 for nothing that can be read."""
    with suppress(CardsignError):
        generation = newest_generation(work.config.publish)
        return generation.number if generation else 0
    return 0


def _close_gaps(
    work: Work, find: Callable[[Work], Iterable[Gap]], done: list[str]
) -> tuple[Gap, ...]:
    """Close gaps as long as one can be closed, add what was done to `done`, return the others."""
    faults: dict[_Name, CardsignError] = {}
    closed: Counter[_Name] = Counter()
    while True:
        gaps: list[Gap] = []
        for gap in find(work):
            name = gap.name
            if gap.close is None or name in faults or closed[name] >= _TIMES:
                gaps.append(gap)
                continue
            try:
                done += gap.close()
            except NEEDS_A_PERSON as fault:
                faults[name] = fault
                gaps.append(gap)
            except (StoreFault, UsageFault) as fault:
                is_statement = isinstance(fault, UsageFault) and fault.code.startswith("statement.")
                if not is_statement and fault.code not in _PERSONS:
                    raise
                faults[name] = fault
                gaps.append(gap)
            else:  # what waited for another key or statement may have it now
                closed[name] += 1
                faults = {gap_name: fault for gap_name, fault in faults.items() if _stays(fault)}
                break
        else:
            return _for_people(work, gaps, faults)


def list_gaps(gaps: Iterable[Gap]) -> Progress:
    """Return what a dry run shows: what would be closed, and what needs a person."""
    named: dict[_Name, Gap] = {}
    for gap in gaps:
        named.setdefault(gap.name, gap)
    planned = (gap.text for gap in named.values() if gap.close is not None)
    for_people = (
        gap._replace(what=gap.text, why="") for gap in named.values() if gap.close is None
    )
    return Progress(left=tuple(for_people), planned=tuple(planned))


def _stays(fault: CardsignError) -> bool:
    """Say whether nothing that is done in this call can end a fault."""
    return isinstance(fault, PassphraseFault | SignerFault) or fault.code == "keystore.same_custody"


def _for_people(
    work: Work, left: Sequence[Gap], faults: dict[_Name, CardsignError]
) -> tuple[Gap, ...]:
    """Say of each gap what hinders it; what waits for the roots alone is told as theirs."""
    waits_for_roots = any(gap.awaits_roots and gap.close is None for gap in left)
    gaps: dict[_Name, Gap] = {}
    why = ""
    for gap in left:
        fault = faults.get(gap.name)
        # Without a fault another process keeps opening it.
        is_told = gap.close is None or fault is not None
        if is_told and not (waits_for_roots and fault is not None and fault.code in UNLISTED):
            if gap.awaits_roots and not gap.why:
                gap = gap._replace(why=why)
            gaps.setdefault(gap.name, _explain(work, gap, fault))
        elif is_told:
            why = why or gap.why
    return tuple({gap.name: gap for gap in gaps.values()}.values())


def _explain(work: Work, gap: Gap, fault: CardsignError | None) -> Gap:
    """Return a gap for a person, with what hinders it and the command that goes on."""
    names = name_keys_elsewhere(work.store) if fault and fault.code in UNLISTED else ""
    if names:
        message = f"{gap.what} with the other copy of this key store: {names}, which this one lacks"
        return Gap(message, command="cardsign keys rotate --keystore DIR", until=gap.until)
    message = gap.text if fault is None else f"{gap.text}: {fault.message}"
    if fault is not None and fault.code == "keystore.same_custody":
        message += f". {fault.finding.fix}"
    elif isinstance(fault, PassphraseFault) and not fault.finding.fix:  # else it is of a PIN
        roles = (role for role in ROLES if gap.who == key_holder(role))
        message += "".join(f"; set CARDSIGN_{role.upper()}_PASSPHRASE" for role in roles)
    # Others act first: the command that goes on would say the same again.
    is_others = gap.awaits_roots and gap.close is None
    command = gap.command if is_others else gap.command or work.again
    return gap._replace(what=message, command=command, close=None, why="")


# The commands that write a line first, and what they would do.


def publish_keyset(work: Work, statement: KeysetStatement, *, name: str) -> Progress:
    """Keep a statement that enough have signed, sign the release that names it, and publish both.

    Where nothing is published yet, or another key store publishes, the statement is kept alone.

    Raises:
        As :func:`cardsign.issuer.keyset.accept_keyset`.
    """
    is_kept_alone = newest_generation(work.config.publish) is None or is_root_holder(work)
    is_new = accept_keyset(work, statement, name=name)
    done = _describe(
        work, "keep", "kept", [f"keyset {statement.label} as the newest"] if is_new else []
    )
    if is_kept_alone:
        return Progress(tuple(done))
    progress = _close(work, find_release_gap, done)
    return progress if progress.left else _publish_statements(work, progress)


def renew_release(work: Work, changes: ReleaseChanges, *, force: bool = False) -> Progress:
    """Sign the next release if there is anything new to say, and publish it.

    Raises:
        PublishRefused: ``publish.statements``: the log lacks what is published.
        As :func:`cardsign.issuer.release.sign_next_release`.
    """
    check_complete(work)
    sign = draft_release if work.is_dry_run else sign_next_release
    release = sign(work, changes, force=force)
    done = []
    if release is not None:
        cards = f"{len(release.cards)} cards" if len(release.cards) != 1 else "1 card"
        text = f"release {release.seq}, which lists {cards} until {minute(release.exp)}"
        done = _describe(work, "sign", "signed", [text])
        for url in changes.withdrawn:
            done.append(f"{url} is withdrawn; serve what is published until the release has ended")
    is_dry = work.is_dry_run
    progress = Progress(planned=tuple(done)) if is_dry else Progress(tuple(done))
    return _publish_statements(work, progress)


def _publish_statements(work: Work, progress: Progress) -> Progress:
    """Publish the newest statements; what cannot be published is refused."""
    if work.is_dry_run:
        more = list_gaps(find_update_gap(work))
        return Progress(planned=(*progress.planned, *more.planned), left=more.left)
    published = describe_publication(update_publication(work))
    refusal = explain_refused_card(work)
    notes = []
    if refusal is not None:
        notes.append(f"the published card is not trusted now: {refusal.message}")
        notes.append(f"  next: {work.again}")
    return progress._replace(done=(*progress.done, *published), notes=tuple(notes))


def adopt(work: Work) -> Progress:
    """Add to the log what another copy of the key store has published, and close the gaps."""
    done = _describe(work, "adopt", "adopted", adopt_published(work))
    if done and (names := name_keys_elsewhere(work.store)):
        done.append(f"{names}, which another copy of this key store has made")
    if done and not work.is_dry_run:
        # The adopted release names a line of the other copy's log; the next one names ours.
        with suppress(*NEEDS_A_PERSON, UsageFault):
            if release := sign_next_release(work, ReleaseChanges(), force=True):
                done.append(f"signed release {release.seq}")
    return reconcile(work, done=done)


def rotate_now(work: Work, kids: Sequence[str]) -> Progress:
    """Begin the rotation of these active keys, or of all, and close the gaps."""
    work.store.apply(lifecycle.replace_key, kids, now=work.now)
    return reconcile(work)


def _describe(work: Work, verb: str, past: str, lines: Iterable[str]) -> list[str]:
    """Say what a command has written; a dry run has written it in memory alone."""
    return [f"{verb if work.is_dry_run else past} {line}" for line in lines]


def revoke_keys(work: Work, kids: Sequence[str], *, reason: RevocationReason) -> Progress:
    """Revoke keys for ever, and close the gaps that this opens.

    Of a compromised key the whole custody is revoked, see :func:`.lifecycle.revoke`. A key
    that is revoked already is passed over, so that the call can be repeated.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.still_needed``: a root key without which no
            statement can say that it is revoked.
        UsageFault: ``usage.conflict``: a key is revoked already, for another reason.
    """
    records = list(dict.fromkeys(work.store.state.find(kid) for kid in kids))
    for record in records:
        if record.state == "revoked" and record.revoked_because != reason:
            raise UsageFault(
                "usage.conflict",
                f"{record.named} is revoked already, as {record.revoked_because}, and that stays",
            )
        if reason != "compromised":
            _check_not_needed(work, record)
    ended = [key.named for key in _report_revocation(work, records, reason)]
    return reconcile(work, done=_describe(work, "revoke", "revoked", ended))


def _report_revocation(
    work: Work, records: Sequence[KeyRecord], reason: RevocationReason
) -> list[KeyRecord]:
    """Write into the log that keys are revoked, and return which ended; nobody is told yet."""
    now = work.now

    def decide(state: StoreState) -> list[Event]:
        events: list[Event] = []
        for name in (record.thumbprint for record in records):
            more = lifecycle.revoke(state, name, reason=reason, now=now)
            state = fold_all(state, more, now)
            events += more
        return events

    state_before = work.store.load()
    return _revoked(state_before, work.store.commit(decide, now=now))


def _revoked(before: StoreState, after: StoreState) -> list[KeyRecord]:
    names = {key.thumbprint for key in before.keys if key.state == "revoked"}
    return [key for key in after.keys if key.state == "revoked" and key.thumbprint not in names]


def _check_not_needed(work: Work, record: KeyRecord) -> None:
    keyset = kept_keyset(work.store)
    if keyset is None or record.rotates or record.state in ENDED:
        return
    if is_needed(record, keyset, work.store.load()):
        # It would be of no use: the statement that says so is one that it cannot sign.
        instead = RECOVER if keyset.recovery else f"{ADD_ROOT}, then revoke this one"
        raise StoreFault(
            "keystore.still_needed",
            f"no keyset can be signed without {record.named}, so none can say that it is revoked",
            hint=f"Replace it: {instead}.",
        )
