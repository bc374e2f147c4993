"""Serving a publication: the only part of cardsign that imports Flask, werkzeug and granian."""

from cardsign.server.app import create_app
from cardsign.server.mount import card_blueprint, mount_cards
from cardsign.server.settings import ServerSettings, read_server_settings

__all__ = ["ServerSettings", "card_blueprint", "create_app", "mount_cards", "read_server_settings"]
