"""An extended card beside its public one (threat 12): the one is nothing without the other."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.trust.policy import Subject
from cardsign.trust.walk import SuppliedStatements
from cardsign.verify.report import Report
from tests.statements.making import DAY, T0, URL, entry, later
from tests.support import PORTABLE, codes
from tests.trust.establishing import ORIGIN
from tests.trust.histories import keyset
from tests.verify.test_verdict_freshness import marked
from tests.verify.tides import Tides, card_of, current

HOUR = 3600
INTERFACES: list[dict[str, Any]] = PORTABLE["supportedInterfaces"]


def at(url: str, **changes: Any) -> dict[str, Any]:
    """An interface elsewhere."""
    return {**INTERFACES[0], "url": url, **changes}


def beside(
    tides: Tides,
    public: bytes,
    extended: bytes,
    *,
    of: Subject | None = None,
    audience: str = "moor",
    **changes: Any,
) -> tuple[Report, Report]:
    """Both verdicts, with a release that lists the public card."""
    tides.memory.now = later(0)
    return tides.memory.verifier(tides.policy).judge_extended(
        public,
        extended,
        of or Subject(url=URL),
        SuppliedStatements((tides.one,), (current(tides.one, **changes),)),
        audience=audience,
    )


@pytest.mark.parametrize(
    "of",
    [Subject(url=URL), Subject(origin=ORIGIN), Subject(issuer="tides")],
    ids=["url", "origin", "issuer"],
)
def test_both_are_trusted(of: Subject) -> None:
    """Each of its own kind, by the same anchor; the subject says which is which."""
    public, extended = beside(Tides(), card_of(), card_of(card=marked()), of=of)

    assert (public.verdict, extended.verdict) == ("trusted", "trusted")
    assert (public.card, extended.card) == (PORTABLE, marked())
    assert public.subject == "tides"
    assert extended.subject == "tides, extended card of audience moor"
    assert "extended.public_untrusted" not in codes(extended)


def test_beside_an_indeterminate_public_card_it_is_indeterminate() -> None:
    """What is missing there is missing here: the evidence came once for both, the card not."""
    tides = Tides(freshness="required")
    first, extended = beside(tides, card_of(), card_of(card=marked()), iat=T0 - 8 * DAY, exp=T0)

    assert (first.verdict, extended.verdict) == ("indeterminate", "indeterminate")
    assert "extended.public_untrusted" in codes(extended)


ELSEWHERE = f"{ORIGIN}/other-agent"
SHARED: dict[str, tuple[dict[str, Any], bool]] = {
    "one more interface": ({"supportedInterfaces": [*INTERFACES, at(ELSEWHERE)]}, True),
    "the same in another binding": (
        {"supportedInterfaces": [at(INTERFACES[0]["url"], protocolBinding="HTTP+JSON")]},
        True,
    ),
    "in the words of 0.3": (
        {"supportedInterfaces": None, "url": INTERFACES[0]["url"], "protocolVersion": "0.3.0"},
        True,
    ),
    "another path": ({"supportedInterfaces": [at(ELSEWHERE)]}, False),
    "another tenant": (
        {"supportedInterfaces": [{**one, "tenant": "b"} for one in INTERFACES]},
        False,
    ),
    "another path in the words of 0.3": (
        {"supportedInterfaces": None, "url": ELSEWHERE, "protocolVersion": "0.3.0"},
        False,
    ),
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
    assert codes(extended)[0] == "extended.other_agent"
    assert extended.exit_status == 1


def test_two_tenants_of_one_url_are_two_agents() -> None:
    """Each card names its own tenant there."""

    def of(tenant: str, card: dict[str, Any]) -> dict[str, Any]:
        return {**card, "supportedInterfaces": [{**one, "tenant": tenant} for one in INTERFACES]}

    listed = of("a", PORTABLE)
    for tenant, verdict in (("a", "trusted"), ("b", "untrusted")):
        both = beside(
            Tides(), card_of(card=listed), card_of(card=of(tenant, marked())), card=listed
        )
        assert [report.verdict for report in both] == ["trusted", verdict]


def test_its_own_fault_goes_first() -> None:
    """And that of the public card is said besides."""
    public, extended = beside(Tides(), card_of("eve"), card_of(card=marked(audience="pier")))
    assert public.verdict == extended.verdict == "untrusted"
    assert codes(extended)[0] == "extended.audience_mismatch"
    assert codes(extended)[-1] == "extended.public_untrusted"

    public, extended = beside(Tides(), card_of(), card_of(card=marked(audience="pier")))
    assert (public.verdict, extended.verdict) == ("trusted", "untrusted")
    assert "extended.public_untrusted" not in codes(extended)


@pytest.mark.parametrize(
    ("own", "least"), [(HOUR, HOUR), (30 * DAY, 3 * DAY)], ids=["its own end", "the public one's"]
)
def test_it_lasts_no_longer_than_the_public_card(own: int, least: int) -> None:
    """The least of both deadlines; here the key of the public card ends in three days."""
    keys = [
        entry("card", "card", exp=T0 + 3 * DAY),
        entry("card2", "card"),
        entry("rel", "release"),
    ]
    tides = Tides(keyset("ann", "bob", keys=keys))
    extended_card = card_of("card2", card=marked(exp=T0 + own))

    public, extended = beside(tides, card_of("card"), extended_card)
    assert public.valid_until == later(3 * DAY)
    assert extended.valid_until == later(least)
