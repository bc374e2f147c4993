"""Sources to a card: recognise them, take their facts, fill what rules fill, write one form."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

from cardsign.build import cards, forge, mcp, openfang, orloj, skills
from cardsign.build.draft import (
    FILLED,
    BuildOptions,
    Draft,
    Fact,
    Kind,
    describe_hint,
    each,
    field_of,
)
from cardsign.build.reading import SourcePlace, read_one, read_source, refusal
from cardsign.card.convert import PROTOCOL_VERSIONS, CardForm, convert_card
from cardsign.card.document import Card, render
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, members_of, objects_in
from cardsign.errors import BuildRefused, CardRefused, FileFault, JsonRefused, UsageFault
from cardsign.files import leads_outside
from cardsign.findings import Finding
from cardsign.urls import parse_url

#: Every kind of source. The order decides where a file could be of two.
KINDS: Final[tuple[Kind, ...]] = (
    cards.PYPROJECT,
    forge.KIND,
    orloj.KIND,
    openfang.KIND,
    mcp.KIND,
    cards.CARD_KIND,
    skills.KIND,
)
_OPTION: Final = "--set"
SET_HINT: Final = "Such as: --set version=1.2.0, --set provider.url=..., --set skills.ID.name=..."
#: What is said in another way than by ``--set``.
_OTHERWISE: Final = {
    "signatures": "Build the card, then sign it: cardsign sign CARD -o OUT",
    "url": "Pass --url {}",
}
_DEFAULT_VERSION: Final = "0.0.0"


@dataclass(frozen=True, slots=True)
class BuiltCard:
    """What was built.

    Attributes:
        documents: The bytes of the card by A2A version: one, or 1.0 and 0.3 for ``both``.
        facts: Where each value was taken from, in the order of the card.
        reasons: What was filled, changed or left out.
    """

    documents: dict[CardForm, bytes] = field(hash=False)
    facts: tuple[Fact, ...]
    reasons: tuple[Finding, ...]

    @property
    def document(self) -> bytes:
        """The card; of ``both``, the 1.0 one."""
        return next(iter(self.documents.values()))

    @property
    def is_whole(self) -> bool:
        """Whether nothing was refused and left out."""
        return all(reason.severity != "error" for reason in self.reasons)


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
        FetchFailed: ``fetch.*``: a live server cannot be asked.
        UsageFault: ``usage.invalid``: there is no such member or form.
    """
    if not (sources or options.live):
        raise UsageFault("usage.invalid", "no source is named")
    draft = Draft(options)
    for member, text in options.members.items():
        _set(draft, member, text)
    groups: list[tuple[Kind, list[Path]]] = []  # neighbours of one kind, which refer to each other
    for source in sources:
        try:
            kind, path = _recognise(str(source))
        except (BuildRefused, FileFault) as refused:
            draft.leave_out(refused)
            continue
        if not groups or groups[-1][0] is not kind:
            groups.append((kind, []))
        groups[-1][1].append(path)
    if options.agent is not None and not any(kind is orloj.KIND for kind, _ in groups):
        message = f"--agent {options.agent} chooses among agents of Orloj, and no source is one"
        raise UsageFault("usage.invalid", message, hint="Leave out --agent.")
    for kind, paths in groups:
        kind.take(paths, draft)
    each(options.live, draft, mcp.take_server)
    first = groups[0][0] if groups else mcp.KIND if options.live else cards.CARD_KIND
    _fill(draft, first, SourcePlace(str(sources[0]) if sources else "the MCP server"))
    return _written(draft, first)


def _recognise(source: str) -> tuple[Kind, Path]:
    """The kind of a source, and its path."""
    named, colon, rest = source.partition(":")
    if colon and (kind := next((form for form in KINDS if form.name == named), None)):
        return kind, Path(rest)
    if "://" in source:
        hint = f"Save it, and name the file: curl -O {shlex.quote(source)}"
        raise UsageFault("usage.invalid", "a source is a file or a folder", path=source, hint=hint)
    names = ", ".join(form.name for form in KINDS)
    if colon and re.fullmatch(r"[a-z0-9-]{2,}", named) and not os.path.lexists(source):
        message = f"there is no kind {named!r}; the kinds are {names}"
        raise refusal("build.unknown_source", message, SourcePlace(source))
    path = Path(source)
    if os.path.isdir(path):
        for kind in KINDS:
            if any(_is_of(kind, form, path) for name in kind.folder for form in path.glob(name)):
                return kind, path
        looked = ", ".join(
            form.folder[0] for form in KINDS if form.folder and form != cards.PYPROJECT
        )
        message = (
            f"the folder has none of {looked}, or {cards.PYPROJECT_FILE} with [tool.cardsign.card]"
        )
        raise refusal("build.unknown_source", message, SourcePlace(source))
    for document in read_source(path):
        for kind in KINDS:
            if kind.is_file(document):
                return kind, path
    raise refusal("build.unknown_source", f"it is none of {names}", SourcePlace(source))


