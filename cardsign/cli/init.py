"""``cardsign init`` and ``config``: the folder of an issuer, and its settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cardsign.cli.dry_run import dry_run_option, is_dry_run
from cardsign.cli.frame import Command, Group, moment
from cardsign.cli.keystore import (
    KeystoreOptions,
    UnlockOptions,
    actor,
    leave,
    project_config,
    recovery_source,
    user_heads,
)
from cardsign.cli.options import (
    PATH,
    RECOVERY_VARIABLE,
    alg_option,
    passphrase_options,
    read_place,
    recovery_passphrase_option,
    take,
)
from cardsign.cli.printer import Answer, counted, print_json, safe, say, show
from cardsign.cli.streams import STDIO
from cardsign.config import CONFIG_FILE, config_schema
from cardsign.errors import FileFault, FileMissing, PassphraseFault, UsageFault
from cardsign.files import leads_outside
from cardsign.issuer.init import (
    IssuerPassphrases,
    NewIssuer,
    check_new_folder,
    init_issuer,
    init_keys,
)
from cardsign.jose.algorithms import SigningAlg
from cardsign.keys.address import DatabaseUrl
from cardsign.keys.folder import DEFAULT_DIRECTORY
from cardsign.keys.folder import VARIABLE as KEYSTORE_VARIABLE
from cardsign.keys.opening import StorePlace, is_taken
from cardsign.keys.signers.access import (
    PassphraseSource,
    new_passphrase,
    terminal_prompt,
    user_policy,
)


@dataclass(frozen=True, slots=True)
class FullOptions:
    """Who holds the keys of the full form, and the passphrases of their own that they get."""

    holder: str
    root_keystore: StorePlace | None
    root_passphrase_file: Path | None
    release_passphrase_file: Path | None
    recovery_out: str
    recovery_passphrase_file: Path | None
    no_recovery: bool

    @property
    def recovery_file(self) -> Path | None:
        """The file that the recovery key goes to; None for standard output."""
        return None if self.recovery_out == STDIO else Path(self.recovery_out)

    def passphrases(self, keystore: UnlockOptions) -> IssuerPassphrases:
        """Ask for the passphrases, each from where the role's keys are opened later."""
        usual, passphrase = keystore.source("card"), keystore.new_passphrase("card")

        def of(role: str, file: Path | None) -> bytes:
            named = PassphraseSource(file, prompt=terminal_prompt())
            source = named if file else keystore.source(role)
            return passphrase if source == usual else new_passphrase(source)

        own = None if self.no_recovery else self._of_recovery()
        return IssuerPassphrases(
            passphrase,
            of("root", self.root_passphrase_file),
            of("release", self.release_passphrase_file),
            passphrase if own is None and not self.no_recovery else own,
            recovery_may_share=own is None,
        )

    def _of_recovery(self) -> bytes | None:
        """Its own passphrase; None where none is given, and there is no terminal to ask at."""
        source = recovery_source(self.recovery_passphrase_file)
        try:
            return new_passphrase(source, question="New passphrase of the recovery key: ")
        except PassphraseFault as fault:
            if fault.code == "passphrase.none":
                return None
            raise PassphraseFault(
                fault.code,
                f"of the recovery key: {fault.message}",
                hint="Use --recovery-passphrase-file FILE or "
                f"{RECOVERY_VARIABLE}; or --no-recovery.",
            ) from fault


