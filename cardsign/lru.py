"""A bounded memory for any number of threads, from which goes first what was used longest ago."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Lru(Generic[_Key, _Value]):
    """Values by their keys; reading and writing both count as use.

    Args:
        most: How many values are kept at most.
        room: What their costs may come to; None: costs do not count. A value that costs more than
            all of it is not kept, and replaces nothing but the one of its key.
        cost: What a value costs.
    """

    def __init__(
        self,
        most: int,
        *,
        room: int | None = None,
        cost: Callable[[_Value], int] = lambda _: 0,
    ) -> None:
        self.most, self.room, self._cost = most, math.inf if room is None else room, cost
        self._kept: OrderedDict[_Key, _Value] = OrderedDict()
        self._spent = 0
        self._lock = Lock()

    def __bool__(self) -> bool:
        return True  # an empty one is one

    def __len__(self) -> int:
        return len(self._kept)

    def listed(self) -> list[_Key]:
        """The keys of what is kept, the one used longest ago first."""
        with self._lock:
            return list(self._kept)

    def get(self, key: _Key) -> _Value | None:
        """What is kept for exactly this key."""
        with self._lock:
            if (value := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return value

    def put(self, key: _Key, value: _Value) -> None:
        """Keep a value in place of the one before."""
        with self._lock:
            self._drop(key)
            if self._cost(value) > self.room:
                return
            self._kept[key] = value
            self._spent += self._cost(value)
            while len(self._kept) > self.most or self._spent > self.room:
                self._drop(next(iter(self._kept)))

    def drop(self, key: _Key) -> None:
        """Forget what is kept."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        if (value := self._kept.pop(key, None)) is not None:
            self._spent -= self._cost(value)
