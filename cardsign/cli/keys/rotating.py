"""``cardsign keys rotate``: the next lawful step, by hand or from cron."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from cardsign.cli.issuing import moment, signing_lines, tell_differences
from cardsign.cli.keys.showing import described
from cardsign.cli.options import (
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
    project_config,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import FileFault, PassphraseFault, StoreFault, UsageFault
from cardsign.files import read_bytes, write_atomic
from cardsign.jose.keys import PrivateKey
from cardsign.keys.account import differences
from cardsign.keys.audit import verify_chain
from cardsign.keys.history import Ledger, note_keyset, read_draft, write_draft
from cardsign.keys.keysets import Difference, signings
from cardsign.keys.lifecycle import SHOWN_TIME, TimelineSettings, cards_to_sign
from cardsign.keys.model import KeyRecord, PublishedCard, StoreState
from cardsign.keys.passphrase import PassphraseSource, new_passphrase
from cardsign.keys.renewal import DRAFT_FILE, next_draft, plan_renewal, says_more
from cardsign.keys.rotation import Step, steps
from cardsign.keys.stores.opening import AnyStore, Place
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetStatement

NEEDS_ROOT: Final = "rotate.needs_root"
SAYS_MORE: Final = "rotate.draft_says_more"

_PAST: Final = {
    "prepublish": "prepublished",
    "activate": "activated",
    "retire": "retired",
    "destroy": "destroyed the private half of",
}
_THEN: Final = {
    "prepublish": "publish it: cardsign publish",
    "retire": "publish the key set without it: cardsign publish",
}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one call of ``rotate`` came to: at most one of the three, and what lies ahead."""

    done: Step | None
    made: KeyRecord | None
    draft: _Draft | None
    ahead: tuple[Step, ...]
    to_sign: tuple[PublishedCard, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A keyset statement that waits for the roots; `more` is what nobody here vouches for."""

    file: str
    statement: KeysetStatement
    why: str
    signed_by: list[str]
    is_complete: bool
    more: tuple[Difference, ...]


@click.command(short_help="Take the next lawful step of the rotation.")
@click.option("--tick", is_flag=True, help="Only what is due by the timeline; for cron.")
@click.option(
    "--draft",
    default=DRAFT_FILE,
    show_default=True,
    metavar="FILE",
    help="Where the draft goes if a keyset statement is the next step.",
)
@click.option(
    "--withdrawn",
    metavar="URL",
    help="First forget the publications of the card with this endpoint: it is served no more.",
)
@keystore_option
@passphrase_options
@json_option
def rotate(
    tick: bool,
    draft: str,
    withdrawn: str | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Take the next lawful step of the key rotation, and say when the one after it is due.

    Make a successor, activate it, retire the old key, destroy its private half: one step at a
    time, each when the publication before it has reached every cache. With --tick any number
    of hosts may ask at any time; a step is taken once.

    Where the next step is a keyset statement, only a draft of it is written: the roots have to
    sign that. A draft that is there and still says everything is left as it is.
    """
    store, settings = open_keystore(keystore), project_config().timeline
    now = moment()
    if withdrawn is not None:
        store.withdraw(withdrawn, now=now)
    newest = Ledger.beside(store).newest_keyset()
    if newest is not None:
        note_keyset(store, newest, now=now)
    done = store.tick(now=now, settings=settings, asked=not tick)
    made = waiting = None
    if done is None:
        source = passphrase_source(passphrase_file, passphrase_fd)
        made = _make_successor(store, settings, now, source, tick=tick)
    if done is None and made is None and newest is not None:
        waiting = _draft_of(store, newest, draft, now)
    ahead = steps(store.state, settings, now, asked=not tick)
    outcome = _Outcome(done, made, waiting, ahead, cards_to_sign(store.state, now))
    if as_json:
        print_json(_as_json(outcome, store, newest, now))
    else:
        _tell(outcome, store, newest, now)


def _make_successor(
    store: AnyStore,
    settings: TimelineSettings,
    now: datetime,
    source: PassphraseSource,
    *,
    tick: bool,
) -> KeyRecord | None:
    """Make the key that the next step asks for; None if none is due, or others were faster."""
    state = store.state
    due = [
        step
        for step in steps(state, settings, now, asked=not tick)
        if step.action == "generate" and step.is_due(now)
    ]
    here = [step for step in due if _is_made_here(state, step)]
    for step in due:
        if step not in here:
            say(
                f"the next {step.alg} {step.role} key has to be made where the active one lies: "
                "cardsign keys import --custody"
            )
    if not here:
        return None
    step = here[0]
    try:
        passphrase = new_passphrase(source)
    except PassphraseFault as fault:
        if not tick or fault.code != "passphrase.none":
            raise
        say("the next key needs a passphrase: cardsign keys rotate on a terminal")
        return None
    private = PrivateKey.generate("RS256" if step.alg == "RS256" else "ES256")
    try:
        return store.add_key(
            private,
            passphrase,
            now=now,
            random=os.urandom,
            roles=(step.role,),
            expect_generation=state.generation,
        )
    except StoreFault as fault:
        if fault.code != "keystore.changed":
            raise
        return None


def _is_made_here(state: StoreState, step: Step) -> bool:
    """Whether the key that is to have a successor lies in this key store."""
    kind = [key for key in state.active_keys(step.role) if key.alg == step.alg]
    return all(key.custody.startswith("file:") for key in kind)


def _draft_of(store: AnyStore, newest: KeysetStatement, file: str, now: datetime) -> _Draft | None:
    """The draft of the keyset statement that is due, written unless one is there that will do."""
    told = plan_renewal(store.state, newest, now=now)
    if not told.is_due(now):
        return None
    _check_entered(store)
    with of_the_user("the draft"):
        found = next_draft(store.state, newest, _drafted_before(Path(file)), now=now)
    if found is None:
        return None
    statement, is_new = found
    if is_new:
        write_atomic(Path(file), write_draft(statement), plain=True)
    complete = not any(one.missing for one in signings(statement, newest))
    more = () if is_new else says_more(store.state, newest, statement, now=now)
    return _Draft(file, statement, told.why, signing_lines(statement, newest), complete, more)


def _check_entered(store: AnyStore) -> None:
    """Refuse to draft from a state that somebody has edited: the roots go by what is drafted."""
    state, log = store.load(), store.read_audit()
    report = verify_chain(log, state.audit, where=store.log_place)
    if different := differences(state, report, log):
        raise StoreFault("keystore.audit_differs", different[0], path=store.place)


def _drafted_before(file: Path) -> bytes | None:
    """What is there; anything but a draft is not a tick's to read, to follow or to overwrite."""
    try:
        untrusted_draft = read_bytes(file, max_bytes=MAX_STATEMENT_BYTES, plain=True)
        read_draft(untrusted_draft)
    except FileFault as fault:
        if fault.code != "file.not_found":
            raise
        return None
    except StatementRefused as refusal:
        raise UsageFault("rotate.not_a_draft", refusal.message, path=str(file)) from refusal
    return untrusted_draft


# ---------------------------------------------------------------- what is said of it


def _tell(
    outcome: _Outcome, store: AnyStore, newest: KeysetStatement | None, now: datetime
) -> None:
    done, made = outcome.done, outcome.made
    if done is not None and done.key is not None:
        say(f"{_PAST[done.action]} {done.key.kid}")
        if then := _THEN.get(done.action):
            say(f"  next: {then}")
    elif made is not None:
        then = "publish it" if made.state == "prepublished" else "let the roots list it"
        say(f"made {made.kid}, the next {made.alg} {made.roles[0]} key; {then}")
    elif outcome.draft is not None:
        _tell_draft(outcome.draft)
    else:
        say("nothing is to be done now")
    if outcome.to_sign:
        listing = "" if newest is None else "list them (cardsign release renew --card) "
        say(f"  next: sign these cards again, {listing}and publish them")
        for card in outcome.to_sign:
            say(f"    {safe(card.url or card.name)}")
    for step in outcome.ahead:
        say(f"  {_worded(step, now)}")
    if newest is not None and outcome.draft is None:
        told = plan_renewal(store.state, newest, now=now)
        when = "now" if told.is_due(now) else f"from {told.due:{SHOWN_TIME}}"
        say(safe(f"  let the roots sign keyset {told.number}: {when}, {told.why}", limit=400))


def _tell_draft(draft: _Draft) -> None:
    number = f"{draft.statement.epoch}.{draft.statement.version}"
    say(safe(f"{NEEDS_ROOT}: keyset {number} waits for the roots: {draft.why}", limit=400))
    if draft.more:
        say(f"{SAYS_MORE}: nobody here has drafted this, which the draft in {draft.file} says too:")
        tell_differences(draft.more)
        say("  its digest is to be had from whoever drafted it; if nobody did, remove the file")
    else:
        say(f"  its digest is {draft.statement.digest}")
    for line in draft.signed_by:
        say(f"  signed by {line}")
    if draft.is_complete:
        say(f"  next: cardsign keyset publish {draft.file}")
    else:
        say(f"  next: cardsign keyset sign {draft.file}, by each holder")
        say(f"  then: cardsign keyset publish {draft.file}")
    say("        with the passphrase of the release key; or cardsign release renew right after")


def _worded(step: Step, now: datetime) -> str:
    if step.is_due(now):
        return f"{step.what}: now"
    when = "" if step.due is None else f"from {step.due:{SHOWN_TIME}}, "
    return safe(f"{step.what}: {when}{step.why}", limit=400)


def _as_json(
    outcome: _Outcome, store: AnyStore, newest: KeysetStatement | None, now: datetime
) -> dict[str, Any]:
    return {
        "done": outcome.done and _step_as_json(outcome.done),
        "made": outcome.made and described(outcome.made),
        "needs_root": outcome.draft and _draft_as_json(outcome.draft),
        "to_sign": [{"name": card.name, "url": card.url} for card in outcome.to_sign],
        "ahead": [_step_as_json(step) for step in outcome.ahead],
        "keyset": newest and _renewal_as_json(store, newest, now),
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    return {
        "action": step.action,
        "role": step.role,
        "alg": step.alg,
        "kid": step.key.kid if step.key else None,
        "due": step.due.isoformat() if step.due else None,
        "why": step.why,
    }


def _draft_as_json(draft: _Draft) -> dict[str, Any]:
    return {
        "code": NEEDS_ROOT,
        "draft": draft.file,
        "number": f"{draft.statement.epoch}.{draft.statement.version}",
        "digest": None if draft.more else draft.statement.digest,
        "says_more": [str(change) for change in draft.more],
        "signed_by": draft.signed_by,
        "why": draft.why,
    }


def _renewal_as_json(store: AnyStore, newest: KeysetStatement, now: datetime) -> dict[str, Any]:
    told = plan_renewal(store.state, newest, now=now)
    return {
        "number": told.number,
        "due": told.due.isoformat(),
        "why": told.why,
        "ends": told.ends.isoformat(),
    }
