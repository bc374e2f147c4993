"""Sending a trusted peer one message, with the client of a2a-sdk (extra ``a2a``).

The SDK speaks the protocol; where it speaks to is not left to it. It gets a card of the verified
payload with one interface, a transport that asks nothing but that endpoint, and no credential: that
is put on the requests below it, and on none that goes elsewhere. An answer that is no stream of
events is read strictly before the SDK reads it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Final

import httpx

from cardsign.card.strictjson import Json
from cardsign.errors import CallFailed, FetchFailed
from cardsign.integrations.a2a_sdk import sdk_card
from cardsign.net.credentials import Header, quotable, unlogged
from cardsign.net.endpoints import HTTP_JSON, JSONRPC, Endpoint, Generation
from cardsign.net.extended import (
    UNAUTHORISED,
    PeerError,
    refused_credential,
    result_of,
    strict_object,
)
from cardsign.net.fetch import DEFAULT_WIRE, Wire, json_type, media_types, user_agent
from cardsign.net.guarded import (
    ANSWER_SECONDS,
    EVENT_STREAM,
    AsyncGuardedTransport,
    GuardRefused,
)

try:
    from a2a.client import ClientConfig, ClientFactory
    from a2a.client.errors import AgentCardResolutionError
    from a2a.helpers import get_message_text, new_text_message
    from a2a.types import (
        AgentCard,
        AgentInterface,
        Artifact,
        Part,
        Role,
        SendMessageRequest,
        StreamResponse,
        TaskState,
    )
    from a2a.utils.errors import A2AError
    from google.protobuf.json_format import ParseError
    from google.protobuf.message import Error as ProtobufError
except ImportError as exc:
    raise ImportError(f"{exc}; install the extra: pip install 'cardsign[a2a]'") from exc

#: The generations of A2A that the SDK speaks.
SPOKEN: Final[tuple[Generation, ...]] = ("1.0", "0.3")
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024  # of text to be read by a person
MAX_ANSWER_DEPTH: Final = 100  # levels; the SDK's own reader stops there too
MAX_EVENTS: Final = 10_000  # of one stream; each makes the SDK build objects

_PREFIX: Final = "TASK_STATE_"
_ONGOING: Final = ("UNSPECIFIED", "SUBMITTED", "WORKING")
# What the SDK lets through of answers that are none: it converts them with few checks.
_OF_THE_SDK: Final = (
    A2AError,
    ParseError,
    ProtobufError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    SystemError,
    httpx.HTTPError,
    httpx.InvalidURL,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a peer answered. Its words are its own: escape them before they are shown.

    Attributes:
        text: Of the message; or of the artifacts of the task; or, where it has none, of its
            status.
        state: Of the task, as the SDK spells it; empty where there is none.
        task: Its id; empty where there is none.
        context: Of the conversation; may be empty.
        is_final: A message, or a task that goes on no more; else there may be more to come.
        unshown: How many parts are no text: files, data.
    """

    text: str
    state: str = ""
    task: str = ""
    context: str = ""
    is_final: bool = True
    unshown: int = 0

    @property
    def is_refusal(self) -> bool:
        """Whether the task came to nothing."""
        return self.state.removeprefix(_PREFIX) in ("FAILED", "REJECTED", "CANCELED")


async def send_text(
    payload: Mapping[str, Json],
    endpoint: Endpoint,
    header: Header | None,
    text: str,
    *,
    wire: Wire = DEFAULT_WIRE,
    total_timeout: float = ANSWER_SECONDS,
) -> Reply:
    """Send a text to one endpoint of a verified card and wait for the answer.

    Args:
        payload: ``VerifiedCard.document``, and nothing that was not verified.
        endpoint: One of that payload's, of a generation in :data:`SPOKEN`.
        header: The credential for its origin, or None.
        text: Of one message of the user's.
        wire: How it is reached.
        total_timeout: Seconds for all of it, a whole stream of events included.

    Returns:
        The answer; where it repeats the credential as it was sent, that is masked.

    Raises:
        CallFailed: ``call.no_interface``: the SDK cannot read the card; ``credential.refused``;
            ``call.envelope``: an answer that could be read in two ways; ``call.error``: any other
            that is none.
        FetchFailed: The peer could not be asked, or must not be.
    """
    async with httpx.AsyncClient(
        transport=_AtEndpoint(endpoint, wire, total_timeout),
        auth=_Bound(header) if header else None,
        timeout=httpx.Timeout(None),  # the transport's holds, over all of it
        headers={"User-Agent": user_agent()},
        trust_env=False,
        follow_redirects=False,
    ) as client:
        try:
            with unlogged():
                async with asyncio.timeout(total_timeout):
                    reply = await _said(client, _narrowed(payload, endpoint), endpoint, text)
            return _masked(reply, header) if header else reply
        except TimeoutError:
            message = f"{endpoint.url} did not answer in full within {total_timeout:g} s"
            failure: CallFailed | FetchFailed = FetchFailed("fetch.timeout", message)
        except _OF_THE_SDK as exc:
            failure = _failure(exc, endpoint, header)
    raise failure  # outside: an error of the SDK's or httpx's holds the request, and so its headers


