"""Live MCP servers: their answers to tools/list, in the form in which they could be saved.

A server is asked over HTTP (streamable, or the older SSE) by the rules of :mod:`cardsign.net` and
without credentials, or a program is run and asked over stdio. The SDK's own client brings its own
HTTP and bounds neither bytes nor pages, so the three requests are made here.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, TypeAlias
from urllib.parse import urljoin

import httpx

from cardsign import programs
from cardsign.build.reading import MAX_SOURCE_BYTES, Document, Place, read_json, refusal
from cardsign.card.strictjson import Json
from cardsign.errors import FetchFailed, UsageFault
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, user_agent
from cardsign.net.guarded import EVENT_STREAM, GuardedTransport, GuardRefused
from cardsign.net.transport import Deadline

#: The version of MCP that is spoken; each newer server of handshakes knows it too.
PROTOCOL: Final = "2025-06-18"
MAX_PAGES: Final = 100
MAX_TOOLS: Final = 5000
SECONDS: Final = 60.0  # for a program in all, its installation by npx or uvx included
_SAVE: Final = "Save the server's answer to tools/list as JSON, and build from that file."
_NOT_STREAMABLE: Final = (400, 404, 405)  # MCP 2025-06-18, transports: then it may be SSE

Ask: TypeAlias = Callable[[], Document]
#: Sends one message at once; what comes after it is read message by message.
_Say: TypeAlias = Callable[[Mapping[str, Json]], Iterator[bytes]]


def ask_mcp(url: str, settings: FetchSettings = DEFAULT_SETTINGS) -> Ask:
    """What asks a server over streamable HTTP, or over SSE where it does not speak that.

    Raises, when it is called:
        FetchFailed: ``fetch.*``: it may not be asked, or cannot be.
        BuildRefused: ``build.*``: it gives no list of tools, or too long a one.
    """

    def ask() -> Document:
        with ExitStack() as held:
            try:
                return _listed(_Http(url, settings, held).say, url)
            except GuardRefused as refused:
                if not isinstance(refused.__cause__, FetchFailed):
                    raise
                raise refused.__cause__ from None

    return ask


def run_mcp(command: str, environment: Mapping[str, str], *, seconds: float = SECONDS) -> Ask:
    """What runs a program, here and without a shell, and asks it over stdio.

    It inherits :data:`cardsign.programs.INHERITED` and no other variable.

    Raises, when it is called:
        UsageFault: ``usage.invalid``: it is no command.
        BuildRefused: ``build.*``: it gives no list of tools, or too long a one.
    """

    def ask() -> Document:
        try:
            name, *arguments = shlex.split(command)
        except ValueError as exc:  # no word at all, or a quote that is never closed
            raise UsageFault("usage.invalid", "--run-mcp takes PROGRAM ARGUMENT...") from exc
        place = Place(f"--run-mcp {name}")  # without arguments, which may hold a secret
        inherited = programs.inherited(environment)
        path = shutil.which(name, path=inherited.get("PATH"))
        if path is None:
            raise refusal("build.unsupported", f"there is no program {name!r}", place)
        program = programs.Program(
            os.path.abspath(path),
            tuple(arguments),
            inherited,
            seconds,
            MAX_SOURCE_BYTES,
            folder=os.getcwd(),
        )
        try:
            with programs.conversation(program) as talk:
                return _listed(_over_stdio(talk, place), place.file)
        except programs.ProgramError as exc:
            message = f"the server {exc.what}" + (f": {exc.complaint}" if exc.complaint else "")
            hint = f"Does it frame by Content-Length? MCP has one message a line. {_SAVE}"
            raise refusal("build.unsupported", message, place, hint=hint) from exc

    return ask


def _listed(say: _Say, name: str) -> Document:
    """A server's name, version and tools, as a document without lines.

    Raises:
        BuildRefused, FetchFailed: As :func:`ask_mcp`.
    """
    place = Place(name)

    def ask(call: int, method: str, parameters: dict[str, Json]) -> Document:
        request: dict[str, Json] = {"jsonrpc": "2.0", "id": call, "method": method}
        request["params"] = parameters
        for data in say(request):
            (answer,) = read_json(data, name)
            if answer.get("id") != call or "method" in answer.value:
                continue  # a notification, or a question of its own
            if (error := answer.get("error")) is not None:
                said = json.dumps(error)[:200]
                raise refusal("build.unsupported", f"{method} gave an error: {said}", place)
            return Document(name, answer.table("result"), {(): 0})
        raise refusal("build.unsupported", f"the server gave no answer to {method}", place)

    us: dict[str, Json] = {"name": "cardsign", "version": user_agent().partition("/")[2]}
    hello: dict[str, Json] = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": us}
    info = ask(1, "initialize", hello).table("serverInfo")
    say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools: list[Json] = []
    cursor: str | None = None
    size = 0
    for call in range(2, MAX_PAGES + 2):
        page = ask(call, "tools/list", {} if cursor is None else {"cursor": cursor})
        tools += [page.get(*at) for at in page.rows("tools")]
        size += len(json.dumps(page.get("tools")))
        if len(tools) > MAX_TOOLS or size > MAX_SOURCE_BYTES:
            message = f"it lists more than {MAX_TOOLS} tools or {MAX_SOURCE_BYTES} bytes of them"
            raise refusal("build.limit", message, place)
        cursor = page.text("nextCursor")
        if cursor is None:
            return Document(name, {"serverInfo": info, "tools": tools}, {(): 0})
    raise refusal("build.limit", f"its tools have more than {MAX_PAGES} pages", place)


# ------------------------------------------------------------------ HTTP


class _Http:
    """The requests to one server; each is held to its origin and to the rules of ``net``."""

    def __init__(self, url: str, settings: FetchSettings, held: ExitStack) -> None:
        origin = settings.target(url).origin
        self._deadline = Deadline(settings.clock, SECONDS)
        self._url = url
        self._held = held
        self._session: dict[str, str] = {}
        self._events: Iterator[tuple[str, bytes]] | None = None  # of SSE: all that it says
        self._transport = GuardedTransport(
            settings,
            origins={origin},
            max_bytes=2 * MAX_SOURCE_BYTES,
            total_timeout=settings.total_timeout,
            event_idle_timeout=settings.total_timeout,
            event_total_timeout=SECONDS,
        )

    def say(self, message: Mapping[str, Json]) -> Iterator[bytes]:
        if self._events is None:
            response = self._send("POST", self._url, message)
            if response.status_code not in _NOT_STREAMABLE or self._session:
                return self._messages_in(response)
            self._url, self._events = self._over_sse()
        self._check(self._send("POST", self._url, message))
        return (data for event, data in self._events if event == "message")

    def _messages_in(self, response: httpx.Response) -> Iterator[bytes]:
        self._check(response)
        self._session = {"MCP-Protocol-Version": PROTOCOL, **self._session}
        if session := response.headers.get("mcp-session-id"):
            self._session["Mcp-Session-Id"] = session
        if _is_stream(response):
            return (data for event, data in _events(response) if event == "message")
        body = response.read()
        return iter([body] if body else [])

    def _over_sse(self) -> tuple[str, Iterator[tuple[str, bytes]]]:
        """The older transport: one stream with all answers, which names where to post."""
        stream = self._send("GET", self._url)
        self._check(stream)
        events = _events(stream) if _is_stream(stream) else iter(())
        for event, data in events:
            if event == "endpoint":
                return urljoin(self._url, data.decode(errors="replace")), events
        message = "it is neither streamable HTTP nor SSE of MCP"
        raise refusal("build.unsupported", message, Place(self._url), hint=_SAVE)

    def _send(
        self, method: str, url: str, message: Mapping[str, Json] | None = None
    ) -> httpx.Response:
        try:
            self._deadline.remaining()
        except TimeoutError as exc:
            late = f"{self._url} did not list its tools within {SECONDS:.0f} seconds"
            raise FetchFailed("fetch.timeout", late) from exc
        accept = EVENT_STREAM if message is None else f"application/json, {EVENT_STREAM}"
        headers = {"Accept": accept, "User-Agent": user_agent(), **self._session}
        response = self._transport.handle_request(
            httpx.Request(method, url, headers=headers, json=message)
        )
        self._held.callback(response.close)
        return response

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if not response.is_success:
            hint = f"No credential is sent. {_SAVE}" if status in (401, 403) else _SAVE
            raise FetchFailed("fetch.status", f"{self._url} answered {status}", hint=hint)


def _is_stream(response: httpx.Response) -> bool:
    declared: str = response.headers.get("content-type", "")
    return declared.partition(";")[0].strip().lower() == EVENT_STREAM


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their ends; what follows the last end is no line."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        yield from whole


def _events(response: httpx.Response) -> Iterator[tuple[str, bytes]]:
    """The events of a stream: their names and data (HTML, 9.2.6)."""
    event, data = "", list[bytes]()
    for line in _lines(response.iter_raw()):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            event = value.decode(errors="replace")
        elif field == b"data":
            data.append(value)
        elif not line:
            if data:
                yield event or "message", b"\n".join(data)
            event, data = "", []


# ------------------------------------------------------------------ stdio


def _over_stdio(talk: programs.Conversation, place: Place) -> _Say:
    """One message a line; a line that is none, such as a greeting, is passed over."""
    lines = _lines(iter(talk.receive, b""))

    def messages() -> Iterator[bytes]:
        for line in lines:
            if line.lower().startswith(b"content-length:"):
                message = "the server frames its messages by Content-Length, as language servers do"
                hint = f"MCP has one message a line. Serve POST /mcp, and pass --ask-mcp. {_SAVE}"
                raise refusal("build.unsupported", message, place, hint=hint)
            if line.startswith(b"{"):
                yield line

    def say(message: Mapping[str, Json]) -> Iterator[bytes]:
        talk.send(json.dumps(message).encode() + b"\n")
        return messages()

    return say
