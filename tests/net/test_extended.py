"""Extended cards, live: whom they are asked of, what comes is verified, where a token goes."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.errors import CallFailed, CardsignError, FetchFailed, UsageFault
from cardsign.net import endpoints
from cardsign.net.discovery import Discovery
from cardsign.trust.policy import Subject
from cardsign.urls import CARD_PATH, RELEASE_PATH, parse_origin
from cardsign.verify.report import VerificationError
from cardsign.verify.verifier import Verifier
from tests.net.internet import Network, Request
from tests.net.peers import http
from tests.net.site import HOST, Site
from tests.publish.publications import PUBLIC, PUBLIC_0_3, sign, with_skill
from tests.statements import current
from tests.statements.making import DAY, URL, key
from tests.support import codes, each_case, put, without

Card = dict[str, Any]

AUDIENCE, OTHER_AUDIENCE = "9f2c61d07be84a15", "0123456789abcdef"
TOKEN = "tok-3f81b0c6d2"
SEQ = 42
BASES = {"1.0": PUBLIC, "0.3": PUBLIC_0_3}


def extended(card: Mapping[str, Any] = PUBLIC, audience: str = AUDIENCE, seq: int = SEQ) -> Card:
    """An extended card, unsigned."""
    marker = ExtendedMarker(audience, seq, current.T0 + 5 * DAY)
    return with_marker(with_skill(card, "pilots"), marker)


def own(card: Mapping[str, Any]) -> bytes:
    """Signed by the peer's key."""
    return sign(card, key("card"))


def answering(card: bytes) -> Callable[[Request], bytes]:
    """Gives this card to whoever asks, over either binding."""

    def answer(request: Request) -> bytes:
        if request.method != "POST":
            return http(card)
        call_id = json.dumps(json.loads(request.body)["id"]).encode()
        return http(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, card))

    return answer


def tides(network: Network, card: Mapping[str, Any] = PUBLIC, *origins: str) -> Site:
    """Put the peer on the network, with a public card and the extended card of the audience."""
    give = answering(own(extended(card)))

    def answer(request: Request) -> bytes:
        shown = {request.headers.get(name) for name in ("authorization", "x-api-key")}
        is_holder = not shown.isdisjoint({f"Bearer {TOKEN}", TOKEN})
        return give(request) if is_holder else http(b"{}", status="401 Unauthorized")

    site = Site(network, card, [HOST, *origins], otherwise=answer)
    site.release(card, seq=SEQ, floor={URL: SEQ, "extended": 40})
    return site


def told(site: Site) -> set[str]:
    """Who has been sent the token."""
    return site.network.told(TOKEN.encode())


def ask(verifier: Verifier, public: Discovery | None = None) -> Discovery:
    """Ask for the extended card beside a public one, which is looked up if it is not given."""
    how: Any = {"audience": AUDIENCE, "subject": Subject()}
    return endpoints.look_up_extended(
        verifier, public or verifier.look_up(HOST), "env:TIDES", **how
    )


def code_of(verifier: Verifier, public: Discovery | None = None) -> str:
    """The code with which it is not fetched."""
    with pytest.raises((CallFailed, FetchFailed, UsageFault)) as caught:
        ask(verifier, public)
    return caught.value.code


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDES", TOKEN)


@pytest.fixture
def site(network: Network) -> Site:
    """The peer as he is."""
    return tides(network)


# ------------------------------------------------------------------ the honest way


@each_case(__file__, "ways", "base", "members", "request_line", "method")
def test_the_extended_card_is_given(
    base: str, members: Card, request_line: str, method: str, network: Network
) -> None:
    """To the holder of the token, by a request of its A2A version; and it is trusted."""
    card = BASES[base] | members
    site = tides(network, card)
    met = ask(site.verifier())
    assert (met.report.verdict, codes(met.report)) == ("trusted", [])
    assert met.report.card is not None
    assert [skill["id"] for skill in met.report.card["skills"]] == ["tides", "pilots"]
    asked = site.host.requests[-1]
    assert f"{asked.method} {asked.target}" == request_line
    shown = {name: asked.headers.get(name) for name in ("authorization", "x-api-key")}
    by_key = "apiKey" in json.dumps(card["securitySchemes"])
    assert [*shown.values()] == ([None, TOKEN] if by_key else [f"Bearer {TOKEN}", None])
    assert asked.headers["user-agent"].startswith("cardsign")
    assert told(site) == {"tides.example"}
    assert [seen for seen in site.host.requests if TOKEN.encode() in seen.head] == [asked]
    if method:
        call = {"jsonrpc": "2.0", "id": "cardsign", "method": method}
        tenant = "tenant" in json.dumps(card)
        assert json.loads(asked.body) == call | ({"params": {"tenant": "t1"}} if tenant else {})
        assert asked.headers["a2a-version"] == base


