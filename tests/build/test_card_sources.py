"""Cards as sources: the generic reference, contract cards, and what real cards hold."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.card.convert import convert_card
from cardsign.card.extensions import FIELDS_URI
from cardsign.errors import BuildRefused, UsageFault
from cardsign.lint.cards import lint_card
from tests.build.making import URL, Build, Write, built, codes
from tests.support import PORTABLE

DOCS = "https://tides.example/docs"

#: The seed's example, whole.
GENERIC: dict[str, Any] = {
    "id": "https://example.com/agent/travel-planner",
    "name": "Travel Planner",
    "description": "Plans trips with flights, hotels, and activities",
    "provider": {"organization": "Example Corp", "url": "https://example.com"},
    "version": "1.0.0",
    "capabilities": {"streaming": True, "pushNotifications": True, "stateTransitionHistory": True},
    "skills": [
        {
            "id": "flight-search",
            "name": "Flight Search",
            "description": "Search and book flights",
            "tags": ["travel", "flights"],
            "examples": ["Find flights from NYC to London next week"],
        }
    ],
    "interfaces": [{"protocol": "a2a", "url": "https://example.com/a2a/v1"}],
    "securitySchemes": {
        "oauth2": {
            "type": "oauth2",
            "flows": {
                "authorizationCode": {
                    "authorizationUrl": "https://example.com/oauth/authorize",
                    "tokenUrl": "https://example.com/oauth/token",
                    "scopes": {"agent:read": "Read agent data", "agent:write": "Execute tasks"},
                }
            },
        }
    },
    "security": ["oauth2"],
    "extensions": [{"uri": "https://example.com/ext"}],
    "signature": {"algorithm": "RS256", "keyId": "key-001", "value": "base64-signature..."},
}
CONTRACT: dict[str, Any] = {
    "name": "iam-fix-impl",
    "version": "0.9.0",
    "description": "Implementation specialist for executing fixes",
    "spiffe_id": "spiffe://intent.solutions/agent/iam-fix-impl/dev/us-central1/0.9.0",
    "capabilities": {"streaming": False},
    "skills": [
        {
            "skill_id": "iam.execute_fix_plan",
            "name": "Execute Fix Plan",
            "description": "Carries out a plan",
            "input_schema": {"type": "object", "properties": {"plan": {"type": "string"}}},
            "output_schema": {"type": "object", "properties": {"done": {"type": "boolean"}}},
        }
    ],
    "authentication": {"type": "gcp_agent_identity"},
    "metadata": {"department": "iam", "role": "specialist"},
}


def card_of(write: Write, source: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A card of a source that says where its agent is."""
    path = write("source.json", json.dumps(source))
    found: dict[str, Any] = json.loads(built(path, **{"url": None, **options}).document)
    return found


def ours(card: dict[str, Any]) -> dict[str, Any]:
    """What our extension holds."""
    extensions = card["capabilities"].get("extensions", [])
    (found,) = (one["params"] for one in extensions if one["uri"] == FIELDS_URI)
    return dict(found)


def test_G2_G3_G6_G8_G10_the_seeds_example_becomes_a_card(write: Write) -> None:
    """Its id moves into our extension; provider, examples, schemes and extensions stay."""
    card = card_of(write, GENERIC)
    assert "id" not in card
    assert ours(card) == {"id": GENERIC["id"], "stateTransitionHistory": True}
    assert card["provider"] == {"url": "https://example.com", "organization": "Example Corp"}
    assert card["skills"] == GENERIC["skills"]
    scheme = card["securitySchemes"]["oauth2"]["oauth2SecurityScheme"]
    assert scheme["flows"] == GENERIC["securitySchemes"]["oauth2"]["flows"]
    assert card["capabilities"]["extensions"][0] == {"uri": "https://example.com/ext"}
    assert "extensions" not in card
    assert "signature" not in card


def test_G2_lint_finds_an_id_at_the_top(write: Write) -> None:
    """And none in the card that is built."""
    places = [
        {one.path for one in lint_card(data).findings if one.severity == "warning"}
        for data in (json.dumps(GENERIC).encode(), json.dumps(card_of(write, GENERIC)).encode())
    ]
    assert ["/id" in one for one in places] == [True, False]


def test_G4_G5_what_the_reference_calls_optional_is_filled(write: Write) -> None:
    """A version and capabilities; the flag that 1.0 does not have is in no capability."""
    source = {
        k: v for k, v in GENERIC.items() if k not in ("version", "capabilities", "extensions")
    }
    card = card_of(write, source)
    assert card["version"] == "0.0.0"
    assert card["capabilities"] == {
        "streaming": False,
        "extensions": list(card["capabilities"]["extensions"]),
    }
    assert "stateTransitionHistory" not in card_of(write, GENERIC)["capabilities"]


