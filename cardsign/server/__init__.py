"""Serving a publication: the only part of cardsign that imports Flask, werkzeug and granian."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.server.access import MAX_TOKEN_FILE_BYTES as MAX_TOKEN_FILE_BYTES
    from cardsign.server.access import TokenTable as TokenTable
    from cardsign.server.access import create_token as create_token
    from cardsign.server.app import ServerConfig as ServerConfig
    from cardsign.server.app import create_app as create_app
    from cardsign.server.asgi import AsgiApplication as AsgiApplication
    from cardsign.server.jsonrpc import MAX_REQUEST_BYTES as MAX_REQUEST_BYTES
    from cardsign.server.run import serve as serve
    from cardsign.server.snapshot import LEAST_MAX_AGE as LEAST_MAX_AGE
    from cardsign.server.snapshot import Document as Document
    from cardsign.server.snapshot import Lifetime as Lifetime
    from cardsign.server.snapshot import Snapshot as Snapshot

_NAMES = {
    "access": "MAX_TOKEN_FILE_BYTES TokenTable create_token",
    "app": "ServerConfig create_app",
    "asgi": "AsgiApplication",
    "jsonrpc": "MAX_REQUEST_BYTES",
    "run": "serve",
    "snapshot": "Document LEAST_MAX_AGE Lifetime Snapshot",
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
