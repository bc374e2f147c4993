"""Which security scheme stands for which provider, and for which word of an `authentication`."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.security import (
    AUTHENTICATION,
    PROVIDERS,
    DeclaredProvider,
    authentication_schemes,
    provider_schemes,
)
from cardsign.errors import CardRefused

BEARER: Any = {"httpAuthSecurityScheme": {"scheme": "bearer"}}
AZURE = "https://login.microsoftonline.com/T/v2.0/.well-known/openid-configuration"


def open_id(url: str) -> dict[str, Any]:
    """The scheme of an OpenID provider."""
    return {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}


ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "static_token": ({}, BEARER),
    "http_verifier": ({"url": "https://inside.example/verify"}, BEARER),
    "oidc": (
        {"issuer": "https://id.example/", "audience": "api"},
        open_id("https://id.example/.well-known/openid-configuration"),
    ),
    "azure_ad": ({"tenant_id": "T"}, open_id(AZURE)),
    "gcp_iap": (
        {},
        {"apiKeySecurityScheme": {"location": "header", "name": "X-Goog-Iap-Jwt-Assertion"}},
    ),
    "aws_sigv4": (
        {"region": "us-east-1"},
        {"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "forge-aws-v1"}},
    ),
    "api_key": (
        {"in": "query", "name": "key"},
        {"apiKeySecurityScheme": {"location": "query", "name": "key"}},
    ),
    "basic": ({}, {"httpAuthSecurityScheme": {"scheme": "basic"}}),
    "mtls": ({}, {"mtlsSecurityScheme": {}}),
}


def test_every_provider_has_a_row_here() -> None:
    """So that a new one cannot go untested."""
    assert ROWS.keys() == PROVIDERS.keys()


@pytest.mark.parametrize("kind", ROWS)
def test_a_provider_has_its_scheme(kind: str) -> None:
    """Named after its type, and one alternative."""
    settings, scheme = ROWS[kind]
    derived = provider_schemes([DeclaredProvider(kind, None, settings)])
    assert derived.schemes == {kind: scheme}
    assert derived.requirements == ({"schemes": {kind: {}}},)


@pytest.mark.parametrize("kind", ["oidc", "azure_ad", "api_key"])
def test_a_provider_without_its_setting_is_refused(kind: str) -> None:
    """Rather than advertised with half a scheme."""
    with pytest.raises(CardRefused, match="it needs") as caught:
        provider_schemes([DeclaredProvider(kind)])
    assert caught.value.code == "card.auth_setting"


def test_names_and_alternatives() -> None:
    """A name wins over the type, a second of one type gets a number, none is optional by itself."""
    chain = [
        DeclaredProvider("static_token"),
        DeclaredProvider("static_token"),
        DeclaredProvider("basic", "staff"),
    ]
    derived = provider_schemes(chain)
    assert list(derived.schemes) == ["static_token", "static_token-2", "staff"]
    assert [one["schemes"] for one in derived.requirements] == [  # type: ignore[index,call-overload]
        {"static_token": {}},
        {"static_token-2": {}},
        {"staff": {}},
    ]
    assert provider_schemes(chain, required=False).requirements[-1] == {"schemes": {}}


def test_no_chain_says_nothing() -> None:
    """Neither an empty list nor an empty object."""
    derived = provider_schemes([], required=False)
    assert not derived.schemes
    assert not derived.requirements


def test_what_was_written_by_hand_stays() -> None:
    """A derived scheme of that name gets another, unless it says the same."""
    mine: Any = {"httpAuthSecurityScheme": {"scheme": "digest"}}
    derived = provider_schemes([DeclaredProvider("static_token")], by_hand={"static_token": mine})
    assert derived.schemes == {"static_token": mine, "static_token-2": BEARER}
    same = provider_schemes([DeclaredProvider("static_token")], by_hand={"static_token": BEARER})
    assert same.schemes == {"static_token": BEARER}
    assert same.requirements == ({"schemes": {"static_token": {}}},)


def test_an_unknown_provider_is_listed_and_not_advertised() -> None:
    """It is enforced; a card that named it wrongly would lie."""
    derived = provider_schemes([DeclaredProvider("kerberos"), DeclaredProvider("basic")])
    assert derived.unmapped == ("kerberos",)
    assert list(derived.schemes) == ["basic"]


KEY = {"type": "apiKey", "in": "header", "name": "X-Key", "description": "A key"}
SPELLINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "words": ({"schemes": ["bearer"], "credentials": None}, {"bearer": BEARER}),
    "objects": (
        {"schemes": [{"type": "bearer"}, KEY]},
        {
            "bearer": BEARER,
            "apiKey": {
                "apiKeySecurityScheme": {
                    "description": "A key",
                    "location": "header",
                    "name": "X-Key",
                }
            },
        },
    ),
    "one object": ({"type": "bearer", "registration_url": "https://a.example"}, {"bearer": BEARER}),
    "a list": ([{"type": "Basic"}], {"Basic": {"httpAuthSecurityScheme": {"scheme": "basic"}}}),
    "oauth2 without flows": ([{"type": "oauth2"}], {"oauth2": BEARER}),
    "none": ({"schemes": ["none"]}, {}),
    "not required": ({"required": False}, {}),
}


@pytest.mark.parametrize(("given", "schemes"), SPELLINGS.values(), ids=SPELLINGS)
def test_an_authentication_has_its_schemes(given: Any, schemes: dict[str, Any]) -> None:
    """Each is one alternative."""
    derived = authentication_schemes(given)
    assert derived.schemes == schemes
    assert len(derived.requirements) == len(schemes)


def test_every_word_is_known_in_lower_case() -> None:
    """They are looked up so."""
    assert all(word == word.lower() for word in AUTHENTICATION)


UNKNOWN: dict[str, Any] = {
    "a word": {"schemes": ["kerberos"]},
    "a type": {"type": "magic"},
    "no types": {"anthropic_api_key": "optional"},
    "a text": "bearer",
    "an entry without type": [{"description": "x"}],
}


@pytest.mark.parametrize("given", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_authentication_is_never_open(given: Any) -> None:
    """It is refused by its own code."""
    with pytest.raises(CardRefused) as caught:
        authentication_schemes(given)
    assert caught.value.code == "card.auth_type"
