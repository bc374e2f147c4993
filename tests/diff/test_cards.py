"""What changed between two cards, what it means for a caller, and the version that it needs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.diff.cards import CardDiff, diff_cards, effect_of
from cardsign.errors import InputRefused

SKILL = {"id": "tides", "name": "Tides", "description": "When it is high", "tags": ["sea"]}
CARD: dict[str, Any] = {
    "name": "Harbour",
    "description": "The harbour master",
    "version": "1.2.3",
    "supportedInterfaces": [
        {"url": "https://h.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "https://h.example/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ],
    "capabilities": {"streaming": True, "extensions": [{"uri": "https://x.example/e"}]},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "securitySchemes": {
        "token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "login": {
            "oauth2SecurityScheme": {
                "flows": {
                    "clientCredentials": {
                        "tokenUrl": "https://h.example/token",
                        "scopes": {"read": "Read", "write": "Write"},
                    }
                }
            }
        },
    },
    "securityRequirements": [
        {"schemes": {"token": {}}},
        {"schemes": {"login": {"list": ["read"]}}},
    ],
    "skills": [SKILL, {**SKILL, "id": "berths", "name": "Berths", "description": "Which are free"}],
}


def card(**paths: Any) -> dict[str, Any]:
    """The card with other values at some places, written as `a__0__b`; None deletes."""
    made = copy.deepcopy(CARD)
    for path, value in paths.items():
        *above, last = [int(one) if one.isdecimal() else one for one in path.split("__")]
        place: Any = made
        for one in above:
            place = place[one]
        if value is None:
            del place[last]
        elif isinstance(last, int) and last >= len(place):
            place.append(value)
        else:
            place[last] = value
    return made


def compare(old: Any, new: Any) -> CardDiff:
    """Two cards as bytes."""
    return diff_cards(json.dumps(old).encode(), json.dumps(new).encode())


WITH_SCHEMA = card(skills__0={**SKILL, "inputSchema": {"type": "string"}})

EXTENSION = "/capabilities/extensions/0"
FLOW = "securitySchemes__login__oauth2SecurityScheme__flows__clientCredentials"

#: The new card, and each change: effect, path and words.
TABLE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": (card(), []),
    "only signatures": (card(signatures=[{"protected": "e30", "signature": "AA"}]), []),
    "a description": (card(description="Of old"), ["wording /description"]),
    "a member that nobody knows": (card(x_depth=3), ["unclear /x_depth"]),
    "a removed interface": (
        card(supportedInterfaces__1=None),
        ["breaking /supportedInterfaces/1/url"],
    ),
    "a new url": (
        card(supportedInterfaces__0__url="https://h.example/b"),
        ["breaking /supportedInterfaces/0/url", "additive /supportedInterfaces/0/url"],
    ),
    "another preferred interface": (
        card(supportedInterfaces=CARD["supportedInterfaces"][::-1]),
        ["additive /supportedInterfaces/0/url"],
    ),
    "no more streaming": (
        card(capabilities__streaming=False),
        ["breaking /capabilities/streaming"],
    ),
    "push notifications": (
        card(capabilities__pushNotifications=True),
        ["additive /capabilities/pushNotifications"],
    ),
    "push notifications that are not offered": (card(capabilities__pushNotifications=False), []),
    "an extension that is required now": (
        card(capabilities__extensions__0__required=True),
        [f"breaking {EXTENSION}/required"],
    ),
    "an extension that says it is not required": (
        card(capabilities__extensions__0__required=False),
        [],
    ),
    "a new extension": (
        card(capabilities__extensions__1={"uri": "https://x.example/f"}),
        ["additive /capabilities/extensions/1"],
    ),
    "a new extension that is required": (
        card(capabilities__extensions__1={"uri": "https://x.example/f", "required": True}),
        ["breaking /capabilities/extensions/1"],
    ),
    "a removed extension": (card(capabilities__extensions=[]), [f"breaking {EXTENSION}"]),
    "a new skill": (card(skills__2={**SKILL, "id": "pilots"}), ["additive /skills/2"]),
    "a removed skill": (card(skills__1=None), ["breaking /skills/1"]),
    "a skill with another id": (
        card(skills__0__id="tide_times"),
        ["breaking /skills/0", "additive /skills/0"],
    ),
    "skills in another order": (card(skills=CARD["skills"][::-1]), []),
    "tags that went": (card(skills__0__tags=None), ["wording /skills/0/tags"]),
    "tags": (card(skills__0__tags=["sea", "moon"]), ["wording /skills/0/tags"]),
    "a removed default mode": (
        card(defaultInputModes=["application/json"]),
        ["breaking /defaultInputModes", "additive /defaultInputModes"],
    ),
    "a skill with a second id": (
        card(skills__0__skill_id="iam.check_tides"),
        ["unclear /skills/0/skill_id"],
    ),
    "a mode of one skill": (
        card(skills__0__outputModes=["text/plain", "image/png"]),
        ["additive /skills/0/outputModes"],
    ),
    "one way in less": (card(securityRequirements__0=None), ["breaking /securityRequirements"]),
    "no way in is asked for": (
        card(securityRequirements=[]),
        ["additive /securityRequirements"],
    ),
    "one more scope": (
        card(securityRequirements__1__schemes__login__list=["read", "write"]),
        ["breaking /securityRequirements", "additive /securityRequirements"],
    ),
    "one scope less": (
        card(securityRequirements__1__schemes__login__list=[]),
        ["additive /securityRequirements"],
    ),
    "another tokenUrl": (
        card(**{f"{FLOW}__tokenUrl": "https://e.example/"}),
        ["breaking /securitySchemes/login"],
    ),
    "a scope in other words": (
        card(**{f"{FLOW}__scopes__read": "Look"}),
        ["wording /securitySchemes/login"],
    ),
    "a scheme in other words": (
        card(securitySchemes__login__oauth2SecurityScheme__description="By the harbour master"),
        ["wording /securitySchemes/login"],
    ),
    "a new scheme": (
        card(securitySchemes__mtls={"mtlsSecurityScheme": {}}),
        ["additive /securitySchemes/mtls"],
    ),
    "a skill that asks for more": (
        card(skills__0__securityRequirements=[{"schemes": {"token": {}}}]),
        ["breaking /skills/0/securityRequirements"],
    ),
    "a skill with a schema": (WITH_SCHEMA, ["unclear /skills/0/inputSchema"]),
}


def changes(old: Any, new: Any) -> list[str]:
    """The effect and place of each change."""
    return [f"{effect_of(change)} {change.path}" for change in compare(old, new).changes]


@pytest.mark.parametrize(("new", "expected"), TABLE.values(), ids=TABLE)
def test_a_change_of_a_card(new: dict[str, Any], expected: list[str]) -> None:
    """What it means for a caller, and where."""
    assert changes(CARD, new) == expected


def test_an_extended_card_is_offered_in_several_spellings() -> None:
    """Of each the end is a break, and not a riddle."""
    for flag in ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard"):
        assert f"breaking /{flag}" in changes(card(**{flag: True}), CARD)


def test_the_id_of_a_skill_makes_no_words_of_its_members() -> None:
    """A skill may be called as a member is that people read."""
    skill = {**SKILL, "id": "description", "cost": 1}
    old, new = card(skills__0=skill), card(skills__0={**skill, "cost": 2})
    assert changes(old, new) == ["unclear /skills/0/cost"]


def test_a_change_says_what_changed() -> None:
    """In the words of the card."""
    new = card(supportedInterfaces__1=None, skills__1=None, defaultInputModes=["a/b"])
    new["securityRequirements"] = CARD["securityRequirements"][1:]
    assert [change.message for change in compare(CARD, new).changes] == [
        "the interface HTTP+JSON 1.0 at https://h.example/rest was removed",
        "skill 'berths' was removed",
        "input mode 'text/plain' was removed",
        "input mode 'a/b' is new",
        "a caller with 'token' is no longer let in",
    ]


def test_a_schema_of_a_skill_is_compared() -> None:
    """Input and output schemas by who makes the values."""
    new = copy.deepcopy(WITH_SCHEMA)
    new["skills"][0]["inputSchema"]["enum"] = ["today"]
    (change,) = compare(WITH_SCHEMA, new).changes
    assert (effect_of(change), change.path) == ("breaking", "/skills/0/inputSchema")
    new["skills"][0]["outputSchema"] = new["skills"][0].pop("inputSchema")
    old = copy.deepcopy(WITH_SCHEMA)
    old["skills"][0]["outputSchema"] = old["skills"][0].pop("inputSchema")
    (change,) = compare(old, new).changes
    assert effect_of(change) == "additive"


def built(**skill: Any) -> dict[str, Any]:
    """The card as `build` makes it: what A2A has no member for stands in our extension."""
    identity = "spiffe://h.example/agent/Harbour/dev/north/1.2.3"
    source = card(spiffe_id=identity, skills__0={**SKILL, **skill})
    return convert_card(source, "1.0")


OURS = "/capabilities/extensions/1/params/skills/tides"
BUILT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a schema": (
        {"inputSchema": {"type": "number"}},
        [f"breaking {OURS}/inputSchema", f"additive {OURS}/inputSchema"],
    ),
    "a schema that went": ({}, [f"unclear {OURS}/inputSchema"]),
    "a second schema": (
        {"inputSchema": {"type": "string"}, "outputSchema": {"type": "string"}},
        [f"unclear {OURS}/outputSchema"],
    ),
    "the mark of an end": (
        {"inputSchema": {"type": "string"}, "deprecated": True},
        [f"wording {OURS}/deprecated"],
    ),
    "nothing": ({"inputSchema": {"type": "string"}}, []),
}


@pytest.mark.parametrize(("skill", "expected"), BUILT.values(), ids=BUILT)
def test_a_built_card_is_compared_like_its_source(
    skill: dict[str, Any], expected: list[str]
) -> None:
    """What is kept in our extension is no riddle: a schema there binds a caller just as well."""
    assert changes(built(inputSchema={"type": "string"}), built(**skill)) == expected


def test_one_schema_under_its_two_names_is_one() -> None:
    """A contract writes `input_schema`, the card that is built of it `inputSchema`."""
    source = card(skills__0={**SKILL, "input_schema": {"type": "string"}})
    paths = [one.path for one in compare(source, built(inputSchema={"type": "string"})).changes]
    assert not any("chema" in one for one in paths)


def test_a_card_that_has_a_schema_twice_is_never_judged_as_safe() -> None:
    """Which of the two callers keep to, nobody can tell."""
    old = built(inputSchema={"type": "string"})
    new = copy.deepcopy(old)
    new["skills"][0]["inputSchema"] = {"type": "string"}
    (change,) = compare(old, new).changes
    assert (effect_of(change), change.message) == ("unclear", "`inputSchema` is new")
    assert compare(new, new).changes == ()


PARAMS: dict[str, tuple[Any, Any, str]] = {
    "no object": ([1], [2], ""),
    "gone": ({"a": 1, "b": 2}, {"b": 2}, "/a"),
    "skills of another form": ({"skills": ["a"]}, {"skills": ["b"]}, "/skills"),
    "a member of a skill": (
        {"skills": {"t": {"x": 1}}},
        {"skills": {"t": {"x": 2}}},
        "/skills/t/x",
    ),
    "a schema of no skill": (
        {"skills": {"t": {"inputSchema": {"type": "string"}}}},
        {"skills": {"t": {"inputSchema": {}}}},
        "/skills/t/inputSchema",
    ),
}


@pytest.mark.parametrize(("old", "new", "place"), PARAMS.values(), ids=PARAMS)
def test_nothing_in_an_extension_changes_unsaid(old: Any, new: Any, place: str) -> None:
    """Whatever form somebody else's `params` have."""
    before, after = (
        card(capabilities__extensions__0={"uri": "https://x.example/e", "params": params})
        for params in (old, new)
    )
    assert [change.path for change in compare(before, after).changes] == [
        f"{EXTENSION}/params{place}"
    ]


