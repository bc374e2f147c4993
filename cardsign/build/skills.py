"""SKILL.md files: the frontmatter of each becomes one skill (F27 to F34)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import (
    FILLED,
    Draft,
    Kind,
    describe_hint,
    found_in,
)
from cardsign.build.reading import read_one

#: The skill's member for each member of the frontmatter; name, category and tags: see `take_skill`.
MEMBERS: Final = {
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
#: Where an agent keeps them (F34).
PLACES: Final = (MAIN, "skills/*.md", "skills/*/SKILL.md")
#: Where a folder of nothing but skills has them.
_FOLDER: Final = (*PLACES, "*/SKILL.md", ".agents/skills/*/SKILL.md", ".claude/skills/*/SKILL.md")


def _take_file(path: Path, draft: Draft) -> str:
    """Take one file; its skill's id.

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
    display = next((one for key in _DISPLAY_NAMES if (one := document.text(key))), None)
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
    return skill


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
            _take_main(draft, skills[0])
        elif skills:  # its own SKILL.md has named it already
            draft.take(("name",), _id(source.resolve().name), FILLED)


def found_skills(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of a folder that fit a pattern; its README.md is no skill."""
    return [file for file in found_in(folder, patterns) if file.name != "README.md"]


def take_files(files: Sequence[Path], main: Path, draft: Draft) -> list[str]:
    """Take files of one agent, whose name and description are those of its main file.

    Returns:
        The ids of the skills that were taken.
    """
    taken = []
    for path in files:
        taken.append(_take_file(path, draft))
        if path == main:
            _take_main(draft, taken[-1])
    return taken


def _take_main(draft: Draft, skill: str) -> None:
    """Give the agent the name and description of its main skill, where nothing else says them."""
    for fact in draft.facts():
        if fact.target[:2] == ("skills", skill) and fact.target[2] in ("name", "description"):
            draft.take(fact.target[2:], fact.value, fact.place)


def _id(name: str) -> str:
    return re.sub(r"\s+", "-", name.strip())


KIND: Final = Kind(
    "skills",
    take_skills,
    lambda document: document.file.endswith(".md"),
    folder=_FOLDER,
)
