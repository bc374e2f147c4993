"""The verifier's side: policy, lock and cache, and who may speak for an issuer now."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.trust.lock import Memory as Memory
    from cardsign.trust.policy import Policy as Policy
    from cardsign.trust.policy import Subject as Subject

#: The module of each name, which is loaded when the name is asked for (PEP 562).
_MODULES: Final = {
    "Memory": "cardsign.trust.lock",
    "Policy": "cardsign.trust.policy",
    "Subject": "cardsign.trust.policy",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
