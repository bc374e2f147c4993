"""Which security scheme stands for which provider, and for which word of an `authentication`."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.security import (
    AUTHENTICATION,
    PROVIDERS,
    authentication_schemes,
    derive_security,
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
    """Its settings are all that it needs."""
    settings, scheme = ROWS[kind]
    assert PROVIDERS[kind](settings) == scheme


@pytest.mark.parametrize("kind", ["oidc", "azure_ad", "api_key"])
def test_a_provider_without_its_setting_is_refused(kind: str) -> None:
    """Rather than advertised with half a scheme."""
    with pytest.raises(CardRefused, match="it needs") as caught:
        PROVIDERS[kind]({})
    assert caught.value.code == "card.auth_setting"


BASIC: Any = PROVIDERS["basic"]({})
DIGEST: Any = {"httpAuthSecurityScheme": {"scheme": "digest"}}
TOKEN = ("static_token", BEARER)
CHAINS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any], list[str]]] = {
    "a second of one name gets a number": (
        [TOKEN, TOKEN, ("staff", BASIC)],
        {},
        {"static_token": BEARER, "static_token-2": BEARER, "staff": BASIC},
        ["static_token", "static_token-2", "staff"],
    ),
    "no chain says nothing": ([], {}, {}, []),
    "one by hand stays, and the derived one gets another name": (
        [TOKEN],
        {"static_token": DIGEST},
        {"static_token": DIGEST, "static_token-2": BEARER},
        ["static_token-2"],
    ),
    "one by hand that says the same is the derived one": (
        [TOKEN],
        {"static_token": BEARER},
        {"static_token": BEARER},
        ["static_token"],
    ),
}


@pytest.mark.parametrize(("chain", "hand", "schemes", "names"), CHAINS.values(), ids=CHAINS)
def test_each_scheme_of_a_chain_is_one_alternative(
    chain: list[Any], hand: dict[str, Any], schemes: dict[str, Any], names: list[str]
) -> None:
    """An empty one comes last, where callers without a credential are let in."""
    alternatives = [{"schemes": {name: {}}} for name in names]
    assert derive_security(chain, by_hand=hand) == (schemes, alternatives)
    empty = [{"schemes": {}}] if names else []
    assert derive_security(chain, by_hand=hand, required=False) == (schemes, alternatives + empty)


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
    derived, requirements = authentication_schemes(given)
    assert derived == schemes
    assert len(requirements) == len(schemes)


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
