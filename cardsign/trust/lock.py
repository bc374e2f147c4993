"""`trust.lock`: the rollback floors of a policy, committed with `trust.toml`.

It holds numbers and digests, no statement, and brings no trust: a machine without state refuses
by it what is older than what others have seen. Floors only rise, by what was verified here; those
that are read hold for one verification and are stored nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import FileMissing, JsonRefused, StateFault, UsageFault
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.log import logger
from cardsign.records import dataclass
from cardsign.statements import members as read
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetId, keyset_id

#: The policy's own name of an issuer. It is part of a file's name, and is shown on terminals.
ISSUER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
POLICY_FILE: Final = "trust.toml"
LOCK_FORMAT: Final = "cardsign-lock/1"
#: Bytes. As many issuers as a policy may have; one has about 400.
MAX_LOCK_BYTES: Final = 2 * 1024 * 1024
#: Seconds to wait for another process that edits policy or lock.
PATIENCE: Final = 10.0

_MAX_DEPTH: Final = 8
_FLOOR: Final = ("keyset", "newest_iat", "release")
_RELEASE: Final = ("epoch", "keyset_version", "seq")


@dataclass(frozen=True, slots=True)
class ReleaseFloor:
    """The newest release seen: its order (epoch, keyset version, seq) and digest."""

    order: tuple[int, int, int]
    digest: str


@dataclass(frozen=True, slots=True)
class RollbackFloor:
    """Statements older than these are a rollback, others of the same number a fork.

    Attributes:
        keyset: The newest keyset statement that was seen, or None.
        release: The newest release statement that was seen, or None.
        newest_iat: The highest `iat` that was seen, Unix seconds; 0 for none.
    """

    keyset: KeysetId | None = None
    release: ReleaseFloor | None = None
    newest_iat: int = 0


def lock_of(policy: Path) -> Path:
    """Where the lock of a policy file is: in the same folder, ``trust.lock`` for ``trust.toml``."""
    return policy.with_suffix(".lock")


def read_lock(path: Path) -> dict[str, RollbackFloor]:
    """The floors by issuer; empty where there is no lock.

    Raises:
        UsageFault: ``lock.malformed``, also where a newer cardsign wrote it.
        FileFault: It cannot be read.
    """
    try:
        data = read_bytes(path, max_bytes=MAX_LOCK_BYTES, found=True)
    except FileMissing:
        return {}
    try:
        return _parse(data)
    except JsonRefused as exc:
        raise _malformed(path, f"this is no strict JSON: {exc.message}", exc.line) from exc
    except StatementRefused as exc:
        if exc.path == "/format":
            hint = "Upgrade cardsign, if a newer one wrote the lock."
            raise _malformed(path, f"{exc.path}: {exc.message}", hint=hint) from exc
        raise _malformed(path, f"{exc.path}: {exc.message}") from exc


def raise_floors(path: Path, floors: Mapping[str, RollbackFloor]) -> None:
    """Raise the floors of these issuers, alone among processes; those of others stay.

    Raises:
        StateFault: ``state.fork``: the lock names another statement of the same number;
            ``file.busy``.
        UsageFault, FileFault: As :func:`read_lock`; ``file.unwritable``.
    """
    with editing(path):
        held = read_lock(path)
        raised = {name: raise_floor(name, held.get(name), one) for name, one in floors.items()}
        _write(path, held, held | raised)
    for name in raised:
        if raised[name] != held.get(name):
            logger(__name__).info("%s: its floor in %s was raised", name, path)


def remove_floor(path: Path, name: str) -> None:
    """Take an issuer out of the lock, which is not made if there is none.

    Raises:
        StateFault, UsageFault, FileFault: As :func:`raise_floors`.
    """
    with editing(path):
        held = read_lock(path)
        _write(path, held, {issuer: one for issuer, one in held.items() if issuer != name})


def editing(path: Path) -> AbstractContextManager[None]:
    """Hold the folder of a policy and its lock against other processes that edit them."""
    busy = StateFault(
        "file.busy",
        "another process edits the policy or its lock",
        path=str(path.parent),
    )
    return locked(path.parent, patience=PATIENCE, busy=busy)


def raise_floor(name: str, held: RollbackFloor | None, seen: RollbackFloor) -> RollbackFloor:
    """The higher of two floors of one issuer, member by member.

    Raises:
        StateFault: ``state.fork``: one number with two digests.
    """
    if held is None or held == seen:
        return seen
    keysets = [one.keyset for one in (held, seen) if one.keyset is not None]
    releases = [one.release for one in (held, seen) if one.release is not None]
    keyset = max(keysets, key=attrgetter("number"), default=None)
    release = max(releases, key=_order, default=None)
    for pin in keysets:
        if keyset is not None and pin.number == keyset.number and pin != keyset:
            raise _fork(name, f"keyset {pin.label}", pin.digest, keyset.digest)
    for floor in releases:
        if release is not None and floor.order == release.order and floor != release:
            raise _fork(name, f"release {floor.order[2]}", floor.digest, release.digest)
    return RollbackFloor(keyset, release, max(held.newest_iat, seen.newest_iat))


def floor_to_json(floor: RollbackFloor) -> dict[str, Json]:
    """A floor as it stands in the lock."""
    keyset, release = floor.keyset, floor.release
    return {
        "keyset": None if keyset is None else keyset.to_json(),
        "newest_iat": floor.newest_iat,
        "release": None
        if release is None
        else {**dict(zip(_RELEASE, release.order, strict=True)), "digest": release.digest},
    }


def floor_of(value: Json, path: str) -> RollbackFloor:
    """Read a floor."""
    members = read.exact_object(value, _FLOOR, path)
    keyset, release = members["keyset"], members["release"]
    return RollbackFloor(
        None if keyset is None else keyset_id(keyset, f"{path}/keyset"),
        None if release is None else _release_of(release, f"{path}/release"),
        time_of(members["newest_iat"], f"{path}/newest_iat"),
    )


def time_of(value: Json, path: str) -> int:
    """Unix seconds, or 0 for none; refuses as :func:`floor_of`."""
    return 0 if type(value) is int and value == 0 else read.integer(value, path, most=read.MAX_TIME)


def _release_of(value: Json, path: str) -> ReleaseFloor:
    members = read.exact_object(value, (*_RELEASE, "digest"), path)
    epoch, version, seq = (read.integer(members[name], f"{path}/{name}") for name in _RELEASE)
    return ReleaseFloor((epoch, version, seq), read.digest(members["digest"], f"{path}/digest"))


def _parse(data: bytes) -> dict[str, RollbackFloor]:
    document = parse_object(data, max_bytes=MAX_LOCK_BYTES, max_depth=_MAX_DEPTH)
    issuers = read.document(document, LOCK_FORMAT, ("format", "issuers"))["issuers"]
    if not isinstance(issuers, dict):
        raise read.refused("/issuers", "an object")
    for name in issuers:
        read.text(name, ISSUER_NAME, f"/issuers/{name}", "an issuer's name")
    return {name: floor_of(value, f"/issuers/{name}") for name, value in issuers.items()}


def _write(
    path: Path, held: Mapping[str, RollbackFloor], floors: Mapping[str, RollbackFloor]
) -> None:
    if held == floors:
        return
    issuers = {name: floor_to_json(floor) for name, floor in floors.items()}
    document = {"format": LOCK_FORMAT, "issuers": issuers}
    write_atomic(path, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")


def _order(floor: ReleaseFloor) -> tuple[int, int, int]:
    return floor.order


def _fork(name: str, number: str, one: str, other: str) -> StateFault:
    return StateFault("state.fork", f"{number} of {name!r} is {one} here and {other} there")


def _malformed(path: Path, message: str, line: int | None = None, hint: str = "") -> UsageFault:
    return UsageFault("lock.malformed", message, path=str(path), line=line, hint=hint)
