"""What a verifier remembers of an issuer, and below what it never goes again.

Pure data. :mod:`cardsign.trust.state` keeps it on a disk, :mod:`cardsign.trust.lock` keeps the
floors in a file that is committed beside the policy.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, Protocol

from cardsign.card.serialize import jcs
from cardsign.jose.jwks import JwkSet
from cardsign.reasons import Reason
from cardsign.statements.keyset import KeysetId, KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.trust.policy import Anchor, Enrolment, TofuAnchor

#: Statements passed that are remembered by number and digest: those of one longest refresh.
MAX_PASSED: Final = 256
#: Cards of one issuer that a policy lists, and URLs of his at which a trusted card was found that
#: are remembered; a release statement of 64 KiB has room for hardly more. Of the others the one
#: found longest ago may vanish unnoticed; a card that is gone gets no verdict in any case.
MAX_CARDS: Final = 256


@dataclass(frozen=True, slots=True)
class ReleaseFloor:
    """The newest release seen: its order (epoch, keyset version, seq) and digest."""

    order: tuple[int, int, int]
    digest: str


@dataclass(frozen=True, slots=True)
class Floor:
    """Statements older than these are a rollback, others of the same number a fork.

    Attributes:
        keyset: The newest keyset statement that was seen, or None.
        release: The newest release statement that was seen, or None.
        newest_iat: The highest `iat` that was seen, Unix seconds; 0 for none.
    """

    keyset: KeysetId | None = None
    release: ReleaseFloor | None = None
    newest_iat: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of one issuer. Only signed times are kept, never the local clock's.

    Attributes:
        anchor: Digest of the anchor under which all of this was learned.
        keyset: The newest keyset statement, already trusted.
        release: The newest release statement, already trusted.
        floor: What a lock file says besides; statements below it are not believed.
        newest_iat: The highest `iat` of a statement that was believed, Unix seconds.
        jwks: The key set that a `jwks` anchor's URL gave last, or that of a first contact with
            an issuer who has no keyset.
        first_contact: The keyset statement of the first contact, under a `tofu` anchor.
        signed_before: A card with a good signature was seen; none may be unsigned from then on.
        passed: The keyset statements before the one held, oldest first; the newest
            :data:`MAX_PASSED`. A memory on a disk notes them, so that a pin that lies behind is
            known again.
        cards: Where a trusted card was found, the newest place last; at most
            :data:`MAX_CARDS`. A card may not vanish from there unnoticed (threats.md 13).
    """

    anchor: str
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    floor: Floor = field(default_factory=Floor)
    newest_iat: int = 0
    jwks: JwkSet | None = None
    first_contact: KeysetId | None = None
    signed_before: bool = False
    passed: tuple[KeysetId, ...] = ()
    cards: tuple[str, ...] = ()

    @property
    def way(self) -> tuple[KeysetId, ...]:
        """The keyset statements known to lead to the one held, and that one last."""
        held = self.keyset
        if held is None:
            return self.passed
        named = () if held.prev is None else (KeysetId(held.epoch, held.version - 1, held.prev),)
        return *self.passed, *named, held.id

    def after(self, before: Known | None) -> Known:
        """This, with the way that led from what was known before."""
        if before is None:
            return self
        moved = before.keyset is not None and before.keyset != self.keyset
        way = before.way if moved else before.passed
        return replace(self, passed=tuple(dict.fromkeys(way))[-MAX_PASSED:])

    def with_card(self, url: str, listed: Collection[str] = ()) -> Known:
        """This, with one more place of a trusted card; of too many, one that is not listed goes.

        Args:
            url: Where it was found.
            listed: Where the policy has the issuer's cards.
        """
        cards = [*(one for one in self.cards if one != url), url]
        if len(cards) > MAX_CARDS:
            cards.remove(next((one for one in cards if one not in listed), cards[0]))
        return replace(self, cards=tuple(cards))

    def as_floor(self) -> Floor:
        """What a lock file has to hold, so that a machine without memory goes no lower."""
        keyset, release = self.floor.keyset, self.floor.release
        held, listed = self.keyset, self.release
        if held and (keyset is None or keyset < held.id):
            keyset = held.id
        if listed and (release is None or listed.order > release.order):
            release = ReleaseFloor(listed.order, listed.digest)
        return Floor(keyset, release, max(self.newest_iat, self.floor.newest_iat))


class Memo(Protocol):
    """One issuer's place in a memory, held by nobody else meanwhile."""

    @property
    def known(self) -> Known | None:
        """What is remembered; None where this memory remembers nothing and has no floors."""
        ...

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What happened to the memory itself, to be reported once."""
        ...

    def keep(self, known: Known) -> None:
        """Remember durably before returning.

        Raises:
            LocalFault: It cannot be kept; then nothing has changed.
        """
        ...


class Memory(Protocol):
    """Where a verifier remembers. A lost or corrupt memory is a fault, never first contact."""

    def of(self, enrolment: Enrolment) -> AbstractContextManager[Memo]:
        """The issuer's place, for as long as the context lasts.

        Raises:
            LocalFault: ``state.missing``, ``state.corrupt``, ``state.busy``, or of the file.
        """
        ...


class WithoutMemory:
    """No memory (`--no-state`): floors of a lock are held, nothing is kept.

    Args:
        floors: By issuer name; an issuer that is not named has no floors, so whether a card of
            his is current cannot be known.
    """

    def __init__(self, floors: Mapping[str, Floor] | None = None) -> None:
        self._floors = dict(floors or {})

    @contextmanager
    def of(self, enrolment: Enrolment) -> Iterator[Memo]:
        """See :class:`Memory`."""
        floor = self._floors.get(enrolment.name)
        if isinstance(enrolment.anchor, TofuAnchor):
            floor = None  # an empty memory would make every contact the first
        known = None if floor is None else Known(anchor_digest(enrolment.anchor), floor=floor)
        yield _TransientMemo(known)


class TransientMemory:
    """A memory that lasts as long as the process; every issuer is remembered from the start."""

    def __init__(self, known: Mapping[str, Known] | None = None) -> None:
        self._known = dict(known or {})
        self._alone = defaultdict[str, Lock](Lock)

    @contextmanager
    def of(self, enrolment: Enrolment) -> Iterator[Memo]:
        """See :class:`Memory`."""
        blank = Known(anchor_digest(enrolment.anchor))
        with self._alone[enrolment.name]:
            memo = _TransientMemo(self._known.get(enrolment.name, blank))
            try:
                yield memo
            finally:
                if memo.known is not None:
                    self._known[enrolment.name] = memo.known


@dataclass(slots=True)
class _TransientMemo:
    known: Known | None
    notes: tuple[Reason, ...] = ()

    def keep(self, known: Known) -> None:
        if self.known is not None:
            self.known = known


NO_MEMORY: Final = WithoutMemory()


def anchor_digest(anchor: Anchor) -> str:
    """SHA-256, in hex, of what an anchor says: memories of one anchor are not another's."""
    return hashlib.sha256(jcs(anchor.to_json())).hexdigest()
