"""OpenFang: agent.toml, HAND.toml, and the a2a table of its config.toml.

Prompts, models, settings, requirements and shell rules are never looked at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import DEFAULT_VERSION, Draft, Kind, Mappings, found_in, take_prompt
from cardsign.build.reading import SourceDocument, SourcePlace, read_one
from cardsign.card.security import PROVIDERS, derive_security
from cardsign.card.values import Json

#: Of an agent and a hand. The version is the agent's own.
AGENT: Final[Mappings] = {"name": "name", "version": "version", "description": "description"}
HAND: Final[Mappings] = {"id": "id", "name": "name", "description": "description"}
#: What OpenFang's server supports for every agent; not defaults, so the form of 0.2 has them too.
SERVER: Final[dict[str, Json]] = {
    "capabilities.streaming": True,
    "capabilities.pushNotifications": False,
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
}
_SERVER: Final = SourcePlace("OpenFang's server")
_LISTEN_PATH: Final = "/a2a"
_FILES: Final = ("agent.toml", "HAND.toml", "config.toml", "openfang.toml")


def tool_id(name: str) -> str:
    """Return the id of a tool: in lower case, without hyphens."""
    return name.lower().replace("-", "_")


def take_openfang(sources: Sequence[Path], draft: Draft) -> None:
    """Take agents, hands and configurations: files, or folders of them."""
    for source in sources:
        for file in found_in(source, _FILES) if os.path.isdir(source) else [source]:
            _take(file, draft)
    if draft.take(("version",), DEFAULT_VERSION, _SERVER):  # every card of the server has one
        draft.warn(
            "build.filled", f"no source has a version; filled in: {DEFAULT_VERSION}", _SERVER
        )
    for member, value in SERVER.items():
        draft.take(tuple(member.split(".")), value, _SERVER)
    draft.keep("stateTransitionHistory", True, _SERVER)


def _take(path: Path, draft: Draft) -> None:
    document = read_one(path)
    if _is_configuration(document):
        _take_configuration(document, draft)
    elif "id" in document.value and "tools" in document.value:
        draft.take_members(document, HAND)
        category = document.text("category")
        _take_tools(document, draft, ("tools",), (category, "tool") if category else ())
    else:
        draft.take_members(document, AGENT)
        take_prompt(document, ("model", "system_prompt"), draft)
        _take_tools(document, draft, ("capabilities", "tools"), ())


def _take_tools(
    document: SourceDocument, draft: Draft, at: tuple[str, ...], tags: tuple[str, ...]
) -> None:
    for index, tool in enumerate(document.texts(*at)):
        name, place = tool.replace("_", " "), document.place(*at, index)
        draft.take_skill(tool_id(tool), name=name, tool=tool, tags=tags, place=place)


def _take_configuration(document: SourceDocument, draft: Draft) -> None:
    """Take the listen path, and that an API key is required; the key itself is never taken."""
    if document.flag("a2a", "enabled") is False:
        draft.warn("build.changed", "A2A is switched off in it", document.place("a2a"))
    path = document.text("a2a", "listen_path")
    draft.listen_path = path or _LISTEN_PATH
    if document.get("api_key") not in (None, ""):
        derived = derive_security([("bearer", PROVIDERS["static_token"]({}))])
        draft.take_security(derived, document.place("api_key"))


def _is_configuration(document: SourceDocument) -> bool:
    marks = ("a2a", "default_model", "network", "mcp_servers")
    return "name" not in document.value and any(mark in document.value for mark in marks)


def _is_ours(document: SourceDocument) -> bool:
    value = document.value
    is_manifest = "name" in value and ("module" in value or "model" in value or "tools" in value)
    is_configuration = _is_configuration(document) and value.keys() != {"mcp_servers"}
    return document.file.endswith(".toml") and (is_manifest or is_configuration)


KIND: Final = Kind(
    "openfang",
    take_openfang,
    _is_ours,
    folder=_FILES,
    a2a="0.2",  # its server answers tasks/send
    path=lambda draft: draft.listen_path or _LISTEN_PATH,
)
