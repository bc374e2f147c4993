"""What an issuer's command works with: key store, passphrases, settings, and what was done."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign import errors
from cardsign.cli import frame
from cardsign.cli.frame import Answer, is_json, members, moment, safe, say, show
from cardsign.errors import UsageFault, of_the_user
from cardsign.files import CONFIG_FILE
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import passphrases
from cardsign.keys import store as stores
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, import_public_key
from cardsign.keys.ledger import ROLES, Role, passphrase_variable
from cardsign.keys.signers import Access, list_public_keys, user_policy, user_secrets
from cardsign.keys.store import KeyStore, StorePlace, is_taken, read_place
from cardsign.times import second

if TYPE_CHECKING:
    from cardsign.config import ProjectConfig
    from cardsign.issuer.reconcile import Progress
    from cardsign.issuer.work import Gap, Work

KEYSTORE_VARIABLE: Final = "CARDSIGN_KEYSTORE"
RECOVERY_VARIABLE: Final = passphrase_variable("recovery")

alg_option: Final = click.option(
    "--alg",
    type=click.Choice(("ES256", "RS256", "EdDSA")),
    default="ES256",
    help="RS256: for verifiers that know nothing else; EdDSA: for cards only; few SDKs verify it.",
)
public_option: Final = click.option(
    "--public", metavar="FILE", help="The public key of the signer: a JWK or PEM ('-' for stdin)."
)
recovery_option: Final = partial(
    click.option,
    "--recovery-file",
    type=frame.FILE,
    help=f"Sign with this recovery key. Its passphrase is in {RECOVERY_VARIABLE}, or asked for.",
)
publication_option: Final = partial(
    click.option,
    type=frame.DIR,
    help="The publication directory [default: `publish` of cardsign.toml].",
)
key_option: Final = click.option(
    "--key",
    "uris",
    metavar="URI",
    multiple=True,
    help="The key at URI instead of a key store: env:NAME or file:PATH (a PEM or JWK), or the URI "
    "of a signer, such as awskms:///ID, whose program or library then runs.",
)


def _check_kid(_context: click.Context, _option: click.Parameter, kid: str | None) -> str | None:
    if kid is not None and kid.startswith("-"):
        message = "a kid that begins with '-' would be read as an option"
        raise UsageFault("usage.invalid", message, hint="Choose another kid.")
    return kid


kid_option: Final = click.option(
    "--kid",
    metavar="KID",
    callback=_check_kid,
    help="The kid to publish [default: the JWK's own, else the thumbprint].",
)
passphrase_option: Final = click.option(
    "--passphrase-file",
    type=frame.FILE,
    help="A file of mode 0600 with the passphrase [default: CARDSIGN_PASSPHRASE, then a prompt].",
)
root_keystore_option: Final = click.option(
    "--root-keystore",
    type=read_place,
    metavar="DIR",
    help="A separate key store of root keys, such as a USB stick; they sign the next keyset too.",
)


@dataclass(frozen=True, slots=True)
class KeystoreOptions:
    """Which keys a command is about: those of a key store, or the signers that are named.

    Each field is the option of its name, or ``--keystore`` (`place`) and ``--key`` (`uris`).
    """

    place: StorePlace | None = None
    passphrase_file: Path | None = None
    uris: tuple[str, ...] = ()
    kid: str | None = None
    public: str | None = None

    @property
    def names_keys(self) -> bool:
        """Whether signers are named in place of a key store."""
        return bool(self.uris) or self.kid is not None or self.public is not None

    def located(self) -> StorePlace:
        """Return where it is: option, environment, ``cardsign.toml``, ``./keys``."""
        if self.place is not None:
            return self.place
        if named := os.environ.get(KEYSTORE_VARIABLE):
            return read_place(named)
        is_named = os.path.lexists(CONFIG_FILE)  # else no settings are loaded
        folder = (project_config().keystore if is_named else None) or Path("keys")
        stores.check_links(folder, Path.cwd(), user_policy().folders)
        return folder

    def locate(self) -> KeyStore:
        """Return the key store, of which nothing is read yet, and which may not be there."""
        return stores.locate_store(self.located(), stores.local_user())

    def open(self, *, is_begun: bool = False) -> KeyStore:
        """Open the key store; `is_begun` says, as settings with an issuer do, that there is one."""
        store = self.locate()
        if not store.load().seq:
            is_begun = is_begun or project_config().issuer is not None
            raise stores.missing_store(store.place, is_begun=is_begun)
        return store

    def open_if_any(self) -> KeyStore | None:
        """Return the key store if there is one; for commands that only profit from it."""
        return self.open() if is_taken(self.located()) else None

    def check_unclaimed(self, publish: Path | None = None) -> None:
        """Refuse to begin a key store where another one has published, unless it is named.

        Args:
            publish: Where its keys are to be published, if there are no settings.
        """
        has_settings = os.path.lexists(CONFIG_FILE)  # else none are loaded
        if self.place is not None or not (has_settings or publish):
            return
        from cardsign.issuer.publishing import check_unclaimed

        config = project_config(None if has_settings else publish)
        check_unclaimed(self.work(config, store=self.locate()))

    def source(self, role: Role | None = None) -> passphrases.PassphraseSource:
        """Return where the passphrase of a role's keys comes from.

        An option decides, then the role's own variable, then the role's file in the user's
        settings, then the variable of all roles, then a terminal.
        """
        file = self.passphrase_file
        if role is not None and file is None:
            variable = passphrase_variable(role)
            if variable in os.environ:
                return passphrases.PassphraseSource(environment=os.environ, variable=variable)
            file = user_policy().passphrase_files.get(role)
        return passphrases.PassphraseSource(file, os.environ, passphrases.terminal_prompt())

    def new_passphrase(self, role: Role, *, keys: str = "") -> bytes:
        """Return the passphrase of a new key of a role; `keys` names all that get it."""
        question = f"New passphrase of the {keys or f'{role} keys'}: "
        return passphrases.read_passphrase(self.source(role), question=question, is_new=True)

    def access(self, *uris: str) -> Access:
        """Return what signers may use: what the user's own file allows, and what was just typed.

        Args:
            uris: Signers that were named on the command line.
        """
        policy = user_policy()
        policy = policy.model_copy(update={"allow": policy.allow | set(uris)})
        usual, own = self.source(), {str(role): self.source(role) for role in ROLES}
        by_role = {role: user_secrets(source) for role, source in own.items() if source != usual}
        return Access(user_secrets(usual), policy, os.environ, by_role)

    def named_access(self) -> Access:
        """Return what the signers of ``--key`` may use."""
        for option, value in (("--public", self.public), ("--kid", self.kid)):
            if value is not None and len(self.uris) != 1:
                raise UsageFault("usage.conflict", f"{option} can be used with one --key only")
        return self.access(*self.uris).for_role("card")

    def list_keys(self) -> list[PublicKey]:
        """Return the public keys of the URIs of ``--key``, each once."""
        access = self.named_access()
        keys = (key for uri in self.uris for key in list_public_keys(uri, access, kid=self.kid))
        return list({(key.kid, key.alg, key.thumbprint): key for key in keys}.values())

    def work(
        self,
        config: ProjectConfig | None = None,
        *,
        store: KeyStore | None = None,
        access: Access | None = None,
        root_keystore: StorePlace | None = None,
    ) -> Work:
        """Return what an issuer's command works with; in a dry run a preview of the key store."""
        from cardsign.issuer.work import PreviewStore, Work  # which a list does not need

        store = store or self.open()
        if frame.is_dry_run():
            store = PreviewStore(store)
        work = Work(store, moment(), config or project_config(), access or self.access())
        work.is_dry_run = frame.is_dry_run()
        if root_keystore:
            self.add_roots(work, root_keystore)
        if self.place:
            work.options = f"--keystore {shlex.quote(str(self.place))}"
        return work

    def add_roots(self, work: Work, root_keystore: StorePlace) -> None:
        """Let the root keys of another key store sign too."""
        from cardsign.issuer.work import Work

        apart = replace(self, place=root_keystore)
        work.roots = Work(apart.open(is_begun=True), work.now, access=apart.access())
        work.root_option = f"--root-keystore {shlex.quote(str(root_keystore))}"


