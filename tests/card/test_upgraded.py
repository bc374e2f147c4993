"""The rewriting of a2a-sdk's resolver, frozen: its quirks are what its signatures cover."""

from __future__ import annotations

from typing import Any

import pytest
from support import OLD, PORTABLE, put

from cardsign.card import tree as tree
from cardsign.card.canonical import canonicalize
from cardsign.card.rules import upgrade
from cardsign.errors import CanonicalizationError
from tests.card.places import places_in

MAIN = {"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0"}

ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a 1.0 card stays": (PORTABLE, PORTABLE),
    "a url becomes the first interface": ({"url": "u"}, {"supportedInterfaces": [MAIN]}),
    "with its transport and version": (
        {"url": "u", "preferredTransport": "GRPC", "protocolVersion": "0.2.6"},
        {
            "supportedInterfaces": [
                {"url": "u", "protocolBinding": "GRPC", "protocolVersion": "0.2.6"}
            ]
        },
    ),
    "additional interfaces follow, all of one version": (
        {"url": "u", "additionalInterfaces": [{"url": "v", "transport": "GRPC"}, {}]},
        {
            "supportedInterfaces": [
                MAIN,
                {"url": "v", "protocolBinding": "GRPC", "protocolVersion": "0.3.0"},
                {"url": None, "protocolBinding": None, "protocolVersion": "0.3.0"},
            ]
        },
    ),
    "without url they are dropped": (
        {"additionalInterfaces": [{"url": "v"}], "protocolVersion": "0.3.0"},
        {},
    ),
    "an empty url is none": ({"url": ""}, {}),
    "beside 1.0 interfaces all of it is dropped": (
        {"supportedInterfaces": [{"url": "w"}], "url": "u", "preferredTransport": "GRPC"},
        {"supportedInterfaces": [{"url": "w"}]},
    ),
    "even where those are null": (
        {"supportedInterfaces": None, "url": "u"},
        {"supportedInterfaces": None},
    ),
    "the flag moves into the capabilities": (
        {"supportsAuthenticatedExtendedCard": True, "capabilities": {"streaming": True}},
        {"capabilities": {"streaming": True, "extendedAgentCard": True}},
    ),
    "and makes them": (
        {"supportsAuthenticatedExtendedCard": True},
        {"capabilities": {"extendedAgentCard": True}},
    ),
    "it counts by its truth": (
        {"supportsAuthenticatedExtendedCard": "no"},
        {"capabilities": {"extendedAgentCard": True}},
    ),
    "false says nothing": ({"supportsAuthenticatedExtendedCard": False}, {}),
    "the new flag wins": (
        {"supportsAuthenticatedExtendedCard": True, "capabilities": {"extendedAgentCard": False}},
        {"capabilities": {"extendedAgentCard": False}},
    ),
    "requirements are wrapped": (
        {"security": [{"a": ["r"], "b": []}, {}]},
        {
            "securityRequirements": [
                {"schemes": {"a": {"list": ["r"]}, "b": {"list": []}}},
                {"schemes": {}},
            ]
        },
    ),
    "in skills too": (
        {"skills": [{"security": [{"a": []}]}]},
        {"skills": [{"securityRequirements": [{"schemes": {"a": {"list": []}}}]}]},
    ),
    "beside 1.0 requirements they are dropped": (
        {"securityRequirements": [], "security": [{"a": []}]},
        {"securityRequirements": []},
    ),
    "a null requirement says nothing": ({"security": None}, {}),
    "an API key's place is renamed": (
        {"securitySchemes": {"a": {"type": "apiKey", "in": "header", "name": "X"}}},
        {"securitySchemes": {"a": {"apiKeySecurityScheme": {"location": "header", "name": "X"}}}},
    ),
    "each type has its wrapper": (
        {
            "securitySchemes": {
                "a": {"type": "http", "scheme": "s"},
                "b": {"type": "oauth2", "flows": {}},
                "c": {"type": "openIdConnect"},
                "d": {"type": "mutualTLS"},
            }
        },
        {
            "securitySchemes": {
                "a": {"httpAuthSecurityScheme": {"scheme": "s"}},
                "b": {"oauth2SecurityScheme": {"flows": {}}},
                "c": {"openIdConnectSecurityScheme": {}},
                "d": {"mtlsSecurityScheme": {}},
            }
        },
    ),
    "an unknown type is taken away": (
        {"securitySchemes": {"a": {"type": "magic", "scheme": "s"}}},
        {"securitySchemes": {"a": {"scheme": "s"}}},
    ),
    "a scheme without type stays": (
        {"securitySchemes": {"a": {"httpAuthSecurityScheme": {}}}},
        {"securitySchemes": {"a": {"httpAuthSecurityScheme": {}}}},
    ),
    "a wrapper beside a type ends inside the other": (
        {"securitySchemes": {"a": {"type": "http", "httpAuthSecurityScheme": {}}}},
        {"securitySchemes": {"a": {"httpAuthSecurityScheme": {"httpAuthSecurityScheme": {}}}}},
    ),
    "the protobuf spelling of the schemes is not looked at": (
        {"security_schemes": {"a": {"type": "http"}}},
        {"security_schemes": {"a": {"type": "http"}}},
    ),
    "unknown members stay for the pruning": ({"x": 1}, {"x": 1}),
}


