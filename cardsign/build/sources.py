"""The seven kinds of sources: cards, pyproject.toml, Forge, SKILL.md, OpenFang, Orloj and MCP.

Each has a table or two, of where a member of the card comes from, and a small function. What no
table names stays inside: prompts, models, settings, secrets, endpoints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias

from cardsign.build.draft import OURS, Draft, Kind, Mappings, Target, same
from cardsign.build.reading import SourceValue, find_files, read_first, read_one, read_source
from cardsign.card.convert import convert_card
from cardsign.card.extensions import KEPT_OF_CARD, kept_of, with_kept
from cardsign.card.security import PROVIDERS, derive_security, not_advertised
from cardsign.card.values import Json, elements_of, members_of, objects_in
from cardsign.errors import CardRefused
from cardsign.files import leads_outside
from cardsign.findings import Finding
from cardsign.lint.cards import lint_document
from cardsign.lint.rules import LintSettings
from cardsign.lint.secrets import is_secret_name

# Cards: A2A 0.2, 0.3 and 1.0, the generic reference, and contract cards. These tables rename what
# A2A does not have; :mod:`cardsign.card.convert` does the rest.

#: Other names for members of a card, and of a skill.
_CARD_NAMES: Final = {
    "agent_name": "name",
    "spiffeId": "spiffe_id",
    "auth": "authentication",
    "icon": "iconUrl",
    "rate_limits": "rateLimits",
}
_SKILL_NAMES: Final = {
    "skill_id": "id",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
}
#: The places of a 1.0 member in older cards, for the line that `--explain` shows.
_OLDER: Final = {
    "name": ["agent_name"],
    "supportedInterfaces": ["url", "interfaces"],
    "authentication": ["auth"],
    "securitySchemes": ["authentication", "auth"],
    "securityRequirements": ["security", "authentication", "auth"],
}
#: Members that say how to log in, and from which likeness on another name is one misspelt.
_LOGIN: Final = ("security", "securityRequirements", "securitySchemes", "authentication")
_MISSPELT: Final = 0.85
_CARD_FILES: Final = (".well-known/agent-card.json", "agent-card.json", ".well-known/agent.json")


def take_cards(sources: Sequence[Path], draft: Draft) -> None:
    """Take cards: files, or folders with one at its usual place."""
    for source in sources:
        take_card(read_first(source, _CARD_FILES), draft)


def take_card(document: SourceValue, draft: Draft) -> None:
    """Take a card of any form."""
    changes: list[Finding] = []
    try:
        card = convert_card(_rename_members(document, draft), "1.0", changes)
    except CardRefused as refused:
        path = refused.path.split("/")[1:] or ["authentication"]
        raise _place(document, *path).refuse_as(refused) from refused
    for change in changes:
        path = change.path.split("/")[1:]
        is_left_out, place = change.message.endswith("left out"), _place(document, *path)
        if is_left_out and (meant := get_close_matches(path[-1], _LOGIN, n=1, cutoff=_MISSPELT)):
            message = f"{path[-1]} is not a member of A2A; did you mean {meant[0]!r}?"
            hint = "Without it the card might say that the agent asks for no login."
            raise place.refuse("build.unsupported", message, hint=hint)
        draft.note("build.left_out" if is_left_out else change.code, change.message, place)
    kept = kept_of(card)
    for name, value in with_kept(card, {}).items():
        if name in ("capabilities", "securitySchemes"):
            for part, of_part in members_of(value).items():
                draft.take((name, part), of_part, _place(document, name, part))
        elif name == "skills":
            _take_card_skills(elements_of(value), document, draft)
        else:
            draft.take((name,), value, _place(document, name))
    for name in kept:
        if name in KEPT_OF_CARD:
            draft.take((OURS, name), kept[name], document.get(name))
    for skill, members in members_of(kept.get("skills")).items():
        for name, value in members_of(members).items():
            draft.take((OURS, "skills", skill, name), value, document.get("skills"))


def _take_card_skills(skills: Sequence[Json], document: SourceValue, draft: Draft) -> None:
    for index, skill in enumerate(skills):
        members, place = members_of(skill), document.get("skills", index)
        if not isinstance(skill_id := members.get("id"), str):
            raise place.refuse("build.missing", "the skill has neither id nor name")
        for name, value in members.items():
            draft.take(("skills", skill_id, name), value, place)


def _place(document: SourceValue, *path: str) -> SourceValue:
    """Return where a member of the 1.0 card came from."""
    at = (int(token) if token.isdigit() else token for token in path)
    places = [document.get(*at), *map(document.get, _OLDER.get("".join(path[:1]), ()))]
    return next((place for place in places if place.at in document.lines), places[0])


def _rename_members(document: SourceValue, draft: Draft) -> dict[str, Json]:
    """Return the card with the names and forms of A2A for members that have others."""
    members: dict[str, Json] = {}
    for name, value in document.members.items():
        if value is not None:
            members.setdefault(_CARD_NAMES.get(name, name), value)
    is_listed = isinstance(members.pop("interfaces", None), list)
    if is_listed and (interfaces := [*_read_interfaces(document, draft)]):
        members["supportedInterfaces"] = interfaces
    if isinstance(extensions := members.pop("extensions", None), list):
        draft.note("build.changed", "extensions belong in capabilities", document.get("extensions"))
        capabilities = members_of(members.get("capabilities"))
        members["capabilities"] = {**capabilities, "extensions": extensions}
    words = members.get("capabilities")
    is_list = isinstance(words, list) and all(isinstance(skill, dict) for skill in words)
    if is_list and not isinstance(members.get("skills"), list):
        members["skills"] = members.pop("capabilities")
    if isinstance(skills := members.get("skills"), list):
        members["skills"] = skills = [_rename_skill(skill) for skill in skills]
    if "metadata" in members:
        members["metadata"] = _drop_secrets(document.get("metadata"), draft)
    for owner in (members, *map(members_of, elements_of(skills))):
        _wrap_scopes(owner)
    return members


def _rename_skill(skill: Json) -> Json:
    if isinstance(skill, str):
        return {"id": skill}
    if not isinstance(skill, dict):
        return skill
    members: dict[str, Json] = {
        _SKILL_NAMES.get(name, name): value for name, value in skill.items() if value is not None
    }
    if "id" not in members and isinstance(name := members.get("name"), str):
        members["id"] = "-".join(name.lower().split())
    return members


def _wrap_scopes(owner: dict[str, Json]) -> None:
    """Wrap the scopes of requirements, which a2a-go before 2.4.1 writes as bare lists."""
    for _, requirement in objects_in(owner.get("securityRequirements")):
        schemes = members_of(requirement.get("schemes"))
        for name, scopes in schemes.items():
            if isinstance(scopes, list):
                schemes[name] = {"list": scopes}


def _drop_secrets(metadata: SourceValue, draft: Draft) -> dict[str, Json]:
    """Return metadata without objects, lists, and what might be a secret.

    A manifest may keep anything there, and a card is public.
    """
    members = metadata.members
    findings = lint_document({"metadata": members}, LintSettings(groups=("secrets",)))
    secret_members = {name for finding in findings for name in finding.place.tokens[1:2]}
    kept: dict[str, Json] = {}
    for name, value in members.items():
        is_secret = name in secret_members or is_secret_name(name)
        if isinstance(value, str | int | float) and not is_secret:
            kept[name] = value
        else:
            text = "may hold what is not for everybody, and is left out"
            draft.note("build.left_out", f"metadata {ascii(name)[:40]} {text}", metadata.get(name))
    return kept


def _read_interfaces(document: SourceValue, draft: Draft) -> Iterator[Json]:
    """Yield the interfaces of the generic reference; ``a2a`` is read as the binding JSONRPC."""
    for interface in document.rows("interfaces"):
        url = interface.members.get("url")
        if not url:
            draft.note("build.left_out", "the interface has no url", interface)
            continue
        names = ("protocolBinding", "transport", "protocol")
        binding = next(filter(None, map(interface.members.get, names)), None)
        if binding not in ("JSONRPC", "GRPC", "HTTP+JSON"):
            text = f"{binding!r} is not a protocol binding of A2A: JSONRPC is assumed"
            draft.note("build.changed", text, interface)
            binding = "JSONRPC"
        yield {"url": url, "protocolBinding": binding}


def _is_card(document: SourceValue) -> bool:
    members = document.members
    marks = {"skills", "capabilities", "supportedInterfaces", "url"}
    is_named = not {"name", "agent_name"}.isdisjoint(members)
    return document.file.endswith(".json") and is_named and not marks.isdisjoint(members)


CARD: Final = Kind("card", take_cards, _is_card, folder=_CARD_FILES)


# A pyproject.toml: the table ``[tool.cardsign.card]``, and ``[project]`` for what it lacks.

PYPROJECT_FILE: Final = "pyproject.toml"
_TABLE: Final = ("tool", "cardsign", "card")
#: The card's member for each member of ``[project]``; the table is a card.
PROJECT: Final = same("name", "version", "description")


def take_pyproject(sources: Sequence[Path], draft: Draft) -> None:
    """Take the tables of Python projects."""
    for source in sources:
        document = read_first(source, (PYPROJECT_FILE,))
        if not _has_table(document):
            message = f"there is no {PYPROJECT_FILE} with a table [tool.cardsign.card]"
            raise document.refuse("build.missing", message)
        for name in document.get(*_TABLE[:2]).members.keys() - {"card"}:
            raise document.refuse("build.unsupported", f"[tool.cardsign] has no member {name!r}")
        table = document.get(*_TABLE)
        if "url" in table.members:  # whose interface is one of 1.0, and not of an older card
            interfaces: list[Json] = [{"url": table.members["url"]}]
            members = {"supportedInterfaces": interfaces, **table.members, "url": None}
            table = replace(table, value=members)
        take_card(table, draft)
        draft.take_members(document.get("project"), PROJECT)


def _has_table(document: SourceValue) -> bool:
    return isinstance(document.get(*_TABLE).value, dict)


PYPROJECT: Final = Kind("pyproject", take_pyproject, _has_table, (PYPROJECT_FILE,), b"cardsign")


# Forge: forge.yaml, the agent.json of its builder, and the agent's skills. The configuration wins
# over the specification (requirement F8), and both over the skill files, which only fill gaps.

#: Of forge.yaml, and of agent.json behind it.
CONFIGURATION: Final[Mappings] = {**same("version", "description"), "name": ["agent_id"]}
SPECIFICATION: Final[Mappings] = {
    **same("name", "description", "version", "provider", "documentationUrl"),
    "capabilities.streaming": ["a2a capabilities streaming"],
    "capabilities.pushNotifications": ["a2a capabilities pushNotifications"],
    "stateTransitionHistory": ["a2a capabilities stateTransitionHistory"],
}
FORGE_TOOL: Final = same("description")
_FORGE_FILES: Final = ("forge.yaml", "forge.yml", "forge.yaml.example")
_SPECIFICATIONS: Final = ("agent.json", ".forge-output/agent.json")


def take_forge(sources: Sequence[Path], draft: Draft) -> None:
    """Take agents of Forge: folders, or their forge.yaml."""
    for source in sources:
        document = read_first(source, _FORGE_FILES)
        folder = Path(document.file).parent
        draft.take_members(document, CONFIGURATION)
        files = [file for name in _SPECIFICATIONS for file in find_files(folder, (name,))]
        for built in map(read_one, files[:1]):
            draft.take_members(built, SPECIFICATION)
            for skill in built.rows("a2a", "skills"):
                draft.take_listed_skill(skill.need("the skill", "id", "name"), skill)
        _take_providers(document, draft)
        _take_forge_skills(document, folder, draft)
        _take_forge_tools(document, draft)


def _take_providers(document: SourceValue, draft: Draft) -> None:
    """Take the chain of providers; schemes written by hand stay as they are."""
    schemes, providers = [], []
    for provider in document.rows("auth", "providers"):
        kind = provider.need("the provider", "type")
        if kind not in PROVIDERS:
            draft.note("build.not_advertised", not_advertised(kind), provider)
            continue
        try:
            scheme = PROVIDERS[kind](provider.read(dict, "settings") or {})
        except CardRefused as refused:
            raise provider.refuse("build.missing", f"{kind}: {refused.message}") from refused
        schemes.append((provider.text("name") or kind, scheme))
        providers.append(provider)
    required = document.read(bool, "auth", "required") is not False
    try:
        written = {"securitySchemes": document.read(dict, "securitySchemes")}
        by_hand = members_of(convert_card(written, "1.0").get("securitySchemes"))
        derived, requirements = derive_security(schemes, required=required, by_hand=by_hand)
    except CardRefused as refused:
        raise document.get("auth").refuse_as(refused) from refused
    for name, value in by_hand.items():
        draft.take(("securitySchemes", name), value, document.get("securitySchemes", name))
    # The last alternative may be the one without a scheme.
    for place, alternative in zip(providers, requirements, strict=False):
        for name in members_of(members_of(alternative).get("schemes")):
            draft.take(("securitySchemes", name), derived[name], place)
    draft.take(("securityRequirements",), requirements, document.get("auth", "providers"))


def _take_forge_tools(document: SourceValue, draft: Draft) -> None:
    for tool in document.rows("tools"):
        name = tool.need("the tool", "name")
        draft.take_members(tool, FORGE_TOOL, "skills", name)
        draft.take_skill(name, tool, tool=name)
    for index, name in enumerate(document.texts("builtin_tools")):
        draft.take_skill(name, document.get("builtin_tools", index), tool=name)


def _take_forge_skills(document: SourceValue, folder: Path, draft: Draft) -> None:
    main = folder / (document.text("skills", "path") or MAIN)
    if leads_outside(folder, main):
        message = "skills.path leads out of the agent's folder"
        hint = "Name a file of that folder."
        raise document.get("skills", "path").refuse("build.unsupported", message, hint=hint)
    files = [main] if os.path.isfile(main) else []
    take_files(dict.fromkeys([*files, *find_skills(folder, PLACES)]), main, draft)


FORGE: Final = Kind(
    "forge",
    take_forge,
    lambda document: "agent_id" in document.members,
    folder=_FORGE_FILES,
    a2a="0.3",
    modes=("text/plain", "application/json"),
)


# SKILL.md files: the frontmatter of each becomes one skill.

#: Of the agent's main skill.
MAIN_MEMBERS: Final[Mappings] = {"version": ["metadata version", "version"]}
MAIN: Final = "SKILL.md"
#: Where an agent keeps them.
PLACES: Final = (MAIN, "skills/*.md", "skills/*/SKILL.md")
#: Where a folder of skills has them.
_SKILLS: Final = (*PLACES, "*/SKILL.md", ".agents/skills/*/SKILL.md", ".claude/skills/*/SKILL.md")


def take_skills(sources: Sequence[Path], draft: Draft) -> None:
    """Take files and folders of skills.

    The agent takes its name and description from the one skill, or from the folder's own
    SKILL.md, where nothing else says them.
    """
    for source in sources:
        patterns = (*_SKILLS, "*.md") if source.name == "skills" else _SKILLS
        files = find_skills(source, patterns)
        take_files(files, files[0] if len(files) == 1 else source / MAIN, draft)
        if not files:
            raise SourceValue(str(source)).refuse("build.missing", f"the folder has no {MAIN}")
        draft.take(("name",), _id(source.resolve().name), SourceValue(str(source)))


def find_skills(source: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files of a folder that fit a pattern, except its README.md; a file itself."""
    files = find_files(source, patterns)
    return [file for file in files if file.name != "README.md" or file == source]


