"""Extended cards, live: whom they are asked of, what comes is verified, where a token goes."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.errors import CallFailed, CardsignError, FetchFailed, UsageFault
from cardsign.net.discovery import Discovery, ask_for_extended_card, look_up_extended
from cardsign.net.endpoints import BEARER, Credential, Header, PeerError, endpoints_of
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import CARD_PATH, KEYSET_PATH, RELEASE_PATH, parse_origin, parse_place
from cardsign.verify.report import VerificationError
from cardsign.verify.verifier import Verifier
from tests.cli import peer
from tests.net.internet import Answer, Host, Network, Request
from tests.net.peers import http
from tests.publish.publications import PUBLIC, PUBLIC_0_3, sign, with_skill
from tests.statements.making import DAY, URL, key
from tests.support import codes, put, without

HOST = "https://tides.example"
AUDIENCE = "9f2c61d07be84a15"
OTHER_AUDIENCE = "0123456789abcdef"
SEQ = 42
FLOOR = 40


def now() -> datetime:
    return datetime.now(UTC)


def extended(
    card: Mapping[str, Any] = PUBLIC,
    *,
    audience: str = AUDIENCE,
    seq: int = SEQ,
    exp: int = peer.T0 + 5 * DAY,
) -> dict[str, Any]:
    """An extended card, unsigned."""
    return with_marker(with_skill(card, "pilots"), ExtendedMarker(audience, seq, exp))


def enveloped(card: bytes, request: Request) -> bytes:
    """A card as the answer to a JSON-RPC call."""
    call_id = json.loads(request.body)["id"]
    return http(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call_id).encode(), card))


def answering(card: bytes) -> Callable[[Request], bytes]:
    """Gives this card to whoever asks, over either binding."""
    return lambda request: enveloped(card, request) if request.method == "POST" else http(card)


@dataclass
class Tides:
    """The peer.

    Attributes:
        network: The internet that he is on.
        host: His host.
        token: What opens his extended card.
        statement: His keyset statement.
        overrides: Answers that stand before his server's, by target.
    """

    network: Network
    host: Host
    token: str
    statement: bytes
    overrides: dict[str, Answer] = field(default_factory=dict)

    def serve(self, untrusted_card: bytes) -> None:
        """Put another document where the public card is."""
        self.overrides[CARD_PATH] = http(untrusted_card)

    def secret_told(self) -> set[str]:
        """Who has been sent the token."""
        return self.network.told(self.token.encode())


def tides(
    network: Network, card: Mapping[str, Any] = PUBLIC, origins: tuple[str, ...] = (HOST,)
) -> Tides:
    """Put the peer on the network, with a public card and the extended card of the audience."""
    signer, token = key("card"), "tok-3f81b0c6d2"
    statement = peer.keyset(origins=list(origins))
    floor = {URL: SEQ, "extended": FLOOR}
    documents = {
        CARD_PATH: http(sign(card, signer)),
        KEYSET_PATH.format(epoch=1, version=1): http(statement),
        RELEASE_PATH: http(peer.release(statement, dict(card), seq=SEQ, floor=floor)),
    }
    overrides: dict[str, Answer] = {}
    give = answering(sign(extended(card), signer))

    def answer(request: Request) -> bytes:
        document = overrides.get(request.target, documents.get(request.target))
        if isinstance(document, bytes):
            return document
        if callable(document):
            return document(request)
        shown = {request.headers.get(name) for name in ("authorization", "x-api-key")}
        is_holder = not shown.isdisjoint({f"Bearer {token}", token})
        return give(request) if is_holder else http(b"{}", status="401 Unauthorized")

    return Tides(network, network.host("tides.example", answer), token, statement, overrides)


@dataclass
class Partner:
    """Somebody who enrolled the peer, and was given a token."""

    peer: Tides
    verifier: Verifier
    credential: Credential

    def look_up(self, url: str = HOST) -> Discovery:
        return self.verifier.look_up(url)

    def ask(self, audience: str = AUDIENCE) -> Discovery:
        """Meet the peer, and ask for the extended card."""
        return look_up_extended(
            self.verifier, self.look_up(), self.credential, audience=audience, subject=Subject()
        )


def partner(one: Tides, places: tuple[str, ...] = (HOST,)) -> Partner:
    """Who trusts the peer by his first statement, and was given a token."""
    pinned = read_keyset(one.statement)
    anchor = KeysetAnchor(pinned.id)
    issuer = TrustedIssuer("tides", anchor, places=tuple(parse_place(each) for each in places))
    net = one.network.settings()
    verifier = Verifier(Policy((issuer,)), lock=Memory(), net=net, clock=now)
    credential = Credential("env:TOKEN", environment={"TOKEN": one.token})
    return Partner(one, verifier, credential)


@pytest.fixture
def site(network: Network) -> Tides:
    """The peer as he is."""
    return tides(network)


# ------------------------------------------------------------------ the honest way


def interface(binding: str, tenant: str = "", path: str = "/a2a") -> dict[str, Any]:
    """A 1.0 card that can be called in one way."""
    one = {"url": f"{HOST}{path}", "protocolBinding": binding, "protocolVersion": "1.0"}
    return {**PUBLIC, "supportedInterfaces": [{**one, **({"tenant": tenant} if tenant else {})}]}


OLD_REST = {**PUBLIC_0_3, "preferredTransport": "HTTP+JSON"}
OLDEST = {**PUBLIC_0_3, "protocolVersion": "0.2.6", "url": f"{HOST}/agents/old"}
NEW_METHOD, OLD_METHOD = "GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"
#: A card, what is asked by it, and the method of JSON-RPC (A2A 1.0 9.4.11, 0.3 7.10).
WAYS: dict[str, tuple[dict[str, Any], str, str]] = {
    "JSON-RPC, the card's first": (PUBLIC, "POST /a2a", NEW_METHOD),
    "HTTP+JSON": (interface("HTTP+JSON"), "GET /a2a/extendedAgentCard", ""),
    "HTTP+JSON with a final slash": (
        interface("HTTP+JSON", path="/rest/v1/"),
        "GET /rest/v1/extendedAgentCard",
        "",
    ),
    "JSON-RPC for a tenant": (interface("JSONRPC", "t1"), "POST /a2a", NEW_METHOD),
    "HTTP+JSON for a tenant": (interface("HTTP+JSON", "t1"), "GET /a2a/t1/extendedAgentCard", ""),
    "JSON-RPC of 0.3": (PUBLIC_0_3, "POST /old", OLD_METHOD),
    "HTTP+JSON of 0.3": (OLD_REST, "GET /old/v1/card", ""),
    "0.2, beside the endpoint": (OLDEST, "GET /agents/agent/authenticatedExtendedCard", ""),
}


@pytest.mark.parametrize(("card", "request_line", "method"), WAYS.values(), ids=WAYS)
def test_the_extended_card_is_given(
    card: dict[str, Any], request_line: str, method: str, network: Network
) -> None:
    """To the holder of the token, by a request of its A2A version; and it is trusted."""
    site = tides(network, card)
    met = partner(site).ask()

    assert (met.report.verdict, codes(met.report)) == ("trusted", [])
    assert met.report.card is not None
    assert [skill["id"] for skill in met.report.card["skills"]] == ["tides", "pilots"]
    asked = site.host.requests[-1]
    assert f"{asked.method} {asked.target}" == request_line
    assert asked.headers["authorization"] == f"Bearer {site.token}"
    assert asked.headers["user-agent"].startswith("cardsign")
    assert site.secret_told() == {"tides.example"}
    assert [one for one in site.host.requests if site.token.encode() in one.head] == [asked]
    if method:
        call = {"jsonrpc": "2.0", "id": "cardsign", "method": method}
        tenant = card.get("supportedInterfaces", [{}])[0].get("tenant")
        assert json.loads(asked.body) == {
            **call,
            **({"params": {"tenant": "t1"}} if tenant else {}),
        }
        assert asked.headers["a2a-version"] == ("1.0" if method == NEW_METHOD else "0.3")


def test_another_manner_by_the_card_or_by_the_user(network: Network) -> None:
    """An API key goes in the header that the signed card names, or the user's own file."""
    scheme = {"apiKeySecurityScheme": {"location": "header", "name": "X-Api-Key"}}
    card = put(PUBLIC, "/securitySchemes/harbour", scheme)
    site = tides(network, card)

    assert partner(site).ask().report.verdict == "trusted"
    assert site.host.requests[-1].headers["x-api-key"] == site.token
    assert "authorization" not in site.host.requests[-1].headers


