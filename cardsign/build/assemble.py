"""Build a card: recognise sources, collect their facts, fill the gaps, write one A2A version."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, cast

from cardsign.build import cards, forge, mcp, openfang, orloj
from cardsign.build.draft import (
    DEFAULT_VERSION,
    FILLED,
    NO_VERSION,
    BuildOptions,
    Draft,
    Kind,
    Target,
    describe_hint,
    field_of,
    rank,
)
from cardsign.build.reading import SourceValue, read_one, read_source
from cardsign.card.convert import PROTOCOL_VERSIONS, convert_card
from cardsign.card.document import Card, render
from cardsign.card.schema import CARD_1_0, A2aVersion
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, members_of, objects_in
from cardsign.errors import BuildRefused, CardRefused, JsonRefused, UsageFault
from cardsign.files import leads_outside
from cardsign.findings import Finding
from cardsign.urls import parse_url

#: Every kind of source; a file that could be of two kinds is of the first.
KINDS: Final[tuple[Kind, ...]] = (
    cards.PYPROJECT,
    forge.KIND,
    orloj.KIND,
    openfang.KIND,
    mcp.KIND,
    cards.CARD_KIND,
    forge.SKILLS,
)
SET_HINT: Final = (
    "Such as: --set version=1.2.0, --set provider.url=..., --set skills.ID.name=...; "
    "the agent's url is --url"
)
_INTERFACE: Final = tuple(CARD_1_0.messages["supportedInterfaces"].fields)
#: What no rule fills, by member: why a card without it is refused, and what to do.
_NEEDED: Final = {
    "name": (
        "no source names the agent",
        "Pass --set name='...', or name a source that says it.",
    ),
    "skills": (
        "no source names a skill or a tool",
        "Name a source that has one too: a SKILL.md, or a saved answer to tools/list.",
    ),
    "description": (
        "no source describes the agent",
        "Pass --set description='...', or --prompt-excerpt where there is a prompt.",
    ),
    "supportedInterfaces": (
        "no source says where the agent is called",
        "Pass --url 'https://agents.example.com/{name}', or --base-url.",
    ),
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
    recognised = [_recognise(str(source)) for source in sources]
    if options.agent is not None and not have_agents(sources):
        message = f"--agent {options.agent} chooses among agents of Orloj, and no source is one"
        raise UsageFault("usage.invalid", message, hint="Leave out --agent.")
    # Neighbours of one kind may refer to each other.
    for kind, neighbours in groupby(recognised, key=itemgetter(0)):
        kind.take([path for _, path in neighbours], draft)
    for document in options.live:
        mcp.take_server(document, draft)
    first, path = recognised[0] if recognised else (mcp.KIND, "the MCP server")
    a2a = options.a2a or (first is orloj.KIND and options.orloj.protocol_version) or first.a2a
    if a2a not in (*PROTOCOL_VERSIONS, "both"):
        raise UsageFault("usage.invalid", f"there is no A2A version {a2a!r} to build")
    place = SourceValue(str(path))
    _take_url(draft, first, place)
    _complete(draft, first, place, fill=a2a != "0.2")  # whose readers require no more
    return _write(draft, ("1.0", "0.3") if a2a == "both" else (cast(A2aVersion, a2a),))


def have_agents(sources: Sequence[str | Path]) -> bool:
    """Return whether a source may define several agents, of which one is to be chosen."""
    return any(_recognise(str(source))[0] is orloj.KIND for source in sources)


def _recognise(source: str) -> tuple[Kind, Path]:
    """Return the kind of a source, and its path."""
    for kind in KINDS:
        if source.startswith(f"{kind.name}:"):
            return kind, Path(source.removeprefix(f"{kind.name}:"))
    if "://" in source:
        hint = f"Save it, and name the file: curl -O {shlex.quote(source)}"
        raise UsageFault("usage.invalid", "a source is a file or a folder", path=source, hint=hint)
    path = Path(source)
    if os.path.isdir(path):
        fitting = (kind for kind in KINDS for name in kind.folder if _has_file(path, name, kind))
    else:
        documents = read_source(path)
        fitting = (kind for file in documents for kind in KINDS if kind.is_file(file))
    for kind in fitting:
        return kind, path
    message = f"it is none of {', '.join(kind.name for kind in KINDS)}"
    raise SourceValue(source).refuse("build.unknown_source", message)


def _has_file(folder: Path, name: str, kind: Kind) -> bool:
    """Return whether a folder has a file of its kind; pyproject.toml only with our table."""
    files = folder.glob(name)
    if kind is not cards.PYPROJECT:
        return any(files)
    own = (file for file in files if os.path.isfile(file) and not leads_outside(folder, file))
    return any(kind.is_file(read_one(file)) for file in own)


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
        try:
            value = parse_object(f'{{"":{text}}}'.encode())[""]
        except (JsonRefused, ValueError):
            if field.kind == "string":
                value = [part.strip() for part in text.split(",")]
    if not draft.take(target, value, SourceValue(f"--set {member}")):
        raise UsageFault("usage.invalid", f"{member!r} has no value", hint=SET_HINT)


def _take_url(draft: Draft, kind: Kind, place: SourceValue) -> None:
    """Take the URL of the agent from the options, if they say one.

    Raises:
        UsageFault: ``usage.invalid``: what the options give is no URL.
    """
    options = draft.options
    option, template, base = "--url", options.url, options.base_url
    if kind is orloj.KIND:
        base = base or options.orloj.public_base_url
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
    card = draft.document()
    for member, (message, hint) in _NEEDED.items():
        if not card.get(member):
            raise place.refuse("build.missing", message, hint=hint)
    for skill in sorted({target[1] for target in draft.facts if target[0] == "skills"}):
        if draft.value("skills", skill, "description") is None:
            message = f"the skill {skill!r} has no description"
            raise place.refuse("build.missing", message, hint=describe_hint(skill))
        draft.take(("skills", skill, "id"), skill, FILLED)
        if fill:
            draft.take(("skills", skill, "name"), skill, FILLED)
            draft.take(("skills", skill, "tags"), ["skill"], FILLED)
    if not fill:
        return
    draft.fill(("version",), DEFAULT_VERSION, NO_VERSION, place)
    modes = [mode for mode in ("defaultInputModes", "defaultOutputModes") if mode not in card]
    text = f"no source has {' or '.join(modes)}; filled in: {', '.join(kind.modes)}"
    for mode in modes:
        draft.fill((mode,), [*kind.modes], text, place)
    if not any(target[0] == "capabilities" for target in draft.facts):
        draft.take(("capabilities", "streaming"), False, FILLED)
    _fill_provider(draft, place)


def _fill_provider(draft: Draft, place: SourceValue) -> None:
    """Complete a provider, which has a name and a url (A2A 1.0 4.4.2): the origin of the agent."""
    card = draft.document()
    provider = members_of(card.get("provider"))
    if "organization" not in provider:
        if provider:
            draft.note("build.left_out", "the provider has no organization", place)
        facts = draft.facts.items()
        draft.facts = {target: fact for target, fact in facts if target[0] != "provider"}
    elif "url" not in provider:
        with suppress(CardRefused):
            origin = str(parse_url(str(_list_interfaces(card)[0].get("url"))).origin)
            draft.facts["provider", "url"] = replace(FILLED, value=origin)
            draft.note("build.filled", f"the provider has no url: {origin}", place)


def _write(draft: Draft, versions: Sequence[A2aVersion]) -> BuiltCard:
    documents: dict[A2aVersion, bytes] = {}
    for version in versions:
        card = draft.document()
        spoken = {"protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSIONS[version]}
        card["supportedInterfaces"] = [
            {
                name: interface.get(name) or spoken.get(name, "")
                for name in _INTERFACE
                if name in interface or name in spoken
            }
            for interface in _list_interfaces(card)
        ]
        changes = None if version == "1.0" else draft.notes
        documents[version] = data = render(convert_card(card, version, changes))
        try:
            Card.from_bytes(data)
        except JsonRefused as refused:
            message = f"the card would be refused: {refused.message}"
            raise BuildRefused("build.limit", message) from refused
    facts = {target: draft.facts[target] for target in sorted(draft.facts, key=rank)}
    return BuiltCard(documents, facts, tuple(dict.fromkeys(draft.notes)))