def take_files(files: Iterable[Path], main: Path, draft: Draft) -> None:
    """Take files of one agent, whose name, description and version are those of its main file.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type``; ``build.missing``: a skill has no name.
    """
    for path in files:
        document = read_one(path)
        skill, place = _id(document.need("the skill", "name")), document.get("name")
        if ("skills", skill, "id") in draft.facts:
            draft.note("build.left_out", f"a skill {skill!r} is there already, and stays", place)
        draft.take_listed_skill(skill, document)
        if path == main:
            for member in ("name", "description"):
                if fact := draft.facts.get(("skills", skill, member)):
                    draft.take((member,), fact.value, fact)
            draft.take_members(document, MAIN_MEMBERS)


def _id(name: str) -> str:
    return re.sub(r"\s+", "-", name.strip())


SKILLS: Final = Kind("skills", take_skills, lambda read: read.file.endswith(".md"), _SKILLS)


# OpenFang: agent.toml, HAND.toml, and the a2a table of its config.toml.

#: Of an agent and a hand. The version is the agent's own.
OPENFANG_AGENT: Final = same("name", "version", "description")
HAND: Final = same("id", "name", "description")
#: What OpenFang's server supports for every agent; not defaults, so the form of 0.2 has them too.
OPENFANG_SERVER: Final[dict[Target, Json]] = {
    ("capabilities", "streaming"): True,
    ("capabilities", "pushNotifications"): False,
    ("defaultInputModes",): ["text/plain"],
    ("defaultOutputModes",): ["text/plain"],
    (OURS, "stateTransitionHistory"): True,
}
_SERVER: Final = SourceValue("OpenFang's server")
_OPENFANG_FILES: Final = ("agent.toml", "HAND.toml", "config.toml", "openfang.toml")


