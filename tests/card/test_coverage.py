"""Coverage: what a payload does not hold, and the closed table of what that excuses.

A case of `coverage.json` is a card, edits of it, and what the payload under the profile does not
hold, in document order: by place the excuse, or OPEN, and `security` where it says who may call.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest

from cardsign.card.profiles import Excuse, Uncovered, canonicalize
from tests.support import CARDS, PORTABLE, edited, read_cases, without

CASES = read_cases(__file__)
BASES = {**CARDS, "empty": {}}


def describe(part: Uncovered) -> str:
    """The excuse of an uncovered part, as the cases write it."""
    excuse = part.excuse or "OPEN"
    return f"{excuse} security" if part.security else excuse


@pytest.mark.parametrize(
    ("profile", "base", "edits", "uncovered"),
    [
        pytest.param(profile, *case, id=f"{profile}: {title}")
        for profile, cases in CASES.items()
        for title, case in cases.items()
    ],
)
def test_what_a_payload_does_not_hold(
    profile: str, base: str, edits: list[Any], uncovered: dict[str, str]
) -> None:
    """Exactly these places, with these excuses; what is covered needs none."""
    parts = canonicalize(edited(BASES[base], edits), profile).uncovered
    assert [(part.pointer, describe(part)) for part in parts] == [*uncovered.items()]


def test_the_protobuf_spelling_is_read_as_the_field() -> None:
    """prune-empty reads snake_case as the field itself, so it is in the payload."""
    card = without(PORTABLE, "/defaultInputModes") | {"default_input_modes": ["text/plain"]}
    assert canonicalize(card, "prune-empty").data == canonicalize(PORTABLE, "prune-empty").data


def test_the_table_is_closed() -> None:
    """A further excuse changes what `trusted` means: DESIGN, docs and this test change with it."""
    assert get_args(Excuse) == ("SCHEMA_DEFAULT", "SAME_AS_1_0", "DROPPED_BY_VALUE")
