"""Verdicts of before: reused in the same matter alone, and never longer than they hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.trust.policy import (
    AtOrigin,
    CardUrl,
    Extended,
    Holder,
    Issuer,
    KeysAnchor,
    Limits,
    Policy,
)
from cardsign.trust.supplied import SuppliedStatements
from cardsign.verify.report import Report
from cardsign.verify.verdict import Matter, VerdictCache, reach_verdict
from tests.jose.statement_making import DAY, T0, URL, entry, key, thumbprint
from tests.support import NOW, PORTABLE, codes, dump, signed
from tests.trust.establishing import ORIGIN
from tests.trust.histories import after, keyset
from tests.verify.tides import Tides, card_of, current, later


class Watched(VerdictCache):
    """A cache that says whether it was of use the last time."""

    def __init__(self) -> None:
        super().__init__()
        self.hits: list[bool] = []

    def get(self, matter: Matter, now: datetime) -> Report | None:
        """See :class:`VerdictCache`."""
        found = super().get(matter, now)
        self.hits.append(found is not None)
        return found


def test_the_same_matter_gets_the_same_verdict() -> None:
    """As of now: nothing else differs."""
    tides, cache = Tides(), Watched()
    first = tides.says(cache=cache)
    second = tides.says(cache=cache, now=later(60))

    assert cache.hits == [False, True]
    assert second == replace(first, checked_at=later(60))
    assert second == tides.says(now=later(60))


OTHER_MATTERS: dict[str, Callable[[Tides], dict[str, Any]]] = {
    "other bytes": lambda tides: {"card": card_of() + b" "},
    "another subject, the issuer": lambda tides: {"expect": Issuer("tides")},
    "another subject, the origin": lambda tides: {"expect": AtOrigin(ORIGIN)},
    "another subject, elsewhere": lambda tides: {"expect": CardUrl(f"{ORIGIN}/b")},
    "another kind": lambda tides: {"expect": Extended(CardUrl(URL), "moor")},
    "a newer keyset": lambda tides: {"keysets": [after(tides.one)]},
    "a newer release": lambda tides: {"releases": [current(tides.one, seq=6)]},
    "a revocation": lambda tides: {
        "releases": [current(tides.one, seq=6, revoked=[thumbprint("card")])]
    },
    "something to be noted": lambda tides: {"keysets": [tides.one, b"junk"]},
    "a time of one's choice": lambda tides: {"historic": True},
}


@pytest.mark.parametrize("changed", OTHER_MATTERS.values(), ids=OTHER_MATTERS)
def test_another_matter_is_judged_anew(changed: Callable[[Tides], dict[str, Any]]) -> None:
    """Evil.example may serve somebody's genuine card (threat 3): a warm cache is no help."""
    tides, cold, cache = Tides(), Tides(), Watched()
    tides.says(cache=cache)
    cold = Tides(tides.one)
    cold.says()

    warm = tides.says(cache=cache, **changed(tides))
    assert cache.hits == [False, False]
    assert warm == cold.says(**changed(tides))


OTHER_POLICIES: dict[str, Callable[[bytes], Tides]] = {
    "another limit": lambda one: Tides(one, limits=Limits(skew=0)),
    "a required holder": lambda one: Tides(one, require=("registry",)),
    "no freshness": lambda one: Tides(one, freshness="waived"),
    "an entry more": lambda one: _with_entry_more(Tides(one)),
}


def _with_entry_more(tides: Tides) -> Tides:
    (entry,) = tides.policy.issuers
    tides.policy = Policy((entry, replace(entry, name="lamp", places=None)))
    return tides


@pytest.mark.parametrize("other", OTHER_POLICIES.values(), ids=OTHER_POLICIES)
def test_another_policy_is_another_matter(other: Callable[[bytes], Tides]) -> None:
    """One cache may serve several."""
    tides, cache = Tides(), Watched()
    tides.says(cache=cache)

    other(tides.one).says(cache=cache)
    assert cache.hits == [False, False]


def test_a_verdict_is_reused_until_its_deadline() -> None:
    """To the second; and not before the time at which it was reached."""
    tides, cache = Tides(), Watched()
    releases = [current(tides.one, exp=T0 + 3600)]
    for seconds, hit, verdict in (
        (100, False, "trusted"),
        (99, False, "trusted"),
        (99, True, "trusted"),
        (3599, True, "trusted"),
        (3600, False, "indeterminate"),
    ):
        report = tides.says(cache=cache, releases=releases, now=later(seconds))
        assert (cache.hits[-1], report.verdict) == (hit, verdict)


def test_a_verdict_ends_with_its_key() -> None:
    """Statements hold on, and nothing but the deadline says that the key does not."""
    keys = [entry("card", "card", exp=T0 + 3600), entry("rel", "release")]
    tides, cache = Tides(keyset("ann", "bob", keys=keys)), Watched()
    for seconds, hit, verdict in (
        (0, False, "trusted"),
        (3599, True, "trusted"),
        (3600, False, "untrusted"),
    ):
        report = tides.says(cache=cache, now=later(seconds))
        assert (cache.hits[-1], report.verdict) == (hit, verdict)


