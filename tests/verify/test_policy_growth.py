"""What a verdict costs does not grow with issuers, keys and history that it is not about.

Counted are calls of functions, never seconds: a slow machine fails nothing here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cardsign.statements.keyset import KeysetId
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import digest_of
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import parse_place
from tests.statements.making import DAY, NOW, T0
from tests.support import Remembering, count_calls, reach_verdict

ORIGIN = "https://tides.example"
PLACES = (parse_place(ORIGIN),)
THEM = FakeIssuer(NOW, origin=ORIGIN)
CARD = THEM.card_members()
SIGNED = THEM.signed_card(CARD)


def calls(policy: Policy, supplied: SuppliedStatements = NO_STATEMENTS) -> int:
    """How many functions are called for a verdict, the issuer being remembered."""
    expect, memory = Subject(issuer="tides"), Remembering()

    def verdict() -> None:
        report = reach_verdict(
            SIGNED, expect=expect, policy=policy, now=NOW, supplied=supplied, memory=memory
        )
        assert report.verdict == "trusted"

    return count_calls(verdict)


def issuers(number: int) -> Policy:
    """A policy of so many issuers, each at an origin of its own."""
    others = [
        TrustedIssuer(
            f"o{at}", KeysAnchor(THEM.jwks(f"o{at}")), (parse_place(f"https://o{at}.example"),)
        )
        for at in range(number - 1)
    ]
    return Policy((*others, *keys(1).issuers))


def keys(number: int) -> Policy:
    """A policy that pins so many keys of the issuer; the last one signs."""
    names = [f"key-{at}" for at in range(number - 1)]
    anchor = KeysAnchor(THEM.jwks(*names, "card"))
    return Policy((TrustedIssuer("tides", anchor, PLACES, freshness="waived"),))


def history(number: int) -> tuple[Policy, SuppliedStatements]:
    """A pin and so many keysets after it, all supplied, with a release under the last."""
    begun = T0 - DAY - number * 60
    chain = [THEM.keyset("owner", root=THEM.quorum(1, "owner"), iat=begun)]
    for at in range(1, number):
        chain.append(THEM.keyset_after(chain[-1], "owner", iat=begun + at * 60))
    release = THEM.release(chain[-1], **THEM.listing(CARD, seq=1))
    pin = KeysetAnchor(KeysetId(1, 1, digest_of(chain[0])))
    return Policy((TrustedIssuer("tides", pin, PLACES),)), SuppliedStatements(
        tuple(chain), (release,)
    )


GROWTH: dict[str, Callable[[int], int]] = {
    "issuers": lambda number: calls(issuers(number)),
    "keys": lambda number: calls(keys(number)),
    "keysets of history": lambda number: calls(*history(number)),
}


@pytest.mark.parametrize("what", GROWTH)
def test_a_verdict_costs_no_more_with_more(what: str) -> None:
    """A tenth more at most, for thirty times as many."""
    assert GROWTH[what](60) <= 1.1 * GROWTH[what](2)


def test_remembered_statements_cost_what_pinned_keys_cost() -> None:
    """The keyset and its release were verified when they came."""
    assert calls(*history(1)) <= 1.3 * calls(keys(1))
