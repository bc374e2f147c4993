"""SKILL.md files: the frontmatter of each becomes one skill (F27 to F34)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import (
    FILLED,
    BuildOptions,
    Draft,
    Kind,
    describe_hint,
    each,
    excerpt,
    found_in,
)
from cardsign.build.reading import SourceDocument, read_one

#: The skill's member for each member of the frontmatter; name, category and tags: see `take_skill`.
MEMBERS: Final = {
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


def take_skill_file(path: Path, draft: Draft, options: BuildOptions) -> str:
    """Take one file; its skill's id.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type``; ``build.missing``: it has no name or no
            description.
    """
    document = read_one(path)
    name = document.text("name") or _of_text(document, draft, options, heading=True)
    if name is None:
        hint = "Add ---, `name: ...`, `description: ...`, --- at its top; or --prompt-excerpt."
        raise document.refuse("build.missing", "the skill has no name", hint=hint)
    skill = _id(name)
    text = document.text("description") or _of_text(document, draft, options, heading=False)
    if text is None and draft.value("skills", skill, "description") is None:
        message = f"the skill {skill!r} has no description"
        raise document.refuse("build.missing", message, hint=describe_hint(skill))
    place = document.place("name")
    if draft.value("skills", skill, "id") is not None:
        draft.warn("build.left_out", f"a skill {skill!r} is there already, and stays", place)
    display = next((one for key in _DISPLAY_NAMES if (one := document.text(key))), None)
    category = document.text("category")
    tags = [*([category] if category else []), *document.texts("tags")]
    draft.take_skill(
        skill,
        name=display or name,
        description=text,
        tags=tags,
        place=place,
        described=document.place("description"),
        tagged=document.place("category" if category else "tags"),
    )
    draft.take_members(document, MEMBERS, to=("skills", skill))
    if modes := document.texts("modes"):
        draft.take(("skills", skill, "outputModes"), list(modes), document.place("modes"))
    return skill


def take_skills(sources: Sequence[Path], draft: Draft, options: BuildOptions) -> None:
    """Take files and folders of skills.

    The agent takes its name and description from the one skill, or from the folder's own
    SKILL.md, where nothing else says them.
    """
    for source in sources:
        taken: dict[Path, str] = {}

        def take(path: Path, into: dict[Path, str] = taken) -> None:
            into[path] = take_skill_file(path, draft, options)

        if os.path.isdir(source):
            patterns = ("*.md", *_FOLDER) if source.name == "skills" else _FOLDER
            files = [file for file in found_in(source, patterns, draft) if file.name != "README.md"]
        else:
            files = [source]
        each(files, draft, take)
        main = taken.get(source / MAIN) or (next(iter(taken.values())) if len(taken) == 1 else None)
        if main is not None:
            take_main(draft, main)
        elif taken:
            draft.take(("name",), _id(source.resolve().name), FILLED)


def take_main(draft: Draft, skill: str) -> None:
    """Give the agent the name and description of its main skill, where nothing else says them."""
    for fact in draft.facts():
        if fact.target[:2] == ("skills", skill) and fact.target[2] in ("name", "description"):
            draft.take(fact.target[2:], fact.value, fact.place)


def _of_text(
    document: SourceDocument, draft: Draft, options: BuildOptions, *, heading: bool
) -> str | None:
    """The first heading or paragraph of a body, which is a prompt: only if that was asked for."""
    if not options.prompt_excerpt:
        return None
    pattern = r"^#+ +(.*\w.*)$" if heading else r"^(?![#>\-*`\s])(.*\w.*)$"
    match = re.search(pattern, document.body, re.MULTILINE)
    text = excerpt(match[1]) if match else None
    if text is not None:
        draft.warn("build.prompt", f"taken from the skill's text: {text!r}", document.place())
    return text


def _id(name: str) -> str:
    return re.sub(r"\s+", "-", name.strip())


KIND: Final = Kind(
    "skills",
    take_skills,
    lambda document: document.file.endswith(".md"),
    folder=_FOLDER,
)
