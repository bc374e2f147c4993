"""OpenFang: agent.toml, HAND.toml, and the a2a table of its config.toml.

Prompts, models, settings, requirements and shell rules are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cardsign.build.draft import DEFAULT_VERSION, NO_VERSION, OURS, Draft, Kind, Mappings, Target
from cardsign.build.reading import SourceValue, find_files, read_one
from cardsign.card.values import Json

#: Of an agent and a hand. The version is the agent's own.
AGENT: Final[Mappings] = {"name": "name", "version": "version", "description": "description"}
HAND: Final[Mappings] = {"id": "id", "name": "name", "description": "description"}
#: What OpenFang's server supports for every agent; not defaults, so the form of 0.2 has them too.
SERVER: Final[dict[Target, Json]] = {
    ("capabilities", "streaming"): True,
    ("capabilities", "pushNotifications"): False,
    ("defaultInputModes",): ["text/plain"],
    ("defaultOutputModes",): ["text/plain"],
    (OURS, "stateTransitionHistory"): True,
}
_SERVER: Final = SourceValue("OpenFang's server")
_LISTEN_PATH: Final = "/a2a"
_FILES: Final = ("agent.toml", "HAND.toml", "config.toml", "openfang.toml")


def tool_id(name: str) -> str:
    """Return the id of a tool: in lower case, without hyphens."""
    return name.lower().replace("-", "_")


def take_openfang(sources: Sequence[Path], draft: Draft) -> None:
    """Take agents, hands and configurations: files, or folders of them."""
    for source in sources:
        for file in find_files(source, _FILES):
            _take(read_one(file), draft)
    draft.fill(("version",), DEFAULT_VERSION, NO_VERSION, _SERVER)  # every card of it has one
    for target, value in SERVER.items():
        draft.take(target, value, _SERVER)


def _take(document: SourceValue, draft: Draft) -> None:
    if _is_configuration(document):
        _take_configuration(document, draft)
        return
    is_hand = document.members.keys() >= {"id", "tools"}
    tools = document.get(*([] if is_hand else ["capabilities"]), "tools")
    category = document.text("category") if is_hand else None
    draft.take_members(document, HAND if is_hand else AGENT)
    draft.take_prompt(document.get("model", "system_prompt"))
    for index, tool in enumerate(tools.texts()):
        name, place = tool.replace("_", " "), tools.get(index)
        tags = [category, "tool"] if category else []
        draft.take_skill(tool_id(tool), place, name=name, tool=tool, tags=tags)


def _take_configuration(document: SourceValue, draft: Draft) -> None:
    """Take the listen path, and that an API key is required; the key itself is never taken."""
    if document.read(bool, "a2a", "enabled") is False:
        draft.note("build.changed", "A2A is switched off in it", document.get("a2a"))
    draft.listen_path = document.text("a2a", "listen_path")
    key = document.get("api_key")
    if key.value not in (None, ""):
        draft.take_authentication(replace(key, value={"type": "bearer"}))


def _is_configuration(document: SourceValue) -> bool:
    marks = {"a2a", "default_model", "network", "mcp_servers"}
    return "name" not in document.members and not marks.isdisjoint(document.members)


def _is_ours(document: SourceValue) -> bool:
    members = document.members
    is_manifest = "name" in members and not {"module", "model", "tools"}.isdisjoint(members)
    is_configuration = _is_configuration(document) and members.keys() != {"mcp_servers"}
    return document.file.endswith(".toml") and (is_manifest or is_configuration)


KIND: Final = Kind(
    "openfang",
    take_openfang,
    _is_ours,
    folder=_FILES,
    a2a="0.2",  # its server answers tasks/send
    path=lambda draft: draft.listen_path or _LISTEN_PATH,
)
