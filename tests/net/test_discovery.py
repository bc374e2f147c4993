"""Meeting a live peer: his card, his statements, and what is remembered of him.

What peers may hide, withhold or mix up is in attacks 29, 40, 43 to 60, 113, 115 and 116.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

import cardsign
from cardsign.errors import CardRefused
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.net.discovery import REFRESH_SECONDS, home_of
from cardsign.net.fetch import FetchSettings
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.trust.walk import SuppliedStatements
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.report import NotTrusted, NoVerdict, Report
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.net.internet import Clock, Network, Request, Takeover
from tests.net.peers import PATIENCE, http
from tests.statements import current
from tests.statements.making import key
from tests.support import PORTABLE, dump, signed
from tests.trust.establishing import codes, listed

HOST = "https://tides.example"
CANONICAL = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
JWKS = "/.well-known/jwks.json"
OTHER = {**PORTABLE, "version": "1.3.0"}
NOT_FOUND = http(b"{}", status="404 No")


def at(epoch: int, version: int) -> str:
    """Where a keyset statement lies."""
    return KEYSET_PATH.format(epoch=epoch, version=version)


@dataclass
class Site:
    """The peer's card, the first keyset statement and the release that lists the card.

    Attributes:
        documents: What lies at which path.
        headers: Fields of the answers of a path.
        asked: Each request: path, and whether it was conditional.
    """

    network: Network
    documents: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("tides.example", "mirror.example"):
            self.network.host(name, self.answer)
        self.documents[at(1, 1)] = current.keyset()
        self.release(PORTABLE)
        self.serve(PORTABLE)

    def answer(self, request: Request) -> bytes:
        path, condition = request.target, request.headers.get("if-none-match")
        self.asked.append((path, condition is not None))
        if (body := self.documents.get(path)) is None:
            return NOT_FOUND
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        fields = {"ETag": tag, **self.headers.get(path, {})}
        if condition == tag:
            return http(b"", status="304 Same", content_type=None, **fields)
        return http(body, **fields)

    def serve(self, card: dict[str, Any], path: str = CANONICAL, signer: str = "card") -> None:
        """Put a signed card there."""
        self.documents[path] = dump(signed(card, key(signer)))

    def release(self, *cards: dict[str, Any], under: bytes = b"", **changes: Any) -> None:
        """Put a release of these cards there, under the first keyset if no other is given."""
        statement = current.release(under or self.documents[at(1, 1)], *cards, **changes)
        self.documents[RELEASE_PATH] = statement

    def paths(self) -> list[str]:
        """What was asked for since the last time this was asked."""
        paths = [path for path, _ in self.asked]
        self.asked.clear()
        return paths


class Looker:
    """Somebody who has enrolled the peer by his first statement."""

    def __init__(self, site: Site, **changes: Any) -> None:
        self.clock = Clock(datetime.now(UTC))
        anchor = KeysetAnchor(read_keyset(site.documents[at(1, 1)]).id)
        changes = {"places": (parse_place(HOST),), **changes}
        policy = Policy((TrustedIssuer("tides", anchor, **changes),))
        net = site.network.settings()
        self.verifier = Verifier(policy, lock=Memory(), net=net, clock=self.clock)

    def examine(self, url: str = HOST, *, expect: Subject | None = None) -> Report:
        """The verdict on the card at a URL."""
        return self.verifier.look_up(url, expect).report

    @property
    def session(self) -> Session:
        """What is known of the peer."""
        return self.verifier.session(self.verifier.policy.issuers[0])


CARD = HOST + CANONICAL
WHOLE = [CANONICAL, RELEASE_PATH, at(1, 1), at(2, 1), at(1, 2)]


@pytest.fixture
def tides(authority: Authority) -> Site:
    """The live peer."""
    return Site(Network(authority))


# ------------------------------------------------------------------ what is asked


def test_a_live_peer(tides: Site) -> None:
    """One URL is all that is needed: the card, and every statement that its anchor needs.

    At a time of one's choice nothing is kept. The statements for a mirror's card are at home.
    """
    looker = Looker(tides)
    session = looker.session
    report = looker.verifier.look_up(HOST, at=looker.clock()).report
    assert (report.verdict, report.historic) == ("indeterminate", True)
    assert (session.keyset, session.release, session.cards) == (None, None, set())
    looker = Looker(tides)
    tides.paths()
    lookup = looker.verifier.look_up(HOST)
    assert (lookup.report.verdict, codes(lookup.report.reasons)) == ("trusted", [])
    assert lookup.report.valid_until is not None
    assert tides.paths() == WHOLE
    assert set(tides.network.names) == {"tides.example"}
    assert looker.session.cards == {CARD}
    assert (lookup.url, lookup.untrusted_card) == (CARD, tides.documents[CANONICAL])
    assert lookup.supplied.untrusted_keysets == (tides.documents[at(1, 1)],)
    tides.network.forget()
    mirror = f"https://mirror.example{CANONICAL}"
    assert Looker(tides).examine(mirror, expect=Subject(issuer="tides")).verdict == "trusted"
    assert tides.network.names == ["mirror.example", *["tides.example"] * 4]


def test_an_unchanged_peer_costs_one_conditional_request_and_no_signature_check(
    tides: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked while HTTP lets us; then whether the card has changed, and only that."""
    met = Looker(tides)
    tides.headers[CANONICAL] = {"Cache-Control": "max-age=60"}
    for _ in range(2):
        assert met.examine().verdict == "trusted"
        met.clock.passes(301)
    assert met.examine().verdict == "trusted"  # a refresh of everything
    tides.asked.clear()
    checked, check = list[PublicKey](), PublicKey.check

    def counted(key: PublicKey, *about: bytes) -> None:
        checked.append(key)
        check(key, *about)

    monkeypatch.setattr(PublicKey, "check", counted)
    for seconds, asked in ((59, []), (61, [(CANONICAL, True)])):
        met.clock.passes(seconds)
        assert met.examine().verdict == "trusted"
        assert tides.asked == asked
    assert checked == []
    tides.release(PORTABLE, OTHER, seq=47)
    tides.serve(OTHER)
    checked.clear()
    met.clock.passes(301)
    assert met.examine().verdict == "trusted"
    assert len(checked) == 4  # one of the card, one of the release, two of the keyset


