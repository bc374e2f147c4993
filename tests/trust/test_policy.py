"""The policy: which entry speaks for whom, and that nobody speaks by default."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from cardsign.card.canonical import FULL_PROFILES
from cardsign.errors import CardRefused, UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.trust.policy import ACCEPTED, JwksAnchor, KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import Place, parse_place


@pytest.fixture(scope="module")
def policy(alice: PrivateKey, bob: PrivateKey) -> Policy:
    """The harbour with two origins, the lamp with one, and a mast that may stand anywhere."""
    return Policy(
        (
            TrustedIssuer(
                "harbour",
                KeysAnchor(JwkSet.of([alice.public])),
                (parse_place("https://a.example"), parse_place("https://a.example:8443")),
            ),
            TrustedIssuer(
                "lamp", KeysAnchor(JwkSet.of([bob.public])), (parse_place("https://b.example"),)
            ),
            TrustedIssuer("mast", KeysAnchor(JwkSet.of([])), None),
        )
    )


FOUND: dict[str, tuple[Subject | None, str | None]] = {
    "an issuer": (Subject(issuer="lamp"), "lamp"),
    "an issuer of anywhere": (Subject(issuer="mast"), "mast"),
    "an origin": (Subject(origin="https://a.example:8443"), "harbour"),
    "a card's url": (Subject(url="https://b.example/.well-known/agent-card.json"), "lamp"),
    "a stranger": (Subject(issuer="Lamp"), None),
    "an origin of nobody": (Subject(origin="https://c.example"), None),
    "an origin by http": (Subject(origin="http://a.example"), None),
    "a url at another port": (Subject(url="https://b.example:8443/x"), None),
    "the holder of keys": (Subject(is_holder=True), None),
    "nobody": (Subject(), None),
}


@pytest.mark.parametrize(("expect", "name"), FOUND.values(), ids=FOUND)
def test_find(policy: Policy, expect: Subject | None, name: str | None) -> None:
    """Exactly the entry that was meant; one without origins is asked for by name alone."""
    found = policy.find(expect)

    assert (found.name if found else None) == name


def test_an_expectation_outside_the_grammar(policy: Policy) -> None:
    """An origin is an origin, a card's url a url."""
    for expect in (
        Subject(origin="https://a.example/x"),
        Subject(url="a.example"),
        Subject(origin=""),
    ):
        with pytest.raises(CardRefused):
            policy.find(expect)


def test_denies_by_default() -> None:
    """An empty policy has nothing to say about anybody, and freshness is required."""
    for expect in (
        Subject(is_holder=True),
        Subject(issuer="x"),
        Subject(origin="https://a.example"),
        Subject(),
    ):
        assert Policy().find(expect) is None
    issuer = TrustedIssuer("x", KeysAnchor(JwkSet.of([])), None)
    assert (issuer.freshness, issuer.profiles) == ("required", FULL_PROFILES)


def test_the_from_jwks(alice: PrivateKey) -> None:
    """Freshness is waived, the full profiles count, interfaces may stand anywhere."""
    holder = Policy.from_jwks(JwkSet.of([alice.public]), name="x").find(Subject(is_holder=True))

    assert holder is not None
    assert (holder.freshness, holder.profiles, holder.places) == ("waived", FULL_PROFILES, None)


def test_the_from_jwks_at_an_origin(alice: PrivateKey) -> None:
    """Narrowed to one origin, and found by it as well."""
    jwks = JwkSet.of([alice.public])
    policy = Policy.from_jwks(jwks, name="x", origin="https://a.example")

    holder = policy.find(Subject(is_holder=True))
    assert holder is not None
    assert holder.places == (parse_place("https://a.example"),)
    assert policy.find(Subject(origin="https://a.example")) is holder
    assert policy.find(Subject(origin="https://b.example")) is None


@pytest.mark.parametrize("profiles", [("served-as-is", "js-instance"), ("",)])
def test_profiles_that_are_none(alice: PrivateKey, profiles: tuple[str, ...]) -> None:
    """A typing error must not quietly accept nothing, or something else."""
    with pytest.raises(UsageFault, match="rule-1-as-written"):
        Policy.from_jwks(JwkSet.of([alice.public]), name="x", accept="sdk", only=profiles)


def test_a_bad_origin_is_refused(alice: PrivateKey) -> None:
    """It is read by the same grammar as interfaces are."""
    with pytest.raises(CardRefused):
        Policy.from_jwks(JwkSet.of([alice.public]), name="x", origin="a.example")


def test_pinned_elsewhere(policy: Policy) -> None:
    """A key of another subject is known, a stranger's is not."""
    harbour = policy.find(Subject(issuer="harbour"))

    other = policy.pinned_elsewhere("bob", harbour)
    assert other not in (None, "harbour")
    assert policy.issuer(str(other))
    assert not policy.pinned_elsewhere("alice", harbour)
    assert not policy.pinned_elsewhere("carol", harbour)
    assert policy.pinned_elsewhere("alice", None)


ACCEPTED_IN_VAIN: dict[str, dict[str, Any]] = {
    "js-instance beside another": {
        "accept": "sdk",
        "only": ("served-as-is", "js-instance"),
    },
    "js-instance alone": {"accept": "sdk", "only": ("js-instance",)},
    "a lossy profile, where only full ones are accepted": {"only": ("prune-empty",)},
    "a profile in place of the word": {"accept": "prune-empty"},
    "no word": {"accept": ""},
}


@pytest.mark.parametrize("said", ACCEPTED_IN_VAIN.values(), ids=ACCEPTED_IN_VAIN)
def test_no_enrolment_accepts_what_is_none(said: dict[str, Any]) -> None:
    """js-instance never counts, and narrowing never widens."""
    with pytest.raises(UsageFault):
        TrustedIssuer("x", KeysAnchor(JwkSet.of([])), None, **said)


def test_full_profiles_are_always_accepted() -> None:
    """`sdk` is `full` and more; no word leaves the stronger signature out (findings R3)."""
    assert set(ACCEPTED["full"]) == set(FULL_PROFILES) < set(ACCEPTED["sdk"])


def test_whose_a_place_is_costs_the_same_however_many_there_are() -> None:
    """One look-up for each level of a path, not one for each place of the policy (S9)."""
    ids = range(2000)
    policy = Policy(
        tuple(
            TrustedIssuer(
                f"n{n}",
                JwksAnchor("https://tides.example/jwks.json"),
                (parse_place(f"https://a.example/{n}/"),),
            )
            for n in ids
        )
    )
    with mock.patch.object(Place, "holds", side_effect=AssertionError("places were walked")):
        found = [policy.find(Subject(url=f"https://a.example/{n}/x/card.json")) for n in ids]
    assert [one.name for one in found if one] == [f"n{n}" for n in ids]
    assert policy.find(Subject(url="https://a.example/card.json")) is None
