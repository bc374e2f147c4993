"""Our dataclasses behave as the standard library's, which compiles what ours leave for later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from cardsign.records import dataclass

Maker = Callable[..., Any]


def _pair(make: Maker) -> tuple[type[Any], type[Any]]:
    @make(frozen=True, slots=True)
    class Place:
        """A place."""

        LIMIT: ClassVar[int] = 3
        line: int
        column: int = 1
        notes: list[str] = dataclasses.field(default_factory=list, hash=False)
        secret: str = dataclasses.field(default="", repr=False, compare=False)
        seen: list[int] = dataclasses.field(init=False, default_factory=list, compare=False)

    @make(frozen=True, slots=True)
    class Named(Place):
        """A place with a name."""

        name: str = "?"

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("a name has to have characters")

    return Place, Named


OURS, THEIRS = _pair(dataclass), _pair(dataclasses.dataclass)


@dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, so that it can be pickled."""

    line: int
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Changing:
    """One that may be changed."""

    line: int = 1


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda place, _: repr(place(1, 2, ["x"], "y")), id="repr"),
        pytest.param(lambda _, named: repr(named(1, name="x")), id="repr of a subclass"),
        pytest.param(lambda place, _: place(1) == place(1, secret="other"), id="equal"),
        pytest.param(lambda place, _: place(1) == place(2), id="not equal"),
        pytest.param(lambda place, named: place(1) == named(1), id="another class is not equal"),
        pytest.param(lambda place, _: place(1) == (1, 1, []), id="a tuple is not equal"),
        pytest.param(
            lambda place, _: hash(place(1, notes=["a"])) == hash(place(1)), id="same hash"
        ),
        pytest.param(lambda place, _: place(1).notes is place(1).notes, id="a new list for each"),
        pytest.param(lambda place, _: dataclasses.replace(place(1), line=2).line, id="replace"),
        pytest.param(lambda _, named: dataclasses.asdict(named(1, name="x")), id="asdict"),
        pytest.param(
            lambda _, named: [(f.name, f.init) for f in dataclasses.fields(named)], id="fields"
        ),
        pytest.param(lambda place, _: place.__match_args__, id="match"),
        pytest.param(lambda place, _: (place.__slots__, place.LIMIT), id="slots"),
        pytest.param(lambda place, _: hasattr(place(1), "__dict__"), id="no __dict__"),
        pytest.param(lambda place, _: copy.deepcopy(place(1, 2, ["x"])).notes, id="deepcopy"),
        pytest.param(lambda place, _: place.__doc__, id="doc"),
    ],
)
def test_as_the_standard_library_does(what: Callable[[Any, Any], object]) -> None:
    assert what(*OURS) == what(*THEIRS)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda place, _: place(), id="an argument is missing"),
        pytest.param(lambda place, _: place(1, colour=2), id="an argument too many"),
        pytest.param(lambda place, _: place(1, seen=[]), id="a field that is not given"),
        pytest.param(lambda place, _: setattr(place(1), "line", 2), id="a change"),
        pytest.param(lambda place, _: delattr(place(1), "line"), id="a deletion"),
        pytest.param(lambda _, named: named(1, name=""), id="refused by __post_init__"),
    ],
)
def test_refused_as_by_the_standard_library(wrong: Callable[[Any, Any], object]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as theirs:
        wrong(*THEIRS)
    with pytest.raises(theirs.type):
        wrong(*OURS)


def test_a_frozen_one_gets_no_other_attribute() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="other"):
        OURS[0](1).other = 2


def test_a_pickle_gives_an_equal_one() -> None:
    kept = Kept(1, ("a",))
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_one_that_is_not_frozen_changes_and_has_no_hash() -> None:
    changing = Changing()
    changing.line = 2
    assert changing == Changing(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changing)
