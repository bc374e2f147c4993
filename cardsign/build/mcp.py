"""MCP: saved tools/list answers and those of live servers, server cards, indexes of agent skills.

No source decides what is run or fetched, so a list of servers is refused with an explanation.
A tool's `output`, notes and endpoints stay inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from cardsign.build.draft import Draft, Kind, Mappings
from cardsign.build.openfang import tool_id
from cardsign.build.reading import SourceValue, read_one
from cardsign.tomltext import Location

#: Of a server card and its `serverInfo`, and of each tool.
SERVER: Final[Mappings] = {
    "title": "name",
    "displayName": "name",
    "name": "name",
    "description": "description",
    "version": "version",
    "documentationUrl": "documentationUrl",
    "homepage": "documentationUrl",
    "homepageUrl": "documentationUrl",
    "iconUrl": "iconUrl",
    ("serverInfo", "name"): "name",
    ("serverInfo", "version"): "version",
    ("serverInfo", "description"): "description",
    ("publisher", "name"): "provider.organization",
    ("publisher", "url"): "provider.url",
}
TOOL: Final[Mappings] = {
    "title": "name",
    "name": "name",
    "description": "description",
    "inputSchema": "inputSchema",
    "outputSchema": "outputSchema",
}
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


def take_server(document: SourceValue, draft: Draft) -> None:
    """Take a server, saved or live; the id of each tool begins with the name of the server."""
    for listed in _SERVERS:
        if listed in document.members:
            raise document.get(listed).refuse(
                "build.unsupported",
                "a list of MCP servers says which programs to run, and not what they offer",
                hint="Nothing of a source is run. Pass --run-mcp COMMAND or --ask-mcp URL for the "
                "ones you trust; or save each server's answer to tools/list as JSON, and build "
                "from that.",
            )
    server, tools = None, [document]
    if "inputSchema" not in document.members:  # else it is a tool by itself
        server = document.text("name") or document.text("serverInfo", "name")
        draft.take_members(document, SERVER)
        for member in ("auth", "authentication"):
            draft.take_authentication(document.get(member))
        listed_at = (at for at in _TOOLS if isinstance(document.get(*at).value, list))
        tools = [tool for at in islice(listed_at, 1) for tool in document.rows(*at)]
    server = server or str(draft.value("name") or "")
    if not server:
        hint = "Pass --set name=NAME: the ids of its tools begin with it."
        raise document.refuse("build.missing", "no source names the server", hint=hint)
    for tool in tools:
        name = tool.text("name")
        if name is None:
            raise tool.refuse("build.missing", "the tool has no name")
        skill = tool_id("_".join("_".join(word.split()) for word in ("mcp", server, name)))
        draft.take_members(tool, TOOL, "skills", skill)
        draft.take_skill(skill, tool, tool=name)
    for listed_skill in document.rows("skills"):
        draft.take_listed_skill(listed_skill)


def _is_ours(document: SourceValue) -> bool:
    members = document.members
    if any(name in members for name in _SERVERS) and "a2a" not in members:
        return document.file.endswith((".json", ".toml")) and "name" not in members
    is_card = members.keys() >= {"capabilities", "skills"}
    is_card = is_card and ("url" in members or "supportedInterfaces" in members)
    if is_card or not document.file.endswith(".json"):
        return False
    if any(isinstance(document.get(*at).value, list) for at in _TOOLS) or "inputSchema" in members:
        return True
    marks = ("serverInfo", "schemaVersion", "transport", "$schema")
    return any(mark in members for mark in marks) and "protocolVersion" not in members


KIND: Final = Kind("mcp", take_mcp, _is_ours)
