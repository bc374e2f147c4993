"""``python -m cardsign``."""

from cardsign.cli import main

main()
