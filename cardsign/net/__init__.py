"""Fetching from hosts that nobody vouches for; no other room opens a connection to one."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.net.endpoints import endpoints_of as endpoints_of
    from cardsign.net.extended import discover_extended as discover_extended
    from cardsign.net.fetch import FetchSettings as FetchSettings
    from cardsign.net.fetcher import DocumentFetcher as DocumentFetcher
    from cardsign.net.guarded import AsyncGuardedTransport as AsyncGuardedTransport
    from cardsign.net.guarded import GuardedTransport as GuardedTransport

__getattr__ = lazy_names(__name__)
