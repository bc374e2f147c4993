"""``cardsign keys``: the key store."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cardsign.cli.options import (
    STDIO,
    alg_option,
    json_option,
    keystore_option,
    keystore_path,
    open_keystore,
    passphrase_options,
    passphrase_source,
    read_input,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.jose.keys import Alg, PrivateKey
from cardsign.keys.importing import import_private_key
from cardsign.keys.passphrase import (
    PassphraseSource,
    new_passphrase,
    read_passphrase,
    terminal_prompt,
)
from cardsign.keys.records import KeyRecord
from cardsign.keys.store import DirectoryStore

MAX_KEY_FILE_BYTES = 64 * 1024  # bytes; an RSA-8192 PEM has under 10 KiB


@click.group()
def keys() -> None:
    """Make, import and show the keys that sign cards.

    Private halves lie encrypted in the key store; nothing prints them.
    """


@keys.command()
@alg_option
@keystore_option
@passphrase_options
@json_option
def generate(
    alg: Alg,
    keystore: Path | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Make a key. A store's first key of an algorithm signs at once.

    A later one is prepublished: it stands in the JWK Set and signs nothing yet; activating it
    belongs to key rotation, which a later version brings.
    """
    path = keystore_path(keystore, create=True)
    passphrase = new_passphrase(passphrase_source(passphrase_file, passphrase_fd))
    private = PrivateKey.generate(alg)
    _add(path, private, passphrase, as_json)


@keys.command("import")
@click.argument("file", metavar="FILE")
@click.option("--kid", help="The kid to publish [default: a JWK's own, else the thumbprint].")
@click.option(
    "--import-passphrase-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The passphrase of FILE itself, if it is encrypted.",
)
@keystore_option
@passphrase_options
@json_option
def import_(
    file: str,
    kid: str | None,
    import_passphrase_file: Path | None,
    keystore: Path | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Take a private key in from a PEM or JWK FILE ('-' for stdin).

    A kid that peers know already is kept, since they look the key up by it.
    """
    path = keystore_path(keystore, create=True)
    own = PassphraseSource(import_passphrase_file, None, {}, terminal_prompt())
    private = import_private_key(
        read_input(file, max_bytes=MAX_KEY_FILE_BYTES),
        kid=kid,
        password=lambda: read_passphrase(own, question="Passphrase of the imported file: "),
    )
    _add(path, private, new_passphrase(passphrase_source(passphrase_file, passphrase_fd)), as_json)


def _add(path: Path, private: PrivateKey, passphrase: bytes, as_json: bool) -> None:
    store = DirectoryStore.create(path, exist_ok=True)
    record = store.add_key(private, passphrase, now=datetime.now(UTC), random=os.urandom)
    if as_json:
        print_json(_described(record))
        return
    click.echo(record.kid)
    does = (
        "signs from now on" if record.state == "active" else "is prepublished: it signs nothing yet"
    )
    say(f"made the {record.alg} key above in {path}; it {does}")


@keys.command("list")
@keystore_option
@json_option
def list_(keystore: Path | None, as_json: bool) -> None:
    """List the keys, oldest first."""
    records = open_keystore(keystore).state.keys
    if as_json:
        print_json([_described(record) for record in records])
        return
    for record in records:
        click.echo(f"{record.kid}  {record.alg}  {record.state:<12}  {record.created:%Y-%m-%d}")


@keys.command()
@click.argument("kid")
@keystore_option
@json_option
def show(kid: str, keystore: Path | None, as_json: bool) -> None:
    """Show one key, by its KID or the beginning of it."""
    record = open_keystore(keystore).find(kid)
    described = _described(record)
    if as_json:
        print_json(described)
        return
    for name, value in described.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if not isinstance(value, dict):
            click.echo(f"{name:<11} {safe(str(shown))}")


@keys.command()
@click.option("-o", "--output", default=STDIO, metavar="FILE", help="'-' for stdout, the default.")
@keystore_option
@json_option
def jwks(output: str, keystore: Path | None, as_json: bool) -> None:
    """Write the JWK Set of the public halves, for peers.

    It holds the keys that sign and those that soon will; it is JSON with or without --json.
    """
    store = open_keystore(keystore)
    write_output(output, store.jwks().to_bytes())
    if output != STDIO:
        say(f"wrote {len(store.published_keys())} public key(s) to {output}")


def _described(record: KeyRecord) -> dict[str, Any]:
    return {
        "kid": record.kid,
        "alg": record.alg,
        "state": record.state,
        "roles": list(record.roles),
        "thumbprint": record.thumbprint,
        "custody": record.custody,
        "created": record.created.isoformat(),
        "public": record.public.jwk(),
    }
