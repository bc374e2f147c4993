"""A task of several steps: what it may use, what it has done, and what it leaves to a person."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.config import ProjectConfig
from cardsign.errors import (
    CardsignError,
    FileFault,
    PassphraseFault,
    PublishRefused,
    ServeFault,
    SignerFault,
    SigningRefused,
    UsageFault,
)
from cardsign.issuer.publishing import check_ours
from cardsign.keys.drafts import KeysetDue
from cardsign.keys.history import kept_keyset, keys_elsewhere
from cardsign.keys.model import Role
from cardsign.keys.rotation import Step
from cardsign.keys.signers.access import Access
from cardsign.keys.stores.base import KeyStore
from cardsign.records import dataclass
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.times import utc

#: What a person can put right, with another passphrase, another key or another card.
NEEDS_A_PERSON: Final = (PassphraseFault, SignerFault, SigningRefused, PublishRefused)
#: That no key may sign yet, or that none of the card does now: the next keyset lists other keys.
UNLISTED: Final = ("sign.no_key", "publish.not_verifying", "keystore.not_listed")


@dataclass(frozen=True, slots=True)
class Task:
    """What is left for a person.

    Attributes:
        who: Whose passphrase or key it takes.
        what: What is to be done, and what hinders it.
        command: The command to type.
        until: When it does harm if nobody does it; None: it does already, or nobody can know.
    """

    who: str
    what: str
    command: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What one call came to.

    Attributes:
        done: What was done, in order, each a short sentence.
        left: What needs a person; empty where nobody is needed.
        ahead: Every step ahead, the next one first.
        renewal: When the roots have to sign next; None where there is no keyset.
    """

    done: tuple[str, ...]
    left: tuple[Task, ...]
    ahead: tuple[Step, ...]
    renewal: KeysetDue | None


@dataclass(frozen=True, slots=True)
class Unlocking:
    """The secrets and keys that a task may use.

    Attributes:
        access: What signers may use.
        passphrase: Gives that of a new key of a role.
        roots: Another key store with root keys, such as on a USB stick; None for none.
        root_access: What its signers may use; None: `access`.
        options: What the commands that are left have to be told again: ``--root-keystore usb``.
    """

    access: Access
    passphrase: Callable[[Role], bytes]
    roots: KeyStore | None = None
    root_access: Access | None = None
    options: str = ""


@dataclass(slots=True)
class Work:
    """One call of a task: the store, what may be used, and what came of it.

    Attributes:
        awaits_roots: The call that follows the signature of the roots does what waits for it.
        astray: What is published is not what this key store has led to.
        is_forked: The roots have signed two statements of one number, so nothing more is signed.
    """

    store: KeyStore
    config: ProjectConfig
    unlocking: Unlocking
    now: datetime
    draft: Path
    done: list[str] = field(default_factory=list)
    left: list[Task] = field(default_factory=list)
    awaits_roots: bool = False
    astray: tuple[Task, ...] = ()
    is_forked: bool = False

    def leave_out_strangers(self) -> None:
        """Publish nothing where what is published is not ours, and say so; go on with the rest."""
        folder = self.config.publish
        try:
            check_ours(self.store, folder)
        except (UsageFault, ServeFault, FileFault) as fault:
            move = f"mv {shlex.quote(str(folder))} ELSEWHERE; then {self.again}"
            what = "find out who wrote what is published, and move it away if nobody here did"
            what += f": {fault.message}"
        except PublishRefused as fault:
            move, self.is_forked = "cardsign keys rotate --keystore DIR", True
            what = f"go on with the key store that has published: {fault.message}"
        else:
            return
        self.astray = (Task("you", what, move),)
        self.config = replace(self.config, publish=None)

    @property
    def again(self) -> str:
        """The command that goes on."""
        return f"cardsign keys rotate {self.unlocking.options}".rstrip()

    @property
    def keyset_ends(self) -> datetime | None:
        """When the newest keyset ends."""
        return end_of(kept_keyset(self.store))

    def needs(
        self, who: str, what: str, *, until: datetime | None = None, command: str | None = None
    ) -> None:
        """Leave something to a person, who types the command, or else the task's own again."""
        self.left.append(Task(who, what, command or self.again, until))

    def hindered(self, role: Role, what: str, fault: CardsignError, until: datetime | None) -> None:
        """A task for the holder of the passphrase, unless it waits for the roots."""
        if fault.code in UNLISTED and self.awaits_roots:
            return
        if fault.code in UNLISTED and (names := self.keys_elsewhere()):
            what += f" with the other copy of this key store: {names}, which this one lacks"
            self.needs("you", what, until=until, command="cardsign keys rotate --keystore DIR")
        else:
            self.needs(key_holder(role), f"{what}: {fault.message}", until=until)

    def keys_elsewhere(self) -> str:
        """Which keys another copy of this key store has, as a sentence without its end."""
        keyset = kept_keyset(self.store)
        found = keys_elsewhere(self.store.load(), keyset) if keyset else ()
        names = ", ".join(key.named for key in found)
        return f"keyset {keyset.label} lists {names}" if keyset and names else ""


def end_of(statement: KeysetStatement | ReleaseStatement | None) -> datetime | None:
    """When a statement ends."""
    return None if statement is None else utc(statement.exp)


def key_holder(role: Role) -> str:
    """Who is asked where a key of a role has to be opened."""
    return f"the person with the passphrase of the {role} key"
