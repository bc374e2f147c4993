"""``cardsign.toml``: what every command of one project would otherwise be told by options."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from cardsign.errors import FileMissing, StoreFault, UsageFault
from cardsign.files import bad_settings, read_bytes, read_settings
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.stores.address import COMMITTED, DatabaseUrl, is_database_url, parse_database_url
from cardsign.records import dataclass

CONFIG_FILE: Final = "cardsign.toml"
FORMAT: Final = 1
MAX_CONFIG_BYTES: Final = 64 * 1024  # bytes; a few lines are usual
_MEMBERS: Final = {"format": int, "issuer": str, "keystore": str, "publish": str, "timeline": dict}
_TIMELINE: Final = tuple(field.name for field in fields(TimelineSettings))
MAX_SECONDS: Final = 10 * 365 * 24 * 3600  # of one setting; more is a slip of the pen


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """The settings; options on the command line override them.

    Attributes:
        issuer: The https origin of the project's cards.
        keystore: The key store's directory, inside the folder or allowed by the user; or the URL
            of its database, which is not used before the user has allowed that server
            (``keystore.not_allowed``).
        publish: The publication directory, inside the folder or allowed by the user.
        timeline: What key rotation assumes of caches, table ``[timeline]``, in seconds.
    """

    issuer: str | None = None
    keystore: Path | DatabaseUrl | None = None
    publish: Path | None = None
    timeline: TimelineSettings = DEFAULT_SETTINGS


def read_config(path: Path, *, allowed: Collection[Path] = ()) -> ProjectConfig:
    """Read the file; one that is not there is an empty one. Paths are relative to it.

    A repository may come from a stranger, so a path that leads out of its folder is refused.

    Args:
        path: The file.
        allowed: Folders outside that the user has allowed, with what is below them.

    Raises:
        UsageFault: ``config.outside``: a path leads out of the folder, symbolic links followed.
        UsageFault: ``config.malformed``: no TOML, an unknown member, or a wrong type; a
            parameter of the database that no committed file decides;
            ``config.secret``: a password stands in it.
        FileFault: It is there but cannot be read.
    """
    try:
        data = read_bytes(path, max_bytes=MAX_CONFIG_BYTES)
    except FileMissing:
        return ProjectConfig()
    members = read_settings(data, path, members=_MEMBERS, format=FORMAT)
    return ProjectConfig(
        issuer=members.get("issuer"),
        keystore=_keystore(members["keystore"], path, allowed) if "keystore" in members else None,
        publish=_inside(members["publish"], "publish", path, allowed)
        if "publish" in members
        else None,
        timeline=_timeline(members.get("timeline", {}), path),
    )


def leads_outside(folder: Path, place: Path, allowed: Collection[Path] = ()) -> bool:
    """Whether a path leads out of a folder, and not into one that the user has allowed.

    Symbolic links are followed. ``~`` is a name like any other.
    """
    real = Path(os.path.realpath(place))
    homes = (folder, *allowed)
    return not any(real.is_relative_to(os.path.realpath(one)) for one in homes)


def _inside(text: str, name: str, path: Path, allowed: Collection[Path]) -> Path:
    place = path.parent / text
    if not text.isprintable():
        raise bad_settings(path, f"{name!r} has control characters")
    if leads_outside(path.parent, place, allowed):
        raise outside(place, f"{name!r} names {text!r},", path)
    return place


def outside(place: Path, what: str, path: Path) -> UsageFault:
    """What is raised where a project names a place outside of its folder."""
    real = json.dumps(os.path.realpath(place))
    return UsageFault(
        "config.outside",
        f"{what} outside this folder",
        path=str(path),
        hint=f"If it is yours, allow it in your own signers.toml: folders = [{real}]; "
        "or name it on the command line.",
    )


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


def _timeline(table: dict[str, Any], path: Path) -> TimelineSettings:
    for name, value in table.items():
        if name not in _TIMELINE:
            known = ", ".join(_TIMELINE)
            raise bad_settings(path, f"unknown member 'timeline.{name}'; known are {known}")
        if type(value) is not int or not 0 <= value <= MAX_SECONDS:
            raise bad_settings(path, f"'timeline.{name}' is not 0 to {MAX_SECONDS} seconds")
    return TimelineSettings(**table)


def render_config(*, issuer: str | None, keystore: str, publish: str) -> bytes:
    """The file that ``cardsign init`` writes, with `keystore` as given."""
    lines = ["# Settings for every cardsign command run in this folder; options override them."]
    lines.append(f"format = {FORMAT}")
    if issuer is not None:
        lines.append(f"issuer = {json.dumps(issuer)}  # the https origin of the cards")
    lines.append(f"keystore = {json.dumps(keystore)}")
    lines.append(f"publish = {json.dumps(publish)}")
    return "\n".join(lines).encode() + b"\n"
