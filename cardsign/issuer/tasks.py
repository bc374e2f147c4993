"""A task of several steps: what it may use, what it has done, and what it leaves to a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.config import ProjectConfig
from cardsign.errors import (
    CardsignError,
    PassphraseFault,
    PublishRefused,
    SignerFault,
    SigningRefused,
)
from cardsign.keys.drafts import DRAFT_FILE, KeysetDue
from cardsign.keys.history import kept_keyset, keys_elsewhere
from cardsign.keys.model import Role
from cardsign.keys.rotation import Step
from cardsign.keys.signers.access import Access
from cardsign.keys.store import KeyStore
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


@dataclass(slots=True)
class Work:
    """One call: what an issuer works with in it, and what came of it.

    Attributes:
        store: The key store.
        now: The time, with its zone, in whole seconds.
        config: The project: its issuer, cards, publication directory and timeline.
        access: What signers may use; a passphrase is enough for keys in files.
        roots: The same of another key store with root keys, such as on a USB stick.
        draft: Where a draft of the next keyset statement is or goes.
        options: What the commands that are left have to be told again: ``--root-keystore usb``.
        done: What was done, in order, each a short sentence.
        left: What is left to a person.
        awaits_roots: The call that follows the signature of the roots does what waits for it.
        astray: What is published is not what this key store has led to.
        is_forked: The roots have signed two statements of one number, so nothing more is signed.
    """

    store: KeyStore
    now: datetime
    config: ProjectConfig = field(default_factory=ProjectConfig)
    access: Access | bytes = b""
    roots: Work | None = None
    draft: Path = Path(DRAFT_FILE)
    options: str = ""
    done: list[str] = field(init=False, default_factory=list)
    left: list[Task] = field(init=False, default_factory=list)
    awaits_roots: bool = field(init=False, default=False)
    astray: tuple[Task, ...] = field(init=False, default=())
    is_forked: bool = field(init=False, default=False)

    def passphrase(self, role: Role) -> bytes:
        """That of a new key of a role."""
        access = self.access
        access = Access.by_passphrase(access) if isinstance(access, bytes) else access
        return access.passphrase(role, (role,))

    @property
    def again(self) -> str:
        """The command that goes on."""
        return f"cardsign keys rotate {self.options}".rstrip()

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
