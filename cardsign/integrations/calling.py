"""Calling trusted agents with the client of a2a-sdk (extra ``a2a``).

:func:`trusted_client` gives the SDK's client once the card is trusted. :meth:`Call.send_text` and
:meth:`Call.ask_task` make one call each and return what a person reads.

The SDK speaks the protocol. It does not choose where to: it gets a card made of the verified
payload with one interface, and a transport that reaches only that endpoint. It never sees the
credential, which is added below it to requests for the credential's own origin. An answer that is
not a stream of events is read strictly before the SDK reads it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import httpx

from cardsign.errors import CallFailed, FetchFailed, UsageFault
from cardsign.integrations.a2a_sdk import CardNotTrusted, check_verifier, sdk_card
from cardsign.net.connection import in_thread
from cardsign.net.credentials import (
    Credential,
    Header,
    Peer,
    open_credential,
    quotable,
    unlogged,
)
from cardsign.net.endpoints import HTTP_JSON, JSONRPC, A2AVersion, Endpoint, endpoints_of
from cardsign.net.extended import (
    UNAUTHORISED,
    PeerError,
    refused_credential,
    result_of,
    strict_object,
)
from cardsign.net.fetch import OtherStatus, json_type, media_types, user_agent
from cardsign.net.guarded import (
    ANSWER_SECONDS,
    EVENT_IDLE_SECONDS,
    EVENT_STREAM,
    EVENT_TOTAL_SECONDS,
    GuardedTransport,
    GuardRefused,
)
from cardsign.times import second
from cardsign.urls import card_url
from cardsign.verify.report import VerificationError, VerifiedCard
from cardsign.verify.verifier import Verifier

# isort: split
# Last: where there is no SDK, the import of `a2a_sdk` above has said what to install.
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.errors import AgentCardResolutionError
from a2a.client.interceptors import AfterArgs, BeforeArgs, ClientCallInterceptor
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types import (
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseError
from google.protobuf.message import Error as ProtobufError

#: The versions of A2A that the SDK speaks.
SPOKEN: Final[tuple[A2AVersion, ...]] = ("1.0", "0.3")
MAX_TEXT_BYTES: Final = 4 * 1024 * 1024  # of text to be read by a person
MAX_TEXT_DEPTH: Final = 100  # levels; the SDK's own reader stops there too
METHOD_NOT_FOUND: Final = -32601  # JSON-RPC 2.0 5.1
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


# Errors of A2A that an agent answers with a status of HTTP; a 404 without a body is none.
_OF_THE_AGENT: Final = (TaskNotFoundError, TaskNotCancelableError, UnsupportedOperationError)


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


@asynccontextmanager
async def trusted_client(
    verifier: Verifier,
    url: str,
    *,
    issuer: str | None = None,
    credential: Credential | None = None,
) -> AsyncIterator[Client]:
    """Return the SDK's client for the agent at a URL, once the agent's card is trusted.

    ::

        async with trusted_client(Verifier("trust.toml"), "https://agent.example") as client:
            async for event in client.send_message(request):
                ...

    The client calls one endpoint of the verified card and nothing else. It stops with
    ``call.verdict_over`` when the verdict's time is over: make a new one then. It does not fetch
    the extended card, which the SDK would take unverified; see
    :meth:`cardsign.Verifier.discover_extended`.

    Args:
        verifier: What verifies the card; one for all peers of a process.
        url: Of the card, or of its host.
        issuer: The policy's own name of the issuer; the one that it has for `url` if None.
        credential: The user's. It is sent to an endpoint inside the issuer's origins, as the
            verified card wants it.

    Raises:
        CardNotTrusted: The card is not trusted, or cannot be judged now; nothing else was sent.
        CardRefused: `url` is no URL that is accepted.
        AgentCardResolutionError: The card is trusted, and the SDK cannot read it.
        CallFailed: ``call.no_interface``: the card names no endpoint that can be called.
        CredentialFault: The credential belongs elsewhere, or cannot be had; nothing was sent.
        FetchFailed: A client's token could not be asked for, or must not be.
    """
    check_verifier(verifier)
    try:
        card = await verifier.adiscover(url, issuer=issuer)
    except VerificationError as exc:
        raise CardNotTrusted(exc) from exc
    subject = verifier.subject_of({"issuer": issuer})
    peer = Peer.of(verifier, card_url(url), card.report.card or {}, subject)
    call = await in_thread(lambda: open_call(peer, credential, seconds=ANSWER_SECONDS))
    guard = _Guard(card, verifier.clock)
    async with call.http(streams_last_longer=True) as http:
        yield call.client(http, guard)


@dataclass(frozen=True, slots=True)
class Call:
    """One endpoint of a trusted peer, and how it is called.

    Attributes:
        peer: Whose endpoint it is.
        endpoint: One of the peer's card, of an A2A version in :data:`SPOKEN`.
        header: The credential for its origin, or None.
        seconds: For all of one answer; a stream of events included, for :meth:`send_text`.
    """

    peer: Peer
    endpoint: Endpoint
    header: Header | None
    seconds: float

    async def send_text(self, text: str, *, task: str = "", context: str = "") -> Reply:
        """Send a text and wait for the answer.

        Args:
            text: Of one message of the user's.
            task: The task that the message continues; empty for a new one.
            context: The conversation that it belongs to; empty for a new one.

        Returns:
            The answer; where it repeats the credential as it was sent, that is masked.

        Raises:
            CallFailed: ``call.no_interface``: the SDK cannot read the card, or the agent speaks
                an older A2A; ``credential.refused``; ``call.error``: any other answer that is
                none, or that could be read in two ways.
            FetchFailed: The peer could not be asked, or must not be.
        """

        async def send(client: Client) -> Reply:
            message = new_text_message(
                text, role=Role.ROLE_USER, task_id=task or None, context_id=context or None
            )
            request = SendMessageRequest(message=message)
            async with aclosing(client.send_message(request)) as events:
                return await _gather(events)

        return await self._run(send)

    async def ask_task(self, task: str, *, cancel: bool = False) -> Reply:
        """Ask for the present state of a task, or cancel it.

        The errors are those of :meth:`send_text`; an answer about another task is
        ``call.error``.
        """

        async def ask(client: Client) -> Reply:
            if cancel:
                answer = await client.cancel_task(CancelTaskRequest(id=task))
            else:
                answer = await client.get_task(GetTaskRequest(id=task))
            if answer.id != task:
                message = "the agent answered about another task than it was asked"
                raise CallFailed("call.error", message)
            return _reply(answer)

        return await self._run(ask)

    async def _run(self, work: Callable[[Client], Awaitable[Reply]]) -> Reply:
        """Make one call by a client of its own, within a time."""
        header = self.header
        async with self.http() as http:
            try:
                with unlogged():
                    async with asyncio.timeout(self.seconds):
                        reply = await work(self.client(http))
                if header is None:
                    return reply
                text, task, context = map(header.masked, (reply.text, reply.task, reply.context))
                return replace(reply, text=text, task=task, context=context)
            except AgentCardResolutionError as exc:
                failure: CallFailed | FetchFailed = CallFailed("call.no_interface", exc.message)
            except TimeoutError:
                message = f"{self.endpoint.url} did not answer in full within {self.seconds:g} s"
                failure = FetchFailed("fetch.timeout", message)
            except _OF_THE_SDK as exc:
                failure = _failure(exc, self.endpoint, header)
        raise failure  # outside: an error of the SDK's holds the request, and so its headers

    def http(self, *, streams_last_longer: bool = False) -> httpx.AsyncClient:
        """Return a client of httpx that reaches this endpoint alone, with the credential."""
        return httpx.AsyncClient(
            transport=_AtEndpoint(self, streams_last_longer=streams_last_longer),
            timeout=httpx.Timeout(None),  # the transport's own limits hold
            headers={"User-Agent": user_agent()},
            trust_env=False,
            follow_redirects=False,
        )

    def client(self, http: httpx.AsyncClient, *interceptors: ClientCallInterceptor) -> Client:
        """Return the SDK's client for the card with this one interface: it has no other choice.

        Raises:
            AgentCardResolutionError: The SDK cannot read the card.
        """
        card, endpoint = sdk_card(self.peer.payload), self.endpoint
        del card.supported_interfaces[:]
        card.supported_interfaces.append(
            AgentInterface(
                url=str(endpoint.url),
                protocol_binding=endpoint.binding,
                protocol_version=endpoint.version,
                tenant=endpoint.tenant,
            )
        )
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[endpoint.binding])
        return ClientFactory(config).create(card, list(interceptors))


def open_call(peer: Peer, credential: Credential | None, *, seconds: float) -> Call:
    """Choose the endpoint of a trusted peer that is called, and load the credential for it.

    Args:
        peer: Whom to call.
        credential: The user's.
        seconds: For one answer.

    Raises:
        CallFailed: ``call.no_interface``: no endpoint can be called, or it lies outside the
            issuer's origins; ``credential.refused``, ``call.error``: no token was given.
        CredentialFault: ``credential.elsewhere``, ``credential.none``, ``credential.scheme``.
        FetchFailed: The server of tokens could not be asked, or must not be.
    """
    endpoints = endpoints_of(peer.payload, SPOKEN)
    if credential is not None:
        endpoint = peer.choose(endpoints, Endpoint.for_messages)
        header = open_credential(credential, peer, endpoint.for_messages())
        return Call(peer, endpoint, header, seconds)
    url = endpoints[0].for_messages()
    if peer.issuer is not None and peer.is_outside(url):
        message = f"{url} lies outside the origins of {peer.issuer.name}; nothing was sent"
        raise CallFailed("call.no_interface", message)
    return Call(peer, endpoints[0], None, seconds)


class _Guard(ClientCallInterceptor):  # type: ignore[misc]
    """Stops calls that the verdict on the card does not carry."""

    def __init__(self, card: VerifiedCard, now: Callable[[], datetime]) -> None:
        self._card = card
        self._now = now

    async def before(self, args: BeforeArgs) -> None:
        """Refuse a call before it is made.

        Raises:
            CallFailed: ``call.verdict_over``.
            UsageFault: ``usage.invalid``: the extended card is asked for.
        """
        if args.method == "get_extended_agent_card":
            raise UsageFault(
                "usage.invalid",
                "this client does not fetch extended cards: the SDK would take one unverified",
                hint="Use cardsign fetch --extended, or Verifier.discover_extended.",
            )
        until = self._card.valid_until
        if until is not None and until <= self._now():
            raise CallFailed(
                "call.verdict_over",
                f"the verdict on this agent's card expired at {second(until)}",
            )

    async def after(self, args: AfterArgs) -> None:
        """Nothing: the transport below has read the answer."""


class _AtEndpoint(GuardedTransport):
    """Asks one endpoint, and hands on what can be read in one way only.

    Of a stream of events the SDK alone reads what they hold.
    """

    def __init__(self, call: Call, *, streams_last_longer: bool) -> None:
        seconds, self._endpoint = call.seconds, call.endpoint
        origin = call.endpoint.url.origin
        self._header = call.header if call.header and call.header.origin == origin else None
        super().__init__(
            call.peer.settings,
            origins={origin},
            max_bytes=MAX_TEXT_BYTES,
            total_timeout=seconds,
            event_idle_timeout=EVENT_IDLE_SECONDS if streams_last_longer else seconds,
            event_total_timeout=EVENT_TOTAL_SECONDS if streams_last_longer else seconds,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one request, with the credential.

        Raises:
            GuardRefused: ``fetch.elsewhere``: its path is not the endpoint's own; and as there.
            CallFailed: ``call.error``.
            FetchFailed: ``fetch.content_type``.
        """
        own_url = httpx.URL(str(self._endpoint.url))
        path, own = (url.raw_path.partition(b"?")[0] for url in (request.url, own_url))
        is_below = path.startswith(own.rstrip(b"/") + b"/")
        if path != own and not (is_below and self._endpoint.binding == HTTP_JSON):
            message = f"{request.url.path[:80]!r} is no path of {self._endpoint.url}"
            failure = FetchFailed("fetch.elsewhere", message)
            raise GuardRefused(failure, request) from failure
        if self._header is not None:
            request.headers[self._header.name] = self._header.value
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
        self._read_strictly(body, await request.aread())
        kept = {"Content-Type": "application/json"}  # another reader might find a stream in it
        return httpx.Response(response.status_code, headers=kept, content=body)

    def _read_strictly(self, untrusted_body: bytes, asked: bytes) -> None:
        limits = {"max_bytes": MAX_TEXT_BYTES, "max_depth": MAX_TEXT_DEPTH}
        if self._endpoint.binding != JSONRPC:
            strict_object(untrusted_body, **limits)
            return
        call = json.loads(asked)
        try:
            result_of(untrusted_body, call["id"], **limits)
        except PeerError as exc:
            if exc.rpc_code == METHOD_NOT_FOUND:
                raise CallFailed(
                    "call.no_interface",
                    f"{self._endpoint.url} does not know {call['method']}; an agent that knows "
                    "only tasks/send speaks A2A 0.2",
                ) from None


