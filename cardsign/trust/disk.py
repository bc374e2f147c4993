"""A policy on disk: where it is found, `trust.toml`, and the rollback floors of its `trust.lock`.

A lock holds numbers and digests, no statement, and brings no trust: a machine without state refuses
by it what is older than what others have seen. Floors only rise, by what was verified here; those
that are read hold for one verification and are stored nowhere else.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import FileMissing, JsonRefused, StateFault, UsageFault
from cardsign.files import leads_outside, locked, outside, read_bytes, write_atomic
from cardsign.statements import members as read
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import keyset_id
from cardsign.trust.policy import (
    ISSUER_NAME,
    POLICY_FILE,
    Policy,
    ReleaseFloor,
    RollbackFloor,
    TrustedIssuer,
    raise_floor,
)
from cardsign.trust.state import DirectoryStates, IssuerStates, time_of

_LOG: Final = logging.getLogger(__name__)

#: The environment variable that names the policy.
POLICY_VARIABLE: Final = "CARDSIGN_TRUST"
#: Ours, below the XDG base directories.
USER_FOLDER: Final = "cardsign"
#: Bytes. Some thousand issuers; one has about 300.
MAX_POLICY_BYTES: Final = 1024 * 1024
#: Seconds to wait for another process that edits policy or lock.
PATIENCE: Final = 10.0


def find_policy(
    named: Path | None = None, environ: Mapping[str, str] = os.environ, *, here: bool = True
) -> Path | None:
    """The first of: `named`, the environment's, the working directory's if `here`, the user's own.

    What is named is returned whether or not it is there, and a link whether or not it leads
    anywhere: what is written to it would go where it leads.
    """
    if named is not None:
        return named
    if variable := environ.get(POLICY_VARIABLE):
        return Path(variable)
    own = user_folder("CONFIG", environ) / POLICY_FILE
    candidates = (Path(POLICY_FILE), own) if here else (own,)
    return next((path for path in candidates if os.path.lexists(path)), None)


def user_folder(kind: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Our folder below the XDG base directory ``CONFIG`` or ``STATE``; a relative one is ignored.

    Raises:
        UsageFault: ``usage.conflict``: this user has no home folder.
    """
    base = Path(environ.get(f"XDG_{kind}_HOME", ""))
    if base.is_absolute():
        return base / USER_FOLDER
    try:
        return Path.home() / {"CONFIG": ".config", "STATE": ".local/state"}[kind] / USER_FOLDER
    except RuntimeError as exc:
        raise UsageFault(
            "usage.conflict",
            f"this user has no home folder, and XDG_{kind}_HOME is not set",
            hint="Name the policy with --trust FILE and the memory with --state DIR.",
        ) from exc


def identity_of(path: Path) -> str:
    """What state is bound to: the real path of the policy file, which need not exist."""
    return os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")


