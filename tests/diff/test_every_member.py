"""Every member that some client reads is compared, in either half of a card and any spelling."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.diff.cards import diff_cards, diff_live, effect_of
from tests.support import dump

TOKEN = "https://login.example/token"
SCOPES = {"read": "Read", "write": "Write"}
OLD_FLOW = {
    "authorizationUrl": "https://login.example/ask",
    "tokenUrl": TOKEN,
    "refreshUrl": "https://login.example/again",
    "scopes": SCOPES,
}
OPENID = "https://login.example/.well-known/openid-configuration"


def _oauth(name: str, **flow: Any) -> dict[str, Any]:
    members = {"description": "By login", "oauth2MetadataUrl": "https://login.example/meta"}
    return {"oauth2SecurityScheme": {**members, "flows": {name: {**flow, "scopes": SCOPES}}}}


#: Every member of A2A 1.0 and of 0.3, in one document that clients of both read.
CARD: dict[str, Any] = {
    "name": "Harbour",
    "description": "The harbour master",
    "version": "1.2.3",
    "supportedInterfaces": [
        {
            "url": "https://h.example/a2a",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
            "tenant": "north",
        },
        {"url": "https://h.example/old", "protocolBinding": "GRPC", "protocolVersion": "0.3"},
    ],
    "url": "https://h.example/old",
    "preferredTransport": "GRPC",
    "protocolVersion": "0.3.0",
    "additionalInterfaces": [
        {"url": "https://h.example/rest", "transport": "HTTP+JSON"},
    ],
    "provider": {"url": "https://h.example/", "organization": "Harbour office"},
    "documentationUrl": "https://h.example/docs",
    "iconUrl": "https://h.example/icon",
    "capabilities": {
        "streaming": True,
        "pushNotifications": True,
        "stateTransitionHistory": True,
        "extendedAgentCard": True,
        "extensions": [
            {
                "uri": "https://x.example/e",
                "description": "Extends",
                "required": True,
                "params": {"depth": 3},
            }
        ],
    },
    "supportsAuthenticatedExtendedCard": True,
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"description": "d", "location": "header", "name": "K"}},
        "http": {
            "httpAuthSecurityScheme": {"description": "d", "scheme": "b", "bearerFormat": "JWT"}
        },
        "code": _oauth("authorizationCode", **OLD_FLOW, pkceRequired=True),
        "client": _oauth("clientCredentials", tokenUrl=TOKEN, refreshUrl=TOKEN),
        "implicit": _oauth("implicit", authorizationUrl=TOKEN, refreshUrl=TOKEN),
        "password": _oauth("password", tokenUrl=TOKEN, refreshUrl=TOKEN),
        "device": _oauth(
            "deviceCode", deviceAuthorizationUrl=TOKEN, tokenUrl=TOKEN, refreshUrl=TOKEN
        ),
        "openid": {"openIdConnectSecurityScheme": {"description": "d", "openIdConnectUrl": OPENID}},
        "tls": {"mtlsSecurityScheme": {"description": "d"}},
        "old key": {"type": "apiKey", "description": "d", "in": "header", "name": "K"},
        "old http": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "old openid": {"type": "openIdConnect", "openIdConnectUrl": OPENID},
        "old oauth": {
            "type": "oauth2",
            "oauth2MetadataUrl": "https://login.example/meta",
            "flows": dict.fromkeys(
                ("authorizationCode", "clientCredentials", "implicit", "password"), OLD_FLOW
            ),
        },
        "both": {
            "type": "http",
            "scheme": "bearer",
            "httpAuthSecurityScheme": {"scheme": "bearer"},
        },
    },
    "securityRequirements": [
        {"schemes": {"both": {"list": ["read"]}}},
        {"schemes": {"key": {}, "tls": {}}},
    ],
    "security": [{"both": ["read"]}, {"key": [], "tls": []}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {
            "id": "tides",
            "name": "Tides",
            "description": "When it is high",
            "tags": ["sea"],
            "examples": ["When?"],
            "inputModes": ["text/plain", "image/png"],
            "outputModes": ["text/plain", "image/png"],
            "securityRequirements": [{"schemes": {"both": {"list": ["write"]}}}],
            "security": [{"both": ["write"]}],
        }
    ],
}


def places(value: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """Every member and element below a value."""
    for token in value if isinstance(value, dict) else range(len(value)):
        yield (*above, token)
        if isinstance(value[token], dict | list):
            yield from places(value[token], *above, token)


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return f"9{value}" if isinstance(value, str) else 4 if isinstance(value, int) else None


def edits(place: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
    """The card without a value, and with another one there."""
    for is_removed in (True, False):
        card = copy.deepcopy(CARD)
        owner: Any = card
        for token in place[:-1]:
            owner = owner[token]
        if is_removed:
            del owner[place[-1]]
        elif (value := _changed(owner[place[-1]])) is None:
            continue
        else:
            owner[place[-1]] = value
        yield card


def snake(value: Any, *messages: Message) -> Any:
    """A card in the spelling of its proto."""
    if not isinstance(value, dict):
        return value
    made = {}
    for name, child in value.items():
        fields = [one.fields[name] for one in messages if name in one.fields]
        made[fields[0].snake_name if fields else name] = _snake_child(child, fields)
    return made


def _snake_child(child: Any, fields: list[Field]) -> Any:
    below = [one.message for one in fields if one.message is not None]
    if below and fields[0].shape == "list":
        return [snake(one, *below) for one in child]
    if below and fields[0].shape == "map":
        return {key: snake(one, *below) for key, one in child.items()}
    return snake(child, *below) if below else child


def as_it_is(card: Mapping[str, Any]) -> Any:
    """A card in the spelling of its JSON."""
    return card


def as_in_its_proto(card: Mapping[str, Any]) -> Any:
    """A card in snake_case."""
    return snake(card, CARD_1_0, CARD_0_3)


PLACES = list(places(CARD))
# What the changes are held against.
UNSAID = {("version",)}


def test_every_member_of_the_schemas_is_in_the_card() -> None:
    """So that a member which is added to them is asked about here."""
    names = {token for place in PLACES for token in place}

    def missing(message: Message, known: frozenset[str] = frozenset()) -> set[str]:
        found = set(message.fields) - names
        for one in message.fields.values():
            if one.message is not None and one.message.name not in known:
                found |= missing(one.message, known | {message.name})
        return found

    signature = {"protected", "signature", "header"}
    assert missing(CARD_1_0) | missing(CARD_0_3) == {"signatures"} | signature


@pytest.mark.parametrize("spelled", [as_it_is, as_in_its_proto])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place)))
def test_one_edit_of_one_member_is_a_change(place: tuple[str | int, ...], spelled: Any) -> None:
    """Removed, and with another value; drift shows it as well."""
    old = dump(spelled(CARD))
    for card in edits(place):
        new = dump(spelled(card))
        if place in UNSAID:
            continue
        assert diff_cards(old, new).changes, card
        assert diff_cards(new, old).changes, card
        assert diff_live(old, new).changes


def test_what_says_the_same_is_no_change() -> None:
    """Another order, another spelling, and a default that is written out."""
    same = copy.deepcopy(CARD)
    for name in ("security", "securityRequirements"):
        same[name].reverse()
    same["securitySchemes"] = dict(reversed(same["securitySchemes"].items()))
    same["capabilities"] = dict(reversed(same["capabilities"].items()))
    same["protocolVersion"] = "0.3"  # a patch number does not count
    same["additionalInterfaces"].insert(0, {"url": CARD["url"], "transport": "GRPC"})
    same["securityRequirements"][0]["schemes"]["key"] = {"list": []}
    same = dict(reversed(same.items()))
    for one in (same, as_in_its_proto(CARD), as_in_its_proto(same)):
        assert diff_cards(dump(CARD), dump(one)).changes == ()
        assert diff_cards(dump(one), dump(CARD)).changes == ()


def test_a_half_that_says_what_the_other_says_changes_nothing() -> None:
    """A card of 0.3 and the same for clients of 1.0; the twin: another address is a change."""
    old = convert_card(CARD, "0.3")
    del old["additionalInterfaces"]
    interface = {"url": old["url"], "protocolBinding": "GRPC", "protocolVersion": "0.3"}
    requirements = convert_card(old, "1.0")["securityRequirements"]
    both: dict[str, Any] = {
        **copy.deepcopy(old),
        "supportedInterfaces": [interface],
        "securityRequirements": requirements,
        "capabilities": {**dict(old["capabilities"]), "extendedAgentCard": True},  # type: ignore[arg-type]
    }
    for skill in both["skills"]:
        skill["securityRequirements"] = [{"schemes": {"both": {"list": ["write"]}}}]
    assert diff_cards(dump(old), dump(both)).changes == ()
    interface["url"] = "https://h.example/new"
    assert [effect_of(one) for one in diff_cards(dump(old), dump(both)).changes] == ["additive"]
