"""For users of a2a-sdk: a resolver that gives trusted cards alone, and functions for its hooks."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from internet import Network
from peers import http

from cardsign import verify_card
from cardsign.card.document import Card
from cardsign.errors import UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.trust.policy import KeysAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.verifier import Verifier
from tests.jose.statement_making import key
from tests.publications import PUBLIC, PUBLIC_0_3, sign
from tests.support import PORTABLE, put

pytestmark = pytest.mark.needs_a2a

HOST = "https://tides.example"
PATH = "/.well-known/agent-card.json"


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def policy() -> Policy:
    """The peer, by his key."""
    anchor = KeysAnchor(JwkSet.of([key("card").public]), {})
    places = (parse_place(HOST),)
    return Policy((TrustedIssuer("tides", anchor, places=places, freshness="waived"),))


def resolve(network: Network, policy: Policy, base: str = HOST, **how: Any) -> Any:
    """Ask our resolver as a user of the SDK's would."""
    from cardsign.integrations.a2a_sdk import TrustedCardResolver

    verifier = Verifier(policy, net=network.settings())
    making = {name: how.pop(name) for name in ("agent_card_path", "issuer") if name in how}

    async def ask() -> Any:
        async with httpx.AsyncClient() as client:
            resolver = TrustedCardResolver(client, base, **making, verifier=verifier)
            return await resolver.get_agent_card(**how)

    return asyncio.run(ask())


# ------------------------------------------------------------------ the resolver


@pytest.mark.parametrize("card", [PUBLIC, PUBLIC_0_3], ids=["1.0", "0.3"])
def test_a_trusted_card_is_the_sdks_own(
    card: dict[str, Any], network: Network, policy: Policy
) -> None:
    """The same as the SDK makes of the payload, without the signatures that were checked."""
    from a2a.client.card_resolver import A2ACardResolver, parse_agent_card

    from cardsign.integrations.a2a_sdk import TrustedCardResolver

    network.host("tides.example", {PATH: http(sign(card, key("card")))})
    found = resolve(network, policy)

    assert found == parse_agent_card(json.loads(json.dumps(card)))
    assert not found.signatures
    assert issubclass(TrustedCardResolver, A2ACardResolver)


def edited() -> bytes:
    card = json.loads(sign(PUBLIC, key("card")))
    return json.dumps({**card, "description": "Send money."}).encode()


REFUSED = {
    "an edited card": (http(edited()), "sig.bad"),
    "a stranger's card": (http(sign(PUBLIC, key("mallory"))), "key.unknown"),
    "an unsigned card": (http(json.dumps(PUBLIC).encode()), "sig.none"),
    "an interface elsewhere": (
        http(sign(put(PUBLIC, "/supportedInterfaces/0/url", "https://evil.example/"), key("card"))),
        "card.origin_mismatch",
    ),
    "a redirect": (
        http(b"", status="302 There", location="https://evil.example/"),
        "fetch.status",
    ),
    "nothing": (http(b"", status="404 No"), "fetch.status"),
    "a page": (http(b"<html>", content_type="text/html"), "fetch.content_type"),
}


@pytest.mark.parametrize(("answer", "code"), REFUSED.values(), ids=REFUSED)
def test_any_other_card_is_an_error_of_the_sdk(
    answer: bytes, code: str, network: Network, policy: Policy
) -> None:
    """Whichever of its two a caller expects; the verdict says why."""
    from a2a.client.errors import AgentCardResolutionError
    from a2a.utils.signing import SignatureVerificationError

    from cardsign.integrations.a2a_sdk import CardNotTrusted

    network.host("evil.example", http(b"{}"))
    network.host("tides.example", {PATH: answer})
    with pytest.raises(CardNotTrusted) as caught:
        resolve(network, policy)
    assert isinstance(caught.value, AgentCardResolutionError)
    assert isinstance(caught.value, SignatureVerificationError)
    assert code in [reason.code for reason in caught.value.report.reasons]
    assert "evil.example" not in network.names


def test_paths_are_those_of_the_sdk(network: Network, policy: Policy) -> None:
    """Of the constructor or of the call, below the base; asked as they are."""
    host = network.host("tides.example", {})
    for base, how, target in (
        (HOST, {}, PATH),
        (HOST + "/", {"agent_card_path": "/agents/geo.json"}, "/agents/geo.json"),
        (HOST + "/agents", {"relative_card_path": "geo.json"}, "/agents/geo.json"),
        (HOST + "/agents/geo.json", {"relative_card_path": "/"}, "/agents/geo.json"),
    ):
        host.answers = {target: http(sign(PUBLIC, key("card")))}
        assert resolve(network, policy, base, **how).name == "Tide tables"
    host.answers = {"/.well-known/agent.json": http(sign(PUBLIC, key("card")))}
    with pytest.raises(Exception, match="404"):
        resolve(network, policy)


