"""``cardsign publish``: one immutable generation of what is served."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_keystore,
    project_config,
    read_input,
)
from cardsign.cli.talk import print_json, say
from cardsign.errors import UsageFault
from cardsign.publish import DEFAULT_MAX_AGE
from cardsign.publish import publish as publish_generation


@click.command()
@click.argument("card")
@click.option(
    "--extended",
    multiple=True,
    metavar="NAME=FILE",
    help="A signed extended card for the audience NAME. May be repeated.",
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
    keystore: Path | None,
    as_json: bool,
) -> None:
    """Publish the signed CARD ('-' for stdin) with the key set of the key store.

    Refused unless every card verifies with the keys that are published beside it. A running
    server takes the new generation up within seconds. The same content makes no new one.
    """
    directory = output or project_config().publish
    if directory is None:
        raise UsageFault("usage.conflict", "no publication directory is named; use -o DIR")
    generation = publish_generation(
        read_input(card),
        jwks=open_keystore(keystore).jwks(),
        extended=dict(_extended(one) for one in extended),
        directory=directory,
        now=datetime.now(UTC),
        max_age=max_age,
    )
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


def _extended(option: str) -> tuple[str, bytes]:
    name, equals, file = option.partition("=")
    if not equals or not file:
        raise UsageFault("usage.conflict", f"--extended takes NAME=FILE, not {option!r}")
    return name, read_input(file)