def tool_id(name: str) -> str:
    """Return the id of a tool: in lower case, without hyphens."""
    return name.lower().replace("-", "_")


def take_openfang(sources: Sequence[Path], draft: Draft) -> None:
    """Take agents, hands and configurations: files, or folders of them."""
    for source in sources:
        for file in find_files(source, _OPENFANG_FILES):
            _take_manifest(read_one(file), draft)
    draft.fill_version(_SERVER)  # every card of it has one
    for target, value in OPENFANG_SERVER.items():
        draft.take(target, value, _SERVER)


def _take_manifest(document: SourceValue, draft: Draft) -> None:
    if _is_configuration(document):
        _take_configuration(document, draft)
        return
    table, tools, tags = OPENFANG_AGENT, document.get("capabilities", "tools"), ["tool"]
    if document.members.keys() >= {"id", "tools"}:
        table, tools, tags = HAND, document.get("tools"), [*document.texts("category"), "tool"]
    draft.take_members(document, table)
    draft.take_prompt(document.get("model", "system_prompt"))
    for index, tool in enumerate(tools.texts()):
        name, place = tool.replace("_", " "), tools.get(index)
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


def _is_openfang(document: SourceValue) -> bool:
    members = document.members
    is_manifest = "name" in members and not {"module", "model", "tools"}.isdisjoint(members)
    is_configuration = _is_configuration(document) and members.keys() != {"mcp_servers"}
    return document.file.endswith(".toml") and (is_manifest or is_configuration)


