"""Our lossy payloads are byte for byte what the SDKs sign, and absent where they have none.

a2a-js turns any type into any other (the number 1 into "1"), where we refuse what is of the wrong
type. So it is asked only where we have a payload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from cardsign.card.document import Card
from cardsign.card.profiles import ProfileName, canonicalize
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError, CardsignError
from tests.interop.judges import Judge, Path_
from tests.interop.population import Sample
from tests.spoilt_cards import SHARES, spoilt_cards
from tests.support import OLD, PORTABLE, dump, put


@dataclass(frozen=True)
class Reading:
    """A profile, and the judge that is asked for the payload it should be."""

    profile: ProfileName
    fixture: str
    path: Path_
    converts: bool = False  # what is of a wrong type, so it has payloads where we have none
    sets_proto_aside: bool = False  # members called `__proto__`, which the profile keeps

    def differs(self, judge: Judge, card: Mapping[str, Json]) -> str:
        """Both payloads where they are not the same; else nothing."""
        ours = payload(card, self.profile)
        theirs = judge.payload(dump(card), path=self.path)
        if theirs == "null":  # a2a-sdk's spelling of an empty card
            theirs = "{}"
        if theirs and re.search(r"\\ud[89a-f]", theirs):
            theirs = None  # JavaScript splits a character in halves, which no RFC 8785 form has
        is_same = ours == theirs or (self.converts and ours is None)
        return "" if is_same else f"{ours} / {theirs}"


READINGS: Final = {
    "prune-empty, a2a-sdk without its conversion": Reading("prune-empty", "sdk", "unconverted"),
    "prune-empty, a2a-js": Reading("prune-empty", "js", "plain", True, True),
    "prune-empty-upgraded, a2a-sdk": Reading("prune-empty-upgraded", "sdk", "plain"),
    "js-instance, a2a-js": Reading("js-instance", "js", "resolver", converts=True),
}
JUDGES: Final = {"sdk": "py", "js": "js"}


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.needs_judges(JUDGES[reading.fixture]))
        for name, reading in READINGS.items()
    ]
)
def reading(request: pytest.FixtureRequest) -> Reading:
    """Each profile before each judge that verifies by it."""
    return READINGS[request.param]


@pytest.fixture
def judge(reading: Reading, request: pytest.FixtureRequest) -> Judge:
    """The judge of that profile."""
    judge: Judge = request.getfixturevalue(reading.fixture)
    return judge


def payload(card: Mapping[str, Json], profile: ProfileName) -> str | None:
    """What we would sign, or None."""
    try:
        return canonicalize(card, profile).data.decode()
    except CanonicalizationError:
        return None


@pytest.mark.needs_shared
def test_shared_cards_have_the_sdks_payloads(
    reading: Reading, judge: Judge, samples: tuple[Sample, ...]
) -> None:
    """Every card that we can read; a2a-js sets members called `__proto__` aside."""
    readable = {
        sample.file: {name: v for name, v in document.items() if name != "signatures"}
        for sample in samples
        if (document := sample.document) is not None
    }
    different = {file for file, card in readable.items() if reading.differs(judge, card)}
    by_javascript = {"54-proto-key-in-params.json", "55-scheme-named-__proto__.json"}
    assert different == (by_javascript if reading.sets_proto_aside else set())
    payloads = [payload(card, reading.profile) for card in readable.values()]
    assert len(payloads) - payloads.count(None) > 30
    assert payloads.count(None) > 5


@pytest.mark.parametrize("share", range(SHARES))
def test_random_cards_have_the_sdks_payloads(share: int, reading: Reading, judge: Judge) -> None:
    """Wrong types, nulls, empties, both spellings, both versions, what no schema knows."""
    for seed, card in spoilt_cards(share):
        try:
            Card.from_bytes(dump(card))
        except CardsignError:
            continue  # two spellings of one name
        difference = reading.differs(judge, card)
        is_known = reading.sets_proto_aside and "__proto__" in difference
        assert not difference or is_known, (seed, card)


#: Where another value is put, and into what card.
PLACES: Final = (
    *((OLD, f"/{name}") for name in ("protocolVersion", "security", "securitySchemes")),
    *((OLD, f"/{name}") for name in ("additionalInterfaces", "supportedInterfaces")),
    (OLD, "/supportsAuthenticatedExtendedCard"),
    (OLD, "/capabilities/streaming"),
    (OLD, "/security/0/harbour"),
    (OLD, "/skills/0/examples"),
    *((PORTABLE, f"/{name}") for name in ("protocolVersion", "security", "name", "skills/0/tags")),
)
ODDITIES: Final[tuple[Json, ...]] = (
    *(None, True, False, 0, 1, 2, 0.5, -0.0, 1e21, "", " ", "yes", "oFF", "0.2", "0.3.1"),
    *(
        "\x1f",
        "\x1f0.3",
        "\ufeff",
        "\ufeff0.\x853",
        "0.\u20283",
        "0.10",
        "0x.3",
        "1.0",
        [],
        ["x"],
        [{"schemes": {}}],
        [[1, None], {}],
        {},
        {"a": {}},
    ),
)


@pytest.mark.parametrize(("card", "pointer"), PLACES, ids=[pointer for _, pointer in PLACES])
def test_odd_values_have_the_sdks_payloads(
    card: dict[str, Any], pointer: str, reading: Reading, judge: Judge
) -> None:
    """Truth values spelt otherwise, versions, lists that are none: as each language has it."""
    for value in ODDITIES:
        assert not reading.differs(judge, put(card, pointer, value)), value


# ------------------------------------------------------------------ cases worth a name

HTTP: Final = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
MTLS: Final = {"mtlsSecurityScheme": {}}
OF_0_3: Final[dict[str, Any]] = {
    "url": "u",
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}
FLAG: Final = "supportsAuthenticatedExtendedCard"
#: A card may show several quirks at once, as far as none of them leaves it without a payload.
QUIRKS: Final[dict[str, dict[str, Any]]] = {
    "nothing is left": {"x-vendor": 1},
    "unknown members and empties go at every depth, REQUIRED or not": {
        "name": "n",
        "x": 1,
        "iconUrl": "",
        "provider": {"url": "u", "organization": "", "x": 1},
        "supportedInterfaces": [{}, {"url": "b"}, {"url": "a"}],
        "skills": [{"tags": [""]}],
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
        "securitySchemes": {
            "a": MTLS,
            "b": {},
            "c": {"oauth2SecurityScheme": {"flows": {"implicit": {"scopes": {"r": "", "w": "W"}}}}},
        },
    },
    "an optional false stays, another goes, and free-form content keeps both": {
        "capabilities": {
            "streaming": False,
            "extensions": [
                {"uri": "u", "required": False},
                {"params": {"a": False, "b": 0, "c": "", "d": [{}]}},
            ],
        }
    },
    "the protobuf spelling is the field": {"supported_interfaces": [{"protocol_binding": "GRPC"}]},
    "beside it the 0.3 member wins": {
        "url": "https://a.example/old",
        "supported_interfaces": [{"url": "https://a.example/new"}],
        "security": [{"a": ["old"]}],
        "security_requirements": [{"schemes": {"a": {"list": ["new"]}}}],
    },
    "it is read all the same, and may have no payload": {
        "url": "https://a.example/old",
        "supported_interfaces": [7],
    },
    "a string in the place of a message is an empty message": {
        "name": "a",
        "capabilities": "streaming",
    },
    "so is a list of unknown words": {"name": "a", "capabilities": ["talks", "listens"]},
    "a list with a word that is a member has no payload": {"capabilities": ["streaming"]},
    "two schemes in one have no payload": {"securitySchemes": {"a": {**MTLS, **HTTP}}},
    "a url becomes the first interface": {"url": "u"},
    "with its transport and version, and additional interfaces follow": {
        "url": "u",
        "preferredTransport": "GRPC",
        "protocolVersion": "0.2.6",
        "additionalInterfaces": [{"url": "v", "transport": "GRPC"}, {}],
    },
    "without url they are dropped, and not looked at": {
        "name": "a",
        "additionalInterfaces": "of a wrong type",
        "protocolVersion": "0.3.0",
    },
    "an empty url is none": {"url": ""},
    "beside 1.0 interfaces all of it is dropped": {
        "supportedInterfaces": [{"url": "w"}],
        "url": "u",
        "preferredTransport": "GRPC",
    },
    "even where those are null": {"supportedInterfaces": None, "url": "u"},
    "the flag moves into the capabilities": {FLAG: True, "capabilities": {"streaming": True}},
    "and makes them, by its truth": {FLAG: "no"},
    "the new flag wins": {FLAG: True, "capabilities": {"extendedAgentCard": False}},
    "false says nothing, and null neither": {FLAG: False, "security": None},
    "requirements are wrapped, in skills too": {
        "security": [{"a": ["r"], "b": []}, {}],
        "skills": [{"security": [{"a": []}]}],
    },
    "beside 1.0 requirements they are dropped": {
        "securityRequirements": [],
        "security": [{"a": []}],
    },
    "each type of scheme has its wrapper, and an unknown type is taken away": {
        "securitySchemes": {
            "a": {"type": "apiKey", "in": "header", "name": "X"},
            "b": {"type": "http", "scheme": "s"},
            "c": {"type": "oauth2", "flows": {}},
            "d": {"type": "openIdConnect"},
            "e": {"type": "mutualTLS"},
            "f": {"type": "magic", "scheme": "s"},
            "g": {"httpAuthSecurityScheme": {}},
            "h": {"type": "http", "httpAuthSecurityScheme": {}},
        }
    },
    "the protobuf spelling of the schemes is not looked at": {
        "security_schemes": {"a": {"type": "http"}}
    },
    "security schemes are lost": {"name": "n", "securitySchemes": {"a": HTTP}},
    "unless the first has a type": {"securitySchemes": {"a": {**HTTP, "type": "http"}, "b": HTTP}},
    "or the spelling is protobuf's": {"security_schemes": {"a": HTTP}},
    "requirements stay": {"securityRequirements": [{"schemes": {"a": {"list": ["r"], "x": 1}}}]},
    "a 1.0 requirement by its 0.3 name makes an instance as well": {
        "security": [{"schemes": {}}],
        "security_schemes": {"a": HTTP},
    },
    "of a 0.3 card the schemes are lost, and each list is needed": {
        **OF_0_3,
        "protocolVersion": "0.3.0",
        "preferredTransport": "GRPC",
        "additionalInterfaces": [{"url": "v", "transport": "REST"}],
        "securitySchemes": {"a": {"type": "http", "scheme": "b"}},
        "security": [{"a": ["r"]}],
        "skills": [{"id": "i", "tags": ["t"], "security": [{"a": []}]}],
        FLAG: True,
    },
    "0.3 members beside interfaces are dropped": {**OF_0_3, "supportedInterfaces": [{"url": "w"}]},
    "beside an empty list of them they are not": {
        **OF_0_3,
        "protocolVersion": "0.9",
        "supportedInterfaces": [],
    },
    "0.2 is no 0.3": {"protocolVersion": "0.2", "name": "n"},
}


@pytest.mark.parametrize("card", QUIRKS.values(), ids=QUIRKS)
def test_a_quirk_is_reproduced(card: dict[str, Any], reading: Reading, judge: Judge) -> None:
    """What the experiments found, each kept for good."""
    assert not reading.differs(judge, card)


_PROTO: Final = '{"capabilities":{"extensions":[{"params":{"__proto__":{"b":1}}}]},"name":"a"}'
#: Card, and its payload under prune-empty: ours, that of a2a-sdk, that of a2a-js.
DIFFERENCES: Final[dict[str, tuple[dict[str, Any], str | None, str | None, str | None]]] = {
    "a name in brackets, which protobuf takes for an extension": (
        {"name": "a", "[x.y]": 1},
        '{"name":"a"}',
        None,
        '{"name":"a"}',
    ),
    "a member named __proto__, which JavaScript sets aside": (
        json.loads(_PROTO),
        _PROTO,
        _PROTO,
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
@pytest.mark.parametrize("case", DIFFERENCES)
def test_a_known_difference(case: str, sdk: Judge, js: Judge) -> None:
    """Three readings of one rule; a change of any of them is seen here."""
    card, ours, of_a2a_sdk, of_a2a_js = DIFFERENCES[case]
    assert payload(card, "prune-empty") == ours
    assert sdk.payload(dump(card), path="unconverted") == of_a2a_sdk
    assert js.payload(dump(card)) == of_a2a_js
