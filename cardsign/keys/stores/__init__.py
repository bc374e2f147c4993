"""Key stores: a directory or PostgreSQL behind one interface."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.keys.stores.address import COMMITTED as COMMITTED
    from cardsign.keys.stores.address import PARAMETERS as PARAMETERS
    from cardsign.keys.stores.address import DatabaseUrl as DatabaseUrl
    from cardsign.keys.stores.address import is_database_url as is_database_url
    from cardsign.keys.stores.address import parse_database_url as parse_database_url
    from cardsign.keys.stores.base import KeyStore as KeyStore
    from cardsign.keys.stores.base import Kind as Kind
    from cardsign.keys.stores.base import Number as Number
    from cardsign.keys.stores.directory import DEFAULT_DIRECTORY as DEFAULT_DIRECTORY
    from cardsign.keys.stores.directory import VARIABLE as VARIABLE
    from cardsign.keys.stores.directory import DirectoryStore as DirectoryStore
    from cardsign.keys.stores.directory import holds_store as holds_store
    from cardsign.keys.stores.directory import locate_keystore as locate_keystore
    from cardsign.keys.stores.opening import StorePlace as StorePlace
    from cardsign.keys.stores.opening import create_store as create_store
    from cardsign.keys.stores.opening import is_taken as is_taken
    from cardsign.keys.stores.opening import open_store as open_store
    from cardsign.keys.stores.opening import seen_head as seen_head
    from cardsign.keys.stores.postgres import PostgresStore as PostgresStore

_NAMES = {
    "address": "COMMITTED DatabaseUrl PARAMETERS is_database_url parse_database_url",
    "base": "KeyStore Kind Number",
    "directory": "DEFAULT_DIRECTORY DirectoryStore VARIABLE holds_store locate_keystore",
    "opening": "StorePlace create_store is_taken open_store seen_head",
    "postgres": "PostgresStore",
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
