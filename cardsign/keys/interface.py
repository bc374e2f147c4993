"""What a place has to offer in which a key store can lie: a directory does, and a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias, get_args

from cardsign.keys.audit import AuditEvent
from cardsign.keys.records import StoreState

Kind = Literal["keysets", "releases"]
"""Of signed statements."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Number: TypeAlias = tuple[int, ...]
"""What names a statement of its kind: (epoch, version) of a keyset, (seq,) of a release."""


class Shelf(Protocol):
    """Where signed statements are kept as bytes: each is added once and never changed."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def where(self, kind: Kind, number: Number) -> str:
        """Where one statement is, for people."""
        ...

    def read_all(self, kind: Kind) -> dict[Number, bytes]:
        """Return all of a kind by number, ascending; nothing of them is checked.

        Raises:
            FileFault: ``file.unreadable``.
            StoreFault: ``keystore.unreachable``, and what else keeps the place from being read.
        """
        ...

    def read_newest(self, kind: Kind) -> tuple[Number, bytes] | None:
        """Return the one of the highest number; raises as :meth:`read_all`."""
        ...

    def add(self, kind: Kind, number: Number, data: bytes) -> None:
        """Keep one more, durably.

        Raises:
            StoreFault: ``keystore.changed``: one of this number is kept already.
            FileFault: ``file.unwritable``; nothing is then kept.
        """
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Let no other process add a statement meanwhile.

        Raises:
            StoreFault: ``keystore.busy``.
            FileFault: ``file.unwritable``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a key store holds, on its way from one place to another.

    Attributes:
        state: As it was committed last.
        audit: The audit log.
        envelopes: The encrypted private halves by thumbprint.
        statements: The issuer's statements.
    """

    state: StoreState
    audit: bytes
    envelopes: Mapping[str, bytes]
    statements: Mapping[Kind, Mapping[Number, bytes]]


class KeyStore(Protocol):
    """The primitives; :class:`cardsign.keys.operations.KeyOperations` makes the rest of them."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    @property
    def shelf(self) -> Shelf:
        """The place for the issuer's statements beside it."""
        ...

    def load(self) -> StoreState:
        """Return the state as it was committed last.

        Raises:
            StoreFault: ``keystore.missing``, ``keystore.corrupt`` or ``keystore.newer_format``.
            FileFault: It is there but cannot be read.
        """
        ...

    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        expect_generation: int,
        now: datetime,
        envelopes: Mapping[str, bytes],
    ) -> StoreState:
        """Commit all of it or nothing, unless the store has gone further meanwhile.

        Args:
            state: The new state; generation and audit head are set here.
            events: What happened, for the audit log.
            expect_generation: That of the state from which `state` was made.
            now: The time that the log shall say, with its zone.
            envelopes: Encrypted private halves by thumbprint, of keys that `state` adds.

        Returns:
            The state as committed.

        Raises:
            StoreFault: ``keystore.changed``: the generation is another one;
                ``keystore.busy``, or as :meth:`load`.
            FileFault: ``file.unwritable``; the store is then as it was.
        """
        ...

    def private_halves(self) -> frozenset[str]:
        """Return the thumbprints under which a private half lies here, known keys' or not.

        Raises:
            FileFault: ``file.unreadable``.
        """
        ...

    def read_private(self, thumbprint: str) -> bytes:
        """Return the encrypted private half of a key.

        Raises:
            FileFault: ``file.not_found``, ``file.permissions``, ``file.unreadable``.
        """
        ...

    def remove_private(self, thumbprint: str) -> None:
        """Remove the private half of a key whose destruction is committed, if it is there.

        Raises:
            FileFault: ``file.unwritable``.
        """
        ...

    def read_audit(self) -> bytes:
        """Return the audit log, attempts that came to nothing included.

        Raises:
            FileFault: ``file.unreadable``.
        """
        ...
