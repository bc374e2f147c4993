"""``cardsign sign`` and ``cardsign canonicalize``."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Final

import click

from cardsign.card.canonical import DEFAULT_PROFILES, PROFILES
from cardsign.card.canonical import canonicalize as make_payload
from cardsign.card.coverage import uncovered_parts
from cardsign.card.document import Card
from cardsign.card.extended import AUDIENCE, MAX_SEQ, ExtendedMarker
from cardsign.cli.options import (
    STDIO,
    json_option,
    keystore_option,
    of_the_user,
    passphrase_options,
    read_input,
    write_output,
)
from cardsign.cli.signers import choose_signers, public_option
from cardsign.cli.talk import print_json, say, say_notes
from cardsign.errors import UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.keys.stores.opening import Place
from cardsign.sign import (
    COMPAT_PROFILES,
    Signing,
    SigningOptions,
    check_as_an_outsider,
    sign_with_notes,
)

#: As long as a keyset statement may live; a year and a month to spare for an annual renewal.
MAX_LIFETIME: Final = timedelta(days=400)


@click.command()
@click.argument("card")
@click.option("-o", "--output", default=STDIO, metavar="OUT", help="'-' for stdout, the default.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(DEFAULT_PROFILES),
    help="Serve only these profiles; served-as-is is always among them. May be repeated.",
)
@click.option(
    "--compat",
    multiple=True,
    type=click.Choice(COMPAT_PROFILES),
    help="Serve an older or stranger reading as well, or a lossy one although its payload has "
    "lost every endpoint; what it leaves open is said. May be repeated.",
)
@click.option("--strict", is_flag=True, help="Refuse a card that lacks REQUIRED members.")
@click.option("--force", is_flag=True, help="Sign what is no proper Agent Card, and say why not.")
@click.option(
    "--known-keys",
    metavar="JWKS",
    help="Keys of other signers; their signatures that no longer fit are dropped.",
)
@click.option("--drop-foreign", is_flag=True, help="Drop the signatures of other signers.")
@click.option(
    "--extended",
    "audience",
    metavar="AUDIENCE",
    help="Mark the card as the extended one of an audience, best a random id such as "
    "`openssl rand -hex 16` prints; with --seq and --expires.",
)
@click.option(
    "--seq",
    type=click.IntRange(1, MAX_SEQ),
    metavar="N",
    help="The number of the release that the extended card is made for.",
)
@click.option(
    "--expires",
    metavar="DATE",
    help="When the extended card ends, at most 400 days ahead: YYYY-MM-DD, with all of that day, "
    "or YYYY-MM-DDThh:mm:ss; in UTC where no offset is given.",
)
@click.option(
    "--key",
    "uris",
    multiple=True,
    metavar="URI",
    help="Sign only with the key that lies there (docs/signers.md), and allow what its URI runs "
    "or loads. Its public half is the key store's, else --public. May be repeated.",
)
@public_option
@keystore_option
@passphrase_options
@json_option
def sign(
    card: str,
    output: str,
    profiles: tuple[str, ...],
    compat: tuple[str, ...],
    strict: bool,
    force: bool,
    known_keys: str | None,
    drop_foreign: bool,
    audience: str | None,
    seq: int | None,
    expires: str | None,
    uris: tuple[str, ...],
    public: str | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Sign CARD ('-' for stdin) with every active key of the key store.

    One signature is made for each distinct payload, so that verifiers of every reading of the
    specification accept the card. A card that is fully signed already is written unchanged.
    """
    if as_json and output == STDIO:
        raise UsageFault("usage.conflict", "--json and the card both want stdout; name -o OUT")
    marker = read_marker(audience, seq, expires, now=datetime.now(UTC))
    document = read_input(card)
    known = _known_keys(known_keys)
    signers, own_kids = choose_signers(uris, public, keystore, passphrase_file, passphrase_fd)
    options = SigningOptions(
        profiles=profiles or DEFAULT_PROFILES,
        compat=compat,
        strict=strict,
        force=force,
        known_keys=known,
        own_kids=own_kids,
        drop_foreign=drop_foreign,
        extended=marker,
    )
    signing = sign_with_notes(document, signers, options)
    write_output(output, signing.document)
    if output != STDIO:
        check_as_an_outsider(read_input(output), signers, force=force)
    say_notes(signing.notes)
    _report(signing, [signer.public.kid for signer in signers], as_json=as_json)


def _report(signing: Signing, kids: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "changed": signing.changed,
                "profiles": list(signing.profiles),
                "kids": kids,
                "sha256": hashlib.sha256(signing.document).hexdigest(),
                "notes": [note.to_json() for note in signing.notes],
            }
        )
    elif signing.changed:
        say(f"signed for {', '.join(signing.profiles)} with {', '.join(kids)}")
    else:
        say("fully signed already; nothing changed")


def read_marker(
    audience: str | None, seq: int | None, expires: str | None, *, now: datetime
) -> ExtendedMarker | None:
    """What ``--extended``, ``--seq`` and ``--expires`` say; None where none of them is given.

    Raises:
        UsageFault: ``usage.conflict`` for one without the others; ``usage.invalid`` for a date
            that is none, is past, or lies beyond :data:`MAX_LIFETIME`;
            ``publish.audience_name``.
    """
    if audience is None and seq is None and expires is None:
        return None
    if audience is None or seq is None or expires is None:
        raise UsageFault("usage.conflict", "--extended, --seq and --expires need one another")
    if not AUDIENCE.fullmatch(audience):
        raise UsageFault(
            "publish.audience_name", f"audience {audience!r} is not {AUDIENCE.pattern}"
        )
    return ExtendedMarker(audience, seq, _seconds(expires, now))


def _seconds(expires: str, now: datetime) -> int:
    """The first second, since 1970, at which the card has expired; a date means its end."""
    try:
        end = _moment(expires)
    except (ValueError, OverflowError) as exc:
        raise UsageFault("usage.invalid", f"--expires takes an ISO date, not {expires!r}") from exc
    if end <= now:
        raise UsageFault("usage.invalid", f"--expires {expires!r} is past")
    if end > now + MAX_LIFETIME:
        days = MAX_LIFETIME.days
        raise UsageFault("usage.invalid", f"--expires {expires!r} is more than {days} days ahead")
    return int(end.timestamp())


def _moment(text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def _known_keys(file: str | None) -> JwkSet | None:
    if file is None:
        return None
    with of_the_user(file):
        return JwkSet.from_bytes(read_input(file))


@click.command()
@click.argument("card")
@click.option(
    "--profile", type=click.Choice(tuple(PROFILES)), required=True, help="Under which rule."
)
@json_option
def canonicalize(card: str, profile: str, as_json: bool) -> None:
    """Print exactly the bytes that a signature on CARD ('-' for stdin) covers under a profile."""
    document = Card.from_bytes(read_input(card)).document
    payload = make_payload(document, profile)
    if not as_json:
        write_output(STDIO, payload.data)
        return
    parts = uncovered_parts(document, payload)
    print_json(
        {
            "profile": profile,
            "sha256": hashlib.sha256(payload.data).hexdigest(),
            "payload": payload.data.decode(),
            "uncovered": [part.pointer for part in parts if part.excuse is None],
        }
    )
