"""Meeting a live peer: his card, his statements, and what is remembered of him."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from authorities import Authority
from sites import (
    CANONICAL,
    HOST,
    JWKS,
    LEGACY,
    OTHER,
    Clock,
    Site,
    Verifier,
    codes,
    site,
    verifier,
)

import cardsign
from cardsign.errors import CardRefused, FileFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.supplied import StatementCache, SuppliedStatements
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.report import NotTrusted, Report
from cardsign.verify.verdict import judge_card
from tests.cli import peer
from tests.jose.statement_making import DAY, key
from tests.support import PORTABLE, dump, signed

CARD = HOST + CANONICAL


def at(epoch: int, version: int) -> str:
    """Where a keyset statement lies."""
    return KEYSET_PATH.format(epoch=epoch, version=version)


WHOLE = [CANONICAL, RELEASE_PATH, at(1, 1), at(2, 1), at(1, 2)]
LATER = [CANONICAL, RELEASE_PATH, at(2, 1), at(1, 2)]  # once the first statement is held


@pytest.fixture
def tides(authority: Authority) -> Iterator[Site]:
    """The live peer."""
    with site(authority) as served:
        yield served


@pytest.fixture
def met(tides: Site) -> Verifier:
    """Somebody who has met him already."""
    one = verifier(tides)
    assert one.examine(HOST).verdict == "trusted"
    tides.paths()
    return one


def looked(one: Verifier, url: str = HOST) -> Report:
    """The verdict on the card of the host."""
    return one.examine(url)


# ------------------------------------------------------------------ what is asked


def test_a_live_peer(tides: Site) -> None:
    """One URL is all that is needed: the card, and every statement that its anchor needs."""
    one = verifier(tides)
    report = looked(one)
    assert (report.verdict, codes(report.reasons)) == ("trusted", [])
    assert report.valid_until is not None
    assert tides.paths() == WHOLE
    assert set(tides.names) == {"tides.example"}
    assert one.known().cards == {CARD}


def test_an_unchanged_peer_costs_one_conditional_request_and_no_signature_check(
    tides: Site, met: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked while HTTP lets us; then whether the card has changed, and only that."""
    tides.headers[CANONICAL] = {"Cache-Control": "max-age=60"}
    met.clock.pass_by(301)
    assert looked(met).verdict == "trusted"  # a refresh of everything
    tides.asked.clear()
    checks = counted(monkeypatch)
    met.clock.pass_by(59)
    assert looked(met).verdict == "trusted"
    assert tides.asked == []
    met.clock.pass_by(61)
    assert looked(met).verdict == "trusted"
    assert tides.asked == [(CANONICAL, True)]
    assert checks == []


