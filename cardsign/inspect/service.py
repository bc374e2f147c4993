"""What anyone can see of a card's service: keys, caching, and whether the extended card is open.

No credential is sent. Only the origin of the URL is asked, by the rules of ``net``: the card, its
key set, and whether the extended card is given to anyone. So what is said here is never a reason to
trust a card: its keys come from where the card came from.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.values import Json, jcs
from cardsign.errors import CanonicalizationError, CardsignError, InputRefused, KeyRefused
from cardsign.findings import Finding
from cardsign.inspect.card import inspect_card
from cardsign.inspect.report import Inspection
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.net.endpoints import endpoints_of
from cardsign.net.extended import ask_for_extended_card
from cardsign.net.fetch import (
    DEFAULT_SETTINGS,
    FetchSettings,
    fetch_document,
    values,
)
from cardsign.net.fetcher import DocumentFetcher, card_url, freshness, note_legacy_path
from cardsign.trust.refresh import FetchResult
from cardsign.urls import JWKS_PATH, Headers, parse_url

#: Seconds. A key that is revoked stays in use for as long as caches keep what it signed.
MAX_AGE: Final = 24 * 3600
_ENDPOINTS: Final = 4  # that are asked for the extended card


def inspect_url(
    url: str,
    *,
    fetch: FetchSettings = DEFAULT_SETTINGS,
    now: datetime,
    other_hosts: bool = False,
) -> Inspection:
    """Fetch a card and what its origin says around it, and say what is seen.

    No credential is sent, and no redirect followed. Where a host has no card at the well-known
    path, that of A2A up to 0.2 is asked for.

    Args:
        url: The card's, or the agent's host.
        fetch: How hosts are reached.
        now: The time, aware.
        other_hosts: Also ask the card's interfaces on other origins for the extended card.

    Raises:
        FetchFailed: The card could not be fetched.
    """
    answer = _fetch_card(url, fetch, now)
    asked = [card_url(url)]
    service: list[Finding] = []
    if answer.url != asked[0]:
        asked.append(answer.url)
        service.append(note_legacy_path())
    origin = parse_url(answer.url).origin
    service += _check_headers(answer.headers, answer.untrusted_body)
    jwks, about_keys = _keys(f"{origin}{JWKS_PATH}", fetch, asked)
    service += about_keys
    document = _document(answer.untrusted_body)
    if document is not None and declares_extended_card(document, any_spelling=True):
        own = None if other_hosts else str(origin)
        service += _ask_for_extended(document, fetch, own, asked)
    report = inspect_card(answer.untrusted_body, jwks=jwks, name=answer.url)
    return replace(report, service=tuple(service), asked=tuple(asked))


def fetch_with_keys(
    url: str, fetch: FetchSettings, *, now: datetime
) -> tuple[bytes, JwkSet | None]:
    """Return a card and the key set of its origin, as received; None where there is none."""
    answer = _fetch_card(url, fetch, now)
    return answer.untrusted_body, _keys(f"{parse_url(answer.url).origin}{JWKS_PATH}", fetch, [])[0]


def _fetch_card(url: str, fetch: FetchSettings, now: datetime) -> FetchResult:
    answer = DocumentFetcher(fetch, now=lambda: now).fetch_card(url)
    if answer.failure is not None:
        raise answer.failure
    return answer


def _document(untrusted_bytes: bytes) -> Mapping[str, Json] | None:
    """Read a card; None where it cannot be read in one way."""
    try:
        return Card.from_bytes(untrusted_bytes).document
    except InputRefused:
        return None


def _keys(url: str, fetch: FetchSettings, asked: list[str]) -> tuple[JwkSet | None, list[Finding]]:
    asked.append(url)
    try:
        answer = fetch_document(url, replace(fetch, max_bytes=MAX_JWKS_BYTES))
        return JwkSet.read(answer.untrusted_body), []
    except KeyRefused as refusal:
        return None, [Finding("check.bad-keys", refusal.message)]
    except CardsignError as failure:
        return None, [Finding("check.no-keys", failure.message)]


def _check_headers(headers: Headers, body: bytes) -> Iterator[Finding]:
    directives = values(headers, "cache-control")
    if not directives:
        yield Finding("check.cache-unsaid", "there is no Cache-Control")
    else:
        seconds = freshness(headers, ceiling=400 * 24 * 3600).seconds
        if seconds > MAX_AGE:
            yield Finding("check.cache-long", f"for {seconds} s")
    tags = values(headers, "etag")
    if not tags:
        yield Finding("check.etag-absent", "there is no ETag")
    elif tags[0].startswith("W/"):
        yield Finding("check.etag-unsigned", "the ETag is weak")
    elif _is_of_unsigned(tags[0].strip('"'), body):
        yield Finding("check.etag-unsigned", "the ETag is a digest of the card without signatures")


def _is_of_unsigned(tag: str, body: bytes) -> bool:
    """Whether an ETag is a digest of the card without its signatures, in a usual form."""
    document = _document(body)
    if document is None or "signatures" not in document or len(tag) < 8:
        return False
    unsigned = {name: member for name, member in document.items() if name != "signatures"}
    try:
        payload = jcs(unsigned)
    except CanonicalizationError:
        return False
    for algorithm in ("sha256", "sha1", "md5"):
        digest = hashlib.new(algorithm, payload, usedforsecurity=False).digest()
        plain = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        spelled = re.sub(r"[+/=]", lambda m: {"+": "-", "/": "_", "=": ""}[m[0]], tag)
        if len(spelled) >= 8 and (
            digest.hex().startswith(tag.lower()) or plain.startswith(spelled)
        ):
            return True
    return False


def _ask_for_extended(
    document: Mapping[str, Json], fetch: FetchSettings, own: str | None, asked: list[str]
) -> Iterator[Finding]:
    """Ask for the extended card without a credential: it must be refused."""
    try:
        endpoints = endpoints_of(document)[:_ENDPOINTS]
    except CardsignError:
        return
    for endpoint in endpoints:
        if own is not None and str(endpoint.url.origin) != own:
            continue
        asked.append(str(endpoint.url))
        try:
            body = ask_for_extended_card(endpoint, None, fetch, call_id="inspect")
        except CardsignError:
            continue  # refused, as it should be; or nobody answers
        card = _document(body)
        if card is not None and "skills" in card:
            yield Finding("check.extended-open", f"{endpoint.url} answered it to a stranger")
            return
