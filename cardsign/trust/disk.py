"""A policy as it lies on disk: `trust.toml`, and the `trust.lock` beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cardsign.errors import UsageFault
from cardsign.records import dataclass
from cardsign.trust.lock import POLICY_FILE, RollbackFloor, lock_of, raise_floors, read_lock
from cardsign.trust.policy import Policy, TrustedIssuer
from cardsign.trust.state import DirectoryStates, IssuerStates


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy, and where it stands.

    Attributes:
        policy: What it says; it knows its identity and its floors.
        path: The file.
        floors: The rollback floors of the lock beside it, by issuer.
        text: The file's text, for naming the line that decides.
        was_found_here: Nobody named it: it lies in the working directory, and may be a stranger's.
            It cannot begin a first contact by itself.
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
            UsageFault: ``policy.malformed``, ``lock.malformed``; ``policy.not_own``: it was only
                found, and says what only a policy that is named may say.
            FileMissing, FileFault: It cannot be read.
        """
        from cardsign.trust.policyfile import read_policy  # pydantic, which --jwks needs not

        policy, text = read_policy(path, is_own=not was_found_here)
        floors = read_lock(lock_of(path))
        file = cls(policy, path, floors, text, was_found_here)
        return replace(file, policy=policy.known_as(file.identity, floors))

    @classmethod
    def begun(cls, path: Path, *, was_found_here: bool) -> PolicyFile:
        """One that is not there yet and trusts nobody; nothing is written."""
        from cardsign.trust.policyedit import EMPTY_POLICY

        return cls(Policy(), path, {}, EMPTY_POLICY, was_found_here)

    @property
    def unnamed(self) -> str:
        """What a verdict says first of a policy that nobody named; empty for one that was."""
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
        state holds everything besides.

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