def test_the_library_returns_a_trusted_extended_card(
    site: Tides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its audience, by the credential that a variable holds; no other is returned."""
    monkeypatch.setenv("TIDES", site.token)
    verifier = partner(site).verifier
    how = {"audience": AUDIENCE, "credential": "env:TIDES"}
    for card in (
        verifier.discover_extended(HOST, **how),
        asyncio.run(verifier.adiscover_extended(HOST, **how)),
    ):
        assert [skill["id"] for skill in card.document["skills"]] == ["tides", "pilots"]
    with pytest.raises(VerificationError, match=r"extended\.audience_mismatch"):
        verifier.discover_extended(HOST, audience=OTHER_AUDIENCE, credential="env:TIDES")
    site.network.forget()
    with pytest.raises(UsageFault, match=r"credential\.none"):
        verifier.discover_extended(HOST, audience=AUDIENCE, credential=site.token)
    assert site.secret_told() == set()


# ------------------------------------------------------------------ swaps (threat 12)


def own(card: Mapping[str, Any]) -> bytes:
    """Signed by the peer's key."""
    return sign(card, key("card"))


# What else may stand in its place is in attacks 71, 72 and 112.
SWAPS: dict[str, tuple[Callable[[], bytes], str]] = {
    "another audience's card": (
        lambda: own(extended(audience=OTHER_AUDIENCE)),
        "extended.audience_mismatch",
    ),
    "a stranger's card": (lambda: sign(extended(), key("mallory")), "key.unknown"),
    "a card that calls elsewhere": (
        lambda: own(put(extended(), "/supportedInterfaces/0/url", "https://evil.example/a2a")),
        "card.origin_mismatch",
    ),
}


@pytest.mark.parametrize(("served", "code"), SWAPS.values(), ids=SWAPS)
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_a_swapped_card_is_refused_by_its_own_code(
    binding: str, served: Callable[[], bytes], code: str, network: Network
) -> None:
    """Over either binding; the same peer's own card is trusted before and after."""
    card = interface(binding)
    site = tides(network, card)
    asker = partner(site)
    assert asker.ask().report.verdict == "trusted"

    path = site.host.requests[-1].target
    site.overrides[path] = answering(served())
    met = asker.ask()
    assert met.report.verdict != "trusted"
    assert code in codes(met.report)
    assert met.report.card is None

    site.overrides.clear()
    assert asker.ask().report.verdict == "trusted"


@pytest.mark.parametrize(
    ("seq", "verdict"), [(SEQ + 1, "trusted"), (SEQ + 2, "untrusted")], ids=["newer", "unseen"]
)
def test_a_release_that_lagged_behind_in_a_cache(site: Tides, seq: int, verdict: str) -> None:
    """It is asked for once more, past the cache; the token is not shown a second time."""
    newer = http(peer.release(site.statement, PUBLIC, seq=SEQ + 1, floor={URL: SEQ + 1}))
    older = http(peer.release(site.statement, PUBLIC, seq=SEQ))
    asked_past_caches = []

    def cached(request: Request) -> bytes:
        past = request.headers.get("cache-control") == "no-cache"
        asked_past_caches.extend([request] * past)
        return newer if past else older

    site.overrides[RELEASE_PATH] = cached
    site.overrides["/a2a"] = answering(sign(extended(seq=seq), key("card")))
    report = partner(site).ask().report
    assert report.verdict == verdict, codes(report)
    assert len(asked_past_caches) == 1
    assert site.host.targets.count("POST /a2a") == 1


def test_a_public_card_that_is_no_longer_trusted(site: Tides, network: Network) -> None:
    """Where all is asked for once more, the extended card stands and falls with the public one."""
    own = partner(site)
    public = own.look_up()
    site.overrides["/a2a"] = answering(sign(extended(seq=SEQ + 1), key("card")))
    release = peer.release(site.statement, PUBLIC, seq=SEQ + 1, floor={URL: SEQ + 1})
    site.overrides[RELEASE_PATH] = http(release)
    site.serve(sign(PUBLIC, key("mallory")))
    met = look_up_extended(
        own.verifier, public, own.credential, audience=AUDIENCE, subject=Subject()
    )
    assert met.report.verdict != "trusted"
    assert "extended.public_untrusted" in codes(met.report)


def test_a_header_goes_to_its_own_origin_alone(site: Tides, network: Network) -> None:
    """Whoever made it: the request that shows it is refused before a name is looked up."""
    own = partner(site)
    header = Header.of(parse_origin(HOST), BEARER, site.token)
    (elsewhere,) = endpoints_of({"url": "https://evil.example/a2a"})
    with pytest.raises(UsageFault) as caught:
        ask_for_extended_card(elsewhere, header, own.verifier.fetcher.settings)
    assert caught.value.code == "credential.elsewhere"
    assert network.names == []


def test_an_extended_card_of_another_agent(site: Tides) -> None:
    """Genuine, for this audience and current: and at an endpoint of its own."""
    elsewhere = extended(interface("JSONRPC", path="/other-agent"))
    site.overrides["/a2a"] = answering(sign(elsewhere, key("card")))
    met = partner(site).ask()
    assert (met.report.verdict, met.report.card) == ("untrusted", None)
    assert codes(met.report)[0] == "extended.other_agent"


@pytest.mark.parametrize(("seconds", "code"), [(-1, None), (0, "call.verdict_over")])
def test_a_verdict_that_is_over(site: Tides, seconds: int, code: str | None) -> None:
    """On its word no credential is sent; a second before, it is."""
    one = partner(site)
    public = one.look_up()
    assert public.report.valid_until is not None
    end = public.report.valid_until + timedelta(seconds=seconds)
    one.verifier.clock = lambda: end
    ask = partial(
        look_up_extended, one.verifier, public, one.credential, audience=AUDIENCE, subject=Subject()
    )
    if code is None:
        ask()
        assert site.secret_told() == {"tides.example"}
        return
    with pytest.raises(CallFailed) as caught:
        ask()
    assert caught.value.code == code
    assert site.secret_told() == set()


def test_errors_hold_no_request(site: Tides) -> None:
    """Nor words of a peer who repeats the credential: whoever logs a context logs neither."""
    rpc_error = b'{"jsonrpc":"2.0","id":"cardsign","error":{"code":-32603,"message":"%b"}}'
    for answer in (
        http(rpc_error % site.token.encode()),
        http(b'{"%b": 1, "%b": 2}' % (site.token.encode(), site.token.encode())),
        http(b"", status="307 There", location="https://evil.example/"),
    ):
        site.overrides["/a2a"] = answer
        with pytest.raises(CardsignError) as caught:
            partner(site).ask()
        below: BaseException | None = caught.value
        while below is not None:
            assert not isinstance(below, httpx.RequestError | PeerError)
            assert site.token not in str(below)
            below = below.__cause__ or below.__context__


# ------------------------------------------------------------------ where the token goes


def challenged(*challenges: str, status: str = "401 Unauthorized") -> bytes:
    return http(b'{"error":1}', status=status, www_authenticate=", ".join(challenges))


EVIL = "https://evil.example/a2a"
EVIL_METADATA = 'Bearer resource_metadata="https://evil.example/.well-known/oauth"'
#: Everything by which a client might be led on.
HINTS = f"""Set-Cookie: a=b; Domain=example
Link: <https://evil.example/>; rel=preload
Refresh: 0; url=https://evil.example/
Alt-Svc: h2="evil.example:443"
Content-Location: {EVIL}
""".replace("\n", "\r\n").encode()


def with_hints(request: Request) -> bytes:
    """A sound answer, with those."""
    whole = enveloped(sign(extended(), key("card")), request)
    return whole.replace(b"\r\n\r\n", b"\r\n" + HINTS + b"\r\n", 1)


def an_echo(request: Request) -> bytes:
    """The server says the token again, in its error."""
    error = {"code": -32000, "message": f"I do not know {request.headers.get('authorization')}"}
    body = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": error}
    return http(json.dumps(body).encode())


def an_echo_in_a_challenge(request: Request) -> bytes:
    return challenged(f'Bearer error="{request.headers.get("authorization")}"')


def rpc(members: bytes, call_id: bytes = b"cardsign") -> bytes:
    """An answer to a call, with the peer's own extended card for `%b`."""
    members = members.replace(b"%b", sign(extended(), key("card")))
    return http(b'{"jsonrpc":"2.0","id":"' + call_id + b'",' + members + b"}")


NOT_CONFIGURED = b'"error":{"code":-32007,"message":"none for you"}'
#: Ways in which the peer's own server answers, and the code; None where the card is trusted.
ANSWERS: dict[str, tuple[Answer, str | None]] = {
    "a challenge that names a server of its own": (
        challenged(EVIL_METADATA, 'Basic realm="evil.example"'),
        "credential.refused",
    ),
    "a refusal that names one": (
        challenged(EVIL_METADATA, status="403 Forbidden"),
        "credential.refused",
    ),
    "a redirect that keeps the method": (
        http(b"{}", status="307 There", location=EVIL),
        "fetch.status",
    ),
    "headers that lead on": (with_hints, None),
    "an error that repeats the token": (an_echo, "call.error"),
    "a challenge that repeats the token": (an_echo_in_a_challenge, "credential.refused"),
    "a page": (http(b"<html>", content_type="text/html"), "fetch.content_type"),
    "another call's answer": (rpc(b'"result":%b', b"1"), "call.error"),
    "a result and an error": (rpc(b'"error":{"code":1,"message":""},"result":%b'), "call.error"),
    "an error that says there is none": (rpc(NOT_CONFIGURED), "call.no_extended"),
    "nothing there": (http(b"{}", status="404 Not Found"), "call.no_extended"),
    "a server that is broken": (http(b"{}", status="503 No"), "fetch.status"),
}


@pytest.mark.parametrize(("answer", "code"), ANSWERS.values(), ids=ANSWERS)
def test_no_answer_leads_the_token_elsewhere(
    answer: Answer,
    code: str | None,
    site: Tides,
    network: Network,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is sent once, to the peer alone; nobody else is even looked up, and nothing shows it."""
    network.host("evil.example", http(b"{}"))
    site.overrides["/a2a"] = answer
    with caplog.at_level(logging.DEBUG):
        if code is None:
            shown = repr(partner(site).ask())
        else:
            with pytest.raises(CardsignError) as caught:
                partner(site).ask()
            assert caught.value.code == code
            shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)

    assert site.secret_told() == {"tides.example"}
    assert set(network.names) == {"tides.example"}
    assert set(network.dialled) == {"tides.example:443"}
    assert sum(site.token.encode() in one.head for one in site.host.requests) == 1
    assert site.token not in shown + caplog.text


def test_a_challenge_is_explained(site: Tides) -> None:
    """Its words are shown on one harmless line, as the peer's own."""
    site.overrides["/a2a"] = challenged('Bearer realm="\x1b[2J\u202e"')
    with pytest.raises(CallFailed, match="answered 401") as caught:
        partner(site).ask()
    assert "it says it wants: Bearer realm=" in caught.value.message
    assert caught.value.message.isprintable()


def edited_interface() -> bytes:
    card = json.loads(sign(PUBLIC, key("card")))
    card["supportedInterfaces"][0]["url"] = EVIL
    return json.dumps(card).encode()


#: Where the name of the peer leads.
NAMES: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "inside": (("10.0.0.1",), "fetch.forbidden_address"),
    "to a stranger": (None, "fetch.tls"),
    "nowhere": ((), "fetch.failed"),
}


def lead(network: Network, addresses: tuple[str, ...] | None) -> None:
    evil = network.host("evil.example", http(b"{}"))
    network.resolves("tides.example", (str(evil.address),) if addresses is None else addresses)


#: Public cards on whose word no token leaves this machine.
CARDS: dict[str, tuple[Callable[[], bytes], str]] = {
    "an interface that was edited": (edited_interface, "sig.bad"),
    "a stranger's card": (lambda: sign(PUBLIC, key("mallory")), "key.unknown"),
    "a card that is not current": (
        lambda: sign({**PUBLIC, "version": "1.0.0"}, key("card")),
        "card.digest_unlisted",
    ),
    "an extended card": (lambda: sign(extended(), key("card")), "extended.served_as_public"),
}


@pytest.mark.parametrize(("card", "code"), CARDS.values(), ids=CARDS)
def test_nothing_is_sent_on_the_word_of_a_card_that_is_not_trusted(
    card: Callable[[], bytes], code: str, site: Tides, network: Network
) -> None:
    """The public card decides, and a token is not even had before it has."""
    site.serve(card())
    with pytest.raises(VerificationError) as caught:
        partner(site).ask()
    assert code in codes(caught.value.report)
    assert site.secret_told() == set()
    assert not any(request.method == "POST" for request in site.host.requests)


@pytest.mark.parametrize(("addresses", "code"), NAMES.values(), ids=NAMES)
def test_the_name_is_looked_up_and_checked_each_time(
    addresses: tuple[str, ...] | None, code: str, site: Tides, network: Network
) -> None:
    """DNS rebinding, before the card or between card and token, brings neither to a stranger."""
    own = partner(site)
    assert own.look_up().report.verdict == "trusted"
    lead(network, addresses)
    with pytest.raises(FetchFailed) as caught:
        own.ask()
    assert caught.value.code == code
    with pytest.raises(VerificationError) as unmet:
        partner(site).ask()
    assert code in codes(unmet.value.report)
    assert site.secret_told() == set()


def test_an_interface_at_another_of_the_issuers_origins(network: Network) -> None:
    """The token goes to the first interface inside the issuer's origins, and nowhere else."""
    cdn = "https://cdn.example"
    card = put(PUBLIC, "/supportedInterfaces/0/url", f"{cdn}/a2a")
    card = without(card, "/supportedInterfaces/1")
    network.host("cdn.example", answering(sign(extended(card), key("card"))))
    site = tides(network, card, origins=(HOST, cdn))

    own = partner(site, (HOST, cdn))
    public = own.look_up()
    narrower = replace(own.verifier.policy.issuers[0], places=(parse_place(HOST),))
    theirs = Verifier(Policy((narrower,)), lock=Memory(), net=network.settings())
    with pytest.raises(UsageFault) as caught:
        look_up_extended(theirs, public, own.credential, audience=AUDIENCE, subject=Subject())
    assert caught.value.code == "credential.elsewhere"
    assert site.secret_told() == set()
    assert "cdn.example" not in network.names

    assert own.ask().report.verdict == "trusted"
    assert site.secret_told() == {"cdn.example"}


def test_a_path_outside_the_issuers_place(network: Network) -> None:
    """Of 0.2 the extended card lies beside the endpoint: not in a neighbour's path."""
    places = (f"{HOST}/.well-known/", f"{HOST}/agents/geo/")
    card = {**PUBLIC_0_3, "protocolVersion": "0.2.6", "url": f"{HOST}/agents/geo/"}
    card = without(card, "/additionalInterfaces")
    site = tides(network, card)

    with pytest.raises(UsageFault) as caught:
        partner(site, places).ask()
    assert caught.value.code == "credential.elsewhere"
    assert site.secret_told() == set()


NO_WAY: dict[str, tuple[dict[str, Any], str]] = {
    "no extended card is declared": ({**PUBLIC, "capabilities": {}}, "call.no_extended"),
    "gRPC alone": (
        {**PUBLIC, "supportedInterfaces": [
            {"url": "tides.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        ]},
        "call.no_interface",
    ),
    "a version to come": (
        put(interface("JSONRPC"), "/supportedInterfaces/0/protocolVersion", "2.0"),
        "call.no_interface",
    ),
    "a tenant that leads out of the path": (
        interface("HTTP+JSON", "../../other"),
        "call.no_interface",
    ),
    "credentials of two schemes": (
        put(
            put(PUBLIC, "/securitySchemes/pass", {"mtlsSecurityScheme": {}}),
            "/securityRequirements/0/schemes/pass",
            {"list": []},
        ),
        "credential.scheme",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("card", "code"), NO_WAY.values(), ids=NO_WAY)
def test_where_there_is_no_way_nothing_is_sent(
    card: dict[str, Any], code: str, site: Tides
) -> None:
    """The card is trusted; how to ask, or what for, it does not say."""
    release = peer.release(site.statement, card, seq=SEQ)
    site.overrides["/.well-known/cardsign/release.json"] = http(release)
    site.serve(sign(card, key("card")))

    own = partner(site)
    assert own.look_up().report.verdict == "trusted"
    with pytest.raises((CallFailed, UsageFault)) as caught:
        own.ask()
    assert caught.value.code == code
    assert site.secret_told() == set()
