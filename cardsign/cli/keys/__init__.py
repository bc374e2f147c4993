"""``cardsign keys``: the group; a command's module is imported when the command is used."""

from __future__ import annotations

from typing import Final

import click

from cardsign.cli.frame import Group

_COMMANDS: Final = {
    "generate": ("keys.custody:generate", "Make a key."),
    "import": ("keys.custody:import_", "Import a key from a PEM, PKCS #12 or JWK file, or by URI."),
    "export": ("keys.custody:export", "Write one key for another program."),
    "list": ("keys.store:list_", "List the keys, oldest first."),
    "rotate": ("keys.rotate:rotate", "Do everything that is due."),
    "revoke": ("keys.rotate:revoke", "Revoke keys permanently."),
    "passwd": ("keys.custody:passwd", "Change the passphrase of a role's keys."),
    "move": ("keys.custody:move", "Move the key store to another folder or database."),
    "jwks": ("keys.store:jwks", "Write the JWK Set of the public keys, for peers."),
    "log": ("keys.store:log", "List the changes of the key store, oldest first."),
    "doctor": ("keys.store:doctor", "Check the key store."),
}


@click.group(cls=Group, sections={"Commands": _COMMANDS})
def keys() -> None:
    """Make, import, show, rotate and revoke keys.

    Private keys are in the key store, encrypted, or in a signer such as a KMS.
    """
