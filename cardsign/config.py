"""``cardsign.toml``: what every command of one project would otherwise be told by options."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from cardsign.card.extensions import AUDIENCE
from cardsign.errors import FileMissing, InputRefused
from cardsign.files import CONFIG_FILE as CONFIG_FILE
from cardsign.files import bad_settings, leads_outside, outside, read_bytes, read_settings
from cardsign.findings import Severity
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.lint.rules import LintSettings, Waiver
from cardsign.urls import parse_origin

FORMAT: Final = 1
MAX_CONFIG_BYTES: Final = 64 * 1024  # bytes; a few lines are usual
MAX_SECONDS: Final = 10 * 365 * 24 * 3600  # of one setting; more is a slip of the pen

# The tables of the file, whose paths are still texts. They give editors a JSON Schema, too.

_Text = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class OrlojSettings(_Table):
    """What an Orloj card takes from its server, table ``[build.orloj]``."""

    public_base_url: str | None = None
    protocol_version: str | None = None
    auth: Annotated[tuple[str, ...], Field(strict=False)] = ()
    organization: str | None = None
    organization_url: str | None = None
    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None


class BuildSettings(_Table):
    """What ``cardsign build`` would otherwise be told, table ``[build]``."""

    a2a: Literal["0.2", "0.3", "1.0", "both"] | None = None
    base_url: _Text | None = None
    url: _Text | None = None
    orloj: OrlojSettings = OrlojSettings()


class WaiverTable(_Table):
    rule: _Text
    reason: _Text
    expires: date | None = None
    path: str = ""


class LintTable(_Table):
    groups: list[str] | None = None
    ignore: list[str] = []
    severity: dict[str, Severity] = {}
    prefixes: list[str] = []
    strict: bool = False
    legacy_sunset: date | None = None
    waiver: list[WaiverTable] = []


class CardTable(_Table):
    source: _Text | None = None
    build: list[str] = []
    signed: _Text
    legacy: Literal["0.2", "0.3"] | None = None
    audience: str | None = Field(default=None, pattern=f"^(?:{AUDIENCE.pattern})$")
    expires: _Text | None = None
    skills: list[str] = []


_Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS, description="seconds")]


class TimelineTable(_Table):
    max_age: _Seconds = DEFAULT_SETTINGS.max_age
    worst_cache: _Seconds = DEFAULT_SETTINGS.worst_cache
    card_max_age: _Seconds = DEFAULT_SETTINGS.card_max_age
    skew: _Seconds = DEFAULT_SETTINGS.skew
    rotate_every: _Seconds = DEFAULT_SETTINGS.rotate_every


class ConfigFile(_Table):
    format: int = Field(ge=FORMAT, le=FORMAT)
    issuer: str | None = Field(default=None, description="the https origin of the cards")
    keystore: str | None = Field(default=None, description="a folder")
    publish: str | None = Field(default=None, description="the publication directory")
    live: str | None = Field(default=None, description="the origin to which it is deployed later")
    timeline: TimelineTable = TimelineTable()
    build: BuildSettings = BuildSettings()
    lint: LintTable = LintTable()
    card: list[CardTable] = []


@dataclass(frozen=True, slots=True)
class ProjectCard:
    """A card of the project, table ``[[card]]``.

    Attributes:
        source: The card as it is written, inside the folder or allowed by the user.
        signed: Where the signed card goes, likewise.
        audience: For whom it is, if it is an extended card; one card has no audience.
        expires: When the extended card ends: a date, or a time from its signing such as ``90d``.
        build: What the card is built from whenever it is signed, `source` first; empty where
            `source` is the card.
        legacy: The A2A version for older clients that the public card is converted to, ``0.3`` or
            ``0.2``; None for a card that is signed as it is.
        skills: The ids of the skills that it shows, in the order of the source; empty for all.
    """

    source: Path
    signed: Path
    audience: str | None = None
    expires: str | None = None
    build: tuple[Path, ...] = ()
    legacy: str | None = None
    skills: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """The settings; options on the command line override them.

    Attributes:
        issuer: The https origin of the project's cards.
        keystore: The key store's directory, inside the folder or allowed by the user.
        publish: The publication directory, inside the folder or allowed by the user.
        live: The origin to which publications are deployed; None: they are live once they are made.
        timeline: What key rotation assumes of caches, table ``[timeline]``, in seconds.
        cards: The cards of the issuer: the public one, the one for older clients, and the
            extended ones; empty where none are named.
        build: What ``cardsign build`` is told, table ``[build]``.
        lint: What the project asks of its cards, tables ``[lint]`` and ``[[lint.waiver]]``.
    """

    issuer: str | None = None
    keystore: Path | None = None
    publish: Path | None = None
    live: str | None = None
    timeline: TimelineSettings = DEFAULT_SETTINGS
    cards: tuple[ProjectCard, ...] = ()
    build: BuildSettings = field(default_factory=BuildSettings)
    lint: LintSettings = field(default_factory=LintSettings)


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors."""
    return ConfigFile.model_json_schema()


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
        data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES, found=True)
    except FileMissing:
        return ProjectConfig()
    file = read_settings(data, path, ConfigFile)
    cards = [card for table in file.card for card in _read_cards(table, path, allowed)]
    lint = file.lint
    return ProjectConfig(
        issuer=file.issuer,
        keystore=None if file.keystore is None else _keystore(file.keystore, path, allowed),
        publish=None if file.publish is None else _inside(file.publish, "publish", path, allowed),
        live=None if file.live is None else _live(file.live, path),
        timeline=TimelineSettings(**file.timeline.model_dump()),
        cards=_sort_cards(cards, path),
        build=file.build,
        lint=LintSettings(
            None if lint.groups is None else tuple(lint.groups),
            frozenset(lint.ignore),
            lint.severity,
            tuple(lint.prefixes),
            lint.strict,
            lint.legacy_sunset,
            tuple(Waiver(**waiver.model_dump()) for waiver in lint.waiver),
        ),
    )