def test_the_library_returns_a_trusted_extended_card(site: Site) -> None:
    """For its audience, by the credential that a variable holds; no other is returned."""
    verifier, how = site.verifier(), {"audience": AUDIENCE, "credential": "env:TIDES"}
    for card in (
        verifier.discover_extended(HOST, **how),
        asyncio.run(verifier.adiscover_extended(HOST, **how)),
    ):
        assert [skill["id"] for skill in card.document["skills"]] == ["tides", "pilots"]
    with pytest.raises(VerificationError, match=r"extended\.audience_mismatch"):
        verifier.discover_extended(HOST, **{**how, "audience": OTHER_AUDIENCE})
    site.network.forget()
    with pytest.raises(UsageFault, match=r"credential\.none"):
        verifier.discover_extended(HOST, **{**how, "credential": TOKEN})
    assert told(site) == set()


# ------------------------------------------------------------------ swaps (threat 12)


def interface(binding: str, path: str = "/a2a") -> Card:
    """A 1.0 card that can be called in one way."""
    only = {"url": f"{HOST}{path}", "protocolBinding": binding, "protocolVersion": "1.0"}
    return {**PUBLIC, "supportedInterfaces": [only]}


ELSEWHERE = put(extended(), "/supportedInterfaces/0/url", "https://evil.example/a2a")
OTHER_AGENT = extended(interface("JSONRPC", path="/other-agent"))
# What else may stand in its place is in attacks 71, 72 and 112.
SWAPS: dict[str, tuple[bytes, str]] = {
    "another audience": (own(extended(audience=OTHER_AUDIENCE)), "extended.audience_mismatch"),
    "a stranger's card": (sign(extended(), key("mallory")), "key.unknown"),
    "a card that calls elsewhere": (own(ELSEWHERE), "card.origin_mismatch"),
    "one of another agent": (own(OTHER_AGENT), "extended.other_agent"),
}


