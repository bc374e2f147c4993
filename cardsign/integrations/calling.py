"""Sending a trusted peer one message, with the client of a2a-sdk (extra ``a2a``).

The SDK speaks the protocol; where it speaks to is not left to it. It gets a card of the verified
payload with one interface, a transport that refuses every other origin, and no credential: that
is put on the requests below it, and on none that goes elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpx

from cardsign.card.strictjson import Json
from cardsign.errors import CallFailed, FetchFailed
from cardsign.integrations.a2a_sdk import sdk_card
from cardsign.net.credentials import Header, quotable, unlogged
from cardsign.net.endpoints import Endpoint, Generation
from cardsign.net.exchange import user_agent
from cardsign.net.fetch import DEFAULT_WIRE, Wire
from cardsign.net.guarded import ANSWER_SECONDS, AsyncGuardedTransport, GuardRefused
from cardsign.net.presenting import UNAUTHORISED, refused_credential

try:
    from a2a.client import ClientConfig, ClientFactory
    from a2a.client.errors import AgentCardResolutionError
    from a2a.helpers import get_message_text, new_text_message
    from a2a.types import (
        AgentCard,
        AgentInterface,
        Artifact,
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
    RecursionError,
    httpx.HTTPError,
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
    """

    text: str
    state: str = ""
    task: str = ""
    context: str = ""

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
        total_timeout: Seconds for an answer, and for a whole stream of events.

    Raises:
        CallFailed: ``call.no_interface``: the SDK cannot read the card; ``credential.refused``;
            ``call.error``: any other answer that is none.
        FetchFailed: The peer could not be asked, or must not be.
    """
    transport = AsyncGuardedTransport(
        wire,
        origins={endpoint.url.origin},
        max_bytes=MAX_ANSWER_BYTES,
        total_timeout=total_timeout,
        event_idle_timeout=total_timeout,
        event_total_timeout=total_timeout,
    )
    async with httpx.AsyncClient(
        transport=transport,
        auth=_Bound(header) if header else None,
        timeout=httpx.Timeout(None),  # the transport's holds, over all of it
        headers={"User-Agent": user_agent()},
        trust_env=False,
        follow_redirects=False,
    ) as client:
        try:
            with unlogged():
                return await _said(client, _narrowed(payload, endpoint), endpoint, text)
        except _OF_THE_SDK as exc:
            raise _failure(exc, endpoint, header) from None


async def _said(client: httpx.AsyncClient, card: AgentCard, endpoint: Endpoint, text: str) -> Reply:
    config = ClientConfig(httpx_client=client, supported_protocol_bindings=[endpoint.binding])
    message = new_text_message(text, role=Role.ROLE_USER)
    request = SendMessageRequest(message=message)
    peer = ClientFactory(config).create(card)
    async with aclosing(peer.send_message(request)) as events:
        return await _gathered(events)


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
    artifacts: dict[str, list[str]] = {}
    said = state = task = context = ""
    count = 0
    async for event in events:
        count += 1
        if count > MAX_EVENTS:
            raise CallFailed("call.error", f"the peer sent more than {MAX_EVENTS} events")
        kind = event.WhichOneof("payload")
        if kind == "message":
            return Reply(get_message_text(event.message), context=event.message.context_id)
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
        said = get_message_text(status.message) if status.HasField("message") else said
        if state.removeprefix(_PREFIX) not in _ONGOING:
            break
    if not (task or artifacts):
        raise CallFailed("call.error", "the peer's answer has neither a message nor a task")
    text = "\n".join("".join(parts) for parts in artifacts.values())
    return Reply(text or said, state, task, context)


def _add(artifacts: dict[str, list[str]], artifact: Artifact, append: bool) -> None:
    """A part of an artifact, or a whole one in place of what there was of it."""
    parts = artifacts.setdefault(artifact.artifact_id, [])
    if not append:
        parts.clear()
    parts.extend(part.text for part in artifact.parts)


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
