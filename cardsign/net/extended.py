"""The extended card of a peer: asked for as its trusted public card says, and verified.

(1) the public card was looked up and is trusted       :func:`cardsign.net.discovery.look_up`
(2) its payload and the policy say where the credential goes   :mod:`cardsign.net.credentials`
(3) the one request that shows the credential          :func:`ask_for_extended_card`
(4) the verdict: of this audience, current, of this issuer, beside this public card
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cardsign.card.extensions import declares_extended_card
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH, parse_object
from cardsign.card.values import Json
from cardsign.errors import CallFailed, CardRefused, CredentialFault, JsonRefused
from cardsign.net.credentials import (
    Credential,
    Header,
    Peer,
    open_credential,
    quotable,
    unlogged,
)
from cardsign.net.discovery import Discovery
from cardsign.net.endpoints import JSONRPC, Endpoint, endpoints_of
from cardsign.net.fetch import FetchSettings, OtherStatus, fetch_document
from cardsign.times import second
from cardsign.trust.policy import Subject
from cardsign.urls import EXTENDED_PATH, Url, parse_url
from cardsign.verify.report import VerificationError, ask_again
from cardsign.verify.verdict import beside_its_public_card

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

#: Bytes around a card in an answer: some members, and white space.
MAX_WRAPPING: Final = 16 * 1024
MAX_ANSWER_BYTES: Final = MAX_CARD_BYTES + MAX_WRAPPING

_MEMBERS: Final = frozenset({"jsonrpc", "id", "result", "error"})


class PeerError(CallFailed):
    """The peer answered a well-formed error.

    Attributes:
        rpc_code: Its code; -32007 says that no extended card is configured.
        untrusted_words: Its message, as received.
    """

    def __init__(self, rpc_code: int, untrusted_words: str) -> None:
        super().__init__("call.error", f"the peer answered error {rpc_code}")
        self.rpc_code = rpc_code
        self.untrusted_words = untrusted_words


def request_body(call_id: str, method: str, params: Mapping[str, Json]) -> bytes:
    """Return the body of a call; ``params`` is left out where it is empty."""
    call: dict[str, Json] = {"jsonrpc": "2.0", "id": call_id, "method": method}
    if params:
        call["params"] = dict(params)
    return json.dumps(call, separators=(",", ":")).encode()


def result_of(
    untrusted_body: bytes,
    call_id: str,
    *,
    max_bytes: int = MAX_ANSWER_BYTES,
    max_depth: int = MAX_DEPTH + 1,
) -> dict[str, Json]:
    """Return the object that a call resulted in; nothing in it has been checked.

    Args:
        untrusted_body: As it came.
        call_id: Of the request.
        max_bytes: The most that are looked at; without more, those of a card and its wrapping.
        max_depth: The most levels, the answer's own being 1; without more, those of a card.

    Raises:
        CallFailed: ``call.error``: not one strict answer to this call.
        PeerError: It is an error.
    """
    answer = strict_object(untrusted_body, max_bytes=max_bytes, max_depth=max_depth)
    if answer.get("jsonrpc") != "2.0" or set(answer) - _MEMBERS:
        raise _refused("expected jsonrpc 2.0, id, and result or error, and no other member")
    if ("result" in answer) == ("error" in answer):
        raise _refused("expected exactly one of result and error")
    error = answer.get("error")
    # Where a request cannot be read its id is not known (JSON-RPC 2.0 5).
    if answer.get("id", ...) != call_id and not (error and answer.get("id", ...) is None):
        raise _refused("its id is not that of the request")
    if "error" in answer:
        if not isinstance(error, dict):
            raise _refused("its error is not an object")
        code, words = error.get("code"), error.get("message", "")
        if isinstance(code, bool) or not isinstance(code, int) or not isinstance(words, str):
            raise _refused("its error lacks an integer code or a message of text")
        raise PeerError(code, words)
    result = answer["result"]
    if not isinstance(result, dict):
        raise _refused("its result is not an object")
    return result


def strict_object(untrusted_body: bytes, *, max_bytes: int, max_depth: int) -> dict[str, Json]:
    """Return the one object that every reader sees in an answer.

    Raises:
        CallFailed: ``call.error``; what it is raised in holds no word of the answer.
    """
    try:
        return parse_object(untrusted_body, max_bytes=max_bytes, max_depth=max_depth)
    except JsonRefused as exc:
        code = exc.code
    raise _refused(f"it is not strict JSON ({code})")  # outside, so that no context quotes it


def card_bytes(result: Mapping[str, Json]) -> bytes:
    """Return a card that stood in an answer, as a document of its own.

    White space and the spelling of numbers are not kept; no payload depends on either.
    """
    return json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()


def _refused(problem: str) -> CallFailed:
    return CallFailed(
        "call.error",
        f"the answer is none to this call: {problem}",
        hint="Ask the issuer to fix the server: it must answer one strict JSON-RPC object.",
    )


UNAUTHORISED: Final = (401, 403)

# Errors by which a peer says that there is no extended card (A2A 1.0 5.4, 0.3 8.2).
_NO_CARD: Final = frozenset({-32004, -32007, -32601})


def ask_for_extended_card(
    endpoint: Endpoint, header: Header | None, settings: FetchSettings, *, call_id: str
) -> bytes:
    """Ask one endpoint for the extended card that a credential opens.

    By JSON-RPC ``GetExtendedAgentCard`` (A2A 1.0 9.4.11), ``GET /extendedAgentCard`` (11.3), or
    what 0.3 and 0.2 call the same.

    Args:
        endpoint: One of the verified payload.
        header: The credential, for the endpoint's origin; None to ask without.
        settings: How it is reached; its limits of time hold, and not that of bytes.
        call_id: Ties a JSON-RPC answer to its call; one of its own for each.

    Returns:
        The card as it came. Nothing in it has been checked.

    Raises:
        CredentialFault: ``credential.elsewhere``; nothing was sent.
        CallFailed: ``credential.refused``, ``call.no_extended``, ``call.error``,
            ``call.no_interface``.
        FetchFailed: As :func:`cardsign.net.fetch.fetch_document`.
    """
    url = extended_url(endpoint)
    headers, call = _request_to(endpoint, call_id)
    if header is not None:
        if url.origin != header.origin:
            raise CredentialFault(
                "credential.elsewhere",
                f"{url.origin} is not where the credential belongs, {header.origin}",
            )
        headers.append((header.name, header.value))
    there = replace(settings, max_bytes=MAX_ANSWER_BYTES)
    try:
        with unlogged():
            answer = fetch_document(str(url), there, headers=tuple(headers), body=call)
    except OtherStatus as exc:
        if exc.status in UNAUTHORISED:
            raise refused_credential(exc.status, exc.challenges, url, header) from None
        if exc.status in (404, 410):
            raise _no_card(url, f"answered {exc.status}") from None
        raise
    if call is None:
        return answer.untrusted_body
    try:
        return card_bytes(result_of(answer.untrusted_body, call_id))
    except PeerError as exc:
        error = exc
    # Outside, so that no context holds words of a peer who may repeat the credential.
    words = header.quotable(error.untrusted_words) if header else quotable(error.untrusted_words)
    message = f"answered error {error.rpc_code}: {words}"
    if error.rpc_code in _NO_CARD:
        raise _no_card(url, message)
    raise CallFailed(error.code, f"{url} {message}")


def _request_to(endpoint: Endpoint, call_id: str) -> tuple[list[tuple[str, str]], bytes | None]:
    """Return the headers and the body by which an endpoint is asked; no body for GET."""
    if endpoint.a2a_version == "0.2":
        return [], None
    headers: list[tuple[str, str]] = [("A2A-Version", endpoint.a2a_version)]
    if endpoint.binding != JSONRPC:
        return headers, None
    is_old = endpoint.a2a_version == "0.3"
    method = "agent/getAuthenticatedExtendedCard" if is_old else "GetExtendedAgentCard"
    tenant: dict[str, Json] = {"tenant": endpoint.tenant} if endpoint.tenant else {}
    headers.append(("Content-Type", "application/json"))
    return headers, request_body(call_id, method, tenant)


def extended_url(endpoint: Endpoint) -> Url:
    """Return where this endpoint is asked for its extended card.

    Raises:
        CallFailed: ``call.no_interface``: a tenant's name would lead out of the endpoint's path.
    """
    if endpoint.a2a_version == "0.2":  # beside the endpoint's own path, whatever its binding
        parent = endpoint.url.path.rstrip("/").rpartition("/")[0]
        url = f"{endpoint.url.origin}{parent}/agent/authenticatedExtendedCard"
    elif endpoint.binding == JSONRPC:
        return endpoint.url
    elif endpoint.a2a_version == "0.3":
        url = str(endpoint.below("/v1/card"))
    else:
        url = str(endpoint.below(f"{endpoint.tenant_path}{EXTENDED_PATH}"))
    try:
        return parse_url(url)
    except CardRefused as exc:
        raise CallFailed("call.no_interface", f"the extended card's URL: {exc.message}") from exc


def refused_credential(
    status: int, challenges: Iterable[str], url: Url, header: Header | None
) -> CallFailed:
    """Return the error for a peer that wants another credential, or one at all.

    Its challenges are shown and never followed (threat 11).
    """
    words = ", ".join(challenges)
    shown = header.quotable(words) if header else quotable(words)
    asks = f"; it says it wants: {shown}" if shown else ""
    sent = "the credential" if header else "a request without credential"
    hint = "" if header else "Name one with --credential env:NAME or file:/PATH."
    return CallFailed("credential.refused", f"{url} answered {status} to {sent}{asks}", hint=hint)


def _no_card(url: Url, how: str) -> CallFailed:
    return CallFailed("call.no_extended", f"{url} gives no extended card: it {how}")


def look_up_extended(
    verifier: Verifier,
    public: Discovery,
    credential: Credential,
    *,
    audience: str,
    call_id: str,
    subject: Subject | None = None,
) -> Discovery:
    """Ask for the extended card beside a public one, and reach a verdict about it.

    Where copies of two ages may explain the verdict (threat 15), the public card is looked up
    once more, past every cache. The credential is not sent again.

    Args:
        verifier: By whom the public card was judged.
        public: What came of looking up the public card.
        credential: The user's; it goes to one endpoint inside the issuer's origins.
        audience: The id that the issuer gave to this verifier.
        call_id: Random, for the one call; ties a JSON-RPC answer to it.
        subject: Whose card the public one should be, as it was judged.

    Raises:
        VerificationError: The public card is not trusted, or has no verdict; nothing was sent.
        CredentialFault: ``credential.none``, ``credential.elsewhere``, ``credential.scheme``;
            nothing was sent.
        CallFailed: ``call.verdict_over``: that on the public card no longer holds, nothing was
            sent; there is no extended card, or no endpoint to ask for one;
            ``credential.refused``; the answer is none.
        FetchFailed: The peer could not be asked, or must not be.
    """
    payload, until = public.report.card, public.report.valid_until
    if payload is None:
        raise VerificationError.of(public.report)
    if subject is None or subject.is_nobody:
        subject = Subject(url=public.url)
    peer = Peer.of(verifier, public.url, payload, subject)
    if peer.issuer is None:
        message = f"the policy has no issuer for {public.url}; nothing was sent"
        raise CredentialFault("credential.elsewhere", message)
    if until is not None and until <= verifier.clock():
        message = f"the verdict on {public.url} expired at {second(until)}"
        raise CallFailed("call.verdict_over", f"{message}; nothing was sent")
    if not declares_extended_card(payload, any_spelling=True):
        message = f"the card at {public.url} declares no extended card"
        raise CallFailed("call.no_extended", message)
    endpoint = peer.choose(endpoints_of(payload), extended_url)
    url = extended_url(endpoint)
    header = open_credential(credential, peer, url)
    untrusted_card = ask_for_extended_card(endpoint, header, peer.settings, call_id=call_id)
    asked = replace(subject, audience=audience)
    report = beside_its_public_card(
        verifier.judge(untrusted_card, asked, public.supplied), public.report
    )
    if ask_again(report):
        newer = verifier.look_up(public.url, subject, fresh=True)
        report = beside_its_public_card(
            verifier.judge(untrusted_card, asked, newer.supplied), newer.report
        )
    return Discovery(str(url), report, untrusted_card, public.supplied)
