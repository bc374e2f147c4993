"""The verifier's side: policy, remembered issuer state, and who may speak for an issuer now."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.trust.disk import read_policy as read_policy
    from cardsign.trust.policy import CardUrl as CardUrl
    from cardsign.trust.policy import Extended as Extended
    from cardsign.trust.policy import Holder as Holder
    from cardsign.trust.policy import Policy as Policy
    from cardsign.trust.state import DirectoryStates as DirectoryStates

#: The module of each name, which is loaded when the name is asked for (PEP 562).
_MODULES: Final = {
    "read_policy": "cardsign.trust.disk",
    "CardUrl": "cardsign.trust.policy",
    "Extended": "cardsign.trust.policy",
    "Holder": "cardsign.trust.policy",
    "Policy": "cardsign.trust.policy",
    "DirectoryStates": "cardsign.trust.state",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
