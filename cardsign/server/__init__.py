"""Serving a publication: the only part of cardsign that imports Flask, werkzeug and granian."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.server.app import create_app as create_app
    from cardsign.server.mount import card_blueprint as card_blueprint
    from cardsign.server.mount import mount_cards as mount_cards
    from cardsign.server.settings import ServerSettings as ServerSettings
    from cardsign.server.settings import read_server_settings as read_server_settings

#: The module of each name, which is loaded when the name is asked for (PEP 562).
_MODULES: Final = {
    "card_blueprint": "cardsign.server.mount",
    "create_app": "cardsign.server.app",
    "mount_cards": "cardsign.server.mount",
    "read_server_settings": "cardsign.server.settings",
    "ServerSettings": "cardsign.server.settings",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