def keystore_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--keystore``; the command gets a `KeystoreOptions` as ``keystore``."""

    @click.option(
        "--keystore",
        "place",
        type=read_place,
        metavar="DIR",
        help="The key store, or the URL of its database "
        "[default: CARDSIGN_KEYSTORE, then cardsign.toml, then ./keys].",
    )
    @wraps(command)
    def with_keystore(**options: Any) -> Any:
        return command(keystore=frame.take(KeystoreOptions, options), **options)

    return with_keystore


def unlock_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--keystore`` and ``--passphrase-file``, as `keystore_option` does."""
    return keystore_option(passphrase_option(command))


def recovery_source() -> passphrases.PassphraseSource:
    """Return where the recovery key's passphrase comes from; never from where the others do."""
    prompt = passphrases.terminal_prompt()
    return passphrases.PassphraseSource(None, os.environ, prompt, RECOVERY_VARIABLE)


def unlock_recovery(file: Path) -> tuple[PrivateKey, bytes]:
    """Open a recovery key, and return it with its passphrase."""
    from cardsign.issuer.keyset import open_recovery_key

    question = "Passphrase of the recovery key: "
    secret = passphrases.read_passphrase(recovery_source(), question=question)
    return open_recovery_key(file, secret), secret


def project_config(publication: Path | None = None) -> ProjectConfig:
    """Return the settings of ``cardsign.toml`` in the working directory; empty where there is none.

    Args:
        publication: What an option names instead of its publication directory.
    """
    from cardsign.config import read_config  # pydantic, which a key store alone does not need

    config = read_config(Path.cwd() / CONFIG_FILE, allowed=user_policy().folders)
    return config.model_copy(update={"publish": publication or config.publish})


