"""For users of a2a-sdk: a resolver that gives trusted cards alone, and functions for its hooks."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from cardsign import verify_card
from cardsign.errors import UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import CARD_PATH, parse_place
from cardsign.verify.report import NotTrusted
from cardsign.verify.verifier import Verifier
from tests.net.internet import Network
from tests.net.peers import http
from tests.publish.publications import PUBLIC, PUBLIC_0_3, extended_card, sign
from tests.statements.making import key
from tests.support import PORTABLE, put

pytestmark = pytest.mark.needs_a2a

HOST = "https://tides.example"
ANCHOR = KeysAnchor(JwkSet.of([key("card").public]), {})
POLICY = Policy((TrustedIssuer("tides", ANCHOR, (parse_place(HOST),), freshness="waived"),))


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
ANSWERS: dict[str, tuple[bytes, str | dict[str, Any]]] = {
    "a card of 1.0": (http(own(PUBLIC)), PUBLIC),
    "a card of 0.3": (http(own(PUBLIC_0_3)), PUBLIC_0_3),
    "an edited card": (http(EDITED), "sig.bad"),
    "a stranger's card": (http(own(PUBLIC, "mallory")), "key.unknown"),
    "an interface elsewhere": (http(FOREIGN), "card.origin_mismatch"),
    "a redirect": (http(b"", status="302 T", location="https://evil.example/"), "fetch.status"),
}


@pytest.mark.parametrize(("answer", "outcome"), ANSWERS.values(), ids=ANSWERS)
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


def test_an_extended_card_is_signed_as_it_is_served() -> None:
    """Without the members of 0.3 that the SDK adds to the public one."""
    from google.protobuf.json_format import MessageToDict

    from cardsign.integrations.a2a_sdk import CardSigner

    signer = CardSigner([key("card")], extended=True)
    signed = asyncio.run(signer.modify(sdk_card(OLD), object()))
    assert verified(json.dumps(MessageToDict(signed)).encode())
