"""``cardsign.toml``: what every command of one project would otherwise be told by options.

The file's form is a pydantic model, which also gives editors a JSON Schema. pydantic is imported
when a file is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from cardsign.card.extensions import AUDIENCE
from cardsign.errors import FileMissing, StoreFault, UsageFault
from cardsign.files import CONFIG_FILE as CONFIG_FILE
from cardsign.files import (
    bad_settings,
    leads_outside,
    outside,
    read_bytes,
    read_settings,
)
from cardsign.findings import Severity
from cardsign.keys.address import COMMITTED, DatabaseUrl, is_database_url, parse_database_url
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.lint.rules import LintSettings, Waiver

if TYPE_CHECKING:
    from pydantic import BaseModel

FORMAT: Final = 1
MAX_CONFIG_BYTES: Final = 64 * 1024  # bytes; a few lines are usual
MAX_SECONDS: Final = 10 * 365 * 24 * 3600  # of one setting; more is a slip of the pen
MAX_WAIVERS: Final = 1000  # of one project; more is no list of exceptions
MAX_PROJECT_SKILLS: Final = 1000  # that one card selects
MAX_PROJECT_CARDS: Final = 64  # of one issuer: a public card, and its extended ones


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
class OrlojSettings:
    """What an Orloj card takes from its server, table ``[build.orloj]``.

    Attributes:
        public_base_url: Where the server is reached.
        protocol_version: The form of the card: ``0.2``, ``0.3`` or ``1.0``.
        auth: How callers authenticate, such as ``bearer``.
        organization: The provider's name.
        organization_url: Its URL.
        streaming: Whether server-sent events are on.
        push_notifications: Whether webhooks of tasks are on.
        state_transition_history: Whether the history of tasks is kept.
    """

    public_base_url: str | None = None
    protocol_version: str | None = None
    auth: tuple[str, ...] = ()
    organization: str | None = None
    organization_url: str | None = None
    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What ``cardsign build`` would otherwise be told, table ``[build]``.

    Attributes:
        a2a: The form of the card: ``0.2``, ``0.3``, ``1.0`` or ``both``.
        base_url: As ``--base-url``.
        url: As ``--url``.
        orloj: What Orloj takes from its server.
    """

    a2a: str | None = None
    base_url: str | None = None
    url: str | None = None
    orloj: OrlojSettings = OrlojSettings()


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """The settings; options on the command line override them.

    Attributes:
        issuer: The https origin of the project's cards.
        keystore: The key store's directory, inside the folder or allowed by the user; or the URL
            of its database, which is not used before the user has allowed that server
            (``config.not_allowed``).
        publish: The publication directory, inside the folder or allowed by the user.
        timeline: What key rotation assumes of caches, table ``[timeline]``, in seconds.
        cards: The cards of the issuer: the public one, the one for older clients, and the
            extended ones; empty where none are named.
        build: What ``cardsign build`` is told, table ``[build]``.
        lint: What the project asks of its cards, tables ``[lint]`` and ``[[lint.waiver]]``.
    """

    issuer: str | None = None
    keystore: Path | DatabaseUrl | None = None
    publish: Path | None = None
    timeline: TimelineSettings = DEFAULT_SETTINGS
    cards: tuple[ProjectCard, ...] = ()
    build: BuildSettings = BuildSettings()
    lint: LintSettings = field(default_factory=LintSettings)


def _lint_model() -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    strict = ConfigDict(strict=True, extra="forbid")
    waiver: dict[str, Any] = {
        "rule": (str, Field(min_length=1)),
        "reason": (str, Field(min_length=1)),
        "expires": (date | None, None),
        "path": (str, ""),
    }
    lint: dict[str, Any] = {
        "groups": (list[str] | None, None),
        "ignore": (list[str], []),
        "severity": (dict[str, Severity], {}),
        "prefixes": (list[str], []),
        "strict": (bool, False),
        "legacy_sunset": (date | None, None),
        "waiver": (
            list[create_model("waiver", __config__=strict, **waiver)],  # type: ignore[misc]
            Field(default=[], max_length=MAX_WAIVERS),
        ),
    }
    return create_model("lint", __config__=strict, **lint)


