"""``cardsign keys activate|rotate|retire|revoke|destroy|look``: the steps of a key's life."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cardsign.cli.keys.showing import described
from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_any_keystore,
    passphrase_options,
    passphrase_source,
    project_config,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import PassphraseFault, StoreFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.keys.life import standby_of
from cardsign.keys.opening import AnyStore, Place
from cardsign.keys.passphrase import PassphraseSource, new_passphrase, terminal_prompt
from cardsign.keys.records import REASONS, KeyRecord, Publication, Reason
from cardsign.keys.rotation import Step, steps
from cardsign.keys.timeline import SHOWN_TIME, TimelineSettings
from cardsign.recorded import published_card

custody_option = click.option(
    "--same-custody-accepted",
    is_flag=True,
    help="Activate a key although it lies where a compromised one lay.",
)


@click.command()
@click.argument("kid")
@custody_option
@keystore_option
@json_option
def activate(kid: str, same_custody_accepted: bool, keystore: Place | None, as_json: bool) -> None:
    """Let the prepublished key KID sign. The one before it signs on beside it for a while.

    Refused until every newest publication has held the key for as long as caches may keep an
    older one.
    """
    store = open_any_keystore(keystore)
    record = store.activate(
        kid,
        now=datetime.now(UTC),
        settings=project_config().timeline,
        same_custody_accepted=same_custody_accepted,
    )
    _tell(record, "signs from now on; sign your cards again and publish them", as_json)


@click.command()
@click.argument("kid")
@keystore_option
@json_option
def retire(kid: str, keystore: Place | None, as_json: bool) -> None:
    """Take the key KID, which has a successor, out of the JWK Set.

    Refused until its successor has signed every published card, and caches hold those.
    """
    store = open_any_keystore(keystore)
    settings = project_config().timeline
    record = store.retire(kid, now=datetime.now(UTC), settings=settings)
    _tell(record, "has left the key set; publish it", as_json)


@click.command()
@click.argument("kid")
@click.option(
    "--reason",
    type=click.Choice(REASONS),
    required=True,
    help="compromised: somebody else may have it. superseded, ceased: it is not needed any more.",
)
@custody_option
@keystore_option
@json_option
def revoke(
    kid: str, reason: Reason, same_custody_accepted: bool, keystore: Place | None, as_json: bool
) -> None:
    """Revoke the key KID at once and for ever, and let its standby sign.

    A standby that lies where a compromised key lay is activated only if you accept that.
    """
    store = open_any_keystore(keystore)
    now = datetime.now(UTC)
    was_active = store.find(kid).state == "active"
    record = store.revoke(kid, reason=reason, now=now, same_custody_accepted=same_custody_accepted)
    _tell(record, "is revoked; sign your cards again and publish them now", as_json)
    if was_active and record.rotates:
        _tell_of_standby(store, record, now)


def _tell_of_standby(store: AnyStore, revoked: KeyRecord, now: datetime) -> None:
    """Say which key has taken over; where that is a risk, ask whoever sits at the terminal."""
    standby = standby_of(store.state, revoked)
    for key in store.state.keys:
        if key.state == "active" and key.succeeds(revoked):
            say(f"  {key.kid} signs from now on")
            return
    say(f"  no {revoked.alg} key signs now: there is no standby that is above suspicion")
    question = f"{standby.kid} lay beside it. Activate it all the same?" if standby else ""
    if standby and terminal_prompt() and click.confirm(question, err=True):
        settings = project_config().timeline
        store.activate(standby.kid, now=now, settings=settings, same_custody_accepted=True)
        say(f"  {standby.kid} signs from now on")
    else:
        say("  make a new key, or cardsign keys activate KID --same-custody-accepted")


@click.command()
@click.argument("kid")
@keystore_option
@json_option
def destroy(kid: str, keystore: Place | None, as_json: bool) -> None:
    """Destroy the private half of the key KID, which is retired or revoked. The record stays.

    Copies elsewhere, such as backups, are not touched.
    """
    store = open_any_keystore(keystore)
    record = store.destroy(kid, now=datetime.now(UTC), settings=project_config().timeline)
    _tell(record, "has no private half here any more", as_json)


@click.command()
@click.option("--tick", is_flag=True, help="Only what is due by the timeline; for cron.")
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
    """
    store, settings = open_any_keystore(keystore), project_config().timeline
    now = datetime.now(UTC)
    if withdrawn is not None:
        store.withdraw(withdrawn, now=now)
    done = store.tick(now=now, settings=settings, asked=not tick)
    made = None
    if done is None:
        source = passphrase_source(passphrase_file, passphrase_fd)
        made = _make_successor(store, settings, now, source, tick=tick)
    ahead = steps(store.state, settings, now)
    if as_json:
        print_json(
            {
                "done": done and _step_as_json(done),
                "made": made and described(made),
                "ahead": [_step_as_json(step) for step in ahead],
            }
        )
        return
    if done is not None and done.key is not None:
        say(f"{_PAST[done.action]} {done.key.kid}")
    elif made is not None:
        say(f"made {made.kid}, the next {made.alg} key; publish it")
    else:
        say("nothing is to be done now")
    for step in ahead:
        say(f"  {_worded(step, now)}")


