"""``cardsign init``, ``config`` and ``publish``: the folder of an issuer, and what it publishes."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from cardsign.cli import frame, issuer
from cardsign.cli.cards import say_lint
from cardsign.cli.frame import Answer, Group, is_json, members, moment, safe, say, show
from cardsign.cli.issuer import KeystoreOptions, project_config
from cardsign.config import ProjectConfig
from cardsign.errors import EXIT_OK, CardsignError, FileMissing, UsageFault
from cardsign.files import CONFIG_FILE
from cardsign.findings import counted
from cardsign.issuer.cards import find_end
from cardsign.issuer.keyset import IssuerPlan, RolePassphrases, init_issuer
from cardsign.issuer.publishing import (
    check_issuer,
    list_changes,
    needed_publication,
    publish_cards,
    publish_documents,
)
from cardsign.issuer.reconcile import reconcile
from cardsign.issuer.work import Gap
from cardsign.jose.keys import JwkSet
from cardsign.keys.history import kept_keyset
from cardsign.keys.ledger import Role
from cardsign.keys.passphrases import read_passphrase
from cardsign.keys.store import StorePlace, local_user
from cardsign.publish.generation import Generation, check_export, export_files, newest_generation
from cardsign.publish.publication import Documents, note_publication
from cardsign.tomltext import find_lines, line_of, read_toml
from cardsign.urls import parse_origin


@frame.command(example="cardsign init --issuer https://agents.example.com")
@click.option("--issuer", "origin", metavar="ORIGIN", help="Where the cards are: https://HOST.")
@click.option("--card", metavar="FILE", help="The public card, for [[card]] of cardsign.toml.")
@click.option(
    "--agent",
    metavar="DEPARTMENT-AGENT",
    help="Make a new agent instead: contract card, code, test, make targets and workflow.",
)
@issuer.root_keystore_option
@click.option(
    "--recovery-out", type=frame.FILE, help="The encrypted recovery key [default: print it once]."
)
@issuer.alg_option
@issuer.unlock_options
def init(
    origin: str | None,
    agent: str | None,
    recovery_out: Path | None,
    keystore: KeystoreOptions,
    **options: Any,
) -> None:
    """Set up this folder: cardsign.toml, a key store, and the first signed statements.

    It makes four keys. The root key signs the keyset statement, which says which keys count. The
    card key signs cards. The release key, used from cron, lists the current cards. The recovery key
    replaces a stolen root key; no copy of it is kept. An existing key store keeps its card keys.

    CARDSIGN_ROOT_PASSPHRASE, CARDSIGN_RELEASE_PASSPHRASE and CARDSIGN_RECOVERY_PASSPHRASE give
    those keys passphrases of their own. So do the passphrase files in your own settings.
    """
    if agent is not None:
        from cardsign.contract import init_agent

        paths = [str(path) for path in init_agent(Path(), agent)]
        lint = "cardsign lint agents --group json --group contract"
        notes = [*(f"wrote {path}" for path in paths), f"next: write its skills, then {lint}"]
        show(Answer({"agent": agent, "files": paths}, notes=notes))
        return
    place = keystore.located()
    recovery_out = None if recovery_out == Path(frame.STDIO) else recovery_out
    plan = IssuerPlan(Path(), place, origin or "", recovery_out=recovery_out, **options)
    plan.check()
    named, asked = project_config().issuer, str(parse_origin(plan.origin))
    if named not in (None, asked):
        message = f"{CONFIG_FILE} says issuer {named}, and --issuer is {asked}"
        raise UsageFault("usage.conflict", message, hint="Correct one of them.")
    keystore.check_unclaimed(Path("public"))
    has_settings = plan.has_settings
    passphrases = _ask_passphrases(keystore)
    keyset, recovery = init_issuer(plan, passphrases, now=moment(), user=local_user())
    text = "" if recovery_out else recovery.decode()
    kids: dict[str, str] = {
        role: key.public.kid for key in reversed(keyset.keys) for role in key.roles
    }
    kids["root"] = keyset.root.keys[0].public.kid
    value = {"config": CONFIG_FILE, "keystore": str(place), "alg": options["alg"]}
    value |= {"kid": kids["card"], "keys": kids}
    value |= {"keyset": {"epoch": 1, "version": 1, "digest": keyset.digest}}
    notes = [
        *_custody_lines(plan, passphrases),
        "tell your verifiers the digest of keyset 1.1 over a channel that they trust:",
        f"  {keyset.digest}",
        f"the settings are in {CONFIG_FILE}, and the card key is in the key store {place}:",
        f"  {kids['card']}",
        *_database_lines(place),
        *_next_lines(plan, has_settings=has_settings),
    ]
    show(Answer(value | ({"recovery": text} if text else {}), text.splitlines(), notes))


def _ask_passphrases(keystore: KeystoreOptions) -> RolePassphrases:
    """Ask for the passphrases, each from where the role's keys are opened later."""
    usual = keystore.source("card")
    roles: tuple[Role, ...] = ("root", "release")
    shared = [role for role in roles if keystore.source(role) == usual]
    passphrase = keystore.new_passphrase("card", keys=_name_keys(shared))
    passphrases: dict[Role, bytes] = {"card": passphrase}
    for role in roles:
        passphrases[role] = passphrase if role in shared else keystore.new_passphrase(role)
    source = issuer.recovery_source()
    if source.prompt or source.variable in os.environ:  # else it has that of the card key
        question = "New passphrase of the recovery key: "
        passphrases["recovery"] = read_passphrase(source, question=question, is_new=True)
    return passphrases


