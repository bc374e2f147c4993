"""Build a card: recognise sources, collect their facts, fill the gaps, write one A2A version."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, cast, get_args

from cardsign.build import cards, forge, mcp, openfang, orloj
from cardsign.build.draft import (
    DEFAULT_VERSION,
    BuildOptions,
    Draft,
    Fact,
    Kind,
    describe_hint,
    field_of,
)
from cardsign.build.reading import SourcePlace, read_one, read_source, refusal
from cardsign.card.convert import PROTOCOL_VERSIONS, convert_card
from cardsign.card.document import Card, render
from cardsign.card.schema import A2aVersion
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


@dataclass(frozen=True, slots=True)
class BuiltCard:
    """The result of :func:`build_card`.

    Attributes:
        documents: The bytes of the card by A2A version: one, or 1.0 and 0.3 for ``both``.
        facts: Where each value was taken from, in the order of the card.
        reasons: What was filled, changed or left out.
    """

    documents: dict[A2aVersion, bytes] = field(hash=False)
    facts: tuple[Fact, ...]
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
    first, place = recognised[0] if recognised else (mcp.KIND, "the MCP server")
    _fill(draft, first, SourcePlace(str(place)))
    return _write(draft, first)


def have_agents(sources: Sequence[str | Path]) -> bool:
    """Return whether a source may define several agents, of which one is to be chosen."""
    return any(_recognise(str(source))[0] is orloj.KIND for source in sources)


def _recognise(source: str) -> tuple[Kind, Path]:
    """Return the kind of a source, and its path."""
    named, colon, rest = source.partition(":")
    for kind in KINDS if colon else ():
        if kind.name == named:
            return kind, Path(rest)
    if "://" in source:
        hint = f"Save it, and name the file: curl -O {shlex.quote(source)}"
        raise UsageFault("usage.invalid", "a source is a file or a folder", path=source, hint=hint)
    path = Path(source)
    documents = () if os.path.isdir(path) else read_source(path)
    for kind in KINDS:
        names = kind.folder if os.path.isdir(path) else ()
        if any(_is_of(kind, file, path) for name in names for file in path.glob(name)):
            return kind, path
    for document in documents:
        for kind in KINDS:
            if kind.is_file(document):
                return kind, path
    message = f"it is none of {', '.join(kind.name for kind in KINDS)}"
    raise refusal("build.unknown_source", message, SourcePlace(source))


def _is_of(kind: Kind, file: Path, folder: Path) -> bool:
    """Return whether a file shows the kind of its folder; pyproject.toml only with our table."""
    if kind is not cards.PYPROJECT:
        return True
    is_own = os.path.isfile(file) and not leads_outside(folder, file)
    return is_own and kind.is_file(read_one(file))


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
    except (KeyError, IndexError, ValueError) as exc:
        message = f"{member!r} is not a member of an A2A 1.0 card that can be set"
        raise UsageFault("usage.invalid", message, hint=SET_HINT) from exc
    value: Json = text
    if field.kind != "string" or field.shape != "one":
        try:
            value = parse_object(f'{{"":{text}}}'.encode())[""]
        except (JsonRefused, ValueError):
            is_list = field.kind == "string"
            value = [part.strip() for part in text.split(",")] if is_list else text
    if not draft.take(target, value, SourcePlace(f"--set {member}")):
        raise UsageFault("usage.invalid", f"{member!r} has no value", hint=SET_HINT)


def _fill(draft: Draft, kind: Kind, place: SourcePlace) -> None:
    """Fill in defaults, and refuse a card that lacks what has none."""
    name = draft.value("name")
    if name is None:
        hint = "Pass --set name='...', or name a source that says it."
        raise refusal("build.missing", "no source names the agent", place, hint=hint)
    if not draft.has("skills"):
        hint = "Name a source that has one too: a SKILL.md, or a saved answer to tools/list."
        raise refusal("build.missing", "no source names a skill or a tool", place, hint=hint)
    for skill in draft.skill_ids():
        implied: dict[str, Json] = {"id": skill, "name": skill, "tags": ["skill"]}
        for member, value in implied.items():
            draft.fill(("skills", skill, member), value, "", place)
        if draft.value("skills", skill, "description") is None:
            message = f"the skill {skill!r} has no description"
            raise refusal("build.missing", message, place, hint=describe_hint(skill))
    if not draft.has("description"):
        hint = "Pass --set description='...', or --prompt-excerpt where there is a prompt."
        raise refusal("build.missing", "no source describes the agent", place, hint=hint)
    text = f"no source has a version; filled in: {DEFAULT_VERSION}"
    draft.fill(("version",), DEFAULT_VERSION, text, place)
    modes = [m for m in ("defaultInputModes", "defaultOutputModes") if draft.value(m) is None]
    text = f"no source has {' or '.join(modes)}; filled in: {', '.join(kind.modes)}"
    for mode in modes:
        draft.fill((mode,), list(kind.modes), text, place)
    if not draft.has("capabilities"):
        draft.fill(("capabilities", "streaming"), False, "", place)
    _fill_provider(draft, _take_url(draft, kind, str(name), place), place)


def _take_url(draft: Draft, kind: Kind, name: str, place: SourcePlace) -> str:
    """Take the URL of the agent: of the options, else of the sources.

    Raises:
        UsageFault: ``usage.invalid``: what the options give is no URL.
    """
    interfaces = [interface for _, interface in objects_in(draft.value("supportedInterfaces"))]
    first, *others = interfaces or [{}]
    template, option = _choose_template(draft, kind)
    if template is None:
        if not interfaces:
            hint = "Pass --url 'https://agents.example.com/{name}', or --base-url."
            message = "no source says where the agent is called"
            raise refusal("build.missing", message, place, hint=hint)
        return str(first.get("url", ""))
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")  # may stand in a host or a path
    url = template.replace("{name}", slug)
    try:
        parse_url(url)
    except CardRefused as refused:
        hint = "Such as: --url 'https://agents.example.com/{name}'"
        raise UsageFault("usage.invalid", refused.message, path=option, hint=hint) from refused
    for interface in others:
        text = f"{interface.get('protocolBinding') or 'JSONRPC'} {interface.get('url')}"
        draft.warn("build.left_out", f"{option} gives one interface, and so not {text}", place)
    kept = {name: part for name, part in first.items() if name in ("protocolBinding", "tenant")}
    draft.replace(("supportedInterfaces",), [{"url": url, **kept}], SourcePlace(option))
    return url


def _choose_template(draft: Draft, kind: Kind) -> tuple[str | None, str]:
    """Return the url that the options give, with ``{name}`` for the name, and the option."""
    base = draft.options.base_url
    if kind is orloj.KIND:
        base = base or draft.options.orloj.public_base_url
    if draft.options.url is not None or base is None:
        return draft.options.url, "--url"
    path = kind.path if isinstance(kind.path, str) else kind.path(draft)
    return base.rstrip("/") + path if path else base, "--base-url"


def _fill_provider(draft: Draft, url: str, place: SourcePlace) -> None:
    """Complete a provider, which has a name and a url (A2A 1.0 4.4.2): the origin of the agent."""
    provider = members_of(draft.document().get("provider"))
    if not provider or len(provider) == 2:
        return
    source = next(fact.place for fact in draft.facts() if fact.target[0] == "provider")
    try:
        origin = str(parse_url(url).origin)
    except CardRefused:
        return
    draft.replace(("provider",), None, place)
    if "organization" not in provider:
        draft.warn("build.left_out", "the provider has no organization", place)
        return
    draft.take(("provider", "organization"), provider["organization"], source)
    draft.fill(("provider", "url"), origin, f"the provider has no url: {origin}", place)


def _write(draft: Draft, kind: Kind) -> BuiltCard:
    orloj_version = draft.options.orloj.protocol_version if kind is orloj.KIND else None
    a2a = draft.options.a2a or orloj_version or kind.a2a
    if a2a not in (*get_args(A2aVersion), "both"):
        raise UsageFault("usage.invalid", f"there is no A2A version {a2a!r} to build")
    documents: dict[A2aVersion, bytes] = {}
    versions: tuple[A2aVersion, ...] = (cast(A2aVersion, a2a),)
    if a2a == "both":
        versions = ("1.0", "0.3")
    for version in versions:
        notes = None if version == "1.0" else draft.reasons
        documents[version] = data = render(convert_card(_spoken(draft, version), version, notes))
        try:
            Card.from_bytes(data)
        except JsonRefused as refused:
            message = f"the card would be refused: {refused.message}"
            raise BuildRefused("build.limit", message) from refused
    filled = draft.filled if a2a != "0.2" else []
    return BuiltCard(documents, draft.facts(), tuple(dict.fromkeys([*draft.reasons, *filled])))


def _spoken(draft: Draft, version: A2aVersion) -> dict[str, Json]:
    """Return the card of 1.0, whose interfaces have the protocol version of the form by default.

    The form of 0.2 has no defaults filled in, because its readers do not require them.
    """
    card = draft.document(filled=version != "0.2")
    card["supportedInterfaces"] = [
        {
            "url": interface.get("url"),
            "protocolBinding": interface.get("protocolBinding") or "JSONRPC",
            **({"tenant": interface["tenant"]} if "tenant" in interface else {}),
            "protocolVersion": interface.get("protocolVersion") or PROTOCOL_VERSIONS[version],
        }
        for _, interface in objects_in(card.get("supportedInterfaces"))
    ]
    return card
