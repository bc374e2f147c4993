"""Who may speak for an issuer at one time, and what of it is known to be current. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement
from cardsign.reasons import Reason
from cardsign.trust.origins import Origin, Url
from cardsign.trust.places import Place, may_stand_at
from cardsign.trust.policy import Enrolment, Limits


@dataclass(frozen=True, slots=True)
class AcceptedKey:
    """A key that the anchor's source names; whether it may sign cards now is said besides.

    Attributes:
        public: The key.
        holder: Who holds it; empty where nobody said.
        signs_cards: It has the role card.
        nbf: It does not count before, Unix seconds; None without a statement.
        exp: It does not count from then on, Unix seconds; None without a statement.
    """

    public: PublicKey
    holder: str
    signs_cards: bool = True
    nbf: int | None = None
    exp: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds for one issuer at one time.

    Attributes:
        enrolment: What the policy says of it.
        now: The time of the verdict.
        limits: The policy's.
        keys: All keys of the anchor's source.
        has_source: The source was to be had; if not, nothing can be said of any key.
        unsupported: Kids of keys of the source that are of a type we do not know.
        offered: Keys that somebody publishes and that the anchor's source does not endorse.
        revoked: Thumbprints of keys whose signatures never count.
        origins: Where the keyset statement lets interfaces stand; None without one.
        keyset: The newest keyset statement, or None.
        release: The newest release statement, if it speaks for that keyset now; or None.
        release_ends: When the last of the keys ends that signed that release, Unix seconds.
        hindrances: For what reasons nobody can say that a card is current.
        blocks: For what reasons nothing can be trusted whatever the policy waives.
        notes: What else was found; it decides nothing.
        signed_before: A card of this issuer with a good signature was seen.
        reserved: The places of the policy's other issuers.
    """

    enrolment: Enrolment
    now: datetime
    limits: Limits
    keys: tuple[AcceptedKey, ...] = ()
    has_source: bool = True
    unsupported: tuple[str, ...] = ()
    offered: JwkSet | None = None
    revoked: frozenset[str] = frozenset()
    origins: tuple[Origin, ...] | None = None
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    release_ends: int | None = None
    hindrances: tuple[Reason, ...] = ()
    blocks: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()
    signed_before: bool = False
    reserved: tuple[Place, ...] = ()

    def find(self, kid: str) -> AcceptedKey | None:
        """The key that the source publishes under a kid, which is only a hint."""
        return next((key for key in self.keys if key.public.kid == kid), None)

    def may_stand_at(self, url: Url) -> bool:
        """Whether the policy lets a card of this issuer stand at a URL."""
        places = self.enrolment.places
        return places is None or may_stand_at(url, places, self.reserved)

    @property
    def skew(self) -> timedelta:
        """How far the issuer's clock may be ahead of ours."""
        return timedelta(seconds=self.limits.skew)

    @property
    def clock_is_behind(self) -> bool:
        """This machine's clock is known to be wrong, so that no time can be held against a key."""
        return any(reason.code == "time.clock_behind" for reason in self.blocks)

    @property
    def deadlines(self) -> tuple[int, ...]:
        """When what is said here ends, Unix seconds; what has ended is said of nothing any more."""
        ends = []
        if self.keyset is not None:
            ends.append(end_of(self.keyset, self.limits.keyset_age))
        if self.release is not None:
            ends.append(end_of(self.release, self.limits.release_age))
        if self.release_ends is not None:
            ends.append(self.release_ends)
        return tuple(end for end in ends if end > self.now.timestamp())

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal for two standings under which one card gets one verdict, but for the time."""
        return (
            self.enrolment.name,
            self.has_source,
            tuple((key.public.kid, key.public.thumbprint, key.signs_cards) for key in self.keys),
            self.revoked,
            self.keyset.digest if self.keyset else None,
            self.release.digest if self.release else None,
            tuple(reason.code for reason in (*self.hindrances, *self.blocks)),
            self.notes,
        )


def end_of(statement: KeysetStatement | ReleaseStatement, most: int | None) -> int:
    """When a statement ends for us: at its `exp`, or earlier where the policy says so.

    Args:
        statement: Which.
        most: Seconds after its `iat` for which the policy believes it; None: until its `exp`.
    """
    return statement.exp if most is None else min(statement.exp, statement.iat + most)
