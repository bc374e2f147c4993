"""The extended-card marker: what is one, what only looks like one, and what keeps it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.extensions import (
    EXTENDED_URI,
    MAX_SEQ,
    ExtendedMarker,
    _may_name_us,
    find_marker,
    with_marker,
)
from cardsign.card.profiles import DEFAULT_PROFILES, canonicalize
from cardsign.card.strictjson import parse_object
from cardsign.errors import CanonicalizationError, CardRefused
from cardsign.times import MAX_TIME
from tests.spoilt_cards import EXAMPLES, SHARES, spoilt_card
from tests.support import PORTABLE, each_card, each_case, edited, put, without
from tests.unportable import unportable

MARKER = ExtendedMarker("7f0c1b52e6", 41, 1_798_761_600)
OTHER: dict[str, Any] = {"uri": "https://harbour.example/berths", "params": {"piers": 4}}
FIRST = "/capabilities/extensions/0"
PARAMS = f"{FIRST}/params"
MARKED = with_marker(PORTABLE, MARKER)

each_profile = pytest.mark.parametrize("profile", DEFAULT_PROFILES)


# ------------------------------------------------------------------ reading


def test_the_marker_is_an_extension_with_exactly_these_members() -> None:
    """What other implementations read, as docs/reference/formats.md has it."""
    (extension,) = MARKED["capabilities"]["extensions"]

    assert extension["description"]
    assert without(extension, "/description") == {
        "uri": "urn:uuid:46cbbb6f-5ab3-4ee0-a84f-e6e984e30fda",
        "params": {"kind": "extended", "audience": "7f0c1b52e6", "seq": 41, "exp": 1_798_761_600},
    }


@each_card
def test_a_card_without_a_marker_has_none(card: dict[str, Any]) -> None:
    """Other extensions are no markers."""
    assert find_marker(card) is None
    assert find_marker(put(card, "/capabilities/extensions", [OTHER])) is None


@each_case(__file__, "sound", "where", "value", "members")
def test_a_sound_marker_is_read(where: str, value: Any, members: list[Any]) -> None:
    """The twins of the refusals below."""
    found = find_marker(put(MARKED, where, value))

    assert found == ExtendedMarker(*members)
    assert found is not None
    assert (type(found.seq), type(found.exp)) == (int, int)


def test_a_description_may_be_absent() -> None:
    """It is prose, and nothing hangs on it."""
    assert find_marker(without(MARKED, f"{FIRST}/description")) == MARKER


def test_the_unsigned_signatures_are_not_looked_at() -> None:
    """Nobody's payload holds them, so anybody could write there."""
    card = {**PORTABLE, "signatures": [{"header": {"uri": EXTENDED_URI}}]}

    assert find_marker(card) is None


@each_case(__file__, "malformed", "where", "value")
def test_what_only_looks_like_a_marker_is_refused(where: str, value: Any) -> None:
    """It never passes for the absence of one, nor for a sound one; and it is not written over."""
    base = put(MARKED, "/capabilities/extensions", [*MARKED["capabilities"]["extensions"], OTHER])
    card = put(base, where, value)

    for act in (find_marker, lambda card: with_marker(card, MARKER)):
        with pytest.raises(CardRefused) as refused:
            act(card)
        assert refused.value.code == "extended.marker"
        assert refused.value.path in where or where in refused.value.path
        assert refused.value.path


@pytest.mark.parametrize("name", ["kind", "audience", "seq", "exp"])
def test_every_parameter_is_needed(name: str) -> None:
    """There are no defaults."""
    with pytest.raises(CardRefused, match="exactly kind, audience, seq, exp"):
        find_marker(without(MARKED, f"{PARAMS}/{name}"))


@each_case(__file__, "out of place", "members")
def test_a_marker_out_of_its_place_is_refused(members: dict[str, Any]) -> None:
    """A lenient reader, or a signer who mistyped it, would see a marker there."""
    with pytest.raises(CardRefused) as refused:
        find_marker({**without(PORTABLE, "/capabilities"), **members})

    assert refused.value.code == "extended.marker"


# ------------------------------------------------------------------ writing


@each_card
def test_nothing_but_the_marker_is_written(card: dict[str, Any]) -> None:
    """What was there stays, in its order, and the argument is not changed."""
    card = put(card, "/capabilities/extensions", [OTHER])
    before = copy.deepcopy(card)
    marked = with_marker(card, MARKER)

    assert find_marker(marked) == MARKER
    assert card == before
    assert list(marked) == list(card)
    assert marked["capabilities"]["extensions"][0] == OTHER
    assert without(marked, "/capabilities/extensions/1") == card


def test_an_older_marker_is_replaced_where_it_stands() -> None:
    """Extensions keep their places."""
    card = put(MARKED, "/capabilities/extensions", [*MARKED["capabilities"]["extensions"], OTHER])
    later = ExtendedMarker("staff", 42, MARKER.exp + 1)
    marked = with_marker(card, later)

    assert find_marker(marked) == later
    assert marked["capabilities"]["extensions"][1:] == [OTHER]


@each_case(__file__, "absent", "edits")
def test_what_is_missing_is_made(edits: list[Any]) -> None:
    """A list of extensions, and the capabilities around it."""
    assert find_marker(with_marker(edited(PORTABLE, edits), MARKER)) == MARKER