OPENFANG: Final = Kind(
    "openfang",
    take_openfang,
    _is_openfang,
    folder=_OPENFANG_FILES,
    a2a="0.2",  # its server answers tasks/send
    path=lambda draft: draft.listen_path or "/a2a",
)


# Orloj: an AgentSystem, its Agents and their Tools, resolved across files and namespaces. What it
# takes from its server comes from ``[build.orloj]`` of cardsign.toml.

API_VERSION: Final = "orloj.dev/v1"
_ORLOJ_FILES: Final = ("**/*.yaml", "**/*.yml")
#: Of an Agent, an AgentSystem, a Tool, and of the settings.
ORLOJ_AGENT: Final[Mappings] = {"description": ["metadata annotations orloj.dev/description"]}
ORLOJ_SYSTEM: Final[Mappings] = {
    **ORLOJ_AGENT,
    "name": ["metadata name"],
    "version": ["metadata labels orloj.dev/version"],
}
ORLOJ_TOOL: Final[Mappings] = {
    "description": ["spec description"],
    "inputSchema": ["spec input_schema"],
}
ORLOJ_SERVER: Final[Mappings] = {
    "capabilities.streaming": ["streaming"],
    "capabilities.pushNotifications": ["push_notifications"],
    "stateTransitionHistory": ["state_transition_history"],
    "provider.organization": ["organization"],
    "provider.url": ["organization_url"],
}
#: The resources of all sources by kind and ``NAMESPACE/NAME``, in their order.
_Pool: TypeAlias = dict[tuple[str, str], SourceValue]