def _is_of(kind: Kind, file: Path, folder: Path) -> bool:
    """Whether a file shows that its folder is of a kind; many folders have a pyproject.toml."""
    if kind is not cards.PYPROJECT:
        return True
    is_own = os.path.isfile(file) and not leads_outside(folder, file)
    return is_own and kind.is_file(read_one(file))


def _set(draft: Draft, member: str, text: str) -> None:
    """Take what an option says; it comes first, so it stays."""
    first, *rest = member.split(".")
    target = (first, *rest)
    if first == "skills":
        target = (first, ".".join(rest[:-1]), *rest[-1:])  # an id may have dots
        if len(target) < 3 or not target[1]:
            message = f"say skills.ID.MEMBER, and not {member!r}"
            raise UsageFault("usage.invalid", message, hint=SET_HINT)
    if member in _OTHERWISE:
        message = f"{member!r} is no member that is set"
        raise UsageFault("usage.invalid", message, hint=_OTHERWISE[member].format(text))
    try:
        parsed = parse_object(f'{{"":{text}}}'.encode())
        value: Json = parsed[""] if len(parsed) == 1 else text
    except (JsonRefused, ValueError):
        value = text
    place = SourcePlace(f"{_OPTION} {member}")
    try:
        field = field_of(target)
    except KeyError as exc:
        message = f"A2A 1.0 has no member {member!r}"
        raise UsageFault("usage.invalid", message, hint=SET_HINT) from exc
    if field.kind == "string":
        value = text if field.shape == "one" else value
        if field.shape != "one" and not isinstance(value, list):
            value = [part.strip() for part in text.split(",")]
    if not draft.take(target, value, place):
        raise UsageFault("usage.invalid", f"{member!r} has no value", hint=SET_HINT)


def _fill(draft: Draft, kind: Kind, place: SourcePlace) -> None:
    """Fill what rules fill, and refuse what they do not."""
    name = draft.value("name")
    if name is None:
        hint = "Pass --set name='...', or name a source that says it."
        raise refusal("build.missing", "no source names the agent", place, hint=hint)
    if not draft.has("skills"):
        hint = "Name a source that has one as well, such as a SKILL.md."
        raise refusal("build.missing", "no source names a skill or a tool", place, hint=hint)
    for skill in draft.skill_ids():
        draft.take(("skills", skill, "id"), skill, FILLED)
        draft.take(("skills", skill, "name"), skill, FILLED)
        draft.take(("skills", skill, "tags"), ["skill"], FILLED)
        if draft.value("skills", skill, "description") is None:
            message = f"the skill {skill!r} has no description"
            raise refusal("build.missing", message, place, hint=describe_hint(skill))
    if not draft.has("description"):
        hint = "Pass --set description='...', or --prompt-excerpt where there is a prompt."
        raise refusal("build.missing", "no source describes the agent", place, hint=hint)
    if draft.take(("version",), _DEFAULT_VERSION, FILLED):
        draft.warn("build.filled", f"no source has a version: {_DEFAULT_VERSION}", place)
    modes = ("defaultInputModes", "defaultOutputModes")
    if filled := [mode for mode in modes if draft.take((mode,), list(kind.modes), FILLED)]:
        text = f"no source has {' and '.join(filled)}: {', '.join(kind.modes)}"
        draft.warn("build.filled", text, place)
    if not draft.has("capabilities"):
        draft.take(("capabilities", "streaming"), False, FILLED)
    _fill_provider(draft, _take_url(draft, kind, str(name), place), place)