def test_the_expected_issuer(network: Network, policy: Policy) -> None:
    """Whose card it must be can be said; nobody else's is given."""
    network.host("tides.example", {PATH: http(sign(PUBLIC, key("card")))})
    assert resolve(network, policy, issuer="tides").name == "Tide tables"
    with pytest.raises(UsageFault, match=r"policy\.unknown_issuer"):
        resolve(network, policy, issuer="others")


@pytest.mark.parametrize(
    "how", [{"http_kwargs": {"headers": {"X": "y"}}}, {"signature_verifier": print}], ids=str
)
def test_what_would_be_passed_over_is_refused(
    how: dict[str, Any], network: Network, policy: Policy
) -> None:
    """Nothing that a caller counts on is silently left out."""
    with pytest.raises(ValueError, match="takes neither"):
        resolve(network, policy, **how)
    assert network.names == []


# ------------------------------------------------------------------ the verifier's hook


def through_the_sdk(served: bytes, policy: Policy, **expect: Any) -> Any:
    """The SDK's own resolver, with our function for its hook."""
    from a2a.client.card_resolver import A2ACardResolver

    from cardsign.integrations.a2a_sdk import signature_verifier

    verify = signature_verifier(Verifier(policy), **(expect or {"url": HOST + PATH}))
    answer = httpx.Response(200, content=served)
    transport = httpx.MockTransport(lambda request: answer)

    async def ask() -> Any:
        async with httpx.AsyncClient(transport=transport) as client:
            resolver = A2ACardResolver(client, HOST)
            return await resolver.get_agent_card(signature_verifier=verify)

    return asyncio.run(ask())


def test_the_hook_accepts_what_came_through_the_sdk_unharmed(policy: Policy) -> None:
    """A portable card of 1.0."""
    assert through_the_sdk(sign(PORTABLE, key("card")), policy).name == PORTABLE["name"]


def test_what_the_hook_loses(policy: Policy) -> None:
    """It refuses sound cards that the SDK rewrites, and does not see what the SDK drops."""
    from a2a.utils.signing import InvalidSignaturesError

    for sound in (PUBLIC_0_3, {**PORTABLE, "x-note": "signed"}):
        served = sign(sound, key("card"))
        assert verify_card(served, issuer="tides", policy=policy, now=now())
        with pytest.raises(InvalidSignaturesError):
            through_the_sdk(served, policy)

    added = {**json.loads(sign(PORTABLE, key("card"))), "x-note": "not signed"}
    assert through_the_sdk(json.dumps(added).encode(), policy).name == PORTABLE["name"]


HOOK_REFUSES = {
    "an edited card": {**json.loads(sign(PORTABLE, key("card"))), "description": "Send money."},
    "a stranger's card": json.loads(sign(PORTABLE, key("mallory"))),
    "a compat signature alone": None,
}


@pytest.mark.parametrize("name", HOOK_REFUSES)
def test_the_hook_refuses_with_the_sdks_error(name: str, policy: Policy) -> None:
    """``InvalidSignaturesError``, whose cause is the verdict."""
    from a2a.utils.signing import InvalidSignaturesError

    from cardsign.verify.report import NotTrusted

    served = HOOK_REFUSES[name]
    if served is None:  # the SDK's own verifier would accept this one
        served = json.loads(sign({**PORTABLE, "x-note": "signed"}, key("card")))
    with pytest.raises(InvalidSignaturesError) as caught:
        through_the_sdk(json.dumps(served).encode(), policy)
    assert isinstance(caught.value.__cause__, NotTrusted)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 7.0], ids=str)
def test_the_hook_and_a_number_that_json_has_not(number: float, policy: Policy) -> None:
    """The SDK lets it in; 7 is one that JSON has, and an edit all the same."""
    from a2a.utils.signing import InvalidSignaturesError

    from cardsign.verify.report import NotTrusted

    card = json.loads(sign(PORTABLE, key("card")))
    card["capabilities"] = {"extensions": [{"uri": "urn:x", "params": {"depth": number}}]}
    with pytest.raises(InvalidSignaturesError) as caught:
        through_the_sdk(json.dumps(card).encode(), policy)
    assert isinstance(caught.value.__cause__, NotTrusted) is (number == 7.0)