def test_the_url_of_the_builder_replaces_the_first_interface(write: Write) -> None:
    """With its binding; the others are left out, and that is said with where they were."""
    grpc = {"url": "https://a.example/g", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    rest = {"url": "https://b.example/r", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    path = write("source.json", json.dumps(PORTABLE | {"supportedInterfaces": [grpc, rest]}))
    card = built(path, url="https://new.example/{name}")
    (left,) = json.loads(card.document)["supportedInterfaces"]
    assert left == grpc | {"url": "https://new.example/tide-tables"}
    (said,) = [one for one in card.reasons if "interface" in one.message]
    assert (said.code, "HTTP+JSON https://b.example/r" in said.message) == ("build.left_out", True)
    assert len(json.loads(built(path, url=None).document)["supportedInterfaces"]) == 2
    alone = write("alone.json", json.dumps(PORTABLE | {"supportedInterfaces": [grpc]}))
    assert "build.left_out" not in codes(built(alone))


@pytest.mark.parametrize("name", ["{host}", "{Name}", "{}"])
def test_a_url_stands_for_the_name_alone(write: Write, name: str) -> None:
    """What it cannot stand for is named, with a command that works."""
    path = write("source.json", json.dumps(PORTABLE))
    with pytest.raises(UsageFault, match=re.escape(name) + ".* is not written as") as refused:
        built(path, url=f"https://{name}/a2a")
    assert "--url 'https://agents.example.com/{name}'" in refused.value.hint


def test_skills_that_are_words_have_these_as_ids(write: Write) -> None:
    """As 0.2 and homemade cards write them; a list of anything else is no list of skills."""
    words = {**GENERIC, "skills": ["flight-search"]}
    path = write("source.json", json.dumps(words))
    with pytest.raises(BuildRefused, match="flight-search"):
        built(path, url=None)
    named = {"skills.flight-search.description": "Searches flights"}
    named["skills.flight-search.name"] = "Flights"
    (skill,) = card_of(write, words, members=named)["skills"]
    assert (skill["id"], skill["description"]) == ("flight-search", "Searches flights")


def test_capabilities_that_are_objects_are_skills(write: Write) -> None:
    """The twin: with anything else among them they are not taken for skills."""
    without = {name: one for name, one in GENERIC.items() if name not in ("skills", "extensions")}
    skills = GENERIC["skills"]
    assert card_of(write, {**without, "capabilities": skills})["skills"] == skills
    path = write("mixed.json", json.dumps({**without, "capabilities": [*skills, "streaming"]}))
    with pytest.raises(BuildRefused) as caught:
        built(path, url=None)
    assert "streaming" not in caught.value.message


@pytest.mark.parametrize("text", ['["text/plain", "image/png"]', "text/plain, image/png"])
def test_a_list_is_set_as_json_or_by_commas(write: Write, text: str) -> None:
    """`--set`, for members that hold several texts."""
    card = card_of(write, GENERIC, members={"defaultInputModes": text})
    assert card["defaultInputModes"] == ["text/plain", "image/png"]


def test_a_member_that_is_set_whole_takes_no_part_of_a_source(write: Write) -> None:
    """An option overrides every source."""
    schemes = '{"b": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}'
    members = {"securitySchemes": schemes, "securityRequirements": '[{"schemes": {"b": {}}}]'}
    assert [*card_of(write, GENERIC, members=members)["securitySchemes"]] == ["b"]


def test_the_form_of_0_2_holds_nothing_that_a_rule_filled(write: Write) -> None:
    """Nor a provider's url, whose filling would not be told; the other forms have it."""
    source = write("card.json", json.dumps({**GENERIC, "provider": {"organization": "Tides"}}))
    old = built(source, a2a="0.2")
    assert json.loads(old.document)["provider"] == {"organization": "Tides"}
    assert "build.filled" not in codes(old)
    card = built(source)
    filled = {"organization": "Tides", "url": "https://agents.example.com"}
    assert json.loads(card.document)["provider"] == filled
    told = [one.message for one in card.reasons if one.code == "build.filled"]
    assert "the provider has no url: https://agents.example.com" in told


def test_G7_a_protocol_is_no_binding(write: Write) -> None:
    """JSONRPC is assumed, with a warning; a binding of A2A is taken as it is."""
    path = write("source.json", json.dumps(GENERIC))
    card = built(path, url=None)
    (interface,) = json.loads(card.document)["supportedInterfaces"]
    assert interface["url"] == "https://example.com/a2a/v1"
    assert interface["protocolBinding"] == "JSONRPC"
    assert any("'a2a' is no protocol binding" in one.message for one in card.reasons)
    said = GENERIC | {"interfaces": [{"protocol": "GRPC", "url": "https://example.com/a2a"}]}
    card = built(write("source.json", json.dumps(said)), url=None)
    assert json.loads(card.document)["supportedInterfaces"][0]["protocolBinding"] == "GRPC"
    assert not any("no protocol binding" in one.message for one in card.reasons)


def test_G9_a_list_of_names_becomes_requirements(write: Write) -> None:
    """With a warning, which A2A's own form does not draw."""
    for security, is_told in ((["oauth2"], True), ([{"oauth2": []}], False)):
        source = json.dumps(GENERIC | {"security": security})
        card = built(write("source.json", source), url=None)
        assert json.loads(card.document)["securityRequirements"] == [{"schemes": {"oauth2": {}}}]
        assert any("becomes a requirement" in one.message for one in card.reasons) is is_told


def test_scopes_that_are_bare_lists_are_wrapped(write: Write) -> None:
    """As a2a-go before 2.4.1 writes them, of the card and of a skill; the twin stays as it is."""
    schemes = {"b": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}
    for scopes in (["read"], {"list": ["read"]}):
        requirements = [{"schemes": {"b": scopes}}]
        skill = {**PORTABLE["skills"][0], "securityRequirements": requirements}
        members = {"securitySchemes": schemes, "securityRequirements": requirements}
        card = card_of(write, {**PORTABLE, **members, "skills": [skill]})
        wrapped = [{"schemes": {"b": {"list": ["read"]}}}]
        assert card["securityRequirements"] == wrapped
        assert card["skills"][0]["securityRequirements"] == wrapped


def test_G16_missing_modes_are_filled_and_listed(write: Write) -> None:
    """With text/plain; modes that are there stay."""
    card = built(write("source.json", json.dumps(GENERIC)), url=None)
    assert json.loads(card.document)["defaultInputModes"] == ["text/plain"]
    assert any("defaultInputModes" in one.message for one in card.reasons)
    said = GENERIC | {"defaultInputModes": ["a/b"], "defaultOutputModes": ["a/b"]}
    card = built(write("source.json", json.dumps(said)), url=None)
    assert json.loads(card.document)["defaultInputModes"] == ["a/b"]
    assert not any("defaultInputModes" in one.message for one in card.reasons)


FLOW = {"tokenUrl": "https://e.example/t", "scopes": {"s": "S"}}
FLOWS: dict[str, Any] = {
    "authorizationCode": {**FLOW, "authorizationUrl": "https://e.example/a"},
    "clientCredentials": FLOW,
    "implicit": {"authorizationUrl": "https://e.example/a", "scopes": {}},
    "password": FLOW,
}


@pytest.mark.parametrize("flow", FLOWS)
def test_G17_every_flow_converts(write: Write, flow: str) -> None:
    """With its scopes; implicit and password draw a warning."""
    schemes = {"login": {"type": "oauth2", "flows": {flow: FLOWS[flow]}}}
    source = GENERIC | {"securitySchemes": schemes, "security": [{"login": ["s"]}]}
    card = built(write("source.json", json.dumps(source)), url=None)
    found = json.loads(card.document)
    scheme = found["securitySchemes"]["login"]["oauth2SecurityScheme"]
    assert scheme["flows"] == {flow: FLOWS[flow]}
    assert found["securityRequirements"] == [{"schemes": {"login": {"list": ["s"]}}}]
    warned = any("is deprecated" in one.message for one in card.reasons)
    assert warned == (flow in ("implicit", "password"))


def test_G17_several_flows_become_schemes_of_their_own(write: Write) -> None:
    """Of which any one will do."""
    two = {name: FLOWS[name] for name in ("authorizationCode", "clientCredentials")}
    schemes = {"login": {"type": "oauth2", "flows": two}}
    source = GENERIC | {"securitySchemes": schemes, "security": [{"login": ["s"]}]}
    card = card_of(write, source)
    assert list(card["securitySchemes"]) == ["login", "login-clientCredentials"]
    assert [list(one["schemes"]) for one in card["securityRequirements"]] == [
        ["login"],
        ["login-clientCredentials"],
    ]


def test_B7_B25_B31_a_contract_card_becomes_a_card(write: Write) -> None:
    """Schemas, id and metadata in our extension, authentication as a scheme; it needs a url."""
    path = write("agent-card.json", json.dumps(CONTRACT))
    with pytest.raises(BuildRefused, match="where the agent is called"):
        build_card([path], BuildOptions())
    card = card_of(write, CONTRACT, url=URL)
    assert card["supportedInterfaces"][0]["url"] == "https://agents.example.com/iam-fix-impl"
    schemas = CONTRACT["skills"][0]
    assert ours(card) == {
        "spiffe_id": CONTRACT["spiffe_id"],
        "metadata": CONTRACT["metadata"],
        "skills": {
            "iam.execute_fix_plan": {
                "inputSchema": schemas["input_schema"],
                "outputSchema": schemas["output_schema"],
            }
        },
    }
    assert card["skills"] == [
        {
            "id": "iam.execute_fix_plan",
            "name": "Execute Fix Plan",
            "description": "Carries out a plan",
            "tags": ["skill"],
        }
    ]
    (scheme,) = card["securitySchemes"].values()
    assert scheme["httpAuthSecurityScheme"]["scheme"] == "bearer"
    assert len(card["securityRequirements"]) == 1


def test_B33_an_unknown_authentication_is_never_open(write: Write) -> None:
    """It is an error with its line."""
    source = CONTRACT | {"authentication": {"type": "magic"}}
    path = write("agent-card.json", json.dumps(source, indent=1))
    with pytest.raises(BuildRefused, match="'magic'") as caught:
        built(path)
    assert caught.value.code == "build.unsupported"
    assert caught.value.finding.place.line is not None
    assert caught.value.finding.place.line > 5


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", ["001", "015", "091", "151", "257", "259"])
def test_B33_every_spelling_of_the_corpus_is_mapped(shared: Path, name: str) -> None:
    """Those that say `none` or `required: false` are open, the others are not."""
    given = json.loads((shared / f"corpus/cards/{name}.json").read_bytes())
    given["skills"] = GENERIC["skills"]
    card = convert_card(given, "1.0")
    assert ("securitySchemes" in card) == (name not in ("015", "259"))
    assert ("securityRequirements" in card) == ("securitySchemes" in card)


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", ["239", "241", "249", "243"])
def test_B34_words_as_capabilities_and_nulls_are_accepted(
    shared: Path, tmp_path: Path, name: str
) -> None:
    """Words go to our extension, and what is null is left out."""
    path = tmp_path / "card.json"
    packed = shared / f"corpus/cards/{name}.json.gz"
    plain = shared / f"corpus/cards/{name}.json"
    path.write_bytes(
        gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    )
    before = json.loads(path.read_bytes())
    card = json.loads(built(path).document)
    assert ours(card)["capabilities"] == before["capabilities"]
    assert None not in card.values()


def test_a_card_comes_back_as_it_was(write: Write) -> None:
    """A 1.0 card without anything unknown; its signatures are never carried across."""
    plain = {
        "name": "a",
        "description": "b",
        "supportedInterfaces": [
            {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "provider": {"url": "https://p.example", "organization": "P"},
        "version": "1.0.0",
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["t"]}],
    }
    assert card_of(write, plain) == plain
    signed = plain | {"signatures": [{"protected": "a", "signature": "b"}]}
    card = built(write("signed.json", json.dumps(signed)), url=None)
    assert json.loads(card.document) == plain
    assert any("signatures are left out" in one.message for one in card.reasons)
    assert "build.changed" in codes(card)


@pytest.mark.needs_shared
def test_a_real_card_in_the_form_of_0_2_says_less(shared: Path, write: Write) -> None:
    """Of an API key a word does not say where it goes, so reading that back is refused."""
    card = built(shared / "corpus/cards/091.json", url=None)
    old = built(write("card.json", card.document.decode()), url=None, a2a="0.2")
    assert json.loads(old.document)["authentication"]["schemes"] == ["apiKey", "bearer"]
    assert "which say less" in " ".join(reason.message for reason in old.reasons)
    with pytest.raises(BuildRefused, match="it needs `in`"):
        built(write("old.json", old.document.decode()), url=None)


@pytest.mark.needs_shared
def test_an_interface_without_a_url_is_left_out(shared: Path, write: Write) -> None:
    """Of a real card, which has its url elsewhere; without any it is refused."""
    path = shared / "corpus/cards/001.json"
    card = built(path, url=None)
    urls = [one["url"] for one in json.loads(card.document)["supportedInterfaces"]]
    assert urls == ["https://api.suwappu.bot"]
    assert "the interface has no url" in [one.message for one in card.reasons]
    bare = {name: one for name, one in json.loads(path.read_bytes()).items() if name != "url"}
    with pytest.raises(BuildRefused, match="no source says where the agent is called"):
        built(write("bare.json", json.dumps(bare)), url=None)


def test_both_gives_two_documents(write: Write) -> None:
    """Each speaks its own version."""
    card = built(write("source.json", json.dumps(CONTRACT)), a2a="both")
    assert list(card.documents) == ["1.0", "0.3"]
    new, old = (json.loads(one) for one in card.documents.values())
    assert new["supportedInterfaces"][0]["protocolVersion"] == "1.0"
    assert old["protocolVersion"] == "0.3.0"
    assert card.document == card.documents["1.0"]


FOREIGN: Any = {"type": "oauth2", "flows": {"device_code": {}}}
KEY: Any = {"type": "http", "scheme": "bearer"}
FOUR: Any = {"type": "oauth2", "flows": {name: FLOWS[name] for name in FLOWS}}
OPENED: dict[str, tuple[dict[str, Any], str]] = {
    "flows that A2A does not know": (
        {"securitySchemes": {"sso": FOREIGN}, "security": [{"sso": []}]},
        "build.type",
    ),
    "a scheme that is not declared": (
        {"securitySchemes": {"k": KEY}, "security": [{"oauth": []}]},
        "build.reference",
    ),
    "an object of requirements": (
        {"securitySchemes": {"k": KEY}, "security": {"k": []}},
        "build.type",
    ),
    "an object of requirements of 1.0": (
        {"securitySchemes": {"k": KEY}, "securityRequirements": {"k": []}},
        "build.type",
    ),
    "an object in a skill": (
        {"securitySchemes": {"k": KEY}, "skills": [{**GENERIC["skills"][0], "security": {}}]},
        "build.type",
    ),
    "a credential of no kind": ({"authentication": {"required": True}}, "build.unsupported"),
    "a credential that is none": (
        {"authentication": {"required": True, "type": "none"}},
        "build.unsupported",
    ),
    "flows of many schemes": (
        {
            "securitySchemes": {f"s{n}": FOUR for n in range(40)},
            "security": [{f"s{n}": [] for n in range(40)}],
        },
        "build.limit",
    ),
    "words without end": ({"authentication": {"schemes": ["bearer"] * 65}}, "build.limit"),
}


@pytest.mark.parametrize(("members", "code"), OPENED.values(), ids=OPENED)
def test_what_cannot_be_carried_over_is_refused(
    write: Write, members: dict[str, Any], code: str
) -> None:
    """Rather than built as a card that lets everybody in."""
    source = {k: v for k, v in GENERIC.items() if k not in ("securitySchemes", "security")}
    with pytest.raises(BuildRefused) as caught:
        card_of(write, source | members)
    assert caught.value.code == code


def test_a_scheme_of_a_flow_gets_a_free_name(write: Write) -> None:
    """A scheme that has the name already stays, and both are still required; it is said."""
    schemes = {"login": FOUR, "login-clientCredentials": {"type": "http", "scheme": "basic"}}
    security: Any = [{"login": [], "login-clientCredentials": []}]
    source = GENERIC | {"securitySchemes": schemes, "security": security}
    card = built(write("source.json", json.dumps(source)), url=None)
    found = json.loads(card.document)
    basic = {"httpAuthSecurityScheme": {"scheme": "basic"}}
    assert found["securitySchemes"]["login-clientCredentials"] == basic
    assert "login-clientCredentials-2" in found["securitySchemes"]
    assert all(len(one["schemes"]) == 2 for one in found["securityRequirements"])
    assert any("login-clientCredentials-2" in one.message for one in card.reasons)


def test_as_many_ways_as_the_limit_are_built(write: Write) -> None:
    """Each with a name of its own."""
    source = {k: v for k, v in GENERIC.items() if k not in ("securitySchemes", "security")}
    card = card_of(write, source | {"authentication": {"schemes": ["bearer"] * 64}})
    assert len(card["securitySchemes"]) == len(card["securityRequirements"]) == 64


def test_F36_of_several_sources_each_earlier_one_wins(build: Build, write: Write) -> None:
    """Also where one of another kind stands between two of one kind."""
    cards = [
        write(f"{name}.json", json.dumps({**PORTABLE, "description": name, **more}))
        for name, more in (("one", {"version": "1.1.1"}), ("two", {"documentationUrl": DOCS}))
    ]
    one, two = cards
    parsed = json.loads(one.read_bytes())
    del parsed["description"]
    one.write_text(json.dumps(parsed))
    skill = write("agent/SKILL.md", "---\nname: harbour\ndescription: of the skill\n---\n").parent

    built = build(one, skill, two)

    assert (built["version"], built["description"]) == ("1.1.1", "of the skill")
    assert built["documentationUrl"] == DOCS
    assert build(one, two, skill)["description"] == "two"