_PAST = {"activate": "activated", "retire": "retired", "destroy": "destroyed the private half of"}


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
    due = [step for step in steps(state, settings, now, asked=not tick) if step.is_due(now)]
    step = next((step for step in due if step.action == "generate"), None)
    if step is None:
        return None
    if any(not key.custody.startswith("file:") for key in state.active_keys(step.role)):
        say("the next key has to be made where the active one lies: cardsign keys import --custody")
        return None
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


def _worded(step: Step, now: datetime) -> str:
    what = f"{step.action} {step.key.kid if step.key else f'the next {step.alg} key'}"
    if step.is_due(now):
        return f"{what}: now"
    when = "" if step.due is None else f"from {step.due:{SHOWN_TIME}}, "
    return safe(f"{what}: {when}{step.why}", limit=400)


def _step_as_json(step: Step) -> dict[str, Any]:
    return {
        "action": step.action,
        "role": step.role,
        "alg": step.alg,
        "kid": step.key.kid if step.key else None,
        "due": step.due.isoformat() if step.due else None,
        "why": step.why,
    }


def _tell(record: KeyRecord, what: str, as_json: bool) -> None:
    if as_json:
        print_json(described(record))
    else:
        say(f"{record.kid} {what}")


@click.command()
@click.argument("card_url")
@click.option("--jwks", "jwks_url", required=True, metavar="URL", help="The live key set.")
@click.option(
    "--insecure-loopback-http", is_flag=True, help="Allow http to this machine, for tests."
)
@keystore_option
@json_option
def look(
    card_url: str,
    jwks_url: str,
    insecure_loopback_http: bool,
    keystore: Place | None,
    as_json: bool,
) -> None:
    """Look at the live card CARD_URL and key set, and put on record what is served there.

    For whoever does not publish with cardsign publish, or deploys long after it: the waits of
    a key rotation then run from what was seen.
    """
    from cardsign.net.fetch import FetchPolicy, fetch

    policy = FetchPolicy(insecure_loopback_http=insecure_loopback_http)
    store = open_any_keystore(keystore)
    untrusted_jwks = fetch(jwks_url, policy=policy).body
    untrusted_card = fetch(card_url, policy=policy).body
    jwks, now = JwkSet.from_bytes(untrusted_jwks), datetime.now(UTC)
    ours = [key.public for key in store.state.keys]
    seen = Publication(
        generation=0,
        at=now,
        max_age=0,  # what is assumed of caches stands in the settings
        kids=tuple(key.kid for key in jwks.keys if key in ours),
        cards=(published_card("agent-card.json", untrusted_card, store.jwks()),),
    )
    store.record_publication(seen, now=now)
    if as_json:
        print_json({"kids": list(seen.kids), "signed_by": list(seen.cards[0].kids)})
    else:
        say(
            f"on record: {len(seen.kids)} of our keys are live; the card is signed by "
            f"{', '.join(seen.cards[0].kids) or 'none of them'}"
        )
