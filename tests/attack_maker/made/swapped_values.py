"""Attack 400, and the worked example: two good signatures change places."""

from __future__ import annotations

from typing import Any

from tests.attack_maker.attack import Attack, issuer, pinned
from tests.attack_maker.signing import CARD, Json, ec_key, entry, payload_of


def attack() -> Attack:
    """Two keys sign one card; the values of their signatures are swapped, or moved."""
    attack = Attack(
        400,
        "swapped-values",
        "Signature values that change places",
        "A signature is over its own protected header as well as over the card. A value that is "
        "good under one header says nothing under another, even of the same issuer.",
        source="the worked example",
    )
    old, new = ec_key("harbour-1"), ec_key("harbour-2")
    attack.policy(issuer(pinned(old, new)))
    one, two = (entry(payload_of(CARD), key) for key in (old, new))

    def card(*entries: Json) -> dict[str, Any]:
        return {**CARD, "signatures": list(entries)}

    def moved(to: Json, of: Json) -> Json:
        return {**to, "signature": of["signature"]}

    bad = ("invalid", "sig.bad", "no unknown unknown unknown")
    attack.attack("swapped", "Each has the other's", card(moved(one, two), moved(two, one)), *bad)
    attack.attack("moved", "The only one has the other's", card(moved(one, two)), *bad)
    attack.twin("both", "Each has its own", card(one, two))
    attack.twin("order", "The whole entries change places", card(two, one))
    return attack
