"""Serving a publication: the only part of cardsign that imports Flask, werkzeug and granian."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.server.mount import card_blueprint as card_blueprint
    from cardsign.server.mount import mount_cards as mount_cards
    from cardsign.server.settings import ServerSettings as ServerSettings
    from cardsign.server.settings import read_server_settings as read_server_settings
    from cardsign.server.tokens import TokenTable as TokenTable

__getattr__ = lazy_names(__name__)
