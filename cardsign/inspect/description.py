"""A card's own words: what the agent is and asks for. Nothing of it is verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.security import Scheme, requirements_of, schemes_of
from cardsign.card.values import Json, members_of, objects_in
from cardsign.findings import MAX_PATH, cut

MAX_ELEMENTS: Final = 100  # of each list that is described
_MAX_LINES: Final = 20  # for the elements of a list; --json has more


def describe_card(card: Card) -> dict[str, Any]:
    """Return what a card says of itself, by name, as JSON.

    Of a list the first 100 elements are there, of a text 1,000 characters; `left_out` says how
    many elements more each list has.
    """
    document = card.document
    schemes = schemes_of(document)
    described = {
        "name": document.get("name"),
        "version": document.get("version"),
        "description": document.get("description"),
        "interfaces": [
            {"url": one.url, "binding": one.binding, "version": one.version}
            for one in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document, any_spelling=True),
        "capabilities": _capabilities(document),
        "schemes": [_scheme(schemes[name]) for name in sorted(schemes)],
        "requirements": [
            {name: [*one.schemes[name]] for name in sorted(one.schemes)}
            if one.problem is None
            else None
            for one in requirements_of(document, schemes)
        ],
        "skills": [
            {name: one.get(name) for name in ("id", "name", "description", "tags")}
            for _, one in objects_in(document.get("skills"))
        ],
    }
    left_out = {
        name: len(value) - MAX_ELEMENTS
        for name, value in described.items()
        if isinstance(value, list) and len(value) > MAX_ELEMENTS
    }
    return {**_bound(described), "left_out": left_out}


def _bound(value: Any) -> Any:
    """Return the value with so many elements of each list at most, and characters of each text."""
    if isinstance(value, str):
        return cut(value, MAX_PATH)
    if isinstance(value, dict):
        members = list(value.items())[:MAX_ELEMENTS]
        return {cut(str(name)): _bound(member) for name, member in members}
    return [*map(_bound, value[:MAX_ELEMENTS])] if isinstance(value, list) else value


def _capabilities(document: Mapping[str, Json]) -> list[str]:
    """The capabilities that the card says it has; extensions by their URI."""
    capabilities = members_of(document.get("capabilities"))
    extensions = objects_in(capabilities.get("extensions"))
    return [
        *sorted(name for name, value in capabilities.items() if value is True),
        *(f"extension {extension.get('uri')}" for _, extension in extensions),
    ]


def _scheme(scheme: Scheme) -> dict[str, Any]:
    """A scheme, with what its type says of how a credential is had and shown."""
    shown = {"scheme": "scheme", "in": "in", "name": "parameter", "openIdConnectUrl": "url"}
    members: dict[str, Any] = {
        shown[name]: value
        for name, value in scheme.members.items()
        if name in shown and isinstance(value, str)
    }
    if flows := [_flow(*named) for named in members_of(scheme.members.get("flows")).items()]:
        members["flows"] = flows
    return {"name": scheme.name, "type": scheme.type, **members}


def _flow(name: str, value: Json) -> dict[str, Any]:
    """An OAuth flow: where a token is asked for, and for which scopes."""
    flow = members_of(value)
    shown = {"tokenUrl": "token_url", "authorizationUrl": "authorization_url"}
    urls = {shown[member]: flow[member] for member in shown if isinstance(flow.get(member), str)}
    return {"flow": name, **urls, "scopes": [*members_of(flow.get("scopes"))]}


def description_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description for a person."""
    for member, value in card.items():
        if member == "left_out":
            continue
        if not isinstance(value, list):
            yield f"  {member:<15} {cut(_value(value)) if value is not None else '-'}"
            continue
        count = len(value) + card["left_out"].get(member, 0)
        yield f"  {member:<15} {count}"
        for element in value[:_MAX_LINES]:
            yield f"    {cut(_element(member, element))}"
        if more := count - len(value[:_MAX_LINES]):
            yield f"    and {more:,} more"


def _element(member: str, element: Any) -> str:
    """An element of a list; of a requirement the schemes that it takes together."""
    if member == "requirements" and element is None:
        return "unreadable: it does not say who may call"
    if member == "requirements":
        named = [
            f"{name} ({', '.join(map(str, scopes))})" if scopes else name
            for name, scopes in element.items()
        ]
        return " and ".join(named) or "none: anybody may call"
    if not isinstance(element, dict):
        return str(element)
    return "  ".join(f"{k}={_value(v)}" for k, v in element.items() if v not in (None, []))


def _value(value: Json) -> str:
    """A value of a line, without JSON's or Python's marks."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(_value(member) for member in value.values() if member not in (None, []))
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)
