"""Meeting a live peer: his card, his statements, and what is remembered of him.

What peers may hide, withhold or mix up is in attacks 29, 40, 43 to 60, 113, 115 and 116.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import cardsign
from cardsign.errors import CardRefused
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.net.discovery import REFRESH_SECONDS, home_of
from cardsign.net.fetch import FetchSettings
from cardsign.trust.lock import Memory
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.session import Session
from cardsign.trust.walk import SuppliedStatements
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, RELEASE_PATH, parse_place
from cardsign.verify.report import NotTrusted, NoVerdict, Report
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.net.internet import Clock, Network, Takeover
from tests.net.peers import PATIENCE, http
from tests.net.site import CARD_URL, HOST, Site, keyset_path
from tests.statements import current
from tests.statements.making import key
from tests.support import PORTABLE, dump, each_case, signed
from tests.trust.establishing import codes, listed

OTHER = {**PORTABLE, "version": "1.3.0"}
WHOLE = [CARD_PATH, RELEASE_PATH, keyset_path(1, 1), keyset_path(2, 1), keyset_path(1, 2)]


def examine(looker: Verifier, url: str = HOST, *, expect: Subject | None = None) -> Report:
    """The verdict on the card at a URL."""
    return looker.look_up(url, expect).report


def session_of(looker: Verifier) -> Session:
    """What is known of the peer."""
    return looker.session(looker.policy.issuers[0])


@pytest.fixture
def tides(authority: Authority) -> Site:
    """The live peer, whose mirror answers the same."""
    site = Site(Network(authority), PORTABLE)
    site.network.host("mirror.example", site.answer)
    return site


# ------------------------------------------------------------------ what is asked


def test_a_live_peer(tides: Site) -> None:
    """One URL is all that is needed: the card, and every statement that its anchor needs.

    At a time of one's choice nothing is kept. The statements for a mirror's card are at home.
    """
    looker = tides.verifier()
    session = session_of(looker)
    report = looker.look_up(HOST, at=looker.clock()).report
    assert (report.verdict, report.historic) == ("indeterminate", True)
    assert (session.keyset, session.release, session.cards) == (None, None, set())
    looker = tides.verifier()
    tides.paths()
    lookup = looker.look_up(HOST)
    assert (lookup.report.verdict, codes(lookup.report.reasons)) == ("trusted", [])
    assert lookup.report.valid_until is not None
    assert tides.paths() == WHOLE
    assert set(tides.network.names) == {"tides.example"}
    assert session_of(looker).cards == {CARD_URL}
    assert (lookup.url, lookup.untrusted_card) == (CARD_URL, tides.documents[CARD_PATH])
    assert lookup.supplied.untrusted_keysets == (tides.documents[keyset_path(1, 1)],)
    tides.network.forget()
    mirror = f"https://mirror.example{CARD_PATH}"
    assert examine(tides.verifier(), mirror, expect=Subject(issuer="tides")).verdict == "trusted"
    assert tides.network.names == ["mirror.example", *["tides.example"] * 4]


def test_an_unchanged_peer_costs_one_conditional_request_and_no_signature_check(
    tides: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked while HTTP lets us; then whether the card has changed, and only that."""
    met = tides.verifier()
    tides.headers[CARD_PATH] = {"Cache-Control": "max-age=60"}
    for _ in range(2):
        assert examine(met).verdict == "trusted"
        met.clock.passes(301)
    assert examine(met).verdict == "trusted"  # a refresh of everything
    tides.paths()
    checked, check = list[PublicKey](), PublicKey.check

    def counted(key: PublicKey, *about: bytes) -> None:
        checked.append(key)
        check(key, *about)

    monkeypatch.setattr(PublicKey, "check", counted)
    for seconds, asked in ((59, []), (61, [(CARD_PATH, True)])):
        met.clock.passes(seconds)
        assert examine(met).verdict == "trusted"
        requests = tides.host.requests
        conditional = [(one.target, "if-none-match" in one.headers) for one in requests]
        assert conditional == asked
    assert checked == []
    tides.release(PORTABLE, OTHER, seq=47)
    tides.serve(OTHER)
    checked.clear()
    met.clock.passes(301)
    assert examine(met).verdict == "trusted"
    assert len(checked) == 4  # one of the card, one of the release, two of the keyset


