"""Forge: forge.yaml, the agent.json of its builder, and the agent's skills.

The configuration wins over the specification (requirement F8), and both over the skill files,
which only fill gaps. `egress`, `security`, `mcp`, `secrets` and the like stay inside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import Draft, Kind, Mappings, describe_hint
from cardsign.build.reading import SourceValue, find_files, first_file, read_first, read_one
from cardsign.card.convert import convert_card
from cardsign.card.security import PROVIDERS, derive_security, not_advertised
from cardsign.card.values import members_of
from cardsign.errors import CardRefused
from cardsign.files import leads_outside

#: Of forge.yaml, and of agent.json behind it.
CONFIGURATION: Final[Mappings] = {
    "agent_id": "name",
    "version": "version",
    "description": "description",
}
SPECIFICATION: Final[Mappings] = {
    "name": "name",
    "description": "description",
    "version": "version",
    "provider": "provider",
    "documentationUrl": "documentationUrl",
    ("a2a", "capabilities", "streaming"): "capabilities.streaming",
    ("a2a", "capabilities", "pushNotifications"): "capabilities.pushNotifications",
    ("a2a", "capabilities", "stateTransitionHistory"): "stateTransitionHistory",
}
_NAMES: Final = ("forge.yaml", "forge.yml", "forge.yaml.example")
_SPECIFICATIONS: Final = ("agent.json", ".forge-output/agent.json")


def take_forge(sources: Sequence[Path], draft: Draft) -> None:
    """Take agents of Forge: folders, or their forge.yaml."""
    for source in sources:
        document = read_first(source, _NAMES)
        folder = Path(document.file).parent
        draft.take_members(document, CONFIGURATION)
        if specification := first_file(folder, _SPECIFICATIONS):
            built = read_one(specification)
            draft.take_members(built, SPECIFICATION)
            for skill in built.rows("a2a", "skills"):
                draft.take_listed_skill(skill)
        _take_security(document, draft)
        _take_skills(document, folder, draft)
        _take_tools(document, draft)


def _take_security(document: SourceValue, draft: Draft) -> None:
    """Take the chain of providers; schemes written by hand stay as they are."""
    schemes, providers = [], []
    for provider in document.rows("auth", "providers"):
        kind = provider.text("type")
        if kind is None:
            raise provider.refuse("build.missing", "the provider has no type")
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
    for name in by_hand:
        place = document.get("securitySchemes", name)
        draft.take(("securitySchemes", name), by_hand[name], place)
    # The last alternative may be the one without a scheme.
    for place, alternative in zip(providers, requirements, strict=False):
        for name in members_of(members_of(alternative).get("schemes")):
            draft.take(("securitySchemes", name), derived[name], place)
    draft.take(("securityRequirements",), requirements, document.get("auth", "providers"))


def _take_tools(document: SourceValue, draft: Draft) -> None:
    for tool in document.rows("tools"):
        name = tool.text("name")
        if name is None:
            raise tool.refuse("build.missing", "the tool has no name")
        draft.take_skill(name, tool, tool=name, description=tool.text("description"))
    for index, name in enumerate(document.texts("builtin_tools")):
        draft.take_skill(name, document.get("builtin_tools", index), tool=name)


def _take_skills(document: SourceValue, folder: Path, draft: Draft) -> None:
    main = folder / (document.text("skills", "path") or MAIN)
    if leads_outside(folder, main):
        message = "skills.path leads out of the agent's folder"
        hint = "Name a file of that folder."
        raise document.get("skills", "path").refuse("build.unsupported", message, hint=hint)
    files = [main] if os.path.isfile(main) else []
    take_files(dict.fromkeys([*files, *find_skills(folder, PLACES)]), main, draft)


KIND: Final = Kind(
    "forge",
    take_forge,
    lambda document: "agent_id" in document.members,
    folder=_NAMES,
    a2a="0.3",
    modes=("text/plain", "application/json"),
)


# SKILL.md files: the frontmatter of each becomes one skill.

#: Of the frontmatter; name, category and tags: see `take_skill`.
MEMBERS: Final[Mappings] = {
    "description": "description",
    "examples": "examples",
    "modes": "inputModes",
    "inputModes": "inputModes",
    "input_modes": "inputModes",
    "outputModes": "outputModes",
    "output_modes": "outputModes",
}
#: Of the agent's main skill.
MAIN_MEMBERS: Final[Mappings] = {("metadata", "version"): "version", "version": "version"}
_DISPLAY_NAMES: Final = ("display_name", "displayName", "display-name", "title")
MAIN: Final = "SKILL.md"
#: Where an agent keeps them.
PLACES: Final = (MAIN, "skills/*.md", "skills/*/SKILL.md")
#: Where a folder of skills has them.
_FOLDER: Final = (*PLACES, "*/SKILL.md", ".agents/skills/*/SKILL.md", ".claude/skills/*/SKILL.md")


def take_skills(sources: Sequence[Path], draft: Draft) -> None:
    """Take files and folders of skills.

    The agent takes its name and description from the one skill, or from the folder's own
    SKILL.md, where nothing else says them.
    """
    for source in sources:
        patterns = (*_FOLDER, "*.md") if source.name == "skills" else _FOLDER
        files = find_skills(source, patterns)
        take_files(files, files[0] if len(files) == 1 else source / MAIN, draft)
        if files:
            folder = SourceValue(str(source))
            draft.take(("name",), _id(source.resolve().name), folder)


def find_skills(source: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files of a folder that fit a pattern, except its README.md; a file itself."""
    files = find_files(source, patterns)
    return [file for file in files if file.name != "README.md" or file == source]


def take_files(files: Iterable[Path], main: Path, draft: Draft) -> None:
    """Take files of one agent, whose name, description and version are those of its main file.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type``; ``build.missing``: a skill has no name or
            no description.
    """
    for path in files:
        document = read_one(path)
        skill = _take_file(document, draft)
        if path == main:
            for member in ("name", "description"):
                fact = draft.facts["skills", skill, member]
                draft.take((member,), fact.value, fact)
            draft.take_members(document, MAIN_MEMBERS)


def _take_file(document: SourceValue, draft: Draft) -> str:
    """Take one file, and return the id of its skill."""
    name = document.text("name")
    if name is None:
        hint = "Add ---, `name: ...`, `description: ...`, --- at its top."
        raise document.refuse("build.missing", "the skill has no name", hint=hint)
    skill, place = _id(name), document.get("name")
    if ("skills", skill, "id") in draft.facts:
        draft.note("build.left_out", f"a skill {skill!r} is there already, and stays", place)
    draft.take_members(document, MEMBERS, "skills", skill)
    if ("skills", skill, "description") not in draft.facts:
        message = f"the skill {skill!r} has no description"
        raise document.refuse("build.missing", message, hint=describe_hint(skill))
    display = next((text for key in _DISPLAY_NAMES if (text := document.text(key))), name)
    category = document.text("category")
    draft.take_skill(
        skill,
        place,
        name=display,
        tags=[*([category] if category else []), *document.texts("tags")],
        tagged=document.get("category" if category else "tags"),
    )
    draft.take(("skills", skill, "outputModes"), [*document.texts("modes")], document.get("modes"))
    return skill


def _id(name: str) -> str:
    return re.sub(r"\s+", "-", name.strip())


SKILLS: Final = Kind(
    "skills",
    take_skills,
    lambda document: document.file.endswith(".md"),
    folder=_FOLDER,
)
