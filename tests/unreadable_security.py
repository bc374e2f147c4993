"""What a card can say of its callers that nobody can read, each beside what can be read."""

from __future__ import annotations

from typing import Any, Final

_BEARER: Final[dict[str, Any]] = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
#: A card with one scheme, which everybody can read.
GUARDED: Final[dict[str, Any]] = {
    "name": "Tide tables",
    "description": "Says when the water comes",
    "version": "1.2.0",
    "supportedInterfaces": [
        {
            "url": "https://tides.example/a2a",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
    ],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "tides", "name": "Tides", "description": "When", "tags": ["sea"]}],
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
