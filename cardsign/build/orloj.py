"""Orloj: an AgentSystem, its Agents and their Tools, resolved across files and namespaces.

A Tool's endpoint, `auth` and runtime stay inside. What Orloj takes from its server comes
from ``[build.orloj]`` of cardsign.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from cardsign.build.draft import Draft, Kind, Mappings
from cardsign.build.reading import SourceValue, find_files, read_source
from cardsign.findings import describe_code

API_VERSION: Final = "orloj.dev/v1"
_FILES: Final = ("**/*.yaml", "**/*.yml")
_DEFAULT_NAMESPACE: Final = "default"
#: Of an Agent, an AgentSystem, a Tool, and of the settings.
AGENT: Final[Mappings] = {("metadata", "annotations", "orloj.dev/description"): "description"}
SYSTEM: Final[Mappings] = {
    ("metadata", "name"): "name",
    **AGENT,
    ("metadata", "labels", "orloj.dev/version"): "version",
}
TOOL: Final[Mappings] = {
    ("spec", "description"): "description",
    ("spec", "input_schema"): "inputSchema",
}
SETTINGS: Final[Mappings] = {
    "streaming": "capabilities.streaming",
    "push_notifications": "capabilities.pushNotifications",
    "state_transition_history": "stateTransitionHistory",
    "organization": "provider.organization",
    "organization_url": "provider.url",
}


#: The kind, namespace and name of a resource.
_Key: TypeAlias = tuple[str, str, str]
#: All resources of all sources, in their order.
_Pool: TypeAlias = dict[_Key, SourceValue]


def take_orloj(sources: Sequence[Path], draft: Draft) -> None:
    """Take the one system of all sources, or the one that `agent` names."""
    pool: _Pool = {}
    for source in sources:
        for path in find_files(source, _FILES):
            for document in read_source(path):
                if "apiVersion" in document.members or path == source:
                    _add(document, pool)
    system = _choose(pool, draft.options.agent, SourceValue(str(sources[0])))
    draft.take_members(pool[system], SYSTEM)
    settings: Any = draft.options.orloj.model_dump(mode="json")
    server = SourceValue("cardsign.toml [build.orloj]", settings)
    draft.take_members(server, SETTINGS)
    draft.take_authentication(server.get("auth"))
    is_alone = system[0] == "Agent"
    for agent in [system] if is_alone else _follow("Agent", system, pool, "spec", "agents"):
        draft.take_members(pool[agent], AGENT)
        draft.take_prompt(pool[agent].get("spec", "prompt"))
        for tool in _follow("Tool", agent, pool, "spec", "tools"):
            _take_tool(pool[tool], tool[2], draft)


def _take_tool(document: SourceValue, name: str, draft: Draft) -> None:
    tags = document.texts("spec", "capabilities") + document.texts("spec", "operation_classes")
    draft.take_members(document, TOOL, "skills", name)
    draft.take_skill(name, document.get("metadata", "name"), tool=name, tags=tags)


def _add(document: SourceValue, pool: _Pool) -> None:
    """Add a resource; one of another apiVersion is refused."""
    version, kind = document.text("apiVersion"), document.text("kind")
    if version != API_VERSION:
        message = f"apiVersion {version!r} is not read; {API_VERSION} is"
        hint = "Write the resource in that version."
        raise document.get("apiVersion").refuse("build.unsupported", message, hint=hint)
    name = document.text("metadata", "name")
    if name is None or kind is None:
        raise document.refuse("build.missing", "a resource needs kind and metadata.name")
    key = (kind, document.text("metadata", "namespace") or _DEFAULT_NAMESPACE, name)
    if key in pool:
        message = f"{kind} {'/'.join(key[1:])} is defined twice"
        raise document.get("metadata", "name").refuse("build.reference", message)
    pool[key] = document


def _follow(kind: str, owner: _Key, pool: _Pool, *at: str) -> Iterator[_Key]:
    """Yield the resources that a list names, in the namespace of its owner unless a name has one.

    Raises:
        BuildRefused: ``build.reference``: there is no such resource.
    """
    for index, reference in enumerate(pool[owner].texts(*at)):
        namespace, slash, name = reference.partition("/")
        key = (kind, namespace, name) if slash else (kind, owner[1], reference)
        if key not in pool:
            missing = f"{kind} {'/'.join(key[1:])}"
            message = f"no source defines the {missing} that {owner[2]!r} names"
            raise pool[owner].get(*at, index).refuse("build.reference", message)
        yield key


def _choose(pool: _Pool, agent: str | None, place: SourceValue) -> _Key:
    systems = [key for key in pool if key[0] == "AgentSystem"]
    systems = systems or [key for key in pool if key[0] == "Agent"]
    if not systems:
        message = "no source defines an AgentSystem or an Agent"
        raise place.refuse("build.missing", message, hint=describe_code("build.reference").fix)
    at = ("spec", "a2a", "enabled")
    if agent is not None:
        fitting = [key for key in systems if agent in (key[2], f"{key[1]}/{key[2]}")]
    elif len(systems) > 1:
        fitting = [key for key in systems if pool[key].read(bool, *at)]
    else:
        fitting = systems
    if len(fitting) != 1:
        names = ", ".join(f"{key[1]}/{key[2]}" for key in systems[:10])
        message = f"several agents are defined, and none was chosen: {names}"
        if agent is not None:
            count = "several agents have" if fitting else "no agent has"
            message = f"{count} the name {agent!r}; defined are: {names}"
        raise place.refuse("build.reference", message, hint="Name one: --agent NAMESPACE/NAME.")
    (system,) = fitting
    if pool[system].read(bool, *at) is False:
        message = f"A2A is switched off for {system[2]!r}"
        raise pool[system].get(*at).refuse("build.switched_off", message)
    return system


KIND: Final = Kind(
    "orloj",
    take_orloj,
    lambda document: document.members.keys() >= {"apiVersion", "kind"},
    folder=("*.yaml", "*.yml", "*/*.yaml"),
    path=lambda draft: f"/v1/agent-systems/{draft.value('name')}/a2a",
)
