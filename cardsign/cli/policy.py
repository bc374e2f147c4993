"""What a verifier's command works with: policy, issuer states, statements, and their options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click

from cardsign.cli.arguments import PATH, option, option_group
from cardsign.cli.talk import safe, say
from cardsign.errors import LocalFault, UsageFault
from cardsign.records import dataclass
from cardsign.trust.bundle import read_statements
from cardsign.trust.disk import POLICY_VARIABLE, USER_FOLDER, PolicyFile, find_policy, user_folder
from cardsign.trust.lock import POLICY_FILE, lock_of
from cardsign.trust.policy import ACCEPTED
from cardsign.trust.state import NO_STATES, DirectoryStates, IssuerStates
from cardsign.trust.statements import SuppliedStatements


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """Which policy and which issuer states a command is about.

    Attributes:
        here: Look for a policy in the working directory too.
    """

    trust_file: Path | None = None
    state_dir: Path | None = None
    no_state: bool = False
    here: bool = True

    def find(self) -> Path | None:
        """Where the policy is; see :func:`cardsign.trust.disk.find_policy`."""
        return find_policy(self.trust_file, here=self.here)

    def load(self) -> PolicyFile | None:
        """Read the policy; None where none is named and none is found."""
        return PolicyFile.find(self.trust_file, here=self.here, allowed=_allowed_folders)

    def needed(self) -> PolicyFile:
        """Read the policy of a command that is about one."""
        loaded = self.load()
        if loaded is None:
            raise UsageFault(
                "trust.no_anchor",
                f"no policy: there is no {POLICY_FILE} here, nor in {user_folder('CONFIG')}",
                hint="Make one: cardsign trust init, then cardsign trust add NAME "
                "--origin ORIGIN --keyset FILE.",
            )
        return loaded

    def extensible(self) -> PolicyFile:
        """Read the policy of a command that adds to one; where there is none yet, an empty one."""
        return self.load() or PolicyFile.begun(Path(POLICY_FILE), was_found_here=True)

    @property
    def stored(self) -> DirectoryStates:
        """The issuer states on this machine's disk."""
        return DirectoryStates(self.state_dir or user_folder("STATE"))

    def states(self, loaded: PolicyFile | None) -> IssuerStates:
        """The issuer states that a verdict under this policy rests on."""
        if self.no_state and self.state_dir is not None:
            raise UsageFault("usage.conflict", "--state and --no-state contradict one another")
        return NO_STATES if loaded is None or self.no_state else self.stored


def _policy_option(here: str) -> Callable[[Any], Any]:
    return option(
        "--trust FILE",
        f"The policy [default: {POLICY_VARIABLE}, then {here}"
        f"$XDG_CONFIG_HOME/{USER_FOLDER}/{POLICY_FILE}].",
        into="trust_file",
        type=PATH,
    )


_TRUST: Final = _policy_option(f"./{POLICY_FILE}, then ")
_STATE: Final = option(
    "--state DIR",
    f"Where issuers are remembered [default: $XDG_STATE_HOME/{USER_FOLDER}].",
    into="state_dir",
    type=PATH,
)
_NO_STATE: Final = option(
    "--no-state", "Remember nothing. Then only trust.lock can show that a card is too old."
)
#: ``--trust``, as `trust`.
policy_options: Final = option_group(TrustOptions, "trust", _TRUST)
#: ``--state``, as `trust`.
state_options: Final = option_group(TrustOptions, "trust", _STATE)
#: ``--trust`` and ``--state``, as `trust`.
edit_options: Final = option_group(TrustOptions, "trust", _TRUST, _STATE)
#: ``--trust``, ``--state`` and ``--no-state``, as `trust`.
trust_options: Final = option_group(TrustOptions, "trust", _TRUST, _STATE, _NO_STATE)
#: The same, for a command that reads no policy of the working directory by itself.
own_trust_options: Final = option_group(
    TrustOptions, "trust", _policy_option(""), _STATE, _NO_STATE
)


accept_option: Final = option(
    "--accept",
    "full: only signatures over the whole card count. sdk: those of the SDKs count "
    "too, which may leave parts of it unsigned [default: as the policy says, else "
    "full].",
    type=click.Choice(tuple(ACCEPTED)),
)


statements_option: Final = option(
    "--statements FILE|DIR...",
    "Keyset and release statements of the issuer: a file, a bundle, or a folder, whose "
    "*.json files are searched, subfolders too. May be repeated.",
    type=PATH,
)


def supplied_statements(paths: Iterable[Path]) -> SuppliedStatements:
    """What ``--statements`` name; of a folder it is said how much is no statement."""
    return read_statements(paths, lambda line: say(safe(line, limit=400)))


def raise_lock(file: PolicyFile, states: IssuerStates) -> None:
    """Raise the lock of a policy, and say so.

    A lock that cannot be written takes no verdict away, nor does the state of an issuer that
    was not asked about.
    """
    try:
        raised = file.raise_lock(states)
    except LocalFault as fault:
        say(f"{lock_of(file.path)} was not brought up to date: {fault}")
        return
    for name in raised:
        say(f"{lock_of(file.path)} holds a newer keyset statement of {name}; commit it")


def _allowed_folders() -> tuple[Path, ...]:
    from cardsign.keys.signers.access import user_policy  # the key store: for links alone

    return tuple(user_policy(os.environ).folders)
