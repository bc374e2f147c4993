"""``cardsign init``: everything that a project needs to sign its first card."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.options import (
    alg_option,
    json_option,
    of_the_user,
    passphrase_options,
    passphrase_source,
)
from cardsign.cli.talk import print_json, say
from cardsign.config import CONFIG_FILE, render_config
from cardsign.errors import FileFault
from cardsign.files import write_atomic
from cardsign.jose.keys import Alg, PrivateKey
from cardsign.keys.passphrase import new_passphrase
from cardsign.keys.store import DirectoryStore
from cardsign.trust.origins import parse_origin


@click.command()
@click.option("--issuer", metavar="ORIGIN", help="The https origin that the cards will speak for.")
@click.option(
    "--keystore", default="keys", show_default=True, metavar="DIR", help="Where the keys will lie."
)
@click.option(
    "--publish",
    "publish_dir",
    default="public",
    show_default=True,
    metavar="DIR",
    help="Where publications will lie.",
)
@alg_option
@passphrase_options
@json_option
def init(
    issuer: str | None,
    keystore: str,
    publish_dir: str,
    alg: Alg,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Set up this folder: cardsign.toml and a key store with one card key.

    The root, release and recovery keys of the full form come with a later version; what is
    made here will be extended then, not replaced.
    """
    with of_the_user("--issuer"):
        origin = str(parse_origin(issuer)) if issuer is not None else None
    config = Path(CONFIG_FILE)
    if config.exists():
        raise FileFault("file.exists", "this folder is set up already", path=CONFIG_FILE)
    passphrase = new_passphrase(passphrase_source(passphrase_file, passphrase_fd))
    store = DirectoryStore.create(Path(keystore))
    private = PrivateKey.generate(alg)
    record = store.add_key(private, passphrase, now=datetime.now(UTC), random=os.urandom)
    write_atomic(config, render_config(issuer=origin, keystore=keystore, publish=publish_dir))
    if as_json:
        print_json({"config": CONFIG_FILE, "keystore": keystore, "kid": record.kid, "alg": alg})
    else:
        say(f"wrote {CONFIG_FILE} and the key store {keystore} with one {alg} key, {record.kid}")
        say("  next: cardsign sign card.json -o signed.json")
