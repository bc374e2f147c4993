"""What an issuer's command works with: the key store, its passphrases, the settings."""

from __future__ import annotations

import getpass
import os
import platform
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cardsign.cli.frame import moment
from cardsign.cli.options import RECOVERY_VARIABLE, read_place
from cardsign.cli.printer import say
from cardsign.cli.streams import is_dry_run, read_input
from cardsign.errors import (
    CardsignError,
    PassphraseFault,
    StoreFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import CONFIG_FILE, leads_outside, outside
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, import_public_key
from cardsign.keys.model import ROLES
from cardsign.keys.opening import StorePlace, is_taken, open_store
from cardsign.keys.signers.access import (
    PASSPHRASE_VARIABLE,
    Access,
    PassphraseSource,
    new_passphrase,
    read_passphrase,
    terminal_prompt,
    user_policy,
    user_secrets,
)
from cardsign.keys.signers.registry import list_public_keys
from cardsign.keys.store import KeyStore, StoreUser

if TYPE_CHECKING:
    from cardsign.config import ProjectConfig
    from cardsign.issuer.work import Work

KEYSTORE_VARIABLE: Final = "CARDSIGN_KEYSTORE"
DEFAULT_KEYSTORE: Final = "keys"
ROLE_VARIABLES: Final = {
    "root": "CARDSIGN_ROOT_PASSPHRASE",
    "card": "CARDSIGN_CARD_PASSPHRASE",
    "release": "CARDSIGN_RELEASE_PASSPHRASE",
}


@dataclass(frozen=True, slots=True)
class KeystoreOptions:
    """Which key store a command is about."""

    place: StorePlace | None = None

    def located(self) -> StorePlace:
        """Where it is: option, environment, ``cardsign.toml``, ``./keys``."""
        if self.place is not None:
            return self.place
        if named := os.environ.get(KEYSTORE_VARIABLE):
            return read_place(named)
        is_named = os.path.lexists(CONFIG_FILE)  # else no settings are loaded
        configured = project_config().keystore if is_named else None
        return allowed_store(configured or Path.cwd() / DEFAULT_KEYSTORE)

    def open(self) -> KeyStore:
        """Open the key store, wherever it is."""
        place = self.located()
        with explaining_absence():
            return open_store(place, local_user())

    def open_if_any(self) -> KeyStore | None:
        """The key store if there is one; for commands that only profit from it."""
        return self.open() if is_taken(self.located()) else None


@dataclass(frozen=True, slots=True)
class UnlockOptions(KeystoreOptions):
    """Which key store a command is about, and where the passphrase of its keys comes from."""

    passphrase_file: Path | None = None

    def source(self, role: str = "") -> PassphraseSource:
        """Where the passphrase of a role's keys comes from.

        An option decides, then the role's own variable, then the role's file in the user's
        settings, then the variable of all roles, then a terminal.
        """
        variable = ROLE_VARIABLES.get(role, "")
        file = self.passphrase_file
        if role and file is None:
            if variable in os.environ:
                return PassphraseSource(environment=os.environ, variable=variable)
            file = user_policy(os.environ).passphrase_files.get(role)
        return PassphraseSource(file, os.environ, terminal_prompt())

    def new_passphrase(self, role: str, *, keys: str = "") -> bytes:
        """The passphrase of a new key of a role; `keys` names all that get it."""
        question = f"New passphrase of the {keys or f'{role} keys'}: "
        with naming_key(role):
            return new_passphrase(self.source(role), question=question)

    def access(self, *uris: str) -> Access:
        """What signers may use: what the user's own file allows, and what was just typed.

        Args:
            uris: Signers that were named on the command line.
        """
        policy = user_policy(os.environ)
        policy = policy.model_copy(update={"allow": policy.allow | set(uris)})
        usual = self.source()
        secrets, sources = user_secrets(usual), {str(role): self.source(role) for role in ROLES}
        own = {
            role: secrets if source == usual else user_secrets(source)
            for role, source in sources.items()
        }
        return Access(secrets, policy, os.environ, own)

    def list_keys(self, uris: Sequence[str], kid: str | None) -> list[PublicKey]:
        """Return the public keys of the URIs of ``--key``, each once."""
        if kid is not None and len(uris) != 1:
            raise UsageFault("usage.conflict", "--kid goes with one --key")
        access = self.access(*uris).for_roles(("card",))
        keys = (key for uri in uris for key in list_public_keys(uri, access, kid=kid))
        return list({(key.kid, key.alg, key.thumbprint): key for key in keys}.values())

    def work(
        self,
        config: ProjectConfig,
        *,
        store: KeyStore | None = None,
        access: Access | None = None,
        root_keystore: StorePlace | None = None,
    ) -> Work:
        """What a command of the issuer works with; in a dry run a preview of the key store."""
        from cardsign.issuer.work import PreviewStore, Work  # which a list does not need

        store = store or self.open()
        if is_dry_run():
            store = PreviewStore(store)
        work = Work(store, moment(), config, access or self.access(), is_dry_run=is_dry_run())
        if root_keystore:
            self.add_roots(work, root_keystore)
        if self.place:
            work.options = f"--keystore {shlex.quote(str(self.place))}"
        return work

    def add_roots(self, work: Work, root_keystore: StorePlace) -> None:
        """Let the root keys of another key store sign too."""
        from cardsign.issuer.work import Work

        apart = replace(self, place=root_keystore)
        work.roots = Work(apart.open(), work.now, access=apart.access())
        work.root_option = f"--root-keystore {shlex.quote(str(root_keystore))}"


@contextmanager
def explaining_absence() -> Iterator[None]:
    """Say of a key store that is not here whose it is, where cardsign.toml or its files tell."""
    try:
        yield
    except StoreFault as fault:
        issuer = _find_issuer() if fault.code == "keystore.missing" else ""
        if not issuer:
            raise
        again = "cardsign keyset recover --recovery-file FILE --digest SHA-256"
        message, hint = fault.message, fault.finding.fix
        if not hint:  # else it was here, and the hint says where it may be
            message = f"{issuer}, and their key store is not here"
            hint = "Put back a copy, or name it with --keystore."
        hint = f"{hint} If it is lost: {again}"
        raise StoreFault(fault.code, message, path=fault.path, hint=hint) from fault


def _find_issuer() -> str:
    """Return what names an issuer here; empty where nothing does, or it cannot be read."""
    from cardsign.issuer.publishing import published_statements

    with suppress(CardsignError):
        config = project_config()
        if published := published_statements(config.publish):
            return f"{config.publish} holds keysets of {published.newest.origins[0]}"
        if config.issuer:
            return f"{CONFIG_FILE} names the keys of {config.issuer}"
    return ""


@contextmanager
def naming_key(role: str) -> Iterator[None]:
    """Say of which new key no passphrase was given, and where that of its role is looked for."""
    try:
        yield
    except PassphraseFault as fault:
        if fault.code != "passphrase.none" or role not in ROLE_VARIABLES:
            raise
        message = f"no passphrase of the new {role} key was given"
        hint = f"Set {ROLE_VARIABLES[role]}, or {PASSPHRASE_VARIABLE} for all new keys."
        raise PassphraseFault(fault.code, message, hint=hint) from fault


def recovery_source() -> PassphraseSource:
    """Where the recovery key's passphrase comes from; never from where the others do."""
    named = os.environ.get(RECOVERY_VARIABLE)
    environment = {} if named is None else {PASSPHRASE_VARIABLE: named}
    return PassphraseSource(None, environment, terminal_prompt())


def unlock_recovery(file: Path) -> tuple[PrivateKey, bytes]:
    """Open a recovery key, and return it with its passphrase."""
    from cardsign.issuer.recovery import open_recovery_key

    secret = read_passphrase(recovery_source(), question="Passphrase of the recovery key: ")
    return open_recovery_key(file, secret), secret


def own_passphrase(option: str, file: Path | None, question: str) -> bytes:
    """A new passphrase that only an option of its own and a terminal can give."""
    source = PassphraseSource(file, {}, terminal_prompt())
    try:
        return new_passphrase(source, question=question)
    except PassphraseFault as fault:
        if fault.code != "passphrase.none":
            raise
        raise PassphraseFault(fault.code, fault.message, hint=f"Use {option} FILE.") from fault


def project_config(publication: Path | None = None) -> ProjectConfig:
    """The settings of ``cardsign.toml`` in the working directory; empty where there is none.

    Args:
        publication: What an option names instead of its publication directory.
    """
    from cardsign.config import read_config  # pydantic, which a key store alone does not need

    config = read_config(Path.cwd() / CONFIG_FILE, allowed=user_policy(os.environ).folders)
    return replace(config, publish=publication or config.publish)


def check_cards(config: ProjectConfig) -> None:
    """Refuse a command without a CARD where ``cardsign.toml`` names none either."""
    if not config.cards:
        raise UsageFault(
            "usage.conflict",
            "no card is named",
            hint=f"Name CARD, or list the cards in {CONFIG_FILE}: [[card]] with source = "
            '"card.json" and signed = "signed.json".',
        )


def allowed_store(folder: Path) -> Path:
    """What the project folder names, if the user has allowed it.

    A key store that is reached by a symbolic link may be that of another project, whose keys would
    sign here.
    """
    allowed = user_policy(os.environ).folders
    if leads_outside(Path.cwd(), folder, allowed):
        raise outside(folder, "the key store is a link to a place", folder)
    for part in folder.rglob("*"):
        if part.is_symlink() and leads_outside(Path.cwd(), part, allowed):
            raise outside(part, "a part of the key store is a link to a place", part)
    return folder


def local_user() -> StoreUser:
    """The account on this machine, for the log, and where it remembers what it saw of logs."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # a container's user has often no name
        account = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path(os.environ.get("HOME", "")) / ".local/state"
    folder = state / "cardsign/keystores" if state.is_absolute() else None
    return StoreUser(f"{account}@{platform.node()}", folder, say)


def read_public(name: str, *, kid: str | None = None) -> PublicKey:
    """Read a public key that the user hands over."""
    with of_the_user(name):
        return import_public_key(read_input(name, max_bytes=MAX_KEY_FILE_BYTES), kid=kid)


def read_jwks(name: str) -> JwkSet:
    """Read a set of public keys that the user hands over."""
    with of_the_user(name):
        return JwkSet.from_bytes(read_input(name, max_bytes=MAX_KEY_FILE_BYTES))
