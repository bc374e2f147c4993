"""The command line: parse, call one library function, print, exit."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.cli.commands import command_line as command_line
    from cardsign.cli.commands import main as main
    from cardsign.cli.commands import run_words as run_words

__getattr__ = lazy_names(__name__)