@pytest.mark.parametrize(("served", "code"), SWAPS.values(), ids=SWAPS)
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_a_swapped_card_is_refused_by_its_own_code(
    binding: str, served: bytes, code: str, network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """Over either binding, and logged; the peer's own card is trusted before and after."""
    site = tides(network, interface(binding))
    asker = site.verifier()
    assert ask(asker).report.verdict == "trusted"
    site.answers[site.host.requests[-1].target] = answering(served)
    with caplog.at_level(logging.INFO, logger="cardsign"):
        report = ask(asker).report
    assert (report.verdict != "trusted", report.card) == (True, None)
    assert code in codes(report)
    assert caplog.messages[-1].endswith(f"{report.verdict} ({report.reasons[0].code})")
    site.answers.clear()
    assert ask(asker).report.verdict == "trusted"


@pytest.mark.parametrize(
    ("seq", "verdict"), [(SEQ + 1, "trusted"), (SEQ + 2, "untrusted")], ids=["newer", "unseen"]
)
def test_a_release_that_lagged_behind_in_a_cache(site: Site, seq: int, verdict: str) -> None:
    """It is asked for once more, past the cache; the token is not shown a second time."""
    newer = http(site.release(PUBLIC, seq=SEQ + 1, floor={URL: SEQ + 1}))
    older = http(site.release(PUBLIC, seq=SEQ))
    asked_past_caches = []

    def cached(request: Request) -> bytes:
        past = request.headers.get("cache-control") == "no-cache"
        asked_past_caches.extend([request] * past)
        return newer if past else older

    site.answers |= {RELEASE_PATH: cached, "/a2a": answering(own(extended(seq=seq)))}
    report = ask(site.verifier()).report
    assert report.verdict == verdict, codes(report)
    assert (len(asked_past_caches), site.host.targets.count("POST /a2a")) == (1, 1)


def test_a_public_card_that_is_no_longer_trusted(site: Site) -> None:
    """Where all is asked for once more, the extended card stands and falls with the public one."""
    asker = site.verifier()
    public = asker.look_up(HOST)
    site.answers["/a2a"] = answering(own(extended(seq=SEQ + 1)))
    site.release(PUBLIC, seq=SEQ + 1, floor={URL: SEQ + 1})
    site.serve(PUBLIC, signer="mallory")
    report = ask(asker, public).report
    assert report.verdict != "trusted"
    assert "extended.public_untrusted" in codes(report)


def test_a_header_goes_to_its_own_origin_alone(network: Network) -> None:
    """Whoever made it: the request that shows it is refused before a name is looked up."""
    header = endpoints.Header.of(parse_origin(HOST), endpoints.BEARER, TOKEN)
    (elsewhere,) = endpoints.endpoints_of({"url": "https://evil.example/a2a"})
    with pytest.raises(UsageFault, match=r"credential\.elsewhere"):
        endpoints.ask_for_extended_card(elsewhere, header, network.settings())
    assert network.names == []


# ------------------------------------------------------------------ where the token goes


@each_case(__file__, "answers", "status", "headers", "body", "code")
def test_no_answer_leads_the_token_elsewhere(
    status: str,
    headers: dict[str, str],
    body: str,
    code: str,
    site: Site,
    network: Network,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is sent once, to the peer alone; nobody else is even looked up, and nothing shows it."""
    network.host("evil.example", http(b"{}"))
    headers = {name: value.replace("TOKEN", TOKEN) for name, value in headers.items()}
    whole = body.replace("TOKEN", TOKEN).encode().replace(b"CARD", own(extended()))
    site.answers["/a2a"] = http(whole, status=status, **headers)
    below: BaseException | None = None
    with caplog.at_level(logging.DEBUG):
        try:
            shown, met = repr(ask(site.verifier())), ""
        except CardsignError as error:
            below, met = error, error.code
            shown = "".join(traceback.format_exception(error)) + repr(error) + error.hint
    assert met == code
    assert below is None or below.args[0].isprintable()
    assert ("it says it wants: " in shown) is (met == "credential.refused")
    while below is not None:  # whoever logs a context logs neither our request nor their words
        assert not isinstance(below, httpx.RequestError)
        assert TOKEN not in str(below)
        below = below.__cause__ or below.__context__
    assert told(site) == set(network.names) == {"tides.example"}
    assert set(network.dialled) == {"tides.example:443"}
    assert sum(TOKEN.encode() in request.head for request in site.host.requests) == 1
    assert TOKEN not in shown + caplog.text


EDITED = own(PUBLIC).replace(b"tides.example/a2a", b"evil.example/a2a", 1)
#: Public cards on whose word no token leaves this machine.
CARDS: dict[str, tuple[bytes, str]] = {
    "an interface that was edited": (EDITED, "sig.bad"),
    "a stranger's card": (sign(PUBLIC, key("mallory")), "key.unknown"),
    "a card that is not current": (own({**PUBLIC, "version": "1.0.0"}), "card.digest_unlisted"),
    "an extended card": (own(extended()), "extended.served_as_public"),
}


@pytest.mark.parametrize(("card", "code"), CARDS.values(), ids=CARDS)
def test_nothing_is_sent_on_the_word_of_a_card_that_is_not_trusted(
    card: bytes, code: str, site: Site
) -> None:
    """The public card decides, and a token is not even had before it has."""
    site.documents[CARD_PATH] = card
    with pytest.raises(VerificationError) as caught:
        ask(site.verifier())
    assert code in codes(caught.value.report)
    assert told(site) == set()
    assert not any(request.method == "POST" for request in site.host.requests)


#: Where the name of the peer leads; None: to a stranger.
NAMES: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "inside": (("10.0.0.1",), "fetch.forbidden_address"),
    "to a stranger": (None, "fetch.tls"),
    "nowhere": ((), "fetch.failed"),
}


@pytest.mark.parametrize(("addresses", "code"), NAMES.values(), ids=NAMES)
def test_the_name_is_looked_up_and_checked_each_time(
    addresses: tuple[str, ...] | None, code: str, site: Site, network: Network
) -> None:
    """DNS rebinding, before the card or between card and token, brings neither to a stranger."""
    asker = site.verifier()
    assert asker.look_up(HOST).report.verdict == "trusted"
    evil = network.host("evil.example", http(b"{}"))
    network.resolves("tides.example", (str(evil.address),) if addresses is None else addresses)
    assert code_of(asker) == code
    with pytest.raises(VerificationError) as unmet:
        ask(site.verifier())
    assert code in codes(unmet.value.report)
    assert told(site) == set()


def test_an_interface_at_another_of_the_issuers_origins(network: Network) -> None:
    """The token goes to the first interface inside the issuer's origins, and nowhere else."""
    cdn = "https://cdn.example"
    card = put(PUBLIC, "/supportedInterfaces/0/url", f"{cdn}/a2a")
    card = without(card, "/supportedInterfaces/1")
    network.host("cdn.example", answering(own(extended(card))))
    site = tides(network, card, cdn)
    asker = site.verifier(HOST, cdn)
    public = asker.look_up(HOST)
    assert code_of(site.verifier(HOST), public) == "credential.elsewhere"
    assert told(site) == set()
    assert "cdn.example" not in network.names
    assert ask(asker).report.verdict == "trusted"
    assert told(site) == {"cdn.example"}


@each_case(__file__, "no_way", "base", "members", "code")
def test_where_there_is_no_way_nothing_is_sent(
    base: str, members: Card, code: str, site: Site
) -> None:
    """The card is trusted; how to ask, or what for, it does not say."""
    card = BASES[base] | members
    site.release(card, seq=SEQ)
    site.serve(card)
    asker = site.verifier()
    assert asker.look_up(HOST).report.verdict == "trusted"
    assert (code_of(asker), told(site)) == (code, set())