def _masked(reply: Reply, header: Header) -> Reply:
    return replace(
        reply,
        text=header.masked(reply.text),
        task=header.masked(reply.task),
        context=header.masked(reply.context),
    )


async def _said(client: httpx.AsyncClient, card: AgentCard, endpoint: Endpoint, text: str) -> Reply:
    config = ClientConfig(httpx_client=client, supported_protocol_bindings=[endpoint.binding])
    message = new_text_message(text, role=Role.ROLE_USER)
    request = SendMessageRequest(message=message)
    peer = ClientFactory(config).create(card)
    async with aclosing(peer.send_message(request)) as events:
        return await _gathered(events)


class _AtEndpoint(AsyncGuardedTransport):
    """Asks one endpoint, and hands on what can be read in one way only.

    Of a stream of events the SDK alone reads what they hold.
    """

    def __init__(self, endpoint: Endpoint, wire: Wire, total_timeout: float) -> None:
        super().__init__(
            wire,
            origins={endpoint.url.origin},
            max_bytes=MAX_ANSWER_BYTES,
            total_timeout=total_timeout,
            event_idle_timeout=total_timeout,
            event_total_timeout=total_timeout,
        )
        self._endpoint = endpoint

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one request.

        Raises:
            GuardRefused: ``fetch.elsewhere``: its path is not the endpoint's own; and as there.
            CallFailed: ``call.envelope``.
            FetchFailed: ``fetch.content_type``.
        """
        if not self._is_here(request.url):
            message = f"{request.url.path[:80]!r} is no path of {self._endpoint.url}"
            failure = FetchFailed("fetch.elsewhere", message)
            raise GuardRefused(failure, request) from failure
        response = await super().handle_async_request(request)
        fields = tuple((n.lower(), value) for n, value in response.headers.multi_items())
        asked_for_events = EVENT_STREAM in request.headers.get("accept", "")
        is_stream = asked_for_events and media_types(fields) == [EVENT_STREAM]
        if not response.is_success or is_stream:
            return response
        try:
            json_type(fields, self._endpoint.url)
            body = await response.aread()
        finally:
            await response.aclose()
        self._check(body, await request.aread())
        kept = {"Content-Type": "application/json"}  # another reader might find a stream in it
        return httpx.Response(response.status_code, headers=kept, content=body)

    def _is_here(self, url: httpx.URL) -> bool:
        """Whether it is the endpoint's own path, or for HTTP+JSON one below it."""
        path, own = (one.raw_path.partition(b"?")[0] for one in (url, self._own))
        below = own.rstrip(b"/") + b"/"
        return path == own or (self._endpoint.binding == HTTP_JSON and path.startswith(below))

    @property
    def _own(self) -> httpx.URL:
        return httpx.URL(str(self._endpoint.url))

    def _check(self, untrusted_body: bytes, asked: bytes) -> None:
        limits = {"max_bytes": MAX_ANSWER_BYTES, "max_depth": MAX_ANSWER_DEPTH}
        if self._endpoint.binding != JSONRPC:
            strict_object(untrusted_body, **limits)
            return
        with suppress(PeerError):  # the SDK has the words for it
            result_of(untrusted_body, json.loads(asked)["id"], **limits)