@click.command(cls=Command, example="cardsign init --issuer https://agents.example.com")
@click.option(
    "--issuer",
    metavar="ORIGIN",
    help="The https origin of the cards, such as https://a.example; needed unless --simple.",
)
@click.option(
    "--publish",
    "publish_dir",
    metavar="DIR",
    default="public",
    show_default=True,
    help="The folder for publications.",
)
@click.option(
    "--card",
    metavar="FILE",
    help="The public card, for [[card]] of cardsign.toml. Then sign, release renew and publish "
    "need no arguments.",
)
@click.option(
    "--simple",
    is_flag=True,
    help="Make only a card key: no statements, and no revocation that verifiers can see.",
)
@click.option(
    "--agent",
    metavar="NAME",
    help="Make a new agent instead: its contract card, code, test, make targets and workflow. NAME "
    "is "
    "department-agent.",
)
@click.option("--holder", default="owner", show_default=True, help="Who holds the keys.")
@click.option(
    "--root-keystore",
    metavar="DIR",
    type=read_place,
    help="Where the root key is kept, such as on a USB stick [default: with the others].",
)
@click.option(
    "--root-passphrase-file",
    metavar="FILE",
    type=PATH,
    help="A passphrase of its own for the root key.",
)
@click.option(
    "--release-passphrase-file",
    metavar="FILE",
    type=PATH,
    help="A passphrase of its own for the release key, which cron has to open.",
)
@click.option(
    "--recovery-out",
    metavar="FILE",
    default=STDIO,
    help="Write the encrypted recovery key here [default: print it once, on stdout].",
)
@recovery_passphrase_option
@click.option(
    "--no-recovery",
    is_flag=True,
    help="Make no recovery key. Then a stolen root key cannot be replaced.",
)
@alg_option
@click.option(
    "--keystore",
    "place",
    metavar="DIR",
    type=read_place,
    help="The folder for the keys, or the URL of a database "
    f"[default: {KEYSTORE_VARIABLE}, then keys].",
)
@passphrase_options
@dry_run_option
def init(
    issuer: str | None,
    publish_dir: str,
    card: str | None,
    simple: bool,
    agent: str | None,
    alg: SigningAlg,
    **options: Any,
) -> None:
    """Set up this folder: cardsign.toml, a key store, and the first signed statements.

    It makes four keys. The root key signs the keyset statement, which says which keys count. The
    card key signs cards. The release key signs, from cron, which cards are current. The recovery
    key replaces a stolen root key; no copy of it is kept. --simple makes a card key only.
    """
    full = take(FullOptions, options)
    keystore = take(UnlockOptions, options)
    if agent is not None:
        _new_agent(agent)
        return
    place = keystore.place or read_place(os.environ.get(KEYSTORE_VARIABLE) or DEFAULT_DIRECTORY)
    usual: dict[str, Any] = {"now": moment(), "publish": publish_dir, "alg": alg, "card": card}
    usual |= {"actor": actor(), "heads": user_heads()}
    if not simple and issuer is None:
        check_new_folder(Path(), None)
        raise UsageFault(
            "usage.conflict",
            "no issuer is named",
            hint="Name its origin: cardsign init --issuer https://HOST; or make a card key only: "
            "cardsign init --simple.",
        )
    if is_dry_run():
        _try(issuer, place)
        return
    if simple or issuer is None:
        made = init_keys(
            Path(), place, lambda: keystore.new_passphrase("card"), origin=issuer, **usual
        )
    else:
        made = init_issuer(
            Path(),
            place,
            lambda: full.passphrases(keystore),
            origin=issuer,
            holder=full.holder,
            root_keystore=full.root_keystore,
            recovery_out=full.recovery_file,
            **usual,
        )
        _say_custody(made, full, place)
    if isinstance(place, DatabaseUrl):
        _say_database(place)
    else:
        _say_outside(place)
    _say_outside(Path(publish_dir))
    settings = {"config": CONFIG_FILE, "keystore": str(place), "alg": alg}
    recovery = () if made.recovery_text is None else made.recovery_text.decode().splitlines()
    notes = _made_lines(made, place, alg, card, full.root_keystore)
    show(Answer({**settings, **_made_json(made)}, recovery, notes))


def _new_agent(name: str) -> None:
    """Write the files of an agent, and say which; a dry run is refused, since there are no keys."""
    from cardsign.contract import CONTRACT_LINT, init_agent

    if is_dry_run():
        raise UsageFault("usage.conflict", "--agent and --dry-run exclude each other")
    made = [str(path) for path in init_agent(Path(), name)]
    notes = [*(f"wrote {path}" for path in made), f"next: write its skills, then {CONTRACT_LINT}"]
    show(Answer({"agent": name, "files": made}, notes=notes))


def _try(issuer: str | None, place: StorePlace) -> None:
    """What a dry run does: check the folder and the key store's place."""
    check_new_folder(Path(), issuer)
    if is_taken(place):
        raise FileFault("file.exists", "a key store is here already", path=str(place))
    say(f"would write {CONFIG_FILE} and make the key store {place}")


