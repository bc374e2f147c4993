"""Dataclasses whose ``__init__`` is compiled when the first instance is made.

The standard library's decorator compiles six methods for each class while its module is imported.
The modules of a verdict hold seventy such classes and make twenty of them, so that was a third of
the start of ``cardsign verify``. Here only ``__init__`` is compiled, and only where it is called;
the other methods need no code of their own. `fields`, `replace` and `asdict` of the standard
library work as ever, and type checkers see its decorator.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen=False, slots=False, eq=True):
        """Make a dataclass of a class; `frozen`, `slots` and `eq` as in the standard library.

        ``ClassVar`` is understood; ``InitVar``, ``KW_ONLY`` and keyword-only fields are not.
        """
        return lambda cls: _made(cls, frozen=frozen, slots=slots, eq=eq)


# How `dataclasses.fields` knows a field from a ClassVar.
_FIELD: Any = vars(dataclasses)["_FIELD"]
_ABSENT: Any = object()


def _made(cls: Any, *, frozen: bool, slots: bool, eq: bool) -> Any:
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= getattr(base, "__dataclass_fields__", {})
    own = _own_fields(cls)
    listed = inherited | own
    members = {
        "__dataclass_fields__": listed,
        "__match_args__": tuple(name for name, one in listed.items() if one.init),
        "__repr__": _repr_of([name for name, one in listed.items() if one.repr]),
    }
    if eq:
        compared = _values_of([name for name, one in listed.items() if one.compare])
        members |= {"__eq__": _eq_of(compared), "__hash__": None}
        if frozen:
            hashed = [
                name
                for name, one in listed.items()
                if (one.compare if one.hash is None else one.hash)
            ]
            members["__hash__"] = _hash_of(_values_of(hashed))
    if frozen:
        members |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
        if slots:
            members |= {"__getstate__": _state, "__setstate__": _restore}
    written = vars(cls)
    kept = {name: value for name, value in members.items() if not _is_written(written, name)}
    if slots:
        names = tuple(name for name in own if name not in inherited)
        body = {
            name: value
            for name, value in written.items()
            if name not in own and name not in ("__dict__", "__weakref__")
        }
        qualified = cls.__qualname__
        cls = type(cls)(cls.__name__, cls.__bases__, {**body, **kept, "__slots__": names})
        cls.__qualname__ = qualified
    else:
        for name, value in kept.items():
            setattr(cls, name, value)
    if "__init__" not in written:
        _compile_later(cls, listed, frozen)
    return cls


def _own_fields(cls: Any) -> dict[str, Any]:
    """The fields that the class itself declares, from its annotations and their defaults."""
    own: dict[str, Any] = {}
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" in str(kind):
            continue
        default = vars(cls).get(name, MISSING)
        one: Any = default if isinstance(default, Field) else field(default=default)
        if one is default:
            if one.default is not MISSING:
                setattr(cls, name, one.default)
            elif name in vars(cls):
                delattr(cls, name)
        one.name, one.type, one.kw_only = name, kind, False
        one._field_type = _FIELD
        own[name] = one
    return own


def _is_written(written: Any, name: str) -> bool:
    """Whether the class has this method itself; Python adds ``__hash__ = None`` to ``__eq__``."""
    if name == "__hash__":
        return written.get(name) is not None
    return name in written


def _values_of(names: list[str]) -> Any:
    return attrgetter(*names) if names else lambda _: ()


def _repr_of(names: list[str]) -> Any:
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _eq_of(values: Any) -> Any:
    def __eq__(self: Any, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(values(self) == values(other))

    return __eq__


def _hash_of(values: Any) -> Any:
    return lambda self: hash(values(self))


def _refuse_change(_: object, name: str, *_value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


def _compile_later(cls: Any, listed: dict[str, Any], frozen: bool) -> None:
    def __init__(self: Any, *values: Any, **named: Any) -> None:
        cls.__init__ = _init_of(cls, listed, frozen)
        cls.__init__(self, *values, **named)

    cls.__init__ = __init__


def _init_of(cls: Any, listed: dict[str, Any], frozen: bool) -> Any:
    """Compile ``__init__``: one assignment for each field, as the standard library writes it."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": _ABSENT}
    parameters, body = ["self"], []
    for name, one in listed.items():
        value = name
        if one.default_factory is not MISSING:
            known[f"_make_{name}"] = one.default_factory
            value = f"_make_{name}()"
            if one.init:
                parameters.append(f"{name}=_ABSENT")
                value += f" if {name} is _ABSENT else {name}"
        elif one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            if one.init:
                parameters.append(f"{name}=_default_{name}")
            else:
                value = f"_default_{name}"
        elif one.init:
            parameters.append(name)
        else:
            continue
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {lines}", known)  # noqa: S102
    known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return known["__init__"]
