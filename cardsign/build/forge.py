"""Forge: forge.yaml, the agent.json of its builder, and the agent's skills.

The configuration wins over the specification (requirement F8), and both over the skill files,
which only fill gaps. `egress`, `security`, `mcp`, `secrets` and the like stay inside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import FILLED, Draft, Kind, Mappings, describe_hint, first_in, found_in
from cardsign.build.reading import SourceDocument, of_card, read_one
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
        file = first_in(source, _NAMES) if os.path.isdir(source) else source
        if file is not None:
            _take(file, draft)


def _take(file: Path, draft: Draft) -> None:
    folder = file.parent
    document = read_one(file)
    draft.take_members(document, CONFIGURATION)
    specification = first_in(folder, _SPECIFICATIONS)
    if specification is not None:
        built = read_one(specification)
        draft.take_members(built, SPECIFICATION)
        for skill in built.rows("a2a", "skills"):
            draft.take_listed_skill(built, skill)
    _take_security(document, draft)
    _take_tools(document, draft)
    _take_skills(document, folder, draft)


def _take_security(document: SourceDocument, draft: Draft) -> None:
    """Take the chain of providers; schemes written by hand stay as they are."""
    by_hand = document.table("securitySchemes")
    schemes, places = [], []
    for at in document.rows("auth", "providers"):
        kind = document.text(*at, "type")
        if kind is None:
            raise document.refuse("build.missing", "the provider has no type", *at)
        if kind not in PROVIDERS:
            draft.warn("build.not_advertised", not_advertised(kind), document.place(*at))
            continue
        try:
            scheme = PROVIDERS[kind](document.table(*at, "settings"))
        except CardRefused as refused:
            message = f"{kind}: {refused.message}"
            raise document.refuse("build.missing", message, *at) from refused
        schemes.append((document.text(*at, "name") or kind, scheme))
        places.append(document.place(*at))
    required = document.flag("auth", "required") is not False
    try:
        hand = convert_card({"securitySchemes": by_hand}, "1.0").get("securitySchemes")
        derived = derive_security(schemes, required=required, by_hand=members_of(hand))
    except CardRefused as refused:
        raise of_card(refused, document.place("auth")) from refused
    # The last alternative may be the one without a scheme.
    at_hand = {name: document.place("securitySchemes", name) for name in by_hand}
    for place, alternative in zip(places, derived[1], strict=False):
        for name in members_of(members_of(alternative).get("schemes")):
            at_hand.setdefault(name, place)
    draft.take_security(derived, document.place("auth", "providers"), at_hand)


def _take_tools(document: SourceDocument, draft: Draft) -> None:
    named = [(at, document.text(*at, "name")) for at in document.rows("tools")]
    listed = document.texts("builtin_tools")
    places = [*named, *((("builtin_tools", index), tool) for index, tool in enumerate(listed))]
    for at, tool in places:
        if tool is None:
            raise document.refuse("build.missing", "the tool has no name", *at)
        text = document.text(*at, "description") if at[0] == "tools" else None
        draft.take_skill(tool, tool=tool, description=text, place=document.place(*at))


def _take_skills(document: SourceDocument, folder: Path, draft: Draft) -> None:
    main = folder / (document.text("skills", "path") or MAIN)
    if leads_outside(folder, main):
        message = "skills.path leads out of the agent's folder"
        hint = "Name a file of that folder."
        raise document.refuse("build.unsupported", message, "skills", "path", hint=hint)
    files = found_skills(folder, PLACES)
    if os.path.isfile(main) and main not in files:
        files.insert(0, main)
    take_files(files, main, draft)


KIND: Final = Kind(
    "forge",
    take_forge,
    lambda document: "agent_id" in document.value,
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
_DISPLAY_NAMES: Final = ("display_name", "displayName", "display-name", "title")
MAIN: Final = "SKILL.md"
#: Where an agent keeps them.
PLACES: Final = (MAIN, "skills/*.md", "skills/*/SKILL.md")
#: Where a folder of skills has them.
_FOLDER: Final = (*PLACES, "*/SKILL.md", ".agents/skills/*/SKILL.md", ".claude/skills/*/SKILL.md")


def _take_file(path: Path, draft: Draft) -> tuple[str, SourceDocument]:
    """Take one file, and return the id of its skill and the document.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type``; ``build.missing``: it has no name or no
            description.
    """
    document = read_one(path)
    name = document.text("name")
    if name is None:
        hint = "Add ---, `name: ...`, `description: ...`, --- at its top."
        raise document.refuse("build.missing", "the skill has no name", hint=hint)
    skill = _id(name)
    if document.text("description") is None and draft.value("skills", skill, "description") is None:
        message = f"the skill {skill!r} has no description"
        raise document.refuse("build.missing", message, hint=describe_hint(skill))
    place = document.place("name")
    if draft.value("skills", skill, "id") is not None:
        draft.warn("build.left_out", f"a skill {skill!r} is there already, and stays", place)
    display = next(
        (display_name for key in _DISPLAY_NAMES if (display_name := document.text(key))), None
    )
    category = document.text("category")
    tags = [*([category] if category else []), *document.texts("tags")]
    draft.take_members(document, MEMBERS, to=("skills", skill))
    draft.take_skill(
        skill,
        name=display or name,
        tags=tags,
        place=place,
        tagged=document.place("category" if category else "tags"),
    )
    if modes := document.texts("modes"):
        draft.take(("skills", skill, "outputModes"), list(modes), document.place("modes"))
    return skill, document


def take_skills(sources: Sequence[Path], draft: Draft) -> None:
    """Take files and folders of skills.

    The agent takes its name and description from the one skill, or from the folder's own
    SKILL.md, where nothing else says them.
    """
    for source in sources:
        files = [source]
        if os.path.isdir(source):
            files = found_skills(source, (*_FOLDER, *(["*.md"] if source.name == "skills" else ())))
        skills = take_files(files, source / MAIN, draft)
        if len(skills) == 1:
            _take_main(draft, *skills[0])
        elif skills:  # its own SKILL.md has named it already
            draft.take(("name",), _id(source.resolve().name), FILLED)


def found_skills(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files of a folder that fit a pattern, except its README.md."""
    return [file for file in found_in(folder, patterns) if file.name != "README.md"]


def take_files(files: Sequence[Path], main: Path, draft: Draft) -> list[tuple[str, SourceDocument]]:
    """Take files of one agent, whose name, description and version are those of its main file.

    Returns:
        The id of each skill that was taken, and what was read of it.
    """
    taken = []
    for path in files:
        taken.append(_take_file(path, draft))
        if path == main:
            _take_main(draft, *taken[-1])
    return taken


def _take_main(draft: Draft, skill: str, document: SourceDocument) -> None:
    """Take the agent's name, description and version from its main skill, where missing."""
    for fact in draft.facts():
        if fact.target[:2] == ("skills", skill) and fact.target[2] in ("name", "description"):
            draft.take(fact.target[2:], fact.value, fact.place)
    for at in (("metadata", "version"), ("version",)):
        draft.take(("version",), document.text(*at), document.place(*at))


def _id(name: str) -> str:
    return re.sub(r"\s+", "-", name.strip())


SKILLS: Final = Kind(
    "skills",
    take_skills,
    lambda document: document.file.endswith(".md"),
    folder=_FOLDER,
)
