"""``cardsign release``: which cards are current, said by an online key from cron."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from cardsign.cli.issuing import (
    CARD_PATH,
    check_publishable,
    moment,
    needed_keyset,
    newest_of,
    publication_option,
    publish_newest,
    signers_among,
)
from cardsign.cli.options import (
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
    project_config,
    read_input,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, SigningRefused, StoreFault, UsageFault
from cardsign.jose.assembly import sign_statement
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement, check_release, read_release
from cardsign.jose.statements import TYP_RELEASE, check_times
from cardsign.keys.ledger import Ledger, note_release
from cardsign.keys.passphrase import PassphraseSource
from cardsign.keys.releases import (
    DEFAULT_LIFETIME,
    ReleasePlan,
    card_digest,
    draft_following,
    is_needed,
    past_half_life,
)
from cardsign.keys.store import DirectoryStore
from cardsign.trust.origins import parse_url

#: The clock of the roots' machine may be ahead of this one.
SKEW: Final = timedelta(minutes=5)
#: Beyond the last max-age, before a card counts as the only one that caches hold.
SETTLING: Final = timedelta(minutes=5)


ATTEMPTS: Final = 5  # at one release; each that fails is one that another process made


@click.group()
def release() -> None:
    """Say which cards are current, daily: a card that no fresh release lists is not trusted."""


@release.command()
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
    keystore: Path | None,
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
    for attempt in range(ATTEMPTS):
        try:
            with Ledger.beside(store).alone():
                draft = _draft(store, publication, now, timedelta(days=days), options)
                is_new = force or is_needed(draft.release, draft.previous, now=now)
                if is_new:
                    _sign(store, draft, source, publication, now)
            break
        except StoreFault as fault:  # somebody has changed the key store meanwhile
            if fault.code != "keystore.changed" or attempt == ATTEMPTS - 1:
                raise
    publish_newest(store, publication, now=now)
    newest = Ledger.beside(store).newest_release() or draft.release
    if as_json:
        print_json({"created": is_new, **_described(newest)})
    elif is_new:
        say(f"release {newest.seq} lists {len(newest.cards)} card(s) until {_day(newest.exp)}")
    else:
        say(f"release {newest.seq} says the same until {_day(newest.exp)}; nothing changed")


@dataclass(frozen=True, slots=True)
class _Draft:
    release: ReleaseStatement
    keyset: KeysetStatement
    previous: ReleaseStatement | None


def _draft(
    store: DirectoryStore,
    publication: Path | None,
    now: datetime,
    lifetime: timedelta,
    options: dict[str, Any],
) -> _Draft:
    ledger = Ledger.beside(store)
    keyset, previous = needed_keyset(ledger), ledger.newest_release()
    with of_the_user("the newest keyset statement"):
        check_times(keyset, now=now, skew=SKEW)
    plan = _plan(store, keyset, previous, publication, now, **options)
    seq = max(previous.seq if previous else 0, ledger.held.release_seq) + 1
    with of_the_user("the release"):
        draft = draft_following(plan, keyset, previous, seq=seq, now=now, lifetime=lifetime)
    return _Draft(draft, keyset, previous)


def _sign(
    store: DirectoryStore,
    draft: _Draft,
    source: PassphraseSource,
    publication: Path | None,
    now: datetime,
) -> None:
    """Sign a draft, check it as a verifier will, take its number, and keep it."""
    listed = {key.public.thumbprint for key in draft.keyset.keys}
    able = listed - draft.release.revoked
    signers = [one for _, one in signers_among(store, ("release",), able, source)]
    if not signers:
        raise SigningRefused(
            "sign.no_key",
            "no release key of the newest keyset statement is here",
            path=str(store.path),
            hint="The roots can list one: cardsign keyset draft.",
        )
    data = sign_statement(draft.release.envelope.payload, signers, TYP_RELEASE)
    signed = read_release(data)
    check_release(signed, draft.keyset, draft.previous, now=now, skew=timedelta())
    check_publishable(store, publication, release=data, now=now)
    note_release(store, signed, now=now)
    Ledger.beside(store).keep_release(signed, data)


@release.command()
@keystore_option
@json_option
def show(keystore: Path | None, as_json: bool) -> int:
    """Show the newest release. Exit status 1 if it is time for another one.

    That is: half of its life is over, or it speaks of an older keyset statement.
    """
    ledger, now = Ledger.beside(open_keystore(keystore)), moment()
    keyset, newest = needed_keyset(ledger), ledger.newest_release()
    if newest is None:
        say("there is no release statement yet: cardsign release renew")
        return EXIT_NOT_TRUSTED
    is_due = newest.keyset.digest != keyset.digest or past_half_life(newest, now=now)
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
    store: DirectoryStore,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    publication: Path | None,
    now: datetime,
    *,
    cards: tuple[str, ...],
    withdraw: tuple[str, ...],
    raise_floor: bool,
    extended_floor: int | None,
    revoke: tuple[str, ...],
) -> ReleasePlan:
    listed = tuple(_card(text, keyset) for text in cards)
    settled = dict(listed) if raise_floor else _settled(previous, publication, now)
    kids = {key.public.kid: key.public.thumbprint for key in keyset.keys}
    unknown = [kid for kid in revoke if kid not in kids and kid not in kids.values()]
    if unknown:
        raise UsageFault("usage.conflict", f"the keyset lists no key {unknown[0]!r} to be revoked")
    state = store.load()
    revoked = {key.thumbprint for key in state.keys if key.state == "revoked"}
    return ReleasePlan(
        listed,
        settled,
        frozenset(withdraw),
        extended_floor,
        frozenset(revoked.union(kids.get(kid, kid) for kid in revoke)),
        state.audit.digest,
    )


def _settled(
    previous: ReleaseStatement | None, publication: Path | None, now: datetime
) -> dict[str, str]:
    """By url, the published card's digest, once no cache can hold an older one."""
    directory = publication or project_config().publish
    if directory is None or previous is None:
        return {}
    generation = newest_of(directory)
    if generation is None or generation.settled_at is None:
        return {}
    if now < generation.settled_at + SETTLING:
        return {}
    digest = card_digest(generation.card)
    return {card.url: digest for card in previous.cards if card.payload_sha256 == digest}


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
