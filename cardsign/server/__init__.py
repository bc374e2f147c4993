"""Serving a publication: the only part of cardsign that imports Flask, werkzeug and granian."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.server.answers import MAX_REQUEST_BYTES as MAX_REQUEST_BYTES
    from cardsign.server.app import create_app as create_app
    from cardsign.server.documents import Paths as Paths
    from cardsign.server.documents import Representation as Representation
    from cardsign.server.host import Host as Host
    from cardsign.server.live import LiveApplication as LiveApplication
    from cardsign.server.mount import card_blueprint as card_blueprint
    from cardsign.server.mount import mount_cards as mount_cards
    from cardsign.server.providers import AudienceRule as AudienceRule
    from cardsign.server.providers import ProviderSettings as ProviderSettings
    from cardsign.server.remote import make_providers as make_providers
    from cardsign.server.run import RsgiApplication as RsgiApplication
    from cardsign.server.run import serve as serve
    from cardsign.server.settings import ServerSettings as ServerSettings
    from cardsign.server.settings import read_server_settings as read_server_settings
    from cardsign.server.tokens import TokenTable as TokenTable
    from cardsign.server.tokens import create_token as create_token
    from cardsign.server.tokens import without_token as without_token
    from cardsign.server.traffic import RateLimit as RateLimit
    from cardsign.server.traffic import client_of as client_of
    from cardsign.server.traffic import log_answer as log_answer

__getattr__ = lazy_names(__name__)
