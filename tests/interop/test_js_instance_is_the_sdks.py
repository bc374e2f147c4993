"""js-instance is byte for byte what the resolver of @a2a-js/sdk signs.

It is computed by code of our own; here that code is held against the SDK itself, in the release
that the profile is frozen at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from judges import Judge, private_jwk
from random_cards import cards
from samples import Sample
from support import DUAL, LAX, OLD, PORTABLE, dump, examine, put

from cardsign import CardsignError, JwkSet, PrivateKey, canonicalize
from cardsign.card.canonical import Compat
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError
from cardsign.sign.signing import SigningOptions, sign_document

pytestmark = pytest.mark.needs_judges("js")


JS: Final = "js-instance"


def theirs(js: Judge, card: Mapping[str, Json]) -> str | None:
    """What the SDK signs; None where it has no payload, or none that UTF-8 can spell.

    JavaScript can split a character in halves, of which no RFC 8785 form consists.
    """
    payload = js.payload(json.dumps(card).encode(), path="resolver")
    halved = payload is not None and re.search(r"\\ud[89a-f]", payload)
    return None if halved else payload


def ours(card: Mapping[str, Json]) -> str | None:
    """What we would sign, or None."""
    try:
        return canonicalize(card, JS).data.decode()
    except CanonicalizationError:
        return None


def unsigned(samples: tuple[Sample, ...]) -> dict[str, dict[str, Json]]:
    """The shared cards that we can read; what stands in `signatures` is another question."""
    return {
        one.file: {name: value for name, value in document.items() if name != "signatures"}
        for one in samples
        if (document := one.document) is not None
    }


# ------------------------------------------------------------------ the bytes


@pytest.mark.needs_shared
def test_shared_cards_have_the_sdks_payloads(js: Judge, samples: tuple[Sample, ...]) -> None:
    """Every card that we can read: the same bytes, or no payload for either."""
    found = unsigned(samples)
    mine = {file: ours(card) for file, card in found.items()}

    assert mine == {file: theirs(js, card) for file, card in found.items()}
    assert len(mine) - list(mine.values()).count(None) > 30
    assert list(mine.values()).count(None) > 5


@settings(max_examples=200)
@given(card=cards())
def test_random_cards_have_the_sdks_payloads(card: dict[str, Json], js: Judge) -> None:
    """Wrong types, nulls, empties, both spellings, both generations, what no schema knows."""
    read = parse_object(json.dumps(card).encode())
    assert ours(read) == theirs(js, read)


_WORDS: Final = st.sampled_from(["", "x", "header", None])
_FLOW: Final = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["authorizationUrl", "tokenUrl", "refreshUrl"], _WORDS),
        "scopes": st.sampled_from([{}, {"a": "b"}, {"a": None}, None]),
    },
)
_FLOWS: Final = ["authorizationCode", "clientCredentials", "implicit", "password", "deviceCode"]
_SCHEMES: Final = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["in", "name", "scheme", "bearer_format", "description"], _WORDS),
        **dict.fromkeys(["openIdConnectUrl", "oauth2MetadataUrl"], _WORDS),
        "type": st.sampled_from(
            ["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS", "x", None]
        ),
        "flows": st.fixed_dictionaries({}, optional=dict.fromkeys(_FLOWS, _FLOW | st.none())),
        "httpAuthSecurityScheme": st.just({"scheme": "Bearer"}),
    },
)


@settings(max_examples=200)
@given(schemes=st.dictionaries(st.sampled_from("ab"), _SCHEMES, min_size=1))
@example(schemes={"a": {"name": "x", "in": "header", "flows": {}, "oauth2MetadataUrl": "x"}})
def test_random_security_schemes_have_the_sdks_payloads(
    schemes: dict[str, Json], js: Judge
) -> None:
    """Of every kind, of several at once and of none, with their `type` and without."""
    for card in (OLD, DUAL):
        tried = {**card, "securitySchemes": schemes}
        assert ours(tried) == theirs(js, tried)


#: Where another value is put, and into what card.
PLACES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    f"{pointer} of a {name} card": (card, pointer)
    for name, card, pointer in (
        ("0.3", OLD, "/capabilities/streaming"),
        ("0.3", OLD, "/supportsAuthenticatedExtendedCard"),
        ("0.3", OLD, "/protocolVersion"),
        ("0.3", OLD, "/security"),
        ("0.3", OLD, "/security/0/harbour"),
        ("0.3", OLD, "/skills/0/examples"),
        ("0.3", OLD, "/additionalInterfaces"),
        ("0.3", OLD, "/supportedInterfaces"),
        ("0.3", OLD, "/securitySchemes"),
        ("1.0", PORTABLE, "/protocolVersion"),
        ("1.0", PORTABLE, "/security"),
        ("1.0", PORTABLE, "/name"),
        ("1.0", PORTABLE, "/skills/0/tags"),
    )
}
ODDITIES: Final[tuple[Json, ...]] = (
    *(None, True, False, 0, 1, 2, 0.5, -0.0, 1e21, "", " ", "yes", "oFF", "0.2", "0.3.1"),
    *("0.10", "0x.3", "1.0", [], ["x"], [{"schemes": {}}], [[1, None], {}], {}, {"a": {}}),
)


@pytest.mark.parametrize(("card", "pointer"), PLACES.values(), ids=PLACES)
def test_odd_values_have_the_sdks_payloads(card: dict[str, Any], pointer: str, js: Judge) -> None:
    """Truth values spelt otherwise, versions, lists that are none: as each language has it."""
    for value in ODDITIES:
        tried = put(card, pointer, value)
        assert ours(tried) == theirs(js, tried), value


# ------------------------------------------------------------------ their signatures, and ours


def test_what_the_sdk_signs_is_explained(js: Judge, alice: PrivateKey) -> None:
    """Its signature fits the profile, does not count, and is no tampering."""
    # It writes no typ by itself, and demands one when it verifies.
    signed = js.sign(dump(LAX), private_jwk(alice), typ="JWT", path="resolver")
    assert signed is not None

    report = examine(signed, alice)

    (signature,) = report.signatures
    assert (signature.verdict, signature.counts) == ("other-profile", False)
    assert signature.profile == JS
    assert (report.verdict, report.card) == ("untrusted", None)
    assert report.reasons[0].code == "sig.other_profile"


def test_a_changed_card_is_not_explained(js: Judge, alice: PrivateKey) -> None:
    """The twin: its signature on another card fits nothing."""
    signed = js.sign(dump(LAX), private_jwk(alice), path="resolver")
    assert signed is not None

    report = examine(put(json.loads(signed), "/version", "9"), alice)

    assert report.verdict == "invalid"
    assert [one.verdict for one in report.signatures] == ["invalid"]


def accepted(js: Judge, alice: PrivateKey, card: bytes, compat: Compat) -> bool:
    """Whether the SDK accepts the card as we sign it."""
    document = sign_document(card, [alice], SigningOptions(compat=compat))
    keys = JwkSet.of([alice.public])
    return js.verify(document, keys, path="resolver").outcome == "accepted"


def test_a_card_signed_for_the_sdk_is_accepted_by_it(js: Judge, alice: PrivateKey) -> None:
    """With `--compat all`; with `--compat none` it is not."""
    assert accepted(js, alice, dump(LAX), "all")
    assert not accepted(js, alice, dump(LAX), "none")


@pytest.mark.needs_shared
def test_shared_cards_signed_for_the_sdk_are_accepted_by_it(
    js: Judge, alice: PrivateKey, samples: tuple[Sample, ...]
) -> None:
    """Every card that we sign and of whose payload a client can be built."""
    outcomes = {}
    for file, card in unsigned(samples).items():
        if ours(card) is not None and canonicalize(card, JS).names_an_endpoint:
            try:
                outcomes[file] = accepted(js, alice, json.dumps(card).encode(), "all")
            except CardsignError:
                continue  # not signed, for reasons that have nothing to do with profiles

    assert len(outcomes) > 25
    assert [file for file, good in outcomes.items() if not good] == []
