"""``cardsign config``: the settings of a project's folder."""

from __future__ import annotations

from pathlib import Path

from cardsign.cli.commands import group
from cardsign.cli.options import KeystoreOptions, project_config
from cardsign.cli.talk import counted, print_json, printed, safe, say
from cardsign.config import CONFIG_FILE, config_schema
from cardsign.errors import FileMissing


@group()
def config() -> None:
    """Check cardsign.toml, the settings of this folder, and print its JSON Schema."""


@config.command(example="cardsign config check")
def check() -> None:
    """Check the settings, and that the cards are there.

    Exit status 2: it is malformed, names a place outside this folder, or a card is missing.
    """
    if not Path(CONFIG_FILE).exists():
        raise FileMissing("file.not_found", "there are no settings here", path=CONFIG_FILE)
    found = project_config()
    store = KeystoreOptions().open_if_any()
    for path in (path for card in found.cards for path in card.build or [card.source]):
        if not path.exists():
            raise FileMissing("file.not_found", "the card is not there", path=str(path))
    names = [str(card.source) for card in found.cards]
    if printed({"issuer": found.issuer, "keystore": store and store.place, "cards": names}):
        return
    place = "no key store yet" if store is None else f"key store {safe(store.place)}"
    say(f"{CONFIG_FILE} is good: {counted(len(found.cards), 'card')}, {place}")


@config.command(example="cardsign config schema > cardsign.schema.json")
def schema() -> None:
    """Print the JSON Schema of cardsign.toml, for editors.

    The output is JSON with or without --json.
    """
    print_json(config_schema())
