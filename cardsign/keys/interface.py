"""What a place has to offer in which a key store can lie: files now, a database as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from cardsign.keys.audit import AuditEvent
from cardsign.keys.records import StoreState


class KeyStore(Protocol):
    """The primitives; :class:`cardsign.keys.operations.KeyOperations` makes the rest of them."""

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