def _take_url(draft: Draft, kind: Kind, name: str, place: SourcePlace) -> str:
    """Take where the agent is called: what the options say, else what the sources do."""
    interfaces = [interface for _, interface in objects_in(draft.value("supportedInterfaces"))]
    first, *others = interfaces or [{}]
    url, option = _url_of_options(draft, kind, name)
    if url is None:
        if not interfaces:
            hint = "Pass --url 'https://agents.example.com/{name}', or --base-url."
            message = "no source says where the agent is called"
            raise refusal("build.missing", message, place, hint=hint)
        return str(first.get("url", ""))
    for interface in others:
        text = f"{interface.get('protocolBinding') or 'JSONRPC'} {interface.get('url')}"
        draft.warn("build.left_out", f"{option} gives one interface, and so not {text}", place)
    kept = {name: part for name, part in first.items() if name in ("protocolBinding", "tenant")}
    draft.replace(("supportedInterfaces",), [{"url": url, **kept}], SourcePlace(option))
    return url


def _url_of_options(draft: Draft, kind: Kind, name: str) -> tuple[str | None, str]:
    """The agent's url by the options, and the option that says it; None where none does.

    Raises:
        UsageFault: ``usage.invalid``: it is no url.
    """
    options, option, example = draft.options, "--url", "'https://agents.example.com/{name}'"
    template = options.url
    if template is None:
        base = options.base_url or (options.orloj.public_base_url if kind is orloj.KIND else None)
        if base is None:
            return None, ""
        path = kind.path if isinstance(kind.path, str) else kind.path(draft)
        template = base.rstrip("/") + (path or "/")
        option, example = "--base-url", "https://a.example"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")  # may stand in a host or a path
    url, message = template.replace("{name}", slug), ""
    if stray := re.search(r"\{.*?\}", url):
        message = f"{stray[0]} stands for nothing, and {{name}} for the card's name"
    else:
        try:
            parse_url(url)
        except CardRefused as refused:
            message = refused.message
    if message:
        raise UsageFault("usage.invalid", message, path=option, hint=f"Such as: {option} {example}")
    return url, option


def _fill_provider(draft: Draft, url: str, place: SourcePlace) -> None:
    """A provider has a name and a url (A2A 1.0 4.4.2): without a url it gets the agent's origin."""
    facts = [fact for fact in draft.facts() if fact.target[0] == "provider"]
    parts: dict[str, Json] = {}
    for fact in facts:
        parts |= (
            members_of(fact.value) if fact.target == ("provider",) else {fact.target[1]: fact.value}
        )
    if not parts or len(parts) == 2:
        return
    if "organization" not in parts:
        draft.replace(("provider",), None, place)
        draft.warn("build.left_out", "the provider has no organization", place)
        return
    try:
        origin = str(parse_url(url).origin)
    except CardRefused:
        return
    draft.replace(("provider",), None, place)  # in two, since only what a source says has its place
    draft.take(("provider", "organization"), parts["organization"], facts[0].place)
    draft.take(("provider", "url"), origin, FILLED)
    draft.warn("build.filled", f"the provider has no url: {origin}", place)


def _written(draft: Draft, kind: Kind) -> BuiltCard:
    orloj_version = draft.options.orloj.protocol_version if kind is orloj.KIND else None
    wanted = draft.options.a2a or orloj_version or kind.a2a
    versions: dict[str, tuple[CardForm, ...]] = {form: (form,) for form in get_args(CardForm)}
    versions["both"] = ("1.0", "0.3")
    if wanted not in versions:
        raise UsageFault("usage.invalid", f"there is no A2A version {wanted!r} to build")
    documents: dict[CardForm, bytes] = {}
    for version in versions[wanted]:
        converted = convert_card(_spoken(draft, version), version)
        if version != "1.0":
            draft.reasons.extend(converted.changes)
        documents[version] = data = render(converted.document)
        try:
            Card.from_bytes(data)
        except JsonRefused as refused:
            message = f"the card would be refused: {refused.message}"
            raise BuildRefused("build.limit", message) from refused
    reasons = draft.reasons
    if wanted == "0.2":  # whose form has nothing that a rule fills
        reasons = [reason for reason in reasons if reason.code != "build.filled"]
    return BuiltCard(documents, draft.facts(), tuple(dict.fromkeys(reasons)))


def _spoken(draft: Draft, version: CardForm) -> dict[str, Json]:
    """The card of 1.0, whose interfaces speak what the form is for unless they say otherwise.

    The form of 0.2 holds only what the sources say: its readers know of no default.
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