class _Bound(httpx.Auth):
    """Puts a credential on requests to its own origin, whoever makes them, and on no other."""

    def __init__(self, header: Header) -> None:
        self._header = header

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        origin = self._header.origin
        port = request.url.port or {"https": 443, "http": 80}.get(request.url.scheme)
        host = f"[{request.url.host}]" if ":" in request.url.host else request.url.host
        if (request.url.scheme, host, port) == (origin.scheme, origin.host, origin.port):
            request.headers[self._header.name] = self._header.value
        yield request


def _narrowed(payload: Mapping[str, Json], endpoint: Endpoint) -> AgentCard:
    """The SDK's card with this one interface, so that nothing is left for it to choose."""
    try:
        card = sdk_card(payload)
    except AgentCardResolutionError as exc:
        raise CallFailed("call.no_interface", exc.message) from exc
    del card.supported_interfaces[:]
    card.supported_interfaces.append(
        AgentInterface(
            url=str(endpoint.url),
            protocol_binding=endpoint.binding,
            protocol_version=endpoint.version,
            tenant=endpoint.tenant,
        )
    )
    return card


async def _gathered(events: AsyncIterator[StreamResponse]) -> Reply:
    """The answer as the events of a stream, or a single one, tell it."""
    artifacts: dict[str, list[Part]] = {}
    said: list[Part] = []
    state = task = context = ""
    count = 0
    async for event in events:
        count += 1
        if count > MAX_EVENTS:
            raise CallFailed("call.error", f"the peer sent more than {MAX_EVENTS} events")
        kind = event.WhichOneof("payload")
        if kind == "message":
            message, context = event.message, event.message.context_id
            return Reply(get_message_text(message), context=context, unshown=_mute(message.parts))
        if kind == "artifact_update":
            update = event.artifact_update
            _add(artifacts, update.artifact, update.append)
            continue
        if kind == "task":
            task, context, status = event.task.id, event.task.context_id, event.task.status
            for artifact in event.task.artifacts:
                _add(artifacts, artifact, False)
        elif kind == "status_update":
            one = event.status_update
            task, context, status = one.task_id, one.context_id, one.status
        else:
            continue
        state = TaskState.Name(status.state)
        said = list(status.message.parts) if status.HasField("message") else said
        if state.removeprefix(_PREFIX) not in _ONGOING:
            break
    if not (task or artifacts):
        raise CallFailed("call.error", "the peer's answer has neither a message nor a task")
    made = [part for parts in artifacts.values() for part in parts]
    text = "\n".join("".join(part.text for part in parts) for parts in artifacts.values())
    if not text:
        text = "\n".join(part.text for part in said if part.HasField("text"))
    is_final = state.removeprefix(_PREFIX) not in ("", *_ONGOING)
    return Reply(text, state, task, context, is_final, _mute(made or said))


def _mute(parts: Iterable[Part]) -> int:
    """How many parts are no text."""
    return sum(not part.HasField("text") for part in parts)


def _add(artifacts: dict[str, list[Part]], artifact: Artifact, append: bool) -> None:
    """A part of an artifact, or a whole one in place of what there was of it."""
    parts = artifacts.setdefault(artifact.artifact_id, [])
    if not append:
        parts.clear()
    parts.extend(artifact.parts)


def _failure(
    exc: BaseException, endpoint: Endpoint, header: Header | None
) -> CallFailed | FetchFailed:
    """What of ours, or of HTTP's, lies below an error of the SDK; else its words."""
    below: BaseException | None = exc
    while below is not None:
        if isinstance(below, GuardRefused) and isinstance(below.__cause__, FetchFailed):
            return below.__cause__
        if isinstance(below, httpx.HTTPStatusError):
            return _of_status(below.response, endpoint, header)
        below = below.__cause__
    shown = header.quotable(str(exc)) if header else quotable(str(exc))
    return CallFailed(
        "call.error", f"{endpoint.url} gave no answer that a2a-sdk reads: {shown or 'no reason'}"
    )


def _of_status(
    response: httpx.Response, endpoint: Endpoint, header: Header | None
) -> CallFailed | FetchFailed:
    status = response.status_code
    if status in UNAUTHORISED:
        challenges = response.headers.get_list("www-authenticate")
        return refused_credential(status, challenges, endpoint.url, header)
    return FetchFailed("fetch.status", f"{endpoint.url} answered {status} instead of 200")
