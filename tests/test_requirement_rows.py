"""The rows of docs/reference/requirements.md that are done, each shown once from the outside.

A test is named after its rows. What a row does in every corner is tested beside its module.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from publications import NOW, PUBLIC, publish_cards, with_skill
from werkzeug.test import Client

from cardsign import CardRefused, JwkSet, Policy, PrivateKey, examine_card, sign_card, verify_card
from cardsign.card import (
    MAX_CARD_BYTES,
    MAX_CARD_VALUES,
    MAX_DEPTH,
    MAX_SIGNATURES,
    PROFILES,
    Card,
    convert_card,
)
from cardsign.cli import command_line as cli
from cardsign.diff import diff_cards
from cardsign.errors import FetchFailed, JsonRefused
from cardsign.jose import PublicKey, read_entry
from cardsign.net import DocumentFetcher, FetchSettings, fetch_document
from cardsign.server import (
    MAX_REQUEST_BYTES,
    LiveApplication,
    ServerSettings,
    TokenTable,
    create_token,
)
from cardsign.trust import FetchResult, Holder
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH

# --------------------------------------------------------------------------- serving


@pytest.fixture
def directory(tmp_path: Path, alice: PrivateKey) -> Path:
    """A publication: the public card, and extended ones for two audiences."""
    publish_cards(tmp_path, alice, PUBLIC, "partner", "staff")
    return tmp_path


@pytest.fixture
def tokens() -> dict[str, str]:
    """A bearer token by audience; filled by `client`."""
    return {}


@pytest.fixture
def client(directory: Path, tokens: dict[str, str]) -> Client:
    """A server over the publication, with one token for each audience."""
    lines = []
    for audience in ("partner", "staff"):
        tokens[audience], line = create_token(audience)
        lines.append(line)
    table = TokenTable.from_bytes("\n".join(lines).encode())
    return Client(
        LiveApplication(
            directory, ServerSettings(table), now=lambda: NOW.timestamp(), log=lambda line: None
        )
    )


def test_F1_G1_B29_the_card_is_at_the_well_known_path(client: Client, directory: Path) -> None:
    """GET answers the published bytes as JSON."""
    answer = client.get("/.well-known/agent-card.json")
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    assert answer.data == (directory / "000001/agent-card.json").read_bytes()


@pytest.mark.parametrize("token", ["", "wrong"], ids=["no token", "a wrong token"])
def test_F6_public_paths_never_ask_who_is_there(client: Client, token: str) -> None:
    """They answer whoever asks, where everything else wants a token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    assert client.get("/.well-known/agent-card.json", headers=headers).status_code == 200
    assert client.get("/.well-known/jwks.json", headers=headers).status_code == 200
    assert client.get("/rest/v1/extendedAgentCard", headers=headers).status_code == 401


def test_F38_what_is_served_is_fixed_when_it_is_loaded(client: Client, directory: Path) -> None:
    """A file that changes under the server changes no answer."""
    before = client.get("/.well-known/agent-card.json").data
    path = directory / "000001/agent-card.json"
    path.chmod(0o644)
    path.write_bytes(b"{}")
    assert client.get("/.well-known/agent-card.json").data == before


def test_O17_a_request_beyond_the_limit_is_refused(client: Client) -> None:
    """The server reads no more of a body than a call needs."""
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    assert client.post("/a2a", json=call).status_code == 401
    call["params"] = {"padding": "x" * MAX_REQUEST_BYTES}
    assert client.post("/a2a", json=call).status_code == 413


@pytest.mark.parametrize(("method", "code"), [("SendMessage", -32004), ("NoSuchMethod", -32601)])
def test_O19_a_server_answers_foreign_methods(client: Client, method: str, code: int) -> None:
    """A card server sends no message on: A2A's error for its own methods, JSON-RPC's for others."""
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    answer = client.post("/a2a", json=call, headers={"A2A-Version": "1.0"})
    assert answer.json is not None
    assert answer.json["error"]["code"] == code


@pytest.mark.parametrize("audience", ["partner", "staff"])
def test_O24_each_audience_sees_its_own_skills(
    client: Client, tokens: dict[str, str], audience: str
) -> None:
    """The token decides which extended card is answered."""
    answer = client.get(
        "/rest/v1/extendedAgentCard", headers={"Authorization": f"Bearer {tokens[audience]}"}
    )
    assert json.loads(answer.data)["skills"] == with_skill(PUBLIC, audience)["skills"]


# --------------------------------------------------------------- reading and signing

NOT_STRICT = {
    "no JSON": b"{'name': 1}",
    "two members of one name": b'{"name": "a", "name": "b"}',
    "NaN": b'{"name": NaN}',
    "a byte order mark": b'\xef\xbb\xbf{"name": "a"}',
}


