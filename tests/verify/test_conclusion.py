"""From signatures to one verdict: what a release lists, what is missing, until when (V4 to V8).

The rules that refuse are in tests/attacks; here is what no case of a corpus can say.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import KeysAnchor, Subject
from cardsign.trust.walk import SuppliedStatements
from cardsign.verify.report import Report
from cardsign.verify.verdict import beside_its_public_card
from tests.statements.making import DAY, T0, URL, Members, entry, key, later
from tests.support import PORTABLE, codes
from tests.trust.establishing import ORIGIN, listed
from tests.trust.histories import digest_of, keyset
from tests.verify.tides import Tides, card_of, current, marked

# ------------------------------------------------------------------ what the release lists

ELSEWHERE = f"{ORIGIN}/b/agent-card.json"
FAR = {"cards": [listed(url="https://lamp.example/x")]}
TWO = [listed(), listed(url=ELSEWHERE)]
TIDES = Subject(issuer="tides")
#: What a release says, whom the verdict is about, and the code against the card, if any.
LISTED: dict[str, tuple[Members, Subject, str]] = {
    "somewhere at the origin": ({"cards": [listed(url=ELSEWHERE)]}, Subject(origin=ORIGIN), ""),
    "anywhere at home for the issuer": ({"cards": [listed(url=ELSEWHERE)]}, TIDES, ""),
    "below another url's floor": ({"floor": {ELSEWHERE: 5}}, Subject(url=URL), ""),
    "above the floor at one of two places": ({"cards": TWO, "floor": {URL: 4}}, TIDES, ""),
    "for another origin": (FAR, Subject(origin=ORIGIN), "card.listed_elsewhere"),
    "for a place outside the policy": (FAR, TIDES, "card.listed_elsewhere"),
    "below all floors": ({"cards": TWO, "floor": {URL: 4, ELSEWHERE: 5}}, TIDES, "card.rollback"),
}


@pytest.mark.parametrize(("changes", "expect", "code"), LISTED.values(), ids=LISTED)
def test_what_the_release_lists_is_current(changes: Members, expect: Subject, code: str) -> None:
    """By the payload's digest, at the place that was asked; a no is evidence, waived or not."""
    for tides in (Tides(), Tides(freshness="waived")):
        report = tides.says(releases=[current(tides.one, **changes)], expect=expect)
        expected = ("untrusted", "no") if code else ("trusted", "yes")
        assert (report.verdict, report.answers.current) == expected
        assert codes(report)[:1] == [code] * bool(code)


# ------------------------------------------------------------------ holders

BOTH = ("harbour", "registry")


def test_pinned_keys_count_for_the_holders_that_the_policy_names() -> None:
    """A key without a holder counts for nobody."""
    keys = JwkSet.of(key(name).public for name in ("card", "registry"))
    kids = [key(name).public.kid for name in ("card", "registry")]
    named = KeysAnchor(keys, dict(zip(kids, BOTH, strict=True)))
    for anchor, verdict in ((named, "trusted"), (KeysAnchor(keys), "untrusted")):
        tides = Tides(anchor=anchor, require=BOTH, freshness="waived")
        report = tides.says(card_of("card", "registry"))
        assert report.verdict == verdict
        assert ("threshold.unmet" in codes(report)) == (verdict == "untrusted")


def test_a_required_co_signer_s_end_is_a_deadline() -> None:
    """Of those who are required, and of nobody else."""
    keys = [entry("card", "card"), entry("rel", "release")]
    keys.append(entry("registry", "card", holder="registry", exp=T0 + 120))
    shared, card = keyset("ann", "bob", keys=keys), card_of("card", "registry")
    assert Tides(shared, require=BOTH).says(card).valid_until == later(120)
    assert Tides(shared, require=("harbour",)).says(card).valid_until == later(7 * DAY)


# ------------------------------------------------------------------ until when


def ends_at(card: int, release: int) -> Members:
    """A keyset whose keys end so many seconds from now."""
    ends = {"card": T0 + card, "release": T0 + release}
    return {"keys": [entry(role, role, exp=exp) for role, exp in ends.items()]}


