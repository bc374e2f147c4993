"""What may be published: cards that whoever has nothing but the published keys will trust."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from cardsign.card.canonical import jcs
from cardsign.card.document import Card
from cardsign.card.extended import (
    AUDIENCE,
    ExtendedMarker,
    declares_extended_card,
    find_marker,
    with_marker,
)
from cardsign.card.strictjson import Json
from cardsign.errors import InputRefused, PublishRefused, UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.trust.policy import Policy
from cardsign.trust.subject import Expectation, Extended, Holder
from cardsign.verify import examine_card

_SHOWN_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"


def check_cards(card: bytes, extended: Mapping[str, bytes], jwks: JwkSet, now: datetime) -> None:
    """Check a public card and the extended ones beside it, by their audiences.

    Raises:
        PublishRefused, UsageFault: As :func:`cardsign.publish.publish`.
    """
    for audience in extended:
        if not AUDIENCE.fullmatch(audience):
            raise UsageFault(
                "publish.audience_name", f"audience {audience!r} is not {AUDIENCE.pattern}"
            )
    policy = Policy.holder_of_keys(jwks, name="the key set to be published")
    public, marker = _read(card, "the public card")
    if marker is not None:
        raise PublishRefused(
            "publish.extended_as_public",
            f"the public card is marked as the extended card of audience {marker.audience}",
            path="/capabilities/extensions",
        )
    _check_verifies(card, Holder(), "the public card", policy, now)
    if extended and not declares_extended_card(public.document):
        raise PublishRefused(
            "publish.extended_undeclared",
            "there is an extended card, but the public card does not declare one",
            path="/capabilities/extendedAgentCard",
        )
    for audience, data in extended.items():
        name = f"the extended card of audience {audience}"
        special, marker = _read(data, name)
        marker = _check_marker(marker, audience, name, now)
        _check_verifies(data, Extended(Holder(), audience), name, policy, now)
        if _content(with_marker(public.document, marker)) == _content(special.document):
            raise PublishRefused("publish.extended_same", f"{name} says what the public card says")


def _read(card: bytes, name: str) -> tuple[Card, ExtendedMarker | None]:
    try:
        read = Card.from_bytes(card)
        return read, find_marker(read.document)
    except InputRefused as refusal:
        raise _not_verifying(name, refusal.code, refusal.message, refusal.path) from refusal


def _check_marker(
    marker: ExtendedMarker | None, audience: str, name: str, now: datetime
) -> ExtendedMarker:
    """The marker, if the card may be served with it now and to this audience."""
    if marker is None:
        raise PublishRefused("publish.extended_unmarked", f"{name} has no extended-card marker")
    if marker.audience != audience:
        raise PublishRefused(
            "publish.extended_audience", f"{name} is marked for audience {marker.audience}"
        )
    if marker.exp <= now.timestamp():
        raise PublishRefused(
            "publish.extended_expired",
            f"{name} expired at {datetime.fromtimestamp(marker.exp, UTC):{_SHOWN_TIME}}",
        )
    return marker


def _check_verifies(
    card: bytes, expect: Expectation, name: str, policy: Policy, now: datetime
) -> None:
    report = examine_card(card, expect=expect, policy=policy, now=now)
    if report.verdict != "trusted":
        reason = report.reasons[0]
        raise _not_verifying(name, reason.code, reason.message, reason.path)


def _not_verifying(name: str, code: str, message: str, path: str) -> PublishRefused:
    return PublishRefused(
        "publish.not_verifying",
        f"{name} does not verify with the key set to be published: {code}: {message}",
        path=path,
    )


def _content(document: Mapping[str, Json]) -> bytes:
    return jcs({name: value for name, value in document.items() if name != "signatures"})
