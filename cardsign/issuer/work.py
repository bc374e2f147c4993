"""What an issuer works with in one call, what is missing, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cardsign.config import ProjectConfig
from cardsign.errors import (
    LocalFault,
    PassphraseFault,
    PublishRefused,
    SignerFault,
    SigningRefused,
)
from cardsign.keys.agenda import Step, steps
from cardsign.keys.drafts import DRAFT_FILE, KeysetDue, keyset_due
from cardsign.keys.history import kept_keyset
from cardsign.keys.model import Role
from cardsign.keys.signers.access import Access
from cardsign.keys.store import KeyStore
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.times import utc

#: What a person can put right, with another passphrase, another key or another card.
NEEDS_A_PERSON: Final = (PassphraseFault, SignerFault, SigningRefused, PublishRefused)
#: How long before something ends someone must act; of a card at most a quarter of its time.
NOTICE: Final = timedelta(days=14)
#: That no key may sign yet, or that none of the card does now: the next keyset lists other keys.
UNLISTED: Final = ("sign.no_key", "publish.not_verifying", "keystore.not_listed")


@dataclass(slots=True)
class Work:
    """One call: what an issuer works with in it.

    Attributes:
        store: The key store.
        now: The time, with its zone, in whole seconds.
        config: The project: its issuer, cards, publication directory and timeline.
        access: What signers may use; a passphrase is enough for keys in files.
        roots: The same of another key store with root keys, such as on a USB stick.
        draft: Where a draft of the next keyset statement is or goes.
        options: What the commands that are left have to be told again: ``--keystore DIR``.
        root_option: And while the root keys are wanted: ``--root-keystore usb``.
        drops_others: Publish no extended card, and no card of A2A 0.3, that the project does not
            name.
        is_dry_run: Close no gap, and say which would be closed; the store is a preview.
    """

    store: KeyStore
    now: datetime
    config: ProjectConfig = field(default_factory=ProjectConfig)
    access: Access | bytes = b""
    roots: Work | None = None
    draft: Path = Path(DRAFT_FILE)
    options: str = ""
    root_option: str = ""
    drops_others: bool = False
    is_dry_run: bool = False

    def passphrase(self, role: Role) -> bytes:
        """Return the passphrase of a new key of a role."""
        access = self.access
        access = Access.by_passphrase(access) if isinstance(access, bytes) else access
        return access.for_roles((role,)).secrets("passphrase", role)

    @property
    def again(self) -> str:
        """The command that goes on; it names the root keys while they have anything to sign."""
        roots = self.root_option if self.root_option and self._wants_roots() else ""
        return " ".join(filter(None, ("cardsign keys rotate", self.options, roots)))

    def _wants_roots(self) -> bool:
        """Say whether a keyset is due, or a key that is then to be listed."""
        try:
            state, keyset = self.store.load(), kept_keyset(self.store)
        except LocalFault:  # which the caller tells
            return True
        ahead = steps(state, self.config.timeline, self.now)
        is_making = any(step.action == "generate" and step.is_due(self.now) for step in ahead)
        is_due = keyset is None or keyset_due(state, keyset, now=self.now).is_due(self.now)
        return is_making or is_due


class Gap(NamedTuple):
    """Something that is missing, and who can close it.

    Attributes:
        what: What is to be done. With `who` it is the gap's name: a second one is the same gap.
        why: What is wrong as long as it is not done, for people.
        who: Whose passphrase or key it takes, where this machine cannot.
        command: What that person types.
        until: When it does harm if nobody does it; None: it does already, or nobody can know.
        close: Closes it, and says what was done; None: only a person can.
        awaits_roots: What hinders it is gone once the next keyset is published.
    """

    what: str
    who: str = "you"
    command: str = ""
    until: datetime | None = None
    close: Callable[[], list[str]] | None = None
    awaits_roots: bool = False
    why: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """What makes two gaps the same."""
        return self.what, self.who

    @property
    def text(self) -> str:
        """What is to be done, and why."""
        return f"{self.what}: {self.why}" if self.why else self.what

    @property
    def is_for_people(self) -> bool:
        """Whether `keys rotate` from cron does not close it."""
        return self.close is None or self.awaits_roots


class Progress(NamedTuple):
    """What one call came to.

    Attributes:
        done: What was done, in order, each a short sentence.
        planned: In a dry run what would be done, each in the imperative.
        left: What needs a person; empty where nobody is needed.
        ahead: Every step ahead, the next one first.
        renewal: When the roots have to sign next; None where there is no keyset.
        notes: What else the user should know, each a sentence.
    """

    done: tuple[str, ...] = ()
    left: tuple[Gap, ...] = ()
    ahead: tuple[Step, ...] = ()
    renewal: KeysetDue | None = None
    planned: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def end_of(statement: KeysetStatement | ReleaseStatement | None) -> datetime | None:
    """Return when a statement ends."""
    return None if statement is None else utc(statement.exp)


def key_holder(role: Role) -> str:
    """Return who is asked where a key of a role has to be opened."""
    return f"the person with the passphrase of the {role} key"
