"""Random cards for hypothesis: of both generations and of their mixture, sound and spoilt.

Drawn from our schema tables, which test_schema_is_the_sdks.py holds against the SDK's own.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.values import Json

#: What may become of a member. A card draws one row for all of its members, so that one wrong
#: type, after which no payload is left, does not stand in every card.
_HABITS: Final = (
    ("sound",),
    ("sound", "empty", "null"),
    ("sound", "sound", "snake"),
    (*("sound",) * 12, "empty", "null", "wrong"),
)
_MEMBERS: Final = 9  # at most, of one object; a few at a time meet one another often enough
_MAX_INTEGER: Final = 2**53 - 1

_STRINGS: Final = st.one_of(
    st.sampled_from(["", "a", "é", "𝄞", "e\u0301", '\\"\u2028', "\x00\x1f\x7f"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
_NAMES: Final = st.sampled_from(
    ["", "a", "~1/", "url", "list", "x-vendor", "Name", "é", "𝄞", "\uffff"]
)
_SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -0.0, 0.5, 1.0, 1e21, 1e-7, 5e-324, _MAX_INTEGER]),
    st.integers(-_MAX_INTEGER, _MAX_INTEGER),
    st.floats(allow_nan=False, allow_infinity=False),
    _STRINGS,
)
_EMPTIES: Final[dict[str, Json]] = {"string": "", "bool": False}
_SCHEME_TYPES: Final = st.sampled_from(
    ["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS", "other", ""]
)


def _containers(children: SearchStrategy[Json]) -> SearchStrategy[Json]:
    return st.lists(children, max_size=2) | st.dictionaries(_NAMES, children, max_size=2)


_ANYTHING: Final[SearchStrategy[Json]] = st.recursive(_SCALARS, _containers, max_leaves=4)


@st.composite
def cards(draw: DrawFn) -> dict[str, Json]:
    """A card of A2A 1.0, of 0.3 or of both, without signatures, with members of no schema."""
    schemas = draw(st.sampled_from([(CARD_1_0,), (CARD_0_3,), (CARD_1_0, CARD_0_3)]))
    habits = draw(st.sampled_from(_HABITS))
    card: dict[str, Json] = {}
    for schema in schemas:
        card.update(draw(_objects(schema, habits)))
    return card


@cache
def _objects(message: Message, habits: tuple[str, ...]) -> SearchStrategy[dict[str, Json]]:
    """One object with some members of a message, in any order, and at most one of no schema."""
    fields = [field for field in message.fields.values() if field.name != "signatures"]
    chosen = st.lists(st.sampled_from(fields), unique=True, max_size=_MEMBERS)

    @st.composite
    def objects(draw: DrawFn) -> dict[str, Json]:
        made: dict[str, Json] = {}
        for field in draw(chosen):
            habit = draw(st.sampled_from(habits))
            name = field.snake_name if habit == "snake" else field.name
            made[name] = draw(_value(field, habit, habits))
        if draw(st.integers(0, 3)) == 0:
            made.setdefault(draw(_NAMES), draw(_ANYTHING))
        return made

    return objects()


@cache
def _value(field: Field, habit: str, habits: tuple[str, ...]) -> SearchStrategy[Json]:
    match habit, field.shape:
        case "null", _:
            return st.none()
        case "wrong", _:
            return _ANYTHING
        case "empty", "list":
            return st.just([])
        case "empty", _:
            return st.just(_EMPTIES.get(field.kind, {}))
        case _, "list":
            return st.lists(_one(field, habits), max_size=2)
        case _, "map":
            return st.dictionaries(_NAMES, _one(field, habits), max_size=2)
    return _one(field, habits)


def _one(field: Field, habits: tuple[str, ...]) -> SearchStrategy[Json]:
    if field.message is not None:
        return _objects(field.message, habits)
    if field.kind == "free":
        return st.dictionaries(_NAMES, _ANYTHING, max_size=2)
    if field.kind == "bool":
        return st.booleans()
    return _SCHEME_TYPES if field.name == "type" else _STRINGS
