"""``cardsign keys backup``, ``keys restore`` and ``keys move``."""

from __future__ import annotations

from pathlib import Path

import click

from cardsign.cli.arguments import (
    PATH,
    STDIO,
    dry_run_option,
    moment,
    option,
    refuse_two_documents,
    write_output,
)
from cardsign.cli.commands import command
from cardsign.cli.options import (
    KeystoreOptions,
    actor,
    keystore_options,
    leave,
    read_place,
    user_heads,
)
from cardsign.cli.talk import counted, printed, say
from cardsign.files import create_private, read_bytes, read_secret
from cardsign.keys.backup import (
    MAX_BACKUP_BYTES,
    decrypt,
    encrypt,
    move_store,
    pack,
    restore,
    unpack,
)
from cardsign.keys.stores.directory import VARIABLE as KEYSTORE_VARIABLE
from cardsign.keys.stores.opening import open_store

MAX_IDENTITY_BYTES = 64 * 1024  # bytes; a line each


@command(example="cardsign keys backup -r age1qqqq -o keys.age")
@option(
    "-r --recipient AGE1......",
    "An age recipient who can open the backup alone. May be repeated.",
    into="recipients",
    required=True,
)
@option("-o --output FILE", "A new file; '-': stdout.", required=True)
@keystore_options
def backup(recipients: tuple[str, ...], output: str, keystore: KeystoreOptions) -> None:
    """Write the whole key store to one file, encrypted with age.

    The private keys in it stay encrypted with their passphrases as well. Needs the extra
    cardsign[backup].
    """
    refuse_two_documents(output)
    store = keystore.open()
    packed = encrypt(pack(store), recipients)
    if output == STDIO:
        write_output(output, packed)
    else:
        create_private(Path(output), packed)
    keys, readers = len(store.state.keys), counted(len(recipients), "recipient")
    if not printed({"output": output, "keys": keys}):
        say(f"wrote {counted(keys, 'key')} to {output}, for {readers}")


@command("restore", example="cardsign keys restore keys.age -i identity.txt")
@click.argument("file", type=PATH)
@option(
    "-i --identity FILE",
    "The age identity that opens it, a file of mode 0600 as age-keygen writes it.",
    type=PATH,
    required=True,
)
@keystore_options
@dry_run_option
def restore_(file: Path, identity: Path, keystore: KeystoreOptions) -> None:
    """Make a key store from the backup FILE. There must be none in its place.

    It lacks what was revoked or published after the backup; cardsign keys doctor checks that.
    """
    place = keystore.located(create=True)
    identities = read_secret(identity, max_bytes=MAX_IDENTITY_BYTES)
    packed = decrypt(read_bytes(file, max_bytes=MAX_BACKUP_BYTES), identities)
    restored = unpack(packed)
    restore(restored, place, now=moment(), actor=actor(), heads=user_heads())
    if not printed({"keystore": str(place), "keys": len(restored.state.keys)}):
        say(f"restored {counted(len(restored.state.keys), 'key')} to {place}")


@command(
    short_help="Move the key store to another folder or database.",
    example="cardsign keys move postgresql://db.example/keys",
)
@click.argument("to", metavar="TO")
@keystore_options
@dry_run_option
def move(to: str, keystore: KeystoreOptions) -> None:
    """Move the key store to TO, a folder or the URL of a database; the old one signs no more.

    The old one stays, and says where the new one is. If it is interrupted, run it again.
    Afterwards change `keystore` in cardsign.toml, or set CARDSIGN_KEYSTORE.
    """
    place = keystore.located()
    store = open_store(place, actor=actor(), heads=user_heads(), moved=True)
    target = KeystoreOptions(read_place(to)).located(create=True)
    moved = move_store(store, target, now=moment(), heads=user_heads())
    if printed({"from": str(place), "to": moved.place}):
        return
    named = moved.place if isinstance(target, Path) else target.to_file()
    say(f"the key store is in {named} now, and {place} signs no more")
    if isinstance(target, Path):
        say(f"  next: change `keystore` in cardsign.toml, or set {KEYSTORE_VARIABLE}")
    else:
        say(f"  next: export {KEYSTORE_VARIABLE}={named}")
        say("  add the password if the database asks for one, and do the same for cron")
        say(f"  to name it in cardsign.toml instead: {leave(target)}")
    say(f"  then destroy the old private keys: cardsign keys doctor --keystore {place} says how")