def _name_keys(shared: Sequence[Role]) -> str:
    """Name the card keys and those of the roles with the same passphrase, for people."""
    *others, last = ("card", *shared)
    return f"{', '.join(others)} and {last} keys" if others else f"{last} keys"


def _custody_lines(plan: IssuerPlan, passphrases: RolePassphrases) -> Iterator[str]:
    """Yield which keys can be stolen together."""
    if shared := plan.list_shared(passphrases):
        keys = f"the {_name_keys(shared)} in {plan.keystore}"
        yield f"one passphrase opens {keys}: whoever steals it can use them all"
        yield "  to give cron one that cannot sign cards: cardsign keys passwd --role release"
    where = "above" if plan.recovery_out is None else f"in {plan.recovery_out}"
    yield f"the recovery key is {where}, encrypted; no copy is kept here"
    yield "  print it, or keep it apart from the other keys: you need it if they are stolen"
    if "recovery" not in passphrases:
        yield "  it has the passphrase of the card key, as no other was given; keep it well apart"
        yield f"  {issuer.RECOVERY_VARIABLE} gives it one that a thief of the keys lacks"


def _database_lines(place: StorePlace) -> Iterator[str]:
    """Yield where the database of the key store is named, as the settings are committed."""
    if not isinstance(place, Path):
        yield f"{CONFIG_FILE} names no database; for the next commands, and for cron:"
        yield f"  export {issuer.KEYSTORE_VARIABLE}={shlex.quote(str(place))}"


def _next_lines(plan: IssuerPlan, *, has_settings: bool) -> Iterator[str]:
    """Yield what comes next."""
    if has_settings or plan.card is not None:
        roots = plan.root_keystore
        apart = f" --root-keystore {shlex.quote(str(roots))}" if roots else ""
        rotate = "cardsign keys rotate" + apart
        yield f"  next: {rotate}, which signs the cards of {CONFIG_FILE} and publishes them"
    else:
        yield "  next: cardsign sign card.json -o signed.json"
        yield "  then: cardsign release renew --card signed.json; cardsign publish signed.json"
    yield "  and from cron, hourly: cardsign keys rotate --quiet"


@click.group(cls=Group)
def config() -> None:
    """Check cardsign.toml, the settings of this folder, and print its JSON Schema."""


