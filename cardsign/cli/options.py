"""Options that several commands share, as ordinary click decorators.

A command receives what it does not name itself as ``**options``, and makes one value of those that
belong together: ``keystore = take(UnlockOptions, options)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cardsign.cli.frame import choose_form, moment
from cardsign.errors import UsageFault

if TYPE_CHECKING:  # the key stores' own libraries, which most commands do not need
    from cardsign.keys.opening import StorePlace
    from cardsign.net.fetch import FetchSettings
    from cardsign.net.fetcher import DocumentFetcher

_Values = TypeVar("_Values")
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The type of an option or argument that is a file or a folder, which need not exist.
PATH: Final = click.Path(path_type=Path)
RECOVERY_VARIABLE: Final = "CARDSIGN_RECOVERY_PASSPHRASE"


def take(kind: type[_Values], options: dict[str, Any]) -> _Values:
    """Return the options that a dataclass has fields for, and take them out of `options`."""
    names = [field.name for field in fields(kind) if field.name in options]  # type: ignore[arg-type]
    return kind(**{name: options.pop(name) for name in names})


def read_place(text: str) -> StorePlace:
    """Return a key store's place: a folder, or the URL of a database."""
    from cardsign.keys import opening

    return opening.read_place(text)


yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask: this cannot be undone.")


def format_option(*forms: str, text: str = "") -> Callable[[_Function], _Function]:
    """Return ``--format``; :func:`cardsign.cli.printer.show` prints what it names.

    Args:
        forms: What the command can print besides text.
        text: What is said of them in the help.
    """
    return click.option(
        "--format",
        type=click.Choice(("text", *forms)),
        expose_value=False,
        callback=choose_form,
        help=f"How results are printed [default: text]{text}.",
    )


# The issuer's side.

alg_option: Final = click.option(
    "--alg",
    type=click.Choice(("ES256", "RS256", "EdDSA")),
    default="ES256",
    show_default=True,
    help="ES256: P-256, small and fast; RS256: RSA, for verifiers that know nothing else; "
    "EdDSA: Ed25519, for card keys only; few SDKs verify it.",
)
public_option: Final = click.option(
    "--public", metavar="FILE", help="The public key of the signer: a JWK or PEM ('-' for stdin)."
)
recovery_option: Final = click.option(
    "--recovery-file",
    type=PATH,
    metavar="FILE",
    help="Sign with the recovery key in this file. Its passphrase is in "
    f"{RECOVERY_VARIABLE}, or is asked for.",
)
publication_option: Final = click.option(
    "--publication",
    type=PATH,
    metavar="DIR",
    help="The publication directory [default: `publish` of cardsign.toml].",
)
key_option: Final = click.option(
    "--key",
    "uris",
    metavar="URI",
    multiple=True,
    help="The key at URI instead of a key store: env:NAME, file:PATH or the URI of a signer, such "
    "as awskms:///ID. A public key will do. May be repeated.",
)
kid_option: Final = click.option(
    "--kid", metavar="KID", help="The kid under which the key of --key is published."
)
keystore_option: Final = click.option(
    "--keystore",
    "place",
    type=read_place,
    metavar="DIR",
    help="The key store, or the URL of its database "
    "[default: CARDSIGN_KEYSTORE, then cardsign.toml, then ./keys].",
)
passphrase_option: Final = click.option(
    "--passphrase-file",
    type=PATH,
    metavar="FILE",
    help="Read the passphrase from a file of mode 0600 [default: "
    "CARDSIGN_PASSPHRASE, then a prompt on a terminal].",
)
root_keystore_option: Final = click.option(
    "--root-keystore",
    type=read_place,
    metavar="DIR",
    help="A key store with root keys, such as on a USB stick; it signs the next keyset too.",
)


def unlock_options(command: _Function) -> _Function:
    """Add ``--keystore`` and ``--passphrase-file``: an `UnlockOptions`."""
    return keystore_option(passphrase_option(command))


# The verifier's side.

accept_option: Final = click.option(
    "--accept",
    type=click.Choice(("full", "sdk")),
    help="full: only signatures over the whole card count. sdk: signatures of SDKs count too, and "
    "may leave parts of it unsigned [default: full, unless the issuer's entry says sdk].",
)
statements_option: Final = click.option(
    "--statements",
    type=PATH,
    multiple=True,
    metavar="FILE|DIR",
    help="Keyset and release statements of the issuer: a file, or a folder, whose *.json files are "
    "searched, subfolders too. May be repeated.",
)


def fetch_settings(insecure: bool) -> FetchSettings:
    """Return what ``--insecure-loopback-http`` allows, and the usual limits."""
    from cardsign.net.fetch import FetchSettings

    return FetchSettings(insecure_loopback_http=insecure)


def open_fetcher(insecure: bool, now: Callable[[], datetime] = moment) -> DocumentFetcher:
    """Return what asks peers for documents, and keeps them as long as this command runs."""
    from cardsign.net.fetcher import DocumentFetcher

    return DocumentFetcher(fetch_settings(insecure), now=now)


network_option: Final = click.option(
    "--insecure-loopback-http",
    "insecure",
    is_flag=True,
    help="Allow URLs of this machine, also over plain HTTP; for trying things out.",
)
policy_option: Final = click.option(
    "--trust",
    "trust_file",
    type=PATH,
    metavar="FILE",
    help="The policy [default: CARDSIGN_TRUST, then ./trust.toml, then "
    "$XDG_CONFIG_HOME/cardsign/trust.toml].",
)
#: For a command that reads no policy of the working directory by itself.
own_policy_option: Final = click.option(
    "--trust",
    "trust_file",
    type=PATH,
    metavar="FILE",
    help="The policy [default: CARDSIGN_TRUST, then $XDG_CONFIG_HOME/cardsign/trust.toml].",
)


def subject_options(command: _Function) -> _Function:
    """Add whose card it must be, and how it is fetched and judged: of a `VerifierOptions`."""
    issuer = click.option(
        "--issuer",
        metavar="NAME",
        help="Whose card it must be, by the policy's own name [default: the issuer that the policy "
        "trusts for the URL].",
    )
    jwks = click.option(
        "--jwks",
        metavar="FILE|URL",
        help="Whose card it must be: the holder of these keys. No policy is read, and revocation "
        "cannot be seen.",
    )
    return issuer(jwks(accept_option(policy_option(network_option(command)))))


def visit_options(command: _Function) -> _Function:
    """Add whom a command visits, and with which credential: a `VerifierOptions`."""
    credential = click.option(
        "--credential",
        metavar="SOURCE",
        help="Where to read the credential: env:NAME or file:/PATH. It is sent only to an "
        "interface of the verified card inside the issuer's origins; with --jwks alone, at the "
        "origin of URL.",
    )
    client_id = click.option(
        "--client-id",
        metavar="ID",
        help="The OAuth client whose secret the credential is. It gets a token at the token URL of "
        "the verified card, which must be inside the issuer's origins too.",
    )
    return subject_options(credential(client_id(command)))


def read_pairs(option: str, form: str, texts: Iterable[str], *, hint: str = "") -> dict[str, str]:
    """Return what a repeated option such as ``--header NAME=VALUE`` says, by name.

    Raises:
        UsageFault: ``usage.invalid``: a text has another form; ``usage.conflict``: a name twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageFault("usage.invalid", f"{option} takes {form}, not {text!r}", hint=hint)
        if name in pairs:
            message = f"{option} names {name!r} twice"
            raise UsageFault("usage.conflict", message, hint="Name it once.")
        pairs[name] = value
    return pairs
