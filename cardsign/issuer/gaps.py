"""What an issuer lacks, in the order in which one thing allows the next.

A gap is found from the key store, the project and what is published; nothing is changed or opened
to find it. So `keys doctor` may look, and any number of hosts may close the same gap: who comes
second finds it closed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from cardsign.card.document import Card
from cardsign.card.extensions import find_marker
from cardsign.errors import (
    CardsignError,
    FileFault,
    InputRefused,
    PublishRefused,
    ServeFault,
    StoreFault,
    UsageFault,
)
from cardsign.issuer import publishing
from cardsign.issuer.cards import (
    find_renewals,
    find_signed,
    is_switched_off,
    publish_signed,
    read_signed,
    remove_signed,
    renews_itself,
    sign_again,
    to_list,
)
from cardsign.issuer.keyset import accept_keyset
from cardsign.issuer.release import (
    ReleaseChanges,
    find_release_gap,
    is_card_withdrawn,
    sign_next_release,
)
from cardsign.issuer.revocation import find_endangered, find_untold_revocations
from cardsign.issuer.rotation import find_key_gaps, find_keyset_gaps, read_draft_file
from cardsign.issuer.signers import NotOpened
from cardsign.issuer.work import NEEDS_A_PERSON, NOTICE, UNLISTED, Gap, Progress, Work, key_holder
from cardsign.keys import history
from cardsign.keys.agenda import steps
from cardsign.keys.drafts import card_digest, keyset_due, read_draft
from cardsign.keys.lifecycle import cards_to_sign
from cardsign.keys.model import StoreState
from cardsign.publish.generation import CARD_FILE
from cardsign.publish.publication import Documents
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement, check_step
from cardsign.statements.release import ReleaseStatement
from cardsign.times import day, utc


def find_gaps(work: Work, *, only_cards: bool = False) -> Iterator[Gap]:
    """Yield what is missing; a caller that closes a gap asks anew.

    Args:
        work: What is looked at.
        only_cards: Look at the cards alone, and leave the keys as they are.
    """
    store = work.store
    stranger, has_forked = _find_stranger(work)
    adoption = [] if stranger else [*_find_adoption(work)]
    if stranger or adoption:
        yield from (*stranger, *adoption)
        yield from publishing.find_removal_gap(work)
        if adoption or has_forked:
            return  # another statement of a number that is taken would be a fork
        work = replace(work, config=replace(work.config, publish=None))
    state, keyset = store.load(), history.kept_keyset(store)
    if history.has_ended(state, keyset):
        yield from find_key_gaps(work)
        yield from publishing.find_update_gap(work)
        yield from publishing.find_removal_gap(work)
        return
    is_recovering = keyset is not None and history.awaits_recovery(state, keyset)
    if keyset is not None and not only_cards:
        yield from _find_unkept_keysets(work)
        if history.follow_events(store, state):
            follow = partial(_follow_keyset, work)
            yield Gap("bring the keys up to date with the newest keyset", close=follow)
    if keyset is not None and (is_recovering or not only_cards):
        yield from _find_unlisted_roots(state, keyset)
    yield from find_untold_revocations(work, is_recovering=is_recovering)
    if not is_recovering:
        if not only_cards:
            yield from find_key_gaps(work)
            yield from find_keyset_gaps(work)
        yield from _find_card_gaps(work, is_astray=bool(stranger))
        yield from _find_ending_cards(work)
    yield from publishing.find_live_gap(work)
    yield from find_endangered(work)


def foresee(work: Work) -> Progress:
    """Return what is ahead of the keys and of the keyset."""
    state, keyset = work.store.load(), history.kept_keyset(work.store)
    settings, renewal = work.config.timeline, None
    is_over = history.has_ended(state, keyset)
    if keyset and not is_over and not history.awaits_recovery(state, keyset):
        renewal = keyset_due(state, keyset, now=work.now)
    return Progress(ahead=steps(state, settings, work.now), renewal=renewal)


# What is published, and not by this key store; keysets that were signed, and not kept here.


def _find_stranger(work: Work) -> tuple[list[Gap], bool]:
    """Return the gap where what is published is not ours, and whether the roots have forked."""
    try:
        publishing.check_ours(work)
    except (UsageFault, ServeFault, FileFault) as fault:
        move = f"mv {shlex.quote(str(work.config.publish))} ELSEWHERE && {work.again}"
        message = "find out who wrote what is published, and move it away if nobody here did"
        return [Gap(f"{message}: {fault.message}", command=move)], False
    except PublishRefused as fault:
        message = f"go on with the key store that has published: {fault.message}"
        return [Gap(message, command="cardsign keys rotate --keystore DIR")], True
    return [], False


def _find_adoption(work: Work) -> Iterator[Gap]:
    """Yield that the log lacks what is published; a person says whether it shall be added."""
    adoptable = publishing.find_adoptable(work)
    lines = "; ".join(map(publishing.describe_adoptable, adoptable))
    if adoptable and work.adopts:
        yield Gap(f"adopt {lines}", until=work.now, close=partial(_adopt, work, adoptable))
    elif adoptable:
        message = "find out who published what this key store lacks, and adopt it if it was "
        message += f"another copy of it: {lines}"
        yield Gap(message, command=f"{work.again} --adopt", until=work.now)


def _adopt(work: Work, adoptable: Mapping[KeysetStatement | ReleaseStatement, bytes]) -> list[str]:
    for statement, data in adoptable.items():
        if isinstance(statement, KeysetStatement):
            history.keep_keyset(work.store, statement, data, now=work.now)
        else:
            history.keep_release(work.store, statement, data, now=work.now)
    done = [f"adopted {publishing.describe_adoptable(statement)}" for statement in adoptable]
    if names := publishing.name_keys_elsewhere(work.store):
        done.append(f"{names}, which another copy of this key store has made")
    # The adopted release names a line of the other copy's log; the next one names ours.
    with suppress(*NEEDS_A_PERSON, UsageFault):
        if release := sign_next_release(work, ReleaseChanges(), force=True):
            done.append(f"signed release {release.seq}")
    return done


def _find_unkept_keysets(work: Work) -> Iterator[Gap]:
    """Yield a statement that enough roots have signed, and that a key store here lacks.

    It is no draft any more, whatever became of the keys since. Somebody may hold it, so another one
    of its number would be a fork. The one after it says what has changed. Each holder keeps what
    the next draft is held against.
    """
    holders = [(work, "")]
    if work.roots is not None:
        holders.append((work.roots, " in the key store of the root keys"))
    statements = [keyset for holder, _ in holders for keyset in history.kept_keysets(holder.store)]
    # What is wrong with the file is said once a draft is due, which would go there.
    with suppress(FileFault, UsageFault):
        untrusted_draft = read_draft_file(work.draft)
        statements += [] if untrusted_draft is None else [read_draft(untrusted_draft)]
    for holder, where in holders:
        for statement in statements:
            with suppress(StatementRefused):
                check_step(statement, history.kept_keyset(holder.store))
                close = partial(_accept_keyset, holder, statement, where)
                yield Gap(f"keep keyset {statement.label}{where}", close=close)


def _accept_keyset(holder: Work, statement: KeysetStatement, where: str) -> list[str]:
    is_new = accept_keyset(holder, statement, name=str(holder.draft), is_overtaken=True)
    return [f"kept keyset {statement.label}{where}"] if is_new else []


def _follow_keyset(work: Work) -> list[str]:
    store = work.store
    store.commit(lambda state: history.follow_events(store, state), now=work.now)
    return []


def _find_unlisted_roots(state: StoreState, keyset: KeysetStatement) -> Iterator[Gap]:
    """Yield that a recovery was begun and is not published: until then the old roots count."""
    for root in history.unlisted_roots(state, keyset):
        message = f"publish the keyset that lists {root.named}, or draft one with --add-root; "
        message += "revoke the key if nobody wants it"
        yield Gap(message, command="cardsign keyset publish FILE")


# Cards: to be signed, listed and published.


def _find_card_gaps(work: Work, *, is_astray: bool) -> Iterator[Gap]:
    """Yield what the cards lack, and without them what the rest of what is published does.

    Where the settings name no cards, those that are published are signed again. `is_astray`: what
    is published is not this key store's, so nobody knows where its cards are.
    """
    config, signed = work.config, None
    if (unlisted := _find_unlisted_card(work)) is not None:
        yield from find_release_gap(work)
        yield from publishing.find_update_gap(work)
        yield unlisted
        return
    is_back = is_switched_off(work)
    try:
        signed = find_signed(work)
    except (*NEEDS_A_PERSON, StoreFault) as fault:
        if isinstance(fault, StoreFault) and fault.code not in UNLISTED:
            raise
        yield _describe_signing(work)
    except (InputRefused, FileFault) as fault:  # what is written or built is no card now
        if fault.code == "build.switched_off":
            yield from _find_withdrawal(work, fault)
            return
        message = f"repair {fault.path or 'the cards'}; what is published stays: {fault.message}"
        message += "" if fault.code != "card.origin_mismatch" else f". {fault.finding.fix}"
        yield Gap(message, command=work.again)
    else:
        is_here = signed is not None and config.publish is not None
        if not (is_here or is_astray or is_card_withdrawn(work)):
            yield from _find_cards_elsewhere(work)
    yield from find_release_gap(work, to_list(config) if signed else (), by_name=is_back)
    if signed is not None and config.publish is not None:
        yield from _find_publication_gap(work, signed)
    else:
        yield from publishing.find_update_gap(work)


def _find_withdrawal(work: Work, fault: CardsignError) -> Iterator[Gap]:
    """Yield what still shows the cards of an agent that its source switches off.

    No key is needed to take them out of what is published.
    """
    newest = publishing.newest_generation(work.config.publish)
    name = work.config.agent or "the agent"
    if newest is not None and newest.card:

        def close() -> list[str]:
            generation = publishing.update_publication(work, with_statements=False, withdraws=True)
            done = f"withdrew the card of {name}: {fault.message} ({fault.path})"
            return [done, *publishing.describe_generation(work, generation)]

        yield Gap(f"withdraw the card of {name}", why=fault.message, until=work.now, close=close)
    if any(read_signed(card) is not None for card in work.config.cards):
        yield Gap(
            f"remove the signed card of {name}",
            why=fault.message,
            close=partial(remove_signed, work.config),
        )
    yield from find_release_gap(work, withdraws=True)
    yield from publishing.find_update_gap(work)


def _describe_signing(work: Work) -> Gap:
    """Return the gap of cards that wait for the card key: which, and until when."""
    gap = Gap("sign the cards", key_holder("card"), close=partial(sign_again, work))
    gap = gap._replace(until=_harmful_from(work))
    renewals = find_renewals(work)
    if not renewals:
        return gap
    names = " and ".join(sorted({name for name, _ in renewals.values()}))
    ends = {audience: end for audience, (_, end) in renewals.items()}
    why = (f"the extended card for {name} ends on {day(end)}" for name, end in ends.items())
    until = gap.until or min(ends.values())
    return gap._replace(what=f"sign {names} again", why=", and ".join(why), until=until)


def _harmful_from(work: Work) -> datetime | None:
    """Return when it harms that cards wait: now, if verifiers do not trust what is published."""
    return work.now if publishing.explain_refused_card(work) else None


def _find_unlisted_card(work: Work) -> Gap | None:
    """Return the gap of a published card that no release of ours lists, as after a recovery.

    Whoever had the lost keys may have put it there, so a person looks at it before it is signed.
    """
    newest, release = (
        publishing.newest_generation(work.config.publish),
        history.kept_release(work.store),
    )
    is_listed = bool(work.config.cards or (release and (release.cards or release.floor)))
    if newest is None or history.kept_keyset(work.store) is None or is_listed:
        return None
    card = shlex.quote(f"{work.config.publish}/{newest.folder}/{CARD_FILE}")
    command = f"cardsign sign {card} -o signed.json && cardsign release renew --card signed.json"
    message = f"look at the published card, {card}, and sign, list and publish it if it is yours"
    return Gap(message, command=f"{command} && cardsign publish signed.json", until=work.now)


def _find_cards_elsewhere(work: Work) -> Iterator[Gap]:
    """Yield cards that were published from another place than the project names."""
    if cards := cards_to_sign(work.store.load(), work.now):
        names = ", ".join(card.url or card.name for card in cards)
        message = f"sign these published cards again, and publish them: {names}"
        command = "cardsign sign CARD -o SIGNED; cardsign publish SIGNED"
        command += "" if work.config.publish else " -o DIR"
        yield Gap(message, key_holder("card"), command)


def _find_publication_gap(work: Work, signed: Documents) -> Iterator[Gap]:
    until = _harmful_from(work)

    def close() -> list[str]:
        return publishing.describe_generation(work, publish_signed(work, signed))

    try:
        generation = publish_signed(work, signed, writes=False)
    except NotOpened:
        yield Gap("publish the cards", key_holder("card"), until=until, close=close)
    except (*NEEDS_A_PERSON, FileFault) as fault:
        why = f"{fault.code}: {fault.message}"
        yield Gap("publish the cards", command=fault.finding.fix, why=why)
        yield from publishing.find_update_gap(work)
    else:
        if generation.created or publishing.is_unrecorded(work, generation):
            yield Gap("publish the cards", until=until, close=close)


def _find_ending_cards(work: Work) -> Iterator[Gap]:
    """Yield extended cards that have ended or soon end; soon is at most a quarter of their time."""
    first = {
        card.payload_sha256: card.since or publication.at
        for publication in work.store.load().publications
        for card in publication.cards
    }
    newest = publishing.newest_generation(work.config.publish)
    cards = [read_signed(card) for card in work.config.cards if card.audience is not None]
    cards += newest.extended.values() if newest else ()
    ends: dict[str, datetime] = {}
    for untrusted_card in filter(None, cards):
        with suppress(InputRefused):  # which signing and publishing refuse as well
            marker = find_marker(Card.from_bytes(untrusted_card).document)
            if marker is None:
                continue
            end, begin = utc(marker.exp), first.get(card_digest(untrusted_card))
            if end <= work.now + (min(NOTICE, (end - begin) / 4) if begin else timedelta()):
                ends[marker.audience] = min(end, ends.get(marker.audience, end))
    signed_by_rotate = {card.audience for card in work.config.cards if renews_itself(card)}
    for audience, end in ends.items():
        if audience in signed_by_rotate:
            continue
        message = f"sign the extended card of audience {audience} again, with a later `expires`"
        yield Gap(message, command="cardsign sign; cardsign publish", until=end)
