"""``python -m cardsign``."""

from cardsign.cli.main import main

main()
