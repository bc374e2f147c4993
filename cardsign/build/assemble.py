"""Build a card: recognise sources, collect their facts, fill the gaps, write one A2A version."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, cast

from cardsign.build.draft import FILLED, BuildOptions, Draft, Kind, Target, field_of, rank
from cardsign.build.reading import MAX_SOURCE_BYTES, SourceValue, find_files, read_source
from cardsign.build.sources import KINDS, MCP, ORLOJ, take_server
from cardsign.card.convert import PATCHED, PROTOCOL_VERSIONS, convert_card
from cardsign.card.document import Card, render
from cardsign.card.schema import CARD_1_0, A2aVersion
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, members_of, objects_in
from cardsign.errors import BuildRefused, CardRefused, JsonRefused, UsageFault
from cardsign.files import read_bytes
from cardsign.findings import Finding
from cardsign.urls import parse_url

SET_HINT: Final = "Such as: --set version=1.2.0, --set skills.ID.name=...; the url is --url"
_INTERFACE: Final = tuple(CARD_1_0.messages["supportedInterfaces"].fields)
#: What no rule fills, by member, and what to do where no source says it.
_NEEDED: Final = {
    "name": "Pass --set name='...', or name a source that says it.",
    "skills": "Name a SKILL.md, or an answer to tools/list.",
    "description": "Pass --set description='...', or --prompt-excerpt where there is a prompt.",
    "supportedInterfaces": "Pass --url 'https://agents.example.com/{name}', or --base-url.",
}


@dataclass(frozen=True, slots=True)
class BuiltCard:
    """The result of :func:`build_card`.

    Attributes:
        documents: The bytes of the card by A2A version: one, or 1.0 and 0.3 for ``both``.
        facts: Each value with the place where it was taken from, in the order of the card.
        reasons: What was filled, changed or left out.
    """

    documents: dict[A2aVersion, bytes]
    facts: dict[Target, SourceValue]
    reasons: tuple[Finding, ...]

    @property
    def document(self) -> bytes:
        """The card; of ``both``, the 1.0 one."""
        return next(iter(self.documents.values()))


def build_card(sources: Sequence[str | Path], options: BuildOptions) -> BuiltCard:
    """Build a card. Nothing of a source is run; the same sources give the same bytes.

    Args:
        sources: Files and folders, each with its kind before it or not: ``KIND:PATH``. What an
            earlier one says stays; a later one fills gaps. Neighbours of one kind may refer to
            each other, as Orloj's files do.
        options: What the person who builds says.

    Raises:
        BuildRefused: ``build.*``.
        FileFault: ``file.*``: a source cannot be read.
        UsageFault: ``usage.invalid``: there is no such member or form.
    """
    if not (sources or options.live):
        raise UsageFault("usage.invalid", "no source is named")
    draft = Draft(options)
    for member, text in options.members.items():
        _set(draft, member, text)
    recognised = [recognise_source(str(source)) for source in sources]
    # Neighbours of one kind may refer to each other.
    for kind, neighbours in groupby(recognised, key=itemgetter(0)):
        kind.take([path for _, path in neighbours], draft)
    for document in options.live:
        take_server(document, draft)
    first, path = recognised[0] if recognised else (MCP, "the MCP server")
    of_server = options.settings.orloj.protocol_version if first is ORLOJ else None
    a2a = options.a2a or options.settings.a2a or of_server or first.a2a
    if a2a not in (*PROTOCOL_VERSIONS, "both"):
        raise UsageFault("usage.invalid", f"there is no A2A version {a2a!r} to build")
    place = SourceValue(str(path))
    _take_url(draft, first, place)
    fill = a2a != "0.2"  # whose readers require no more
    _complete(draft, first, place, fill=fill)
    _fill_provider(draft, place, fill=fill)
    return _write(draft, ("1.0", "0.3") if a2a == "both" else (cast(A2aVersion, a2a),))


def recognise_source(source: str) -> tuple[Kind, Path]:
    """Return the kind of a source, and its path."""
    for kind in KINDS:
        if source.startswith(f"{kind.name}:"):
            return kind, Path(source.removeprefix(f"{kind.name}:"))
    path = Path(source)
    if os.path.isdir(path):
        fitting = (kind for kind in KINDS if _has_file(path, kind))
    else:
        fitting = (kind for file in read_source(path) for kind in KINDS if kind.is_file(file))
    for kind in fitting:
        return kind, path
    message = f"it is none of {', '.join(kind.name for kind in KINDS)}"
    raise SourceValue(source).refuse("build.unknown_source", message)


def _has_file(folder: Path, kind: Kind) -> bool:
    """Return whether a folder has a file of this kind, not another tool's of the same name.

    A file that has the mark, and cannot be read, is refused: the card of another kind might lack
    what that file says, such as the login.
    """
    for file in find_files(folder, kind.folder):
        content = read_bytes(file, max_bytes=MAX_SOURCE_BYTES, is_cut=True) if kind.mark else b""
        if kind.mark in content and (not kind.mark or any(map(kind.is_file, read_source(file)))):
            return True
    return False


def _set(draft: Draft, member: str, text: str) -> None:
    """Take the value of a ``--set`` option, before any source."""
    target = tuple(member.split("."))
    try:
        if target[0] == "skills":
            *skill, name = target[1:]
            target = ("skills", ".".join(skill), name)  # an id may have dots
        if target[0] == "signatures" or not all(target):
            raise KeyError(member)
        field = field_of(target)
    except (KeyError, ValueError) as exc:
        message = f"{member!r} is not a member of an A2A 1.0 card that can be set"
        raise UsageFault("usage.invalid", message, hint=SET_HINT) from exc
    value: Json = text
    if field.expected[0] is not str:
        with suppress(JsonRefused, ValueError):  # of which the type is refused
            value = parse_object(f'{{"":{text}}}'.encode())[""]
    if not draft.take(target, value, SourceValue(f"--set {member}")):
        raise UsageFault("usage.invalid", f"{member!r} has no value", hint=SET_HINT)


def _take_url(draft: Draft, kind: Kind, place: SourceValue) -> None:
    """Take the URL of the agent from the options, if they say one.

    Raises:
        UsageFault: ``usage.invalid``: what the options give is not a URL.
    """
    options, settings = draft.options, draft.options.settings
    option, template = "--url", options.url or (None if options.base_url else settings.url)
    of_server = settings.orloj.public_base_url if kind is ORLOJ else None
    base = options.base_url or settings.base_url or of_server
    if template is None and base is not None:
        path = kind.path(draft)
        option, template = "--base-url", base.rstrip("/") + path if path else base
    name = draft.value("name")
    if template is None or name is None:
        return
    slug = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")  # may stand in a host or path
    url = template.replace("{name}", slug)
    try:
        parse_url(url)
    except CardRefused as refused:
        hint = "Such as: --url 'https://agents.example.com/{name}'"
        raise UsageFault("usage.invalid", refused.message, path=option, hint=hint) from refused
    first, *others = _list_interfaces(draft.document()) or [{}]
    for interface in others:
        text = f"{interface.get('protocolBinding') or 'JSONRPC'} {interface.get('url')}"
        draft.note("build.left_out", f"{option} gives one interface, and so not {text}", place)
    kept = {name: part for name, part in first.items() if name in ("protocolBinding", "tenant")}
    draft.facts["supportedInterfaces",] = SourceValue(option, [{"url": url, **kept}])


def _list_interfaces(card: Mapping[str, Json]) -> list[dict[str, Json]]:
    return [interface for _, interface in objects_in(card.get("supportedInterfaces"))]


def _complete(draft: Draft, kind: Kind, place: SourceValue, *, fill: bool) -> None:
    """Refuse a card that lacks what has no default, and fill in defaults."""
    for skill in sorted({target[1] for target in draft.facts if target[0] == "skills"}):
        draft.take(("skills", skill, "id"), skill, FILLED)
        if ("skills", skill, "description") not in draft.facts:
            hint = f"Write one into the source, or pass --set 'skills.{skill}.description=...'"
            message = f"the skill {skill!r} has no description"
            raise draft.facts["skills", skill, "id"].refuse("build.missing", message, hint=hint)
        if fill:
            draft.take(("skills", skill, "name"), skill, FILLED)
            draft.take(("skills", skill, "tags"), ["skill"], FILLED)
    card = draft.document()
    for member, hint in _NEEDED.items():
        if not card.get(member):
            raise place.refuse("build.missing", f"no source gives the card's {member}", hint=hint)
    if not fill:
        return
    draft.fill_version(place)
    modes = [mode for mode in ("defaultInputModes", "defaultOutputModes") if mode not in card]
    for mode in modes:
        draft.take((mode,), [*kind.modes], FILLED)
    if modes:
        text = f"no source has {' or '.join(modes)}; filled in: {', '.join(kind.modes)}"
        draft.note("build.filled", text, place)
    if not any(target[0] == "capabilities" for target in draft.facts):
        draft.take(("capabilities", "streaming"), False, FILLED)


def _fill_provider(draft: Draft, place: SourceValue, *, fill: bool) -> None:
    """Complete a provider by the origin of the agent, or leave out one without a name.

    It has a name and a url (A2A 1.0 4.4.2).
    """
    card = draft.document()
    provider = members_of(card.get("provider"))
    if "organization" not in provider:
        if provider:
            draft.note("build.left_out", "the provider has no organization", place)
        draft.facts = {name: fact for name, fact in draft.facts.items() if name[0] != "provider"}
    elif fill and "url" not in provider:
        with suppress(CardRefused):
            origin = str(parse_url(str(_list_interfaces(card)[0].get("url"))).origin)
            draft.facts["provider", "url"] = replace(FILLED, value=origin)
            draft.note("build.filled", f"the provider has no url: {origin}", place)


def _write(draft: Draft, versions: Sequence[A2aVersion]) -> BuiltCard:
    documents: dict[A2aVersion, bytes] = {}
    for version in versions:
        card = draft.document()
        spoken = {"protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSIONS[version]}
        interfaces: dict[str, Json] = {}
        for stated in _list_interfaces(card):
            interface: dict[str, Json] = {
                name: stated.get(name) or spoken.get(name, "")
                for name in _INTERFACE
                if name in stated or name in spoken
            }
            patched = PATCHED.fullmatch(str(interface["protocolVersion"]))
            if patched and version == "1.0":
                interface["protocolVersion"] = patched[1]
            interfaces.setdefault(repr(interface), interface)
        card["supportedInterfaces"] = [*interfaces.values()]
        changes = None if version == "1.0" else draft.notes
        try:
            documents[version] = render(convert_card(card, version, changes))
            Card.from_bytes(documents[version])
        except (JsonRefused, ValueError) as refused:  # a ValueError: infinity, half a character
            problem = refused.message if isinstance(refused, JsonRefused) else str(refused)
            raise BuildRefused("build.limit", f"the card would be refused: {problem}") from refused
    facts = {target: draft.facts[target] for target in sorted(draft.facts, key=rank)}
    return BuiltCard(documents, facts, tuple(dict.fromkeys(draft.notes)))