def counted(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """What signatures are checked from now on, of cards and of statements."""
    checks: list[None] = []
    check = PublicKey.check

    def counted_check(*args: object) -> None:
        checks.append(None)
        check(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(PublicKey, "check", counted_check)
    return checks


def test_a_changed_card_is_checked(
    tides: Site, met: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the counter sees a check where there is one."""
    first = tides.documents[at(1, 1)]
    tides.publish(release=peer.release(first, PORTABLE, OTHER, seq=47))
    tides.documents[CANONICAL] = dump(signed(OTHER, key("card")))
    checks = counted(monkeypatch)
    met.clock.pass_by(301)
    assert looked(met).verdict == "trusted"
    assert len(checks) == 4  # one of the card, one of the release, two of the keyset


def test_nobody_s_card_is_fetched_alone(tides: Site) -> None:
    """Where the policy enrols nobody there is nothing else to ask for."""
    one = verifier(tides, places=(parse_place("https://other.example"),))
    report = looked(one)
    assert (report.verdict, codes(report.reasons)[0]) == ("indeterminate", "trust.no_anchor")
    assert tides.paths() == [CANONICAL]


def test_nothing_that_a_card_names_is_asked(tides: Site) -> None:
    """Its interfaces, `jku`, issuer and URLs are words; the policy says where to ask."""
    card = {
        **PORTABLE,
        "supportedInterfaces": [
            {**PORTABLE["supportedInterfaces"][0], "url": "https://evil.example/a2a"}
        ],
        "jwks_uri": "https://evil.example/jwks",
        "documentationUrl": "https://evil.example/docs",
    }
    forged = signed(card, key("mallory"))
    forged["signatures"][0]["header"] = {"jku": "https://evil.example/jku"}
    tides.documents[CANONICAL] = dump(forged)
    one = verifier(tides)
    assert looked(one).verdict == "untrusted"
    assert set(tides.names) == {"tides.example"}
    assert set(tides.paths()) <= {*WHOLE}


def test_a_mirror_is_asked_for_the_card_alone(tides: Site) -> None:
    """The statements are asked for at the issuer's own home."""
    one = verifier(tides)
    report = one.examine(f"https://mirror.example{CANONICAL}", expect=Subject(issuer="tides"))
    assert report.verdict == "trusted"
    assert tides.names == ["mirror.example", *["tides.example"] * 4]


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        (HOST, "trusted"),
        (CARD, "trusted"),
        ("https://tides.example/.well-known/../agent-card.json", "indeterminate"),
        ("ftp://tides.example/", "indeterminate"),
    ],
)
def test_what_is_no_url_is_nobody_s(tides: Site, url: str, verdict: str) -> None:
    """It is not asked, and no issuer is named for it."""
    report = verifier(tides).examine(url)
    assert report.verdict == verdict
    assert (codes(report.reasons) == ["fetch.url"]) is (verdict != "trusted")


# ------------------------------------------------------------------ paths


def test_the_legacy_path_is_said(tides: Site) -> None:
    """Where there never was a card at the canonical path."""
    tides.documents[LEGACY] = tides.documents.pop(CANONICAL)
    first = tides.documents[at(1, 1)]
    legacy = {"url": HOST + LEGACY, "kind": "public", "seq": 42}
    legacy["payload_sha256"] = peer.digest(PORTABLE)
    tides.publish(release=peer.release(first, cards=[legacy], floor={}))
    one = verifier(tides)
    report = looked(one)
    assert (report.verdict, codes(report.reasons)) == ("trusted", ["card.legacy_path"])
    assert tides.paths()[:2] == [CANONICAL, LEGACY]
    assert one.known().cards == {HOST + LEGACY}


def test_O5_a_404_is_asked_for_once(tides: Site) -> None:
    """Also where copies of two ages may explain the verdict: the card is asked where it was."""
    del tides.documents[CANONICAL]
    tides.documents[LEGACY] = dump(signed(PORTABLE, key("mallory")))
    report = looked(verifier(tides))
    assert (report.verdict, "card.legacy_path" in codes(report.reasons)) == ("untrusted", True)
    paths = tides.paths()
    assert (paths.count(CANONICAL), paths.count(LEGACY)) == (1, 2)


def test_a_card_may_not_vanish_from_the_canonical_path(tides: Site, met: Verifier) -> None:
    """Else whoever answers 404 there chooses which card is read (threat 13)."""
    tides.documents[LEGACY] = tides.documents.pop(CANONICAL)
    met.clock.pass_by(301)
    report = looked(met)
    assert (report.verdict, codes(report.reasons)) == ("indeterminate", ["card.vanished"])
    assert report.issuer == "tides"
    assert tides.paths() == [CANONICAL]


def test_a_card_may_not_vanish_from_any_path(tides: Site) -> None:
    """Also from one that was named whole."""
    one = verifier(tides)
    assert looked(one, CARD).verdict == "trusted"
    del tides.documents[CANONICAL]
    one.clock.pass_by(301)
    assert codes(looked(one, CARD).reasons) == ["card.vanished"]
    assert codes(looked(one, HOST + "/never.json").reasons) == ["fetch.status"]


def test_an_untrusted_card_was_never_there(tides: Site) -> None:
    """Only a trusted card obliges: a stranger's may come and go."""
    tides.documents[LEGACY] = tides.documents[CANONICAL]
    tides.documents[CANONICAL] = dump(signed(PORTABLE, key("mallory")))
    one = verifier(tides)
    assert looked(one).verdict == "untrusted"
    del tides.documents[CANONICAL]
    one.clock.pass_by(301)
    assert codes(looked(one).reasons)[-1] == "card.legacy_path"


def test_a_card_whose_issuer_goes_back_to_the_canonical_path(tides: Site) -> None:
    """From the legacy path to the canonical one is no vanishing."""
    tides.documents[LEGACY] = tides.documents.pop(CANONICAL)
    one = verifier(tides, freshness="waived")
    looked(one)
    tides.documents[CANONICAL] = tides.documents.pop(LEGACY)
    one.clock.pass_by(301)
    assert looked(one).verdict == "trusted"


# ------------------------------------------------------------------ no answer

FAILURES = ["503 No", "403 No", "500 No", "429 No"]


@pytest.mark.parametrize("status", FAILURES)
def test_a_peer_who_gives_no_answer_is_judged_by_what_he_gave(
    tides: Site, met: Verifier, status: str
) -> None:
    """Card and statements of before, until they end, and the verdict says so."""
    tides.broken["*"] = status
    met.clock.pass_by(301)
    report = looked(met)
    assert report.verdict == "trusted"
    assert codes(report.reasons) == ["fetch.stale", *["refresh.no_answer"] * 3]
    assert report.valid_until is not None
    assert met.clock.now < report.valid_until


def test_what_he_gave_ends(tides: Site, met: Verifier) -> None:
    """The release of seven days says nothing after them, and what is missing is said."""
    tides.broken["*"] = "503 No"
    met.clock.pass_by(7 * DAY)
    report = looked(met)
    assert report.verdict == "indeterminate"
    assert codes(report.reasons)[0] == "statement.expired"
    assert {"fetch.stale", "refresh.no_answer"} <= set(codes(report.reasons))


def test_a_process_that_has_no_card_has_no_verdict(tides: Site, met: Verifier) -> None:
    """Statements are remembered on the disk; cards are not."""
    tides.broken["*"] = "503 No"
    fresh = verifier(tides, cache=met.cache)
    report = looked(fresh)
    assert (report.verdict, codes(report.reasons)) == ("indeterminate", ["fetch.status"])
    assert report.card is None


def test_a_card_comes_while_its_statements_do_not(tides: Site, met: Verifier) -> None:
    """What is remembered holds until it expires."""
    tides.broken[RELEASE_PATH] = "500 No"
    fresh = verifier(tides, cache=met.cache)
    report = looked(fresh)
    assert (report.verdict, codes(report.reasons)) == ("trusted", ["refresh.no_answer"])


def test_a_stranger_who_says_nothing_is_no_peer(tides: Site) -> None:
    """Twin: where nothing is remembered either there is no verdict."""
    tides.broken.update(dict.fromkeys([RELEASE_PATH, at(1, 1)], "500 No"))
    report = looked(verifier(tides))
    assert report.verdict == "indeterminate"
    assert codes(report.reasons)[0] == "trust.no_keys"
    assert "refresh.no_answer" in codes(report.reasons)


# ------------------------------------------------------------------ the chain, live


def rotated(tides: Site, *cards: dict[str, object]) -> bytes:
    """The next keyset statement, and a release under it."""
    second = peer.keyset(2, tides.documents[at(1, 1)], iat=peer.T0 + 1)
    tides.publish(second, release=peer.release(second, *(cards or (PORTABLE,)), seq=43))
    return second


def test_a_release_that_vanished(tides: Site, met: Verifier) -> None:
    """404 after it was seen is said; what is remembered holds until it expires."""
    del tides.documents[RELEASE_PATH]
    met.clock.pass_by(301)
    report = looked(met)
    assert (report.verdict, codes(report.reasons)) == ("trusted", ["statement.vanished"])
    assert at(1, 1) in tides.paths()


# ------------------------------------------------------------------ copies of two ages


def test_copies_of_two_ages_are_fetched_anew_once(tides: Site) -> None:
    """A new card before a release two minutes old: both are asked for again, and all is well."""
    tides.headers[CANONICAL] = {"Cache-Control": "max-age=60"}
    one = verifier(tides)
    looked(one)
    first = tides.documents[at(1, 1)]
    tides.publish(release=peer.release(first, PORTABLE, OTHER, seq=43))
    tides.documents[CANONICAL] = dump(signed(OTHER, key("card")))
    tides.paths()
    one.clock.pass_by(120)
    assert looked(one).verdict == "trusted"
    assert tides.paths() == [CANONICAL, *LATER]


def test_a_mismatch_that_stays_is_looked_into_once_in_a_while(tides: Site, met: Verifier) -> None:
    """Each unknown card costs no refetch of everything: that is for the cooldown to allow."""
    tides.headers[CANONICAL] = {"Cache-Control": "no-store"}
    met.clock.pass_by(310)
    looked(met)
    tides.paths()
    for number in range(20):
        card = {**PORTABLE, "version": f"6.{number}"}
        tides.documents[CANONICAL] = dump(signed(card, key("card")))
        assert looked(met).verdict == "untrusted"
    asked = tides.paths()
    assert (asked.count(RELEASE_PATH), asked.count(CANONICAL)) == (1, 21)


# ------------------------------------------------------------------ anchors


def test_statements_at_hand_go_along(tides: Site) -> None:
    """Under a keyset anchor they are evidence as any other."""
    second = rotated(tides)
    del tides.documents[at(1, 2)]
    one = verifier(tides)
    assert looked(one).verdict == "indeterminate"
    met = one.judge.look_up(HOST, statements=SuppliedStatements((second,)))
    assert met.report.verdict == "trusted"


# ------------------------------------------------------------------ never stale


# ------------------------------------------------------------------ the library


def test_only_a_trusted_card_is_returned(tides: Site) -> None:
    """Synchronously and otherwise, by one call or by many."""
    one = verifier(tides)
    tides.documents[JWKS] = JwkSet.of([key("card").public]).to_bytes()
    policy = Policy.from_jwks_url(HOST + JWKS, origin=HOST, name="tides")
    given = {"policy": policy, "now": Clock().now, "settings": tides.settings()}
    cards = [
        one.judge.discover(HOST),
        asyncio.run(one.judge.adiscover(HOST)),
        cardsign.discover(HOST, **given),
        asyncio.run(cardsign.adiscover(HOST, **given)),
    ]
    assert [card.subject for card in cards] == ["tides"] * 4
    assert all(card.document == PORTABLE for card in cards)
    tides.documents[CANONICAL] = dump(signed(PORTABLE, key("mallory")))
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        cardsign.discover(HOST, **given)
    with pytest.raises(NotTrusted, match=r"key\.unknown"):
        asyncio.run(cardsign.adiscover(HOST, **given))


def test_a_meeting_tells_what_was_received(tides: Site) -> None:
    """The bytes and the statements, for who needs more than the verdict."""
    met = verifier(tides).judge.look_up(HOST)
    assert (met.url, met.untrusted_card) == (CARD, tides.documents[CANONICAL])
    assert met.supplied.untrusted_keysets == (tides.documents[at(1, 1)],)
    assert met.report.verdict == "trusted"


def test_a_time_of_one_s_choice_keeps_nothing(tides: Site) -> None:
    """Not even where the card was found."""
    one = verifier(tides)
    met = one.judge.look_up(HOST, at=one.clock())
    assert (met.report.verdict, met.report.historic) == ("indeterminate", True)
    assert (one.known().keyset, one.known().release, one.known().cards) == (None, None, set())


# ------------------------------------------------------------------ a cache on the disk


def test_another_process_goes_on_from_there(tides: Site, tmp_path: Path) -> None:
    """By the statements of before, each verified again."""
    cache = StatementCache(tmp_path / "cache")
    assert looked(verifier(tides, cache=cache)).verdict == "trusted"
    rotated(tides)
    assert looked(verifier(tides, cache=cache)).verdict == "trusted"
    assert tides.paths()[len(WHOLE) :] == [CANONICAL, RELEASE_PATH, at(2, 1), at(1, 2), at(1, 3)]


def test_a_full_disk_takes_no_verdict_away(
    tides: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is a convenience; the next process asks for everything again."""

    def full(*_: object, **__: object) -> None:
        raise FileFault("file.unwritable", "no space left on device")

    monkeypatch.setattr("cardsign.trust.supplied.write_atomic", full)
    cache = StatementCache(tmp_path / "cache")
    for _ in range(2):
        assert looked(verifier(tides, cache=cache)).verdict == "trusted"
        assert tides.paths() == WHOLE


# ------------------------------------------------------------------ two agents of one issuer

AGENT = "/agents/b.json"
MIRROR = "https://mirror.example/copy.json"


@pytest.fixture
def two(tides: Site) -> Site:
    """The peer with a second agent, whose card is listed for a path of its own."""
    first = tides.documents[at(1, 1)]
    listed = [
        {"url": url, "kind": "public", "payload_sha256": peer.digest(card), "seq": 43}
        for url, card in ((CARD, PORTABLE), (HOST + AGENT, OTHER))
    ]
    tides.publish(release=peer.release(first, seq=43, cards=listed, floor={CARD: 43}))
    tides.documents[AGENT] = dump(signed(OTHER, key("card")))
    return tides


SUBJECTS = {
    "the URL alone": None,
    "the issuer besides": Subject(issuer="tides"),
    "the origin besides": Subject(origin=HOST),
}


@pytest.mark.parametrize("expect", SUBJECTS.values(), ids=SUBJECTS)
def test_two_agents_of_one_issuer_cannot_be_swapped(two: Site, expect: Subject | None) -> None:
    """Who names more than the URL gets no less (threat 3); honestly served both are trusted."""
    for url in (HOST, HOST + AGENT):
        assert verifier(two).examine(url, expect=expect).verdict == "trusted"
    two.documents[CANONICAL], two.documents[AGENT] = (
        two.documents[AGENT],
        two.documents[CANONICAL],
    )
    for url in (HOST, HOST + AGENT):
        one = verifier(two)
        report = one.examine(url, expect=expect)
        assert (report.verdict, codes(report.reasons)[0]) == ("untrusted", "card.listed_elsewhere")
        assert one.known().cards == set()


@pytest.mark.parametrize("expect", [Subject(issuer="tides"), Subject(origin=HOST)])
def test_a_copy_is_the_card_of_who_was_named_and_its_place_is_not_remembered(
    two: Site, expect: Subject
) -> None:
    """A mirror's URL is nobody's place: without the name it is no card of his."""
    two.documents["/copy.json"] = two.documents[AGENT]
    one = verifier(two)
    assert one.examine(MIRROR, expect=expect).verdict == "trusted"
    assert one.known().cards == set()
    assert one.examine(MIRROR).verdict != "trusted"
    assert one.examine(HOST + AGENT, expect=expect).verdict == "trusted"
    assert one.known().cards == {HOST + AGENT}


def test_another_origin_of_the_issuer_is_a_copy_of_the_one_that_was_named(two: Site) -> None:
    """Where the URL and the origin named differ, the origin is held: both are his."""
    two.documents["/copy.json"] = two.documents[AGENT]
    places = (parse_place(HOST), parse_place("https://mirror.example"))
    one = verifier(two, places=places)
    assert one.examine(MIRROR, expect=Subject(origin=HOST)).verdict == "trusted"
    assert one.known().cards == set()
    for expect in (None, Subject(issuer="tides"), Subject(origin="https://mirror.example")):
        report = one.examine(MIRROR, expect=expect)
        assert codes(report.reasons)[0] == "card.listed_elsewhere"


# ------------------------------------------------------------------ what nobody foresaw


@pytest.mark.parametrize("crash", [MemoryError, RecursionError, ZeroDivisionError])
def test_what_nobody_foresaw_is_no_verdict(
    tides: Site, met: Verifier, monkeypatch: pytest.MonkeyPatch, crash: type[Exception]
) -> None:
    """A lack of memory or a bug, met in looking at one peer, ends that look alone."""

    def judged(untrusted_card: bytes, *about: Any, **how: Any) -> Report:
        if untrusted_card == b"{}":
            raise crash
        return judge_card(untrusted_card, *about, **how)

    monkeypatch.setattr("cardsign.verify.verifier.judge_card", judged)
    tides.documents["/hostile.json"] = b"{}"
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(met.examine, [HOST + "/hostile.json", HOST])
    assert (one.verdict, one.exit_status) == ("indeterminate", 3)
    assert [reason.code for reason in one.reasons] == ["peer.not_examined"]
    assert crash.__name__ in one.reasons[0].message
    assert other.verdict == "trusted"


def test_misuse_is_no_verdict_about_a_peer(met: Verifier) -> None:
    """The twin: what the caller did wrong, the caller hears of."""
    with pytest.raises(CardRefused):
        met.examine(HOST, expect=Subject(origin="no origin"))


def test_a_hostile_card_hides_no_other(tides: Site, met: Verifier) -> None:
    """A long name over a long array: its pointers alone would fill gigabytes."""
    hostile = b'{"%b": [%b], "signatures": [{}]}' % (b"n" * 60_000, b",".join([b"0"] * 12_000))
    tides.documents["/hostile.json"] = hostile
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(met.examine, [HOST + "/hostile.json", HOST])
    assert one.verdict != "trusted"
    assert other.verdict == "trusted"
