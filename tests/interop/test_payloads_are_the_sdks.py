"""Our lossy payloads are byte for byte what the SDKs sign, and absent where they have none.

a2a-js is asked about its plain path alone, and only where we have a payload: it turns any type
into any other (the number 1 into "1"), and prune-empty refuses what is of the wrong type. Its
resolver makes another payload (`js-instance`), which is no profile of ours yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import pytest
from hypothesis import given, settings
from judges import Judge
from random_cards import cards
from samples import Sample

from cardsign import CardsignError, canonicalize
from cardsign.card.document import Card
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError

#: Of random cards: more than other properties have, since a judge answers within a millisecond.
EXAMPLES: Final = max(250, settings().max_examples)

#: a2a-sdk rewrites 0.3 members before it parses, and `unconverted` leaves that out.
PROFILES: dict[str, Literal["unconverted", "plain"]] = {
    "prune-empty": "unconverted",
    "prune-empty-upgraded": "plain",
}


def our_payload(document: Mapping[str, Json], profile: str) -> str | None:
    """What we would sign, or None."""
    try:
        return canonicalize(document, profile).data.decode()
    except CanonicalizationError:
        return None


def sdk_payload(sdk: Judge, card: bytes, profile: str) -> str | None:
    """What a2a-sdk signs; an empty card it spells `null`, where we and a2a-js write `{}`."""
    payload = sdk.payload(card, path=PROFILES[profile])
    return "{}" if payload == "null" else payload


def read(samples: tuple[Sample, ...]) -> list[tuple[Sample, Mapping[str, Json]]]:
    """The shared cards that we can read."""
    return [(one, document) for one in samples if (document := one.document) is not None]


@pytest.mark.needs_shared
@pytest.mark.needs_judges("py")
@pytest.mark.parametrize("profile", PROFILES)
def test_shared_cards_have_the_payloads_of_a2a_sdk(
    profile: str, samples: tuple[Sample, ...], sdk: Judge
) -> None:
    """Every card that we can read: the same bytes, or no payload for either."""
    ours = {one.file: our_payload(document, profile) for one, document in read(samples)}
    theirs = {one.file: sdk_payload(sdk, one.data, profile) for one, _ in read(samples)}

    assert ours == theirs
    assert len(ours) - list(ours.values()).count(None) > 100
    assert list(ours.values()).count(None) > 5


@pytest.mark.needs_shared
@pytest.mark.needs_judges("js")
def test_shared_cards_have_the_payloads_of_a2a_js(samples: tuple[Sample, ...], js: Judge) -> None:
    """Every card that has a payload under prune-empty, but for the two with `__proto__`."""
    ours = {one.file: our_payload(document, "prune-empty") for one, document in read(samples)}
    pairs = {
        one.file: (ours[one.file], js.payload(one.data))
        for one, _ in read(samples)
        if ours[one.file] is not None
    }

    assert len(pairs) > 100
    assert sorted(file for file, (mine, theirs) in pairs.items() if mine != theirs) == [
        "54-proto-key-in-params.json",
        "55-scheme-named-__proto__.json",
    ]


@pytest.mark.needs_judges("py")
@settings(max_examples=EXAMPLES)
@given(card=cards())
def test_random_cards_have_the_payloads_of_a2a_sdk(card: dict[str, Json], sdk: Judge) -> None:
    """Wrong types, nulls, empties, both spellings, both generations, what no schema knows."""
    data = json.dumps(card).encode()
    document = parse_object(data)
    for profile in PROFILES:
        assert our_payload(document, profile) == sdk_payload(sdk, data, profile), profile


@pytest.mark.needs_judges("js")
@settings(max_examples=EXAMPLES)
@given(card=cards())
def test_random_cards_have_the_payloads_of_a2a_js(card: dict[str, Json], js: Judge) -> None:
    """Wherever we can read the card and have a payload for it."""
    data = json.dumps(card).encode()
    try:
        payload = our_payload(Card.from_bytes(data).document, "prune-empty")
    except CardsignError:
        return
    assert payload is None or payload == js.payload(data)


# ------------------------------------------------------------------ cases worth a name

CASES: dict[str, dict[str, Any]] = {
    "a url beside interfaces in the protobuf spelling: the 0.3 member wins": {
        "url": "https://a.example/old",
        "supported_interfaces": [{"url": "https://a.example/new"}],
    },
    "security beside requirements in the protobuf spelling: the 0.3 member wins": {
        "security": [{"a": ["old"]}],
        "security_requirements": [{"schemes": {"a": {"list": ["new"]}}}],
    },
    "the protobuf spelling is read all the same, and may have no payload": {
        "url": "https://a.example/old",
        "supported_interfaces": [7],
    },
    "interfaces that no url leads to are not looked at": {
        "name": "a",
        "additionalInterfaces": "of a wrong type",
    },
    "a string in the place of a message is an empty message": {
        "name": "a",
        "capabilities": "streaming",
    },
    "so is a list of unknown words": {"name": "a", "capabilities": ["talks", "listens"]},
    "a list with a word that is a member has no payload": {"capabilities": ["streaming"]},
    "a truthy string is an extended card": {"supportsAuthenticatedExtendedCard": "no"},
    "two schemes in one have no payload": {
        "securitySchemes": {
            "a": {"mtlsSecurityScheme": {}, "httpAuthSecurityScheme": {"scheme": "x"}}
        }
    },
}


@pytest.mark.needs_judges("py")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("card", CASES.values(), ids=CASES)
def test_a_quirk_is_reproduced(card: dict[str, Any], profile: str, sdk: Judge) -> None:
    """What the experiments found, each kept for good."""
    assert our_payload(card, profile) == sdk_payload(sdk, json.dumps(card).encode(), profile)


#: Card, and its payload under prune-empty: ours, that of a2a-sdk, that of a2a-js.
DIFFERENCES: dict[str, tuple[dict[str, Any], str | None, str | None, str | None]] = {
    "nothing is left": ({"x-vendor": 1}, "{}", "null", "{}"),
    "a name in brackets, which protobuf takes for an extension": (
        {"name": "a", "[x.y]": 1},
        '{"name":"a"}',
        None,
        '{"name":"a"}',
    ),
    "a member named __proto__, which JavaScript sets aside": (
        {"name": "a", "capabilities": {"extensions": [{"params": {"__proto__": {"b": 1}}}]}},
        '{"capabilities":{"extensions":[{"params":{"__proto__":{"b":1}}}]},"name":"a"}',
        '{"capabilities":{"extensions":[{"params":{"__proto__":{"b":1}}}]},"name":"a"}',
        '{"name":"a"}',
    ),
    "a number for a name, which JavaScript makes a string": (
        {"name": 1},
        None,
        None,
        '{"name":"1"}',
    ),
}


@pytest.mark.needs_judges
@pytest.mark.parametrize(
    ("card", "ours", "of_a2a_sdk", "of_a2a_js"), DIFFERENCES.values(), ids=DIFFERENCES
)
def test_a_known_difference_is_as_it_was(
    card: dict[str, Any],
    ours: str | None,
    of_a2a_sdk: str | None,
    of_a2a_js: str | None,
    sdk: Judge,
    js: Judge,
) -> None:
    """Three readings of one rule; a change of any of them is seen here."""
    data = json.dumps(card).encode()
    assert our_payload(card, "prune-empty") == ours
    assert sdk.payload(data, path="unconverted") == of_a2a_sdk
    assert js.payload(data) == of_a2a_js
