"""What the one source that an anchor names says today: asked for, and nothing besides.

Where to ask is for the policy to say and for the URL that the verifier asked himself, never for a
card or a statement: nothing that a stranger writes is followed anywhere (threats.md 16).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from cardsign.jose.jwks import MAX_JWKS_BYTES
from cardsign.reasons import Reason
from cardsign.trust.anchors import JwksAnchor, KeysetAnchor, TofuAnchor
from cardsign.trust.evidence import NO_EVIDENCE, Evidence
from cardsign.trust.known import Known
from cardsign.trust.places import Place
from cardsign.trust.policy import Enrolment, Limits
from cardsign.trust.refresh import REFRESH_INTERVAL, Brought, Fetcher, refresh

#: Where bare keys are, below an origin; read where an issuer has no keyset, and nowhere else.
JWKS_PATH: Final = "/.well-known/jwks.json"

NOTHING: Final = Brought(NO_EVIDENCE, (), REFRESH_INTERVAL)


def gather(
    enrolment: Enrolment,
    limits: Limits,
    known: Known | None,
    ask: Fetcher,
    *,
    contact: str,
    now: datetime,
    fresh: bool = False,
) -> Brought:
    """Ask for what the anchor needs.

    ========  ================================================================================
    `keyset`  release, recovery and every step from the one held, at the issuer's home
    `jwks`    its URL
    `tofu`    the same as `keyset`, at the card's own origin; at first contact with an issuer
              who has no statement at all, and from then on, his bare keys
    `keys`    nothing
    ========  ================================================================================

    Args:
        enrolment: Whose card it is.
        limits: The policy's.
        known: What is remembered of him; None where nothing can be.
        ask: Asks one URL.
        contact: The origin that the card was asked from, over TLS or on this very machine.
        now: Aware.
        fresh: Ask every cache on the way to look again.

    Returns:
        Evidence of which nothing has been checked, and what could not be had or has vanished.
    """
    anchor = enrolment.anchor
    if isinstance(anchor, JwksAnchor):
        return _ask_jwks(anchor.url, known, ask, fresh=fresh)
    if isinstance(anchor, KeysetAnchor):
        home = home_of(enrolment.places, contact)
        return refresh(limits, known, anchor.pin, ask, home=home, now=now, fresh=fresh)
    if not isinstance(anchor, TofuAnchor) or known is None:
        return NOTHING
    if known.first_contact is not None:
        home, pin = home_of(enrolment.places, contact), known.first_contact
        return refresh(limits, known, pin, ask, home=home, now=now, fresh=fresh)
    if contact not in {str(place.origin) for place in enrolment.places or ()}:
        return NOTHING  # a mirror introduces nobody (threats.md 20)
    if known.jwks is None:
        met = refresh(limits, known, None, ask, home=contact, now=now, fresh=fresh)
        if met.reasons or met.evidence != Evidence(contact=contact):
            return met
    return _ask_jwks(contact + JWKS_PATH, known, ask, contact=contact, fresh=fresh)


def home_of(places: Iterable[Place] | None, contact: str) -> str:
    """The origin at which an issuer's statements lie.

    The card's own if the policy gives it to him whole; else the first one that it does. Somebody
    whom it gives but paths of shared origins is asked at the card's, or the first of them.
    """
    places = tuple(places or ())
    whole = [str(place.origin) for place in places if place.is_whole_origin]
    homes = whole or [str(place.origin) for place in places]
    return contact if contact in homes or not homes else homes[0]


def _ask_jwks(
    url: str, known: Known | None, ask: Fetcher, *, fresh: bool, contact: str | None = None
) -> Brought:
    answer = ask(url, max_bytes=MAX_JWKS_BYTES, fresh=fresh)
    again_after = REFRESH_INTERVAL
    if answer.max_age is not None:
        again_after = min(again_after, max(answer.max_age, 0))
    if answer.outcome == "found":
        keys = Evidence(untrusted_jwks=answer.untrusted_body, jwks_url=url, contact=contact)
        return Brought(keys, (), again_after)
    reason = Reason.of("refresh.no_answer", answer.why or f"{url} gave no answer")
    if answer.outcome == "absent":
        code = "refresh.no_answer" if known is None or known.jwks is None else "statement.vanished"
        reason = Reason.of(code, f"there is no key set at {url}")
    return Brought(NO_EVIDENCE, (reason,), again_after)
