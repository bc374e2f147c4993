"""What a card says, as one JSON object; nothing of it is verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from cardsign.card.canonical import DEFAULT_PROFILES, Payloads
from cardsign.card.coverage import left_open
from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.members import check_members
from cardsign.card.security import Scheme, schemes_of
from cardsign.card.strictjson import Json, elements_of, members_of, objects_in
from cardsign.errors import CanonicalizationError, SignatureRefused
from cardsign.jose.jws import read_entry


def describe_card(card: Card) -> dict[str, Any]:
    """The card's own words and its signatures' headers, as one JSON object."""
    document = card.document
    schemes = schemes_of(document)
    return {
        "name": document.get("name"),
        "version": document.get("version"),
        "a2a_version": card.a2a_version,
        "interfaces": [
            {"url": one.url, "binding": one.binding, "version": one.version}
            for one in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document, any_spelling=True),
        "capabilities": _capabilities(document),
        "schemes": [_scheme(schemes[name]) for name in sorted(schemes)],
        "requirements": [
            {name: _scopes(one[name]) for name in sorted(one)} for one in _requirements(document)
        ],
        "skills": [
            {name: one.get(name) for name in ("id", "name", "description", "tags")}
            for _, one in objects_in(document.get("skills"))
        ],
        "signature_block": "signature" in document,
        "signatures": [_signature(index, one) for index, one in enumerate(card.signatures)],
        "profiles": list(_profiles(card)),
        "schema": [
            {"path": p.pointer, "problem": p.message}
            for p in check_members(document, card.a2a_version)
        ],
    }


def _capabilities(document: Mapping[str, Json]) -> list[str]:
    """The capabilities that the card says it has; extensions by their URI."""
    said = members_of(document.get("capabilities"))
    extensions = objects_in(said.get("extensions"))
    return [
        *sorted(name for name, value in said.items() if value is True),
        *(f"extension {one.get('uri')}" for _, one in extensions),
    ]


def _scheme(scheme: Scheme) -> dict[str, Any]:
    """A scheme, with what its type says of how a credential is shown."""
    shown = {"scheme": "scheme", "in": "in", "name": "parameter", "openIdConnectUrl": "url"}
    members = {
        shown[name]: value
        for name, value in scheme.members.items()
        if name in shown and isinstance(value, str)
    }
    return {"name": scheme.name, "type": scheme.type, **members}


def _requirements(document: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Each alternative: the schemes that it takes together, with their scopes."""
    for member in ("securityRequirements", "security"):
        for one in elements_of(document.get(member)):
            taken = (
                one.get("schemes", one if member == "security" else {})
                if isinstance(one, dict)
                else {}
            )
            if isinstance(taken, dict):
                yield taken


def _scopes(said: Json) -> list[Json]:
    """Scopes, as A2A 1.0 or 0.3 writes them."""
    return elements_of(said.get("list") if isinstance(said, dict) else said)


def _signature(index: int, untrusted_entry: Json) -> dict[str, Any]:
    try:
        header = read_entry(untrusted_entry).header
    except SignatureRefused as refusal:
        return {"index": index, "refused": refusal.code}
    return {"index": index, "kid": header.kid, "alg": header.alg, "typ": header.typ}


def _profiles(card: Card) -> Iterator[dict[str, Any]]:
    payloads = Payloads(card)
    for name in DEFAULT_PROFILES:
        payload = payloads.made(name)
        if isinstance(payload, CanonicalizationError):
            yield {"profile": name, "refused": payload.message, "path": payload.path}
            continue
        found = left_open(payload).listed
        yield {
            "profile": name,
            "sha256": hashlib.sha256(payload.data).hexdigest(),
            "uncovered": list(found.pointers),
            "uncovered_count": found.count,
        }