@each_case(__file__, "unfit", "edits", "code", "path")
def test_a_card_that_cannot_hold_it_is_refused(edits: list[Any], code: str, path: str) -> None:
    """Under the codes that other readers give; so is what is no card."""
    with pytest.raises(CardRefused) as refused:
        with_marker(edited(PORTABLE, edits), MARKER)
    assert (refused.value.code, refused.value.path) == (code, path)
    with pytest.raises(CardRefused, match=r"^card\.not_agent_card: "):
        with_marker({"name": "x"}, MARKER)


@pytest.mark.parametrize(
    "marker",
    [
        pytest.param(ExtendedMarker("Staff", 1, 1), id="an audience in capitals"),
        pytest.param(ExtendedMarker("staff", 0, 1), id="a number of zero"),
        pytest.param(ExtendedMarker("staff", True, 1), id="true for a number"),
        pytest.param(ExtendedMarker("staff", 1, MAX_TIME + 1), id="a time beyond the year 9999"),
    ],
)
def test_a_marker_that_could_not_be_read_is_not_written(marker: ExtendedMarker) -> None:
    """Whoever makes one need not check it first."""
    with pytest.raises(CardRefused) as refused:
        with_marker(PORTABLE, marker)

    assert refused.value.code == "extended.marker"


# ------------------------------------------------------------------ what keeps it


@each_profile
@each_card
def test_every_default_profile_keeps_it(card: dict[str, Any], profile: str) -> None:
    """Types and values arrive in the payload, and coverage sees that they did."""
    marked = with_marker(card, MARKER)
    payload = canonicalize(marked, profile)

    assert find_marker(parse_object(payload.data)) == MARKER
    uncovered = [part.pointer for part in payload.uncovered]
    assert [where for where in uncovered if where.startswith("/capabilities/extensions")] == []


def test_a_portable_card_stays_portable() -> None:
    """One signature still serves every reader."""
    assert unportable(PORTABLE) == ()
    assert unportable(MARKED) == ()
    assert len({canonicalize(MARKED, profile).data for profile in DEFAULT_PROFILES}) == 1


markers = st.builds(
    ExtendedMarker,
    audience=st.text(st.sampled_from("abcz0-9"), min_size=1, max_size=64),
    seq=st.integers(1, MAX_SEQ),
    exp=st.integers(1, MAX_TIME),
)


def written(seed: int, marker: ExtendedMarker) -> dict[str, Any] | str:
    """A spoilt card with the marker, or the code for which it cannot have one."""
    try:
        return with_marker(spoilt_card(seed), marker)
    except CardRefused as refusal:
        return refusal.code


@given(seed=st.integers(0), marker=markers)
def test_what_is_written_is_what_is_read(seed: int, marker: ExtendedMarker) -> None:
    """On sound and spoilt cards alike, and again from bytes."""
    marked = written(seed, marker)
    if isinstance(marked, str):
        assert marked in ("card.type", "card.not_agent_card", "card.two_spellings")
        return
    assert find_marker(marked) == marker
    assert find_marker(parse_object(json.dumps(marked).encode())) == marker
    assert with_marker(marked, marker) == marked


@pytest.mark.parametrize("share", range(SHARES))
def test_no_default_profile_loses_it(share: int) -> None:
    """Wherever a profile has a payload for a card, the marker is in it."""
    held = 0
    for seed in range(share, EXAMPLES, SHARES):
        marked = written(seed, MARKER)
        if isinstance(marked, str):
            continue
        for profile in DEFAULT_PROFILES:
            try:
                value = canonicalize(marked, profile).value
            except CanonicalizationError:
                continue
            assert find_marker(value) == MARKER, (seed, profile)
            held += 1
    assert held > 0


# ------------------------------------------------------------------ the look at the bytes alone


_BROKEN_UP = st.lists(
    st.sampled_from(["", "", "", " ", "\n", '"', "\\", "\x01", "\u200b", "\U0001f600", "{"]),
    min_size=len(EXTENDED_URI),
    max_size=len(EXTENDED_URI),
)


@given(_BROKEN_UP, st.booleans(), st.sampled_from(["/description", "/skills/0/tags/0", "/x"]))
def test_no_attempt_at_a_marker_is_missed_in_the_bytes(
    between: list[str], upper: bool, where: str
) -> None:
    """Whatever stands between its characters, and however the bytes spell that."""
    urn = EXTENDED_URI.upper() if upper else EXTENDED_URI
    text = "".join(map("".join, zip(urn, between, strict=True)))
    for card in (put(PORTABLE, where, text), {**PORTABLE, text: 1}):
        with pytest.raises(CardRefused):
            find_marker(card)
        with pytest.raises(CardRefused):
            find_marker(card, canonicalize(card, "served-as-is").data)


def test_escapes_of_a_description_do_not_look_like_a_marker() -> None:
    """Lines and quotes are in every second card."""
    card = put(PORTABLE, "/description", 'Says "when"\nand\twhere \\ \x01')
    canonical = canonicalize(card, "served-as-is").data
    assert not _may_name_us(canonical)
    assert find_marker(card, canonical) is None


@pytest.mark.parametrize("share", range(SHARES))
def test_the_canonical_bytes_change_no_answer(share: int) -> None:
    """On random cards; most are passed by their bytes alone, so that the look is worth it."""
    passed = 0
    for seed in range(share, EXAMPLES, SHARES):
        card = spoilt_card(seed)
        try:
            canonical = canonicalize(card, "served-as-is").data
        except CanonicalizationError:
            continue
        answers: list[Any] = []
        for data in (None, canonical):
            try:
                answers.append(find_marker(card, data))
            except CardRefused as refusal:
                answers.append((refusal.code, refusal.path))
        assert answers[0] == answers[1], seed
        passed += not _may_name_us(canonical)
    assert passed