@pytest.mark.parametrize("data", NOT_STRICT.values(), ids=NOT_STRICT)
def test_B3_a_card_is_strict_json(data: bytes, alice: PrivateKey) -> None:
    """What two readers could read in two ways is neither read nor signed."""
    with pytest.raises(JsonRefused):
        Card.from_bytes(data)
    with pytest.raises(JsonRefused):
        sign_card(data, [alice])


def card_with(**members: Any) -> bytes:
    """The public card with other members."""
    return json.dumps({**PUBLIC, **members}).encode()


def nested(levels: int) -> Any:
    """Lists in one another."""
    return [nested(levels - 1)] if levels > 1 else []


#: By what is bounded: the largest card that is read, one beyond it, and what is said of that.
BOUNDS: dict[str, tuple[bytes, bytes, str]] = {
    "bytes": (
        card_with().ljust(MAX_CARD_BYTES),
        card_with().ljust(MAX_CARD_BYTES + 1),
        "json.too_large",
    ),
    "depth": (
        card_with(x=nested(MAX_DEPTH - 1)),
        card_with(x=nested(MAX_DEPTH)),
        "json.depth",
    ),
    "values": (
        card_with(x=[0] * (MAX_CARD_VALUES - 100)),
        card_with(x=[0] * MAX_CARD_VALUES),
        "json.too_many_values",
    ),
    "signatures": (
        card_with(signatures=[{}] * MAX_SIGNATURES),
        card_with(signatures=[{}] * (MAX_SIGNATURES + 1)),
        "card.signatures_too_many",
    ),
}


@pytest.mark.parametrize(("most", "beyond", "code"), BOUNDS.values(), ids=BOUNDS)
def test_O14_a_card_is_bounded(most: bytes, beyond: bytes, code: str, alice: PrivateKey) -> None:
    """What is beyond a bound is told by it; what is within is judged by its signatures."""
    policy = Policy.from_jwks(JwkSet.of([alice.public]), name="alice")
    codes = [
        {one.code for one in examine_card(data, expect=Holder(), policy=policy, now=NOW).reasons}
        for data in (most, beyond)
    ]
    assert (code in codes[0], code in codes[1]) == (False, True)