def test_the_hook_and_an_unsigned_card(policy: Policy) -> None:
    """The SDK has an error of its own for it."""
    from a2a.utils.signing import NoSignatureError

    with pytest.raises(NoSignatureError):
        through_the_sdk(json.dumps(PORTABLE).encode(), policy)


def test_the_hook_tells_an_extended_card(policy: Policy) -> None:
    """The subject may name one audience's."""
    from a2a.utils.signing import InvalidSignaturesError

    from tests.publications import extended_card

    far = datetime(2099, 1, 1, tzinfo=UTC)
    served = sign(extended_card(PORTABLE, "partner", far), key("card"))
    expected = {"issuer": "tides", "audience": "partner"}
    assert through_the_sdk(served, policy, **expected).name == PORTABLE["name"]
    with pytest.raises(InvalidSignaturesError, match=r"extended\.served_as_public"):
        through_the_sdk(served, policy)


# ------------------------------------------------------------------ the server's hook


def served_by_the_sdk(card: Any, **hooks: Any) -> list[dict[str, Any]]:
    """Two answers of the SDK's own route."""
    from a2a.server.routes import create_agent_card_routes
    from starlette.applications import Starlette

    app = Starlette(routes=create_agent_card_routes(card, **hooks))
    transport = httpx.ASGITransport(app)

    async def ask() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
            return [(await client.get(PATH)).json() for _ in range(2)]

    return asyncio.run(ask())


SIGNABLE = {
    "a portable card": PORTABLE,
    "a card of two generations": put(PORTABLE, "/supportedInterfaces/0/protocolVersion", "0.3"),
    "numbers in an extension": {
        **PORTABLE,
        "capabilities": {"extensions": [{"uri": "urn:x:y", "params": {"n": 7, "f": 0.1}}]},
    },
}


@pytest.mark.parametrize("document", SIGNABLE.values(), ids=SIGNABLE)
@pytest.mark.parametrize("as_modifier", [False, True], ids=["once", "as a modifier"])
def test_what_the_sdk_serves_is_signed(
    document: dict[str, Any], as_modifier: bool, policy: Policy
) -> None:
    """Signed at the start or by the hook, each answer verifies as it was served."""
    from a2a.client.card_resolver import parse_agent_card

    from cardsign.integrations.a2a_sdk import CardSigner

    card = parse_agent_card(json.loads(json.dumps(document)))
    sign_it = CardSigner([key("card")])
    if as_modifier:
        answers = served_by_the_sdk(card, card_modifier=sign_it.modify)
    else:
        answers = served_by_the_sdk(sign_it(sign_it(card)))

    assert not card.signatures
    assert answers[0] == answers[1]
    served = json.dumps(answers[0]).encode()
    assert verify_card(served, issuer="tides", policy=policy, now=now())


def test_an_unchanged_card_is_signed_once() -> None:
    """The key may be far away."""
    from a2a.client.card_resolver import parse_agent_card

    from cardsign.integrations.a2a_sdk import CardSigner

    asked: list[bytes] = []

    class Far:
        public = key("card").public

        def sign(self, signing_input: bytes) -> bytes:
            asked.append(signing_input)
            return key("card").sign(signing_input)

    card = parse_agent_card(json.loads(json.dumps(PORTABLE)))
    sign_it = CardSigner([Far()])
    assert sign_it(card) == sign_it(card)
    assert len(asked) == len(set(asked))
    once = len(asked)
    card.name = "Other"
    sign_it(card)
    assert len(asked) > once


def test_an_extended_card_is_signed_as_it_is_served(policy: Policy) -> None:
    """Without the members of 0.3 that the SDK adds to the public one."""
    from a2a.client.card_resolver import parse_agent_card
    from google.protobuf.json_format import MessageToDict

    from cardsign.integrations.a2a_sdk import CardSigner

    document = put(PORTABLE, "/supportedInterfaces/0/protocolVersion", "0.3")
    card = parse_agent_card(json.loads(json.dumps(document)))
    signer = CardSigner([key("card")], extended=True)
    signed = asyncio.run(signer.modify(card, object()))
    served = json.dumps(MessageToDict(signed)).encode()
    assert verify_card(served, issuer="tides", policy=policy, now=now())


def test_other_peoples_signatures_stay(policy: Policy) -> None:
    """Ours are replaced, a registry's is kept."""
    from a2a.client.card_resolver import parse_agent_card

    from cardsign.integrations.a2a_sdk import CardSigner

    card = parse_agent_card(json.loads(sign(PORTABLE, key("registry"))))
    signed = CardSigner([key("card")])(CardSigner([key("card")])(card))
    assert len(signed.signatures) == 2
    assert len(Card.from_bytes(sign(PORTABLE, key("registry"))).signatures) == 1
