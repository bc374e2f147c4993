"""Every lint rule by its own two examples, and how rules are chosen, weighed and waived."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.card.values import finding_at
from cardsign.errors import UsageFault
from cardsign.findings import describe_code, severity_of
from cardsign.lint.cards import (
    GROUPS,
    LAYERS,
    RULES,
    CardReport,
    lint_card,
    lint_references,
    with_findings,
)
from cardsign.lint.rules import LintSettings, Waiver, group_of
from tests.lint.examples import BASES, UNREADABLE, example_card, read_example
from tests.support import DUAL, OLD, PORTABLE, dump, each_case, edited, put, read_cases, without

CASES = read_cases(__file__)

#: By rule, its bad and its good example: bytes, and the settings of lint that they want.
EXAMPLES = {
    code: (read_example(describe_code(code).bad), read_example(describe_code(code).good))
    for code in RULES
    if describe_code(code).bad and code not in UNREADABLE
} | {code: ((data, {}), (b"{}", {})) for code, data in UNREADABLE.items()}
#: Rules about several cards, or about what stands beside a card; each has a test of its own.
BESIDE = {
    "contract.reference",
    "contract.no-card",
    "contract.untracked",
    "contract.path-constant",
    "contract.app-version",
    "meaning.not-advertised",
    "json.not-read",
}


def found(data: bytes | dict[str, Any], **settings: Any) -> list[str]:
    """The ids of what is found in a card."""
    written = data if isinstance(data, bytes) else json.dumps(data).encode()
    return [one.code for one in lint_card(written, LintSettings(**settings)).findings]


def codes_of_group(code: str, example: tuple[bytes, dict[str, Any]]) -> set[str]:
    """What the rules of one rule's group find in an example."""
    data, settings = example
    group = group_of(code)
    return {one for one in found(data, groups=(group,), **settings) if group_of(one) == group}


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_finds_its_bad_example_and_not_its_good_one(code: str) -> None:
    """The examples of the reference page are tests; each breaks one rule of its group.

    A finding names a place that is there, or the whole card; not so where members are missing, or
    the card could not be read.
    """
    bad, good = EXAMPLES[code]
    assert codes_of_group(code, bad) == {code}
    assert code not in codes_of_group(code, good)
    group = group_of(code)
    for one in lint_card(bad[0], LintSettings(groups=(group,))).findings:
        assert one.place.line or not one.place.tokens or group in ("json", "members")


EXAMPLE = {f"an example of {base}": card for base, card in BASES.items()}
CARDS = {"1.0": PORTABLE, "0.3": OLD, "both": DUAL, "contract": BASES["contract"], **EXAMPLE}
#: How a setting of lint is read from JSON, where that has no such value.
READERS = {"ignore": frozenset, "today": date.fromisoformat, "legacy_sunset": date.fromisoformat}


@each_case(__file__, "found", "base", "edits", "settings", "codes")
def test_B1_B6_B8_B9_B10_B11_B13_B16_B24_B31_B32_B36_F5_F7_F9_what_is_found(
    base: str, edits: list[Any], settings: dict[str, Any], codes: list[str]
) -> None:
    """One fault is one finding, unless its group is asked for alone; prose is no secret.

    What the inspector and the conformance kit of A2A find is found too.
    """
    chosen = {name: READERS.get(name, lambda v: v)(value) for name, value in settings.items()}
    assert found(edited(CARDS[base], edits), **chosen) == codes


def test_every_rule_has_examples_or_a_test_of_its_own() -> None:
    """None is left out."""
    assert set(RULES) - set(EXAMPLES) == BESIDE


def test_names_that_look_like_json_do_not_mislead_the_lines() -> None:
    """Braces, commas and escapes inside texts."""
    card = {"a{[,:": 'x\\"}],', **put(PORTABLE, "/defaultInputModes", ["text"])}
    text = json.dumps(card, indent=1)
    lines = text.splitlines()
    places = {
        one.path: lines[(one.place.line or 0) - 1] for one in lint_card(text.encode()).findings
    }
    assert '"text"' in places["/defaultInputModes/0"]
    assert "a{[,:" in places["/a{[,:"]