# ------------------------------------------------------------------ paths


def test_the_legacy_path_is_said(tides: Site) -> None:
    """Where there never was a card at the canonical path; going back to it is no vanishing."""
    tides.documents[LEGACY] = tides.documents.pop(CANONICAL)
    tides.release(cards=[listed(PORTABLE, url=HOST + LEGACY, seq=42)], floor={})
    looker = Looker(tides)
    report = looker.examine()
    assert (report.verdict, codes(report.reasons)) == ("trusted", ["card.legacy_path"])
    assert tides.paths()[:2] == [CANONICAL, LEGACY]
    assert looker.session.cards == {HOST + LEGACY}
    tides.documents[CANONICAL] = tides.documents.pop(LEGACY)
    tides.release(PORTABLE, seq=43)
    looker.clock.passes(301)
    assert looker.examine().verdict == "trusted"
    del tides.documents[CANONICAL]
    assert Looker(tides).verifier.look_up(HOST).url == CARD  # where neither is


def test_so_many_places_are_remembered(tides: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one issuer; the caller may be a stranger's, who names one after another."""
    monkeypatch.setattr("cardsign.net.discovery.MAX_CARDS", 1)
    tides.documents["/b.json"] = tides.documents[CANONICAL]
    cards = [listed(PORTABLE, url=url, seq=43) for url in (CARD, f"{HOST}/b.json")]
    tides.release(seq=43, cards=cards, floor={})
    looker = Looker(tides)
    assert [looker.examine(url).verdict for url in (HOST, f"{HOST}/b.json")] == ["trusted"] * 2
    assert looker.session.cards == {CARD}


def test_O5_a_404_is_asked_for_once(tides: Site) -> None:
    """Also where copies of two ages may explain the verdict: the card is asked where it was."""
    del tides.documents[CANONICAL]
    tides.serve(PORTABLE, LEGACY, "mallory")
    report = Looker(tides).examine()
    assert (report.verdict, "card.legacy_path" in codes(report.reasons)) == ("untrusted", True)
    paths = tides.paths()
    assert (paths.count(CANONICAL), paths.count(LEGACY)) == (1, 2)


def test_an_untrusted_card_was_never_there(tides: Site) -> None:
    """Only a trusted card obliges: a stranger's may come and go."""
    tides.documents[LEGACY] = tides.documents[CANONICAL]
    tides.serve(PORTABLE, signer="mallory")
    looker = Looker(tides)
    assert looker.examine().verdict == "untrusted"
    del tides.documents[CANONICAL]
    looker.clock.passes(301)
    assert codes(looker.examine().reasons)[-1] == "card.legacy_path"


# ------------------------------------------------------------------ statements and keys


def by_url(site: Site) -> Verifier:
    """Somebody who trusts what the peer publishes as his keys."""
    policy = Policy.from_jwks_url(HOST + JWKS, origin=HOST, name="tides")
    clock = Clock(datetime.now(UTC))
    return Verifier(policy, net=site.network.settings(), clock=clock)


KEYS = JwkSet.of([key("card").public]).to_bytes()


def test_what_is_at_hand_goes_along(tides: Site) -> None:
    """Under a keyset anchor as any evidence; a key set of its URL before what that answers."""
    second = current.keyset(2, tides.documents[at(1, 1)], iat=current.T0 + 1)
    tides.release(PORTABLE, under=second, seq=43)
    looker = Looker(tides)
    assert looker.examine().verdict == "indeterminate"
    supplied = SuppliedStatements((second,))
    assert looker.verifier.look_up(HOST, statements=supplied).report.verdict == "trusted"
    tides.paths()
    tides.documents[JWKS] = JwkSet.of([key("mallory").public]).to_bytes()
    supplied = SuppliedStatements(untrusted_jwks=KEYS, jwks_url=HOST + JWKS)
    assert by_url(tides).look_up(HOST, statements=supplied).report.verdict == "trusted"


def test_a_key_set_that_is_not_there(tides: Site) -> None:
    """404 says something only of what was seen."""
    verifier = by_url(tides)
    for keys, code in ((None, "refresh.no_answer"), (KEYS, ""), (None, "statement.vanished")):
        tides.documents.pop(JWKS, None)
        tides.documents.update({JWKS: keys} if keys else {})
        report = verifier.look_up(HOST).report
        assert report.verdict == "trusted" if keys else code in codes(report.reasons)
        verifier.clock.passes(301)  # type: ignore[attr-defined]


# ------------------------------------------------------------------ the library


def test_only_a_trusted_card_is_returned(tides: Site) -> None:
    """Synchronously and otherwise, by one call or by many."""
    looker = Looker(tides)
    tides.documents[JWKS] = KEYS
    policy = Policy.from_jwks_url(HOST + JWKS, origin=HOST, name="tides")
    now = Clock(datetime.now(UTC)).now
    how = {"policy": policy, "now": now, "settings": tides.network.settings()}
    cards = [
        looker.verifier.discover(HOST),
        asyncio.run(looker.verifier.adiscover(HOST)),
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
    looker = Looker(tides)
    tides.documents.clear()
    with caplog.at_level(logging.INFO, logger="cardsign"), pytest.raises(NoVerdict):
        looker.verifier.discover(HOST)
    assert caplog.messages == ["'tides': indeterminate (fetch.status)"]


# ------------------------------------------------------------------ two agents of one issuer

AGENT = "/agents/b.json"
MIRROR = "https://mirror.example/copy.json"


@pytest.fixture
def two(tides: Site) -> Site:
    """The peer with a second agent, whose card is listed for a path of its own."""
    cards = [listed(PORTABLE, url=CARD, seq=43), listed(OTHER, url=HOST + AGENT, seq=43)]
    tides.release(seq=43, cards=cards, floor={CARD: 43})
    tides.serve(OTHER, AGENT)
    tides.serve(OTHER, "/copy.json")
    return tides


SUBJECTS = [None, Subject(issuer="tides"), Subject(origin=HOST)]


@pytest.mark.parametrize("expect", SUBJECTS, ids=["the URL", "the issuer", "the origin"])
def test_two_agents_of_one_issuer_cannot_be_swapped(two: Site, expect: Subject | None) -> None:
    """Who names more than the URL gets no less (threat 3); honestly served both are trusted."""
    for url in (HOST, HOST + AGENT):
        assert Looker(two).examine(url, expect=expect).verdict == "trusted"
    documents = two.documents
    documents[CANONICAL], documents[AGENT] = documents[AGENT], documents[CANONICAL]
    with pytest.raises(CardRefused):  # what the caller did wrong, the caller hears of
        Looker(two).examine(expect=Subject(origin="no origin"))
    for url in (HOST, HOST + AGENT):
        looker = Looker(two)
        report = looker.examine(url, expect=expect)
        assert (report.verdict, codes(report.reasons)[0]) == ("untrusted", "card.listed_elsewhere")
        assert looker.session.cards == set()


@pytest.mark.parametrize("expect", SUBJECTS[1:], ids=["the issuer", "the origin"])
def test_a_copy_is_the_card_of_who_was_named_and_its_place_is_not_remembered(
    two: Site, expect: Subject
) -> None:
    """A mirror's URL is nobody's place; of two origins of the issuer the one named is held."""
    looker = Looker(two)
    assert looker.examine(MIRROR, expect=expect).verdict == "trusted"
    assert looker.session.cards == set()
    assert looker.examine(MIRROR).verdict != "trusted"
    assert looker.examine(HOST + AGENT, expect=expect).verdict == "trusted"
    assert looker.session.cards == {HOST + AGENT}
    both = Looker(two, places=(parse_place(HOST), parse_place("https://mirror.example")))
    assert both.examine(MIRROR, expect=Subject(origin=HOST)).verdict == "trusted"
    for other in (None, Subject(issuer="tides"), Subject(origin="https://mirror.example")):
        assert codes(both.examine(MIRROR, expect=other).reasons)[0] == "card.listed_elsewhere"
    assert both.session.cards == set()


# ------------------------------------------------------------------ many at once


def test_fifty_threads_ask_once(tides: Site) -> None:
    """One flight for each URL, one refresh, one verdict."""
    looker = Looker(tides)
    with ThreadPoolExecutor(50) as pool:
        reports = list(pool.map(lambda _: looker.examine(), range(50)))
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
        network.host(name, {CANONICAL: http(dump(card))}, tls=tls)
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

SHARED, SECOND, ELSEWHERE = "https://shared.example", "https://b.example", "https://m.example"
HOMES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "the card's own": ((HOST, SECOND), SECOND, SECOND),
    "the first, for a mirror's card": ((HOST, SECOND), ELSEWHERE, HOST),
    "the whole one, for a card of a shared host": ((f"{SHARED}/tides/", HOST), SHARED, HOST),
    "the shared one where there is no other": ((f"{SHARED}/tides/",), SHARED, SHARED),
    "the first shared one, for a mirror's card": ((f"{SHARED}/tides/",), ELSEWHERE, SHARED),
    "the card's, for who may stand anywhere": ((), ELSEWHERE, ELSEWHERE),
}


@pytest.mark.parametrize(("places", "contact", "home"), HOMES.values(), ids=HOMES)
def test_where_statements_lie(places: tuple[str, ...], contact: str, home: str) -> None:
    """By the policy's word and the URL that was asked, never by a card's."""
    assert home_of(map(parse_place, places), contact) == home


@pytest.mark.parametrize(
    ("seconds", "paths"),
    [(REFRESH_SECONDS, [CANONICAL, RELEASE_PATH]), (REFRESH_SECONDS / 5, WHOLE)],
    ids=["too slow", "slow"],
)
def test_a_refresh_ends(tides: Site, seconds: float, paths: list[str]) -> None:
    """Who answers slowly is asked no more when the time is over."""
    looker = Looker(tides)
    net = replace(
        tides.network.settings(), clock=lambda: time.monotonic() + seconds * len(tides.asked)
    )
    verifier = Verifier(looker.verifier.policy, lock=Memory(), net=net)
    report = verifier.look_up(HOST).report
    assert ("refresh.no_answer" in codes(report.reasons)) is (paths != WHOLE)
    assert tides.paths() == paths