def check_cards(config: ProjectConfig) -> None:
    """Refuse a command without a CARD where ``cardsign.toml`` names none either."""
    if not config.cards:
        hint = f"Name CARD, or the cards in {CONFIG_FILE}: [[card]] with `source` and `signed`."
        raise UsageFault("usage.conflict", "no card is named", hint=hint)


def read_public(name: str, *, kid: str | None = None) -> PublicKey:
    """Read a public key that the user hands over."""
    with of_the_user(name):
        return import_public_key(frame.read_input(name, max_bytes=MAX_KEY_FILE_BYTES), kid=kid)


# What an issuer's task came to.


def show_progress(progress: Progress, now: datetime, view: Mapping[str, Any] | None = None) -> int:
    """Print what a task came to; the exit status says whether anything needs a person.

    `view` is what programs are given besides.
    """
    if not is_json():
        say_progress(progress, now)
    gaps = [members(gap, "who what command until") for gap in progress.left]
    status = errors.EXIT_NOT_TRUSTED if gaps else errors.EXIT_OK
    view = {**(view or {}), **members(progress, "done planned notes"), "left": gaps}
    return show(Answer(view, exit_status=status))


def say_progress(progress: Progress, now: datetime) -> None:
    """Say what was done, and what needs a person; under ``--quiet`` the second alone."""
    first = progress.left[0].command if progress.left else ""
    # The same with the root keys does more: a person types one command.
    same = (gap.command for gap in progress.left if first and gap.command.startswith(first))
    first = max(same, key=len, default="")
    if progress.left:
        gap = progress.left[0]
        task = first or (safe(gap.what.partition(": ")[0]) if gap.who == "you" else "")
        head = f". Do this: {task}" if task else f": the rest waits for {safe(gap.who)}"
        say(f"not finished{head}", asked=True)
    for line in (*progress.done, *(f"would {line}" for line in progress.planned)):
        say(safe(line, limit=400))
    if not (progress.done or progress.planned or progress.left):
        say("nothing is due")
    for line in progress.notes:
        say(safe(line, limit=400), asked=True)
    for gap in progress.left:
        say(f"left for {safe(gap.who)}{_deadline(gap, now)}:", asked=True)
        say(f"  {safe(gap.what, limit=600)}", asked=True)
        if gap.command not in first:
            say(f"  next: {gap.command}", asked=True)


def _deadline(gap: Gap, now: datetime) -> str:
    if gap.until is None:
        return ""
    return ", now" if gap.until <= now else f", by {second(gap.until, now)}"
