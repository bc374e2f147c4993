"""``cardsign init`` and ``config``: the folder of an issuer, and its settings."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from cardsign.cli import frame, issuer
from cardsign.cli.frame import Answer, Command, Group, moment, safe, show
from cardsign.cli.issuer import KeystoreOptions, project_config
from cardsign.config import ProjectConfig
from cardsign.errors import FileMissing, PassphraseFault
from cardsign.files import CONFIG_FILE, leads_outside
from cardsign.findings import counted
from cardsign.issuer.epochs import IssuerPlan, RolePassphrases, init_issuer
from cardsign.keys.ledger import Role, name_roles
from cardsign.keys.secrets import new_passphrase, user_file, user_policy
from cardsign.keys.store import StorePlace, create_store, is_taken, read_place


@click.command(cls=Command, example="cardsign init --issuer https://agents.example.com")
@click.option(
    "--issuer", "origin", metavar="ORIGIN", help="Where the cards are, such as https://a.example."
)
@click.option("--card", metavar="FILE", help="The public card, for [[card]] of cardsign.toml.")
@click.option(
    "--agent",
    metavar="DEPARTMENT-AGENT",
    help="Make a new agent instead: contract card, code, test, make targets and workflow.",
)
@click.option(
    "--root-keystore",
    metavar="DIR",
    type=read_place,
    help="Where the root key is kept, such as on a USB stick [default: with the others].",
)
@click.option(
    "--recovery-out",
    type=frame.FILE,
    help="Write the encrypted recovery key here [default: print it once, on stdout].",
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
    card key signs cards. From cron, the release key lists the current cards. The recovery
    key replaces a stolen root key; no copy of it is kept. A key store that signs cards already
    keeps its card keys.

    CARDSIGN_ROOT_PASSPHRASE, CARDSIGN_RELEASE_PASSPHRASE and CARDSIGN_RECOVERY_PASSPHRASE give
    those keys passphrases of their own. So do the passphrase files in your own settings.
    """
    if agent is not None:
        _new_agent(agent)
        return
    place = keystore.place
    if place is None and os.path.lexists(CONFIG_FILE):
        place = keystore.located()
    elif place is None:
        named = os.environ.get(issuer.KEYSTORE_VARIABLE)
        place = read_place(named) if named else issuer.allowed_store(Path(issuer.DEFAULT_KEYSTORE))
    plan = IssuerPlan(Path(), place, origin or "", recovery_out=recovery_out, **options)
    plan.check()
    has_store, has_settings = is_taken(place), plan.has_settings
    create = partial(create_store, user=issuer.local_user())
    passphrases = _ask_passphrases(keystore)
    keyset, recovery = init_issuer(plan, passphrases, now=moment(), create=create)
    text = "" if recovery_out else recovery.decode()
    kids: dict[str, str] = {
        role: key.public.kid for key in reversed(keyset.keys) for role in key.roles
    }
    kids["root"] = keyset.root.keys[0].public.kid
    value = {"config": CONFIG_FILE, "keystore": str(place), "alg": options["alg"]}
    value |= {"kid": kids["card"], "keys": kids}
    value |= {"keyset": {"epoch": 1, "version": 1, "digest": keyset.digest}}
    notes = [
        *_custody_lines(plan, plan.list_shared(passphrases)),
        "tell your verifiers the digest of keyset 1.1 over a channel that they trust:",
        f"  {keyset.digest}",
        *_permission_lines(place),
        f"the key store {place} keeps the card key"
        if has_store
        else f"wrote {CONFIG_FILE} and the key store {place} with the card key",
        f"  {kids['card']}",
        *_next_lines(plan, has_settings=has_settings),
    ]
    show(Answer(value | ({"recovery": text} if text else {}), text.splitlines(), notes))


def _ask_passphrases(keystore: KeystoreOptions) -> RolePassphrases:
    """Ask for the passphrases, each from where the role's keys are opened later."""
    usual = keystore.source("card")
    roles: tuple[Role, ...] = ("root", "release")
    shared = [role for role in roles if keystore.source(role) == usual]
    passphrase = keystore.new_passphrase("card", keys=name_roles(("card", *shared)))
    passphrases: dict[Role, bytes] = {"card": passphrase}
    for role in roles:
        is_usual = keystore.source(role) == usual
        passphrases[role] = passphrase if is_usual else keystore.new_passphrase(role)
    try:
        question = "New passphrase of the recovery key: "
        passphrases["recovery"] = new_passphrase(issuer.recovery_source(), question=question)
    except PassphraseFault as fault:
        if fault.code != "passphrase.none":
            raise
    return passphrases


