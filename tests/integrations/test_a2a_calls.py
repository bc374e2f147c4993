"""For users of a2a-sdk: its client over our transport, a resolver, and functions for its hooks."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from cardsign import verify_card
from cardsign.errors import CallFailed, CardsignError, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.endpoints import BEARER, Credential, Endpoint, Header, Peer, endpoints_of
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import CARD_PATH, parse_origin, parse_place
from cardsign.verify.report import NotTrusted, VerifiedCard
from cardsign.verify.verifier import Verifier
from tests.net.internet import Answer, Host, Network, Request, Takeover
from tests.net.peers import http
from tests.publish.publications import PUBLIC, PUBLIC_0_3, extended_card, sign
from tests.server.programs import PATIENCE
from tests.statements.making import key
from tests.support import PORTABLE, each_case, put

pytestmark = pytest.mark.needs_a2a

HOST = "https://tides.example"
TOKEN = "tok-9b3a5c77e0"
CARD = {**PUBLIC, "capabilities": {"streaming": True}}
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "at noon"}]}}
CREDENTIAL = Credential("env:TIDES")
TOKEN_HEADER = Header.of(parse_origin(HOST), BEARER, TOKEN)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDES", TOKEN)


ANCHOR = KeysAnchor(JwkSet.of([key("card").public]), {})
TIDES = TrustedIssuer("tides", ANCHOR, (parse_place(HOST),), freshness="waived")


def peer(network: Network, card: dict[str, Any]) -> Peer:
    """The agent, whose card is trusted."""
    return Peer(f"{HOST}/card", card, Policy((TIDES,)), TIDES, network.settings())


def agent(
    network: Network,
    card: dict[str, Any] = CARD,
    endpoint: Endpoint | None = None,
    header: Header | None = TOKEN_HEADER,
    seconds: float = PATIENCE,
) -> Any:
    """An endpoint of a card that was verified, the first one if none is named."""
    from cardsign.integrations.calling import Call

    return Call(peer(network, card), endpoint or endpoints_of(card)[0], header, seconds)


def call(network: Network, *args: Any, **how: Any) -> Any:
    """Ask that endpoint, with a token for the peer."""
    return asyncio.run(agent(network, *args, **how).send_text("when?"))


def answering(status: str, headers: dict[str, str], body: str) -> Answer:
    """An answer that may repeat what was asked."""

    def answer(request: Request) -> bytes:
        def fill_in(text: str) -> str:
            text = text.replace("ID", json.dumps(json.loads(request.body)["id"]))
            text = text.replace("DEEP", '{"a":' * 900 + "{}" + "}" * 900)
            return text.replace("TOKEN", request.headers.get("authorization", ""))

        fields = {name: fill_in(value) for name, value in headers.items()}
        return http(fill_in(body).encode(), status=status, **fields)

    return answer


def result(value: Any) -> Answer:
    body = '{"jsonrpc": "2.0", "id": ID, "result": RESULT}'
    return answering("200 OK", {}, body.replace("RESULT", json.dumps(value)))


def keep_silent(connection: Any) -> None:
    """Say nothing after the head."""
    connection.sendall(http(b"", content_length=None, connection="close"))
    connection.recv(1)


AT_NOON = result(MESSAGE)


@each_case(__file__, "hostile", "status", "headers", "body", "code")
def test_a_hostile_agent(
    status: str,
    headers: dict[str, str],
    body: str,
    code: str,
    network: Network,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One of our own errors, in bounded time; nobody else is asked, and the token shows nowhere."""
    network.host("evil.example", AT_NOON)
    answer = answering(status, headers, body) if status else Takeover(keep_silent)
    network.host("tides.example", answer)
    with caplog.at_level(logging.DEBUG), pytest.raises(CardsignError) as caught:
        call(network, seconds=1 if code == "fetch.timeout" else PATIENCE)

    assert (caught.value.code, caught.value.exit_status) == (code, 3)
    assert caught.value.message.isprintable()
    below: BaseException | None = caught.value
    while below is not None:  # whoever logs all that an error holds logs no header of ours
        assert not isinstance(below, httpx.RequestError | httpx.HTTPStatusError)
        below = below.__cause__ or below.__context__
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert TOKEN not in shown + caplog.text
    assert network.told(TOKEN.encode()) == {"tides.example"}
    assert set(network.names) == {"tides.example"}


