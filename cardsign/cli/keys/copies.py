"""``cardsign keys backup`` and ``keys restore``."""

from __future__ import annotations

from pathlib import Path

import click

from cardsign.cli.arguments import STDIO, write_output
from cardsign.cli.options import KeystoreOptions, keystore_options, user_heads
from cardsign.cli.talk import say
from cardsign.files import create_private, read_bytes, read_secret
from cardsign.keys.backup import MAX_BACKUP_BYTES, decrypt, encrypt, pack, restore, unpack

MAX_IDENTITY_BYTES = 64 * 1024  # bytes; a line each


@click.command()
@click.option(
    "-r",
    "--recipient",
    "recipients",
    multiple=True,
    required=True,
    metavar="AGE1...",
    help="An age recipient who can open the backup alone. May be repeated.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="A new file; '-': stdout.")
@keystore_options
def backup(recipients: tuple[str, ...], output: str, keystore: KeystoreOptions) -> None:
    """Write the whole key store to one file, encrypted with age.

    The private halves in it stay encrypted with their passphrases as well. Needs the extra
    cardsign[backup].
    """
    store = keystore.open()
    packed = encrypt(pack(store), recipients)
    if output == STDIO:
        write_output(output, packed)
    else:
        create_private(Path(output), packed)
    say(f"wrote {len(store.state.keys)} key(s) to {output}, for {len(recipients)} recipient(s)")


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--identity",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The age identity that opens it, a file of mode 0600 as age-keygen writes it.",
)
@keystore_options
def restore_(file: Path, identity: Path, keystore: KeystoreOptions) -> None:
    """Make a key store of the backup FILE, where there is none.

    What was revoked or published after the backup is not known to it: see cardsign keys doctor.
    """
    place = keystore.located(create=True)
    identities = read_secret(identity, max_bytes=MAX_IDENTITY_BYTES)
    packed = decrypt(read_bytes(file, max_bytes=MAX_BACKUP_BYTES), identities)
    restored = unpack(packed)
    restore(restored, place, heads=user_heads())
    say(f"restored {len(restored.state.keys)} key(s) to {place}")
