"""``cardsign keys rotate``: the next lawful step, by hand or from cron."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click

from cardsign.cli.arguments import json_option
from cardsign.cli.commands import command
from cardsign.cli.dry_run import dry_run_option, to_change
from cardsign.cli.options import (
    GuidedOptions,
    UnlockOptions,
    guided_options,
    moment,
    project_config,
    unlock_options,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.cli.views import (
    key_json,
    keyset_due_json,
    keyset_due_text,
    progress_json,
    say_differences,
    say_progress,
    signing_lines,
    step_json,
    step_text,
)
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.issuer.guided import Progress, rotate_all_due
from cardsign.issuer.rotation import Rotation, WaitingDraft, rotate_keys
from cardsign.keys.keyset_drafts import KeysetDue

NEEDS_ROOT: Final = "rotate.needs_root"
SAYS_MORE: Final = "rotate.draft_says_more"

_PAST: Final = {
    "prepublish": "prepublished",
    "activate": "activated",
    "retire": "retired",
    "destroy": "destroyed the private key of",
}
_THEN: Final = {
    "prepublish": "publish it: cardsign publish",
    "retire": "publish the key set without it: cardsign publish",
}


@command(short_help="Take the next step of the rotation.", example="cardsign keys rotate --tick")
@click.option("--tick", is_flag=True, help="Do only what is due now; for cron.")
@click.option(
    "--all-due",
    is_flag=True,
    help="Do all that is due: keys, keyset, cards, release and publication; by hand or for cron.",
)
@guided_options
@click.option(
    "--withdrawn",
    metavar="URL",
    help="First forget the publications of the card with this endpoint, because it is no longer "
    "served.",
)
@unlock_options
@dry_run_option
@json_option
def rotate(
    tick: bool,
    all_due: bool,
    guided: GuidedOptions,
    withdrawn: str | None,
    keystore: UnlockOptions,
    as_json: bool,
) -> int:
    """Take the next step of the key rotation, and say when the one after it is due.

    A rotation makes a successor, activates it, retires the old key, and destroys the old private
    key. Each step waits until the publication before it has reached every cache. With --tick it
    may run at any time on any number of hosts; each step is taken once.

    If the next step is a keyset statement, only a draft is written, which the roots must sign. A
    draft that is still up to date is left as it is.

    With --all-due every step that is due is taken. The next keyset is drafted, signed with the
    root keys that are here and published; the cards are signed again, listed and published. It
    may be stopped anywhere and run again.

    Exit status 1: a draft waits for the signatures of the roots. With --tick or --all-due:
    anything needs a person.
    """
    now = moment()
    if all_due:
        progress = rotate_all_due(
            keystore.open(),
            guided.config(),
            guided.unlocking(keystore),
            now=now,
            draft=to_change(guided.draft),
        )
        return show_progress(progress, now, as_json)
    access = keystore.access()
    rotation = rotate_keys(
        keystore.open(),
        lambda role: access.passphrase(role, (role,)),
        now=now,
        draft=to_change(guided.draft),
        settings=project_config().timeline,
        asked=not tick,
        withdrawn=withdrawn,
    )
    for step in rotation.elsewhere:
        say(
            f"the next {step.alg} {step.role} key has to be made where the active one lies: "
            "cardsign keys import --custody URI"
        )
    if rotation.made is not None:
        role = rotation.made.roles[0]
        say(f"the passphrase of the {role} keys came from: {keystore.source(role).name}")
    if rotation.needs_passphrase:
        say("the next key needs a passphrase: cardsign keys rotate on a terminal")
    if as_json:
        print_json(_rotation_json(rotation))
    else:
        _say_rotation(rotation, now)
    waits = rotation.needs_person if tick else rotation.draft is not None
    return EXIT_NOT_TRUSTED if waits else EXIT_OK


def show_progress(progress: Progress, now: datetime, as_json: bool) -> int:
    """Print what a task came to; the exit status says whether anything needs a person."""
    if as_json:
        print_json(progress_json(progress))
    else:
        say_progress(progress, now)
    return EXIT_NOT_TRUSTED if progress.left else EXIT_OK


def _say_rotation(rotation: Rotation, now: datetime) -> None:
    taken, made, renewal = rotation.taken, rotation.made, rotation.renewal
    if taken is not None and taken.key is not None:
        say(f"{_PAST[taken.action]} {taken.key.kid}")
        if then := _THEN.get(taken.action):
            say(f"  next: {then}")
    elif made is not None:
        then = "publish it" if made.state == "prepublished" else "let the roots list it"
        say(f"made {made.kid}, the next {made.alg} {made.roles[0]} key; {then}")
    elif rotation.draft is not None and renewal is not None:
        _say_draft(rotation.draft, renewal)
    else:
        say("nothing to do now")
    if rotation.cards_to_sign:
        listing = "" if renewal is None else "list them (cardsign release renew --card FILE) "
        say(f"  next: sign these cards again, {listing}and publish them")
        for card in rotation.cards_to_sign:
            say(f"    {safe(card.url or card.name)}")
    for step in rotation.ahead:
        say(f"  {step_text(step, now)}")
    if renewal is not None and rotation.draft is None:
        say(f"  {keyset_due_text(renewal, now)}")


def _say_draft(waiting: WaitingDraft, renewal: KeysetDue) -> None:
    draft, file = waiting.draft, waiting.file
    say(safe(f"{NEEDS_ROOT}: keyset {draft.number} waits for the roots: {renewal.why}", limit=400))
    if waiting.additions:
        say(f"{SAYS_MORE}: nobody here has drafted this, which the draft in {file} says too:")
        say_differences(waiting.additions)
        say("  ask the person who drafted it for the digest; if nobody did, remove the file")
    else:
        say(f"  its digest is {draft.statement.digest}")
    for line in signing_lines(draft):
        say(f"  signed by {line}")
    if draft.is_complete:
        say(f"  next: cardsign keyset publish {file}")
    else:
        say(f"  next: cardsign keyset sign {file}, by each holder")
        say(f"  then: cardsign keyset publish {file}")
    say("        with the passphrase of the release key; or cardsign release renew right after")


def _rotation_json(rotation: Rotation) -> dict[str, Any]:
    renewal = rotation.renewal
    return {
        "done": rotation.taken and step_json(rotation.taken),
        "made": rotation.made and key_json(rotation.made),
        "needs_root": rotation.draft and renewal and _draft_json(rotation.draft, renewal),
        "needs_person": rotation.needs_person,
        "to_sign": [{"name": card.name, "url": card.url} for card in rotation.cards_to_sign],
        "ahead": [step_json(step) for step in rotation.ahead],
        "keyset": renewal and keyset_due_json(renewal),
    }


def _draft_json(waiting: WaitingDraft, renewal: KeysetDue) -> dict[str, Any]:
    return {
        "code": NEEDS_ROOT,
        "draft": str(waiting.file),
        "number": waiting.draft.number,
        "digest": None if waiting.additions else waiting.draft.statement.digest,
        "says_more": list(waiting.additions),
        "signed_by": signing_lines(waiting.draft),
        "why": renewal.why,
    }
