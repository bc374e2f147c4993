"""``cardsign publish``: one immutable generation of what is served."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.issuing import issued_of
from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_any_keystore,
    project_config,
    read_input,
)
from cardsign.cli.talk import print_json, say
from cardsign.errors import LocalFault, UsageFault
from cardsign.generation import Generation
from cardsign.keys.opening import AnyStore, Place
from cardsign.keys.store import DirectoryStore
from cardsign.publish import DEFAULT_MAX_AGE
from cardsign.publish import publish as publish_generation
from cardsign.recorded import publication_of


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
@keystore_option
@json_option
def publish(
    card: str,
    extended: tuple[str, ...],
    output: Path | None,
    max_age: int,
    keystore: Place | None,
    as_json: bool,
) -> None:
    """Publish the signed CARD ('-' for stdin) with the key set of the key store.

    Refused unless every card verifies with the keys that are published beside it, and unless
    each extended card, but not CARD, is marked as one (cardsign sign --extended). A running
    server takes the new generation up within seconds. The same content makes no new one.
    Where there is a keyset statement, it must list those keys, and the newest release the card.
    The key store notes what was published, since all waits of a key rotation run from there.
    """
    directory = output or project_config().publish
    if directory is None:
        raise UsageFault("usage.conflict", "no publication directory is named; use -o DIR")
    store = open_any_keystore(keystore)
    generation = publish_generation(
        read_input(card),
        jwks=store.jwks(),
        extended=dict(_extended(one) for one in extended),
        directory=directory,
        now=datetime.now(UTC),
        max_age=max_age,
        sequence=store.state.jwks_sequence(),
        issued=issued_of(store) if isinstance(store, DirectoryStore) else None,
    )
    _record(store, generation)
    if as_json:
        print_json(
            {
                "generation": generation.number,
                "created": generation.created,
                "published_at": generation.published_at.isoformat(),
                "kids": list(generation.kids),
            }
        )
    elif generation.created:
        say(f"published generation {generation.number} in {directory}")
    else:
        say(f"generation {generation.number} in {directory} is the same; nothing changed")


def _record(store: AnyStore, generation: Generation) -> None:
    try:
        store.record_publication(publication_of(generation), now=datetime.now(UTC))
    except LocalFault as fault:
        raise type(fault)(
            fault.code,
            f"generation {generation.number} is published, but not on record: {fault.message}",
            path=fault.path,
            hint="Mend this and publish the same again; no key rotation goes on before.",
        ) from fault


def _extended(option: str) -> tuple[str, bytes]:
    name, equals, file = option.partition("=")
    if not equals or not file:
        raise UsageFault("usage.conflict", f"--extended takes NAME=FILE, not {option!r}")
    return name, read_input(file)
