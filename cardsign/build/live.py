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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from cardsign import programs
from cardsign.build.reading import MAX_SOURCE_BYTES, SourceDocument, SourcePlace, read_json, refusal
from cardsign.card.values import Json
from cardsign.errors import UsageFault
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, user_agent
from cardsign.net.mcp import PROTOCOL, SAVE_IT, Say, lines_of, mcp_peer

MAX_PAGES: Final = 100
MAX_TOOLS: Final = 5000
SECONDS: Final = 60.0  # for a program in all, its installation by npx or uvx included

Ask: TypeAlias = Callable[[], SourceDocument]


def live_servers(
    asked: Sequence[str], run: Sequence[str], settings: FetchSettings = DEFAULT_SETTINGS
) -> tuple[Ask, ...]:
    """What asks servers by URL, and runs those that are programs of this machine.

    Raises:
        TypeError: A text stands where texts belong.
    """
    if isinstance(asked, str) or isinstance(run, str):
        raise TypeError("ask_mcp and run_mcp are lists of str")
    running = (run_mcp(command, os.environ) for command in run)
    return (*(ask_mcp(url, settings) for url in asked), *running)


def ask_mcp(url: str, settings: FetchSettings = DEFAULT_SETTINGS) -> Ask:
    """What asks a server over streamable HTTP, or over SSE where it does not speak that.

    Raises, when it is called:
        FetchFailed: ``fetch.*``: it may not be asked, or cannot be.
        BuildRefused: ``build.*``: it gives no list of tools, or too long a one.
    """

    def ask() -> SourceDocument:
        with mcp_peer(url, settings, seconds=SECONDS, max_bytes=2 * MAX_SOURCE_BYTES) as say:
            return _listed(say, url)

    return ask


def run_mcp(command: str, environment: Mapping[str, str], *, seconds: float = SECONDS) -> Ask:
    """What runs a program, here and without a shell, and asks it over stdio.

    It inherits :data:`cardsign.programs.INHERITED` and no other variable.

    Raises, when it is called:
        UsageFault: ``usage.invalid``: it is no command.
        BuildRefused: ``build.*``: it gives no list of tools, or too long a one.
    """

    def ask() -> SourceDocument:
        try:
            name, *arguments = shlex.split(command)
        except ValueError as exc:  # no word at all, or a quote that is never closed
            raise UsageFault("usage.invalid", "--run-mcp takes PROGRAM ARGUMENT...") from exc
        place = SourcePlace(f"--run-mcp {name}")  # without arguments, which may hold a secret
        inherited = programs.inherited(environment)
        path = shutil.which(name, path=inherited.get("PATH"))
        if path is None:
            hint = "Install it, or give its whole path."
            message = f"there is no program {name!r}"
            raise refusal("build.unsupported", message, place, hint=hint)
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
            hint = f"Run the command in a shell, and read what it says. {SAVE_IT}"
            raise refusal("build.unsupported", message, place, hint=hint) from exc

    return ask


def _listed(say: Say, name: str) -> SourceDocument:
    """A server's name, version and tools, as a document without lines.

    Raises:
        BuildRefused, FetchFailed: As :func:`ask_mcp`.
    """
    place = SourcePlace(name)

    def ask(call: int, method: str, parameters: dict[str, Json]) -> SourceDocument:
        request: dict[str, Json] = {"jsonrpc": "2.0", "id": call, "method": method}
        request["params"] = parameters
        for data in say(request):
            (answer,) = read_json(data, name)
            if answer.get("id") != call or "method" in answer.value:
                continue  # a notification, or a question of its own
            if (error := answer.get("error")) is not None:
                shown = json.dumps(error)[:200]
                message = f"{method} gave an error: {shown}"
                raise refusal("build.unsupported", message, place, hint=SAVE_IT)
            return SourceDocument(name, answer.table("result"), {(): 0})
        message = f"the server gave no answer to {method}"
        raise refusal("build.unsupported", message, place, hint=f"Is it an MCP server? {SAVE_IT}")

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
            return SourceDocument(name, {"serverInfo": info, "tools": tools}, {(): 0})
    raise refusal("build.limit", f"its tools have more than {MAX_PAGES} pages", place)


# ------------------------------------------------------------------ stdio


def _over_stdio(talk: programs.Conversation, place: SourcePlace) -> Say:
    """One message a line; a line that is none, such as a greeting, is passed over."""
    lines = lines_of(iter(talk.receive, b""))

    def messages() -> Iterator[bytes]:
        for line in lines:
            if line.lower().startswith(b"content-length:"):
                message = "the server frames its messages by Content-Length, as language servers do"
                hint = f"MCP has one message a line. Serve POST /mcp, and pass --ask-mcp. {SAVE_IT}"
                raise refusal("build.unsupported", message, place, hint=hint)
            if line.startswith(b"{"):
                yield line
        talk.check_end()  # it says no more: how it ended is why

    def say(message: Mapping[str, Json]) -> Iterator[bytes]:
        talk.send(json.dumps(message).encode() + b"\n")
        return messages()

    return say
