"""A card's own words: what the agent is and asks for. Nothing of it is verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.security import requirements_of, schemes_of
from cardsign.card.values import members_of, objects_in
from cardsign.findings import MAX_PATH, cut

MAX_ELEMENTS: Final = 100  # of each list or object that is described
_MAX_LINES: Final = 20  # for the elements of a list; --json has more


def describe_card(card: Card) -> dict[str, Any]:
    """Return what a card says of itself, by name, as JSON.

    Of a list the first 100 elements are there, of a text 1,000 characters.
    """
    document = card.document
    schemes = schemes_of(document)
    capabilities = members_of(document.get("capabilities"))
    described = {
        "name": document.get("name"),
        "version": document.get("version"),
        "description": document.get("description"),
        "interfaces": [
            {"url": entry.url, "binding": entry.binding, "version": entry.version}
            for entry in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document, any_spelling=True),
        "capabilities": [
            *sorted(name for name, value in capabilities.items() if value is True),
            *(
                f"extension {entry.get('uri')}"
                for _, entry in objects_in(capabilities.get("extensions"))
            ),
        ],
        "schemes": [
            {"name": name, "type": schemes[name].type, **schemes[name].members}
            for name in sorted(schemes)
        ],
        "requirements": [
            "unreadable: it does not say who may call"
            if entry.problem is not None
            else {name: [*entry.schemes[name]] for name in sorted(entry.schemes)}
            or "none: anybody may call"
            for entry in requirements_of(document, schemes)
        ],
        "skills": [
            {name: entry.get(name) for name in ("id", "name", "description", "tags")}
            for _, entry in objects_in(document.get("skills"))
        ],
    }
    bound: dict[str, Any] = _bound(described)
    return bound


def _bound(value: Any) -> Any:
    """Return the value with so many elements of each list at most, and characters of each text."""
    if isinstance(value, dict):
        members = list(value.items())[:MAX_ELEMENTS]
        return {cut(str(name)): _bound(member) for name, member in members}
    if isinstance(value, list):
        return [*map(_bound, value[:MAX_ELEMENTS])]
    return cut(value, MAX_PATH) if isinstance(value, str) else value


def description_lines(agent: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description for a person."""
    for name, value in agent.items():
        if not isinstance(value, list):
            yield f"    {name:<15} {cut(words(value)) or '-'}"
            continue
        yield f"    {name:<15} {'' if value else 'none'}".rstrip()
        yield from (f"      {cut(words(element))}" for element in value[:_MAX_LINES])
        if len(value) > _MAX_LINES:
            yield "      and more: --json"


def words(value: Any) -> str:
    """Return JSON as a few words, without its marks."""
    if isinstance(value, dict):
        shown = {name: words(member) for name, member in value.items() if member is not None}
        shown |= {name: f"({shown[name]})" for name in shown if isinstance(value[name], dict)}
        return "  ".join(f"{name}={text}" if text else name for name, text in shown.items())
    if isinstance(value, list):
        return ", ".join(map(words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