async def _gather(events: AsyncIterator[StreamResponse]) -> Reply:
    """Return the answer as the events of a stream, or a single one, tell it."""
    task, count = Task(), 0
    async for event in events:
        count += 1
        if count > MAX_EVENTS:
            raise CallFailed("call.error", f"the peer sent more than {MAX_EVENTS} events")
        match event.WhichOneof("payload"):
            case "message":
                message = event.message
                unshown = _count_unshown(message.parts)
                return Reply(get_message_text(message), context=message.context_id, unshown=unshown)
            case "task":
                task.CopyFrom(event.task)
            case "artifact_update":
                _add_artifact(task, event.artifact_update)
                continue
            case "status_update":
                update = event.status_update
                task.id, task.context_id = update.task_id, update.context_id
                if update.status.HasField("message"):  # else the last one holds
                    task.status.ClearField("message")
                task.status.MergeFrom(update.status)
            case _:
                continue
        if TaskState.Name(task.status.state).removeprefix(_PREFIX) not in _ONGOING:
            break
    if not (task.id or task.artifacts):
        raise CallFailed("call.error", "the peer's answer has neither a message nor a task")
    return _reply(task)


def _add_artifact(task: Task, update: TaskArtifactUpdateEvent) -> None:
    """Add a part of an artifact, or a whole one in place of what there was of it."""
    task.id = task.id or update.task_id
    for artifact in task.artifacts:
        if artifact.artifact_id == update.artifact.artifact_id:
            if not update.append:
                del artifact.parts[:]
            artifact.parts.extend(update.artifact.parts)
            return
    task.artifacts.append(update.artifact)