def test_the_version_in_an_identity_is_no_change_of_its_own() -> None:
    """A SPIFFE ID ends with the card's version, so it changes with each release (row B24)."""
    old = card(spiffe_id="spiffe://h.example/agent/Harbour/dev/north/1.2.3")
    new = card(spiffe_id="spiffe://h.example/agent/Harbour/dev/north/1.2.4", version="1.2.4")
    assert compare(old, new).changes == ()
    before, after = (convert_card(one, "1.0") for one in (old, new))
    assert compare(before, after).changes == ()
    other = card(spiffe_id="spiffe://h.example/agent/Harbour/live/north/1.2.4")
    (change,) = compare(old, other).changes
    assert (effect_of(change), change.path) == ("unclear", "/spiffe_id")


def test_the_same_card_in_two_versions_of_a2a_keeps_its_ways_in() -> None:
    """A requirement that 0.3 writes otherwise is the same requirement.

    In a card of A2A 1.0 not every client reads it, so that is unclear, and no way in is lost.
    """
    flat = card(
        securitySchemes={
            "token": {"type": "http", "scheme": "Bearer"},
            "login": {"type": "oauth2", **CARD["securitySchemes"]["login"]["oauth2SecurityScheme"]},
        },
        security=[{"token": []}, {"login": ["read"]}],
        securityRequirements=None,
    )
    assert {effect_of(one) for one in compare(CARD, flat).changes} == {"unclear"}
    assert {one.path for one in compare(CARD, flat).changes} == {
        "/security",
        "/securityRequirements",
        "/securitySchemes",
    }


HIDDEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an empty list of requirements beside those of 0.3": (
        {"security": [{"token": []}], "securityRequirements": None},
        {"security": [{"token": []}], "securityRequirements": []},
        "/securityRequirements",
    ),
    "one of two lists emptied": (
        {"security": [{"token": []}]},
        {"security": [{"token": []}], "securityRequirements": []},
        "/securityRequirements",
    ),
    "no interfaces beside a url": (
        {"url": "https://h.example/old", "supportedInterfaces": None},
        {"url": "https://h.example/old", "supportedInterfaces": []},
        "/supportedInterfaces",
    ),
    "a member in another case": (
        {},
        {"skills": None, "Skills": [SKILL]},
        "/Skills",
    ),
    "a member below in another case": (
        {},
        {"capabilities": {"Streaming": True}},
        "/capabilities/Streaming",
    ),
    "true is not one": ({"x": True}, {"x": 1}, "/x"),
    "a member of a requirement": (
        {"securityRequirements": [{"schemes": {"token": {"list": []}}}]},
        {"securityRequirements": [{"schemes": {"token": {"list": []}}, "cost": 1}]},
        "/securityRequirements",
    ),
    "a member of 0.3 in an interface of 1.0": (
        {},
        {"supportedInterfaces": [{**CARD["supportedInterfaces"][0], "transport": "GRPC"}]},
        "/supportedInterfaces/0/transport",
    ),
}


