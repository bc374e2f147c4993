"""A pyproject.toml: the table ``[tool.cardsign.card]``, and ``[project]`` for what it lacks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import MORE_OF_SKILL, Draft
from cardsign.build.kind import BuildOptions, Kind, each, first_in
from cardsign.build.reading import Document, Place, read_one, refusal
from cardsign.card.schema import CARD_1_0

FILE: Final = "pyproject.toml"
_TABLE: Final = ("tool", "cardsign", "card")
#: The card's member for each member of ``[project]``; the table has those of A2A 1.0.
PROJECT: Final = {"name": "name", "version": "version", "description": "description"}
TABLE: Final = {
    name: name
    for name in CARD_1_0.fields
    if name not in ("skills", "signatures", "securitySchemes", "capabilities")
}


def take_pyproject(sources: Sequence[Path], draft: Draft, options: BuildOptions) -> None:
    """Take the tables of Python projects."""

    def take(source: Path) -> None:
        found = first_in(source, (FILE,), draft) if os.path.isdir(source) else source
        if found is None:
            raise refusal("build.missing", f"the folder has no {FILE}", Place(str(source)))
        _take(read_one(found), draft)

    each(sources, draft, take)


def _take(document: Document, draft: Draft) -> None:
    if not _is_ours(document):
        raise document.refuse("build.missing", "it has no table [tool.cardsign.card]")
    draft.take_members(document, TABLE, at=_TABLE)
    for member in ("capabilities", "securitySchemes"):
        for name, value in document.table(*_TABLE, member).items():
            if member == "securitySchemes" or name in ("streaming", "pushNotifications"):
                place = document.place(*_TABLE, member, name)
                draft.take((member, name), value, place)
    url = document.text(*_TABLE, "url")
    if url is not None:
        place = document.place(*_TABLE, "url")
        draft.take(("supportedInterfaces",), [{"url": url}], place)
    for at in document.rows(*_TABLE, "skills"):
        draft.take_listed_skill(document, at, MORE_OF_SKILL)
    draft.take_members(document, PROJECT, at=("project",))


def _is_ours(document: Document) -> bool:
    return isinstance(document.get(*_TABLE), dict)


KIND: Final = Kind(
    "pyproject",
    "a pyproject.toml with a table [tool.cardsign.card], or its folder",
    take_pyproject,
    _is_ours,
    folder=(FILE,),
)
