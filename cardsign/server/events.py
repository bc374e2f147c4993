"""The event that names a publication, for an operator's audit: one JSON line for each.

It says which card is served since when, by its digest and its keys. The card itself is not in it,
so that a log holds nothing that is published elsewhere, and nothing of an extended card at all.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Final

from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import current_interfaces
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import SignatureRefused
from cardsign.jose.jws import read_entry
from cardsign.publish.generation import Generation
from cardsign.times import utc

PUBLISHED: Final = "agent_card_published"
MAX_TEXT: Final = 256  # characters of a text of the card
MAX_NAMES: Final = 32  # of security schemes, and of signatures


def to_stderr(line: str) -> None:
    """Say a line to the operator."""
    print(f"cardsign: {line}", file=sys.stderr, flush=True)


def to_log(line: str) -> None:
    """Write a line of JSON to stderr, as it is."""
    print(line, file=sys.stderr, flush=True)


def published_event(generation: Generation, now: float) -> str:
    """The event of one generation, as one line of JSON.

    Texts of the card are cut off at 256 characters, lists at 32 entries. Line ends and all that is
    not ASCII are escaped. The signatures are named, and not checked.

    Args:
        generation: What is served from now on.
        now: Unix seconds.

    Raises:
        JsonRefused: The public card is not strict JSON.
    """
    card = parse_object(generation.card)
    first = next(iter(current_interfaces(card)), None)
    skills, declared = card.get("skills"), card.get("capabilities")
    given = declared if isinstance(declared, dict) else {}
    event = {
        "time": utc(now).isoformat(timespec="milliseconds"),
        "event": PUBLISHED,
        "generation": generation.number,
        "name": _text(card.get("name")),
        "version": _text(card.get("version")),
        "protocol_version": _text(first.version if first else card.get("protocolVersion")),
        "url": _text(first.url if first else None),
        "skill_count": len(skills) if isinstance(skills, list) else 0,
        # Those that A2A defines as yes or no. Extensions have free content, and are left out.
        "capabilities": {
            "streaming": given.get("streaming") is True,
            "push_notifications": given.get("pushNotifications") is True,
            "state_transition_history": given.get("stateTransitionHistory") is True,
            "extended_agent_card": declares_extended_card(card),
        },
        "security_schemes": [_text(name) for name in schemes_of(card)][:MAX_NAMES],
        "card_size_bytes": len(generation.card),
        "card_sha256": hashlib.sha256(generation.card).hexdigest(),
        "signatures": _signers(card)[:MAX_NAMES],
    }
    return json.dumps(event, separators=(",", ":"))


def _text(value: Json) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def _signers(card: Mapping[str, Json]) -> list[dict[str, str | None]]:
    """Kid and algorithm of each signature, once; an entry that cannot be read has neither."""
    entries = card.get("signatures")
    seen: dict[tuple[str | None, str | None], None] = {}
    for untrusted_entry in entries if isinstance(entries, list) else ():
        try:
            header = read_entry(untrusted_entry).header
            seen[header.kid, header.alg] = None
        except SignatureRefused:
            seen[None, None] = None
    return [{"kid": kid, "alg": alg} for kid, alg in seen]
