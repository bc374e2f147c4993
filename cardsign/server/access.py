"""Who may have the extended card, and which one: bearer tokens (RFC 6750)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cardsign.server.documents import Document
from cardsign.server.refusals import (
    BAD_CREDENTIALS,
    NOT_CONFIGURED,
    UNAUTHENTICATED,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
    Refusal,
)
from cardsign.server.snapshot import Snapshot
from cardsign.server.tokens import TokenTable

#: The realm where the card declares no scheme that a bearer token satisfies.
FALLBACK_REALM: Final = "extended-agent-card"

# A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = frozenset({"", "0.3", "1.0"})
_BEARER: Final = re.compile(r"bearer(?: +(.*))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request says about its sender and its protocol.

    Attributes:
        authorization: The header's value; empty if absent. Never logged.
        has_query_token: Whether the query has ``access_token``, a place that we never read,
            since queries end up in logs.
        version: ``A2A-Version``, from the header or the query; empty if absent.
    """

    authorization: str
    has_query_token: bool
    version: str


def refuse_version(credentials: Credentials) -> Refusal | None:
    """Why the protocol version cannot be served; None if it can."""
    if credentials.version.strip() in _VERSIONS:
        return None
    return Refusal(VERSION_NOT_SUPPORTED, "A2A-Version is not one of 1.0, 0.3")


def open_extended_card(
    snapshot: Snapshot, tokens: TokenTable | None, credentials: Credentials
) -> Document | Refusal:
    """The extended card that these credentials open, or why they open none.

    What the public card says already comes before authentication, everything else after it.
    """
    if not snapshot.declares_extended:
        return Refusal(UNSUPPORTED_OPERATION, "this agent has no extended card")
    if tokens is None:
        return Refusal(NOT_CONFIGURED, "no extended card is configured")
    bearer = _BEARER.fullmatch(credentials.authorization.strip())
    if bearer is None:
        return Refusal(UNAUTHENTICATED, "send a bearer token", _challenges(snapshot, ""))
    if credentials.has_query_token:
        challenges = _challenges(snapshot, "invalid_request")
        return Refusal(BAD_CREDENTIALS, "send one token, in the header", challenges)
    entry = tokens.find(bearer[1] or "")
    if entry is None:
        challenges = _challenges(snapshot, "invalid_token")
        return Refusal(UNAUTHENTICATED, "the bearer token is not valid", challenges)
    audience = entry.audience_among(snapshot.extended)
    if audience is None:
        return Refusal(NOT_CONFIGURED, "no extended card is configured for this token")
    return snapshot.extended[audience]


def _challenges(snapshot: Snapshot, error: str) -> tuple[str, ...]:
    """One challenge for each scheme that the card declares, named after it (RFC 6750 3)."""
    suffix = f', error="{error}"' if error else ""
    realms = snapshot.bearer_schemes or (FALLBACK_REALM,)
    return tuple(f"Bearer realm={_quoted(realm)}{suffix}" for realm in realms)


def _quoted(text: str) -> str:
    """A quoted-string (RFC 9110 5.6.4)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
