"""What changed between two cards, what it means for a caller, and the version that it needs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.diff import CardDiff, diff_cards
from cardsign.errors import InputRefused
from tests.diff.cases import Case, effect_of, read_changes
from tests.support import edited, read_cases

Edits = dict[str, Any]
#: A card, and by old version, new one and effect of a change the verdict and the least version.
CARD, VERSIONS = read_cases(__file__).values()
SKILL, BY_LOGIN = CARD["skills"][0], CARD["securityRequirements"][1]


def card(edits: Edits) -> dict[str, Any]:
    """The card with other values at these places, or without what has None."""
    return edited(CARD, [(f"/{at}", *([] if v is None else [v])) for at, v in edits.items()])


def compare(old: Any, new: Any) -> CardDiff:
    """Two cards as bytes."""
    return diff_cards(json.dumps(old).encode(), json.dumps(new).encode())


def changes(old: Any, new: Any) -> list[str]:
    """The effect and place of each change."""
    return [f"{effect_of(change)} {change.path}" for change in compare(old, new).changes]


@pytest.mark.parametrize("case", read_changes("card-changes.txt", CARD))
def test_a_change_of_a_card(case: Case) -> None:
    """What it means for a caller, and where; and back again something changes there, too."""
    assert changes(case.old, case.new) == case.expected
    places = {change.split()[1] for change in case.expected}
    assert {change.split()[1] for change in changes(case.new, case.old)} == places
    assert changes(case.new, case.new) == []


TEXT = {"type": "string"}


def test_a_change_says_what_changed() -> None:
    """In the words of the card."""
    edits = {"supportedInterfaces/1": None, "skills/1": None, "defaultInputModes": ["a/b"]}
    new = card({**edits, "securityRequirements": [BY_LOGIN]})
    assert [change.message for change in compare(CARD, new).changes] == [
        "the interface HTTP+JSON 1.0 at https://h.example/rest was removed",
        "input mode 'text/plain' was removed",
        "a caller with 'token' is no longer let in",
        "skill 'berths' was removed",
        "input mode 'a/b' is new",
    ]


def built(**skill: Any) -> dict[str, Any]:
    """The card as `build` makes it: what A2A has no member for stands in our extension."""
    identity = "spiffe://h.example/agent/Harbour/dev/north/1.2.3"
    source = card({"spiffe_id": identity, "skills/0": {**SKILL, **skill}})
    return convert_card(source, "1.0")


OURS = "/capabilities/extensions/1/params/skills/tides"
NUMBER = {"type": "number"}
BUILT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "another schema": ({"inputSchema": NUMBER}, ["breaking inputSchema", "additive inputSchema"]),
    "a schema that went": ({}, ["unclear inputSchema"]),
    "a second schema": ({"inputSchema": TEXT, "outputSchema": TEXT}, ["unclear outputSchema"]),
    "the mark of an end": ({"inputSchema": TEXT, "deprecated": True}, ["wording deprecated"]),
    "nothing": ({"inputSchema": TEXT}, []),
}


@pytest.mark.parametrize(("skill", "expected"), BUILT.values(), ids=BUILT)
def test_a_built_card_is_compared_like_its_source(
    skill: dict[str, Any], expected: list[str]
) -> None:
    """What is kept in our extension is no riddle: a schema there binds a caller just as well."""
    there = changes(built(inputSchema=TEXT), built(**skill))
    assert there == [change.replace(" ", f" {OURS}/") for change in expected]


def test_one_schema_under_two_names_or_in_two_places() -> None:
    """A contract's `input_schema` is the built card's; two schemas of one skill are unclear."""
    one = built(inputSchema=TEXT)
    assert not any("chema" in path for path in changes(card({"skills/0/input_schema": TEXT}), one))
    two = copy.deepcopy(one)
    two["skills"][0]["inputSchema"] = TEXT
    (change,) = compare(one, two).changes
    assert (effect_of(change), change.message) == ("unclear", "`inputSchema` is new")
    assert changes(two, two) == []


def test_the_version_in_an_identity_is_no_change_of_its_own() -> None:
    """A SPIFFE ID ends with the card's version, so it changes with each release (row B24)."""
    identity = "spiffe://h.example/agent/Harbour/{}/north/{}"
    old = card({"spiffe_id": identity.format("dev", "1.2.3")})
    new = card({"spiffe_id": identity.format("dev", "1.2.4"), "version": "1.2.4"})
    assert changes(old, new) == []
    assert changes(*(convert_card(one, "1.0") for one in (old, new))) == []
    live = card({"spiffe_id": identity.format("live", "1.2.4")})
    assert changes(old, live) == ["unclear /spiffe_id"]