def _new_agent(name: str) -> None:
    """Write the files of an agent, and say which."""
    from cardsign.contract import init_agent

    paths = [str(path) for path in init_agent(Path(), name)]
    following = "next: write its skills, then cardsign lint agents --group json --group contract"
    notes = [*(f"wrote {path}" for path in paths), following]
    show(Answer({"agent": name, "files": paths}, notes=notes))


def _custody_lines(plan: IssuerPlan, shared: Sequence[Role]) -> Iterator[str]:
    """Yield which keys can be stolen together."""
    if online := [role for role in shared if role != "recovery"]:
        keys = f"the {name_roles(['card', *online])} in {plan.keystore}"
        yield f"one passphrase opens {keys}: whoever steals one has them all"
        yield "  a passphrase in CARDSIGN_RELEASE_PASSPHRASE keeps cron from signing cards"
        if plan.root_keystore is None:
            yield "  --root-keystore DIR keeps the root key offline"
    where = "above" if plan.recovery_out is None else f"in {plan.recovery_out}"
    yield f"the recovery key is {where}, encrypted; no copy is kept here"
    yield "  print it, or keep it apart from the other keys: you need it if they are stolen"
    if "recovery" in shared:
        yield "  it has the passphrase of the card key, as no other was given; keep it well apart"
        yield f"  {issuer.RECOVERY_VARIABLE} gives it one that a thief of the keys lacks"


def _permission_lines(place: StorePlace) -> Iterator[str]:
    """Yield what a committed file leaves to the user's own settings."""
    if not isinstance(place, Path):
        yield f"{CONFIG_FILE}, which is committed, names no database:"
        yield f"  export {issuer.KEYSTORE_VARIABLE}={shlex.quote(str(place))}"
        yield "  and set it for cron too; a password is found in ~/.pgpass"
    elif leads_outside(Path(), place, user_policy(os.environ).folders):
        yield f"{place} is outside this folder; {CONFIG_FILE} may name it once you allow that:"
        folders = json.dumps([os.path.realpath(place)])
        own = user_file(os.environ) or "signers.toml"
        yield f"  folders = {folders} in {own} (mode 0600, format = 1) allows it"


def _next_lines(plan: IssuerPlan, *, has_settings: bool) -> Iterator[str]:
    """Yield what comes next."""
    roots, card = plan.root_keystore, plan.card
    apart = f" --root-keystore {shlex.quote(str(roots))}" if roots else ""
    rotate = "cardsign keys rotate" + apart
    if has_settings:
        yield f"  next: {rotate}, which signs the cards of {CONFIG_FILE} and publishes them"
    elif card is None:
        yield "  next: cardsign sign card.json -o signed.json"
        yield "  then: cardsign release renew --card signed.json; cardsign publish signed.json"
    elif Path(card).exists():
        yield f"  next: {rotate}, which signs the card and publishes it"
    else:
        yield f"  next: write {card}, which is not there yet; then {rotate}"
    yield "  and from cron, hourly: cardsign keys rotate --quiet"


@click.group(cls=Group)
def config() -> None:
    """Check cardsign.toml, the settings of this folder, and print its JSON Schema."""


@config.command(example="cardsign config check")
def check() -> None:
    """Check the settings, and that the cards are there.

    Exit status 2: it is malformed, names a place outside this folder, or a card is missing.
    """
    if not Path(CONFIG_FILE).exists():
        hint = "Make them: cardsign init --issuer https://HOST"
        message = "there are no settings here"
        raise FileMissing("file.not_found", message, path=CONFIG_FILE, hint=hint)
    settings = project_config()
    store = KeystoreOptions().open_if_any()
    for path in (path for card in settings.cards for path in card.build or [card.source]):
        if not path.exists():
            raise FileMissing("file.not_found", "the card is not there", path=str(path))
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
