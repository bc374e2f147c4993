"""``cardsign release``: say which cards are current, with an online key and from cron."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from cardsign.cli.arguments import (
    dry_run_option,
    moment,
    option,
    option_group,
    read_input,
    to_change,
)
from cardsign.cli.commands import group
from cardsign.cli.options import (
    KeystoreOptions,
    UnlockOptions,
    keystore_options,
    project_cards,
    project_config,
    publication_option,
    unlock_options,
)
from cardsign.cli.talk import counted, printed, safe, say
from cardsign.cli.views import release_json, say_taken_up, say_updated
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, of_the_user
from cardsign.issuer.cards import to_list
from cardsign.issuer.release import ReleaseChanges, is_release_due, needed_keyset, renew_release
from cardsign.keys.drafts import RELEASE_LIFETIME
from cardsign.keys.history import StatementHistory
from cardsign.times import minute
from cardsign.urls import CARD_PATH, parse_url


def _card(text: str) -> tuple[str | None, bytes]:
    """The url and the card of ``[URL=]FILE``."""
    url, equals, file = text.partition("=")
    if not equals or "://" not in url:
        return None, read_input(text)
    with of_the_user("--card"):
        return str(parse_url(url)), read_input(file)


_change_options = option_group(
    ReleaseChanges,
    "changes",
    option(
        "--withdraw URL...",
        "Withdraw the card at this URL. No card there is current any more.",
        into="withdrawn",
    ),
    option(
        "--raise-floor",
        "Make older cards at the URL of each --card invalid now, even if caches still have them.",
    ),
    option(
        "--extended-floor SEQ",
        "Make extended cards for an earlier release than SEQ invalid.",
        type=click.IntRange(min=1),
    ),
    option(
        "--revoke KID...",
        "Revoke a card or release key that is not in this key store. For the others use cardsign "
        "keys revoke.",
        into="revoked",
    ),
)


@group()
def release() -> None:
    """Sign the daily list of current cards. A card that no fresh release lists is not trusted."""


@release.command(
    short_help="Sign and publish the next release; for cron.",
    example="cardsign release renew --card signed.json",
)
@option(
    "--card [URL=]FILE...",
    "A signed card to list, before it is published [default URL: the issuer's "
    f"{CARD_PATH}]. May be repeated.",
    into="listed",
)
@_change_options
@option(
    "--days",
    "How long it is valid.",
    type=click.IntRange(1, 14),
    default=RELEASE_LIFETIME.days,
    show_default=True,
)
@option("--force", "Sign a release even if nothing is new.")
@publication_option
@unlock_options
@dry_run_option
def renew(
    listed: tuple[str, ...],
    changes: ReleaseChanges,
    days: int,
    force: bool,
    publication: Path | None,
    keystore: UnlockOptions,
) -> None:
    """Sign and publish the next release with the release key; for cron, daily.

    It does nothing if nothing is new and less than half of the newest release's time is over.
    Without --card it lists the signed public card of cardsign.toml.
    Listed cards stay listed. A card that was withdrawn stays so until --card names it. An older
    card is dropped once caches cannot have it any more.
    Keys that were revoked in the key store are revoked by this release too.
    """
    config = project_config()
    directory = publication or config.publish
    named = tuple(map(_card, listed)) or to_list(project_cards(config))
    changes = replace(changes, cards=named, by_name=bool(listed))
    renewed = renew_release(
        keystore.open(),
        keystore.access(),
        now=moment(),
        directory=directory and to_change(directory),
        settings=config.timeline,
        changes=changes,
        lifetime=timedelta(days=days),
        force=force,
    )
    say_taken_up(renewed.taken_up)
    say_updated(renewed.published, directory)
    newest = renewed.release
    if printed({"created": renewed.is_new, **release_json(newest)}):
        return
    if renewed.is_new:
        cards = counted(len(newest.cards), "card")
        say(f"release {newest.seq} lists {cards} until {minute(newest.exp)}")
    else:
        say(f"release {newest.seq} says the same until {minute(newest.exp)}; nothing changed")


@release.command(example="cardsign release show --json")
@keystore_options
def show(keystore: KeystoreOptions) -> int:
    """Show the newest release. Exit status 1 if it is time for another one.

    It is time if half of its lifetime is over, or if it names an older keyset statement. It is
    also time if the clock was ahead when it was signed.
    """
    store = keystore.open()
    keyset, newest = needed_keyset(store), StatementHistory.of(store).newest_release()
    if newest is None:
        say("there is no release statement yet: cardsign release renew")
        return EXIT_NOT_TRUSTED
    is_due = is_release_due(newest, keyset, now=moment())
    if not printed({"due": is_due, **release_json(newest)}):
        reference = newest.keyset.label
        click.echo(f"release {newest.seq} under keyset {reference}, until {minute(newest.exp)}")
        for card in newest.cards:
            floor = newest.floor.get(card.url, 0)
            click.echo(f"  {safe(card.url)} {card.payload_sha256} seq {card.seq}, floor {floor}")
        for thumbprint in sorted(newest.revoked):
            click.echo(f"  revoked {thumbprint}")
    if is_due:
        say("it is time for another one: cardsign release renew")
    return EXIT_NOT_TRUSTED if is_due else EXIT_OK
