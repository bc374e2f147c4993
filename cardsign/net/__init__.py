"""Fetching from hosts that nobody vouches for; no other room opens a connection to one."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.net.endpoints import endpoints_of as endpoints_of
    from cardsign.net.fetch import FetchSettings as FetchSettings
    from cardsign.net.fetcher import DocumentFetcher as DocumentFetcher
    from cardsign.net.guarded import AsyncGuardedTransport as AsyncGuardedTransport
    from cardsign.net.guarded import GuardedTransport as GuardedTransport

#: The module of each name, which is loaded when the name is asked for (PEP 562).
_MODULES: Final = {
    "endpoints_of": "cardsign.net.endpoints",
    "FetchSettings": "cardsign.net.fetch",
    "DocumentFetcher": "cardsign.net.fetcher",
    "AsyncGuardedTransport": "cardsign.net.guarded",
    "GuardedTransport": "cardsign.net.guarded",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
