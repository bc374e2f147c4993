"""``cardsign publish``: one immutable generation of what is served."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.issuing import issued_of, on_record, tell_withheld
from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_keystore,
    project_config,
    read_input,
)
from cardsign.cli.talk import print_json, say
from cardsign.errors import UsageFault
from cardsign.keys.stores.opening import Place
from cardsign.publish.publication import DEFAULT_MAX_AGE, next_change_by, publish_generation


@click.command()
@click.argument("card")
@click.option(
    "--extended",
    multiple=True,
    metavar="NAME=FILE",
    help="An extended card that was signed for the audience NAME. May be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The publication directory [default: `publish` of cardsign.toml].",
)
@click.option(
    "--max-age",
    type=click.IntRange(min=0),
    default=DEFAULT_MAX_AGE,
    show_default=True,
    metavar="SECONDS",
    help="How long caches may keep what is served.",
)
@click.option(
    "--not-live",
    is_flag=True,
    help="It is deployed later, by other means: put nothing on record; see cardsign keys look.",
)
@keystore_option
@json_option
def publish(
    card: str,
    extended: tuple[str, ...],
    output: Path | None,
    max_age: int,
    not_live: bool,
    keystore: Place | None,
    as_json: bool,
) -> None:
    """Publish the signed CARD ('-' for stdin) with the key set of the key store.

    Refused unless every card verifies with the keys that are published beside it, and unless
    each extended card, but not CARD, is marked as one (cardsign sign --extended). A running
    server takes the new generation up within seconds. The same content makes no new one.
    Where there is a keyset statement, only the keys that it lists are published, and the newest
    release must list the card. A keyset of which no release speaks yet is withheld.
    The key store notes what was published, since all waits of a key rotation run from there.
    """
    directory = output or project_config().publish
    if directory is None:
        raise UsageFault("usage.conflict", "no publication directory is named; use -o DIR")
    store, now = open_keystore(keystore), datetime.now(UTC)
    generation = publish_generation(
        read_input(card),
        jwks=store.jwks(),
        extended=dict(_extended(one) for one in extended),
        directory=directory,
        now=now,
        max_age=max_age,
        issued=issued_of(store),
        sequence=store.state.jwks_sequence(),
        next_change=next_change_by(store.state, project_config().timeline, now),
    )
    if not not_live:
        on_record(store, generation)
    left_out = [key.kid for key in store.published_keys() if key.kid not in generation.kids]
    if as_json:
        print_json(
            {
                "generation": generation.number,
                "created": generation.created,
                "published_at": generation.published_at.isoformat(),
                "kids": list(generation.kids),
                "left_out": left_out,
            }
        )
    elif generation.created:
        say(f"published generation {generation.number} in {directory}")
    else:
        say(f"generation {generation.number} in {directory} is the same; nothing changed")
    for kid in left_out:
        say(f"left out of the key set: {kid}, which no published keyset lists")
    tell_withheld(store, generation)


def _extended(option: str) -> tuple[str, bytes]:
    name, equals, file = option.partition("=")
    if not equals or not file:
        raise UsageFault("usage.conflict", f"--extended takes NAME=FILE, not {option!r}")
    return name, read_input(file)
