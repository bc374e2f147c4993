"""A card's skills held against a saved answer to MCP's `tools/list`. Pure: bytes in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extensions import skill_schemas
from cardsign.card.strictjson import MAX_CARD_BYTES, parse_object
from cardsign.card.values import Json
from cardsign.diff.cards import CardDiff
from cardsign.diff.schemas import Change, compare_schemas
from cardsign.errors import CardRefused
from cardsign.findings import Finding, Place, cap_findings

#: A manifest of tools may be larger than a card: it has what a card leaves out.
MAX_MANIFEST_BYTES: Final = 4 * MAX_CARD_BYTES
_MAX_NAME: Final = 512  # characters of a skill's name in which a tool's is looked for


def diff_tools(
    untrusted_card: bytes, untrusted_manifest: bytes, *, names: tuple[str, str] = ("", "")
) -> CardDiff:
    """Compare the input schemas of a card's skills with a recorded manifest of tools.

    A tool belongs to the skill whose id it has, without department and in snake_case; or, of what
    ``cardsign build`` made of MCP tools, to ``mcp_SERVER_TOOL``.

    Args:
        untrusted_card: The card.
        untrusted_manifest: ``{"tools": [{"name", "inputSchema"}]}``, as MCP's `tools/list`, or a
            whole answer to it with the same under ``result``.
        names: What the two are called in the report.

    Raises:
        JsonRefused, CardRefused: One of them cannot be read, or is no card or manifest.
    """
    document = Card.from_bytes(untrusted_card).document
    manifest = parse_object(untrusted_manifest, max_bytes=MAX_MANIFEST_BYTES)
    answer = manifest.get("result")
    tools = answer.get("tools") if isinstance(answer, dict) else manifest.get("tools")
    if not isinstance(tools, list):
        raise CardRefused("card.type", "expected a list of tools", path="/tools")
    changes = (
        Finding(f"diff.{effect}", message, Place(where))
        for effect, where, message in _list_changes(document, tools)
        if effect != "wording"
    )
    version = document.get("version")
    return CardDiff(version, None, cap_findings(changes), names, must_be_same=True)


def _list_changes(document: Mapping[str, Json], tools: list[Json]) -> Iterator[Change]:
    tools_by_name: dict[str, list[dict[str, Json]]] = {}
    for tool_entry in tools:
        if isinstance(tool_entry, dict):
            tools_by_name.setdefault(_plain(str(tool_entry.get("name"))), []).append(tool_entry)
    for name, namesakes in tools_by_name.items():
        if len(namesakes) > 1:  # which one is called, nobody can tell
            yield "unclear", name, f"the manifest has {len(namesakes)} tools of this name"
    compared: set[str] = set()
    for skill in skill_schemas(document):
        if skill.kind != "input_schema":
            continue
        name = _tool_of(_plain(skill.skill), tools_by_name)
        if name in compared:
            yield "unclear", skill.skill, "another skill of the card has this name"
            continue
        compared.add(name)
        if name not in tools_by_name:
            yield "breaking", skill.skill, "the manifest has no such tool"
        elif len(tools_by_name[name]) == 1:
            (tool,) = tools_by_name[name]
            schema = tool.get("inputSchema", tool.get("input_schema"))
            yield from compare_schemas(skill.schema, schema, "input", skill.skill)
    for name in (name for name in tools_by_name if name not in compared):
        yield "additive", name, "the card has no such skill with a schema"


def _tool_of(skill: str, tools: Collection[str]) -> str:
    """The tool of a skill: its own name, or what stands behind ``mcp_`` and the server's name."""
    if skill in tools or not skill.startswith("mcp_") or len(skill) > _MAX_NAME:
        return skill
    words = skill.split("_")[2:]
    rests = ("_".join(words[at:]) for at in range(len(words)))
    return next((rest for rest in rests if rest in tools), skill)


def _plain(name: str) -> str:
    """A name as tools and skills share it."""
    return re.sub(r"[^a-z0-9]+", "_", name.rpartition(".")[2].lower()).strip("_")