@pytest.mark.parametrize(("before", "after", "path"), HIDDEN.values(), ids=HIDDEN)
def test_what_clients_read_in_two_ways_is_never_no_change(
    before: dict[str, Any], after: dict[str, Any], path: str
) -> None:
    """a2a-sdk, say, reads no `security` beside an empty `securityRequirements`."""
    old, new = card(**before), card(**after)
    for one, other in ((old, new), (new, old)):
        assert path in {change.path for change in compare(one, other).changes}
    assert compare(new, new).changes == ()


def test_a_skill_may_go_after_it_was_deprecated() -> None:
    """It is a break all the same, and said in other words; a built card has the mark elsewhere."""
    for old in (card(skills__0__deprecated=True), built(deprecated=True)):
        (change,) = compare(old, {**old, "skills": old["skills"][1:]}).changes
        assert (effect_of(change), change.message) == (
            "breaking",
            "the deprecated skill 'tides' was removed",
        )


VERSIONS = {
    "a break, major": ("1.2.3", "2.0.0", "breaking", "enough"),
    "a break, minor": ("1.2.3", "1.3.0", "breaking", "too-low"),
    "a new skill, minor": ("1.2.3", "1.3.0", "additive", "enough"),
    "a new skill, patch": ("1.2.3", "1.2.4", "additive", "too-low"),
    "words, patch": ("1.2.3", "1.2.4", "wording", "enough"),
    "words, the same version": ("1.2.3", "1.2.3", "wording", "too-low"),
    "nothing, the same version": ("1.2.3", "1.2.3", None, "enough"),
    "a smaller version": ("1.2.3", "1.2.2", "wording", "too-low"),
    "a release after its candidate": ("2.0.0-rc.1", "2.0.0", "wording", "enough"),
    "no semantic version": ("1.2", "1.3", "wording", "too-low"),
    "before 1.0.0 a break, minor": ("0.9.0", "0.10.0", "breaking", "enough"),
    "before 1.0.0 a break, patch": ("0.9.0", "0.9.1", "breaking", "too-low"),
    "before 1.0.0 a new skill, patch": ("0.9.0", "0.9.1", "additive", "enough"),
    "out of 0.x": ("0.9.0", "1.0.0", "breaking", "enough"),
    "unclear, major": ("1.2.3", "2.0.0", "unclear", "enough"),
    "unclear, minor": ("1.2.3", "1.3.0", "unclear", "unclear"),
    "unclear, the same version": ("1.2.3", "1.2.3", "unclear", "too-low"),
}
CHANGED: dict[str | None, dict[str, Any]] = {
    "breaking": {"skills__1": None},
    "additive": {"capabilities__pushNotifications": True},
    "wording": {"description": "Of old"},
    "unclear": {"x_depth": 3},
    None: {},
}


