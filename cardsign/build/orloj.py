"""Orloj: an AgentSystem, its Agents and their Tools, resolved across files and namespaces.

A Tool's endpoint, `auth` and runtime stay inside. What Orloj takes from its server comes
from ``[build.orloj]`` of cardsign.toml.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.build.draft import Draft, Kind, Mappings, found_in, take_prompt
from cardsign.build.reading import (
    SourceDocument,
    SourcePlace,
    of_card,
    read_source,
    refusal,
)
from cardsign.card.security import authentication_schemes
from cardsign.errors import CardRefused
from cardsign.findings import describe_code
from cardsign.tomltext import Location

API_VERSION: Final = "orloj.dev/v1"
_FILES: Final = ("**/*.yaml", "**/*.yml")
_DEFAULT_NAMESPACE: Final = "default"
#: Of an Agent, an AgentSystem and a Tool.
AGENT: Final[Mappings] = {("metadata", "annotations", "orloj.dev/description"): "description"}
SYSTEM: Final[Mappings] = {**AGENT, ("metadata", "labels", "orloj.dev/version"): "version"}
TOOL: Final[Mappings] = {
    ("spec", "description"): "description",
    ("spec", "input_schema"): "inputSchema",
}
_SETTINGS: Final = SourcePlace("cardsign.toml [build.orloj]")


#: The kind, namespace and name of a resource.
_Key: TypeAlias = tuple[str, str, str]
#: All resources of all sources, in their order.
_Pool: TypeAlias = dict[_Key, SourceDocument]


def _add(document: SourceDocument, pool: _Pool) -> None:
    """Add a resource; one of another apiVersion is refused."""
    version, kind = document.text("apiVersion"), document.text("kind")
    if version != API_VERSION:
        message = f"apiVersion {version!r} is not read; {API_VERSION} is"
        hint = "Write the resource in that version."
        raise document.refuse("build.unsupported", message, "apiVersion", hint=hint)
    name = document.text("metadata", "name")
    if name is None or kind is None:
        raise document.refuse("build.missing", "a resource needs kind and metadata.name")
    namespace = document.text("metadata", "namespace") or _DEFAULT_NAMESPACE
    if (kind, namespace, name) in pool:
        message = f"{kind} {namespace}/{name} is defined twice"
        raise document.refuse("build.reference", message, "metadata", "name")
    pool[kind, namespace, name] = document


def _follow(kind: str, owner: _Key, at: Location, pool: _Pool) -> Iterator[_Key]:
    """Yield the resources that a list names, in the namespace of its owner unless a name has one.

    Raises:
        BuildRefused: ``build.reference``: there is no such resource.
    """
    for index, reference in enumerate(pool[owner].texts(*at)):
        namespace, slash, name = reference.partition("/")
        key = (kind, namespace, name) if slash else (kind, owner[1], reference)
        if key not in pool:
            missing = "/".join(key[1:])
            message = f"no source defines the {kind} {missing} that {owner[2]!r} names"
            raise pool[owner].refuse("build.reference", message, *at, index)
        yield key


def take_orloj(sources: Sequence[Path], draft: Draft) -> None:
    """Take the one system of all sources, or the one that `agent` names."""
    pool: _Pool = {}
    for source in sources:
        for path in found_in(source, _FILES) if os.path.isdir(source) else (source,):
            for document in read_source(path):
                if "apiVersion" in document.value or path in sources:
                    _add(document, pool)
    system = _choose(pool, draft.options.agent, SourcePlace(str(sources[0])))
    document = pool[system]
    draft.take(("name",), system[2], document.place("metadata", "name"))
    draft.take_members(document, SYSTEM)
    _take_settings(draft)
    agents = [system]
    if system[0] == "AgentSystem":
        agents = list(_follow("Agent", system, ("spec", "agents"), pool))
    for agent in agents:
        _take_agent(agent, pool, draft)


def _choose(pool: _Pool, agent: str | None, place: SourcePlace) -> _Key:
    systems = [key for key in pool if key[0] == "AgentSystem"]
    systems = systems or [key for key in pool if key[0] == "Agent"]
    if not systems:
        message = "no source defines an AgentSystem or an Agent"
        raise refusal("build.missing", message, place, hint=describe_code("build.reference").fix)
    fitting = [key for key in systems if agent in (key[2], f"{key[1]}/{key[2]}")]
    if agent is None:
        enabled = [key for key in systems if pool[key].flag("spec", "a2a", "enabled")]
        fitting = systems if len(systems) == 1 else enabled
    if len(fitting) != 1:
        names = ", ".join(f"{key[1]}/{key[2]}" for key in systems[:10])
        message = f"several agents are defined, and none was chosen: {names}"
        if agent is not None:
            count = "several agents have" if fitting else "no agent has"
            message = f"{count} the name {agent!r}; defined are: {names}"
        raise refusal("build.reference", message, place, hint="Name one: --agent NAMESPACE/NAME.")
    (system,) = fitting
    at = ("spec", "a2a", "enabled")
    if pool[system].flag(*at) is False:
        raise pool[system].refuse(
            "build.switched_off", f"A2A is switched off for {system[2]!r}", *at
        )
    return system


def _take_agent(agent: _Key, pool: _Pool, draft: Draft) -> None:
    document = pool[agent]
    draft.take_members(document, AGENT)
    take_prompt(document, ("spec", "prompt"), draft)
    for tool in _follow("Tool", agent, ("spec", "tools"), pool):
        _take_tool(tool[2], pool[tool], draft)


def _take_tool(tool: str, document: SourceDocument, draft: Draft) -> None:
    tags = [*document.texts("spec", "capabilities"), *document.texts("spec", "operation_classes")]
    draft.take_members(document, TOOL, to=("skills", tool))
    draft.take_skill(tool, tool=tool, place=document.place("metadata", "name"), tags=tags)


def _take_settings(draft: Draft) -> None:
    settings = draft.options.orloj
    live = {"streaming": settings.streaming, "pushNotifications": settings.push_notifications}
    for name, value in live.items():
        draft.take(("capabilities", name), value, _SETTINGS)
    draft.keep("stateTransitionHistory", settings.state_transition_history, _SETTINGS)
    draft.take(("provider", "organization"), settings.organization, _SETTINGS)
    draft.take(("provider", "url"), settings.organization_url, _SETTINGS)
    try:
        derived = authentication_schemes({"schemes": list(settings.auth)})
    except CardRefused as refused:
        raise of_card(refused, _SETTINGS) from refused
    draft.take_security(derived, _SETTINGS)


KIND: Final = Kind(
    "orloj",
    take_orloj,
    lambda document: "apiVersion" in document.value and "kind" in document.value,
    folder=("*.yaml", "*.yml", "*/*.yaml"),
    path=lambda draft: f"/v1/agent-systems/{draft.value('name')}/a2a",
)
