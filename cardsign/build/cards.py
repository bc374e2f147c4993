"""Cards: A2A 0.2, 0.3 and 1.0, the generic reference, and contract cards.

The tables below rename members that A2A does not have; :mod:`cardsign.card.convert` does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cardsign.build.draft import Draft, Kind, Mappings, first_in
from cardsign.build.reading import SourceDocument, SourcePlace, of_card, read_one, refusal
from cardsign.card.convert import convert_card
from cardsign.card.extensions import KEPT_OF_CARD, kept_of, with_kept
from cardsign.card.values import Json, elements_of, members_of
from cardsign.errors import CardRefused
from cardsign.findings import Finding
from cardsign.lint.cards import lint_document
from cardsign.lint.portability import camel_case
from cardsign.lint.rules import LintSettings
from cardsign.lint.secrets import is_secret_name
from cardsign.tomltext import Location

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
_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    "supportedInterfaces": ("url", "interfaces"),
    "securitySchemes": ("authentication", "auth"),
    "securityRequirements": ("security", "authentication", "auth"),
}
_FOLDER: Final = (".well-known/agent-card.json", "agent-card.json", ".well-known/agent.json")


def take_cards(sources: Sequence[Path], draft: Draft) -> None:
    """Take cards: files, or folders with one at its usual place."""
    for source in sources:
        file = first_in(source, _FOLDER) if os.path.isdir(source) else None
        _take_card(read_one(file or source), draft)


def _take_card(document: SourceDocument, draft: Draft) -> None:
    if isinstance(document.get("signature"), dict):
        text = "`signature` is no signature of A2A and is left out; sign the card that is built"
        draft.warn("build.changed", text, document.place("signature"))
    notes: list[Finding] = []
    try:
        card = convert_card(_rename_members(document, draft), "1.0", notes)
    except CardRefused as refused:
        at = tuple(token for token in refused.path.split("/") if token)
        if refused.code in ("card.auth_type", "card.auth_setting"):
            at = ("auth",) if "auth" in document.value else ("authentication",)
        raise of_card(refused, document.place(*at)) from refused
    for change in notes:
        place = _place(document, tuple(token for token in change.path.split("/") if token))
        left_out = change.message.endswith("left out") and "signature" not in change.message
        draft.warn("build.left_out" if left_out else "build.changed", change.message, place)
    _take_document(card, document, draft)


def _rename_members(document: SourceDocument, draft: Draft) -> dict[str, Json]:
    """Return the card with the names and forms of A2A for members that have others."""
    members: dict[str, Json] = {}
    for name, value in document.value.items():
        if value is not None and name != "signature":
            own_name = CARD.get(name, camel_case(name) if name not in KEPT_OF_CARD else name)
            members.setdefault(own_name, value)
    old_interfaces = members.pop("interfaces", None)
    if isinstance(old_interfaces, list) and (
        interfaces := _interfaces(old_interfaces, document, draft)
    ):
        members["supportedInterfaces"] = interfaces
    if isinstance(extensions := members.pop("extensions", None), list):
        text = "extensions belong into capabilities"
        draft.warn("build.changed", text, document.place("extensions"))
        members["capabilities"] = {
            **members_of(members.get("capabilities")),
            "extensions": extensions,
        }
    if isinstance(skills := members.get("skills"), list):
        members["skills"] = [_skill(skill) for skill in skills]
    elif isinstance(words := members.get("capabilities"), list) and all(
        isinstance(skill, dict) for skill in words
    ):
        members["skills"] = [_skill(skill) for skill in words]
        del members["capabilities"]
    for owner in (members, *map(members_of, elements_of(members.get("skills")))):
        if "securityRequirements" in owner:
            owner["securityRequirements"] = _wrap_scopes(owner["securityRequirements"])
    if "metadata" in members:
        members["metadata"] = _drop_secrets(members["metadata"], document, draft)
    return members


def _wrap_scopes(requirements: Json) -> Json:
    """Return requirements with wrapped scopes, which a2a-go before 2.4.1 writes as bare lists."""
    if not isinstance(requirements, list):
        return requirements
    wrapped: list[Json] = []
    for requirement in requirements:
        schemes = members_of(requirement).get("schemes")
        if isinstance(requirement, dict) and isinstance(schemes, dict):
            lists: dict[str, Json] = {
                name: {"list": scopes} if isinstance(scopes, list) else scopes
                for name, scopes in schemes.items()
            }
            requirement = {**requirement, "schemes": lists}
        wrapped.append(requirement)
    return wrapped


def _drop_secrets(metadata: Json, document: SourceDocument, draft: Draft) -> Json:
    """Return metadata without objects, lists, and what might be a secret.

    A manifest may keep anything there, and a card is public.
    """
    members: dict[str, Json] = metadata if isinstance(metadata, dict) else {"": metadata}
    settings = LintSettings(groups=("secrets",))
    all_members: dict[str, Json] = {"metadata": members}
    findings = lint_document(all_members, settings)
    secret_members = {name for finding in findings for name in finding.place.tokens[1:2]}
    kept: dict[str, Json] = {}
    for name, value in members.items():
        plain = isinstance(value, str | int | float)
        if name and name not in secret_members and not is_secret_name(name) and plain:
            kept[name] = value
        else:
            text = "may hold what is not for everybody, and is left out"
            place = document.place("metadata", name)
            draft.warn("build.left_out", f"metadata {ascii(name)[:40]} {text}", place)
    return kept


def _skill(skill: Json) -> Json:
    if isinstance(skill, str):
        return {"id": skill}
    if not isinstance(skill, dict):
        return skill
    named: dict[str, Json] = {
        SKILL.get(name, name): value for name, value in skill.items() if value is not None
    }
    if "id" not in named and isinstance(name := named.get("name"), str):
        named["id"] = "-".join(name.lower().split())
    return named


def _interfaces(listed: list[Json], document: SourceDocument, draft: Draft) -> list[Json]:
    """Return the interfaces of the generic reference; ``a2a`` is read as the binding JSONRPC."""
    interfaces: list[Json] = []
    for index, interface in enumerate(listed):
        place = document.place("interfaces", index)
        if not isinstance(interface, dict):
            raise document.refuse("build.type", "expected an interface", "interfaces", index)
        if not interface.get("url"):
            draft.warn("build.left_out", "the interface has no url", place)
            continue
        binding = (
            interface.get("protocolBinding")
            or interface.get("transport")
            or interface.get("protocol")
        )
        if binding not in ("JSONRPC", "GRPC", "HTTP+JSON"):
            text = f"{binding!r} is no protocol binding of A2A: JSONRPC is assumed"
            draft.warn("build.changed", text, place)
            binding = "JSONRPC"
        interfaces.append({"url": interface.get("url"), "protocolBinding": binding})
    return interfaces


def _take_document(card: Mapping[str, Json], document: SourceDocument, draft: Draft) -> None:
    """Take a card of A2A 1.0, member by member."""
    kept = kept_of(card)
    for name, value in with_kept(card, {}).items():
        if name in ("capabilities", "securitySchemes") and isinstance(value, dict):
            for part, of_part in value.items():
                draft.take((name, part), of_part, _place(document, (name, part)))
        elif name == "skills" and isinstance(value, list):
            for index, skill in enumerate(value):
                if not isinstance(skill_id := members_of(skill).get("id"), str):
                    message = "the skill has neither id nor name"
                    raise document.refuse("build.missing", message, name, index)
                for member, of_skill in members_of(skill).items():
                    draft.take((name, skill_id, member), of_skill, document.place(name, index))
        else:
            draft.take((name,), value, _place(document, (name,)))
    for name, value in kept.items():
        if name != "skills":
            draft.keep(name, value, document.place(name))
    for skill_id, members in members_of(kept.get("skills")).items():
        for member, value in members_of(members).items():
            draft.keep(member, value, document.place("skills"), skill_id)


def _place(document: SourceDocument, at: Location) -> SourcePlace:
    """Return where a member of the 1.0 card came from."""
    if at and at not in document.lines:
        for older in _BEFORE.get(str(at[0]), ()):
            if (older,) in document.lines:
                return document.place(older)
    return document.place(*at)


def _is_card(document: SourceDocument) -> bool:
    value = document.value
    if not document.file.endswith(".json"):
        return False
    return any(name in value for name in ("name", "agent_name")) and any(
        name in value for name in ("skills", "capabilities", "supportedInterfaces", "url")
    )


CARD_KIND: Final = Kind("card", take_cards, _is_card, folder=_FOLDER)


# A pyproject.toml: the table ``[tool.cardsign.card]``, and ``[project]`` for what it lacks.

PYPROJECT_FILE: Final = "pyproject.toml"
_TABLE: Final = ("tool", "cardsign", "card")
#: The card's member for each member of ``[project]``; the table is a card.
PROJECT: Final[Mappings] = {"name": "name", "version": "version", "description": "description"}


def take_pyproject(sources: Sequence[Path], draft: Draft) -> None:
    """Take the tables of Python projects."""
    for source in sources:
        _take_project(source, draft)


def _take_project(source: Path, draft: Draft) -> None:
    file = first_in(source, (PYPROJECT_FILE,)) if os.path.isdir(source) else source
    if file is None:
        message = f"the folder has no {PYPROJECT_FILE}"
        raise refusal("build.missing", message, SourcePlace(str(source)))
    document = read_one(file)
    if not _has_table(document):
        raise document.refuse("build.missing", "it has no table [tool.cardsign.card]")
    table, depth = document.table(*_TABLE), len(_TABLE)
    if "url" in table:  # whose interface is one of 1.0, and not of an older card
        table = {"supportedInterfaces": [{"url": table["url"]}], **table, "url": None}
    lines = {at[depth:]: line for at, line in document.lines.items() if at[:depth] == _TABLE}
    _take_card(SourceDocument(document.file, table, lines), draft)
    draft.take_members(document, PROJECT, at=("project",))


def _has_table(document: SourceDocument) -> bool:
    return isinstance(document.get(*_TABLE), dict)


PYPROJECT: Final = Kind("pyproject", take_pyproject, _has_table, folder=(PYPROJECT_FILE,))
