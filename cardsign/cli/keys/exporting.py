"""``cardsign keys export``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

import click

from cardsign.cli.options import (
    STDIO,
    keystore_option,
    open_keystore,
    passphrase_option,
    passphrase_options,
    passphrase_source,
    write_output,
)
from cardsign.cli.talk import say
from cardsign.errors import SignerFault, UsageFault
from cardsign.files import create_private
from cardsign.jose.keys import PrivateKey
from cardsign.keys.exporting import export_private, export_public
from cardsign.keys.opening import Place
from cardsign.keys.passphrase import (
    PassphraseSource,
    new_passphrase,
    read_passphrase,
    terminal_prompt,
)

Form = Literal["jwk", "pem", "pkcs8", "pkcs12"]
_PUBLIC: Final = ("jwk", "pem")


@click.command(short_help="Write one key for another program.")
@click.argument("kid")
@click.option(
    "--as",
    "form",
    type=click.Choice(("jwk", "pem", "pkcs8", "pkcs12")),
    help="jwk or pem for the public half [default: jwk]; pkcs8 or pkcs12 with --private.",
)
@click.option("--private", is_flag=True, help="Export the private half, encrypted, to -o FILE.")
@click.option(
    "--export-passphrase-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The passphrase that shall open the exported file [default: a prompt].",
)
@click.option("-o", "--output", default=STDIO, metavar="FILE", help="'-' for stdout, the default.")
@keystore_option
@passphrase_options
def export(
    kid: str,
    form: Form | None,
    private: bool,
    export_passphrase_file: Path | None,
    output: str,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
) -> None:
    """Write one key for another program: its public half, or with --private the private one.

    A private half is encrypted with a passphrase of its own and goes to a new file that only
    you can read.
    """
    form = form or ("pkcs8" if private else "jwk")
    if private is (form in _PUBLIC):
        raise UsageFault("usage.conflict", "pkcs8 and pkcs12 go with --private, jwk and pem do not")
    store = open_keystore(keystore)
    record = store.find(kid)
    if form == "jwk" or form == "pem":
        write_output(output, export_public(record.public, form))
        return
    if output == STDIO:
        raise UsageFault("usage.conflict", "a private half goes to a file; name -o FILE")
    if not record.custody.startswith("file:"):
        raise SignerFault("signer.unsupported", "its private half does not leave its signer")
    passphrase = read_passphrase(passphrase_source(passphrase_file, passphrase_fd))
    signer = store.signer(record, passphrase)
    assert isinstance(signer, PrivateKey)  # noqa: S101  what lies in a file is one
    own = PassphraseSource(export_passphrase_file, None, {}, terminal_prompt())
    with passphrase_option("--export-passphrase-file"):
        new = new_passphrase(own, question="Passphrase of the exported file: ")
    create_private(Path(output), export_private(signer, form, new, random=os.urandom))
    say(f"wrote the private half of {record.kid} to {output}, encrypted")