def _made_lines(
    made: NewIssuer, place: StorePlace, alg: SigningAlg, card: str | None, roots: StorePlace | None
) -> Iterator[str]:
    """Yield what is there now, and what comes next."""
    yield f"wrote {CONFIG_FILE} and the key store {place} with the {alg} card key"
    yield f"  {made.kids['card']}"
    rotate = "cardsign keys rotate" + (f" --root-keystore {roots}" if roots else "")
    if card is not None and not Path(card).exists():
        yield f"  next: write {card}, which is not there yet; then {rotate}"
    elif card is not None:
        yield f"  next: {rotate}, which signs the card and publishes it"
    else:
        yield "  next: cardsign sign card.json -o signed.json"
    if made.keyset is not None:
        if card is None:
            yield "  then: cardsign release renew --card signed.json; cardsign publish signed.json"
        yield "  and from cron, hourly: cardsign keys rotate --quiet"


def _made_json(made: NewIssuer) -> dict[str, Any]:
    if made.keyset is None:
        return {"kid": made.kids["card"]}
    keyset = {"epoch": 1, "version": 1, "digest": made.keyset.digest}
    recovery = {"recovery": made.recovery_text.decode()} if made.recovery_text else {}
    return {"kid": made.kids["card"], "keys": made.kids, "keyset": keyset, **recovery}


def _say_outside(place: Path) -> None:
    """Say how a committed file is allowed to name a place that is not in its folder."""
    if leads_outside(Path(), place, user_policy(os.environ).folders):
        say(f"{place} is outside this folder; {CONFIG_FILE} may name it once you allow that:")
        say(f"  {leave(place)}")


def _say_database(place: DatabaseUrl) -> None:
    """Say what a committed file leaves to the user's own."""
    left_out = [*(["the password"] if place.password is not None else []), *place.uncommitted]
    if left_out:
        say(f"not in {CONFIG_FILE}, which is committed: {', '.join(left_out)}")
        say(f"  keep a password in ~/.pgpass, or the whole URL in {KEYSTORE_VARIABLE}")
    say(f"the database is used without {KEYSTORE_VARIABLE} once you allow its server:")
    say(f"  {leave(place)}")


def _say_custody(made: NewIssuer, full: FullOptions, keystore: StorePlace) -> None:
    """Say which keys can be stolen together, and what verifiers have to be told."""
    if online := [role for role in made.shared if role != "recovery"]:
        roles = f"{', '.join(['card', *online[:-1]])} and {online[-1]}"
        say(
            f"the {roles} keys are in {keystore} under one passphrase: "
            "anyone who steals one of these keys has them all"
        )
        if "release" in online:
            say("  --release-passphrase-file FILE keeps cron from signing cards")
        if "root" in online:
            say("  --root-keystore DIR keeps the root key offline")
    if full.no_recovery:
        say("there is no recovery key: a stolen root key cannot be replaced")
    else:
        where = f"in {full.recovery_file}" if full.recovery_file else "above"
        say(f"the recovery key is {where}, encrypted; no copy is kept here")
        say("  print it, or keep it apart from the other keys: you need it if they are stolen")
        if "recovery" in made.shared:
            say(
                "  it has the passphrase of the card key, as no other was given; keep it well apart"
            )
            say("  --recovery-passphrase-file FILE gives it one that a thief of the keys lacks")
    if made.keyset is not None:
        say("tell your verifiers the digest of keyset 1.1 over a channel that they trust:")
        say(f"  {made.keyset.digest}")


@click.group(cls=Group)
def config() -> None:
    """Check cardsign.toml, the settings of this folder, and print its JSON Schema."""


@config.command(example="cardsign config check")
def check() -> None:
    """Check the settings, and that the cards are there.

    Exit status 2: it is malformed, names a place outside this folder, or a card is missing.
    """
    if not Path(CONFIG_FILE).exists():
        raise FileMissing("file.not_found", "there are no settings here", path=CONFIG_FILE)
    found = project_config()
    store = KeystoreOptions().open_if_any()
    for path in (path for card in found.cards for path in card.build or [card.source]):
        if not path.exists():
            raise FileMissing("file.not_found", "the card is not there", path=str(path))
    names = [str(card.source) for card in found.cards]
    place = "no key store yet" if store is None else f"key store {safe(store.place)}"
    note = f"{CONFIG_FILE} is good: {counted(len(found.cards), 'card')}, {place}"
    view = {"issuer": found.issuer, "keystore": store and store.place, "cards": names}
    show(Answer(view, notes=[note]))


@config.command(example="cardsign config schema > cardsign.schema.json")
def schema() -> None:
    """Print the JSON Schema of cardsign.toml, for editors.

    The output is JSON with or without --json.
    """
    print_json(config_schema())
