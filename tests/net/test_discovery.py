"""Meeting a live peer: his card, his statements, and what is remembered of him.

What peers may hide, withhold or mix up is in attacks 29, 40, 43 to 60, 113, 115 and 116.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from authorities import Authority
from internet import Network, Takeover
from peers import PATIENCE, http
from sites import CANONICAL, HOST, JWKS, LEGACY, OTHER, Clock, Looker, Site, at, codes

import cardsign
from cardsign.errors import CardRefused
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.net.fetch import FetchSettings
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.supplied import SuppliedStatements
from cardsign.urls import RELEASE_PATH, parse_place
from cardsign.verify.report import NotTrusted, NoVerdict, Report
from cardsign.verify.verdict import judge_card
from cardsign.verify.verifier import Verifier
from tests.cli import peer
from tests.jose.statement_making import key
from tests.support import PORTABLE, dump, signed

CARD = HOST + CANONICAL
WHOLE = [CANONICAL, RELEASE_PATH, at(1, 1), at(2, 1), at(1, 2)]


@pytest.fixture
def tides(authority: Authority) -> Site:
    """The live peer."""
    return Site(Network(authority))


# ------------------------------------------------------------------ what is asked


def test_a_live_peer(tides: Site) -> None:
    """One URL is all that is needed: the card, and every statement that its anchor needs."""
    looker = Looker(tides)
    lookup = looker.verifier.look_up(HOST)
    assert (lookup.report.verdict, codes(lookup.report.reasons)) == ("trusted", [])
    assert lookup.report.valid_until is not None
    assert tides.paths() == WHOLE
    assert set(tides.network.names) == {"tides.example"}
    assert looker.session.cards == {CARD}
    assert (lookup.url, lookup.untrusted_card) == (CARD, tides.documents[CANONICAL])
    assert lookup.supplied.untrusted_keysets == (tides.documents[at(1, 1)],)


def test_an_unchanged_peer_costs_one_conditional_request_and_no_signature_check(
    tides: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked while HTTP lets us; then whether the card has changed, and only that."""
    met = Looker(tides)
    tides.headers[CANONICAL] = {"Cache-Control": "max-age=60"}
    for _ in range(2):
        assert met.examine().verdict == "trusted"
        met.clock.pass_by(301)
    assert met.examine().verdict == "trusted"  # a refresh of everything
    tides.asked.clear()
    checks: list[None] = []
    check = PublicKey.check

    def counted_check(*args: object) -> None:
        checks.append(None)
        check(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(PublicKey, "check", counted_check)
    for seconds, asked in ((59, []), (61, [(CANONICAL, True)])):
        met.clock.pass_by(seconds)
        assert met.examine().verdict == "trusted"
        assert tides.asked == asked
    assert checks == []
    tides.publish(release=peer.release(tides.documents[at(1, 1)], PORTABLE, OTHER, seq=47))
    tides.serve(OTHER)
    checks.clear()
    met.clock.pass_by(301)
    assert met.examine().verdict == "trusted"
    assert len(checks) == 4  # one of the card, one of the release, two of the keyset


def test_a_mirror_is_asked_for_the_card_alone(tides: Site) -> None:
    """The statements are asked for at the issuer's own home."""
    mirror = f"https://mirror.example{CANONICAL}"
    assert Looker(tides).examine(mirror, expect=Subject(issuer="tides")).verdict == "trusted"
    assert tides.network.names == ["mirror.example", *["tides.example"] * 4]


# ------------------------------------------------------------------ paths


def test_the_legacy_path_is_said(tides: Site) -> None:
    """Where there never was a card at the canonical path; going back to it is no vanishing."""
    tides.documents[LEGACY] = tides.documents.pop(CANONICAL)
    listed = {"url": HOST + LEGACY, "kind": "public", "seq": 42}
    listed["payload_sha256"] = peer.digest(PORTABLE)
    tides.publish(release=peer.release(tides.documents[at(1, 1)], cards=[listed], floor={}))
    looker = Looker(tides)
    report = looker.examine()
    assert (report.verdict, codes(report.reasons)) == ("trusted", ["card.legacy_path"])
    assert tides.paths()[:2] == [CANONICAL, LEGACY]
    assert looker.session.cards == {HOST + LEGACY}
    tides.documents[CANONICAL] = tides.documents.pop(LEGACY)
    tides.publish(release=peer.release(tides.documents[at(1, 1)], PORTABLE, seq=43))
    looker.clock.pass_by(301)
    assert looker.examine().verdict == "trusted"
    del tides.documents[CANONICAL]
    assert Looker(tides).verifier.look_up(HOST).url == CARD  # where neither is


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
    looker.clock.pass_by(301)
    assert codes(looker.examine().reasons)[-1] == "card.legacy_path"


def test_a_mismatch_that_stays_is_looked_into_once_in_a_while(tides: Site) -> None:
    """Each unknown card costs no refetch of everything: that is for the cooldown to allow."""
    met = Looker(tides)
    tides.headers[CANONICAL] = {"Cache-Control": "no-store"}
    met.examine()
    tides.paths()
    for number in range(20):
        tides.serve({**PORTABLE, "version": f"6.{number}"})
        assert met.examine().verdict == "untrusted"
    asked = tides.paths()
    assert (asked.count(RELEASE_PATH), asked.count(CANONICAL)) == (1, 21)


# ------------------------------------------------------------------ statements


def test_statements_at_hand_go_along(tides: Site) -> None:
    """Under a keyset anchor they are evidence as any other."""
    second = peer.keyset(2, tides.documents[at(1, 1)], iat=peer.T0 + 1)
    tides.publish(release=peer.release(second, PORTABLE, seq=43))
    looker = Looker(tides)
    assert looker.examine().verdict == "indeterminate"
    supplied = SuppliedStatements((second,))
    assert looker.verifier.look_up(HOST, statements=supplied).report.verdict == "trusted"


def test_a_time_of_one_s_choice_keeps_nothing(tides: Site) -> None:
    """Not even where the card was found."""
    looker = Looker(tides)
    report = looker.verifier.look_up(HOST, at=looker.clock()).report
    assert (report.verdict, report.historic) == ("indeterminate", True)
    session = looker.session
    assert (session.keyset, session.release, session.cards) == (None, None, set())


# ------------------------------------------------------------------ the library


def test_only_a_trusted_card_is_returned(tides: Site) -> None:
    """Synchronously and otherwise, by one call or by many."""
    looker = Looker(tides)
    tides.documents[JWKS] = JwkSet.of([key("card").public]).to_bytes()
    policy = Policy.from_jwks_url(HOST + JWKS, origin=HOST, name="tides")
    how = {"policy": policy, "now": Clock().now, "settings": tides.network.settings()}
    cards = [
        looker.verifier.discover(HOST),
        asyncio.run(looker.verifier.adiscover(HOST)),
        cardsign.discover(HOST, **how),
        asyncio.run(cardsign.adiscover(HOST, **how)),
    ]
    assert [card.subject for card in cards] == ["tides"] * 4
    assert all(card.document == PORTABLE for card in cards)
    tides.serve(PORTABLE, signer="mallory")
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        cardsign.discover(HOST, **how)
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        asyncio.run(cardsign.adiscover(HOST, **how))


# ------------------------------------------------------------------ two agents of one issuer

AGENT = "/agents/b.json"
MIRROR = "https://mirror.example/copy.json"


@pytest.fixture
def two(tides: Site) -> Site:
    """The peer with a second agent, whose card is listed for a path of its own."""
    listed = [
        {"url": url, "kind": "public", "payload_sha256": peer.digest(card), "seq": 43}
        for url, card in ((CARD, PORTABLE), (HOST + AGENT, OTHER))
    ]
    first = tides.documents[at(1, 1)]
    tides.publish(release=peer.release(first, seq=43, cards=listed, floor={CARD: 43}))
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
    for url in (HOST, HOST + AGENT):
        looker = Looker(two)
        report = looker.examine(url, expect=expect)
        assert (report.verdict, codes(report.reasons)[0]) == ("untrusted", "card.listed_elsewhere")
        assert looker.session.cards == set()


@pytest.mark.parametrize("expect", SUBJECTS[1:], ids=["the issuer", "the origin"])
def test_a_copy_is_the_card_of_who_was_named_and_its_place_is_not_remembered(
    two: Site, expect: Subject
) -> None:
    """A mirror's URL is nobody's place: without the name it is no card of his."""
    looker = Looker(two)
    assert looker.examine(MIRROR, expect=expect).verdict == "trusted"
    assert looker.session.cards == set()
    assert looker.examine(MIRROR).verdict != "trusted"
    assert looker.examine(HOST + AGENT, expect=expect).verdict == "trusted"
    assert looker.session.cards == {HOST + AGENT}


def test_another_origin_of_the_issuer_is_a_copy_of_the_one_that_was_named(two: Site) -> None:
    """Where the URL and the origin named differ, the origin is held: both are his."""
    looker = Looker(two, places=(parse_place(HOST), parse_place("https://mirror.example")))
    assert looker.examine(MIRROR, expect=Subject(origin=HOST)).verdict == "trusted"
    assert looker.session.cards == set()
    for expect in (None, Subject(issuer="tides"), Subject(origin="https://mirror.example")):
        report = looker.examine(MIRROR, expect=expect)
        assert codes(report.reasons)[0] == "card.listed_elsewhere"


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
    limits = FetchSettings(connect_timeout=PATIENCE, total_timeout=PATIENCE)
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


# ------------------------------------------------------------------ what nobody foresaw


HOSTILE = b'{"%b": [%b], "signatures": [{}]}' % (b"n" * 60_000, b",".join([b"0"] * 12_000))


@pytest.mark.parametrize("crash", [MemoryError, None])
def test_a_peer_hides_no_other(
    tides: Site, monkeypatch: pytest.MonkeyPatch, crash: type[Exception] | None
) -> None:
    """A lack of memory or a bug ends the look at one peer alone, and so does a hostile card, whose
    long name over a long array would make gigabytes of pointers."""

    def judged(untrusted_card: bytes, *about: Any, **how: Any) -> Report:
        if untrusted_card == HOSTILE and crash is not None:
            raise crash
        return judge_card(untrusted_card, *about, **how)

    monkeypatch.setattr("cardsign.verify.verifier.judge_card", judged)
    tides.documents["/hostile.json"] = HOSTILE
    with ThreadPoolExecutor(2) as threads:
        hostile, other = threads.map(Looker(tides).examine, [HOST + "/hostile.json", HOST])
    assert other.verdict == "trusted"
    assert hostile.verdict != "trusted"
    if crash is not None:
        assert (hostile.verdict, codes(hostile.reasons)) == ("indeterminate", ["peer.not_examined"])
        assert crash.__name__ in hostile.reasons[0].message


def test_misuse_is_no_verdict_about_a_peer(tides: Site) -> None:
    """What the caller did wrong, the caller hears of."""
    with pytest.raises(CardRefused):
        Looker(tides).examine(expect=Subject(origin="no origin"))