def test_a_key_that_did_not_count_yet_does_not_count_by_a_later_verdict() -> None:
    """A clock that is set back finds no verdict of the time ahead."""
    keys = [entry("card", "card", nbf=T0), entry("rel", "release")]
    tides, cache = Tides(keyset("ann", "bob", keys=keys)), Watched()
    releases = [current(tides.one, iat=T0 - 2 * DAY, exp=T0 + DAY)]
    assert tides.says(cache=cache, releases=releases).verdict == "trusted"

    early = tides.says(cache=cache, releases=releases, now=later(-301))
    assert (early.verdict, codes(early)[0]) == ("untrusted", "key.not_yet_valid")
    assert cache.hits == [False, False]


def test_without_a_deadline_a_verdict_holds_until_it_goes() -> None:
    """Pinned keys set none."""
    keys = KeysAnchor(JwkSet.of([key("card").public]))
    tides, cache = Tides(anchor=keys, freshness="waived"), Watched()
    tides.says(cache=cache)

    tides.says(cache=cache, now=later(1000 * DAY))
    assert cache.hits == [False, True]


@pytest.mark.parametrize(
    "circumstances",
    [{"card": card_of("eve")}, {"card": b"{"}, {"releases": []}],
    ids=["untrusted", "invalid", "indeterminate"],
)
def test_only_trusted_verdicts_are_kept(circumstances: dict[str, Any]) -> None:
    """What was missing may have come meanwhile."""
    tides, cache = Tides(), VerdictCache()
    tides.says(cache=cache, **circumstances)

    assert len(cache._verdicts) == 0


def test_what_a_caller_does_to_a_report_does_not_reach_the_cache() -> None:
    """Neither to the first one nor to a later one."""
    tides, cache = Tides(), Watched()
    for _ in range(3):
        report = tides.says(cache=cache)
        assert report.card is not None
        assert report.card == PORTABLE
        report.card["supportedInterfaces"][0]["url"] = "https://evil.example/"
        report.card["skills"].clear()
    assert cache.hits == [False, True, True]


def test_one_verdict_is_kept_of_a_subject() -> None:
    """The last one: a URL serves one card at a time."""
    tides, cache = Tides(), Watched()
    for card in (card_of(), card_of() + b" ", card_of()):
        tides.says(card, cache=cache)
    assert (cache.hits, len(cache._verdicts)) == ([False] * 3, 1)


def test_O18_a_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins anew when it is full."""
    monkeypatch.setattr("cardsign.verify.verdict.MAX_VERDICTS", 2)
    cache, report = VerdictCache(), Tides().says()
    for number in range(5):
        cache.put((number, "the rest"), report)
        assert len(cache._verdicts) <= 2


def test_nobody_s_card_is_not_looked_up() -> None:
    """Without an entry there is nothing that could be trusted."""
    tides, cache = Tides(), Watched()
    for expect in (Issuer("lamp"), Holder()):
        tides.says(expect=expect, cache=cache)

    assert (cache.hits, len(cache._verdicts)) == ([], 0)


def test_threads_share_a_cache() -> None:
    """Each gets the verdict on his own card."""
    keys = KeysAnchor(JwkSet.of([key("card").public]))
    tides, cache = Tides(anchor=keys, freshness="waived"), VerdictCache()
    cards = [card_of(card={**PORTABLE, "version": str(number)}) for number in range(6)]
    together = threading.Barrier(8)

    def judge(thread: int) -> list[str]:
        together.wait(timeout=60)
        versions = []
        for turn in range(30):
            number = (thread + turn) % len(cards)
            report = tides.says(cards[number], cache=cache)
            assert report.card is not None
            versions.append(report.card["version"] == str(number))
        return versions

    with ThreadPoolExecutor(8) as pool:
        assert all(all(versions) for versions in pool.map(judge, range(8)))


def test_a_key_that_is_for_another_algorithm_now_is_judged_anew() -> None:
    """The same numbers, republished: a verdict of before says nothing of them."""
    key = PrivateKey.generate("RS256", kid="k")
    card, url = signed(PORTABLE, key), "https://tides.example/jwks.json"
    policy = Policy.from_jwks_url(url, origin="https://tides.example")
    issuers = tuple(replace(one, freshness="waived") for one in policy.issuers)
    policy, cache = replace(policy, issuers=issuers), VerdictCache()

    def verdict(alg: str) -> str:
        listed = {**key.public.numbers, "kid": "k", "use": "sig", "alg": alg}
        jwks = json.dumps({"keys": [listed]}).encode()
        supplied = SuppliedStatements(untrusted_jwks=jwks, jwks_url=url)
        subject = Issuer(issuers[0].name)
        report = reach_verdict(
            dump(card), expect=subject, policy=policy, now=NOW, supplied=supplied, cache=cache
        )
        return report.verdict

    assert (verdict("RS256"), verdict("PS256")) == ("trusted", "untrusted")
