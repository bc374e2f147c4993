"""The security schemes of a card, of either A2A version, in one form."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card import flat_requirements, requirements_of, schemes_of

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
}


@pytest.mark.parametrize("scheme", UNKNOWN.values(), ids=UNKNOWN)
def test_no_known_scheme(scheme: Any) -> None:
    """Nothing is guessed: it has no type, and no way for a credential to travel."""
    found = schemes_of({"securitySchemes": {"x": scheme}})["x"]
    assert (found.type, found.carrier) == (None, None)


def test_requirements() -> None:
    """Alternatives, each with the names that it takes together."""
    new: dict[str, Any] = {
        "securityRequirements": [{"schemes": {"a": {"list": ["s"]}, "b": {}}}, {}]
    }
    assert [tuple(one) for one in requirements_of(new)] == [("a", "b"), ()]
    (old,) = requirements_of({"security": [{"a": ["s"], "b": []}]})
    assert old == {"a": frozenset({"s"}), "b": frozenset()}
    assert flat_requirements(
        new | {"securityRequirements": [{"schemes": {"a": {"list": ["s"]}}}]}
    ) == [{"a": ["s"]}]
    assert flat_requirements(new) is None
    assert flat_requirements({}) is None
