"""``cardsign completion``: Tab completion for the user's shell."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from cardsign.cli.arguments import json_option
from cardsign.cli.commands import command, command_line
from cardsign.cli.talk import print_json
from cardsign.errors import UsageFault

SHELLS: Final = ("bash", "zsh", "fish")


@command(example="cardsign completion bash > ~/.local/share/bash-completion/completions/cardsign")
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the code that makes SHELL complete cardsign's commands and options.

    bash: save it as ~/.local/share/bash-completion/completions/cardsign. zsh: save it as _cardsign
    in a folder of $fpath. fish: save it as ~/.config/fish/completions/cardsign.fish. Completion
    works in the next shell that you open.
    """
    made = get_completion_class(shell)
    if made is None:  # every shell of SHELLS is known to click
        raise UsageFault("usage.invalid", f"there is no completion for {shell}")
    try:
        code = made(command_line, {}, "cardsign", "_CARDSIGN_COMPLETE").source()
    except RuntimeError as error:
        raise UsageFault("usage.invalid", f"{shell}: {error}") from error
    if as_json:
        print_json({"shell": shell, "code": code})
    else:
        click.echo(code)
