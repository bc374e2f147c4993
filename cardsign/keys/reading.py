"""The members of a kept state, checked one by one; every error names the file and the place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn, TypeVar

from cardsign.card.strictjson import Json
from cardsign.errors import StoreFault
from cardsign.keys.records import TIME_FORMAT

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_Item = TypeVar("_Item")
_Choice = TypeVar("_Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the state, and where it stands.

    Attributes:
        value: Whatever was read there.
        file: The state's file.
        pointer: The place in it, a JSON pointer.
    """

    value: Json
    file: str
    pointer: str = ""

    def members(self, required: Set[str], *, optional: Set[str] = frozenset()) -> dict[str, Place]:
        """The members of an object that has all of `required` and none but `optional` besides."""
        if not isinstance(self.value, Mapping):
            self.refuse("is not an object")
        if missing := sorted(required - self.value.keys()):
            self.at(missing[0]).refuse("is missing")
        if unknown := sorted(self.value.keys() - required - optional):
            self.at(unknown[0]).refuse("is no member of this format")
        return {name: self.at(name) for name in self.value}

    def at(self, name: str | int) -> Place:
        """The member or element of this name, None where there is none."""
        value: Json = None
        if isinstance(self.value, Mapping):
            value = self.value.get(str(name))
        elif isinstance(self.value, list) and isinstance(name, int):
            value = self.value[name]
        return Place(value, self.file, f"{self.pointer}/{name}")

    def items(self, read: Callable[[Place], _Item]) -> tuple[_Item, ...]:
        """The elements of a list, each as `read` has it."""
        if not isinstance(self.value, list):
            self.refuse("is not a list")
        return tuple(read(self.at(index)) for index in range(len(self.value)))

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.refuse("is not a string")
        return self.value

    def text_or_none(self) -> str | None:
        """A string or null."""
        return None if self.value is None else self.text()

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        return self.items(Place.text)

    def count(self) -> int:
        """An integer from 0."""
        if type(self.value) is not int or self.value < 0:  # a bool is an int as well
            self.refuse("is not a count")
        return self.value

    def digest(self) -> str:
        """A SHA-256 in lower-case hex."""
        if not _DIGEST.fullmatch(text := self.text()):
            self.refuse("is not a SHA-256 in lower-case hex")
        return text

    def digest_or_none(self) -> str | None:
        """A SHA-256 or null."""
        return None if self.value is None else self.digest()

    def one_of(self, choices: tuple[_Choice, ...]) -> _Choice:
        """One of the words."""
        for choice in choices:
            if self.value == choice:
                return choice
        self.refuse(f"is none of {', '.join(choices)}")

    def time(self) -> datetime:
        """A time of UTC, to the second."""
        try:
            time = datetime.strptime(self.text(), TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            time = None
        if time is None or time.strftime(TIME_FORMAT) != self.value:
            self.refuse("is not a time like 2026-11-21T22:00:00Z")
        return time

    def refuse(self, what: str) -> NoReturn:
        """Say what is wrong here.

        Raises:
            StoreFault: ``keystore.corrupt``.
        """
        raise StoreFault("keystore.corrupt", f"`{self.pointer}` {what}", path=self.file)