@pytest.mark.parametrize(("old", "new", "effect", "verdict"), VERSIONS.values(), ids=VERSIONS)
def test_whether_the_version_says_so(old: str, new: str, effect: str | None, verdict: str) -> None:
    """SemVer 2.0.0; below 1.0.0 the minor version stands for the major one."""
    found = compare(card(version=old), card(version=new, **CHANGED[effect]))
    assert found.version_verdict == verdict


def test_a_skill_of_a_contract_card_is_told_by_its_skill_id() -> None:
    """A new id is another skill, and the order says nothing."""
    skills = [{"skill_id": f"iam.check_{noun}", "input_schema": {}} for noun in ("a", "b")]
    old = {"name": "n", "version": "0.9.0", "skills": skills}
    renamed = json.loads(json.dumps(old).replace("iam.check_b", "iam.check_c"))
    assert compare(old, renamed).needed == "major"
    assert compare(old, {**old, "skills": skills[::-1]}).changes == ()


def test_a_contract_card_needs_a_major_version_at_0_x_too() -> None:
    """The standard says so of a removed skill; a name that tasks are sent to is no mere word."""
    contract = card(version="0.9.0", skills__0__skill_id="iam.check_tides")
    less = {**contract, "version": "0.10.0", "skills": contract["skills"][:1]}
    found = compare(contract, less)
    assert (found.version_verdict, found.least_version) == ("too-low", "1.0.0")
    assert compare(contract, {**less, "version": "1.0.0"}).version_verdict == "enough"
    (change,) = compare(contract, {**contract, "name": "Port"}).changes
    assert (effect_of(change), change.path) == ("breaking", "/name")


@pytest.mark.parametrize(
    ("old", "effect", "least"),
    [
        ("1.2.3", "breaking", "2.0.0"),
        ("0.9.0", "breaking", "0.10.0"),
        ("1.2.3", "wording", "1.2.4"),
        ("x", "wording", None),
    ],
)
def test_the_least_version_that_is_enough(old: str, effect: str, least: str | None) -> None:
    """What to write into the card."""
    assert compare(card(version=old), card(version=old, **CHANGED[effect])).least_version == least


@pytest.mark.parametrize("odd", [[], {"a": 1}, "x", 3, None, True, [[]], [{"id": 3}], [None, {}]])
@pytest.mark.parametrize(
    "member",
    [
        "skills",
        "capabilities",
        "securitySchemes",
        "securityRequirements",
        "security",
        "supportedInterfaces",
        "url",
        "additionalInterfaces",
        "defaultInputModes",
        "version",
    ],
)
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
    many = [{"schemes": {f"s{i}": {}}} for i in range(2000)]
    other = [{"schemes": {f"t{i}": {}}} for i in range(2000)]
    old = card(securityRequirements=many)

    same = compare(old, card(securityRequirements=many, version="1.2.4"))
    assert [effect_of(one) for one in same.changes] == []
    one_less = compare(old, card(securityRequirements=many[1:]))
    assert "breaking" in [effect_of(one) for one in one_less.changes]
    others = compare(old, card(securityRequirements=other))
    assert "unclear" in [effect_of(one) for one in others.changes]