# ------------------------------------------------------------------ paths


def test_the_legacy_path_is_said(tides: Site) -> None:
    """Where there never was a card at the canonical path; going back to it is no vanishing."""
    tides.documents[LEGACY_CARD_PATH] = tides.documents.pop(CARD_PATH)
    tides.release(cards=[listed(PORTABLE, url=HOST + LEGACY_CARD_PATH, seq=42)], floor={})
    looker = tides.verifier()
    report = examine(looker)
    assert (report.verdict, codes(report.reasons)) == ("trusted", ["card.legacy_path"])
    assert tides.paths()[:2] == [CARD_PATH, LEGACY_CARD_PATH]
    assert session_of(looker).cards == {HOST + LEGACY_CARD_PATH}
    tides.documents[CARD_PATH] = tides.documents.pop(LEGACY_CARD_PATH)
    tides.release(PORTABLE, seq=43)
    looker.clock.passes(301)
    assert examine(looker).verdict == "trusted"
    del tides.documents[CARD_PATH]
    assert tides.verifier().look_up(HOST).url == CARD_URL  # where neither is


def test_so_many_places_are_remembered(tides: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one issuer; the caller may be a stranger's, who names one after another."""
    monkeypatch.setattr("cardsign.net.discovery.MAX_CARDS", 1)
    tides.documents["/b.json"] = tides.documents[CARD_PATH]
    cards = [listed(PORTABLE, url=url, seq=43) for url in (CARD_URL, f"{HOST}/b.json")]
    tides.release(seq=43, cards=cards, floor={})
    looker = tides.verifier()
    assert [examine(looker, url).verdict for url in (HOST, f"{HOST}/b.json")] == ["trusted"] * 2
    assert session_of(looker).cards == {CARD_URL}


def test_O5_a_404_is_asked_for_once(tides: Site) -> None:
    """Also where copies of two ages may explain the verdict: the card is asked where it was."""
    del tides.documents[CARD_PATH]
    tides.serve(PORTABLE, LEGACY_CARD_PATH, "mallory")
    report = examine(tides.verifier())
    assert (report.verdict, "card.legacy_path" in codes(report.reasons)) == ("untrusted", True)
    paths = tides.paths()
    assert (paths.count(CARD_PATH), paths.count(LEGACY_CARD_PATH)) == (1, 2)


def test_an_untrusted_card_was_never_there(tides: Site) -> None:
    """Only a trusted card obliges: a stranger's may come and go."""
    tides.documents[LEGACY_CARD_PATH] = tides.documents[CARD_PATH]
    tides.serve(PORTABLE, signer="mallory")
    looker = tides.verifier()
    assert examine(looker).verdict == "untrusted"
    del tides.documents[CARD_PATH]
    looker.clock.passes(301)
    assert codes(examine(looker).reasons)[-1] == "card.legacy_path"


# ------------------------------------------------------------------ statements and keys


def by_url(site: Site) -> Verifier:
    """Somebody who trusts what the peer publishes as his keys."""
    policy = Policy.from_jwks_url(HOST + JWKS_PATH, origin=HOST, name="tides")
    clock = Clock(datetime.now(UTC))
    return Verifier(policy, net=site.network.settings(), clock=clock)


KEYS = JwkSet.of([key("card").public]).to_bytes()


def test_what_is_at_hand_goes_along(tides: Site) -> None:
    """Under a keyset anchor as any evidence; a key set of its URL before what that answers."""
    second = current.keyset(2, tides.documents[keyset_path(1, 1)], iat=current.T0 + 1)
    tides.release(PORTABLE, under=second, seq=43)
    looker = tides.verifier()
    assert examine(looker).verdict == "indeterminate"
    supplied = SuppliedStatements((second,))
    assert looker.look_up(HOST, statements=supplied).report.verdict == "trusted"
    tides.paths()
    tides.documents[JWKS_PATH] = JwkSet.of([key("mallory").public]).to_bytes()
    supplied = SuppliedStatements(untrusted_jwks=KEYS, jwks_url=HOST + JWKS_PATH)
    assert by_url(tides).look_up(HOST, statements=supplied).report.verdict == "trusted"


def test_a_key_set_that_is_not_there(tides: Site) -> None:
    """404 says something only of what was seen."""
    verifier = by_url(tides)
    for keys, code in ((None, "refresh.no_answer"), (KEYS, ""), (None, "statement.vanished")):
        tides.documents.pop(JWKS_PATH, None)
        tides.documents.update({JWKS_PATH: keys} if keys else {})
        report = verifier.look_up(HOST).report
        assert report.verdict == "trusted" if keys else code in codes(report.reasons)
        verifier.clock.passes(301)  # type: ignore[attr-defined]


# ------------------------------------------------------------------ the library


def test_only_a_trusted_card_is_returned(tides: Site) -> None:
    """Synchronously and otherwise, by one call or by many."""
    looker = tides.verifier()
    tides.documents[JWKS_PATH] = KEYS
    policy = Policy.from_jwks_url(HOST + JWKS_PATH, origin=HOST, name="tides")
    now = Clock(datetime.now(UTC)).now
    how = {"policy": policy, "now": now, "settings": tides.network.settings()}
    cards = [
        looker.discover(HOST),
        asyncio.run(looker.adiscover(HOST)),
        cardsign.discover(HOST, **how),
        asyncio.run(cardsign.adiscover(HOST, **how)),
    ]
    assert [(card.subject, card.document) for card in cards] == [("tides", PORTABLE)] * 4
    tides.serve(PORTABLE, signer="mallory")
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        cardsign.discover(HOST, **how)
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        asyncio.run(cardsign.adiscover(HOST, **how))


def test_no_answer_is_logged(tides: Site, caplog: pytest.LogCaptureFixture) -> None:
    """As a refusal is, with subject and code."""
    looker = tides.verifier()
    tides.documents.clear()
    with caplog.at_level(logging.INFO, logger="cardsign"), pytest.raises(NoVerdict):
        looker.discover(HOST)
    assert caplog.messages == ["'tides': indeterminate (fetch.status)"]


# ------------------------------------------------------------------ two agents of one issuer

AGENT = "/agents/b.json"
MIRROR = "https://mirror.example/copy.json"


@pytest.fixture
def two(tides: Site) -> Site:
    """The peer with a second agent, whose card is listed for a path of its own."""
    cards = [listed(PORTABLE, url=CARD_URL, seq=43), listed(OTHER, url=HOST + AGENT, seq=43)]
    tides.release(seq=43, cards=cards, floor={CARD_URL: 43})
    tides.serve(OTHER, AGENT)
    tides.serve(OTHER, "/copy.json")
    return tides


SUBJECTS = [None, Subject(issuer="tides"), Subject(origin=HOST)]


@pytest.mark.parametrize("expect", SUBJECTS, ids=["the URL", "the issuer", "the origin"])
def test_two_agents_of_one_issuer_cannot_be_swapped(two: Site, expect: Subject | None) -> None:
    """Who names more than the URL gets no less (threat 3); honestly served both are trusted."""
    for url in (HOST, HOST + AGENT):
        assert examine(two.verifier(), url, expect=expect).verdict == "trusted"
    documents = two.documents
    documents[CARD_PATH], documents[AGENT] = documents[AGENT], documents[CARD_PATH]
    with pytest.raises(CardRefused):  # what the caller did wrong, the caller hears of
        examine(two.verifier(), expect=Subject(origin="no origin"))
    for url in (HOST, HOST + AGENT):
        looker = two.verifier()
        report = examine(looker, url, expect=expect)
        assert (report.verdict, codes(report.reasons)[0]) == ("untrusted", "card.listed_elsewhere")
        assert session_of(looker).cards == set()


@pytest.mark.parametrize("expect", SUBJECTS[1:], ids=["the issuer", "the origin"])
def test_a_copy_is_the_card_of_who_was_named_and_its_place_is_not_remembered(
    two: Site, expect: Subject
) -> None:
    """A mirror's URL is nobody's place; of two origins of the issuer the one named is held."""
    looker = two.verifier()
    assert examine(looker, MIRROR, expect=expect).verdict == "trusted"
    assert session_of(looker).cards == set()
    assert examine(looker, MIRROR).verdict != "trusted"
    assert examine(looker, HOST + AGENT, expect=expect).verdict == "trusted"
    assert session_of(looker).cards == {HOST + AGENT}
    both = two.verifier(HOST, "https://mirror.example")
    assert examine(both, MIRROR, expect=Subject(origin=HOST)).verdict == "trusted"
    for other in (None, Subject(issuer="tides"), Subject(origin="https://mirror.example")):
        assert codes(examine(both, MIRROR, expect=other).reasons)[0] == "card.listed_elsewhere"
    assert session_of(both).cards == set()


# ------------------------------------------------------------------ many at once


def test_fifty_threads_ask_once(tides: Site) -> None:
    """One flight for each URL, one refresh, one verdict."""
    looker = tides.verifier()
    with ThreadPoolExecutor(50) as pool:
        reports = list(pool.map(lambda _: examine(looker), range(50)))
    assert {report.verdict for report in reports} == {"trusted"}
    asked = tides.paths()
    assert len(asked) == len(set(asked)) == 5


def test_two_hundred_peers_of_which_one_hangs(authority: Authority) -> None:
    """Each has a thread of its own; who is cancelled meanwhile leaves at once."""
    network, enough = Network(authority), threading.Event()
    names = [f"a{number}.example" for number in range(200)]
    tls = authority.server(*names)
    for name in names:
        interface = {**PORTABLE["supportedInterfaces"][0], "url": f"https://{name}/a2a"}
        card = signed({**PORTABLE, "supportedInterfaces": [interface]}, key("card"))
        network.host(name, {CARD_PATH: http(dump(card))}, tls=tls)
    network.hosts["a7.example"].answers = Takeover(lambda connection: enough.wait(PATIENCE))
    policy = Policy.from_jwks(JwkSet.of([key("card").public]), name="all")
    limits = FetchSettings(total_timeout=PATIENCE)
    verifier = Verifier(policy, net=network.settings(limits))

    async def meet_all() -> list[Any]:
        asks = {name: asyncio.create_task(verifier.adiscover(f"https://{name}")) for name in names}
        hanging = asks.pop("a7.example")
        cards = await asyncio.gather(*asks.values())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(hanging), 0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(verifier.adiscover("https://a7.example"), 0.01)
        assert not enough.is_set()
        enough.set()
        with pytest.raises(NoVerdict):
            await hanging
        return cards

    assert [card.report.verdict for card in asyncio.run(meet_all())] == ["trusted"] * 199


# ------------------------------------------------------------------ the anchor's one source


@each_case(__file__, "homes", "places", "contact", "home")
def test_where_statements_lie(places: list[str], contact: str, home: str) -> None:
    """By the policy's word and the URL that was asked, never by a card's."""
    assert home_of(map(parse_place, places), contact) == home


@pytest.mark.parametrize(
    ("seconds", "paths"),
    [(REFRESH_SECONDS, [CARD_PATH, RELEASE_PATH]), (REFRESH_SECONDS / 5, WHOLE)],
    ids=["too slow", "slow"],
)
def test_a_refresh_ends(tides: Site, seconds: float, paths: list[str]) -> None:
    """Who answers slowly is asked no more when the time is over."""
    looker = tides.verifier()
    net = replace(
        tides.network.settings(),
        clock=lambda: time.monotonic() + seconds * len(tides.host.requests),
    )
    verifier = Verifier(looker.policy, lock=Memory(), net=net)
    report = verifier.look_up(HOST).report
    assert ("refresh.no_answer" in codes(report.reasons)) is (paths != WHOLE)
    assert tides.paths() == paths
