"""Key stores: a directory or PostgreSQL behind one interface."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.keys.stores.address import PARAMETERS as PARAMETERS
    from cardsign.keys.stores.address import is_database_url as is_database_url
    from cardsign.keys.stores.address import parse_database_url as parse_database_url
    from cardsign.keys.stores.base import KeyStore as KeyStore
    from cardsign.keys.stores.base import Number as Number
    from cardsign.keys.stores.base import StatementKind as StatementKind
    from cardsign.keys.stores.directory import DirectoryStore as DirectoryStore
    from cardsign.keys.stores.directory import locate_keystore as locate_keystore
    from cardsign.keys.stores.opening import StorePlace as StorePlace
    from cardsign.keys.stores.opening import create_store as create_store
    from cardsign.keys.stores.opening import open_store as open_store
    from cardsign.keys.stores.opening import seen_head as seen_head
    from cardsign.keys.stores.postgres import PostgresStore as PostgresStore

__getattr__ = lazy_names(__name__)