@cache
def _model() -> type[BaseModel]:
    """The form of the file; paths are still texts."""
    from pydantic import ConfigDict, Field, create_model

    strict = ConfigDict(strict=True, extra="forbid")
    timeline: dict[str, Any] = {
        one.name: (int, Field(default=one.default, ge=0, le=MAX_SECONDS, description="seconds"))
        for one in fields(TimelineSettings)
    }
    text = Field(min_length=1)
    optional = Field(default=None, min_length=1)
    card: dict[str, Any] = {
        "source": (str | None, optional),
        "build": (list[str], Field(default=[], max_length=MAX_PROJECT_CARDS)),
        "signed": (str, text),
        "legacy": (Literal["0.2", "0.3"] | None, None),
        "audience": (str | None, Field(default=None, pattern=f"^(?:{AUDIENCE.pattern})$")),
        "expires": (str | None, optional),
        "skills": (list[str], Field(default=[], max_length=MAX_PROJECT_SKILLS)),
    }
    orloj: dict[str, Any] = {
        one.name: (str | None if one.type == "str | None" else bool | None, None)
        for one in fields(OrlojSettings)
        if one.name != "auth"
    }
    orloj["auth"] = (list[str], [])
    build: dict[str, Any] = {
        "a2a": (Literal["0.2", "0.3", "1.0", "both"] | None, None),
        "base_url": (str | None, optional),
        "url": (str | None, optional),
        "orloj": (create_model("orloj", __config__=strict, **orloj), None),
    }
    members: dict[str, Any] = {
        "format": (int, Field(ge=FORMAT, le=FORMAT)),
        "issuer": (str | None, Field(default=None, description="the https origin of the cards")),
        "keystore": (str | None, Field(default=None, description="a folder, or a database's URL")),
        "publish": (str | None, Field(default=None, description="the publication directory")),
        "timeline": (create_model("timeline", __config__=strict, **timeline), None),
        "build": (create_model("build", __config__=strict, **build), None),
        "lint": (_lint_model(), None),
        "card": (
            list[create_model("card", __config__=strict, **card)],  # type: ignore[misc]
            Field(default=[], max_length=MAX_PROJECT_CARDS),
        ),
    }
    return create_model(CONFIG_FILE, __config__=strict, **members)


