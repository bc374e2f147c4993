"""What `explain` predicts of a named SDK is what that SDK says, or is called unknown.

Each verifier of the table is asked about the same cards: real ones, provocative ones and random
ones, signed under every profile that each has, and edited afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from cardsign import JwkSet, PrivateKey
from cardsign.card.profiles import PROFILES, VERIFIERS
from cardsign.errors import CanonicalizationError
from cardsign.inspect import inspect_card
from tests.interop.judges import Judge
from tests.interop.population import Sample
from tests.interop.roster import Verifier
from tests.spoilt_cards import spoilt_card
from tests.support import OLD, dump, one_signature, read_cases, under_header

RANDOM_CARDS: Final = 60


@dataclass(frozen=True, slots=True)
class Witness:
    """A verifier of our table, with what it says of a card if it holds alice's key."""

    name: str
    profile: str
    says: Callable[[bytes], str]


@pytest.fixture(scope="module")
def witness(verifier: Verifier, judge: Judge, alice: PrivateKey) -> Witness:
    """Each verifier in turn, where it is installed."""
    keys = JwkSet.of([alice.public])

    def say(card: bytes) -> str:
        outcome = judge.verify(card, keys, path=verifier.path).outcome
        return "refused" if outcome == "cannot-parse" else outcome

    (name,) = (known.name for known in VERIFIERS if known.profile == verifier.payload)
    return Witness(name, verifier.payload, say)


def predict(card: bytes, key: PrivateKey) -> dict[str, str]:
    """The outcomes that are predicted, by verifier."""
    explanation = inspect_card(card, jwks=JwkSet.of([key.public]))
    return {client["verifier"]: client["outcome"] for client in explanation.predictions}


def variants(card: Mapping[str, Any], key: PrivateKey, random: Random) -> Iterator[bytes]:
    """Signed for everybody, in any order and under any typ; signed for one; edited since."""
    unsigned = {name: value for name, value in card.items() if name != "signatures"}
    entries = []
    for profile in PROFILES:
        try:
            typ = random.choice(("JOSE", "JWT"))
            entries.append(one_signature(unsigned, key, profile, typ=typ))
        except CanonicalizationError:
            continue
    random.shuffle(entries)
    yield dump({**unsigned, "signatures": entries})
    yield dump({**unsigned, "signatures": entries[:1]})
    yield dump({**unsigned, "name": "edited", "signatures": entries})


Predicted = list[tuple[bytes, dict[str, str]]]


@pytest.fixture(scope="module")
def of_random_cards(alice: PrivateKey) -> Predicted:
    """Signed random cards in all variants, and what is predicted of each."""
    return [
        (card, predict(card, alice))
        for seed in range(RANDOM_CARDS)
        for card in variants(spoilt_card(seed), alice, Random(seed))
    ]


@pytest.fixture(scope="module")
def of_shared_cards(samples: tuple[Sample, ...], alice: PrivateKey) -> Predicted:
    """Of each shared card that we can read one variant, and what is predicted of it."""
    cards = (
        tuple(variants(sample.document, alice, Random(number)))[number % 3]
        for number, sample in enumerate(samples)
        if sample.document is not None
    )
    return [(card, predict(card, alice)) for card in cards]


@pytest.mark.parametrize(
    "cards", ["of_random_cards", pytest.param("of_shared_cards", marks=pytest.mark.needs_shared)]
)
def test_predictions_come_true(
    cards: str, witness: Witness, request: pytest.FixtureRequest
) -> None:
    """Whatever is predicted; and most of the time something is."""
    made: Counter[str] = Counter()
    for card, outcomes in request.getfixturevalue(cards):
        if outcomes:  # nothing is predicted of an ambiguous card
            outcome = outcomes[witness.name]
            made[outcome] += 1
            assert outcome in ("unknown", witness.says(card)), card[:2000]
    assert made["unknown"] < made.total() / 3
    assert min(made["accepted"], made["refused"]) > 5


#: Members of a protected header that are set, or left out where null; lists of signatures around
#: one good one; those of which something is predicted, where of the others it may be.
CASES = read_cases(__file__)
HEADERS, LISTS, KNOWN = CASES["headers"], CASES["lists"], CASES["known"]


@pytest.mark.parametrize("case", [*HEADERS, *LISTS])
def test_predictions_of_headers_and_lists_come_true(
    case: str, witness: Witness, alice: PrivateKey
) -> None:
    """Where we refuse to read a header it is called unknown; a neighbour may spoil a signature."""
    if case in HEADERS:
        header = {"alg": "ES256", "kid": "alice", "typ": "JOSE", **HEADERS[case]}
        header = {name: value for name, value in header.items() if value is not None}
        card = dump(under_header(OLD, alice, header, profile=witness.profile))
    else:
        good = one_signature(OLD, alice, witness.profile)
        entries = dump({"signatures": LISTS[case]}).decode()
        for name, value in good.items():
            entries = entries.replace(name.upper(), value)
        card = dump({**OLD, **json.loads(entries)})
    outcome = predict(card, alice)[witness.name]
    assert outcome == witness.says(card) or (outcome == "unknown" and case not in KNOWN)
