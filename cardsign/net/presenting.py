"""Asking a trusted peer's endpoint for the extended card, and showing it a credential.

The one request here that carries a secret. Where it goes was decided before, from the verified
payload and the user's own file; the transport refuses every other place before a name is looked
up, and makes an error of every redirect. What the peer answers decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import httpx

from cardsign.card.strictjson import Json
from cardsign.errors import CallFailed, CardRefused, CredentialFault, FetchFailed
from cardsign.net.credentials import Header, quotable, unlogged
from cardsign.net.endpoints import HTTP_JSON, JSONRPC, Endpoint
from cardsign.net.envelope import (
    MAX_ANSWER_BYTES,
    PeerError,
    card_bytes,
    request_body,
    result_of,
)
from cardsign.net.exchange import json_type, user_agent
from cardsign.net.fetch import Wire
from cardsign.net.guarded import GuardedTransport
from cardsign.trust.origins import Url, parse_url

UNAUTHORISED: Final = (401, 403)

_VERSION: Final = "A2A-Version"
# Errors by which a peer says that there is no extended card (A2A 1.0 5.4, 0.3 8.2).
_NO_CARD: Final = frozenset({-32004, -32007, -32601})


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: Url
    headers: dict[str, str]
    body: bytes = b""
    call_id: str = ""


def ask_for_extended_card(
    endpoint: Endpoint, header: Header | None, wire: Wire, *, call_id: str
) -> bytes:
    """Ask one endpoint for the extended card that a credential opens.

    By JSON-RPC ``GetExtendedAgentCard`` (A2A 1.0 9.4.11), ``GET /extendedAgentCard`` (11.3), or
    what 0.3 and 0.2 call the same.

    Args:
        endpoint: One of the verified payload.
        header: The credential, for the endpoint's origin; None to ask without.
        wire: How it is reached; its limits of time hold, and not that of bytes.
        call_id: Ties a JSON-RPC answer to its call; one of its own for each.

    Returns:
        The card as it came. Nothing in it has been checked.

    Raises:
        CredentialFault: ``credential.elsewhere``; nothing was sent.
        CallFailed: ``credential.refused``, ``call.no_extended``, ``call.envelope``,
            ``call.error``, ``call.no_interface``.
        FetchFailed: As :func:`cardsign.net.fetch.fetch`, or ``fetch.elsewhere``.
    """
    request = _request(endpoint, call_id)
    if header is not None:
        if request.url.origin != header.origin:
            raise CredentialFault(
                "credential.elsewhere",
                f"{request.url.origin} is not where the credential belongs, {header.origin}",
            )
        request.headers[header.name] = header.value
    with unlogged():
        status, challenges, body = _exchange(request, wire)
    _check(status, challenges, request.url, header)
    if not request.call_id:
        return body
    try:
        return card_bytes(result_of(body, request.call_id))
    except PeerError as exc:
        said = exc
    # Outside, so that no context holds words of a peer who may repeat the credential.
    words = header.quotable(said.untrusted_words) if header else quotable(said.untrusted_words)
    if said.rpc_code in _NO_CARD:
        raise _no_card(request.url, f"answered error {said.rpc_code}: {words}")
    raise CallFailed(said.code, f"{request.url} answered error {said.rpc_code}: {words}")


def extended_url(endpoint: Endpoint) -> Url:
    """Where this endpoint is asked for its extended card.

    Raises:
        CallFailed: ``call.no_interface``: a tenant's name would lead out of the endpoint's path.
    """
    if endpoint.generation == "0.2":  # beside the endpoint's own path, whatever its binding
        parent = endpoint.url.path.rstrip("/").rpartition("/")[0]
        return _parsed(f"{endpoint.url.origin}{parent}/agent/authenticatedExtendedCard")
    if endpoint.binding == JSONRPC:
        return endpoint.url
    if endpoint.generation == "0.3":
        return _parsed(str(endpoint.below("/v1/card")))
    return _parsed(str(endpoint.below(f"{endpoint.tenant_path}/extendedAgentCard")))


def _parsed(url: str) -> Url:
    try:
        return parse_url(url)
    except CardRefused as exc:
        raise CallFailed("call.no_interface", f"the extended card's URL: {exc.message}") from exc


def _request(endpoint: Endpoint, call_id: str) -> _Request:
    """The request by which this endpoint gives its extended card."""
    url = extended_url(endpoint)
    headers = {
        "Accept": "application/json, application/*+json",
        "User-Agent": user_agent(),
    }
    if endpoint.generation == "0.2":
        return _Request("GET", url, headers)
    headers[_VERSION] = endpoint.generation
    if endpoint.binding == HTTP_JSON:
        return _Request("GET", url, headers)
    headers["Content-Type"] = "application/json"
    is_old = endpoint.generation == "0.3"
    method = "agent/getAuthenticatedExtendedCard" if is_old else "GetExtendedAgentCard"
    params: dict[str, Json] = {"tenant": endpoint.tenant} if endpoint.tenant else {}
    return _Request("POST", url, headers, request_body(call_id, method, params), call_id)


def _exchange(request: _Request, wire: Wire) -> tuple[int, list[str], bytes]:
    """Status, challenges and body of the answer, which declares itself as JSON if it is one."""
    transport = GuardedTransport(
        wire,
        origins={request.url.origin},
        max_bytes=MAX_ANSWER_BYTES,
        total_timeout=wire.policy.total_timeout,
    )
    asked = httpx.Request(
        request.method, str(request.url), headers=request.headers, content=request.body or None
    )
    failure: FetchFailed | None = None
    try:
        response = transport.handle_request(asked)
        try:
            body = response.read()
        finally:
            response.close()
    except httpx.TransportError as exc:
        if not isinstance(exc.__cause__, FetchFailed):
            raise
        failure = exc.__cause__
    if failure is not None:  # outside: httpx's own error holds the request, and so the credential
        raise failure
    if response.status_code == 200:
        fields = [(name.lower(), value) for name, value in response.headers.multi_items()]
        json_type(tuple(fields), request.url)
    return response.status_code, response.headers.get_list("www-authenticate"), body


def _check(status: int, challenges: list[str], url: Url, header: Header | None) -> None:
    """Judge an answer by its status."""
    if status == 200:
        return
    if status in UNAUTHORISED:
        raise refused_credential(status, challenges, url, header)
    if status in (404, 410):
        raise _no_card(url, f"answered {status}")
    raise FetchFailed("fetch.status", f"{url} answered {status} instead of 200")


def refused_credential(
    status: int, challenges: list[str], url: Url, header: Header | None
) -> CallFailed:
    """What is said where a peer wants another credential, or one at all.

    Its challenges are shown and never followed (threats.md 11).
    """
    words = ", ".join(challenges)
    shown = header.quotable(words) if header else quotable(words)
    asks = f"; it says it wants: {shown}" if shown else ""
    sent = "the credential" if header else "a request without credential"
    return CallFailed("credential.refused", f"{url} answered {status} to {sent}{asks}")


def _no_card(url: Url, how: str) -> CallFailed:
    return CallFailed("call.no_extended", f"{url} gives no extended card: it {how}")