def _read_cards(table: CardTable, path: Path, allowed: Collection[Path]) -> Iterator[ProjectCard]:
    """The card of a table, and the one for older clients next to it."""
    build = tuple(_inside(source, "build", path, allowed) for source in table.build)
    if bool(build) == (table.source is not None):
        raise bad_settings(path, "a [[card]] has one of 'source' and 'build'")
    source = build[0] if table.source is None else _inside(table.source, "source", path, allowed)
    signed = _inside(table.signed, "signed", path, allowed)
    skills = tuple(table.skills)
    card = ProjectCard(source, signed, table.audience, table.expires, build, skills=skills)
    yield card
    if table.legacy is not None:
        if card.audience is not None:
            raise bad_settings(path, "'legacy' is for the [[card]] without 'audience'")
        name = signed.with_suffix(f".{table.legacy}{signed.suffix}").name
        place = os.path.join(os.path.dirname(table.signed), name)
        yield replace(card, signed=_inside(place, "signed", path, allowed), legacy=table.legacy)


def _sort_cards(cards: list[ProjectCard], path: Path) -> tuple[ProjectCard, ...]:
    """The public card, the one for older clients, and the extended ones, each in its own file."""
    older = [card for card in cards if card.legacy is not None]
    public = [card for card in cards if card.audience is None and card.legacy is None]
    extended = [card for card in cards if card.audience is not None]
    signed = [os.path.realpath(card.signed) for card in cards]
    refusals = {
        f"one [[card]] has no 'audience', found {len(public)}": cards and len(public) != 1,
        "two [[card]] tables have the same 'audience'": (
            len({card.audience for card in extended}) < len(extended)
        ),
        "two [[card]] tables have the same 'signed'": len(set(signed)) < len(signed),
        "'source' and 'signed' of a [[card]] are the same file": any(
            os.path.realpath(card.source) == os.path.realpath(card.signed) for card in cards
        ),
        "'audience' and 'expires' of a [[card]] need each other": any(
            (card.audience is None) != (card.expires is None) for card in cards
        ),
    }
    for refusal, is_so in refusals.items():
        if is_so:
            raise bad_settings(path, refusal)
    return (*public, *older, *extended)


def _inside(text: str, name: str, path: Path, allowed: Collection[Path]) -> Path:
    place = path.parent / text
    if not text.isprintable():
        raise bad_settings(path, f"{name!r} has control characters")
    if leads_outside(path.parent, place, allowed):
        raise outside(place, f"{name!r} names {text!r},", path)
    return place


def _live(text: str, path: Path) -> str:
    try:
        return str(parse_origin(text))
    except InputRefused as refusal:
        raise bad_settings(path, f"'live': {refusal.message}") from refusal


def _keystore(text: str, path: Path, allowed: Collection[Path]) -> Path:
    if "://" in text:  # a server would be told the user's password
        message = "'keystore' is a folder; a database is named by CARDSIGN_KEYSTORE or --keystore"
        raise bad_settings(path, message)
    return _inside(text, "keystore", path, allowed)


def render_config(
    *, issuer: str | None, keystore: str | None, publish: str, card: str | None = None
) -> bytes:
    """The file that ``cardsign init`` writes; it names no database."""
    lines = ["# Settings for every cardsign command run in this folder; options override them."]
    lines.append(f"format = {FORMAT}")
    if issuer is not None:
        lines.append(f"issuer = {json.dumps(issuer)}  # the https origin of the cards")
    if keystore is not None:
        lines.append(f"keystore = {json.dumps(keystore)}")
    lines.append(f"publish = {json.dumps(publish)}")
    if card is not None:
        lines += ["", "[[card]]", f"source = {json.dumps(card)}", 'signed = "signed.json"']
    return "\n".join(lines).encode() + b"\n"