def _reply(task: Task) -> Reply:
    """Return what a task says: its artifacts' text; where they have none, that of its status."""
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    text = "\n".join(get_artifact_text(artifact, "") for artifact in task.artifacts)
    text = text or get_message_text(task.status.message)
    state = TaskState.Name(task.status.state) if task.HasField("status") else ""
    return Reply(
        text,
        state,
        task.id,
        task.context_id,
        is_final=state.removeprefix(_PREFIX) not in ("", *_ONGOING),
        unshown=_count_unshown(parts or task.status.message.parts),
    )


def _count_unshown(parts: Iterable[Part]) -> int:
    """Return how many parts are no text."""
    return sum(not part.HasField("text") for part in parts)


def _failure(
    exc: BaseException, endpoint: Endpoint, header: Header | None
) -> CallFailed | FetchFailed:
    """Return what of ours, or of HTTP's, lies below an error of the SDK; else its words."""
    below: BaseException | None = exc
    while below is not None:
        if isinstance(below, GuardRefused) and isinstance(below.__cause__, FetchFailed):
            return below.__cause__
        if isinstance(below, httpx.HTTPStatusError):
            status = below.response.status_code
            if isinstance(exc, _OF_THE_AGENT) and status not in UNAUTHORISED:
                break  # its body says more than its status
            if status in UNAUTHORISED:
                challenges = below.response.headers.get_list("www-authenticate")
                return refused_credential(status, challenges, endpoint.url, header)
            return OtherStatus(str(endpoint.url), status)
        below = below.__cause__
    shown = header.quotable(str(exc)) if header else quotable(str(exc))
    return CallFailed(
        "call.error", f"{endpoint.url} gave no answer that a2a-sdk reads: {shown or 'no reason'}"
    )
