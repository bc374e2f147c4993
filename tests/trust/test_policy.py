"""The policy: which entry speaks for whom, what it may say, and that nobody speaks by default."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from cardsign.card.profiles import FULL_PROFILES
from cardsign.errors import CardRefused, UsageFault
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import Place, parse_place

NO_KEYS = KeysAnchor(JwkSet.of([]))


@pytest.fixture(scope="module")
def policy(alice: PrivateKey, bob: PrivateKey) -> Policy:
    """A host shared by three issuers, one of a path alone, and a mast that may stand anywhere."""
    places = {
        "host": ("https://a.example", "https://a.example:8443"),
        "ann": ("https://a.example/ann", "https://ann.example"),
        "boat": ("https://a.example/ann/boat/",),
        "berth": ("https://b.example/berth",),
    }
    anchors = {"host": alice, "ann": bob}
    issuers = [
        TrustedIssuer(
            name,
            KeysAnchor(JwkSet.of([anchors[name].public])) if name in anchors else NO_KEYS,
            tuple(map(parse_place, where)),
        )
        for name, where in places.items()
    ]
    return Policy((*issuers, TrustedIssuer("mast", NO_KEYS, None)))


#: By what a subject is named, and the entry that speaks for it; "-" for none.
FOUND = """
issuer boat                                     boat
issuer mast                                     mast
origin https://a.example:8443                   host
url https://a.example/.well-known/agent-card.json host
url https://a.example/anna/card.json            host
url https://a.example/ann/card.json             ann
url https://a.example/ann/boat/card.json        boat
url https://b.example/berth/card.json           berth
origin https://b.example                        -
url https://b.example/card.json                 -
issuer Boat                                     -
origin http://a.example                         -
url https://ann.example:8443/x                  -
"""


@pytest.mark.parametrize("row", FOUND.strip().split("\n"))
def test_exactly_the_entry_that_was_meant_speaks(policy: Policy, row: str) -> None:
    """On a shared host agents cannot be swapped (threat 3); an empty policy says nothing."""
    member, value, name = row.split()
    issuer = policy.find(Subject(**{member: value}))
    assert (issuer.name if issuer else "-") == name
    assert Policy().find(Subject(**{member: value})) is None
    assert policy.find(Subject()) is None


@pytest.mark.parametrize(
    "subject", [{"origin": "https://a.example/x"}, {"url": "a.example"}, {"origin": ""}]
)
def test_a_subject_outside_the_grammar(policy: Policy, subject: dict[str, str]) -> None:
    """An origin is an origin, a card's url a url."""
    with pytest.raises(CardRefused):
        policy.find(Subject(**subject))


def test_keys_alone_at_an_origin(alice: PrivateKey) -> None:
    """Freshness is waived, full profiles count; narrowed to one origin, and found by it as well."""
    jwks = JwkSet.of([alice.public])
    policy = Policy.from_jwks(jwks, name="x", origin="https://a.example")

    holder = policy.find(Subject(issuer="x"))
    assert holder is not None
    assert (holder.freshness, holder.profiles) == ("waived", FULL_PROFILES)
    assert holder.places == (parse_place("https://a.example"),)
    assert policy.find(Subject(origin="https://a.example")) is holder
    assert policy.find(Subject(origin="https://b.example")) is None
    assert TrustedIssuer("x", NO_KEYS, None).freshness == "required"


ACCEPTED_IN_VAIN: dict[str, dict[str, Any]] = {
    "js-instance beside another": {"accept": "sdk", "only": ("served-as-is", "js-instance")},
    "a lossy profile, where only full ones are accepted": {"only": ("prune-empty",)},
    "a profile in place of the word": {"accept": "prune-empty"},
    "no algorithm": {"algorithms": ()},
    "a shared secret beside another": {"algorithms": ("ES256", "HS512")},
    "algorithm none": {"algorithms": ("none",)},
}


@pytest.mark.parametrize("members", ACCEPTED_IN_VAIN.values(), ids=ACCEPTED_IN_VAIN)
def test_what_nobody_may_accept(members: dict[str, Any]) -> None:
    """js-instance and HS* never count, and narrowing never widens."""
    with pytest.raises(UsageFault, match=f"{[*members][-1]} of 'x' takes "):
        TrustedIssuer("x", NO_KEYS, None, **members)


def test_whose_a_place_is_costs_the_same_however_many_there_are() -> None:
    """One look-up for each level of a path, not one for each place of the policy (S9)."""
    places = [(parse_place(f"https://a.example/{n}/"),) for n in range(500)]
    policy = Policy(tuple(TrustedIssuer(f"n{n}", NO_KEYS, place) for n, place in enumerate(places)))
    assert policy.find(Subject(url="https://a.example/card.json")) is None
    with mock.patch.object(Place, "holds", side_effect=AssertionError("places were walked")):
        for n in range(500):
            issuer = policy.find(Subject(url=f"https://a.example/{n}/x/card.json"))
            assert issuer is policy.issuers[n]
