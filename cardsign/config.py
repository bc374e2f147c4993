"""``cardsign.toml``: what every command of one project would otherwise be told by options."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from cardsign.card.extensions import AUDIENCE, read_end
from cardsign.errors import FileMissing
from cardsign.files import leads_outside, outside, read_bytes
from cardsign.keys.agenda import DEFAULT_SETTINGS, TimelineSettings
from cardsign.lint.rules import LintSettings, Waiver
from cardsign.tomltext import Table, read_by, read_settings
from cardsign.urls import AGENT_NAME, AGENT_PATH, AGENT_PATH_PATTERN, check_secure, parse_origin

# The tables of the file, whose paths are still texts. They give editors a JSON Schema, too.

_Text = Annotated[str, Field(min_length=1)]


#: The file, and the folders outside that the user has allowed.
_Context: TypeAlias = tuple[Path, Collection[Path]]


def _locate(text: object, info: ValidationInfo[_Context]) -> object:
    """Return where a path of the file leads."""
    if not isinstance(text, str):
        return text
    if "://" in text:  # a server would be told the user's password
        raise ValueError("is a path; a key store's database is named by CARDSIGN_KEYSTORE")
    if not text or not text.isprintable():
        raise ValueError("is empty or has control characters")
    place = info.context[0].parent / text
    return _check_place(place, f"{info.field_name!r} names {text!r},", info.context)


def _check_place(place: Path, source: str, context: _Context) -> Path:
    """Return a place if it is in the file's folder or where the user allows, and can be read.

    At a pipe a command would wait for ever, and a stranger may have put it there.
    """
    file, allowed = context
    if leads_outside(file.parent, place, allowed):
        raise ValueError from outside(place, source, file)
    try:
        is_special = place.exists() and not (place.is_file() or place.is_dir())
    except OSError as exc:  # such as a name that is too long, or a folder that may not be read
        raise ValueError(f"cannot be looked at: {exc.strerror}") from exc
    if is_special:
        raise ValueError(f"names {place.name!r}, which is a device or pipe")
    return place


def _read_origin(text: str) -> str:
    origin = parse_origin(text)
    check_secure(origin)
    return str(origin)


def _check_end(text: str) -> str:
    """Check how an end is written; whether it has passed is asked when a card is signed."""
    read_end(text, datetime.min.replace(tzinfo=UTC))
    return text


def _check_rule(name: str) -> str:
    from cardsign.lint.cards import check_name  # which most settings do not need

    check_name(name)
    return name


_Place = Annotated[Path, Field(strict=False), BeforeValidator(_locate)]
_Origin = Annotated[str, read_by(_read_origin)]
_Rule = Annotated[str, read_by(_check_rule)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class OrlojSettings(Table):
    """What an Orloj card takes from its server, table ``[build.orloj]``."""

    public_base_url: str | None = None
    protocol_version: str | None = None
    auth: _Texts = ()
    organization: str | None = None
    organization_url: str | None = None
    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None


class BuildSettings(Table):
    """What ``cardsign build`` would otherwise be told, table ``[build]``."""

    a2a: Literal["0.2", "0.3", "1.0", "both"] | None = None
    base_url: _Text | None = None
    url: _Text | None = None
    orloj: OrlojSettings = OrlojSettings()


class WaiverTable(Table):
    rule: _Rule
    reason: _Text
    expires: date | None = None
    path: str = ""


class LintTable(Table):
    groups: Annotated[tuple[_Rule, ...] | None, Field(strict=False)] = None
    ignore: Annotated[frozenset[_Rule], Field(strict=False)] = frozenset()
    prefixes: _Texts = ()
    strict: bool = False
    legacy_sunset: date | None = None
    waivers: list[WaiverTable] = Field(default=[], alias="waiver")

    def settings(self) -> LintSettings:
        """Return the same as lint takes it."""
        waivers = tuple(Waiver(**dict(waiver)) for waiver in self.waivers)
        return LintSettings(**{**dict(self), "waivers": waivers})


class ProjectCard(Table):
    """A card of the project, table ``[[card]]``.

    Attributes:
        source: The card as it is written, or the first file that it is built from.
        build: What the card is built from whenever it is signed; empty where `source` is the card.
        agent: Of which of several agents it is, as NAME or NAMESPACE/NAME; among the agents of
            Orloj in `build` it chooses.
        signed: Where the signed card goes.
        legacy: The A2A version for older clients that the public card is converted to, ``0.3`` or
            ``0.2``; None for a card that is signed as it is.
        audience: For whom it is, if it is an extended card; one card has no audience.
        expires: When the extended card ends: a date, a time, or days from its signing as ``90d``.
        skills: The ids of the skills that it shows, in the order of the source; empty for all.
    """

    source: _Place = Field(default_factory=Path)
    build: Annotated[tuple[_Place, ...], Field(strict=False)] = ()
    agent: _Text | None = None
    signed: _Place
    legacy: Literal["0.2", "0.3"] | None = None
    audience: str | None = Field(default=None, pattern=f"^(?:{AUDIENCE.pattern})$")
    expires: Annotated[str, read_by(_check_end)] | None = None
    skills: _Texts = ()

    @model_validator(mode="after")
    def _check_members(self) -> ProjectCard:
        if (self.source == Path()) != bool(self.build):
            raise ValueError("needs one of 'source' and 'build'")
        if (self.audience is None) != (self.expires is None) or (self.audience and self.legacy):
            raise ValueError("needs both or none of 'audience' and 'expires', without 'legacy'")
        return self

    @property
    def is_public(self) -> bool:
        """Whether it is what everybody reads, in the newest form."""
        return self.audience is None and self.legacy is None

    @property
    def agent_name(self) -> str:
        """The name of the agent without its namespace; empty where the project names none."""
        return (self.agent or "").rpartition("/")[2]


def _arrange_cards(
    tables: tuple[ProjectCard, ...], info: ValidationInfo[_Context]
) -> tuple[ProjectCard, ...]:
    """Return of each agent the public card, the one for older clients, and the extended ones."""
    cards = [card for table in tables for card in _list_versions(table, info.context)]
    _check_agents(cards)
    audiences = [card.audience for card in cards if card.audience is not None]
    if len(set(audiences)) < len(audiences):
        raise ValueError("has the same 'audience' twice")
    signed = {os.path.realpath(card.signed) for card in cards}
    if len(signed) < len(cards) or signed & {os.path.realpath(card.source) for card in cards}:
        raise ValueError("names a 'signed' that is also a 'source', or another 'signed'")
    return tuple(sorted(cards, key=lambda card: (card.audience is not None, card.legacy or "")))


def _check_agents(cards: Collection[ProjectCard]) -> None:
    """Check that there is one public card, or one of each of several agents."""
    names = [card.agent_name for card in cards if card.is_public]
    is_named = len(set(names)) == len(names) and all(map(AGENT_NAME.fullmatch, names))
    if cards and len(names) != 1 and not (names and is_named):
        raise ValueError("needs one table without 'audience', or more with an 'agent' each")
    agents = [card.agent for card in cards if card.is_public]
    if any(card.agent not in agents for card in cards if card.agent or len(agents) > 1):
        raise ValueError("has an extended card without the 'agent' of a public one")


def _list_versions(card: ProjectCard, context: _Context) -> Iterator[ProjectCard]:
    """Yield the card of a table, and the one for older clients next to it."""
    card = card.model_copy(update={"source": card.build[0]} if card.build else None)
    yield card.model_copy(update={"legacy": None})
    if card.legacy is not None:
        older = card.signed.with_suffix(f".{card.legacy}{card.signed.suffix}")
        older = _check_place(older, f"'signed' names '{older}',", context)
        yield card.model_copy(update={"signed": older})


class ProjectConfig(Table):
    """The settings; options on the command line override them.

    Attributes:
        format: Of the file.
        issuer: The https origin of the project's cards.
        keystore: The key store's directory, inside the folder or allowed by the user.
        publish: The publication directory, inside the folder or allowed by the user.
        live: The origin to which publications are deployed; None: they are live once they are made.
        timeline: What key rotation assumes of caches.
        build: What ``cardsign build`` is told.
        lint: What the project asks of its cards.
        cards: The cards of the issuer, tables ``[[card]]``: of each agent the public one, the one
            for older clients, and the extended ones; empty where none are named.
        agent_path: Below which path each of several agents is; ``{name}`` stands for its name.
    """

    format: int = Field(ge=1, le=1)
    issuer: _Origin | None = Field(default=None, description="the https origin of the cards")
    keystore: _Place | None = None
    publish: _Place | None = Field(default=None, description="the publication directory")
    live: _Origin | None = None
    timeline: TimelineSettings = DEFAULT_SETTINGS
    build: BuildSettings = BuildSettings()
    lint: LintTable = LintTable()
    cards: Annotated[tuple[ProjectCard, ...], AfterValidator(_arrange_cards)] = Field(
        default=(), alias="card", strict=False
    )
    agent_path: str = Field(default=AGENT_PATH, pattern=AGENT_PATH_PATTERN)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents, where the file has several."""
        names = tuple(card.agent_name for card in self.cards if card.is_public)
        return names if len(names) > 1 else ()


#: That of a project without a file.
NO_CONFIG: Final = ProjectConfig(format=1)


def read_config(path: Path, *, allowed: Collection[Path] = ()) -> ProjectConfig:
    """Read the file; one that is not there is an empty one. Paths are relative to it.

    A repository may come from a stranger, so a path that leads out of its folder is refused.

    Args:
        path: The file.
        allowed: Folders outside that the user has allowed, with what is below them.

    Raises:
        UsageFault: ``config.not_allowed``: a path leads out of the folder, symbolic links followed.
        UsageFault: ``config.malformed``: no TOML, an unknown member, or a wrong type; a database
            as the key store; cards that do not fit.
        FileFault: It is there but cannot be read.
    """
    try:
        data = read_bytes(path, max_bytes=64 * 1024, is_found=True)  # a few lines are usual
    except FileMissing:
        return NO_CONFIG
    config = read_settings(data, path, ProjectConfig, (path, allowed))
    for folder in (config.publish / name for name in config.agents if config.publish):
        if leads_outside(path.parent, folder, allowed):
            raise outside(folder, "a link leads", path)
    return config
