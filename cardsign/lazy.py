"""The names of a room, loaded when they are asked for (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import CodeType


def lazy_names(package: str) -> Callable[[str], object]:
    """``__getattr__`` of the calling package, for what it imports under ``TYPE_CHECKING``.

    Type checkers and editors read those imports as they stand. The running program finds them in
    the compiled package, as :mod:`modulefinder` does, and makes each when it is first asked for.
    """
    code = sys._getframe(1).f_code
    homes: dict[str, str] = {}

    def load(name: str) -> object:
        if not homes:
            homes.update(_homes(package, code))
        if name == "__all__":
            return sorted(homes)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def _homes(package: str, code: CodeType) -> dict[str, str]:
    """The modules from which a package imports names of its own."""
    import dis  # where no name is asked for, nobody pays for it

    homes, module = {}, ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module = step.argval
        elif step.opname == "IMPORT_FROM" and module.startswith(f"{package}."):
            homes[step.argval] = module
    homes.pop(lazy_names.__name__, None)
    return homes