@pytest.mark.parametrize("header", [TOKEN_HEADER, None], ids=["a token", "none"])
def test_the_sdk_has_no_choice_of_endpoints(network: Network, header: Header | None) -> None:
    """It would take the card's first; and a token goes to its own origin alone."""
    network.host("cdn.example", result(MESSAGE))
    network.host("tides.example", result(MESSAGE))
    own = PUBLIC["supportedInterfaces"][0]
    card = {**CARD, "supportedInterfaces": [{**own, "url": "https://cdn.example/a2a"}, own]}
    for endpoint in endpoints_of(card):
        assert call(network, card, endpoint, header).text == "at noon"
    assert network.names == ["cdn.example", "tides.example"]
    assert network.told(TOKEN.encode()) == ({"tides.example"} if header else set())


def test_who_has_a_credential_is_not_called_without_it(network: Network) -> None:
    """That the card's endpoints stand elsewhere is for the user to decide."""
    from cardsign.integrations.calling import open_call

    elsewhere = {**PUBLIC["supportedInterfaces"][0], "url": "https://cdn.example/a2a"}
    card = {**CARD, "supportedInterfaces": [elsewhere]}
    for secret, code in ((CREDENTIAL, "credential.elsewhere"), (None, "call.no_interface")):
        with pytest.raises(CardsignError) as caught:
            open_call(peer(network, card), secret, seconds=PATIENCE)
        assert caught.value.code == code
    assert network.names == []


@pytest.mark.parametrize("tenant", ["../../other", "..", "a/../../b"])
def test_nothing_is_sent_out_of_the_endpoints_own_path(tenant: str, network: Network) -> None:
    """Also where an endpoint were made that `endpoints_of` would not give."""
    host = network.host("tides.example", http(json.dumps(MESSAGE).encode()))
    rest = {**PUBLIC["supportedInterfaces"][1], "url": f"{HOST}/agents/a"}
    card = {**CARD, "supportedInterfaces": [rest]}
    good = endpoints_of(card)[0]
    with pytest.raises(CardsignError) as caught:
        call(network, card, replace(good, tenant=tenant), None)
    assert caught.value.code == "fetch.elsewhere"
    assert host.requests == []
    for endpoint in (good, replace(good, tenant="t1")):
        assert call(network, card, endpoint, None).text == "at noon"
    assert [one.partition("?")[0] for one in host.targets] == [
        "POST /agents/a/message:send",
        "POST /agents/a/t1/message:send",
    ]


@each_case(__file__, "replies", "text", "reply")
def test_what_an_honest_agent_answers(text: str, reply: list[Any], network: Network) -> None:
    """It may come before the task ends, and parts may be no text; the token is in one request."""
    answer = json.loads(text.replace("TOKEN", TOKEN))
    host = network.host("tides.example", result(answer))
    received = call(network)
    assert astuple(received) == tuple(reply)
    assert received.is_refusal is (received.state == "TASK_STATE_REJECTED")
    assert host.targets == ["POST /a2a"]
    assert host.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert host.requests[0].headers["user-agent"].startswith("cardsign")
    if received.task:
        network.host("tides.example", result(answer["task"]))
        assert asyncio.run(agent(network).ask_task("t")) == received
        with pytest.raises(CallFailed, match="other than the one asked about"):
            asyncio.run(agent(network).ask_task("other"))


def test_a_card_that_the_sdk_cannot_read(network: Network) -> None:
    """It may be trusted all the same."""
    with pytest.raises(CallFailed, match=r"call\.no_interface"):
        call(network, {**CARD, "skills": "none"})


# ------------------------------------------------------------------ `trusted_client`


async def told(client: Any, text: str = "when?") -> str:
    """Send a text by the SDK's client; the text of its last answer."""
    from a2a.helpers import get_message_text, new_text_message
    from a2a.types import Role, SendMessageRequest

    answer = ""
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
    async for event in client.send_message(request):
        answer = get_message_text(event.message)
    return answer