@pytest.mark.parametrize("count", [1, MAX_SIGNATURES, MAX_SIGNATURES + 1])
def test_O14_the_work_for_one_card_is_bounded(
    count: int, alice: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is bounded by counting: a few checks for each signature, and none for one too many."""
    checks: list[bytes] = []
    check = PublicKey.check

    def counting(self: PublicKey, signing_input: bytes, signature: bytes) -> None:
        checks.append(signature)
        check(self, signing_input, signature)

    (entry,) = json.loads(sign_card(card_with(), [alice], compat=()))["signatures"]
    data = card_with(name="edited", signatures=[entry] * count)
    policy = Policy.from_jwks(JwkSet.of([alice.public]), name="alice")
    monkeypatch.setattr(PublicKey, "check", counting)
    report = examine_card(data, expect=Holder(), policy=policy, now=NOW)
    assert report.verdict == "invalid"
    most = count * len(PROFILES) if count <= MAX_SIGNATURES else 0
    assert min(count, most) <= len(checks) <= most


def test_G11_a_single_signature_block_is_refused_and_explained(alice: PrivateKey) -> None:
    """It is never taken for a signature, never converted, and the way out is named."""
    block = {"algorithm": "RS256", "keyId": "key-001", "value": "AAAA"}
    card = json.dumps({**PUBLIC, "signature": block}).encode()
    policy = Policy.from_jwks(JwkSet.of([alice.public]), name="alice")
    report = examine_card(card, expect=Holder(), policy=policy, now=NOW)
    assert report.verdict == "untrusted"
    assert [reason.code for reason in report.reasons] == ["sig.none", "card.single_signature_block"]
    with pytest.raises(CardRefused) as refused:
        sign_card(card, [alice])
    assert refused.value.code == "card.single_signature_block"


def test_G12_RS256_with_a_name_of_the_issuers_own() -> None:
    """An imported key keeps the kid that it was published under."""
    key = PrivateKey.generate("RS256", kid="key-001")
    signed = sign_card(json.dumps(PUBLIC).encode(), [key])
    header = read_entry(Card.from_bytes(signed).signatures[0]).header
    assert (header.alg, header.kid) == ("RS256", "key-001")
    policy = Policy.from_jwks(JwkSet.of([key.public]), name="issuer")
    verify_card(signed, expect=Holder(), policy=policy, now=NOW)


def test_G14_inspect_shows_capabilities_skills_and_security(tmp_path: Path) -> None:
    """What a client wants to know before it calls."""
    path = tmp_path / "card.json"
    path.write_text(json.dumps(PUBLIC))
    shown = json.loads(CliRunner().invoke(cli, ["inspect", str(path), "--json"]).stdout)
    assert shown["extended_card"]
    (skill,) = shown["skills"]
    assert (skill["id"], skill["name"], bool(skill["description"])) == ("tides", "Tides", True)
    (scheme,) = shown["schemes"]
    assert (scheme["name"], scheme["type"]) == ("harbour", "http")
    (requirement,) = shown["requirements"]
    assert requirement == {"harbour": ["read"]}
    assert "extendedAgentCard" in shown["capabilities"]


# -------------------------------------------------------------------- asking a peer

TRYING = FetchSettings(
    total_timeout=2.0,
    insecure_loopback_http=True,
)


@dataclass
class Peer:
    """A peer on this machine: what it answers by path, and what it was asked."""

    answers: dict[str, tuple[int, bytes]]
    url: str = ""
    paths: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A peer that answers 404 until told otherwise."""
    told = Peer({})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.paths.append(self.path)
            told.agents.append(self.headers["User-Agent"])
            status, body = told.answers.get(self.path, (404, b""))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield told
        server.shutdown()
        thread.join()


def ask_card(url: str, settings: FetchSettings = TRYING) -> FetchResult:
    """What a host's card is, asked without any memory."""
    return DocumentFetcher(settings, now=lambda: datetime.now(UTC)).fetch_card(url)


def refusal(answer: FetchResult) -> str:
    """Why there is none."""
    return answer.failure.code if answer.failure else "none"


def test_O5_the_canonical_path_is_asked_first_then_the_legacy_one(peer: Peer) -> None:
    """Whichever answered is named."""
    peer.answers = {LEGACY_CARD_PATH: (200, b"{}")}
    legacy = ask_card(peer.url)
    assert legacy.url == peer.url + LEGACY_CARD_PATH
    assert peer.paths == [CARD_PATH, LEGACY_CARD_PATH]
    peer.answers |= {CARD_PATH: (200, b"{}")}
    canonical = ask_card(peer.url)
    assert canonical.url == peer.url + CARD_PATH


def test_O6_O25_a_silent_peer_costs_a_bounded_time() -> None:
    """The deadline is for all of it: name, connection, answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/card.json"
        settings = FetchSettings(total_timeout=0.2, insecure_loopback_http=True)
        with pytest.raises(FetchFailed) as failed:
            fetch_document(url, settings)
    assert failed.value.code == "fetch.timeout"


def test_O7_a_request_says_who_asks(peer: Peer) -> None:
    """Name and, where it is installed, version."""
    peer.answers = {CARD_PATH: (200, b"{}")}
    ask_card(peer.url)
    assert peer.agents[0].partition("/")[0] == "cardsign"


PRIVATE = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_O15_a_name_that_leads_inside_is_not_asked(address: str) -> None:
    """What a name resolves to decides, and nothing is connected."""
    dialled: list[object] = []

    def dial(*where: object) -> socket.socket:
        dialled.append(where)
        raise AssertionError

    settings = FetchSettings(resolver=lambda _: [ip_address(address)], dial=dial)
    assert refusal(ask_card("https://peer.example", settings)) == "fetch.forbidden_address"
    assert dialled == []


def test_O15_a_redirect_leads_nowhere(peer: Peer) -> None:
    """So it cannot lead inside either."""
    peer.answers = {CARD_PATH: (302, b""), "/elsewhere": (200, b"{}")}
    assert refusal(ask_card(peer.url)) == "fetch.status"
    assert peer.paths == [CARD_PATH]


def test_O17_an_answer_beyond_the_limit_is_refused(peer: Peer) -> None:
    """A card of the largest size is taken, one byte more is not."""
    peer.answers = {CARD_PATH: (200, b" " * MAX_CARD_BYTES)}
    assert len(ask_card(peer.url).untrusted_body) == MAX_CARD_BYTES
    peer.answers = {CARD_PATH: (200, b" " * (MAX_CARD_BYTES + 1))}
    assert refusal(ask_card(peer.url)) == "fetch.too_large"


# --------------------------------------------------------------------------- comparing

#: The example of a contract: what an agent promises to whom it works for.
CONTRACT: dict[str, Any] = {
    "name": "iam-adk",
    "version": "1.4.0",
    "skills": [
        {
            "skill_id": "iam.check_adk_compliance",
            "name": "Check ADK compliance",
            "description": "Check a file against the rules",
            "input_schema": {
                "type": "object",
                "required": ["target"],
                "properties": {
                    "target": {"type": "string"},
                    "focus_rules": {"type": "array", "items": {"enum": ["R1", "R2"]}},
                },
            },
            "output_schema": {
                "type": "object",
                "required": ["compliance_status"],
                "properties": {"compliance_status": {"type": "string"}},
            },
        }
    ],
}
TARGET: dict[str, Any] = CONTRACT["skills"][0]["input_schema"]


def contract(version: str = "1.4.0", **input_schema: Any) -> bytes:
    """The contract with another version and another input schema of its skill."""
    skill = {**CONTRACT["skills"][0], "input_schema": {**TARGET, **input_schema}}
    return json.dumps({**CONTRACT, "version": version, "skills": [skill]}).encode()


def contract_with(*skills: dict[str, Any]) -> bytes:
    """The contract with these skills."""
    return json.dumps({**CONTRACT, "skills": list(skills)}).encode()


def effects(new: bytes) -> set[str]:
    """What the changes of the contract mean for a caller."""
    return {one.effect for one in diff_cards(contract(), new).changes}


def test_B17_B29_a_change_needs_a_version_that_says_so() -> None:
    """A break needs a major version, a new skill a minor one, words a patch; less is refused."""
    breaks: dict[str, Any] = {"required": ["target", "focus_rules"]}
    assert diff_cards(contract(), contract("2.0.0", **breaks)).version_verdict == "enough"
    assert diff_cards(contract(), contract("1.5.0", **breaks)).version_verdict == "too-low"
    added = json.loads(contract_with(*CONTRACT["skills"], {"skill_id": "iam.run_audit"}))
    for version, verdict in (("1.5.0", "enough"), ("1.4.1", "too-low")):
        new = json.dumps({**added, "version": version}).encode()
        assert diff_cards(contract(), new).version_verdict == verdict
    assert diff_cards(contract(), contract("1.4.1", title="Task")).version_verdict == "enough"
    assert diff_cards(contract(), contract("1.4.0", title="Task")).version_verdict == "too-low"


def test_B18_changes_that_break_nobody() -> None:
    """A new optional member, a new skill, a new value of an enum, a better description."""
    more = {**TARGET["properties"], "depth": {"type": "integer"}}
    assert effects(contract(properties=more)) == {"additive"}
    values = {
        **TARGET["properties"],
        "focus_rules": {"type": "array", "items": {"enum": ["R1", "R2", "R3"]}},
    }
    assert effects(contract(properties=values)) == {"additive"}
    assert effects(contract_with(*CONTRACT["skills"], {"skill_id": "iam.run_audit"})) == {
        "additive"
    }
    skill = {**CONTRACT["skills"][0], "description": "Check a file against the rules R1 to R8"}
    assert effects(contract_with(skill)) == {"wording"}


def test_B19_changes_that_break_a_caller() -> None:
    """A removed member, another type, a member that is required now, a removed or renamed skill."""
    target = {"target": TARGET["properties"]["target"]}
    assert "breaking" in effects(contract(properties=target))
    assert "breaking" in effects(
        contract(properties={**TARGET["properties"], "target": {"type": "null"}})
    )
    assert "breaking" in effects(contract(required=["target", "focus_rules"]))
    assert "breaking" in effects(contract_with())
    renamed = {**CONTRACT["skills"][0], "skill_id": "iam.audit_adk"}
    assert effects(contract_with(renamed)) == {"breaking"}
    assert effects(contract()) == set()


@pytest.mark.parametrize("is_marked", [True, False], ids=["announced", "without a word"])
def test_B20_a_skill_that_goes_was_marked_before(is_marked: bool) -> None:
    """A built card keeps the mark in our extension, and `diff` says whether there was one."""
    marks = {"deprecated": True} if is_marked else {}
    going = {"id": "iam_check", "name": "Check", "description": "Check a file", "tags": ["adk"]}
    written = {**PUBLIC, "skills": [*PUBLIC["skills"], {**going, **marks}]}
    built = convert_card(written, "1.0").document
    assert ("deprecated" in json.dumps(built["capabilities"])) is is_marked
    staying = convert_card(PUBLIC, "1.0").document
    changes = diff_cards(json.dumps(built).encode(), json.dumps(staying).encode()).changes
    (gone,) = (one for one in changes if one.path == "/skills/1")
    how = " after it was deprecated" if is_marked else ", and was not marked as deprecated before"
    assert (gone.effect, gone.message) == ("breaking", f"skill 'iam_check' was removed{how}")