@pytest.mark.parametrize(("card", "expected"), ROWS.values(), ids=ROWS)
def test_row(card: dict[str, Any], expected: dict[str, Any]) -> None:
    """Measured with a2a-sdk 1.3.0."""
    assert tree.write(upgrade(tree.read(card))) == expected


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "capabilities that are a list": (
        {"capabilities": [], "supportsAuthenticatedExtendedCard": True},
        "/capabilities",
    ),
    "skills that are an object": ({"skills": {"a": {}}}, "/skills"),
    "a skill that is a text": ({"skills": ["x"]}, "/skills/0"),
    "requirements that are an object": ({"security": {"a": []}}, "/security"),
    "a requirement that is a list": ({"security": [[]]}, "/security/0"),
    "schemes that are a list": ({"securitySchemes": [{}]}, "/securitySchemes"),
    "a scheme that is a text": ({"securitySchemes": {"a": "http"}}, "/securitySchemes/a"),
    "a type that is a list": ({"securitySchemes": {"a": {"type": []}}}, "/securitySchemes/a/type"),
    "additional interfaces that are an object": (
        {"url": "u", "additionalInterfaces": {"a": 1}},
        "/additionalInterfaces",
    ),
    "an additional interface that is a text": (
        {"url": "u", "additionalInterfaces": ["v"]},
        "/additionalInterfaces/0",
    ),
}


@pytest.mark.parametrize(("card", "path"), REFUSED.values(), ids=REFUSED)
def test_what_the_sdk_would_refuse(card: dict[str, Any], path: str) -> None:
    """No payload, and the place that is in its way."""
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(card, "prune-empty-upgraded")

    assert (caught.value.code, caught.value.path) == ("canonical.no_form", path)


def test_everything_of_a_0_3_card_is_traced() -> None:
    """Each source has its place in the result, so that coverage can be read off it."""
    found = places_in(canonicalize(OLD, "prune-empty-upgraded"))

    assert found["/url"] == ("/supportedInterfaces/0/url",)
    assert found["/additionalInterfaces/0/transport"] == ("/supportedInterfaces/1/protocolBinding",)
    assert found["/protocolVersion"] == (
        "/supportedInterfaces/0/protocolVersion",
        "/supportedInterfaces/1/protocolVersion",
    )
    assert found["/security/0/harbour/0"] == ("/securityRequirements/0/schemes/harbour/list/0",)
    assert found["/securitySchemes/harbour/type"] == (
        "/securitySchemes/harbour/httpAuthSecurityScheme",
    )
    assert found["/supportsAuthenticatedExtendedCard"] == ("/capabilities/extendedAgentCard",)


def test_what_the_rewriting_makes_up_has_no_source() -> None:
    """A default transport is nothing that the document said."""
    found = places_in(canonicalize({"url": "u"}, "prune-empty-upgraded"))

    assert found == {"": ("",), "/url": ("/supportedInterfaces/0/url",)}


def test_a_flag_that_is_not_true_is_not_covered() -> None:
    """ "no" is signed as true; the document does not say that."""
    card = put(OLD, "/supportsAuthenticatedExtendedCard", "no")

    found = canonicalize(card, "prune-empty-upgraded")

    assert found.value["capabilities"] == {"streaming": True, "extendedAgentCard": True}
    assert "/supportsAuthenticatedExtendedCard" not in places_in(found)
