"""``cardsign keys``: the key store, and the lifecycle of its keys.

Each command's module is imported when the group is used, all of them cheap.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import click

from cardsign.cli.arguments import STDIO, option, write_output
from cardsign.cli.commands import Group, command, group
from cardsign.cli.keys.backup import backup, move, restore_
from cardsign.cli.keys.doctor import audit, doctor
from cardsign.cli.keys.generate import export, generate, import_, passwd
from cardsign.cli.keys.rehearse import rehearse_
from cardsign.cli.keys.rotate import activate, destroy, look, retire, revoke, rotate
from cardsign.cli.keys.timeline import timeline
from cardsign.cli.options import KeystoreOptions, keystore_options, project_config
from cardsign.cli.talk import counted, print_table, printed, safe, say
from cardsign.cli.views import key_json
from cardsign.jose.jwks import JwkSet
from cardsign.keys.history import StatementHistory
from cardsign.keys.model import KeyRecord
from cardsign.keys.rotation import refresh_hint


@command("list", example="cardsign keys list")
@keystore_options
def list_(keystore: KeystoreOptions) -> None:
    """List the keys, oldest first."""
    records = keystore.open().state.keys
    if printed([key_json(record) for record in records]):
        return
    columns = {"kid": 0, "algorithm": 0, "state": 12, "made": 0, "roles": 0}
    print_table(columns, (_row(record) for record in records))


def _row(record: KeyRecord) -> tuple[str, ...]:
    gone = "  (private key destroyed)" if record.private == "destroyed" else ""
    roles = ", ".join(record.roles)
    return record.kid, record.alg, record.state, f"{record.created:%Y-%m-%d}", f"{roles}{gone}"


@command(example="cardsign keys show vzTO")
@click.argument("kid")
@keystore_options
def show(kid: str, keystore: KeystoreOptions) -> None:
    """Show one key, by its KID or the beginning of it."""
    record = keystore.open().state.find(kid)
    if printed(key_json(record)):
        return
    shown = {name: value for name, value in key_json(record).items() if name != "public"}
    shown |= {name.replace("_", " "): time for name, time in shown.pop("times").items()}
    for name, value in shown.items():
        text = ", ".join(value) if isinstance(value, list) else str(value)
        click.echo(f"{name:<13} {safe(text)}")


@command(example="cardsign keys jwks -o jwks.json")
@option("-o --output FILE", "'-' for stdout, the default.", default=STDIO)
@keystore_options
def jwks(output: str, keystore: KeystoreOptions) -> None:
    """Write the JWK Set of the public keys, for peers.

    It holds the card keys that sign now, the next ones, and those that signed until recently. If
    there is a keyset statement, only keys that the newest one lists are in it. The output is JSON
    with or without --json. The refresh hint in it is shorter when keys are about to change.
    """
    store = keystore.open()
    published = store.state.published_keys()
    listed = StatementHistory.of(store).listed(published, "card")
    hint = refresh_hint(store.state, project_config().timeline, datetime.now(UTC))
    sequence = store.state.jwks_sequence()
    jwks = JwkSet.of([key.public for key in listed])
    write_output(output, jwks.to_bytes(sequence=sequence, refresh_hint=hint))
    for key in published:
        if key not in listed:
            say(f"{key.kid} is left out: the newest keyset statement does not list it")
    if output != STDIO:
        say(f"wrote {counted(len(listed), 'public key')} to {output}")


_IN_ORDER: Final = (
    *(generate, import_, export, list_, show),
    *(activate, rotate, retire, revoke, destroy, look),
    *(passwd, backup, restore_, move, jwks, timeline, rehearse_, audit, doctor),
)


class _InOrder(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name or "" for command in _IN_ORDER]


@group(cls=_InOrder)
def keys() -> None:
    """Make, import, show, rotate and revoke keys.

    Private keys are in the key store, encrypted, or in a signer such as a KMS.
    """


for _command in _IN_ORDER:
    keys.add_command(_command)