@config.command(example="cardsign config check")
def check() -> None:
    """Check the settings, and that the cards are there.

    Exit status 2: a setting is malformed or names a place outside this folder, or a card is
    missing.
    """
    settings, store = project_config(), KeystoreOptions().open_if_any()
    if not os.path.exists(CONFIG_FILE):
        hint = "Make it: cardsign init --issuer https://HOST"
        raise FileMissing("file.not_found", "there is no such file", path=CONFIG_FILE, hint=hint)
    text = Path(CONFIG_FILE).read_text(encoding="utf-8")
    lines = find_lines(text)
    for index, card in enumerate(read_toml(text.encode()).get("card", ())):
        member = "build" if card.get("build") else "source"
        for name in card["build"] if member == "build" else [card["source"]]:
            if not os.path.exists(name):
                message = f"`{member}` names {safe(name)}, and there is no such file"
                line = line_of(lines, ("card", index, member))
                raise FileMissing("file.not_found", message, path=CONFIG_FILE, line=line)
    check_issuer(settings, kept_keyset(store) if store else None)
    for card in settings.cards:
        if card.audience is not None:
            find_end(card, moment())
    names = [str(card.source) for card in settings.cards]
    place = "no key store yet" if store is None else f"key store {safe(store.place)}"
    note = f"{CONFIG_FILE} is good: {counted(len(settings.cards), 'card')}, {place}"
    view = {"issuer": settings.issuer, "keystore": store and store.place, "cards": names}
    show(Answer(view, notes=[note]))


@config.command(example="cardsign config schema > cardsign.schema.json")
def schema() -> None:
    """Print the JSON Schema of cardsign.toml, for editors.

    The output is JSON with or without --json.
    """
    frame.print_json(ProjectConfig.model_json_schema())


# ``cardsign publish``: one immutable generation of what is served.


@frame.command(example="cardsign publish signed.json -o public")
@click.argument("card", required=False)
@click.option(
    "--extended", metavar="NAME=FILE", multiple=True, help="An extended card for audience NAME."
)
@click.option("--drop-others", is_flag=True, help="Drop extended cards that are not named.")
@issuer.publication_option("-o", "--output")
@click.option("--jwks", metavar="FILE", help="The JWK Set to publish, not the key store's.")
@issuer.key_option
@issuer.kid_option
@click.option("--export", type=frame.DIR, help="Also write files for a static host or nginx.")
@click.option("--watch", is_flag=True, help="Keep running, and publish when a source changes.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.IntRange(1, 86_400),
    default=60,
    help="How often --watch looks.",
)
@issuer.unlock_options
@frame.dry_run_option
def publish(
    card: str | None,
    output: Path | None,
    drop_others: bool,
    export: Path | None,
    keystore: KeystoreOptions,
    **options: Any,
) -> int:
    """Publish the signed CARD ('-' for stdin) with the key set of the key store.

    Without CARD it builds, lints, signs, lists and publishes the cards of cardsign.toml, extended
    ones included. What is done already stays as it is. --watch does so whenever a source changes.
    While a source is broken, what is published stays.

    Every card must verify with the keys that are published with it. Each extended card must be
    marked as one (cardsign sign --extended), and CARD must not. If there is a keyset statement,
    only its keys are published, and the newest release must list the card. The same content makes
    no new generation. The time is recorded, because key rotation waits for caches.

    With --jwks or --key there is no key store: CARD is published with the keys named; public
    keys are enough.

    --export writes the public files below DIR/site in the layout of their URLs, and their headers
    as DIR/site/_headers and DIR/nginx.conf. It never writes extended cards.
    """
    extended, jwks = options["extended"], options["jwks"]
    is_project = card is None and not extended and jwks is None and not keystore.names_keys
    if options["watch"]:
        if not is_project or drop_others or export or frame.is_dry_run() or is_json():
            message = "--watch publishes the cards of cardsign.toml; only -o and --every go with it"
            raise UsageFault("usage.conflict", message)
        return _watch(options["every"], output, keystore)
    config = project_config(output)
    directory = needed_publication(config)
    if export is not None:
        check_export(export, directory)
    if is_project:
        return _publish_project(keystore, config, export, drop_others=drop_others)
    if card is None:
        raise UsageFault("usage.conflict", "name CARD: these options are about one card")
    if output is None and config.agents:
        hint = "Publish them all: cardsign publish. Or name another directory for CARD: -o DIR"
        message = "the cards of several agents are published together"
        raise UsageFault("usage.conflict", message, hint=hint)
    earlier = newest_generation(directory)
    documents = _read_documents(card, extended, jwks, keystore)
    store = keystore if jwks is None and not keystore.names_keys else None
    generation = _publish_card(documents, config, store, drop_others=drop_others)
    place = f"generation {generation.number} in {directory}"
    note = f"{place} is the same; nothing changed"
    if generation.created:
        note = f"{frame.done('published', 'publish')} {place}"
    show(Answer(_generation_json(generation, earlier), notes=[note]))
    _describe(generation, earlier, export)
    return EXIT_OK


