"""Tasks, responses and drift: rows B12, B14, B15, B35 and F42."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card, verify_card
from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.contract import EnvelopeReport, check_envelope
from cardsign.diff import diff_live, diff_tools
from cardsign.errors import CardRefused, JsonRefused
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.lint.contract import find_problems
from cardsign.verify.report import NotTrusted
from tests.lint.examples import example_card
from tests.support import PORTABLE, dump, each_case, edited, put, read_cases, without

CARD = {**PORTABLE, **example_card({}, "contract")}
TASK: dict[str, Any] = {
    "skill_id": "iam.check_tides",
    "source_agent": "lead",
    "target_agent": "iam-tides",
    "input": {"harbour": "North"},
    "metadata": {"trace_id": "t-1"},
}
RESPONSE = {**without(TASK, "/input"), "status": "ok", "output": {"harbour": "North"}}


def check(
    key: PrivateKey, envelope: dict[str, Any] | bytes, card: dict[str, Any] = CARD
) -> EnvelopeReport:
    """The report on an envelope, by the card once it is signed and verified."""
    verified = verify_card(sign_card(dump(card), key), jwks=JwkSet.of([key.public]))
    return check_envelope(envelope if isinstance(envelope, bytes) else dump(envelope), verified)


@each_case(__file__, "envelopes", "kind", "edits", "problems")
def test_an_envelope_is_held_against_the_verified_card(
    kind: str, edits: list[Any], problems: list[list[str]], alice: PrivateKey
) -> None:
    """An output that does not fit breaks the contract, though it is only a warning (B14, B35)."""
    report = check(alice, edited(TASK if kind == "task" else RESPONSE, edits))
    assert [[finding.code, finding.path] for finding in report.findings] == problems
    codes = {code for code, _ in problems}
    assert report.exit_status == (not codes <= {"envelope.untraced"})
    warnings = {finding.code for finding in report.findings if finding.severity == "warning"}
    assert warnings == codes & {"envelope.output", "envelope.untraced"}


def test_an_envelope_is_json(alice: PrivateKey) -> None:
    """Nothing else is held against anything."""
    (finding,) = check(alice, b"{,}").findings
    assert (finding.code, finding.path) == ("envelope.form", "")


def test_B14_only_a_verified_card_has_schemas(bob: PrivateKey) -> None:
    """A changed card gives no `VerifiedCard` at all."""
    data = sign_card(dump(CARD), bob)
    with pytest.raises(NotTrusted):
        verify_card(data.replace(b'"harbour"', b'"haven"'), jwks=JwkSet.of([bob.public]))


def test_B15_an_unknown_skill_is_told_the_known_ones(alice: PrivateKey) -> None:
    """As the standard's error says it; what no task can name is none of them."""
    task = put(TASK, "/skill_id", "iam.check_moon")
    for card, known in (
        (CARD, "iam.check_tides, iam.check_berths"),
        (put(CARD, "/skills/0/skill_id", 7), "iam.check_berths"),
    ):
        (finding,) = check(alice, task, card).findings
        assert finding.message.endswith(f"supported_skills: {known}")


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}


