"""MCP: saved tools/list answers and those of live servers, server cards, indexes of agent skills.

No source decides what is run or fetched, so a list of servers is refused with an explanation.
A tool's `output`, notes and endpoints stay inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import Draft, Kind, Mappings
from cardsign.build.openfang import tool_id
from cardsign.build.reading import SourceDocument, of_card, read_one
from cardsign.card.security import authentication_schemes
from cardsign.errors import CardRefused
from cardsign.tomltext import Location

#: Of a server card and its `serverInfo`, and of each tool.
SERVER: Final[Mappings] = {
    "description": "description",
    "version": "version",
    "documentationUrl": "documentationUrl",
    "homepage": "documentationUrl",
    "homepageUrl": "documentationUrl",
    "iconUrl": "iconUrl",
    ("serverInfo", "version"): "version",
    ("serverInfo", "description"): "description",
    ("publisher", "name"): "provider.organization",
    ("publisher", "url"): "provider.url",
}
TOOL: Final[Mappings] = {"inputSchema": "inputSchema", "outputSchema": "outputSchema"}
#: Where the tools may be; the first place counts.
_TOOLS: Final[tuple[Location, ...]] = (
    ("tools",),
    ("result", "tools"),
    ("capabilities", "tools", "definitions"),
)
_SERVERS: Final = ("mcpServers", "mcp_servers")


def take_mcp(sources: Sequence[Path], draft: Draft) -> None:
    """Take saved servers."""
    for source in sources:
        take_server(read_one(source), draft)


def take_server(document: SourceDocument, draft: Draft) -> None:
    """Take a server, saved or live; the id of each tool begins with the name of the server."""
    listed = next((candidate for candidate in _SERVERS if candidate in document.value), None)
    if listed is not None:
        raise document.refuse(
            "build.unsupported",
            "a list of MCP servers says which programs to run, and not what they offer",
            listed,
            hint="Nothing of a source is run. Pass --run-mcp COMMAND or --ask-mcp URL for the ones "
            "you trust; or save each server's answer to tools/list as JSON, and build from that.",
        )
    is_tool = "inputSchema" in document.value
    if not is_tool:
        _take_server(document, draft)
    server = None if is_tool else document.text("name") or document.text("serverInfo", "name")
    server = server or str(draft.value("name") or "")
    if not server:
        hint = "Pass --set name=NAME: the ids of its tools begin with it."
        raise document.refuse("build.missing", "no source names the server", hint=hint)
    tools = next((at for at in _TOOLS if isinstance(document.get(*at), list)), None)
    for at in [()] if is_tool else document.rows(*tools) if tools else ():
        _take_tool(document, at, server, draft)
    for at in document.rows("skills"):
        draft.take_listed_skill(document, at)


def _take_server(document: SourceDocument, draft: Draft) -> None:
    name = document.text("name") or document.text("serverInfo", "name")
    if name is not None:
        name = document.text("title") or document.text("displayName") or name
        draft.take(("name",), name, document.place("name"))
    draft.take_members(document, SERVER)
    for member in ("auth", "authentication"):
        member_value = document.get(member)
        if member_value is None:
            continue
        try:
            draft.take_security(authentication_schemes(member_value), document.place(member))
        except CardRefused as refused:
            raise of_card(refused, document.place(member)) from refused


def _take_tool(document: SourceDocument, at: Location, server: str, draft: Draft) -> None:
    tool = document.text(*at, "name")
    if tool is None:
        raise document.refuse("build.missing", "the tool has no name", *at)
    words = ("_".join(word.split()) for word in ("mcp", server, tool))
    skill = tool_id("_".join(words))
    title = document.text(*at, "title") or tool
    text = document.text(*at, "description")
    place = document.place(*at)
    draft.take_skill(skill, name=title, tool=tool, description=text, place=place)
    draft.take_members(document, TOOL, at=at, to=("skills", skill))


def _is_ours(document: SourceDocument) -> bool:
    value = document.value
    if any(mark in value for mark in _SERVERS) and "a2a" not in value:
        return document.file.endswith((".json", ".toml")) and "name" not in value
    is_card = "capabilities" in value and "skills" in value
    is_card = is_card and ("url" in value or "supportedInterfaces" in value)
    if is_card or not document.file.endswith(".json"):
        return False
    if any(isinstance(document.get(*mark), list) for mark in _TOOLS) or "inputSchema" in value:
        return True
    marks = ("serverInfo", "schemaVersion", "transport", "$schema")
    return any(mark in value for mark in marks) and "protocolVersion" not in value


KIND: Final = Kind("mcp", take_mcp, _is_ours)
