"""What anyone can see of a card's service: keys, caching, and whether the extended card is open.

No credential is sent. Only the origin of the URL is asked, by the rules of ``net``: the card, its
key set, and whether the extended card is given to anyone. So what is said here is never a reason to
trust a card: its keys come from where the card came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.values import Json
from cardsign.errors import CardsignError, InputRefused, KeyRefused
from cardsign.findings import Finding
from cardsign.inspect.card import Inspection, inspect_card
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet
from cardsign.net import fetch as net
from cardsign.net.endpoints import ask_for_extended_card, endpoints_of
from cardsign.trust.walk import FetchResult
from cardsign.urls import JWKS_PATH, Headers, Origin, card_url, parse_url

#: Seconds. A key that is revoked stays in use for as long as caches keep what it signed.
MAX_AGE: Final = 24 * 3600
_ENDPOINTS: Final = 4  # that are asked for the extended card


def inspect_url(url: str, *, now: datetime, fetch: net.FetchSettings) -> Inspection:
    """Fetch a card and what its origin says around it, and say what is seen.

    No credential is sent, and no redirect followed. Where a host has no card at the well-known
    path, that of A2A up to 0.2 is asked for.

    Args:
        url: The card's, or the agent's host.
        now: The time, aware.
        fetch: How hosts are reached.

    Raises:
        FetchFailed: The card could not be fetched.
    """
    answer, keys = fetch_with_keys(url, fetch)
    jwks = keys if isinstance(keys, JwkSet) else None
    lives = [int(key.validity.exp - now.timestamp()) for key in jwks.keys] if jwks else []
    service = [net.note_legacy_path()] if answer.url != card_url(url) else []
    service += _check_headers(answer.headers, max(0, min([MAX_AGE, *lives])))
    service += [keys] if isinstance(keys, Finding) else []
    with suppress(InputRefused):
        document = Card.from_bytes(answer.untrusted_body).document
        if declares_extended_card(document):
            service += _ask_for_extended(document, fetch, parse_url(answer.url).origin)
    report = inspect_card(answer.untrusted_body, jwks=jwks, name=answer.url)
    return replace(report, service=tuple(service))


def fetch_with_keys(url: str, fetch: net.FetchSettings) -> tuple[FetchResult, JwkSet | Finding]:
    """Return a card as received, and the key set of its origin, or why there is none.

    Raises:
        FetchFailed: The card could not be fetched.
    """
    answer = net.fetch_card(url, fetch)
    jwks_url = f"{parse_url(answer.url).origin}{JWKS_PATH}"
    try:
        received = net.fetch_document(jwks_url, replace(fetch, max_bytes=MAX_JWKS_BYTES))
        return answer, JwkSet.read(received.untrusted_body)
    except CardsignError as failure:
        code = "check.bad-keys" if isinstance(failure, KeyRefused) else "check.no-keys"
        return answer, Finding(code, failure.message)


def _check_headers(headers: Headers, longest: int) -> Iterator[Finding]:
    if not net.values(headers, "cache-control"):
        yield Finding("check.cache-unsaid", "there is no Cache-Control")
    elif (seconds := net.freshness(headers, ceiling=400 * 24 * 3600)[0]) > longest:
        yield Finding("check.cache-long", f"for {seconds} s, expected at most {longest} s")
    tags = net.values(headers, "etag")
    if not tags:
        yield Finding("check.etag-absent", "there is no ETag")
    elif tags[0].startswith("W/"):
        yield Finding("check.etag-unsigned", "the ETag is weak")


def _ask_for_extended(
    document: Mapping[str, Json], fetch: net.FetchSettings, origin: Origin
) -> Iterator[Finding]:
    """Ask the card's own origin for the extended card without a credential: it must be refused."""
    with suppress(CardsignError):
        for endpoint in endpoints_of(document)[:_ENDPOINTS]:
            if endpoint.url.origin != origin:
                continue
            with suppress(CardsignError):  # refused, as it should be; or nobody answers
                body = ask_for_extended_card(endpoint, None, fetch)
                if "skills" in Card.from_bytes(body).document:
                    message = f"{endpoint.url} gave the extended card without a credential"
                    yield Finding("check.extended-open", message)
                    return
