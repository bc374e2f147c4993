"""An extended card beside its public one: the one is worth nothing without the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from cardsign.card.interfaces import current_interfaces
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.reasons import Reason
from cardsign.trust.policy import Extended, Policy, PublicSubject
from cardsign.trust.state import NO_STATES, IssuerStates
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import interface_url
from cardsign.verify.cache import VerdictCache
from cardsign.verify.report import Report
from cardsign.verify.verdict import examine_card


def examine_extended(
    untrusted_public: bytes,
    untrusted_extended: bytes,
    *,
    of: PublicSubject,
    audience: str,
    policy: Policy,
    now: datetime,
    supplied: SuppliedStatements = NO_STATEMENTS,
    states: IssuerStates = NO_STATES,
    cache: VerdictCache | None = None,
    historic: bool = False,
) -> tuple[Report, Report]:
    """Reach verdicts about a public card and the extended card beside it (threat 12).

    The extended card is trusted only if the public one is: of the same subject, by the same
    anchor, at the same time.

    Args:
        untrusted_public: The public card as received.
        untrusted_extended: The extended card as received.
        of: Whose cards they should be.
        audience: The id of the audience, as the issuer gave it to this verifier.
        policy, now, supplied, states, cache, historic: As for :func:`examine_card`, of both.

    Returns:
        The public card's report and the extended card's.

    Raises:
        Everything that :func:`examine_card` raises.
    """
    examine = partial(
        examine_card,
        policy=policy,
        now=now,
        supplied=supplied,
        states=states,
        cache=cache,
        historic=historic,
    )
    public = examine(untrusted_public, expect=of)
    extended = examine(untrusted_extended, expect=Extended(of, audience))
    return public, beside_its_public_card(extended, public)


def beside_its_public_card(extended: Report, public: Report) -> Report:
    """The verdict on an extended card, given that on the public card beside it.

    Credentials are sent, and an extended card is asked for, only on the word of a trusted public
    card; an extended card that comes with any other is none that was asked for. An issuer's other
    agents may have extended cards for the same audience: of this agent it is by an endpoint that
    both cards name.
    """
    if public.card is None:  # it is not trusted
        why = f"the public card beside it is {public.verdict}: {public.reasons[0].message}"
        reason = Reason.of("extended.public_untrusted", why)
        if extended.card is None:
            return replace(extended, reasons=(*extended.reasons, reason))
    elif extended.card is None:
        return extended
    elif set(_endpoints(public.card)).isdisjoint(_endpoints(extended.card)):
        why = "the extended card shares no endpoint with the public card beside it"
        reason = Reason.of("extended.other_agent", why)
    else:
        ends = [one for one in (extended.valid_until, public.valid_until) if one is not None]
        return replace(extended, valid_until=min(ends, default=None))
    return replace(
        extended,
        verdict="indeterminate" if public.verdict == "indeterminate" else "untrusted",
        reasons=(reason, *extended.reasons),
        valid_until=None,
        card=None,
    )


def _endpoints(payload: Mapping[str, Json]) -> Iterator[tuple[object, str]]:
    """Where a verified card can be called, and for which tenant, in the terms of 1.0."""
    for one in current_interfaces(payload):
        if isinstance(one.url, str):
            tenant = str(one.tenant or "")
            try:
                yield interface_url(one.url, str(one.binding)), tenant
            except CardRefused:  # only where no policy bounds the places was it not held before
                yield one.url, tenant