def test_a_skill_may_go_after_it_was_deprecated() -> None:
    """It is a break all the same, and said in other words; a built card has the mark elsewhere."""
    for old in (card({"skills/0/deprecated": True}), built(deprecated=True)):
        (change,) = compare(old, {**old, "skills": old["skills"][1:]}).changes
        assert (effect_of(change), change.message) == (
            "breaking",
            "the deprecated skill 'tides' was removed",
        )


CHANGED: dict[str, Edits] = {
    "breaking": {"skills/1": None},
    "additive": {"capabilities/pushNotifications": True},
    "wording": {"description": "Of old"},
    "unclear": {"x_depth": 3},
    "none": {},
}


@pytest.mark.parametrize(("old", "new", "effect", "verdict", "least"), VERSIONS)
def test_whether_the_version_says_so(
    old: str, new: str, effect: str, verdict: str, least: str
) -> None:
    """SemVer 2.0.0; below 1.0.0 the minor version stands for the major one."""
    diff = compare(card({"version": old}), card({"version": new, **CHANGED[effect]}))
    assert (diff.version_verdict, str(diff.least_version)) == (verdict, least)


def test_a_skill_of_a_contract_card_is_told_by_its_skill_id() -> None:
    """A new id is another skill, and the order says nothing."""
    skills = [{"skill_id": f"iam.check_{noun}", "input_schema": {}} for noun in ("a", "b")]
    old = {"name": "n", "version": "0.9.0", "skills": skills}
    renamed = json.loads(json.dumps(old).replace("iam.check_b", "iam.check_c"))
    assert compare(old, renamed).needed == "major"
    assert changes(old, {**old, "skills": skills[::-1]}) == []


def test_a_contract_card_needs_a_major_version_at_0_x_too() -> None:
    """The standard says so of a removed skill; a name that tasks are sent to is no mere word."""
    contract = card({"version": "0.9.0", "skills/0/skill_id": "iam.check_tides"})
    less = {**contract, "version": "0.10.0", "skills": contract["skills"][:1]}
    diff = compare(contract, less)
    assert (diff.version_verdict, diff.least_version) == ("too-low", "1.0.0")
    assert compare(contract, {**less, "version": "1.0.0"}).version_verdict == "enough"
    assert changes(contract, {**contract, "name": "Port"}) == ["breaking /name"]


ODD = [[], {"a": 1}, "x", 3, None, True, [[]], [{"id": 3}], [None, {}]]
MEMBERS = (
    *("skills", "capabilities", "securitySchemes", "securityRequirements", "security", "version"),
    *("supportedInterfaces", "url", "additionalInterfaces", "defaultInputModes"),
)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("member", MEMBERS)
def test_members_of_other_types_are_no_crash(member: str, odd: Any) -> None:
    """Whatever a card holds, something is said or it is refused by name."""
    for old, new in ((CARD, {**CARD, member: odd}), ({**CARD, member: odd}, CARD)):
        compare(old, new).to_json()


def test_what_is_no_card_is_refused() -> None:
    """Two members of one name, or a key set; which of the two files it is, is said."""
    for refused, code in ((b'{"version":"1","version":"2"}', "json."), (b'{"keys":[]}', "card.")):
        for pair in ((refused, b"{}"), (b"{}", refused)):
            names = ("a.json", "b.json") if pair[0] == refused else ("b.json", "a.json")
            with pytest.raises(InputRefused, match=rf"^{code}.*\(a\.json") as caught:
                diff_cards(*pair, names=names)
            assert caught.value.exit_status == 1
            with pytest.raises(InputRefused, match=rf"^{code}"):
                diff_cards(*pair)


def test_many_requirements_are_compared_as_far_as_they_stay() -> None:
    """What stays is looked up; too many that changed cannot be told, and are not tried in pairs."""
    many, other = ([{"schemes": {f"{name}{i}": {}}} for i in range(2000)] for name in "st")
    old = card({"securityRequirements": many})
    assert changes(old, card({"securityRequirements": many, "version": "1.2.4"})) == []
    less = changes(old, card({"securityRequirements": many[1:]}))
    assert "breaking /securityRequirements" in less
    others = changes(old, card({"securityRequirements": other}))
    assert "unclear /securityRequirements" in others
