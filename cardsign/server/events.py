"""The event that names a publication, for an operator's audit: one JSON line for each.

It says which card is served since when, by its digest and its keys. The card itself is not in it,
so that a log holds nothing that is published elsewhere, and nothing of an extended card at all.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Final

from cardsign.card.extensions import declares_extended_card
from cardsign.card.interfaces import current_interfaces
from cardsign.card.security import schemes_of
from cardsign.card.values import Json
from cardsign.errors import SignatureRefused
from cardsign.jose.jws import read_entry
from cardsign.publish.generation import Generation
from cardsign.times import utc

#: Its messages are lines of JSON; `cardsign serve` writes them to stderr as they are.
events = logging.getLogger("cardsign.events")
PUBLISHED: Final = "agent_card_published"
MAX_TEXT: Final = 256  # characters of a text of the card
MAX_NAMES: Final = 32  # of security schemes, and of signatures


def log_publication(
    generation: Generation, card: Mapping[str, Json], agent: str, now: float
) -> None:
    """Log that a generation is served from now on.

    Texts of the card are cut off at 256 characters, lists at 32 entries. Line ends and all that is
    not ASCII are escaped. The signatures are named, and not checked.

    Args:
        generation: What is served.
        card: Its public card, parsed.
        agent: Its name on the host; empty for the only one.
        now: Unix seconds.
    """
    interface = next(iter(current_interfaces(card)), None)
    skills, capabilities = card.get("skills"), card.get("capabilities")
    declared = capabilities if isinstance(capabilities, dict) else {}
    fields = {
        "agent": agent or None,
        "generation": generation.number,
        "name": _cut(card.get("name")),
        "version": _cut(card.get("version")),
        "protocol_version": _cut(interface.version if interface else card.get("protocolVersion")),
        "url": _cut(interface.url if interface else None),
        "skill_count": len(skills) if isinstance(skills, list) else 0,
        # Those that A2A defines as yes or no. Extensions have free content, and are left out.
        "capabilities": {
            "streaming": declared.get("streaming") is True,
            "push_notifications": declared.get("pushNotifications") is True,
            "state_transition_history": declared.get("stateTransitionHistory") is True,
            "extended_agent_card": declares_extended_card(card),
        },
        "security_schemes": [_cut(name) for name in schemes_of(card)][:MAX_NAMES],
        "card_size_bytes": len(generation.card),
        "card_sha256": hashlib.sha256(generation.card).hexdigest(),
        "signatures": read_signers(card)[:MAX_NAMES],
    }
    line = {
        "time": utc(now).isoformat(timespec="milliseconds"),
        "event": PUBLISHED,
        "fields": fields,
    }
    events.info("%s", json.dumps(line, separators=(",", ":")))


def _cut(value: Json) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def read_signers(card: Mapping[str, Json]) -> list[dict[str, str | None]]:
    """Return kid and algorithm of each signature, once; an entry that is none has neither."""
    entries = card.get("signatures")
    signers: dict[tuple[str | None, str | None], None] = {}
    for untrusted_entry in entries if isinstance(entries, list) else ():
        try:
            header = read_entry(untrusted_entry).header
            signers[header.kid, header.alg] = None
        except SignatureRefused:
            signers[None, None] = None
    return [{"kid": kid, "alg": alg} for kid, alg in signers]
