"""A policy on disk: where it is found, `trust.toml`, and its `trust.lock`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from cardsign.errors import FileMissing, UsageFault
from cardsign.files import leads_outside, outside
from cardsign.records import dataclass
from cardsign.trust.lock import POLICY_FILE, RollbackFloor, lock_of, raise_floors, read_lock
from cardsign.trust.policy import Policy, TrustedIssuer
from cardsign.trust.state import DirectoryStates, IssuerStates

#: The environment variable that names the policy.
POLICY_VARIABLE: Final = "CARDSIGN_TRUST"
#: Ours, below the XDG base directories.
USER_FOLDER: Final = "cardsign"


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


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy, and where it stands.

    Attributes:
        policy: What it says; it knows its identity and its floors.
        path: The file.
        floors: The rollback floors of its lock, by issuer.
        text: The file's text, for naming the line that decides.
        was_found_here: It was not named: it stands in the working directory, and may come
            from elsewhere. It cannot begin a first contact by itself.
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
        from cardsign.trust.policyfile import read_policy  # pydantic, which --jwks needs not

        policy, text = read_policy(path, is_own=not was_found_here)
        floors = read_lock(lock_of(path))
        file = cls(policy, path, floors, text, was_found_here)
        return replace(file, policy=policy.known_as(file.identity, floors))

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
        from cardsign.trust.policyedit import EMPTY_POLICY

        return cls(Policy(), path, {}, EMPTY_POLICY, was_found_here=True)

    @property
    def unnamed(self) -> str:
        """What a verdict says first of a policy that was not named; else empty."""
        return f"by ./{POLICY_FILE}, found in this folder" if self.was_found_here else ""

    @property
    def identity(self) -> str:
        """What issuer state is bound to."""
        from cardsign.trust.policyfile import identity_of

        return identity_of(self.path)

    def issuer(self, name: str) -> TrustedIssuer:
        """The trusted issuer of that name.

        Raises:
            UsageFault: ``policy.unknown_issuer``.
        """
        try:
            return self.policy.issuer(name)
        except UsageFault as fault:
            fault.path = str(self.path)
            raise

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
