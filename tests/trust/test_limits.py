"""Limits of a policy, what it says in all, and whose entry speaks where several could."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.trust.policy import (
    MAX_SKEW,
    JwksAnchor,
    KeysAnchor,
    Limits,
    Policy,
    Subject,
    TrustedIssuer,
)
from cardsign.urls import parse_place
from tests.jose.statement_making import key

ANCHOR = JwksAnchor("https://tides.example/keys")
ALLOWED: dict[str, dict[str, Any]] = {
    "as they are": {},
    "the highest": {
        "card_bytes": MAX_CARD_BYTES,
        "signatures": MAX_SIGNATURES,
        "skew": MAX_SKEW,
    },
    "the lowest": {
        "card_bytes": 1,
        "signatures": 1,
        "skew": 0,
        "keyset_age": 1,
        "release_age": 1,
    },
    "the longest lives": {"keyset_age": 400 * 86400, "release_age": 14 * 86400},
}
REFUSED: dict[str, dict[str, Any]] = {
    "a larger card": {"card_bytes": MAX_CARD_BYTES + 1},
    "no card": {"card_bytes": 0},
    "more signatures": {"signatures": MAX_SIGNATURES + 1},
    "no signature": {"signatures": 0},
    "more skew": {"skew": MAX_SKEW + 1},
    "negative skew": {"skew": -1},
    "no age of a keyset": {"keyset_age": 0},
    "no age of a release": {"release_age": 0},
    "a keyset older than one can be": {"keyset_age": 10**25},
    "a release older than one can be": {"release_age": 14 * 86400 + 1},
}


@pytest.mark.parametrize("limits", ALLOWED.values(), ids=ALLOWED)
def test_limits_that_a_policy_may_set(limits: dict[str, Any]) -> None:
    """It may lower the built-in ones."""
    found = Limits(**limits)

    assert {name: getattr(found, name) for name in limits} == limits


@pytest.mark.parametrize("limits", REFUSED.values(), ids=REFUSED)
def test_limits_that_no_policy_may_set(limits: dict[str, Any]) -> None:
    """It may not raise them, and the refusal names the one and its bounds."""
    (name,) = limits
    with pytest.raises(UsageFault, match=name) as fault:
        Limits(**limits)
    assert fault.value.code == "policy.malformed"


@pytest.fixture(scope="module")
def harbour() -> Policy:
    """One host of several issuers: berths of their own, and who has the rest."""
    anchor = KeysAnchor(JwkSet.of([key("ann").public]))
    places = {
        "host": ("https://a.example",),
        "ann": ("https://a.example/ann", "https://ann.example"),
        "boat": ("https://a.example/ann/boat/",),
        "berth": ("https://b.example/berth",),
    }
    return Policy(
        tuple(
            TrustedIssuer(name, anchor, tuple(map(parse_place, where)))
            for name, where in places.items()
        )
    )


FOUND: dict[str, tuple[Subject | None, str | None]] = {
    "the host's own": (Subject(url="https://a.example/.well-known/agent-card.json"), "host"),
    "a path that begins alike": (Subject(url="https://a.example/anna/card.json"), "host"),
    "a berth": (Subject(url="https://a.example/ann/card.json"), "ann"),
    "a berth in a berth": (Subject(url="https://a.example/ann/boat/card.json"), "boat"),
    "another host of the same": (Subject(url="https://ann.example/ann/boat/card.json"), "ann"),
    "the whole origin": (Subject(origin="https://a.example"), "host"),
    "an origin of which only a part is enrolled": (Subject(origin="https://b.example"), None),
    "the part": (Subject(url="https://b.example/berth/card.json"), "berth"),
    "beside the part": (Subject(url="https://b.example/card.json"), None),
    "the extended card of an issuer": (Subject(issuer="ann", audience="x"), "ann"),
    "the extended card of a berth": (
        Subject(url="https://a.example/ann/card.json", audience="x"),
        "ann",
    ),
    "the extended card of a stranger": (Subject(issuer="eve", audience="x"), None),
    "the extended card of a holder": (Subject(is_holder=True, audience="x"), None),
}


@pytest.mark.parametrize(("expect", "name"), FOUND.values(), ids=FOUND)
def test_the_longest_prefix_speaks(
    harbour: Policy, expect: Subject | None, name: str | None
) -> None:
    """On a shared host agents cannot be swapped (threat 3)."""
    found = harbour.find(expect)

    assert (found.name if found else None) == name


ALGORITHMS_OF_NOBODY = [
    (),
    ("HS256",),
    ("ES256", "HS512"),
    ("ES256", "none"),
    ("None",),
    ("es256",),
    ("ES256", "eddsa"),
    ("ES256K",),
    ("PS224",),
]


@pytest.mark.parametrize("algorithms", ALGORITHMS_OF_NOBODY)
def test_algorithms_that_nobody_may_accept(algorithms: tuple[str, ...]) -> None:
    """HS* never, whatever the policy says."""
    with pytest.raises(UsageFault, match="ES256"):
        TrustedIssuer("tides", ANCHOR, None, algorithms=algorithms)


def test_algorithms_that_are_named_may_count() -> None:
    """The ten of decision E11, or fewer by name."""
    named = TrustedIssuer("tides", ANCHOR, None, algorithms=("ES256", "EdDSA"))

    assert named.algorithms == ("ES256", "EdDSA")
    narrowed = TrustedIssuer("tides", ANCHOR, None, algorithms=("ES256", "RS256"))
    assert narrowed.algorithms == ("ES256", "RS256")
    by_default = "ES256 ES384 ES512 EdDSA RS256 RS384 RS512 PS256 PS384 PS512"
    assert TrustedIssuer("tides", ANCHOR, None).algorithms == tuple(by_default.split())


def test_only_pinned_keys_are_pinned_elsewhere(harbour: Policy) -> None:
    """Other anchors name no keys beforehand."""
    kid = key("ann").public.kid

    assert harbour.pinned_elsewhere(kid, None)
    assert not Policy((TrustedIssuer("tides", ANCHOR, None),)).pinned_elsewhere(kid, None)
