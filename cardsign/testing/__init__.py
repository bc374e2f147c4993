"""For tests of programs that use cardsign: an issuer with everything that it signs."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.testing.fake_issuer import FakeIssuer as FakeIssuer
    from cardsign.testing.plugin import assert_card_valid as assert_card_valid

#: The module of each name, which is loaded when the name is asked for (PEP 562).
_MODULES: Final = {
    "FakeIssuer": "cardsign.testing.fake_issuer",
    "assert_card_valid": "cardsign.testing.plugin",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