def take_orloj(sources: Sequence[Path], draft: Draft) -> None:
    """Take the one system of all sources, or the one that `agent` names."""
    pool: _Pool = {}
    for source in sources:
        for path in find_files(source, _ORLOJ_FILES):
            for document in read_source(path):
                if "apiVersion" in document.members or path == source:
                    _add(document, pool)
    system = _choose(pool, draft.options.agent, SourceValue(str(sources[0])))
    draft.take_members(system, ORLOJ_SYSTEM)
    settings: Any = draft.options.settings.orloj.model_dump(mode="json")
    server = SourceValue("cardsign.toml [build.orloj]", settings)
    draft.take_members(server, ORLOJ_SERVER)
    draft.take_authentication(server.get("auth"))
    is_alone = system.text("kind") == "Agent"
    for agent in [system] if is_alone else _follow("Agent", system, pool, "agents"):
        draft.take_members(agent, ORLOJ_AGENT)
        draft.take_prompt(agent.get("spec", "prompt"))
        for tool in _follow("Tool", agent, pool, "tools"):
            place = tool.get("metadata", "name")
            tags = tool.texts("spec", "capabilities") + tool.texts("spec", "operation_classes")
            draft.take_members(tool, ORLOJ_TOOL, "skills", _name(tool))
            draft.take_skill(_name(tool), place, tool=_name(tool), tags=tags)


