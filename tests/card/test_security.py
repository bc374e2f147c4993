"""The security schemes of a card, of either A2A version, in one form; and what they are made of."""

from __future__ import annotations

from typing import Any, Final

import pytest

from cardsign.card.security import (
    AUTHENTICATION,
    PROVIDERS,
    authentication_schemes,
    check_security,
    derive_security,
    flat_requirements,
    requirements_of,
    schemes_of,
    security_problems,
)
from cardsign.errors import CardRefused
from tests.support import PORTABLE, without

# In each row: the scheme as 1.0 wraps it, as 0.3 writes it, and how its credential travels.
SCHEMES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "a key in a header": (
        {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        {"type": "apiKey", "in": "header", "name": "X-Key"},
        "header",
    ),
    "a key in a query": (
        {"apiKeySecurityScheme": {"location": "query", "name": "key"}},
        {"type": "apiKey", "in": "query", "name": "key"},
        None,
    ),
    "bearer": (
        {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        {"type": "http", "scheme": "Bearer"},
        "bearer",
    ),
    "basic": (
        {"httpAuthSecurityScheme": {"scheme": "basic"}},
        {"type": "http", "scheme": "basic"},
        "basic",
    ),
    "digest": (
        {"httpAuthSecurityScheme": {"scheme": "digest"}},
        {"type": "http", "scheme": "digest"},
        None,
    ),
    "oauth2": ({"oauth2SecurityScheme": {"flows": {}}}, {"type": "oauth2", "flows": {}}, "bearer"),
    "OpenID Connect": (
        {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a.example"}},
        {"type": "openIdConnect", "openIdConnectUrl": "https://a.example"},
        "bearer",
    ),
    "mutual TLS": ({"mtlsSecurityScheme": {}}, {"type": "mutualTLS"}, None),
}


@pytest.mark.parametrize(("wrapped", "flat", "carrier"), SCHEMES.values(), ids=SCHEMES)
def test_both_forms_say_one_thing(wrapped: Any, flat: Any, carrier: str | None) -> None:
    """A scheme of 1.0 and its 0.3 form read alike."""
    found = schemes_of({"securitySchemes": {"new": wrapped, "old": flat}})
    new, old = found["new"], found["old"]
    assert (new.type, dict(new.members)) == (old.type, dict(old.members))
    assert new.type == flat["type"]
    assert (new.carrier, old.carrier) == (carrier, carrier)


UNKNOWN: dict[str, Any] = {
    "no object": "bearer",
    "no type": {"scheme": "bearer"},
    "a type of its own": {"type": "magic"},
    "a type that is no text": {"type": ["http"], "scheme": "bearer"},
    "a wrapper that holds nothing": {"oauth2SecurityScheme": None},
    "two wrappers": {
        "httpAuthSecurityScheme": {"scheme": "Bearer"},
        "oauth2SecurityScheme": {"flows": {}},
    },
}


@pytest.mark.parametrize("scheme", UNKNOWN.values(), ids=UNKNOWN)
def test_no_known_scheme(scheme: Any) -> None:
    """Nothing is guessed: it has no type, and no way for a credential to travel."""
    found = schemes_of({"securitySchemes": {"x": scheme}})["x"]
    assert (found.type, found.carrier) == (None, None)


def requirements(card: Any) -> list[tuple[dict[str, tuple[str, ...]], bool]]:
    """The schemes of each requirement of a card, and whether it can be read."""
    found = requirements_of(card, schemes_of(card))
    return [(dict(one.schemes), one.problem is None) for one in found]


def test_requirements() -> None:
    """Alternatives, each with the names that it takes together."""
    schemes = {"securitySchemes": {"a": SCHEMES["bearer"][0], "b": SCHEMES["bearer"][1]}}
    new: dict[str, Any] = schemes | {
        "securityRequirements": [{"schemes": {"a": {"list": ["s"]}, "b": {}}}, {}]
    }
    assert requirements(new) == [({"a": ("s",), "b": ()}, True), ({}, True)]
    old = schemes | {"security": [{"a": ["s"], "b": []}]}
    assert requirements(old) == [({"a": ("s",), "b": ()}, True)]
    short = schemes | {"securityRequirements": [{"schemes": {"a": ["s"], "b": []}}]}
    assert requirements(short) == requirements(old), "as a2a-go up to 2.4.0 writes it"
    snake = {"security_schemes": schemes["securitySchemes"]}
    assert requirements(snake | {"security_requirements": new["securityRequirements"]}) == (
        requirements(new)
    )
    assert flat_requirements(
        new | {"securityRequirements": [{"schemes": {"a": {"list": ["s"]}}}]}
    ) == ([{"a": ["s"]}])
    assert flat_requirements(new) == [{"a": ["s"], "b": []}, {}]
    assert flat_requirements(new | {"securityRequirements": [{"b": []}]}) is None
    assert flat_requirements({}) is None


# What a card can say of its callers that nobody can read, beside what can be read.

_BEARER: Final[dict[str, Any]] = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
#: A card with one scheme, which everybody can read, and no requirement.
GUARDED: Final[dict[str, Any]] = {
    **without(PORTABLE, "/securityRequirements"),
    "securitySchemes": {"b": _BEARER},
}


def _scheme(value: Any) -> dict[str, Any]:
    return {
        "securitySchemes": {"b": value},
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
    }


def _flow(flow: Any) -> dict[str, Any]:
    return _scheme({"type": "oauth2", "flows": flow})


#: Members that take the place of the card's own, or of a skill's where they are requirements.
UNREADABLE: Final[dict[str, dict[str, Any]]] = {
    # The list.
    "0.3: schemes of nothing": {"security": [{"schemes": {}}]},
    "a place in the names of both": {
        "securitySchemes": {
            "b": {"apiKeySecurityScheme": {"location": "query", "in": "header", "name": "k"}}
        }
    },
    "0.3: a name": {"security": "b"},
    "0.3: an object": {"security": {"b": []}},
    "0.3: an empty object": {"security": {}},
    "0.3: a number": {"security": 0},
    "0.3: true": {"security": True},
    "0.3: false": {"security": False},
    "1.0: a name": {"securityRequirements": "b"},
    "1.0: an object": {"securityRequirements": {"schemes": {}}},
    "1.0: an empty text": {"securityRequirements": ""},
    "1.0: a number": {"securityRequirements": 1},
    "1.0: false": {"securityRequirements": False},
    "snake_case: a name": {"security_requirements": "b"},
    "another case: an object": {"Security": {}},
    # An alternative.
    "0.3: names": {"security": ["b"]},
    "0.3: an empty name": {"security": [""]},
    "0.3: lists": {"security": [["b"]]},
    "0.3: an empty list": {"security": [[]]},
    "0.3: null in the list": {"security": [None]},
    "0.3: false in the list": {"security": [False]},
    "0.3: one of two": {"security": [{"b": []}, "b"]},
    "1.0: names": {"securityRequirements": ["b"]},
    "1.0: an empty list": {"securityRequirements": [[]]},
    "1.0: null in the list": {"securityRequirements": [None]},
    "1.0: a number in the list": {"securityRequirements": [0]},
    "snake_case: names": {"security_requirements": ["b"]},
    # The schemes of an alternative.
    "1.0: 0.3's form": {"securityRequirements": [{"b": []}]},
    "1.0: no schemes, but more": {"securityRequirements": [{"schemes": {}, "b": []}]},
    "1.0: schemes are null": {"securityRequirements": [{"schemes": None}]},
    "1.0: schemes in a list": {"securityRequirements": [{"schemes": ["b"]}]},
    "1.0: an empty list of schemes": {"securityRequirements": [{"schemes": []}]},
    "1.0: a scheme's name": {"securityRequirements": [{"schemes": "b"}]},
    "1.0: nested once more": {"securityRequirements": [{"schemes": {"schemes": {"b": {}}}}]},
    "0.3: two forms at once": {"security": [{"schemes": {"b": {"list": []}}, "b": []}]},
    "0.3: a scheme called schemes": {"security": [{"schemes": []}]},
    # Scopes.
    "0.3: scopes are null": {"security": [{"b": None}]},
    "0.3: scopes are a text": {"security": [{"b": "read"}]},
    "0.3: scopes are an object": {"security": [{"b": {"list": []}}]},
    "0.3: a scope is a number": {"security": [{"b": [1]}]},
    "1.0: scopes are null": {"securityRequirements": [{"schemes": {"b": None}}]},
    "1.0: scopes are a text": {"securityRequirements": [{"schemes": {"b": "read"}}]},
    "1.0: scopes are false": {"securityRequirements": [{"schemes": {"b": False}}]},
    "1.0: scopes under no list": {"securityRequirements": [{"schemes": {"b": {"scopes": []}}}]},
    "1.0: the list is a text": {"securityRequirements": [{"schemes": {"b": {"list": "r"}}}]},
    "1.0: a scope is null": {"securityRequirements": [{"schemes": {"b": {"list": [None]}}}]},
    # Names.
    "0.3: an undeclared scheme": {"security": [{"pier": []}]},
    "1.0: an undeclared scheme": {"securityRequirements": [{"schemes": {"pier": {}}}]},
    "one undeclared of two": {"securityRequirements": [{"schemes": {"b": {}, "pier": {}}}]},
    # Schemes.
    "schemes in a list": {"securitySchemes": [_BEARER]},
    "schemes are a text": {"securitySchemes": "b"},
    "schemes are false": {"securitySchemes": False},
    "a scheme is a text": _scheme("bearer"),
    "a scheme is a list": _scheme([_BEARER]),
    "a scheme is null": _scheme(None),
    "a scheme is empty": _scheme({}),
    "no type": _scheme({"scheme": "bearer"}),
    "an unknown type": _scheme({"type": "bearer"}),
    "a type that is a list": _scheme({"type": ["http"], "scheme": "bearer"}),
    "an unknown wrapper": _scheme({"bearerSecurityScheme": {}}),
    "a wrapper is null": _scheme({"httpAuthSecurityScheme": None}),
    "a wrapper is a text": _scheme({"httpAuthSecurityScheme": "Bearer"}),
    "a wrapper in a list": _scheme({"httpAuthSecurityScheme": [{"scheme": "Bearer"}]}),
    "two wrappers": _scheme({**_BEARER, "mtlsSecurityScheme": {}}),
    "two types": _scheme({**_BEARER, "type": "mutualTLS"}),
    "two types, one unknown": _scheme({**_BEARER, "type": "magic"}),
    "1.0: a member of another type": _scheme({"httpAuthSecurityScheme": {"scheme": 7}}),
    "0.3: a member of another type": _scheme({"type": "http", "scheme": ["bearer"]}),
    "0.3: a place of another type": _scheme({"type": "apiKey", "in": {}, "name": "X-Key"}),
    "flows in a list": _flow([]),
    "a flow is a text": _flow({"clientCredentials": "https://login.example/token"}),
    "a URL is an object": _flow({"clientCredentials": {"tokenUrl": {}, "scopes": {}}}),
    "scopes in a list": _flow(
        {"clientCredentials": {"tokenUrl": "https://l.example", "scopes": []}}
    ),
    "snake_case: two wrappers": _scheme(
        {"http_auth_security_scheme": {"scheme": "Bearer"}, "mtls_security_scheme": {}}
    ),
}
READABLE: Final[dict[str, dict[str, Any]]] = {
    "nothing is asked": {},
    "no requirement": {"securityRequirements": [], "security": []},
    "null is nothing": {"securityRequirements": None, "security": None},
    "0.3": {"security": [{"b": []}]},
    "0.3 with scopes": {"security": [{"b": ["read"]}, {}]},
    "0.3 in the words of its proto": {"security": [{"schemes": {"b": {"list": []}}}]},
    "1.0": {"securityRequirements": [{"schemes": {"b": {"list": ["read"]}}}, {"schemes": {}}]},
    "1.0, short": {"securityRequirements": [{"schemes": {"b": {}}}, {}]},
    "1.0, an unknown member": {"securityRequirements": [{"schemes": {"b": {}}, "x-note": "n"}]},
    "snake_case": {"security_requirements": [{"schemes": {"b": {"list": []}}}]},
    "both versions": {
        "securitySchemes": {"b": {**_BEARER, "type": "http", "scheme": "Bearer"}},
        "security": [{"b": []}],
        "securityRequirements": [{"schemes": {"b": {}}}],
    },
    "mutual TLS": _scheme({"mtlsSecurityScheme": {}}),
    "a scheme in snake_case": _scheme({"http_auth_security_scheme": {"scheme": "Bearer"}}),
    "a scheme of 0.3": _scheme({"type": "apiKey", "in": "header", "name": "X-Key"}),
    "several flows of 0.3": _flow(
        {
            "clientCredentials": {"tokenUrl": "https://login.example/token", "scopes": {}},
            "password": {"tokenUrl": "https://login.example/token", "scopes": {}},
        }
    ),
}


@pytest.mark.parametrize("edit", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_never_open(edit: dict[str, Any]) -> None:
    """Of the card and of a skill, whatever else the card says, the place is named."""
    problems = list(security_problems({**GUARDED, **edit}))
    assert problems
    assert all(one.message and one.place.tokens for one in problems)
    assert not any(one.is_open for one in requirements_of({**GUARDED, **edit}, schemes_of(GUARDED)))
    if "securitySchemes" not in edit:
        for member in ("skills", "Skills"):  # which a lenient client reads too
            (problem, *_) = security_problems({**GUARDED, member: [{"id": "s", **edit}]})
            assert problem.place.tokens[:2] == (member, "0")
    with pytest.raises(CardRefused) as refused:
        check_security({**GUARDED, **edit})
    assert refused.value.code == "card.security"


@pytest.mark.parametrize("edit", READABLE.values(), ids=READABLE)
def test_what_can_be_read_has_no_problem(edit: dict[str, Any]) -> None:
    """In the form of either A2A version, and in any spelling that some client reads."""
    assert list(security_problems({**GUARDED, **edit})) == []
    check_security({**GUARDED, **edit})


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


UNKNOWN_WORDS: dict[str, Any] = {
    "a word": {"schemes": ["kerberos"]},
    "a type": {"type": "magic"},
    "no types": {"anthropic_api_key": "optional"},
    "a text": "bearer",
    "an entry without type": [{"description": "x"}],
}


@pytest.mark.parametrize("given", UNKNOWN_WORDS.values(), ids=UNKNOWN_WORDS)
def test_an_unknown_authentication_is_never_open(given: Any) -> None:
    """It is refused by its own code."""
    with pytest.raises(CardRefused) as caught:
        authentication_schemes(given)
    assert caught.value.code == "card.auth_type"
