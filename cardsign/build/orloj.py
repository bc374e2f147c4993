"""Orloj: an AgentSystem, its Agents and their Tools, resolved across files and namespaces.

A Tool's endpoint, `auth` and runtime stay inside (L23). What Orloj takes from its server comes
from ``[build.orloj]`` of cardsign.toml (L21).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.build.draft import BuildOptions, Draft, Kind, found_in, take_prompt
from cardsign.build.reading import (
    Location,
    SourceDocument,
    SourcePlace,
    of_card,
    read_source,
    refusal,
)
from cardsign.card.security import authentication_schemes
from cardsign.card.values import Json
from cardsign.errors import BuildRefused, CardRefused, FileFault
from cardsign.reasons import hint_for

API_VERSION: Final = "orloj.dev/v1"
_FILES: Final = ("**/*.yaml", "**/*.yml")
_DEFAULT_NAMESPACE: Final = "default"
_DESCRIPTION: Final = ("metadata", "annotations", "orloj.dev/description")
_VERSION: Final = ("metadata", "labels", "orloj.dev/version")
_SETTINGS: Final = SourcePlace("cardsign.toml [build.orloj]")


@dataclass(frozen=True, slots=True)
class _Resource:
    """One resource by its kind, namespace and name."""

    kind: str
    namespace: str
    name: str
    document: SourceDocument


#: All resources of all sources, in their order, by kind, namespace and name.
_Pool: TypeAlias = dict[tuple[str, str, str], _Resource]


def _add(document: SourceDocument, pool: _Pool) -> None:
    """Add a resource; one of another apiVersion is refused (L18)."""
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
    pool[kind, namespace, name] = _Resource(kind, namespace, name, document)


def _find(kind: str, owner: _Resource, at: Location, reference: str, pool: _Pool) -> _Resource:
    """What a name refers to: in its owner's namespace, or in the one that it names (L20)."""
    before, slash, after = reference.partition("/")
    namespace, name = (before, after) if slash else (owner.namespace, reference)
    if found := pool.get((kind, namespace, name)):
        return found
    message = f"no source defines the {kind} {namespace}/{name} that {owner.name!r} names"
    raise owner.document.refuse("build.reference", message, *at)


def take_orloj(sources: Sequence[Path], draft: Draft, options: BuildOptions) -> None:
    """Take the one system of all sources, or the one that `agent` names."""
    pool: _Pool = {}
    files = (
        file
        for source in sources
        for file in (found_in(source, _FILES, draft) if os.path.isdir(source) else (source,))
    )
    for path in files:
        try:
            for document in read_source(path):
                if "apiVersion" in document.value or path in sources:
                    _add(document, pool)
        except (BuildRefused, FileFault) as refused:
            draft.leave_out(refused)
    system = _chosen(pool, options.agent, SourcePlace(str(sources[0])))
    document = system.document
    draft.take(("name",), system.name, document.place("metadata", "name"))
    draft.take(("description",), document.text(*_DESCRIPTION), document.place(*_DESCRIPTION))
    draft.take(("version",), document.text(*_VERSION), document.place(*_VERSION))
    _take_settings(draft, options)
    for agent in _agents(system, pool, draft):
        _take_agent(agent, pool, draft, options)


def _chosen(pool: _Pool, wanted: str | None, place: SourcePlace) -> _Resource:
    systems = [one for one in pool.values() if one.kind == "AgentSystem"]
    systems = systems or [one for one in pool.values() if one.kind == "Agent"]
    enabled = [one for one in systems if one.document.flag("spec", "a2a", "enabled")]
    if wanted is not None:
        found = [one for one in systems if wanted in (one.name, f"{one.namespace}/{one.name}")]
    else:
        found = systems if len(systems) == 1 else enabled
    if len(found) == 1:
        one = found[0]
        if one.document.flag("spec", "a2a", "enabled") is False:
            message = f"A2A is switched off for {one.name!r}"
            hint = "Set spec.a2a.enabled to true, or name another: --agent NAMESPACE/NAME."
            at = ("spec", "a2a", "enabled")
            raise one.document.refuse("build.unsupported", message, *at, hint=hint)
        return one
    if not systems:
        message = "no source defines an AgentSystem or an Agent"
        raise refusal("build.missing", message, place, hint=hint_for("build.reference"))
    names = ", ".join(f"{one.namespace}/{one.name}" for one in systems[:10])
    message = f"there are {len(systems)} agents, and which one is meant is not clear: {names}"
    if wanted is not None and not found:
        message = f"there is no agent {wanted!r}; there are {names}"
    raise refusal("build.reference", message, place, hint="Name one: --agent NAMESPACE/NAME.")


def _agents(system: _Resource, pool: _Pool, draft: Draft) -> Iterator[_Resource]:
    if system.kind == "Agent":
        yield system
        return
    for index, name in enumerate(system.document.texts("spec", "agents")):
        try:
            yield _find("Agent", system, ("spec", "agents", index), name, pool)
        except BuildRefused as refused:
            draft.leave_out(refused)


def _take_agent(agent: _Resource, pool: _Pool, draft: Draft, options: BuildOptions) -> None:
    document = agent.document
    draft.take(("description",), document.text(*_DESCRIPTION), document.place(*_DESCRIPTION))
    take_prompt(document, ("spec", "prompt"), draft, options)
    for index, name in enumerate(document.texts("spec", "tools")):
        try:
            _take_tool(_find("Tool", agent, ("spec", "tools", index), name, pool), draft)
        except BuildRefused as refused:
            draft.leave_out(refused)


def _take_tool(tool: _Resource, draft: Draft) -> None:
    document = tool.document
    tags = [*document.texts("spec", "capabilities"), *document.texts("spec", "operation_classes")]
    draft.take_skill(
        tool.name,
        name=tool.name,
        tool=tool.name,
        description=document.text("spec", "description"),
        place=document.place("metadata", "name"),
        described=document.place("spec", "description"),
        tags=tags,
    )
    schema: Json = document.table("spec", "input_schema")
    place = document.place("spec", "input_schema")
    draft.keep_of_skill(tool.name, "inputSchema", schema, place)


def _take_settings(draft: Draft, options: BuildOptions) -> None:
    settings = options.orloj
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
    "an Orloj AgentSystem with its Agents and Tools: files, or their folder",
    take_orloj,
    lambda document: "apiVersion" in document.value and "kind" in document.value,
    folder=("*.yaml", "*.yml", "*/*.yaml"),
    path=lambda draft: f"/v1/agent-systems/{draft.value('name')}/a2a",
)