def read_policy(path: Path, *, is_own: bool = True) -> tuple[Policy, str]:
    """Read a policy file: the policy, without identity and floors, and the text where it stands.

    As :func:`cardsign.trust.policyfile.parse_policy`.

    Raises:
        UsageFault: ``policy.malformed``, ``config.not_allowed``.
        FileFault: It cannot be read.
    """
    from cardsign.trust.policyfile import parse_policy  # pydantic, which --jwks needs not

    data = read_bytes(path, max_bytes=MAX_POLICY_BYTES, found=not is_own)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        message = "this is not UTF-8"
        raise UsageFault("policy.malformed", message, path=str(path), line=line) from exc
    return parse_policy(text, source=str(path), is_own=is_own), text


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy, and where it stands.

    Attributes:
        policy: What it says; it knows its identity and its floors.
        path: The file.
        floors: The rollback floors of its lock, by issuer.
        text: The file's text, for naming the line that decides.
        was_found_here: It was not named: it stands in the working directory, and may come
            from elsewhere.
    """

    policy: Policy
    path: Path
    floors: Mapping[str, RollbackFloor]
    text: str
    was_found_here: bool = False

    @classmethod
    def read(cls, path: Path, *, was_found_here: bool = False) -> PolicyFile:
        """Read a policy and its lock.

        Raises:
            UsageFault: ``policy.malformed``, ``lock.malformed``; ``config.not_allowed``: it was
                only found, and says what only a policy that is named may say.
            FileMissing, FileFault: It cannot be read.
        """
        policy, text = read_policy(path, is_own=not was_found_here)
        floors = read_lock(lock_of(path))
        policy = policy.known_as(identity_of(path), floors)
        return cls(policy, path, floors, text, was_found_here)

    @classmethod
    def find(
        cls,
        named: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        here: bool = True,
        allowed: Callable[[], Collection[Path]] = tuple,
    ) -> PolicyFile | None:
        """Read the policy that is named or found (:func:`find_policy`); None where there is none.

        Args:
            here: Look for it in the working directory too.
            allowed: Folders that the user has allowed. The policy of the working directory may be
                a link into one of them, and nowhere else outside.

        Raises:
            UsageFault: ``file.not_found``: the one that is named; ``config.not_allowed``; or as
                :meth:`read`.
            FileFault: It cannot be read.
        """
        path = find_policy(named, environ, here=here)
        if path is None:
            return None
        is_named = named is not None or bool(environ.get(POLICY_VARIABLE))
        found_here = not is_named and path == Path(POLICY_FILE)
        for one in (path, lock_of(path)) if found_here else ():
            if one.is_symlink() and leads_outside(Path.cwd(), one, allowed()):
                raise outside(one, f"{one} is a link to a place", one)
        try:
            return cls.read(path, was_found_here=found_here)
        except FileMissing as fault:
            missing = "there is no such policy file"
            hint = f"Check the path. A new one is begun by: cardsign trust init --trust {path}"
            raise UsageFault("file.not_found", missing, path=str(path), hint=hint) from fault

    @classmethod
    def begun(cls, path: Path) -> PolicyFile:
        """One in the working directory that is not there yet; nothing is written."""
        from cardsign.trust.policytext import EMPTY_POLICY

        return cls(Policy(), path, {}, EMPTY_POLICY, was_found_here=True)

    @property
    def unnamed(self) -> str:
        """What a verdict says first of a policy that was not named; else empty."""
        return f"by ./{POLICY_FILE}, found in this folder" if self.was_found_here else ""

    @property
    def identity(self) -> str:
        """What issuer state is bound to."""
        return identity_of(self.path)

    def issuer(self, name: str) -> TrustedIssuer:
        """The trusted issuer of that name.

        Raises:
            UsageFault: ``policy.unknown_issuer``.
        """
        try:
            return self.policy.issuer(name)
        except UsageFault as fault:
            fault.finding = fault.finding.at(str(self.path))
            raise

    def edit(
        self,
        change: Callable[[str], str],
        expected: Callable[[tuple[TrustedIssuer, ...]], Iterable[TrustedIssuer]],
    ) -> None:
        """Change the text of the file, alone among processes; on any error it stays as it was.

        The new text is read before it replaces the file, and must then say what is expected.

        Raises:
            UsageFault: ``policy.malformed``: no such change can be made to this text.
            StateFault, FileFault: It cannot be read or written.
        """
        from cardsign.trust.policyfile import parse_policy

        with editing(self.path):
            before, text = read_policy(self.path)
            changed = change(text)
            after = parse_policy(changed, source=str(self.path))
            if (after.issuers, after.limits) != (tuple(expected(before.issuers)), before.limits):
                raise UsageFault(
                    "policy.malformed",
                    "the file is laid out in a way that cannot be edited for you",
                    path=str(self.path),
                    hint="Nothing was changed; make the change by hand.",
                )
            write_atomic(self.path, changed.encode())

    def raise_lock(self, states: IssuerStates) -> tuple[str, ...]:
        """Write to the lock how far keyset statements were followed (threat 2).

        Only of issuers that it names already, and by statements that were verified here; issuer
        state holds everything else.

        Returns:
            The issuers whose floor was raised.

        Raises:
            StateFault, UsageFault, FileFault: The lock cannot be read or written, or the state
                cannot be read.
        """
        if not isinstance(states, DirectoryStates):
            return ()
        raised = {}
        for name, floor in self.floors.items():
            state = states.find(self.identity, name)
            if state is None or state.keyset is None:
                continue
            if floor.keyset is None or floor.keyset < state.keyset.id:
                raised[name] = replace(state.as_floor(), release=None)
        if raised:
            raise_floors(lock_of(self.path), raised)
        return tuple(raised)


# The lock.


LOCK_FORMAT: Final = "cardsign-lock/1"
#: Bytes. As many issuers as a policy may have; one has about 400.
MAX_LOCK_BYTES: Final = 2 * 1024 * 1024

_MAX_DEPTH: Final = 8
_ORDER: Final = ("epoch", "keyset_version", "seq")


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
        document = parse_object(data, max_bytes=MAX_LOCK_BYTES, max_depth=_MAX_DEPTH)
        issuers = read.document(document, LOCK_FORMAT, ("format", "issuers"))["issuers"]
        if not isinstance(issuers, dict):
            raise read.refused("/issuers", "an object")
        for name in issuers:
            read.text(name, ISSUER_NAME, f"/issuers/{name}", "an issuer's name")
        return {
            name: RollbackFloor(**read.fields(value, _FLOOR, f"/issuers/{name}"))
            for name, value in issuers.items()
        }
    except JsonRefused as exc:
        what, line = f"this is no strict JSON: {exc.message}", exc.finding.place.line
        raise _malformed(path, what, line) from exc
    except StatementRefused as exc:
        hint = "Upgrade cardsign, if a newer one wrote the lock." if exc.path == "/format" else ""
        raise _malformed(path, f"{exc.path}: {exc.message}", hint=hint) from exc


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
            _LOG.info("%s: its floor in %s was raised", name, path)


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


def floor_to_json(floor: RollbackFloor) -> dict[str, Json]:
    """A floor as it stands in the lock."""
    keyset, release = floor.keyset, floor.release
    return {
        "keyset": None if keyset is None else keyset.to_json(),
        "newest_iat": floor.newest_iat,
        "release": None
        if release is None
        else {**dict(zip(_ORDER, release.order, strict=True)), "digest": release.digest},
    }


def _release_floor(value: Json, path: str) -> ReleaseFloor:
    found = read.fields(value, _RELEASE, path)
    epoch, version, seq = (found[name] for name in _ORDER)
    return ReleaseFloor((epoch, version, seq), found["digest"])


_RELEASE: Final[dict[str, read.Reader]] = {
    **dict.fromkeys(_ORDER, read.integer),
    "digest": read.digest,
}
_FLOOR: Final[dict[str, read.Reader]] = {
    "keyset": read.optional(keyset_id),
    "newest_iat": time_of,
    "release": read.optional(_release_floor),
}


def _write(
    path: Path, held: Mapping[str, RollbackFloor], floors: Mapping[str, RollbackFloor]
) -> None:
    if held == floors:
        return
    issuers = {name: floor_to_json(floor) for name, floor in floors.items()}
    document = {"format": LOCK_FORMAT, "issuers": issuers}
    write_atomic(path, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")


def _malformed(path: Path, message: str, line: int | None = None, hint: str = "") -> UsageFault:
    return UsageFault("lock.malformed", message, path=str(path), line=line, hint=hint)
