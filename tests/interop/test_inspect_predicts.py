"""What `explain` predicts of a named SDK is what that SDK says, or is called unknown.

Each verifier of the table is asked about the same cards: real ones, provocative ones and random
ones, signed under every profile that each has, and edited afterwards.
"""

from __future__ import annotations

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
from tests.support import OLD, dump, one_signature, under_header

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


#: Members of a protected header that are set, or left out where null.
HEADERS: dict[str, dict[str, Any]] = {
    "as we write it": {},
    "without typ": {"typ": None},
    "with typ JWT": {"typ": "JWT"},
    "with another typ": {"typ": "application/example"},
    "without kid": {"kid": None},
    "with an unknown kid": {"kid": "bob"},
    "with a number for a kid": {"kid": 7},
    "with a jku": {"jku": "https://keys.example/jwks.json"},
    "that has expired": {"exp": 1},
    "with a critical member": {"crit": ["x"], "x": 1},
    "with an empty crit": {"crit": []},
    "with b64": {"b64": False},
    "without alg": {"alg": None},
    "with alg none": {"alg": "none"},
    "with the alg of another key": {"alg": "RS256"},
}
#: What is done to the list of one good signature.
LISTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "none": lambda good: [],
    "no list": lambda good: None,
    "null before it": lambda good: [None, good],
    "a string before it": lambda good: ["x", good],
    "an empty object before it": lambda good: [{}, good],
    "a bad one before it": lambda good: [{**good, "signature": "AAAA"}, good],
    "an undecodable one before it": lambda good: [{**good, "protected": "!"}, good],
    "padding": lambda good: [{**good, "signature": good["signature"] + "=="}],
    "an unprotected header": lambda good: [{**good, "header": {"x": 1}}],
    "an empty unprotected header": lambda good: [{**good, "header": {}}],
    "an unprotected kid": lambda good: [{**good, "header": {"kid": "alice"}}],
    "an unprotected header that is a list": lambda good: [{**good, "header": []}],
}
#: Of these something is predicted; of the others it may be.
KNOWN = {"as we write it", "without typ", "with typ JWT", "with an unknown kid"}
KNOWN |= {"none", "no list", "a bad one before it", "an unprotected header"}


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
        card = dump({**OLD, "signatures": LISTS[case](good)})
    outcome = predict(card, alice)[witness.name]
    assert outcome == witness.says(card) or (outcome == "unknown" and case not in KNOWN)
