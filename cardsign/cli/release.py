"""``cardsign release``: which cards are current, said by an online key from cron."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cardsign.cli.issuing import (
    CARD_PATH,
    moment,
    needed_keyset,
    next_release,
    publication_option,
    publish_newest,
    release_signers,
    usual_plan,
)
from cardsign.cli.options import (
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
    read_input,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.keys.history import Ledger
from cardsign.keys.releases import (
    DEFAULT_LIFETIME,
    ReleasePlan,
    card_digest,
    is_early,
    past_half_life,
)
from cardsign.keys.stores.opening import Place
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.urls import parse_url


@click.group()
def release() -> None:
    """Say which cards are current, daily: a card that no fresh release lists is not trusted."""


@release.command(short_help="Sign and publish the next release; for cron.")
@click.option(
    "--card",
    "cards",
    multiple=True,
    metavar="[URL=]FILE",
    help="A signed card to list, before it is published [default URL: the issuer's "
    f"{CARD_PATH}]. May be repeated.",
)
@click.option("--withdraw", multiple=True, metavar="URL", help="No card is current there any more.")
@click.option(
    "--raise-floor",
    is_flag=True,
    help="Let older cards of each --card end now, not when caches are rid of them.",
)
@click.option(
    "--extended-floor",
    type=click.IntRange(min=1),
    metavar="SEQ",
    help="Extended cards that were made for an earlier release end.",
)
@click.option(
    "--revoke",
    multiple=True,
    metavar="KID",
    help="A card or release key that is not in "
    "this key store; those that are, are revoked by cardsign keys revoke.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 14),
    default=DEFAULT_LIFETIME.days,
    show_default=True,
    help="How long it is believed.",
)
@click.option("--force", is_flag=True, help="Sign one even if nothing is new.")
@publication_option
@keystore_option
@passphrase_options
@json_option
def renew(
    publication: Path | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    days: int,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Sign and publish the next release with the release key; for cron, daily.

    Nothing is done while nothing is new and more than half of the newest one's life is left.
    Cards that are listed stay so. Once the published card is the only one that caches can hold,
    the floor rises to it. Keys of the key store that were revoked are revoked here at once.
    """
    store, now = open_keystore(keystore), moment()
    source = passphrase_source(passphrase_file, passphrase_fd)
    needed_keyset(Ledger.beside(store))

    def plan(keyset: KeysetStatement, previous: ReleaseStatement | None) -> ReleasePlan:
        return _plan(usual_plan(store, previous, now), keyset, previous, **options)

    newest, is_new = next_release(
        store,
        plan,
        lambda draft: release_signers(store, draft, source),
        publication,
        now=now,
        lifetime=timedelta(days=days),
        force=force,
    )
    publish_newest(store, publication, now=now)
    if as_json:
        print_json({"created": is_new, **_described(newest)})
    elif is_new:
        say(f"release {newest.seq} lists {len(newest.cards)} card(s) until {_day(newest.exp)}")
    else:
        say(f"release {newest.seq} says the same until {_day(newest.exp)}; nothing changed")


@release.command()
@keystore_option
@json_option
def show(keystore: Place | None, as_json: bool) -> int:
    """Show the newest release. Exit status 1 if it is time for another one.

    That is: half of its life is over, it speaks of an older keyset statement, or a clock that was
    ahead has signed it.
    """
    ledger, now = Ledger.beside(open_keystore(keystore)), moment()
    keyset, newest = needed_keyset(ledger), ledger.newest_release()
    if newest is None:
        say("there is no release statement yet: cardsign release renew")
        return EXIT_NOT_TRUSTED
    is_due = (
        newest.keyset.digest != keyset.digest
        or past_half_life(newest, now=now)
        or is_early(newest, now=now)
    )
    if as_json:
        print_json({"due": is_due, **_described(newest)})
    else:
        reference = f"{newest.keyset.epoch}.{newest.keyset.version}"
        click.echo(f"release {newest.seq} under keyset {reference}, until {_day(newest.exp)}")
        for card in newest.cards:
            floor = newest.floor.get(card.url, 0)
            click.echo(f"  {safe(card.url)} {card.payload_sha256} seq {card.seq}, floor {floor}")
        for thumbprint in sorted(newest.revoked):
            click.echo(f"  revoked {thumbprint}")
    if is_due:
        say("it is time for another one: cardsign release renew")
    return EXIT_NOT_TRUSTED if is_due else EXIT_OK


def _plan(
    usual: ReleasePlan,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    *,
    cards: tuple[str, ...],
    withdraw: tuple[str, ...],
    raise_floor: bool,
    extended_floor: int | None,
    revoke: tuple[str, ...],
) -> ReleasePlan:
    """The usual plan with what the options say."""
    listed = tuple(_card(text, keyset) for text in cards)
    known = {card.url for card in previous.cards}.union(previous.floor) if previous else set()
    if unlisted := [url for url in withdraw if url not in known]:
        raise UsageFault("usage.conflict", f"--withdraw: no card is listed at {unlisted[0]!r}")
    kids = {key.public.kid: key.public.thumbprint for key in keyset.keys}
    unknown = [kid for kid in revoke if kid not in kids and kid not in kids.values()]
    if unknown:
        raise UsageFault("usage.conflict", f"the keyset lists no key {unknown[0]!r} to be revoked")
    return replace(
        usual,
        cards=listed,
        settled=dict(listed) if raise_floor else usual.settled,
        withdrawn=frozenset(withdraw),
        extended_floor=extended_floor,
        revoked=usual.revoked.union(kids.get(kid, kid) for kid in revoke),
    )


def _card(text: str, keyset: KeysetStatement) -> tuple[str, str]:
    """The url and the digest of ``[URL=]FILE``."""
    url, equals, file = text.partition("=")
    if not equals or "://" not in url:
        url, file = keyset.origins[0] + CARD_PATH, text
    with of_the_user(file):
        return str(parse_url(url)), card_digest(read_input(file))


def _described(statement: ReleaseStatement) -> dict[str, Any]:
    return {
        "seq": statement.seq,
        "digest": statement.digest,
        "keyset": f"{statement.keyset.epoch}.{statement.keyset.version}",
        "exp": statement.exp,
        "cards": [
            {"url": card.url, "payload_sha256": card.payload_sha256, "seq": card.seq}
            for card in statement.cards
        ],
        "floor": dict(statement.floor),
        "revoked": sorted(statement.revoked),
    }


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