def talk(network: Network, use: Any = told, **making: Any) -> Any:
    """Use a trusted client of the agent, which has the credential."""
    from cardsign.integrations.calling import trusted_client

    async def run() -> Any:
        verifier = Verifier(Policy((TIDES,)), net=network.settings(), **making)
        async with trusted_client(verifier, HOST, credential=CREDENTIAL) as client:
            return await use(client)

    return asyncio.run(run())


def serve(network: Network, card: bytes, agent: Answer = AT_NOON) -> Host:
    return network.host("tides.example", {CARD_PATH: http(card), "/a2a": agent})


def test_no_other_agent_is_called(network: Network) -> None:
    """Of a stranger's card nothing but the card is asked for, and no credential is sent."""
    from cardsign.integrations.a2a_sdk import CardNotTrusted

    host = serve(network, sign(PUBLIC, key("mallory")))
    with pytest.raises(CardNotTrusted) as caught:
        talk(network)
    assert "key.unknown" in [reason.code for reason in caught.value.report.reasons]
    assert set(host.targets) == {f"GET {CARD_PATH}"}
    assert network.told(TOKEN.encode()) == set()


def test_the_credential_goes_inside_the_issuers_origins(network: Network) -> None:
    """As the verified card wants it; the client follows no redirect with it."""
    host = serve(network, sign(PUBLIC, key("card")))
    assert talk(network) == "at noon"
    assert [one.headers.get("authorization") for one in host.requests] == [None, f"Bearer {TOKEN}"]
    network.host("evil.example", AT_NOON)
    elsewhere = http(b"", status="307 There", location="https://evil.example/a2a")
    serve(network, sign(PUBLIC, key("card")), elsewhere)
    with pytest.raises(Exception, match="307"):
        talk(network)
    assert "evil.example" not in network.names


