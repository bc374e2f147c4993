"""What is measured on: cards of three makes, and issuers with all that a verifier asks them for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cardsign import (
    TYP_KEYSET,
    TYP_RELEASE,
    Enrolment,
    KeysetAnchor,
    KeysetId,
    PrivateKey,
    canonicalize,
    draft_keyset,
    draft_release,
    parse_place,
    read_keyset,
    sign_card,
    sign_statement,
)
from cardsign.net import CARD_PATH
from cardsign.trust import KEYSET_PATH, RELEASE_PATH

ROOT: Final = Path(__file__).resolve().parents[1]
DAY: Final = 24 * 60 * 60
#: Their readings part, so three signatures are made and there are three to look at.
PARTED: Final = ROOT / "examples" / "cards" / "weather.json"


def portable_card(origin: str = "https://tides.example", *, skills: int = 5) -> bytes:
    """A card on whose payload all readings agree; some 230 bytes for each skill."""
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


@dataclass(frozen=True, slots=True)
class Issuer:
    """A peer that rotates and revokes: what he serves, and how he is enrolled.

    Attributes:
        origin: Where he is.
        served: His card, first keyset and newest release, by path.
        enrolment: What a verifier has pinned: the keyset statement.
    """

    origin: str
    served: dict[str, bytes]
    enrolment: Enrolment


def issuer_at(origin: str, name: str, now: datetime) -> Issuer:
    """Make one, with fresh keys that are forgotten."""
    roles = ("root", "recovery", "card", "release")
    keys = {role: PrivateKey.generate("ES256") for role in roles}
    card = portable_card(origin)
    keyset = _keyset(origin, keys, int(now.timestamp()))
    held = read_keyset(keyset)
    served = {
        CARD_PATH: sign_card(card, [keys["card"]]),
        KEYSET_PATH.format(epoch=1, version=1): keyset,
        RELEASE_PATH: _release(origin, keys["release"], card, keyset, int(now.timestamp())),
    }
    pin = KeysetAnchor(KeysetId(1, 1, held.digest))
    return Issuer(origin, served, Enrolment(name, pin, (parse_place(origin),)))


def _keyset(origin: str, keys: dict[str, PrivateKey], now: int) -> bytes:
    times = {"nbf": now - DAY, "exp": now + 300 * DAY}
    members: dict[str, Any] = {
        "format": "cardsign-keyset/1",
        "issuer": "bench.example",
        "origins": [origin],
        "epoch": 1,
        "version": 1,
        "prev": None,
        "iat": now - DAY,
        "exp": now + 90 * DAY,
        "root": _alone(keys["root"], "owner"),
        "recovery": _alone(keys["recovery"], "safe"),
        "keys": [
            {"public": keys[role].public.jwk(), "roles": [role], "holder": "owner", **times}
            for role in ("card", "release")
        ],
        "revoked": [],
    }
    return sign_statement(draft_keyset(members), [keys["root"]], TYP_KEYSET)


def _alone(key: PrivateKey, holder: str) -> dict[str, Any]:
    return {"threshold": 1, "keys": [{"public": key.public.jwk(), "holder": holder}]}


def _release(origin: str, key: PrivateKey, card: bytes, keyset: bytes, now: int) -> bytes:
    named, url = read_keyset(keyset), origin + CARD_PATH
    digest = hashlib.sha256(canonicalize(json.loads(card), "served-as-is").data).hexdigest()
    members: dict[str, Any] = {
        "format": "cardsign-release/1",
        "issuer": "bench.example",
        "keyset": {"epoch": 1, "version": 1, "digest": named.digest},
        "seq": 1,
        "iat": now - 60,
        "exp": now + 7 * DAY,
        "cards": [{"url": url, "kind": "public", "payload_sha256": digest, "seq": 1}],
        "floor": {url: 1},
        "revoked": [],
        "audit_head": None,
    }
    return sign_statement(draft_release(members), [key], TYP_RELEASE)
