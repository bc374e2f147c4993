"""Why an SDK does not accept a card that we have signed: in what its payload differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from cardsign import canonicalize
from cardsign.card.canonical import DEFAULT_PROFILES, Payload, ProfileName
from cardsign.card.document import Card
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError
from cardsign.sign.plan import is_safe
from cardsign.verify.report import SignatureReport

LOSSY: Final = ("prune-empty", "prune-empty-upgraded")

NO_ENDPOINT: Final = "payload has no endpoint, so we did not sign it"
UNSAFE: Final = "payload loses a security scheme or a scope, so we did not sign it"
UNEXPLAINED: Final = "unexplained"


def payloads(document: Mapping[str, Json], profiles: tuple[str, ...]) -> Iterator[Payload]:
    """The payloads that a card has."""
    for profile in profiles:
        try:
            yield canonicalize(document, profile)
        except CanonicalizationError:
            continue


def fitted(document: Mapping[str, Json], signature: SignatureReport) -> tuple[ProfileName, ...]:
    """All profiles of the same standing that make the payload which a signature verifies."""
    if signature.profile is None:
        return ()
    data = canonicalize(document, signature.profile).data
    peers = DEFAULT_PROFILES if signature.profile in DEFAULT_PROFILES else (signature.profile,)
    return tuple(one.profile for one in payloads(document, peers) if one.data == data)


def _forget_schemes(value: Any) -> Any:
    return {name: child for name, child in value.items() if name != "securitySchemes"}


def _forget_versions(value: Any) -> Any:
    interfaces = [{**one, "protocolVersion": ""} for one in value.get("supportedInterfaces", [])]
    return {**value, "supportedInterfaces": interfaces}


def _forget_proto(value: Any) -> Any:
    """Without members of that name, and what is empty then."""
    if isinstance(value, dict):
        kept = {n: _forget_proto(v) for n, v in value.items() if n != "__proto__"}
        return {name: child for name, child in kept.items() if child not in ({}, [], "")}
    return [_forget_proto(child) for child in value] if isinstance(value, list) else value


_DIFFERENCES: Final[dict[str, Callable[[Any], Any]]] = {
    "lacks members named __proto__": _forget_proto,
    "lacks securitySchemes": _forget_schemes,
    "has another protocolVersion": _forget_versions,
}


def why_refused(document: Mapping[str, Json], payload: str | None) -> str:
    """In what the payload of a verifier differs from those that we sign for it.

    Proven, not guessed: what is named, and nothing less, makes the two equal when it is left
    out of both.
    """
    theirs = json.loads(payload) if payload else None
    if not isinstance(theirs, dict):
        return "no payload"
    for count in range(len(_DIFFERENCES) + 1):
        for names in combinations(_DIFFERENCES, count):
            for ours in payloads(document, LOSSY):
                if _forget(names, ours.value) == _forget(names, theirs):
                    return f"payload {' and '.join(names)}" if names else _unsigned(document, ours)
    return UNEXPLAINED


def _unsigned(document: Mapping[str, Json], payload: Payload) -> str:
    if not payload.names_an_endpoint:
        return NO_ENDPOINT
    return UNEXPLAINED if is_safe(Card.from_object(document), payload) else UNSAFE


def _forget(names: tuple[str, ...], value: Any) -> Any:
    for name in names:
        value = _DIFFERENCES[name](value)
    return value