def config_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors."""
    return _model().model_json_schema()


def read_config(path: Path, *, allowed: Collection[Path] = ()) -> ProjectConfig:
    """Read the file; one that is not there is an empty one. Paths are relative to it.

    A repository may come from a stranger, so a path that leads out of its folder is refused.

    Args:
        path: The file.
        allowed: Folders outside that the user has allowed, with what is below them.

    Raises:
        UsageFault: ``config.not_allowed``: a path leads out of the folder, symbolic links followed.
        UsageFault: ``config.malformed``: no TOML, an unknown member, or a wrong type; a
            parameter of the database that no committed file decides; cards that do not fit;
            ``config.secret``: a password stands in it.
        FileFault: It is there but cannot be read.
    """
    try:
        data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES, found=True)
    except FileMissing:
        return ProjectConfig()
    members = read_settings(data, path, _model())

    def place(name: str, text: str) -> Path:
        return _inside(text, name, path, allowed)

    publish, build = members.get("publish"), members.get("build", {})
    orloj = dict(build.get("orloj", {}))
    orloj["auth"] = tuple(orloj.get("auth", ()))
    return ProjectConfig(
        issuer=members.get("issuer"),
        keystore=_keystore(members["keystore"], path, allowed) if "keystore" in members else None,
        publish=None if publish is None else place("publish", publish),
        timeline=TimelineSettings(**members.get("timeline", {})),
        cards=_checked_cards(
            [one for card in members.get("card", []) for one in _cards(card, place, path)], path
        ),
        build=BuildSettings(**{**build, "orloj": OrlojSettings(**orloj)}),
        lint=_lint(members.get("lint", {})),
    )


def _lint(table: dict[str, Any]) -> LintSettings:
    groups = table.get("groups")
    return LintSettings(
        None if groups is None else tuple(groups),
        frozenset(table.get("ignore", ())),
        table.get("severity", {}),
        tuple(table.get("prefixes", ())),
        table.get("strict", False),
        table.get("legacy_sunset"),
        tuple(Waiver(**one) for one in table.get("waiver", ())),
    )


def _cards(
    table: dict[str, Any], place: Callable[[str, str], Path], path: Path
) -> Iterator[ProjectCard]:
    """The card of a table, and the one for older clients next to it."""
    build = tuple(place("build", one) for one in table.get("build", ()))
    if bool(build) == ("source" in table):
        raise bad_settings(path, "a [[card]] has one of 'source' and 'build'")
    source = build[0] if build else place("source", table["source"])
    signed = place("signed", table["signed"])
    skills = tuple(table.get("skills", ()))
    audience, expires = table.get("audience"), table.get("expires")
    card = ProjectCard(source, signed, audience, expires, build, skills=skills)
    yield card
    if (legacy := table.get("legacy")) is not None:
        if card.audience is not None:
            raise bad_settings(path, "'legacy' is for the [[card]] without 'audience'")
        name = signed.with_suffix(f".{legacy}{signed.suffix}").name
        signed = place("signed", os.path.join(os.path.dirname(table["signed"]), name))
        yield replace(card, signed=signed, legacy=legacy)


def _checked_cards(cards: list[ProjectCard], path: Path) -> tuple[ProjectCard, ...]:
    """The public card, the one for older clients, and the extended ones, each in its own file."""
    older = [card for card in cards if card.legacy is not None]
    public = [card for card in cards if card.audience is None and card.legacy is None]
    extended = [card for card in cards if card.audience is not None]
    if cards and len(public) != 1:
        raise bad_settings(path, f"one [[card]] has no 'audience', found {len(public)}")
    if len({card.audience for card in extended}) < len(extended):
        raise bad_settings(path, "two [[card]] tables have the same 'audience'")
    if len({os.path.realpath(card.signed) for card in cards}) < len(cards):
        raise bad_settings(path, "two [[card]] tables have the same 'signed'")
    if any(os.path.realpath(card.signed) == os.path.realpath(card.source) for card in cards):
        raise bad_settings(path, "'source' and 'signed' of a [[card]] are the same file")
    if any((card.audience is None) != (card.expires is None) for card in cards):
        raise bad_settings(path, "'audience' and 'expires' of a [[card]] need each other")
    return (*public, *older, *extended)


def _inside(text: str, name: str, path: Path, allowed: Collection[Path]) -> Path:
    place = path.parent / text
    if not text.isprintable():
        raise bad_settings(path, f"{name!r} has control characters")
    if leads_outside(path.parent, place, allowed):
        raise outside(place, f"{name!r} names {text!r},", path)
    return place


def _keystore(text: str, path: Path, allowed: Collection[Path]) -> Path | DatabaseUrl:
    if not is_database_url(text):
        return _inside(text, "keystore", path, allowed)
    try:
        url = parse_database_url(text)
    except StoreFault as fault:
        raise bad_settings(path, f"'keystore': {fault.message}") from fault
    if url.password is not None:
        raise UsageFault(
            "config.secret",
            "'keystore' holds a password, and this file is committed",
            path=str(path),
        )
    if url.uncommitted:
        refused = ", ".join(url.uncommitted)
        known = ", ".join(f"{name}={value}" if value else name for name, value in COMMITTED.items())
        raise bad_settings(path, f"'keystore' may not say {refused} here; it may say {known}")
    return url


def render_config(
    *, issuer: str | None, keystore: str, publish: str, card: str | None = None
) -> bytes:
    """The file that ``cardsign init`` writes, with `keystore` as given."""
    lines = ["# Settings for every cardsign command run in this folder; options override them."]
    lines.append(f"format = {FORMAT}")
    if issuer is not None:
        lines.append(f"issuer = {json.dumps(issuer)}  # the https origin of the cards")
    lines.append(f"keystore = {json.dumps(keystore)}")
    lines.append(f"publish = {json.dumps(publish)}")
    if card is not None:
        lines += ["", "[[card]]", f"source = {json.dumps(card)}", 'signed = "signed.json"']
    return "\n".join(lines).encode() + b"\n"
