"""``cardsign keys rotate``: all that is due, by hand or from cron."""

from __future__ import annotations

from datetime import datetime

from cardsign.cli.arguments import option
from cardsign.cli.commands import command
from cardsign.cli.dry_run import dry_run_option, to_change
from cardsign.cli.options import (
    GuidedOptions,
    UnlockOptions,
    guided_options,
    moment,
    unlock_options,
)
from cardsign.cli.talk import print_json
from cardsign.cli.views import progress_json, say_progress
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.issuer.guided import Progress, rotate_keys
from cardsign.keys.lifecycle import withdraw


@command(short_help="Do all that is due.", example="cardsign keys rotate --dry-run")
@guided_options
@option(
    "--withdrawn URL",
    "First forget the publications of the card with this endpoint, because it is no longer served.",
)
@unlock_options
@dry_run_option
def rotate(
    guided: GuidedOptions, withdrawn: str | None, keystore: UnlockOptions, as_json: bool
) -> int:
    """Do all that is due: keys, keyset, cards, release and publication; by hand or from cron.

    A rotation makes a successor, activates it, retires the old key, and destroys the old private
    key. Each step waits until the publication before it has reached every cache. The next keyset
    is drafted, signed with the root keys that are here and published. The cards are signed again,
    listed and published. The command may be stopped anywhere, and run at any time on any number
    of hosts; each step is taken once.

    A draft that is still right is left as it is.

    Exit status 1: something is left for a person. It says who, what and until when.
    """
    store, now = keystore.open(), moment()
    if withdrawn is not None:
        store.apply(withdraw, withdrawn, now=now)
    progress = rotate_keys(
        store,
        guided.config(),
        guided.unlocking(keystore),
        now=now,
        draft=to_change(guided.draft),
    )
    return show_progress(progress, now, as_json)


def show_progress(progress: Progress, now: datetime, as_json: bool) -> int:
    """Print what a task came to; the exit status says whether anything needs a person."""
    if as_json:
        print_json(progress_json(progress))
    else:
        say_progress(progress, now)
    return EXIT_NOT_TRUSTED if progress.left else EXIT_OK