#: What keyset and release say, the policy's limits, and the seconds to the end of the verdict.
LONG = 300 * DAY
ENDS: dict[str, tuple[Members, Members, Members, int]] = {
    "the keyset's end": ({"exp": T0 + 3600}, {}, {}, 3600),
    "the release's end": ({}, {"exp": T0 + 3601}, {}, 3601),
    "the key's end": (ends_at(3602, LONG), {}, {}, 3602),
    "the end of the key that signed the release": (ends_at(LONG, 3605), {}, {}, 3605),
    "the keyset's highest age": ({"iat": T0 - 10}, {}, {"keyset_age": 3613}, 3603),
    "the release's highest age": ({}, {}, {"release_age": 3604}, 3604),
    "a release's end before all others": (
        {"exp": T0 + 3700, **ends_at(3602, LONG)},
        {"exp": T0 + 60},
        {"keyset_age": 31 * DAY, "release_age": 3600},
        60,
    ),
}


@pytest.mark.parametrize(("first", "release", "limits", "end"), ENDS.values(), ids=ENDS)
def test_a_verdict_lasts_until_the_least_of_all_deadlines(
    first: Members, release: Members, limits: Members, end: int
) -> None:
    """V8; and at that time it is not reached any more."""
    tides = Tides(keyset("ann", "bob", **first), limits=limits)
    releases = [current(tides.one, signer="release" if "keys" in first else "rel", **release)]
    assert tides.says(releases=releases).valid_until == datetime.fromtimestamp(T0 + end, UTC)
    assert tides.says(releases=releases, now=later(end - 1)).verdict == "trusted"
    assert tides.says(releases=releases, now=later(end)).verdict != "trusted"


def test_what_a_waiver_waives() -> None:
    """The release, which ends nothing then; never the end of the keyset, nor a floor."""
    tides = Tides(keyset("ann", "bob", exp=T0 + 60 * DAY), freshness="waived")
    report = tides.says(now=later(8 * DAY))
    assert (report.verdict, codes(report)[0]) == ("trusted", "trust.freshness_waived")
    assert (report.valid_until, report.release) == (later(60 * DAY), None)
    report = tides.says(now=later(60 * DAY))
    assert (report.verdict, codes(report)[0]) == ("indeterminate", "statement.expired")


def test_an_unknown_key_is_untrusted_as_long_as_the_keyset_holds() -> None:
    """To its last second, with a release or without."""
    for releases in (None, []):
        for seconds, verdict in ((60 * DAY - 1, "untrusted"), (60 * DAY, "indeterminate")):
            report = Tides().says(card_of("eve"), releases=releases, now=later(seconds))
            assert report.verdict == verdict
    aged = Tides(limits={"keyset_age": 30 * DAY})
    assert aged.says(card_of("eve")).verdict == "indeterminate"
    assert Tides().says(card_of("eve"), keysets=[]).verdict == "indeterminate"


def test_a_signature_that_no_key_makes_good_waits_for_none() -> None:
    """Of keys that could not be had, none would verify it."""
    report = Tides().says(card_of().replace(b'"protected"', b'"protect"'), keysets=[])
    assert (report.verdict, codes(report)[:2]) == ("untrusted", ["sig.shape", "trust.no_keys"])


# ------------------------------------------------------------------ limits and the report


def test_the_report_names_what_it_rests_on() -> None:
    """The statements, the issuer by the policy's name, and the time; notes come last."""
    tides = Tides()
    five = current(tides.one)
    for report in (tides.says(releases=[five]), tides.says(b"{", releases=[five])):
        assert report.to_json()["statements"] == {
            "keyset": {"number": "1.1", "digest": digest_of(tides.one), "exp": T0 + 60 * DAY},
            "release": {"number": "5", "digest": digest_of(five), "exp": T0 + 7 * DAY},
        }
        assert report.checked_at == later(0)
    assert tides.says().issuer == "tides"
    without = tides.says(expect=Subject(issuer="lamp"))
    assert (without.keyset, without.release) == (None, None)
    assert codes(Tides(tides.one).says(keysets=[tides.one, b"junk"])) == ["statement.shape"]


# ------------------------------------------------------------------ an extended card (threat 12)


def beside(
    tides: Tides, public: bytes, extended: bytes, subject: Subject | None = None, **changes: Any
) -> tuple[Report, Report]:
    """The verdicts on both cards, with a release that lists the public one."""
    tides.memory.now = later(0)
    supplied = SuppliedStatements((tides.one,), (current(tides.one, **changes),))
    verifier = tides.memory.verifier(tides.policy)
    asked = subject or Subject(url=URL)
    first = verifier.judge(public, asked, supplied)
    second = verifier.judge(extended, replace(asked, audience="moor"), supplied)
    return first, beside_its_public_card(second, first)


