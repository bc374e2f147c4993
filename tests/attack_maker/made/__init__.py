"""The attacks that can be made anew: one module each, with a function `attack()`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from tests.attack_maker.attack import Attack


def attacks() -> Iterator[Attack]:
    """Make all of them."""
    for module in iter_modules(__path__):
        yield import_module(f"{__name__}.{module.name}").attack()
