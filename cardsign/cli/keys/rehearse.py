"""``cardsign keys rehearse``: what peers would say through the next rotation, or after a theft."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from cardsign.cli.arguments import moment, option, write_output
from cardsign.cli.commands import command
from cardsign.cli.keys.picture import draw_svg
from cardsign.cli.options import KeystoreOptions, keystore_options, project_cards, project_config
from cardsign.cli.talk import printed, safe, say
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.keys.timeline import Phase, Span, TimelineRow
from cardsign.rehearsal.run import Belief, Rehearsal, rehearse


@command(
    "rehearse",
    short_help="Show what peers would say through the next rotation or a theft.",
    example="cardsign keys rehearse --revoke vzTO",
)
@option(
    "--revoke KID...",
    "Rehearse the theft of this key instead of a rotation. May be repeated.",
    into="stolen",
)
@option("--stored-with", "Rehearse the theft of the keys that were stored with them too.")
@option("--svg FILE", "Write a picture as well.")
@keystore_options
def rehearse_(
    stolen: tuple[str, ...],
    stored_with: bool,
    svg: str | None,
    keystore: KeystoreOptions,
) -> int:
    """Simulate the next rotation of this key store, or a theft, hour by hour.

    Other keys stand in for its own, so it asks for no passphrase and changes nothing. It
    assumes that cron has the passphrase of release keys alone, and that a person does within a
    day what cron asks for. Three peers look: one that pinned today's keys, one with the oldest
    copies that [timeline] allows, and one that follows the keysets.

    Exit status 1: a peer that asks again would refuse an honest card, or still trust a stolen key.
    """
    if stored_with and not stolen:
        raise UsageFault("usage.conflict", "--stored-with goes with --revoke KID")
    config, store = project_config(), keystore.open()
    config = replace(config, cards=project_cards(config))
    with TemporaryDirectory() as folder:
        told = rehearse(
            store,
            config,
            now=moment(),
            folder=Path(folder),
            revoke=stolen,
            stored_with=stored_with,
        )
    lines = list(_lines(told))
    if svg is not None:
        rows = (*told.rows, *_peers(told))
        said = lines[-len(told.beliefs) :]
        title = "Rehearsal of a theft" if stolen else "Rehearsal of a rotation"
        until = told.end if stolen else None  # a theft is a matter of hours
        write_output(svg, draw_svg(rows, told.start, said=said, until=until, title=title))
        say(f"wrote {svg}")
    if not printed(_as_json(told)):
        for line in lines:
            click.echo(safe(line, limit=400))
    return EXIT_OK if told.holds else EXIT_NOT_TRUSTED


def _lines(told: Rehearsal) -> Iterator[str]:
    for event in told.events:
        if not event.what.startswith("signed release"):  # cron does that all the time
            yield f"{_when(event.at, told)}  {event.who:<6}  {event.what}"
    for what in told.left:
        yield f"left for a person: {what}"
    yield ""
    for peer, beliefs in told.beliefs.items():
        yield f"{peer}: {'; '.join(_verdict(beliefs, told))}"


def _verdict(beliefs: tuple[Belief, ...], told: Rehearsal) -> Iterator[str]:
    refused = [one for one in beliefs if not one.honest]
    if not refused:
        yield "trusts the issuer's card all the time"
    for one in refused:
        until = "to the end" if one.end == told.end else f"until {_when(one.end, told)}"
        yield f"refuses the issuer's card from {_when(one.start, told)} {until}"
    fooled = [one for one in beliefs if one.thief]
    if fooled:
        end = fooled[-1].end
        yield f"believes the thief {'to the end' if end == told.end else _when(end, told, 'until')}"


def _when(moment: datetime, told: Rehearsal, word: str = "") -> str:
    """A time, with how long after the beginning it is."""
    hours, rest = divmod(int((moment - told.start).total_seconds()), 3600)
    days, hours = divmod(hours, 24)
    after = f"{days} d {hours} h" if days else f"{hours} h {rest // 60} min"
    return f"{word} {moment:%Y-%m-%d %H:%M} UTC (+{after})".strip()


def _peers(told: Rehearsal) -> Iterator[TimelineRow]:
    def phase(one: Belief) -> Phase:
        if one.thief:
            return "fooled" if one.honest else "lost"
        return "trusts" if one.honest else "refuses"

    for name, beliefs in told.beliefs.items():
        spans = tuple(Span(phase(one), one.start, one.end) for one in beliefs)
        yield TimelineRow(name, "peer:", spans, ended=told.end)


def _as_json(told: Rehearsal) -> dict[str, Any]:
    def belief(one: Belief) -> dict[str, Any]:
        times = {"start": one.start.isoformat(), "end": one.end.isoformat()}
        why = {"why": one.why} if one.why else {}
        return {**times, "trusts_issuer": one.honest, "believes_thief": one.thief, **why}

    return {
        "start": told.start.isoformat(),
        "end": told.end.isoformat(),
        "holds": told.holds,
        "events": [
            {"at": one.at.isoformat(), "who": one.who, "what": one.what} for one in told.events
        ],
        "peers": {name: [belief(one) for one in beliefs] for name, beliefs in told.beliefs.items()},
        "left": list(told.left),
    }
