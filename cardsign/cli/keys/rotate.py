"""``cardsign keys rotate|revoke``: all that is due, and what is begun by a person."""

from __future__ import annotations

from typing import Any, Final

import click

from cardsign.cli.frame import Command
from cardsign.cli.keystore import UnlockOptions, project_config
from cardsign.cli.options import root_keystore_option, take, unlock_options, yes_option
from cardsign.cli.printer import safe, say
from cardsign.cli.streams import confirm, dry_run_option
from cardsign.cli.views import show_progress
from cardsign.errors import FileFault, StoreFault
from cardsign.issuer.reconcile import adopt as adopt_published
from cardsign.issuer.reconcile import reconcile, revoke_keys, rotate_now
from cardsign.keys.model import (
    ENDED,
    REVOCATION_REASONS,
    KeyRecord,
    RevocationReason,
    StoreState,
)
from cardsign.keys.opening import StorePlace

#: What ``--now`` stands for without a key.
_ALL: Final = "*"


@click.command(
    cls=Command, short_help="Do everything that is due.", example="cardsign keys rotate --dry-run"
)
@root_keystore_option
@click.option(
    "--now",
    metavar="[KID]",
    is_flag=False,
    flag_value=_ALL,
    help="Begin to rotate this active key now, or all of them. For a stolen key use cardsign keys "
    "revoke.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="First add to the log what another copy of this key store has published, as cardsign "
    "keys doctor lists it.",
)
@unlock_options
@dry_run_option
def rotate(root_keystore: StorePlace | None, now: str | None, adopt: bool, **options: Any) -> int:
    """Do everything that is due: keys, keyset, cards, release and publication.

    Run it by hand, or from cron.

    A rotation makes a successor, activates it, and retires the old key, whose private key goes
    with it. Each step waits until the publication before it has reached every cache. The next
    keyset is drafted, signed with the root keys that are here and published. The cards are signed
    again, listed and published. The command may be stopped anywhere, and run at any time on any
    number of hosts; each step is taken once.

    A draft in next-keyset.json is left as it is while it is still right.

    Exit status 1: something is left for a person. The output says for whom, what, and until
    when.
    """
    keystore = take(UnlockOptions, options)
    work = keystore.work(project_config(), root_keystore=root_keystore)
    if adopt:
        return show_progress(adopt_published(work), work.now)
    if now is None:
        return show_progress(reconcile(work), work.now)
    return show_progress(rotate_now(work, [] if now == _ALL else [now]), work.now)


@click.command(
    cls=Command,
    short_help="Revoke keys permanently.",
    example="cardsign keys revoke vzTO --reason compromised",
)
@click.argument("kids", metavar="KID...", nargs=-1, required=True)
@click.option(
    "--reason",
    type=click.Choice(REVOCATION_REASONS),
    required=True,
    help="compromised: somebody else may have the key, and all that is kept with it. superseded, "
    "ceased: the key is no longer needed.",
)
@root_keystore_option
@unlock_options
@yes_option
@dry_run_option
def revoke(
    kids: tuple[str, ...],
    reason: RevocationReason,
    root_keystore: StorePlace | None,
    yes: bool,
    **options: Any,
) -> int:
    """Revoke the keys KID... permanently, and do everything that follows from it.

    With a compromised key all card keys of its custody are revoked: those that the same passphrase
    of the key store opens, or that are on the same token or in the same service. A release key of
    the custody signs one more release, which revokes them, and is revoked after that. Root and
    recovery keys are not revoked here: the next keyset or a recovery leaves them out.

    The keys leave the published key set at once. Standby keys of another custody, or new keys under
    another passphrase, replace them. The root keys that are here sign one keyset that lists the
    replacements. The cards are signed again and published. At the end the command lists what needs
    a person. It can be repeated.

    Exit status 1: something is left for a person.
    """
    keystore = take(UnlockOptions, options)
    store = keystore.open()
    keys = [store.state.find(kid) for kid in kids]
    if alive := [key for key in keys if key.state != "revoked"]:
        warning = _ask_to_revoke(store.state, alive, reason)
        confirm(yes, warning)
        if yes and reason == "compromised":
            say(safe(warning, limit=600))
    work, notes = keystore.work(project_config(), store=store), []
    try:
        if root_keystore:
            keystore.add_roots(work, root_keystore)
    except (StoreFault, FileFault) as fault:
        if reason != "compromised":
            raise
        # A stick that is not there keeps no stolen key in what is published.
        notes = [f"without the root keys: {fault.message}", f"  {fault.hint}"]
    progress = revoke_keys(work, [key.thumbprint for key in keys], reason=reason)
    return show_progress(progress._replace(notes=(*notes, *progress.notes)), work.now)


def _ask_to_revoke(state: StoreState, keys: list[KeyRecord], reason: RevocationReason) -> str:
    names = ", ".join(f"{key.roles[0]} key {key.kid}" for key in keys)
    if reason != "compromised":
        return f"{names} will be revoked permanently"
    groups = {key.group for key in keys}
    beside = [key for key in state.keys if key.group in groups and key.state not in ENDED]
    others = ", ".join(key.named for key in beside if key not in keys)
    also = f", together with {others}, which are kept in the same custody" if others else ""
    if any(not key.rotates for key in beside):
        also += "; root keys end with the next keyset, or the recovery key opens a new epoch"
    return f"{names} will count as stolen permanently{also}"
