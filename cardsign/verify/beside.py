"""An extended card beside its public one: the one is worth nothing without the other."""

from __future__ import annotations

from dataclasses import replace

from cardsign.reasons import Reason
from cardsign.verdict import Report


def beside_its_public_card(extended: Report, public: Report) -> Report:
    """The verdict on an extended card, given that on the public card beside it.

    Credentials are sent, and an extended card is asked for, only on the word of a trusted public
    card; an extended card that comes with any other is none that was asked for.
    """
    if public.verdict == "trusted":
        ends = [one for one in (extended.valid_until, public.valid_until) if one is not None]
        least = min(ends, default=None)
        return replace(extended, valid_until=least) if extended.verdict == "trusted" else extended
    why = f"the public card beside it is {public.verdict}: {public.reasons[0].message}"
    reason = Reason.of("extended.public_untrusted", why)
    if extended.verdict != "trusted":
        return replace(extended, reasons=(*extended.reasons, reason))
    return replace(
        extended,
        verdict="indeterminate" if public.verdict == "indeterminate" else "untrusted",
        reasons=(reason, *extended.reasons),
        valid_until=None,
        card=None,
    )
