"""Cards: A2A 0.2, 0.3 and 1.0, the generic reference, and contract cards.

The tables below rename members that A2A does not have; :mod:`cardsign.card.convert` does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cardsign.build.draft import OURS, Draft, Kind, Mappings
from cardsign.build.reading import SourceValue, read_first
from cardsign.card.convert import convert_card
from cardsign.card.extensions import KEPT_OF_CARD, kept_of, with_kept
from cardsign.card.values import Json, elements_of, members_of
from cardsign.errors import CardRefused
from cardsign.findings import Finding
from cardsign.lint.cards import lint_document
from cardsign.lint.portability import camel_case
from cardsign.lint.rules import LintSettings
from cardsign.lint.secrets import is_secret_name

#: Other names for members of a card, and of a skill.
CARD: Final = {
    "agent_name": "name",
    "spiffeId": "spiffe_id",
    "auth": "authentication",
    "icon": "iconUrl",
}
SKILL: Final = {
    "skill_id": "id",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
}
#: The places of a 1.0 member in older cards, for the line that `--explain` shows.
_OLDER: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("agent_name",),
    "supportedInterfaces": ("url", "interfaces"),
    "authentication": ("auth",),
    "securitySchemes": ("authentication", "auth"),
    "securityRequirements": ("security", "authentication", "auth"),
}
_BINDINGS: Final = ("JSONRPC", "GRPC", "HTTP+JSON")
_FOLDER: Final = (".well-known/agent-card.json", "agent-card.json", ".well-known/agent.json")


def take_cards(sources: Sequence[Path], draft: Draft) -> None:
    """Take cards: files, or folders with one at its usual place."""
    for source in sources:
        take_card(read_first(source, _FOLDER), draft)


def take_card(document: SourceValue, draft: Draft) -> None:
    """Take a card of any form."""
    if isinstance(document.members.get("signature"), dict):
        text = "`signature` is no signature of A2A and is left out; sign the card that is built"
        draft.note("build.changed", text, document.get("signature"))
    changes: list[Finding] = []
    try:
        card = convert_card(_rename_members(document, draft), "1.0", changes)
    except CardRefused as refused:
        path = refused.path.split("/")[1:] or ["authentication"]
        raise _place(document, *path).refuse_as(refused) from refused
    for change in changes:
        left_out = change.message.endswith("left out") and "signature" not in change.message
        code = "build.left_out" if left_out else "build.changed"
        draft.note(code, change.message, _place(document, *change.path.split("/")[1:]))
    kept = kept_of(card)
    for name, value in with_kept(card, {}).items():
        if name in ("capabilities", "securitySchemes"):
            for part, of_part in members_of(value).items():
                draft.take((name, part), of_part, _place(document, name, part))
        elif name == "skills":
            _take_skills(elements_of(value), document, draft)
        else:
            draft.take((name,), value, _place(document, name))
    for name in kept:
        if name in KEPT_OF_CARD:
            draft.take((OURS, name), kept[name], document.get(name))
    for skill, members in members_of(kept.get("skills")).items():
        for name, value in members_of(members).items():
            draft.take((OURS, "skills", skill, name), value, document.get("skills"))


def _take_skills(skills: Sequence[Json], document: SourceValue, draft: Draft) -> None:
    for index, skill in enumerate(skills):
        members, place = members_of(skill), document.get("skills", index)
        if not isinstance(skill_id := members.get("id"), str):
            raise place.refuse("build.missing", "the skill has neither id nor name")
        for name, value in members.items():
            draft.take(("skills", skill_id, name), value, place)


def _place(document: SourceValue, *path: str) -> SourceValue:
    """Return where a member of the 1.0 card came from."""
    place = document.get(*path)
    if path and place.at not in document.lines:
        for older in map(document.get, _OLDER.get(path[0], ())):
            if older.at in document.lines:
                return older
    return place


def _rename_members(document: SourceValue, draft: Draft) -> dict[str, Json]:
    """Return the card with the names and forms of A2A for members that have others."""
    members: dict[str, Json] = {}
    for name, value in document.members.items():
        if value is not None and name != "signature":
            own_name = CARD.get(name, camel_case(name) if name not in KEPT_OF_CARD else name)
            members.setdefault(own_name, value)
    is_listed = isinstance(members.pop("interfaces", None), list)
    if is_listed and (interfaces := [*_read_interfaces(document, draft)]):
        members["supportedInterfaces"] = interfaces
    if isinstance(extensions := members.pop("extensions", None), list):
        text = "extensions belong into capabilities"
        draft.note("build.changed", text, document.get("extensions"))
        capabilities = members_of(members.get("capabilities"))
        members["capabilities"] = {**capabilities, "extensions": extensions}
    words = members.get("capabilities")
    is_list = isinstance(words, list) and all(isinstance(skill, dict) for skill in words)
    if is_list and not isinstance(members.get("skills"), list):
        members["skills"] = members.pop("capabilities")
    if isinstance(skills := members.get("skills"), list):
        members["skills"] = [_rename_skill(skill) for skill in skills]
    if "metadata" in members:
        members["metadata"] = _drop_secrets(document.get("metadata"), draft)
    return _wrap_scopes(members)


def _rename_skill(skill: Json) -> Json:
    if isinstance(skill, str):
        return {"id": skill}
    if not isinstance(skill, dict):
        return skill
    members: dict[str, Json] = {
        SKILL.get(name, name): value for name, value in skill.items() if value is not None
    }
    if "id" not in members and isinstance(name := members.get("name"), str):
        members["id"] = "-".join(name.lower().split())
    return _wrap_scopes(members)


def _wrap_scopes(owner: dict[str, Json]) -> dict[str, Json]:
    """Wrap the scopes of requirements, which a2a-go before 2.4.1 writes as bare lists."""
    listed = owner.get("securityRequirements")
    if not isinstance(listed, list):
        return owner
    return {**owner, "securityRequirements": [_wrap_lists(requirement) for requirement in listed]}


def _wrap_lists(requirement: Json) -> Json:
    members = members_of(requirement)
    if not isinstance(schemes := members.get("schemes"), dict):
        return requirement
    wrapped: dict[str, Json] = {
        name: {"list": scopes} if isinstance(scopes, list) else scopes
        for name, scopes in schemes.items()
    }
    return {**members, "schemes": wrapped}


def _drop_secrets(metadata: SourceValue, draft: Draft) -> dict[str, Json]:
    """Return metadata without objects, lists, and what might be a secret.

    A manifest may keep anything there, and a card is public.
    """
    value = metadata.value
    members: dict[str, Json] = value if isinstance(value, dict) else {"": value}
    findings = lint_document({"metadata": members}, LintSettings(groups=("secrets",)))
    secret_members = {name for finding in findings for name in finding.place.tokens[1:2]}
    kept: dict[str, Json] = {}
    for name, value in members.items():
        plain = isinstance(value, str | int | float)
        if name and name not in secret_members and not is_secret_name(name) and plain:
            kept[name] = value
        else:
            text = "may hold what is not for everybody, and is left out"
            place = metadata.get(name)
            draft.note("build.left_out", f"metadata {ascii(name)[:40]} {text}", place)
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
        if binding not in _BINDINGS:
            text = f"{binding!r} is no protocol binding of A2A: JSONRPC is assumed"
            draft.note("build.changed", text, interface)
            binding = "JSONRPC"
        yield {"url": url, "protocolBinding": binding}


def _is_card(document: SourceValue) -> bool:
    members = document.members
    marks = {"skills", "capabilities", "supportedInterfaces", "url"}
    is_named = not {"name", "agent_name"}.isdisjoint(members)
    return document.file.endswith(".json") and is_named and not marks.isdisjoint(members)


CARD_KIND: Final = Kind("card", take_cards, _is_card, folder=_FOLDER)


# A pyproject.toml: the table ``[tool.cardsign.card]``, and ``[project]`` for what it lacks.

PYPROJECT_FILE: Final = "pyproject.toml"
_TABLE: Final = ("tool", "cardsign", "card")
#: The card's member for each member of ``[project]``; the table is a card.
PROJECT: Final[Mappings] = {"name": "name", "version": "version", "description": "description"}


def take_pyproject(sources: Sequence[Path], draft: Draft) -> None:
    """Take the tables of Python projects."""
    for source in sources:
        document = read_first(source, (PYPROJECT_FILE,))
        if not _has_table(document):
            raise document.refuse("build.missing", "it has no table [tool.cardsign.card]")
        table = document.get(*_TABLE)
        if "url" in table.members:  # whose interface is one of 1.0, and not of an older card
            interfaces: list[Json] = [{"url": table.members["url"]}]
            members = {"supportedInterfaces": interfaces, **table.members, "url": None}
            table = replace(table, value=members)
        take_card(table, draft)
        draft.take_members(document.get("project"), PROJECT)


def _has_table(document: SourceValue) -> bool:
    return isinstance(document.get(*_TABLE).value, dict)


PYPROJECT: Final = Kind("pyproject", take_pyproject, _has_table, folder=(PYPROJECT_FILE,))
