"""Lazy facades (PEP 562): a room lists its public names, and each module loads when first asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, names: Mapping[str, str]) -> tuple[list[str], Callable[[str], object]]:
    """``__all__`` and ``__getattr__`` of a package, from its modules to their public names.

    A module is named below the package; its names stand in one text, with spaces between. Each
    facade repeats the names under ``TYPE_CHECKING`` for type checkers. A test holds both
    lists equal.
    """
    homes = {name: module for module, listed in names.items() for name in listed.split()}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(homes), load