def _publish_card(
    documents: Documents, config: ProjectConfig, store: KeystoreOptions | None, *, drop_others: bool
) -> Generation:
    """Publish a card with the keys and statements of the key store; without one, with its own."""
    writes = not frame.is_dry_run()
    if store is None:
        return publish_documents(
            documents, config, now=moment(), drops_others=drop_others, writes=writes
        )
    work = store.work(config)
    check_issuer(config, work.keyset)
    work.drops_others = drop_others
    return publish_cards(work, documents, writes=writes)


def _read_documents(
    card: str, extended: Iterable[str], jwks: str | None, keystore: KeystoreOptions
) -> Documents:
    """Return CARD with the keys that are named; without any, those of the key store go along."""
    if jwks is not None and keystore.names_keys:
        raise UsageFault("usage.conflict", "name the keys by --jwks or by --key, not by both")
    files = frame.read_pairs("--extended", "NAME=FILE", extended)
    cards = {name: frame.read_input(file) for name, file in files.items()}
    public = frame.read_input(card)
    keys = JwkSet.of(keystore.list_keys()) if jwks is None else frame.read_jwks(jwks)
    return Documents(public, keys, extended=cards)


def _publish_project(
    keystore: KeystoreOptions, config: ProjectConfig, export: Path | None, *, drop_others: bool
) -> int:
    """Build, sign, list and publish the cards of the project."""
    issuer.check_cards(config)
    work = keystore.work(config)
    work.drops_others = drop_others
    agents = work.by_agent()
    replaced = [newest_generation(part.config.publish) for part in agents]
    progress = reconcile(work)
    published = []
    for part, earlier in zip(agents, replaced, strict=True):
        generation = newest_generation(part.config.publish)
        if generation is not None:
            published.append((part.agent, generation, earlier))
    views = {name: _generation_json(newest, earlier) for name, newest, earlier in published}
    view = views.get("", {"agents": views})
    status = issuer.show_progress(progress, work.now, view if views else {})
    for agent_name, generation, earlier in published:
        _describe(generation, earlier, export and export / agent_name, agent_name)
    return status


def _describe(
    generation: Generation, earlier: Generation | None, export: Path | None, agent: str = ""
) -> None:
    """Say what changed and what readers will miss or mind, and export the public files."""
    if not is_json():
        for name, change in list_changes(generation, earlier).items():
            say(f"  {change}: {os.path.join(agent, name)}")
    for name, card in generation.cards.items():
        say_lint(os.path.join(agent, name), card, project_config().lint.settings())
    frame.say_notes(note_publication(generation, earlier))
    if export is not None:
        if not frame.is_dry_run():
            export_files(generation, export)
        say(f"{frame.done('exported', 'export')} its public files to {export}")


def _watch(every: int, output: Path | None, keystore: KeystoreOptions) -> int:
    """Follow the project, its settings too; what is left for a person is said once at a time.

    An error of the first look is raised. Later ones are said, each once while it lasts.
    """
    access = keystore.access()
    gaps_left: tuple[Gap, ...] | None = None
    problem = ""
    while True:
        try:
            config = project_config(output)
            needed_publication(config)
            issuer.check_cards(config)
            work = keystore.work(config, access=access)
            progress = reconcile(work)
            if progress.done or progress.left != gaps_left:
                issuer.say_progress(progress, work.now)
            gaps_left, problem = progress.left, ""
        except CardsignError as error:
            if gaps_left is None:
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