def _name(document: SourceValue) -> str:
    return document.get("metadata").need("the resource", "name")


def _namespace(document: SourceValue) -> str:
    return document.text("metadata", "namespace") or "default"


def _add(document: SourceValue, pool: _Pool) -> None:
    """Add a resource; one of another apiVersion is refused."""
    version, kind = document.text("apiVersion"), document.need("the resource", "kind")
    if version != API_VERSION:
        message = f"apiVersion {version!r} is not read; {API_VERSION} is"
        hint = "Write the resource in that version."
        raise document.get("apiVersion").refuse("build.unsupported", message, hint=hint)
    label = f"{_namespace(document)}/{_name(document)}"
    if pool.setdefault((kind, label), document) is not document:
        message = f"{kind} {label} is defined twice"
        raise document.get("metadata", "name").refuse("build.reference", message)


def _follow(kind: str, owner: SourceValue, pool: _Pool, member: str) -> Iterator[SourceValue]:
    """Yield the resources that a list names, in the namespace of its owner unless a name has one.

    Raises:
        BuildRefused: ``build.reference``: there is no such resource.
    """
    for index, reference in enumerate(owner.texts("spec", member)):
        label = reference if "/" in reference else f"{_namespace(owner)}/{reference}"
        if (kind, label) not in pool:
            message = f"no source defines the {kind} {label} that {_name(owner)!r} names"
            raise owner.get("spec", member, index).refuse("build.reference", message)
        yield pool[kind, label]


def _choose(pool: _Pool, agent: str | None, place: SourceValue) -> SourceValue:
    systems = {label: system for (kind, label), system in pool.items() if kind == "AgentSystem"}
    systems = systems or {label: alone for (kind, label), alone in pool.items() if kind == "Agent"}
    if not systems:
        raise place.refuse("build.missing", "no source defines an AgentSystem or an Agent")
    fitting, problem, at = [*systems], "several agents are defined", ("spec", "a2a", "enabled")
    if agent is not None:
        fitting = [label for label in systems if agent in (label, label.partition("/")[2])]
        problem = f"{len(fitting) or 'no'} agents have the name {agent!r}"
    elif len(systems) > 1:
        fitting = [label for label, system in systems.items() if system.read(bool, *at)]
    if len(fitting) != 1:
        message = f"{problem}; choose one of: {', '.join([*systems][:10])}"
        raise place.refuse("build.reference", message, hint="Name one: --agent NAMESPACE/NAME.")
    system = systems[fitting[0]]
    if system.read(bool, *at) is False:
        message = f"A2A is switched off for {_name(system)!r}"
        raise system.get(*at).refuse("build.switched_off", message)
    return system


