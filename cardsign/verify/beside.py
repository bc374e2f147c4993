"""An extended card beside its public one: the one is worth nothing without the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.reasons import Reason
from cardsign.trust.origins import interface_url
from cardsign.verdict import Report


def beside_its_public_card(extended: Report, public: Report) -> Report:
    """The verdict on an extended card, given that on the public card beside it.

    Credentials are sent, and an extended card is asked for, only on the word of a trusted public
    card; an extended card that comes with any other is none that was asked for. An issuer's other
    agents may have extended cards for the same audience: of this agent it is by an endpoint that
    both cards name.
    """
    both_are_trusted = public.card is not None and extended.card is not None
    own = set(_endpoints(public.card or {}))
    if both_are_trusted and own.isdisjoint(_endpoints(extended.card or {})):
        why = "it shares no endpoint with the public card beside it"
        return _refused(extended, Reason.of("extended.other_agent", why))
    if public.verdict == "trusted":
        ends = [one for one in (extended.valid_until, public.valid_until) if one is not None]
        least = min(ends, default=None)
        return replace(extended, valid_until=least) if extended.verdict == "trusted" else extended
    why = f"the public card beside it is {public.verdict}: {public.reasons[0].message}"
    reason = Reason.of("extended.public_untrusted", why)
    if extended.verdict != "trusted":
        return replace(extended, reasons=(*extended.reasons, reason))
    refused = _refused(extended, reason)
    is_open = public.verdict == "indeterminate"
    return replace(refused, verdict="indeterminate") if is_open else refused


def _refused(extended: Report, reason: Reason) -> Report:
    return replace(
        extended,
        verdict="untrusted",
        reasons=(reason, *extended.reasons),
        valid_until=None,
        card=None,
    )


def _endpoints(payload: Mapping[str, Json]) -> Iterator[tuple[object, str]]:
    """Where a verified card can be called, and for which tenant, in the terms of 1.0."""
    interfaces = payload.get("supportedInterfaces")
    if not interfaces:
        more = payload.get("additionalInterfaces")
        main: Json = {"url": payload.get("url"), "transport": payload.get("preferredTransport")}
        interfaces = [main, *more] if isinstance(more, list) else [main]
    for one in interfaces if isinstance(interfaces, list) else ():
        if isinstance(one, dict) and isinstance(url := one.get("url"), str):
            binding = one.get("protocolBinding") or one.get("transport") or ""
            try:
                yield interface_url(url, str(binding)), str(one.get("tenant") or "")
            except CardRefused:  # only where no policy bounds the places was it not held before
                yield url, str(one.get("tenant") or "")