# ------------------------------------------------------------------ what is asked


def test_two_tokens_in_one_text_are_both_named() -> None:
    """Each has to be revoked."""
    text = "AKIA" + "IOSFODNN7EXAMPLE" + " ghp_" + "a1B2" * 9
    (one,) = lint_card(json.dumps({**PORTABLE, "description": text}).encode()).findings
    assert (one.code, one.message) == ("secrets.token", "an AWS access key and a GitHub token")


#: What stands before a token; and one that is made up, in the form of a JSON Web Token.
BEFORE = ("", "Bearer ", "token=", "session-", "-eyJ" * 1000 + " ")
JWT = "eyJhbGciOiJub25l." + "eyJzdWIiOiJhbGlj." + "c2lnbmF0dXJlIG9mIG5vYm9keQ"


#: What is secret, and what only looks like it.
SECRETS = {
    **{f"{text[:9]}JWT": (text + JWT, text + JWT.replace(".eyJ", ".")) for text in BEFORE},
    **{
        f"{kind} KEY": (f"-----BEGIN {kind} KEY-----", "-----BEGIN PUBLIC KEY-----")
        for kind in ("PRIVATE", "RSA PRIVATE", "OPENSSH PRIVATE")
    },
}


@pytest.mark.parametrize(("secret", "harmless"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_found_in_any_text(secret: str, harmless: str) -> None:
    """Wherever a token begins; the twin only begins like one, over and over."""
    (code,) = found({**PORTABLE, "description": secret})
    assert code == f"secrets.{'private-key' if 'BEGIN' in secret else 'token'}"
    assert found({**PORTABLE, "description": harmless}) == []


def test_many_findings_of_one_rule_hide_no_other() -> None:
    """A stranger's card may break a rule thousands of times; the others are told all the same."""
    card = {**PORTABLE, "defaultInputModes": [0] * 5000, "clientSecret": "qv81-Xw0-plo9"}
    findings = lint_card(json.dumps(card).encode()).findings
    assert len(findings) < 120
    assert "secrets.password" in {one.code for one in findings}
    types = [one for one in findings if one.code == "members.type"]
    assert sum(one.count for one in types) == 5000
    assert (types[-1].path, types[-1].message) == ("", "4,950 more")
    few = lint_card(json.dumps({**PORTABLE, "defaultInputModes": [0] * 50}).encode()).findings
    assert {one.count for one in few} == {1}


def test_what_is_found_around_a_card_is_chosen_too() -> None:
    """But for a card that could not be read, of which no group can say anything."""
    around = [finding_at(code, (), "m") for code in ("contract.untracked", "json.not-read")]
    for groups, expected in ((None, around), (("contract",), around), (("secrets",), around[1:])):
        report = with_findings(CardReport("a.json", ()), around, LintSettings(groups=groups))
        assert [*report.findings] == expected


def test_a_contract_is_looked_at_where_it_is_one() -> None:
    """Without being asked."""
    contract = example_card({"/skills/0/input_schema": {}}, "contract")
    assert "contract.empty-schema" in found(contract)


WAIVED = {"path": "/version", "expires": date(2026, 12, 1)}
#: What a waiver is for beside its rule, the day, and whether the finding is set aside.
WAIVERS: dict[str, tuple[dict[str, Any], date | None, bool]] = {
    "until its end": (WAIVED, date(2026, 11, 30), True),
    "at its end": (WAIVED, date(2026, 12, 1), False),
    "without end": ({}, date.max, True),
    "of another place": ({"path": "/name"}, None, False),
}


@pytest.mark.parametrize(("how", "today", "is_waived"), WAIVERS.values(), ids=WAIVERS)
def test_a_waiver_sets_a_finding_aside(
    how: dict[str, Any], today: date | None, is_waived: bool
) -> None:
    """With the reason; a finding that is back says since when."""
    waiver = Waiver("meaning.version", "renamed next week", **how)
    settings = LintSettings(waivers=(waiver,), today=today)
    report = lint_card(dump(put(PORTABLE, "/version", "two")), settings)
    assert [reason for _, reason in report.waived] == ["renamed next week"] * is_waived
    ended = [one.message.endswith("(its waiver ended on 2026-12-01)") for one in report.findings]
    assert ended == [how is WAIVED] * (not is_waived)


@pytest.mark.parametrize(
    "settings",
    [
        {"groups": ("everything",)},
        {"ignore": frozenset({"meaning.verison"})},
        {"waivers": (Waiver("meaning.verison", "r"),)},
    ],
    ids=str,
)
def test_a_name_that_there_is_not_is_refused(settings: dict[str, Any]) -> None:
    """A mistyped waiver would be ignored for ever."""
    with pytest.raises(UsageFault):
        found(b"{}", **settings)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "data", [b"", b" " * (MAX_CARD_BYTES + 1), *map(dump, CASES["odd"])], ids=lambda data: data[:60]
)
def test_nothing_in_a_card_makes_lint_fail(data: bytes) -> None:
    """Whatever stands where."""
    report = lint_card(data, LintSettings(groups=tuple(GROUPS), strict=True, today=date.min))
    assert report.findings
    lint_references([report, CardReport("other", (), (), {"name": "a"})])


def test_a_card_of_many_skills_is_linted_once_through() -> None:
    """Ten thousand small skills do not fit a card; what fits costs a few looks a value."""
    skill = {"id": "a", "name": "n", "description": "d", "tags": ["t"]}
    skills = [{**skill, "id": f"s{index}"} for index in range(1400)]
    assert found(put(PORTABLE, "/skills", skills)) == []
    assert found({**put(PORTABLE, "/skills", skills * 2)}) == ["json.too_many_values"]


# ------------------------------------------------------------------ several cards


def contract(name: str, **metadata: Any) -> CardReport:
    """A sound contract card of an agent."""
    document = example_card({}, "contract")
    document |= {"name": name, "metadata": metadata}
    document["spiffe_id"] = f"spiffe://tides.example/agent/{name}/dev/north/1.2.0"
    settings = LintSettings(groups=("contract",))
    return lint_card(json.dumps(document).encode(), settings, name=f"{name}.json")


def references(*reports: CardReport) -> list[tuple[str, str]]:
    """What one says of another."""
    return [
        (one.code, one.path)
        for report in lint_references(reports)
        for one in report.findings
        if one.code in BESIDE
    ]


def test_B28_foreman_and_specialists_name_each_other() -> None:
    """A foreman's specialists are among the cards, and name it back."""
    foreman = contract("lead", specialists=["iam-adk", "iam-qa"])
    worker, tester = contract("iam-adk", foreman="lead"), contract("iam-qa", foreman="lead")
    assert references(foreman, worker, tester) == []
    assert references(foreman, worker) == [("contract.reference", "/metadata/specialists/1")]
    stranger = contract("iam-qa", foreman="nobody")
    assert references(foreman, worker, stranger) == [
        ("contract.reference", "/metadata/specialists/1"),
        ("contract.reference", "/metadata/foreman"),
    ]


# ------------------------------------------------------------------ contract rows

IN, OUT = "/skills/0/input_schema", "/skills/0/output_schema"


def test_B7_a_skill_has_both_schemas_in_place_or_in_an_extension() -> None:
    """In a card of A2A they stand in the params of an extension."""
    card = example_card({}, "contract")
    kept = {
        one["skill_id"]: {"inputSchema": one["input_schema"], "outputSchema": one["output_schema"]}
        for one in card["skills"]
    }
    modern = put(PORTABLE, "/capabilities/extensions", [{"uri": "urn:x:y", "params": {}}])
    params = {"spiffe_id": None, "skills": kept}
    modern = put(modern, "/capabilities/extensions/0/params", params)
    skills = [{"id": name, "name": name, "description": "d", "tags": ["t"]} for name in kept]
    assert found(put(modern, "/skills", skills), groups=("contract",)) == []
    del params["skills"]["iam.check_tides"]["outputSchema"]  # type: ignore[index]
    modern = put(modern, "/capabilities/extensions/0/params", params)
    assert found(put(modern, "/skills", skills), groups=("contract",)) == ["contract.skill"]


def test_of_several_faults_in_a_schema_the_first_place_is_told() -> None:
    """jsonschema gives them in an order that changes from one start of Python to the next."""
    fields = {f"{letter}{letter}": {"type": "strnig"} for letter in "hgfedcba"}
    card = example_card({IN: {"type": "object", "properties": fields}}, "contract")
    findings = lint_card(dump(card), LintSettings(groups=("contract.schema",))).findings
    assert [one.path for one in findings] == [f"{IN}/properties/aa/type"]


ANY_VALUE = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.5, "", "string", "integer", "[", [], ["a"], ["a", "a"], [1], {}]
)
# fmt: off
KEYWORDS = [
    "type", "enum", "const", "required", "properties", "items", "prefixItems", "allOf", "anyOf",
    "oneOf", "additionalProperties", "$ref", "$defs", "definitions", "title", "description",
    "$comment", "format", "pattern", "default", "minLength", "maximum", "uniqueItems", "not", "if",
    "examples", "contains", "else", "patternProperties", "propertyNames", "unevaluatedItems",
    "dependentSchemas", "$schema", "exclusiveMinimum", "multipleOf", "maxItems", "readOnly",
]
# fmt: on
SCHEMAS = st.recursive(
    ANY_VALUE,
    lambda inner: (
        st.dictionaries(st.sampled_from([*KEYWORDS, "harbour"]), inner, max_size=3)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_a_schema_is_refused_exactly_where_the_meta_schema_refuses_it(schema: Any) -> None:
    """What lint leaves out because it is sound is sound."""
    is_sound = isinstance(schema, dict) and Draft202012Validator(
        Draft202012Validator.META_SCHEMA
    ).is_valid(schema)
    codes = found(example_card({IN: schema}, "contract"), groups=("contract.schema",))
    assert (codes == []) is is_sound


def test_B13_two_to_five_skills_are_recommended() -> None:
    """As a note."""
    (skill, *_) = BASES["contract"]["skills"]
    for number, codes in ((5, []), (6, ["contract.skill-count"])):
        many = [{**skill, "skill_id": f"iam.check_tides{index}"} for index in range(number)]
        assert found(example_card({"/skills": many}, "contract"), groups=("contract",)) == codes
    assert severity_of("contract.skill-count") == "note"


def test_B21_rules_are_chosen_by_the_four_layers() -> None:
    """Syntax, required members, schemas, and A2A itself; each layer finds its own faults alone."""
    card = example_card({"/version": ..., IN: {}, OUT: {"type": "strnig"}}, "contract")
    assert found(b"{,}", groups=LAYERS["1"]) == ["json.syntax"]
    for layer, code in zip("123", ("schema", "required", "empty-schema"), strict=True):
        assert found(card, groups=LAYERS[layer]) == [f"contract.{code}"]
    assert {group_of(code) for code in found(card, groups=LAYERS["4"])} == {"members", "meaning"}
    assert found(BASES["contract"], groups=(*LAYERS["1"], *LAYERS["2"], *LAYERS["3"])) == []
    of_contracts = [code for layer in LAYERS.values() for code in layer if "contract." in code]
    assert sorted(of_contracts) == sorted(code for code in RULES if code.startswith("contract."))


def test_a_finding_has_the_line_of_what_it_is_about_or_in() -> None:
    """A missing member that of its object, and two spellings that of the second."""
    skill = PORTABLE["skills"][0]
    bare = {**PORTABLE, "skills": [skill, without(skill, "/name")]}
    text = json.dumps(bare, indent=1).encode()
    (finding,) = lint_card(text, LintSettings(groups=("members",))).findings
    last = text.splitlines().index(b"  {", text.splitlines().index(b"  },"))
    assert (finding.path, finding.place.line) == ("/skills/1/name", last + 1)
    (finding,) = lint_card(b'{"iconUrl": "a",\n "icon_url": "b"}').findings
    assert (finding.code, finding.place.line, finding.place.column) == ("card.two_spellings", 2, 2)