@pytest.mark.parametrize("subject", [Subject(url=URL), Subject(origin=ORIGIN), TIDES], ids=str)
def test_both_cards_are_trusted(subject: Subject) -> None:
    """Each of its own kind, by the same anchor; the subject says which is which."""
    public, extended = beside(Tides(), card_of(), card_of(card=marked()), subject)
    assert (public.verdict, extended.verdict) == ("trusted", "trusted")
    assert (public.card, extended.card) == (PORTABLE, marked())
    assert public.subject == "tides"
    assert extended.subject == "tides, extended card of audience moor"
    assert "extended.public_untrusted" not in codes(extended)


def test_what_is_wrong_with_the_public_card_is_said_of_the_extended_one() -> None:
    """Missing evidence is missing for both; its own fault goes first."""
    tides = Tides(freshness="required")
    both = beside(tides, card_of(), card_of(card=marked()), iat=T0 - 8 * DAY, exp=T0)
    assert [report.verdict for report in both] == ["indeterminate", "indeterminate"]
    assert "extended.public_untrusted" in codes(both[1])
    other = card_of(card=marked(audience="pier"))
    public, extended = beside(Tides(), card_of("eve"), other)
    assert public.verdict == extended.verdict == "untrusted"
    assert codes(extended)[0] == "extended.audience_mismatch"
    assert codes(extended)[-1] == "extended.public_untrusted"
    public, extended = beside(Tides(), card_of(), other)
    assert (public.verdict, extended.verdict) == ("trusted", "untrusted")
    assert "extended.public_untrusted" not in codes(extended)


(ONE,) = PORTABLE["supportedInterfaces"]
OTHER = {**ONE, "url": f"{ORIGIN}/other-agent"}
OLD = {"supportedInterfaces": None, "protocolVersion": "0.3.0"}
SHARED: dict[str, tuple[dict[str, Any], bool]] = {
    "one more interface": ({"supportedInterfaces": [ONE, OTHER]}, True),
    "another binding": ({"supportedInterfaces": [{**ONE, "protocolBinding": "HTTP+JSON"}]}, True),
    "in the words of 0.3": ({**OLD, "url": ONE["url"]}, True),
    "another path": ({"supportedInterfaces": [OTHER]}, False),
    "another tenant": ({"supportedInterfaces": [{**ONE, "tenant": "b"}]}, False),
    "another path in the words of 0.3": ({**OLD, "url": OTHER["url"]}, False),
}


@pytest.mark.parametrize(("changes", "same"), SHARED.values(), ids=SHARED)
def test_it_is_the_extended_card_of_the_agent_beside_it(
    changes: dict[str, Any], same: bool
) -> None:
    """Another agent of the same issuer may have one for the same audience: also genuine."""
    members = {**marked(), **changes}
    card = {name: value for name, value in members.items() if value is not None}
    public, extended = beside(Tides(), card_of(), card_of(card=card))
    assert public.verdict == "trusted"
    if same:
        assert (extended.verdict, extended.card) == ("trusted", card)
        return
    assert (extended.verdict, extended.card, extended.valid_until) == ("untrusted", None, None)
    assert (codes(extended)[0], extended.exit_status) == ("extended.other_agent", 1)


def test_two_tenants_of_one_url_are_two_agents() -> None:
    """Each card names its own tenant there."""
    card = {**PORTABLE, "supportedInterfaces": [{**ONE, "tenant": "a"}]}
    for tenant, verdict in (("a", "trusted"), ("b", "untrusted")):
        theirs = {**marked(), "supportedInterfaces": [{**ONE, "tenant": tenant}]}
        both = beside(Tides(), card_of(card=card), card_of(card=theirs), card=card)
        assert [report.verdict for report in both] == ["trusted", verdict]


@pytest.mark.parametrize(("own", "least"), [(3600, 3600), (30 * DAY, 3 * DAY)])
def test_it_lasts_no_longer_than_the_public_card(own: int, least: int) -> None:
    """The least of both deadlines; here the key of the public card ends in three days."""
    keys = [entry("card", "card", exp=T0 + 3 * DAY)]
    keys += [entry("card2", "card"), entry("rel", "release")]
    extended_card = card_of("card2", card=marked(exp=T0 + own))
    public, extended = beside(Tides(keyset("ann", "bob", keys=keys)), card_of(), extended_card)
    assert public.valid_until == later(3 * DAY)
    assert extended.valid_until == later(least)