ORLOJ: Final = Kind(
    "orloj",
    take_orloj,
    lambda document: str(document.members.get("apiVersion")).startswith("orloj.dev/"),
    folder=("*.yaml", "*.yml", "*/*.yaml"),
    mark=b"orloj.dev/",
    path=lambda draft: f"/v1/agent-systems/{draft.value('name')}/a2a",
)


# MCP: saved tools/list answers and those of live servers, server cards, indexes of agent skills. No
# source decides what is run or fetched, so a list of servers is refused with an explanation.

#: Of a server card and its `serverInfo`, and of each tool.
MCP_SERVER: Final[Mappings] = {
    "name": ["title", "displayName", "name", "serverInfo name"],
    "description": ["description", "serverInfo description"],
    "version": ["version", "serverInfo version"],
    "documentationUrl": ["documentationUrl", "homepage", "homepageUrl"],
    "iconUrl": ["iconUrl"],
    "provider.organization": ["publisher name"],
    "provider.url": ["publisher url"],
}
MCP_TOOL: Final[Mappings] = {
    **same("description", "inputSchema", "outputSchema"),
    "name": ["title", "name"],
}
#: Where the tools may be; the first place counts.
_TOOLS: Final = ("tools", "result tools", "capabilities tools definitions")
_SERVERS: Final = {"mcpServers", "mcp_servers"}


def take_mcp(sources: Sequence[Path], draft: Draft) -> None:
    """Take saved servers."""
    for source in sources:
        take_server(read_one(source), draft)


def take_server(document: SourceValue, draft: Draft) -> None:
    """Take a server, saved or live; the id of each tool begins with the name of the server."""
    for name in document.members.keys() & _SERVERS:
        message = "a list of MCP servers says which programs to run, and not what they offer"
        hint = "Nothing of it is run. Pass --run-mcp COMMAND or --ask-mcp URL for those you trust."
        raise document.get(name).refuse("build.unsupported", message, hint=hint)
    server, tools = None, [document]
    if "inputSchema" not in document.members:  # else it is a tool by itself
        server = document.text("name") or document.text("serverInfo", "name")
        draft.take_members(document, MCP_SERVER)
        for member in ("auth", "authentication"):
            draft.take_authentication(document.get(member))
        tools = [tool for listed in _list_tools(document)[:1] for tool in listed.rows()]
    server = server or str(draft.value("name") or "")
    if not server:
        hint = "Pass --set name=NAME: the ids of its tools begin with it."
        raise document.refuse("build.missing", "no source names the server", hint=hint)
    for tool in tools:
        name = tool.need("the tool", "name")
        tool_skill = tool_id("_".join("_".join(word.split()) for word in ("mcp", server, name)))
        draft.take_members(tool, MCP_TOOL, "skills", tool_skill)
        draft.take_skill(tool_skill, tool, tool=name)
    for skill in document.rows("skills"):
        draft.take_listed_skill(skill.need("the skill", "id", "name"), skill)


def _list_tools(document: SourceValue) -> list[SourceValue]:
    places = [document.get(*path.split()) for path in _TOOLS]
    return [place for place in places if isinstance(place.value, list)]


def _is_mcp(document: SourceValue) -> bool:
    members = document.members
    if not _SERVERS.isdisjoint(members) and "a2a" not in members:
        return document.file.endswith((".json", ".toml")) and "name" not in members
    is_card = members.keys() >= {"capabilities", "skills"}
    is_card = is_card and ("url" in members or "supportedInterfaces" in members)
    if is_card or not document.file.endswith(".json"):
        return False
    marks = {"serverInfo", "schemaVersion", "transport", "$schema"}
    is_server = not marks.isdisjoint(members) and "protocolVersion" not in members
    return is_server or "inputSchema" in members or bool(_list_tools(document))


MCP: Final = Kind("mcp", take_mcp, _is_mcp)


#: Every kind of source; a file that could be of two kinds is of the first.
KINDS: Final = (PYPROJECT, FORGE, ORLOJ, OPENFANG, MCP, CARD, SKILLS)
