"""Ask live MCP servers for their tools; the result is the same as a saved tools/list answer.

A server is asked by the client of the mcp package (extra ``mcp``): over streamable HTTP by the
rules of :mod:`cardsign.net` and without credentials, or as a program over stdio.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cardsign.build.reading import MAX_SOURCE_BYTES, SourceValue, read_json
from cardsign.errors import UsageFault, require
from cardsign.findings import cut
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings

if TYPE_CHECKING:
    from cardsign.net.guarded import McpTransport

#: Shows a note to the user; None where nobody is there to read one.
Say: TypeAlias = Callable[[str], object] | None

MAX_PAGES: Final = 100
MAX_TOOLS: Final = 5000
SECONDS: Final = 60.0  # for a server in all, the installation of a program by npx or uvx included
#: A program that is silent for longer gets a note that says why it may be.
SILENT_SECONDS: Final = 8.0


def ask_servers(
    asked: Sequence[str],
    run: Sequence[str],
    settings: FetchSettings = DEFAULT_SETTINGS,
    say: Say = None,
) -> tuple[SourceValue, ...]:
    """Ask MCP servers by URL, and run those that are local programs.

    Servers are asked over streamable HTTP. Programs are run here and without a shell, and asked
    over stdio; they inherit the few variables that the mcp package hands on.

    Args:
        asked: URLs.
        run: Commands.
        settings: How URLs are reached.
        say: Takes a note on a program that has not answered for some seconds.

    Raises:
        UsageFault: ``usage.not_installed``: the extra mcp is not; ``usage.invalid``: what is to be
            run is no command.
        FetchFailed: ``fetch.*``: a server may not be asked, or cannot be.
        BuildRefused: ``build.*``: a server gives no list of tools, or too long a one.
    """
    require("mcp.client", extra="mcp")
    # Without a handler Python prints what the SDK logs about a server's messages to stderr.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    return (*(_ask(url, settings) for url in asked), *(_run(command, say) for command in run))


def _ask(url: str, settings: FetchSettings) -> SourceValue:
    from mcp.client.streamable_http import streamable_http_client

    from cardsign.net.guarded import McpTransport

    guard = McpTransport(url, replace(settings, max_bytes=2 * MAX_SOURCE_BYTES))
    server = streamable_http_client(url, http_client=guard.client())
    return _list_tools(server, SourceValue(url), guard=guard)


def _run(command: str, say: Say) -> SourceValue:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    try:
        name, *arguments = shlex.split(command)
    except ValueError as exc:  # no word at all, or a quote that is never closed
        raise UsageFault("usage.invalid", "--run-mcp takes PROGRAM ARGUMENT...") from exc
    place = SourceValue(f"--run-mcp {name}")  # without arguments, which may hold a secret
    with open(os.devnull, "w") as nowhere:
        server = stdio_client(StdioServerParameters(command=name, args=arguments), nowhere)
        return _list_tools(server, place, say=say)


def _list_tools(
    server: Any, place: SourceValue, *, guard: McpTransport | None = None, say: Say = None
) -> SourceValue:
    """Return a server's name, version and tools, as a document without lines."""
    try:
        # In its own thread, because the caller's may be running an event loop.
        with ThreadPoolExecutor(1) as thread:
            asking = thread.submit(asyncio.run, _ask_for_tools(server))
            if say and wait([asking], SILENT_SECONDS).not_done:
                say(f"no answer yet: does it frame messages with Content-Length? ({place.file})")
            answer = asking.result()
    except Exception as exc:  # noqa: BLE001  the boundary: the client raises groups of anything
        if guard is not None and guard.failure is not None:
            raise guard.failure from None
        cause: BaseException = exc
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        problem = cut(str(cause).partition("\n")[0]) or type(cause).__name__
        if isinstance(cause, TimeoutError):
            problem = f"no answer in {SECONDS:.0f} s, as if it framed messages with Content-Length"
        message = f"the server gave no list of tools: {problem}"
        hint = "Serve POST /mcp for --ask-mcp; or save its answer to tools/list and build from it."
        raise place.refuse("build.unsupported", message, hint=hint) from None
    data = json.dumps(answer).encode()
    if len(answer["tools"]) > MAX_TOOLS or len(data) > MAX_SOURCE_BYTES or answer["nextCursor"]:
        message = f"it lists more than {MAX_TOOLS} tools, {MAX_SOURCE_BYTES} bytes of them, or "
        raise place.refuse("build.limit", f"{message}{MAX_PAGES} pages")
    return replace(read_json(data, place.file), lines={(): 0})


async def _ask_for_tools(server: Any) -> dict[str, Any]:
    from mcp.client import Client

    def dump(model: Any) -> Any:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True)

    tools: list[Any] = []
    cursor: str | None = None
    async with asyncio.timeout(SECONDS), Client(server, cache=None) as client:
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += map(dump, page.tools)
            cursor = page.next_cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                break
        info = client.server_info
    return {"serverInfo": dump(info) if info else {}, "tools": tools, "nextCursor": cursor}