def test_the_client_calls_its_endpoint_and_ends_with_the_verdict(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the SDK's. A later call would rest on a card that may be revoked by then."""
    from a2a.client import Client
    from a2a.types import GetExtendedAgentCardRequest

    host = serve(network, sign(PUBLIC, key("card")))
    begun = datetime(2026, 3, 1, tzinfo=UTC)
    now = begun
    monkeypatch.setattr(  # pinned keys set no end, so this verdict is given one
        VerifiedCard, "valid_until", property(lambda card: begun + timedelta(hours=1))
    )

    async def use(client: Client) -> None:
        nonlocal now
        assert isinstance(client, Client)
        assert [await told(client), await told(client, "and then?")] == ["at noon"] * 2
        with pytest.raises(UsageFault, match="extended"):  # which the SDK would take unverified
            await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        now = begun + timedelta(hours=2)
        await told(client)

    with pytest.raises(CallFailed) as caught:
        talk(network, use, clock=lambda: now)
    assert caught.value.code == "call.verdict_over"
    assert host.targets == [f"GET {CARD_PATH}", "POST /a2a", "POST /a2a"]


# ------------------------------------------------------------------ a resolver, and hooks

POLICY = Policy((TIDES,))


def own(card: dict[str, Any], signer: str = "card") -> bytes:
    return sign(card, key(signer))


def verified(served: bytes) -> Any:
    return verify_card(served, issuer="tides", policy=POLICY, now=datetime.now(UTC))


def sdk_card(document: dict[str, Any] | bytes) -> Any:
    """The SDK's own card of a document, which it edits."""
    from a2a.client.card_resolver import parse_agent_card

    text = document if isinstance(document, bytes) else json.dumps(document)
    return parse_agent_card(json.loads(text))


def resolve(network: Network, base: str = HOST, **how: Any) -> Any:
    """Ask our resolver as a user of the SDK's would."""
    from cardsign.integrations.a2a_sdk import TrustedCardResolver

    verifier = Verifier(POLICY, net=network.settings())
    making = {name: how.pop(name) for name in ("agent_card_path", "issuer") if name in how}

    async def ask() -> Any:
        async with httpx.AsyncClient() as client:
            resolver = TrustedCardResolver(client, base, **making, verifier=verifier)
            return await resolver.get_agent_card(**how)

    return asyncio.run(ask())


# ------------------------------------------------------------------ the resolver


EDITED = json.dumps({**json.loads(own(PUBLIC)), "description": "Send money."}).encode()
FOREIGN = own(put(PUBLIC, "/supportedInterfaces/0/url", "https://evil.example/"))
#: An answer, and why the card is refused; or the card that is trusted.
RESOLVED: dict[str, tuple[bytes, str | dict[str, Any]]] = {
    "a card of 1.0": (http(own(PUBLIC)), PUBLIC),
    "a card of 0.3": (http(own(PUBLIC_0_3)), PUBLIC_0_3),
    "an edited card": (http(EDITED), "sig.bad"),
    "a stranger's card": (http(own(PUBLIC, "mallory")), "key.unknown"),
    "an interface elsewhere": (http(FOREIGN), "card.origin_mismatch"),
    "a redirect": (http(b"", status="302 T", location="https://evil.example/"), "fetch.status"),
}


@pytest.mark.parametrize(("answer", "outcome"), RESOLVED.values(), ids=RESOLVED)
def test_a_card_is_the_sdks_own_if_it_is_trusted(
    answer: bytes, outcome: str | dict[str, Any], network: Network
) -> None:
    """As the SDK makes it of the payload; else whichever of its two errors a caller expects."""
    from a2a.client.card_resolver import A2ACardResolver
    from a2a.client.errors import AgentCardResolutionError
    from a2a.utils.signing import SignatureVerificationError

    from cardsign.integrations.a2a_sdk import CardNotTrusted, TrustedCardResolver

    assert issubclass(TrustedCardResolver, A2ACardResolver)
    assert issubclass(CardNotTrusted, AgentCardResolutionError)
    assert issubclass(CardNotTrusted, SignatureVerificationError)
    network.host("evil.example", http(b"{}"))
    network.host("tides.example", {CARD_PATH: answer})
    if isinstance(outcome, dict):
        resolved = resolve(network)
        assert (resolved, len(resolved.signatures)) == (sdk_card(outcome), 0)
    else:
        with pytest.raises(CardNotTrusted) as caught:
            resolve(network)
        assert outcome in [reason.code for reason in caught.value.report.reasons]
    assert "evil.example" not in network.names


def test_paths_and_issuers_are_those_of_the_caller(network: Network) -> None:
    """Below the base, asked as they are; what would be passed over is refused."""
    host = network.host("tides.example", {})
    for base, how, target in (
        (HOST, {}, CARD_PATH),
        (HOST + "/", {"agent_card_path": "/agents/geo.json"}, "/agents/geo.json"),
        (HOST + "/agents", {"relative_card_path": "geo.json"}, "/agents/geo.json"),
        (HOST + "/agents/geo.json", {"relative_card_path": "/"}, "/agents/geo.json"),
    ):
        host.answers = {target: http(own(PUBLIC))}
        assert resolve(network, base, **how).name == "Tide tables"
    host.answers = {"/.well-known/agent.json": http(own(PUBLIC))}
    with pytest.raises(Exception, match="404"):
        resolve(network)
    host.answers = {CARD_PATH: http(own(PUBLIC))}
    assert resolve(network, issuer="tides").name == "Tide tables"
    network.forget()
    with pytest.raises(UsageFault, match=r"policy\.unknown_issuer"):
        resolve(network, issuer="others")
    how: dict[str, Any]
    for how in ({"http_kwargs": {"headers": {"X": "y"}}}, {"signature_verifier": print}):
        with pytest.raises(ValueError, match="takes neither"):
            resolve(network, **how)
    assert network.names == []


# ------------------------------------------------------------------ the verifier's hook


def through_the_sdk(served: bytes, **expect: Any) -> Any:
    """The SDK's own resolver, with our function for its hook."""
    from a2a.client.card_resolver import A2ACardResolver

    from cardsign.integrations.a2a_sdk import signature_verifier

    verify = signature_verifier(Verifier(POLICY), **(expect or {"url": HOST + CARD_PATH}))
    answer = httpx.Response(200, content=served)
    transport = httpx.MockTransport(lambda request: answer)

    async def ask() -> Any:
        async with httpx.AsyncClient(transport=transport) as client:
            resolver = A2ACardResolver(client, HOST)
            return await resolver.get_agent_card(signature_verifier=verify)

    return asyncio.run(ask())


SIGNED = json.loads(own(PORTABLE))


def numbered(number: float) -> bytes:
    params = {"uri": "urn:x", "params": {"depth": number}}
    return json.dumps({**SIGNED, "capabilities": {"extensions": [params]}}).encode()


EXTENDED = own(extended_card(PORTABLE, "partner", datetime(2099, 1, 1, tzinfo=UTC)))
#: What the hook is shown, and whether the verdict says no, or the SDK cannot write the card.
HOOKED: dict[str, tuple[bytes, bool]] = {
    "a stranger's card": (own(PORTABLE, "mallory"), True),
    "what the SDK's own verifier accepts": (own({**PORTABLE, "x-note": "signed"}), True),
    "a sound card of 0.3": (own(PUBLIC_0_3), True),
    "an extended card": (EXTENDED, True),
    "no number": (numbered(float("nan")), False),
}


@pytest.mark.parametrize(("served", "has_verdict"), HOOKED.values(), ids=HOOKED)
def test_the_hook_refuses_with_the_sdks_error(served: bytes, has_verdict: bool) -> None:
    """``InvalidSignaturesError``, whose cause is the verdict; sound cards that the SDK rewrites
    are refused as well."""
    from a2a.utils.signing import InvalidSignaturesError

    with pytest.raises(InvalidSignaturesError) as caught:
        through_the_sdk(served)
    assert isinstance(caught.value.__cause__, NotTrusted) is has_verdict


def test_the_hook_accepts_what_came_through_the_sdk_unharmed() -> None:
    """A portable card of 1.0, also of one audience; it does not see what the SDK drops."""
    from a2a.utils.signing import NoSignatureError

    for sound in (PUBLIC_0_3, {**PORTABLE, "x-note": "signed"}):  # which it refuses above
        assert verified(own(sound))
    added = json.dumps({**SIGNED, "x-note": "not signed"}).encode()
    for served in (own(PORTABLE), added):
        assert through_the_sdk(served).name == PORTABLE["name"]
    partner = through_the_sdk(EXTENDED, issuer="tides", audience="partner")
    assert partner.name == PORTABLE["name"]
    with pytest.raises(NoSignatureError):  # the SDK's own error for it
        through_the_sdk(json.dumps(PORTABLE).encode())


# ------------------------------------------------------------------ the server's hook


def served_by_the_sdk(card: Any, **hooks: Any) -> list[dict[str, Any]]:
    """Two answers of the SDK's own route."""
    from a2a.server.routes import create_agent_card_routes
    from starlette.applications import Starlette

    app = Starlette(routes=create_agent_card_routes(card, **hooks))
    transport = httpx.ASGITransport(app)

    async def ask() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
            return [(await client.get(CARD_PATH)).json() for _ in range(2)]

    return asyncio.run(ask())


OLD = put(PORTABLE, "/supportedInterfaces/0/protocolVersion", "0.3")
NUMBERS = {"extensions": [{"uri": "urn:x:y", "params": {"n": 7, "f": 0.1}}]}
SIGNABLE = {
    "a portable card": PORTABLE,
    "a card of two generations": OLD,
    "numbers in an extension": {**PORTABLE, "capabilities": NUMBERS},
}


@pytest.mark.parametrize("document", SIGNABLE.values(), ids=SIGNABLE)
def test_what_the_sdk_serves_is_signed(document: dict[str, Any]) -> None:
    """Signed at the start or by the hook, each answer verifies as it was served."""
    from cardsign.integrations.a2a_sdk import CardSigner

    card, signer = sdk_card(document), CardSigner([key("card")])
    for first, second in (
        served_by_the_sdk(signer(signer(card))),
        served_by_the_sdk(card, card_modifier=signer.modify),
    ):
        assert first == second
        assert verified(json.dumps(first).encode())
    assert not card.signatures


def test_an_unchanged_card_is_signed_once() -> None:
    """The key may be far away. A registry's signature stays."""
    from cardsign.integrations.a2a_sdk import CardSigner

    asked: list[bytes] = []

    class Far:
        public = key("card").public

        def sign(self, signing_input: bytes) -> bytes:
            asked.append(signing_input)
            return key("card").sign(signing_input)

    card, signer = sdk_card(own(PORTABLE, "registry")), CardSigner([Far()])
    assert signer(card) == signer(card)
    once = len(asked)
    assert once == len({*asked})
    assert len(signer(signer(card)).signatures) == 2
    once = len(asked)
    card.name = "Other"
    signer(card)
    assert len(asked) > once
