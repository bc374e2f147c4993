"""Other people's SDKs, each behind an extra; nothing here is imported by the rest."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.integrations.calling import trusted_client as trusted_client

#: The module of each name, which is loaded when the name is asked for (PEP 562).
_MODULES: Final = {
    "trusted_client": "cardsign.integrations.calling",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
