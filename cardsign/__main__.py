"""``python -m cardsign``."""

from cardsign.cli.commands import main

main()
