"""Calling trusted agents with the client of a2a-sdk (extra ``a2a``).

:func:`trusted_client` gives the SDK's client once the card is trusted. :meth:`Call.send_text` and
:meth:`Call.ask_task` make one call each and return what a person reads.

The SDK speaks the protocol. It does not choose where to: it gets a card made of the verified
payload with one interface, and a transport that reaches only that endpoint. It never sees the
credential, which is added below it to requests for the credential's own origin. An answer that is
not a stream of events is read strictly before the SDK reads it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import httpx

from cardsign.errors import CallFailed, CardsignError, FetchFailed, UsageFault
from cardsign.integrations.a2a_sdk import CardNotTrusted, check_verifier, sdk_card
from cardsign.net import endpoints
from cardsign.net.connection import in_thread
from cardsign.net.endpoints import Credential, Endpoint, Header, Peer
from cardsign.net.fetch import USER_AGENT, OtherStatus, check_json_type
from cardsign.net.guarded import GuardedTransport, GuardRefused, as_httpx
from cardsign.times import second
from cardsign.urls import card_url
from cardsign.verify.report import VerificationError, VerifiedCard
from cardsign.verify.verifier import Verifier

# isort: split
# Last: where there is no SDK, the import of `a2a_sdk` above has said what to install.
from a2a import types
from a2a.client import Client, ClientCallInterceptor, ClientConfig, ClientFactory
from a2a.client.errors import AgentCardResolutionError
from a2a.client.interceptors import AfterArgs, BeforeArgs
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.utils import errors
from google.protobuf.json_format import Error as ProtobufError

STREAM_SECONDS: Final = 3600.0  # for one stream of events: a long task
IDLE_SECONDS: Final = 60.0  # without a byte; servers of streams send a comment every 15 s or so
CONNECT_SECONDS: Final = 5.0
MAX_TEXT_BYTES: Final = 4 * 1024 * 1024  # of text to be read by a person
MAX_TEXT_DEPTH: Final = 100  # levels; the SDK's own reader stops there too
METHOD_NOT_FOUND: Final = -32601  # JSON-RPC 2.0 5.1

_PREFIX: Final = "TASK_STATE_"
_FINAL: Final = ("COMPLETED", "FAILED", "REJECTED", "CANCELED")  # A2A 1.0 4.1.3
# What the SDK raises. It converts what a peer sends unchecked, hence Python's own errors.
_OF_THE_SDK: Final = (
    *(errors.A2AError, httpx.HTTPError, ProtobufError, StopAsyncIteration),
    *(ValueError, TypeError, LookupError, AttributeError, RecursionError),
)
# Errors of A2A that an agent answers with a status of HTTP; a 404 without a body is not one.
_OF_THE_AGENT: Final = (
    errors.TaskNotFoundError,
    errors.TaskNotCancelableError,
    errors.UnsupportedOperationError,
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
        is_final: A message, or a task that has ended; one that waits for the user has not.
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
    credential: Credential | str | None = None,
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
        credential: The user's, ``env:NAME`` or ``file:/PATH``. It is sent to an endpoint inside
            the issuer's origins, as the verified card wants it.

    Raises:
        CardNotTrusted: The card is not trusted, or cannot be judged now; nothing else was sent.
        CardRefused: `url` is not a URL that is accepted.
        AgentCardResolutionError: The card is trusted, and the SDK cannot read it.
        CallFailed: ``call.no_interface``: the card names no endpoint that can be called.
        UsageFault: The credential belongs elsewhere, or cannot be read; nothing was sent.
        FetchFailed: A client's token could not be asked for, or must not be.
    """
    check_verifier(verifier)
    try:
        card = await verifier.adiscover(url, issuer=issuer)
    except VerificationError as exc:
        raise CardNotTrusted(exc) from exc
    subject = verifier.subject_of({"issuer": issuer})
    peer = Peer.of(verifier, card_url(url), card.report.card or {}, subject)
    call = await in_thread(lambda: open_call(peer, credential, seconds=STREAM_SECONDS))
    guard = _Guard(card, verifier.clock)
    async with call.client(guard) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Call:
    """One endpoint of a trusted peer, and how it is called.

    Attributes:
        peer: Whose endpoint it is.
        endpoint: One of the peer's card.
        header: The credential for its origin, or None.
        seconds: For all of one answer.
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

        question = new_text_message(
            text, role=types.Role.ROLE_USER, task_id=task or None, context_id=context or None
        )
        request = types.SendMessageRequest(message=question)

        async def send(client: Client) -> types.StreamResponse:
            async with aclosing(client.send_message(request)) as answers:
                return await anext(answers)

        answer = await self._ask(send)
        if answer.HasField("task"):
            return self._masked(_reply(answer.task))
        message = answer.message
        unshown = _count_unshown(message.parts)
        reply = Reply(get_message_text(message), context=message.context_id, unshown=unshown)
        return self._masked(reply)

    async def ask_task(self, task: str, *, cancel: bool = False) -> Reply:
        """Ask for the present state of a task, or cancel it.

        The errors are those of :meth:`send_text`; an answer about another task is
        ``call.error``.
        """

        async def ask(client: Client) -> types.Task:
            if cancel:
                return await client.cancel_task(types.CancelTaskRequest(id=task))
            return await client.get_task(types.GetTaskRequest(id=task))

        answer = await self._ask(ask)
        if answer.id != task:
            message = "the agent answered about a task other than the one asked about"
            raise CallFailed("call.error", message)
        return self._masked(_reply(answer))

    async def _ask(self, ask: Callable[[Client], Awaitable[Any]]) -> Any:
        """Return what the SDK makes of the answer to one call by a client of its own."""
        try:
            async with self.client(streaming=False) as client:
                return await ask(client)
        except AgentCardResolutionError as exc:
            failure: CallFailed | FetchFailed = CallFailed("call.no_interface", exc.message)
        except CardsignError:
            raise
        except _OF_THE_SDK as exc:
            failure = _failure(exc, self.endpoint, self.header)
        raise failure  # outside: an error of the SDK's holds the request, and so its headers

    def _masked(self, reply: Reply) -> Reply:
        header = self.header
        if header is None:
            return reply
        text, task, context = map(header.masked, (reply.text, reply.task, reply.context))
        return replace(reply, text=text, task=task, context=context)

    @asynccontextmanager
    async def client(
        self, *interceptors: ClientCallInterceptor, streaming: bool = True
    ) -> AsyncIterator[Client]:
        """Return the SDK's client for the card with this one interface: it has no other choice.

        It reaches this endpoint alone, with the credential.

        Raises:
            AgentCardResolutionError: The SDK cannot read the card.
        """
        card, endpoint = sdk_card(self.peer.payload), self.endpoint
        del card.supported_interfaces[:]
        spoken = {"protocol_binding": endpoint.binding, "protocol_version": endpoint.version}
        card.supported_interfaces.add(url=str(endpoint.url), tenant=endpoint.tenant, **spoken)
        async with httpx.AsyncClient(
            transport=_AtEndpoint(self),
            # Beside the transport's limit for all of it.
            timeout=httpx.Timeout(IDLE_SECONDS if streaming else None, connect=CONNECT_SECONDS),
            headers={"User-Agent": USER_AGENT},
            trust_env=False,
            follow_redirects=False,
        ) as http:
            config = ClientConfig(streaming, httpx_client=http)
            config.supported_protocol_bindings = [endpoint.binding]
            yield ClientFactory(config).create(card, list(interceptors))


def open_call(peer: Peer, credential: Credential | str | None, *, seconds: float) -> Call:
    """Choose the endpoint of a trusted peer that is called, and load the credential for it.

    Args:
        peer: Whom to call.
        credential: The user's.
        seconds: For one answer.

    Raises:
        CallFailed: ``call.no_interface``: no endpoint can be called, or it lies outside the
            issuer's origins; ``credential.refused``, ``call.error``: no token was given.
        UsageFault: ``credential.elsewhere``, ``credential.none``, ``credential.scheme``.
        FetchFailed: The server of tokens could not be asked, or must not be.
    """
    if credential is not None:
        endpoint = peer.choose(Endpoint.for_messages)
        header = endpoints.open_credential(credential, peer, endpoint.for_messages())
        return Call(peer, endpoint, header, seconds)
    endpoint = endpoints.endpoints_of(peer.payload)[0]
    url = endpoint.for_messages()
    if peer.is_outside(url):
        message = f"{url} lies outside the origins of {peer.issuer.name}; nothing was sent"
        raise CallFailed("call.no_interface", message)
    return Call(peer, endpoint, None, seconds)


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
            message = "this client does not fetch extended cards: the SDK would take one unverified"
            raise UsageFault("usage.invalid", message, hint="Use Verifier.discover_extended.")
        until = self._card.valid_until
        if until is not None and until <= self._now():
            message = f"the verdict on this agent's card expired at {second(until)}"
            raise CallFailed("call.verdict_over", message)

    async def after(self, args: AfterArgs) -> None:
        """Nothing: the transport below has read the answer."""


class _AtEndpoint(GuardedTransport):
    """Asks one endpoint, and hands on what can be read in one way only.

    Of a stream of events the SDK alone reads what they hold.
    """

    def __init__(self, call: Call) -> None:
        self._endpoint = call.endpoint
        origin = call.endpoint.url.origin
        self._header = call.header if call.header and call.header.origin == origin else None
        settings = replace(call.peer.settings, max_bytes=MAX_TEXT_BYTES, total_timeout=call.seconds)
        super().__init__(settings, origins={origin})

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
        if path != own and not (is_below and self._endpoint.binding == endpoints.HTTP_JSON):
            shown = f"{request.url.path[:80]!r} is not a path of {self._endpoint.url}"
            with as_httpx(request):
                raise FetchFailed("fetch.elsewhere", shown)
        if self._header is not None:
            request.headers[self._header.name] = self._header.value
        response = await super().handle_async_request(request)
        headers = tuple((n.lower(), value) for n, value in response.headers.multi_items())
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        asks_for_stream = "text/event-stream" in request.headers.get("accept", "")
        if not response.is_success or (is_stream and asks_for_stream):
            return response
        try:
            check_json_type(headers, self._endpoint.url)
            body = await response.aread()
        finally:
            await response.aclose()
        self._read_strictly(body, await request.aread())
        kept = {"Content-Type": "application/json"}  # another reader might find a stream in it
        return httpx.Response(response.status_code, headers=kept, content=body)

    def _read_strictly(self, untrusted_body: bytes, asked: bytes) -> None:
        answer = endpoints.strict_object(
            untrusted_body, max_bytes=MAX_TEXT_BYTES, max_depth=MAX_TEXT_DEPTH
        )
        if self._endpoint.binding != endpoints.JSONRPC:
            return
        call = json.loads(asked)
        result = endpoints.read_answer(answer, call["id"])
        if isinstance(result, tuple) and result[0] == METHOD_NOT_FOUND:
            message = f"{self._endpoint.url} does not know {call['method']}; an agent that knows "
            raise CallFailed("call.no_interface", f"{message}only tasks/send speaks A2A 0.2")


def _reply(task: types.Task) -> Reply:
    """Return what a task says: its artifacts' text; where they have none, that of its status.

    Raises:
        CallFailed: ``call.error``: it is in a state that the SDK does not know.
    """
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    text = "\n".join(get_artifact_text(artifact, "") for artifact in task.artifacts)
    text = text or get_message_text(task.status.message)
    try:
        state = types.TaskState.Name(task.status.state) if task.HasField("status") else ""
    except ValueError as exc:
        message = f"the task is in a state that a2a-sdk does not know: {task.status.state}"
        raise CallFailed("call.error", message) from exc
    unshown = _count_unshown(parts or task.status.message.parts)
    is_final = state.removeprefix(_PREFIX) in _FINAL
    return Reply(text, state, task.id, task.context_id, is_final, unshown)


def _count_unshown(parts: Iterable[types.Part]) -> int:
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
            if isinstance(exc, _OF_THE_AGENT) and status not in endpoints.UNAUTHORISED:
                break  # its body says more than its status
            if status in endpoints.UNAUTHORISED:
                challenges = below.response.headers.get_list("www-authenticate")
                return endpoints.refused_credential(status, challenges, endpoint.url, header)
            return OtherStatus(str(endpoint.url), status)
        below = below.__cause__
    shown = endpoints.quotable(str(exc), header)
    message = f"{endpoint.url} gave no answer that a2a-sdk reads: {shown or 'no reason'}"
    return CallFailed("call.error", message)
