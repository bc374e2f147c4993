"""How the commands that lead through a key's life could be misled: tests/attacks/commands.

Each file is one attack: what happens before (`begin`), what misleads (`attack`), the `command`, the
exit `status` and what it `says`. The honest twin is the same without the attack, and ends with 0.
In both no key of the stranger `eve` is ever listed. Lines are those of the runbooks; `sleep 2d`
sets the clock.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cardsign.publish.generation import load_current
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import read_keyset
from tests.cli.conftest import Cardsign, Ended
from tests.cli.test_runbooks import DAY, NEW, Story

FOLDER = Path(__file__).parents[1] / "attacks/commands"
ATTACKS = {path.stem: tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"))}
MEMBERS = {"title", "why", "begin", "attack", "command", "status", "says"}

pytestmark = pytest.mark.usefixtures("cheap")


class Misled(Story):
    """A story that may be told otherwise."""

    def run(self, line: str) -> None:
        """One line; `sleep` sets the clock."""
        word, _, span = line.partition(" ")
        if word == "sleep":
            self.sleep(int(span.removesuffix("d")) * DAY)
        else:
            self._choose_passphrase(line)
            super().run(line)

    def _choose_passphrase(self, line: str) -> None:
        """Before a theft is reported the card keys get a new one, as the page says."""
        if "--reason compromised" in line:
            self.card = NEW

    def end(self, line: str) -> Ended:
        """The command that is or is not misled; no key of a stranger is listed after it."""
        self._choose_passphrase(line)
        ended = self.call(*self.typed(line))
        keysets = []
        for file in Path().glob("*/statements/*.json"):
            if file.parts[0] != "eve":
                with suppress(StatementRefused):  # a release lies there, too
                    keysets.append(read_keyset(file.read_bytes()))
        published = [*map(read_keyset, load_current(Path("public")).keysets.values())]
        if published[0].digest in {keyset.digest for keyset in keysets}:  # not a stranger's folder
            keysets += published
        listed = {key.holder for keyset in keysets for key in (*keyset.keys, *keyset.root.keys)}
        assert listed == {"owner"}
        told = [line for line in ended.err.splitlines() if "Do this: cardsign keyset sign" in line]
        assert all("--digest" in line for line in told)  # nobody is sent to sign what nobody knows
        return ended


@pytest.mark.parametrize("is_misled", [True, False], ids=["misled", "honest twin"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_misled_command_does_no_harm(
    cardsign: Cardsign, clock: Callable[[datetime], None], attack: dict[str, Any], is_misled: bool
) -> None:
    """It says what is wrong, or does the honest thing all the same; its twin comes to its end."""
    assert set(attack) == MEMBERS
    story = Misled(cardsign, clock)
    story.begin()
    for line in (*attack["begin"], *(attack["attack"] if is_misled else ())):
        story.run(line)

    ended = story.end(attack["command"])

    expected = (attack["status"], True) if is_misled else (0, attack["says"] in ended.err)
    assert (ended.status, attack["says"] in ended.err) == expected, ended.err