_DOUBLED = {f"n{i}": {"allOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 2} for i in range(18)}
_REFERENCES = {"$ref": "#/$defs/n0", "$defs": {**_DOUBLED, "n18": {"type": "object"}}}
#: Schemas that would cost too much, and inputs that hang on that.
DEAR: list[tuple[Any, Any]] = [
    (_text("a{0,999}a{0,999}a{0,999}b"), {"x": "a" * 4000}),
    (_text("\\\\*\\\\*\\\\*\\\\*b"), {"x": "\\" * 4000}),
    (_REFERENCES, {}),
    ({"anyOf": [False] * 2000}, {"x": "a" * 4000}),
    ({"anyOf": [{"allOf": [False] * 2000}]}, {"x": "a" * 40_000}),
    ({"type": "array", "uniqueItems": True}, [{"n": i} if i % 2 else i for i in range(5000)]),
]


def _judge(key: PrivateKey, schema: Any, value: Any) -> tuple[list[str], int]:
    """The codes and the exit status for a value, where the first skill has this input schema."""
    card = put(CARD, "/skills/0/input_schema", schema)
    report = check(key, put(TASK, "/input", value), card)
    return [finding.code for finding in report.findings], report.exit_status


@pytest.mark.parametrize(("schema", "value"), [*read_cases(__file__)["unclear"].values(), *DEAR])
def test_what_cannot_be_told_is_unclear(schema: Any, value: Any, alice: PrivateKey) -> None:
    """Nothing is fetched, no pattern is tried, and neither a card nor a task takes for ever."""
    assert _judge(alice, schema, value) == (["envelope.unclear"], 3)


def test_a_schema_that_leads_back_ends_at_every_depth_of_the_stack() -> None:
    """A library written in Rust ends the process where it meets the limit of Python's stack."""

    def problem(frames: int) -> str:
        return problem(frames - 1) if frames else find_problems({"not": {"$ref": "#"}}, "")[1]

    assert len({*map(problem, range(20))}) == 1


def test_a_skill_without_a_schema_is_unclear(alice: PrivateKey) -> None:
    """There is nothing to hold the input against; the twin sends none."""
    bare = without(CARD, "/skills/0/input_schema")
    codes = [finding.code for finding in check(alice, TASK, bare).findings]
    assert codes == ["envelope.unclear"]
    codes = [finding.code for finding in check(alice, without(TASK, "/input"), bare).findings]
    assert codes == ["envelope.form"]


@each_case(__file__, "clear", "schema", "good", "bad")
def test_what_is_certain_is_told(schema: Any, good: Any, bad: Any, alice: PrivateKey) -> None:
    """The twin."""
    assert _judge(alice, schema, good) == ([], 0)
    assert _judge(alice, schema, bad) == (["envelope.input"], 1)


def test_what_is_certain_is_told_of_much(alice: PrivateKey) -> None:
    """Of long texts and lists, too, and beside what is unclear."""
    for schema, good, bad in (
        ({"type": "array", "uniqueItems": True}, [*range(500)], [1, 1]),
        ({"properties": {"x": {"type": "string"}}}, {"x": "n" * 5000}, {"x": 7}),
    ):
        assert (_judge(alice, schema, good)[1], _judge(alice, schema, bad)[1]) == (0, 1)
    arrays = {"additionalProperties": {"type": "array"}}
    problems, _ = find_problems(arrays, dict.fromkeys("hgfedcba"))
    assert [place for (place,), _ in problems] == [*"abcdefgh"]
    pier = {"properties": {"harbour": {"pattern": "^n"}, "pier": {"type": "integer"}}}
    both = _judge(alice, pier, {"harbour": "north", "pier": "x"})
    assert both == (["envelope.input", "envelope.unclear"], 1)


# Drift.


def test_F42_the_live_card_is_compared_by_digest(alice: PrivateKey, bob: PrivateKey) -> None:
    """Signatures count where the committed card has some; all else always does."""
    plain, tight = dump(PORTABLE), json.dumps(PORTABLE, indent=1).encode()
    by_alice, by_bob = sign_card(plain, alice), sign_card(plain, bob)
    version = put(PORTABLE, "/version", "9.9.9")
    signatures = ("/signatures", "the signatures differ")
    bytes_alone = ("", "the bytes differ, but nothing that a caller reads")
    for committed, live, difference in (
        (plain, plain, None),
        (plain, by_alice, None),
        (by_alice, plain, signatures),
        (by_alice, by_bob, signatures),
        (plain, sign_card(dump(version), alice), ("/version", "")),
        (plain, dump(put(PORTABLE, "/description", "Changed")), ("/description", "")),
        (plain, tight, bytes_alone),
        (dump({**PORTABLE, "x": 1}), by_alice, ("/x", "")),
    ):
        report = diff_live(committed, live)
        places = [(change.path, change.message) for change in report.changes]
        if difference is None:
            assert (places, report.exit_status) == ([], 0)
            continue
        assert any(path == difference[0] and difference[1] in text for path, text in places)
    with pytest.raises(JsonRefused):
        diff_live(plain, b"{")


SCHEMA = CARD["skills"][0]["input_schema"]


def recorded(name: str) -> list[dict[str, Any]]:
    """The tools of a name in contract.json; of spies there are many."""
    if name == "spies":
        return [{"name": f"spy{number}"} for number in range(300)]
    tool, *edits = read_cases(__file__)["tools"][name]
    return [{"name": tool, **({"inputSchema": edited(SCHEMA, *edits)} if edits else {})}]


@each_case(__file__, "manifests", "skills", "tools", "names")
def test_B12_skills_are_compared_with_a_recorded_manifest(
    skills: list[str], tools: list[str], names: list[str]
) -> None:
    """By their schemas; a tool is not hidden by a namesake."""
    card = {**CARD, "skills": [{**CARD["skills"][0], "skill_id": name} for name in skills]}
    report = diff_tools(dump(card), dump({"tools": [*chain(*map(recorded, tools))]}))
    places = [change.path.partition("/")[0] for change in report.changes]
    assert [place for place in dict.fromkeys(places) if place in names] == names
    assert report.exit_status == bool(names)


TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object", "required": [name]}}
    for name in ("search.docs", "get-doc", "doc")
]


@pytest.mark.parametrize("server", ["Docs", "My Docs"])
def test_a_card_built_from_tools_has_not_drifted_from_them(tmp_path: Path, server: str) -> None:
    """Its ids carry the server's name; a whole answer of a server is read, too."""
    source = tmp_path / "docs.json"
    source.write_bytes(dump({"name": server, "description": "Docs", "tools": TOOLS}))
    prefix = f"mcp_{server.replace(' ', '_').lower()}"
    card = build_card([source], BuildOptions(url="https://docs.example/a2a")).document
    other = {**TOOLS[1], "inputSchema": {"type": "object", "required": ["password"]}}
    for tools, names in (
        (TOOLS, set()),
        (TOOLS[:2], {f"{prefix}_doc"}),
        ([TOOLS[0], other, TOOLS[2]], {f"{prefix}_get_doc"}),
    ):
        for manifest in ({"tools": tools}, {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}):
            changes = diff_tools(card, dump(manifest)).changes
            assert {change.path.partition("/")[0] for change in changes} == names
    with pytest.raises(CardRefused):
        diff_tools(card, b'{"tools": 1}')
