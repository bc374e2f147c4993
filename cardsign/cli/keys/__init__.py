"""``cardsign keys``: the key store, and the lifecycle of its keys.

Each command's module is imported when the group is used, all of them cheap.
"""

from __future__ import annotations

from typing import Final

import click

from cardsign.cli.commands import Group, group
from cardsign.cli.keys.copies import backup, move, restore_
from cardsign.cli.keys.health import audit, doctor
from cardsign.cli.keys.making import export, generate, import_, passwd
from cardsign.cli.keys.rehearsing import rehearse_
from cardsign.cli.keys.showing import (
    activate,
    destroy,
    jwks,
    list_,
    look,
    retire,
    revoke,
    rotate,
    show,
)
from cardsign.cli.keys.timeline import timeline

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
