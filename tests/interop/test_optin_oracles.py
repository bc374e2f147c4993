"""The opt-in profiles are byte for byte what the SDKs that they are named after sign.

Each is computed by code of our own; here that code is held against the SDK itself, in the
release that the profile is frozen at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import judges
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from judges import Judge, Path_, private_jwk
from random_cards import cards
from samples import Sample
from support import DUAL, LAX, OLD, PORTABLE, examine, put

from cardsign import CardsignError, JwkSet, PrivateKey, canonicalize
from cardsign.card import CARD_0_3, Json, Message, parse_object
from cardsign.errors import CanonicalizationError
from cardsign.sign import SigningOptions, sign_document


@dataclass(frozen=True)
class Oracle:
    """An SDK that computes one opt-in profile, and the way of asking it that does."""

    profile: str
    judge: Judge
    path: Path_

    def payload(self, card: Mapping[str, Json]) -> str | None:
        """What it signs; None where it has no payload, or none that it could sign.

        a2a-sdk spells an empty card `null`, which it cannot sign. JavaScript can split a
        character in halves, of which no UTF-8 text and no RFC 8785 form consists.
        """
        payload = self.judge.payload(json.dumps(card).encode(), path=self.path)
        if payload is None or payload == "null":
            return None
        halved = self.profile == "js-instance" and re.search(r"\\ud[89a-f]", payload)
        return None if halved else payload


ORACLES: Final[dict[str, tuple[str, Callable[[], Judge], Path_]]] = {
    "sdk-0.3": ("py03", lambda: judges.a2a_sdk("CARDSIGN_JUDGE_PY03"), "plain"),
    "sdk-1.0-legacy": ("py11", lambda: judges.a2a_sdk("CARDSIGN_JUDGE_PY11"), "plain"),
    "js-instance": ("js", judges.a2a_js, "resolver"),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(profile, marks=pytest.mark.needs_judges(judge))
        for profile, (judge, _, _) in ORACLES.items()
    ],
)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """Each of them in turn."""
    _, start, path = ORACLES[request.param]
    with start() as judge:
        yield Oracle(request.param, judge, path)


def ours(card: Mapping[str, Json], profile: str) -> str | None:
    """What we would sign, or None."""
    try:
        return canonicalize(card, profile).data.decode()
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
def test_shared_cards_have_the_oracles_payloads(
    oracle: Oracle, samples: tuple[Sample, ...]
) -> None:
    """Every card that we can read: the same bytes, or no payload for either."""
    found = unsigned(samples)
    mine = {file: ours(card, oracle.profile) for file, card in found.items()}

    assert mine == {file: oracle.payload(card) for file, card in found.items()}
    assert len(mine) - list(mine.values()).count(None) > 30
    assert list(mine.values()).count(None) > 5


#: REQUIRED by a2a-sdk 0.3 alone, or by the kind of scheme or flow; our tables are laxer.
_BESIDES: Final = {"uri", "scopes", "authorizationUrl", "tokenUrl", "flows"}


def completed(value: Json, message: Message = CARD_0_3) -> Json:
    """An object of A2A 0.3 with what a2a-sdk 0.3 demands besides."""
    if not isinstance(value, dict):
        return value
    made = dict(value)
    for name, field in message.fields.items():
        if name not in made and (field.required or name in _BESIDES):
            made[name] = {"list": [], "map": {}}.get(field.shape, {} if field.message else "x")
        below = made.get(name)
        if field.message is None:
            continue
        if field.shape == "list" and isinstance(below, list):
            made[name] = [completed(one, field.message) for one in below]
        elif field.shape == "map" and isinstance(below, dict):
            made[name] = {key: completed(one, field.message) for key, one in below.items()}
        elif field.shape == "one" and name in made:
            made[name] = completed(below, field.message)
    return made


@settings(max_examples=200)
@given(card=cards() | cards().map(completed))
def test_random_cards_have_the_oracles_payloads(card: dict[str, Json], oracle: Oracle) -> None:
    """Wrong types, nulls, empties, both spellings, both generations, what no schema knows."""
    read = parse_object(json.dumps(card).encode())
    assert ours(read, oracle.profile) == oracle.payload(read)


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
def test_random_security_schemes_have_the_oracles_payloads(
    schemes: dict[str, Json], oracle: Oracle
) -> None:
    """Of every kind, of several at once and of none, with their `type` and without."""
    for card in (OLD, DUAL):
        tried = {**card, "securitySchemes": schemes}
        assert ours(tried, oracle.profile) == oracle.payload(tried)


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
def test_odd_values_have_the_oracles_payloads(
    card: dict[str, Any], pointer: str, oracle: Oracle
) -> None:
    """Truth values spelt otherwise, versions, lists that are none: as each language has it."""
    for value in ODDITIES:
        tried = put(card, pointer, value)
        assert ours(tried, oracle.profile) == oracle.payload(tried), value


# ------------------------------------------------------------------ their signatures, and ours

#: Cards that the defaults do not serve the oracle with.
UNSERVED: Final = {
    "sdk-0.3": {**OLD, "description": "\u20ac", "capabilities": {"streaming": False}},
    "sdk-1.0-legacy": put(LAX, "/name", "\u20ac"),
    "js-instance": LAX,
}


@pytest.mark.parametrize("typ", ["JOSE", None], ids=["JOSE", "its own typ"])
def test_what_the_sdk_signs_is_explained(
    oracle: Oracle, alice: PrivateKey, typ: str | None
) -> None:
    """Its signature fits the profile of its name, does not count, and is no tampering."""
    if oracle.profile == "js-instance" and typ is None:
        typ = "JWT"  # it writes none by itself, and demands one when it verifies
    card = json.dumps(UNSERVED[oracle.profile]).encode()
    signed = oracle.judge.sign(card, private_jwk(alice), typ=typ, path=oracle.path)
    assert signed is not None

    report = examine(signed, alice)

    (signature,) = report.signatures
    assert (signature.verdict, signature.counts) == ("other-profile", False)
    assert signature.profile == oracle.profile
    assert (report.verdict, report.card) == ("untrusted", None)
    assert report.reasons[0].code == "sig.other_profile"


def test_a_changed_card_is_not_explained(oracle: Oracle, alice: PrivateKey) -> None:
    """The twin: its signature on another card fits nothing."""
    card = json.dumps(UNSERVED[oracle.profile]).encode()
    signed = oracle.judge.sign(card, private_jwk(alice), path=oracle.path)
    assert signed is not None

    report = examine(put(json.loads(signed), "/version", "9"), alice)

    assert report.verdict == "invalid"
    assert [one.verdict for one in report.signatures] == ["invalid"]


def accepted(oracle: Oracle, alice: PrivateKey, card: bytes, *compat: str) -> bool:
    """Whether the SDK accepts the card as we sign it."""
    document = sign_document(card, [alice], SigningOptions(compat=compat or "none"))
    keys = JwkSet.of([alice.public])
    return oracle.judge.verify(document, keys, path="resolver").outcome == "accepted"


def test_a_card_signed_for_the_sdk_is_accepted_by_it(oracle: Oracle, alice: PrivateKey) -> None:
    """With `--compat` of its name; with `--compat none` it is not."""
    card = json.dumps(UNSERVED[oracle.profile]).encode()

    assert accepted(oracle, alice, card, oracle.profile)
    assert not accepted(oracle, alice, card)


@pytest.mark.needs_shared
def test_shared_cards_signed_for_the_sdk_are_accepted_by_it(
    oracle: Oracle, alice: PrivateKey, samples: tuple[Sample, ...]
) -> None:
    """Every card that we sign and that has a payload under the profile."""
    outcomes = {}
    for file, card in unsigned(samples).items():
        if ours(card, oracle.profile) is not None:
            try:
                data = json.dumps(card).encode()
                outcomes[file] = accepted(oracle, alice, data, oracle.profile)
            except CardsignError:
                continue  # not signed, for reasons that have nothing to do with profiles

    assert len(outcomes) > 25
    assert [file for file, good in outcomes.items() if not good] == []
