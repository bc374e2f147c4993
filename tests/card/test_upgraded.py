"""The rewriting of a2a-sdk's resolver, frozen: its quirks are what its signatures cover."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.profiles import canonicalize
from cardsign.errors import CanonicalizationError
from tests.card.places import places_in
from tests.support import OLD, put

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
