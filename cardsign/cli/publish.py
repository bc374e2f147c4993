"""``cardsign publish``: one immutable generation of what is served."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cardsign.cli import frame, issuer
from cardsign.cli.frame import Answer, Command, is_json, members, moment, safe, say, show
from cardsign.cli.issuer import KeystoreOptions, project_config
from cardsign.config import ProjectConfig
from cardsign.errors import EXIT_OK, CardsignError, UsageFault
from cardsign.findings import cap_findings
from cardsign.issuer.cards import read_signed
from cardsign.issuer.publishing import list_changes, needed_publication, publish_cards
from cardsign.issuer.reconcile import reconcile
from cardsign.jose.keys import JwkSet
from cardsign.lint.cards import lint_card
from cardsign.publish.generation import MAX_MAX_AGE, Generation, export_files, newest_generation
from cardsign.publish.publication import DEFAULT_MAX_AGE, Documents, note_publication


@click.command(cls=Command, example="cardsign publish signed.json -o public")
@click.argument("card", required=False)
@click.option(
    "--extended",
    metavar="NAME=FILE",
    multiple=True,
    help="An extended card, signed for the audience NAME.",
)
@click.option(
    "--legacy-card",
    metavar="FILE",
    help="The signed card of A2A 0.3, for older clients [default: the one that is published].",
)
@click.option(
    "--drop-others", is_flag=True, help="Stop publishing extended and 0.3 cards that are not named."
)
@click.option(
    "-o",
    "--output",
    type=frame.DIR,
    help="The publication directory [default: `publish` of cardsign.toml].",
)
@click.option(
    "--max-age",
    metavar="SECONDS",
    type=click.IntRange(0, MAX_MAX_AGE),
    help="How long caches may keep what is served [default: as published before, at first "
    f"{DEFAULT_MAX_AGE}; at most `max_age` of [timeline] in cardsign.toml].",
)
@click.option(
    "--jwks", metavar="FILE", help="Publish the keys of this JWK Set instead of a key store's."
)
@issuer.key_option
@issuer.kid_option
@click.option(
    "--export",
    type=frame.DIR,
    help="Also write the public files for a static host or nginx.",
)
@click.option(
    "--watch", is_flag=True, help="Keep running, and publish whenever a source of a card changes."
)
@click.option(
    "--every",
    type=click.IntRange(1, 86_400),
    default=60,
    metavar="SECONDS",
    help="How often --watch looks.",
)
@issuer.unlock_options
@frame.dry_run_option
def publish(
    output: Path | None, export: Path | None, keystore: KeystoreOptions, **options: Any
) -> int:
    """Publish the signed CARD ('-' for stdin) with the key set of the key store.

    Without CARD it builds, lints, signs, lists and publishes the cards of cardsign.toml, extended
    ones included. What is done already stays as it is. --watch does so whenever a source changes.
    While a source is broken, what is published stays.

    Every card must verify with the keys that are published with it. Each extended card must be
    marked as one (cardsign sign --extended), and CARD must not. If there is a keyset statement,
    only its keys are published, and the newest release must list the card. The same content makes
    no new generation. The time is recorded, because key rotation waits for caches.

    With --jwks or --key there is no key store: CARD is published with the keys that are named, of
    which public ones will do.

    --export writes the public files below DIR/site in the layout of their URLs, and their headers
    as DIR/site/_headers and DIR/nginx.conf. It never writes extended cards.
    """
    watch, every, drop_others = (options.pop(name) for name in ("watch", "every", "drop_others"))
    named = [name for name, value in options.items() if value not in (None, ())]
    is_project = not named and not keystore.names_keys
    if watch:
        if not is_project or drop_others or export or frame.is_dry_run() or is_json():
            message = "--watch is about the cards of cardsign.toml, and goes with -o and --every"
            raise UsageFault("usage.conflict", message)
        return _watch(every, output, keystore)
    config = project_config(output)
    directory = needed_publication(config)
    if is_project:
        return _publish_project(keystore, config, export, drop_others=drop_others)
    if output is None and config.agents:
        hint = "Publish them all: cardsign publish. Or name another directory for CARD: -o DIR"
        message = "the cards of several agents are published together"
        raise UsageFault("usage.conflict", message, hint=hint)
    earlier = newest_generation(directory)
    generation = _publish_card(keystore, config, options, drop_others=drop_others)
    place = f"generation {generation.number} in {directory}"
    note = f"{place} is the same; nothing changed"
    if generation.created:
        note = f"{frame.done('published', 'publish')} {place}"
    show(Answer(_generation_json(generation, earlier), notes=[note]))
    _describe(generation, earlier, export)
    return EXIT_OK


def _publish_card(
    keystore: KeystoreOptions,
    config: ProjectConfig,
    options: Mapping[str, Any],
    *,
    drop_others: bool,
) -> Generation:
    """Publish CARD with the keys that are named, or with those of the key store."""
    card, jwks = options["card"], options["jwks"]
    if card is None:
        message = "name CARD: for the cards of cardsign.toml there are only --drop-others, "
        raise UsageFault("usage.conflict", f"{message}--export and --dry-run")
    if jwks is not None and keystore.names_keys:
        raise UsageFault("usage.conflict", "name the keys by --jwks or by --key, not by both")
    older = options["legacy_card"]
    extended = frame.read_pairs("--extended", "NAME=FILE", options["extended"])
    cards = Documents(
        frame.read_input(card),
        extended={name: frame.read_input(file) for name, file in extended.items()},
        legacy_card=None if older is None else frame.read_input(older),
    )
    store = None
    if jwks is not None:
        cards = replace(cards, jwks=frame.read_jwks(jwks))
    elif keystore.names_keys:
        cards = replace(cards, jwks=JwkSet.of(keystore.list_keys()))
    else:  # nothing is signed, so nothing of a signer is looked at
        store = keystore.open()
    return publish_cards(
        cards,
        config,
        now=moment(),
        store=store,
        drops_others=drop_others,
        max_age=options["max_age"],
        writes=not frame.is_dry_run(),
    )


def _publish_project(
    keystore: KeystoreOptions, config: ProjectConfig, export: Path | None, *, drop_others: bool
) -> int:
    """Build, sign, list and publish the cards of the project."""
    issuer.check_cards(config)
    work = keystore.work(config)
    work.drops_others = drop_others
    agents = work.by_agent()
    replaced = [newest_generation(part.config.publish) for part in agents]
    progress = reconcile(work, only_cards=True)
    if not frame.is_dry_run():
        _say_lint(config)
    published = [
        (part.agent, generation, earlier)
        for part, earlier in zip(agents, replaced, strict=True)
        if (generation := newest_generation(part.config.publish))
    ]
    views = {name: _generation_json(newest, earlier) for name, newest, earlier in published}
    view = views.get("", {"agents": views})
    status = issuer.show_progress(progress, work.now, view if views else {})
    for agent_name, generation, earlier in published:
        _describe(generation, earlier, export and export / agent_name, agent_name)
    return status


def _describe(
    generation: Generation, earlier: Generation | None, export: Path | None, agent: str = ""
) -> None:
    """Say what changed and what readers will miss, and export the public files."""
    for name, change in list_changes(generation, earlier).items() if not is_json() else ():
        say(f"  {change}: {f'{agent}/' if agent else ''}{name}")
    frame.say_notes(note_publication(generation))
    if export is not None:
        if not frame.is_dry_run():
            export_files(generation, export)
        say(f"{frame.done('exported', 'export')} its public files to {export}")


def _watch(every: int, output: Path | None, keystore: KeystoreOptions) -> int:
    """Follow the project, its settings too; what is left for a person is said once at a time.

    An error of the first look is raised. Later ones are said, each once while it lasts.
    """
    access, left, problem = keystore.access(), None, ""
    while True:
        try:
            config = project_config(output)
            needed_publication(config)
            issuer.check_cards(config)
            work = keystore.work(config, access=access)
            progress = reconcile(work, only_cards=True)
            if progress.done or progress.left != left:
                issuer.say_progress(progress, work.now)
            left, problem = progress.left, ""
        except CardsignError as error:
            if left is None:
                raise
            if str(error) != problem:
                problem = str(error)
                say(safe(problem, limit=600))
        threading.Event().wait(every)


def _generation_json(generation: Generation, earlier: Generation | None) -> dict[str, Any]:
    return {
        "generation": generation.number,
        **members(generation, "published_at kids"),
        "created": earlier is None or generation.number > earlier.number,
        "changes": list_changes(generation, earlier),
    }


def _say_lint(config: ProjectConfig) -> None:
    """Say what lint calls an error; it stops nothing, since a peer may not mind."""
    for card in config.cards:
        if (data := read_signed(card)) is None:
            continue
        report = lint_card(data, config.lint.settings(), name=str(card.signed))
        for finding in cap_findings(report.findings):
            if finding.severity == "error":
                frame.say_finding(finding, head=f"lint of {card.signed.name}: ", with_hint=True)
