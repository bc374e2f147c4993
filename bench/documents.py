"""What is measured on: cards, and issuers with all that a verifier asks them for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cardsign.statements.keyset import KeysetId
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import digest_of
from cardsign.trust.policy import KeysetAnchor, TrustedIssuer
from cardsign.urls import CARD_PATH, KEYSET_PATH, RELEASE_PATH, parse_place

DAY: Final = 24 * 60 * 60  # seconds
_EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples" / "cards"


def portable_card(origin: str = "https://tides.example", *, skills: int = 5) -> bytes:
    """A card on whose payload all readings agree; some 320 bytes for each skill."""
    card: dict[str, Any] = {
        "name": "Tide tables",
        "description": "When the water comes, and how high: from Reykjavík to Valparaíso",
        "version": "2.0.0",
        "supportedInterfaces": [
            {"url": f"{origin}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [
            {
                "id": f"tides-{number}",
                "name": f"Tides at station {number}",
                "description": "High and low water, their times and heights, for the next ten days",
                "tags": ["sea", "tides"],
                "examples": ["When is high water in Saint-Malo tomorrow?"],
            }
            for number in range(skills)
        ],
    }
    return json.dumps(card, ensure_ascii=False, indent=2).encode()


#: By size as signed. The readings of the last one part, so that it gets a signature for each.
CARDS: Final = {
    "2 KB": portable_card(),
    "10 KB": portable_card(skills=31),
    "100 KB": portable_card(skills=325),
    "3.5 KB, readings part": (_EXAMPLES / "weather.json").read_bytes(),
}


@dataclass(frozen=True, slots=True)
class Issuer:
    """A peer that rotates and revokes: what he serves, and how he is enrolled.

    Attributes:
        origin: Where he is.
        served: His card, first keyset and newest release, by path.
        issuer: What a verifier has pinned: the keyset statement.
    """

    origin: str
    served: dict[str, bytes]
    entry: TrustedIssuer


def issuer_at(origin: str, name: str, now: datetime) -> Issuer:
    """Make one, with fresh keys that are forgotten."""
    issuer = FakeIssuer(now, origin=origin)
    card = json.loads(portable_card(origin))
    root = issuer.quorum(1, "owner")
    keyset = issuer.keyset("owner", root=root, iat=issuer.t0 - DAY)
    served = {
        CARD_PATH: issuer.signed_card(card),
        KEYSET_PATH.format(epoch=1, version=1): keyset,
        RELEASE_PATH: issuer.release(keyset, **issuer.listing(card, seq=1)),
    }
    pin = KeysetAnchor(KeysetId(1, 1, digest_of(keyset)))
    return Issuer(origin, served, TrustedIssuer(name, pin, (parse_place(origin),)))
