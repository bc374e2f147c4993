"""Whatever is sent, the answer is one of ours; `exchanges` say which."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from werkzeug.http import parse_etags

from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import Policy, Subject
from tests.server.served import Site
from tests.support import reach_verdict

VALUES = st.one_of(
    st.none(),
    st.text(st.characters(max_codepoint=255)),
    st.datetimes().map(lambda when: when.strftime("%a, %d %b %Y %H:%M:%S GMT")),
    st.from_regex(r"(Sat|Mon), [0-9]{1,2} (Jan|Dec) [0-9]{1,5} [0-9]{2}:[0-9]{2}:00 [+-][0-9]{4}"),
    st.lists(st.sampled_from(["ETAG", "*", '"', "W/", ",", '"x"'])).map("".join),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["GetExtendedAgentCard", "GetTask", "x"]) | JSON,
        "params": JSON,
    },
).map(lambda envelope: json.dumps(envelope).encode())

CARD = "/.well-known/agent-card.json"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
within_one_site = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@within_one_site
@example(if_none_match=None, if_modified_since="0 JAN 0:0 2200000000")
@given(if_none_match=VALUES, if_modified_since=VALUES)
def test_any_condition_is_answered_200_or_304(
    site: Site, if_none_match: str | None, if_modified_since: str | None
) -> None:
    """Never an exception, and 304 without a matching tag only by a date."""
    tag = site.client.get(CARD).headers["ETag"]
    said = {"HTTP_IF_NONE_MATCH": if_none_match, "HTTP_IF_MODIFIED_SINCE": if_modified_since}
    over = {name: value.replace("ETAG", tag) for name, value in said.items() if value is not None}
    answer = site.client.get(CARD, environ_overrides=over)

    assert answer.status_code in (200, 304)
    if answer.status_code == 304 and parse_etags(if_none_match):
        assert tag in over["HTTP_IF_NONE_MATCH"] or "*" in over["HTTP_IF_NONE_MATCH"]


@within_one_site
@given(body=st.binary() | ENVELOPES)
def test_any_body_gets_a_json_rpc_answer_or_none(site: Site, body: bytes) -> None:
    """A result for what asks for the card alone; an id that comes back is the one that was sent."""
    answer = site.client.post("/a2a", data=body, headers=site.bearer())

    if answer.status_code == 204:
        assert answer.data == b""
        assert "id" not in json.loads(body)
    else:
        assert answer.status_code == 200
        answered = json.loads(answer.data)
        assert len(answered.keys() & {"result", "error"}) == 1
        assert answered["id"] is None or answered["id"] == json.loads(body)["id"]
        assert "result" not in answered or json.loads(body)["method"] == "GetExtendedAgentCard"
    refused = site.client.post("/a2a", data=body)
    assert (refused.status_code, json.loads(refused.data)["id"]) == (401, None)


@within_one_site
@given(value=st.text(st.characters(min_codepoint=32, max_codepoint=255)))
def test_no_invented_header_opens_the_extended_card(site: Site, value: str) -> None:
    """401 for whatever is no token, as itself and behind the scheme."""
    for authorization in (value, f"Bearer {value}"):
        headers = {"Authorization": authorization}
        assert site.client.get("/extendedAgentCard", headers=headers).status_code == 401


def test_a_fault_of_ours_is_a_plain_500_and_tells_no_token(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """JSON for the client, a traceback for the operator, a token for neither."""

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("cardsign.server.a2a.ExtendedCards.authenticate", fail)
    site.client.application.testing = False
    answer = site.client.get("/extendedAgentCard", headers=site.bearer())

    assert answer.status_code == 500
    assert answer.json == {
        "error": {"code": 500, "status": "INTERNAL", "message": "Internal Server Error"}
    }
    assert "RuntimeError: broken" in caplog.text
    assert site.token not in caplog.text


def test_no_token_is_ever_logged(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a right one nor a wrong one."""
    site.client.get("/extendedAgentCard", headers=site.bearer())
    site.client.get("/extendedAgentCard", headers={"Authorization": "Bearer wrong-token"})

    said = "".join(capfd.readouterr()) + "".join(site.log)
    assert site.token not in said
    assert "wrong-token" not in said


def test_the_result_verifies_after_a_client_wrote_it_anew(site: Site) -> None:
    """A client parses the answer and has only the object, not our bytes."""
    answer = site.client.post("/a2a", json=CALL, headers=site.bearer())
    assert answer.json is not None

    policy = Policy.from_jwks(JwkSet.from_bytes(site.generation.jwks), name="peer")
    report = reach_verdict(
        json.dumps(answer.json["result"]).encode(),
        expect=Subject(issuer="peer", audience="staff"),
        policy=policy,
        now=site.generation.published_at,
    )
    assert report.verdict == "trusted"
