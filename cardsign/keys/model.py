"""What a key store knows of its keys: public data only, wherever it is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, get_args

from cardsign.errors import StoreFault
from cardsign.jose.keys import PublicKey
from cardsign.statements.keyset import KeysetId

# The states of a key and the ways between them.


KeyState = Literal["generated", "prepublished", "active", "retiring", "retired", "revoked"]

STATES: Final[tuple[KeyState, ...]] = get_args(KeyState)

TRANSITIONS: Final[Mapping[KeyState, tuple[KeyState, ...]]] = {
    "generated": ("prepublished", "revoked"),
    "prepublished": ("active", "revoked"),
    "active": ("retiring", "revoked"),
    "retiring": ("retired", "revoked"),
    "retired": ("revoked",),
    "revoked": (),
}

PUBLISHED: Final[frozenset[KeyState]] = frozenset({"prepublished", "active", "retiring"})
"""The states whose public halves stand in the JWK Set."""

ENDED: Final[frozenset[KeyState]] = frozenset({"retired", "revoked"})
"""The states in which a private half is of no use any more and may be destroyed."""


def check_transition(old: KeyState, new: KeyState) -> None:
    """Refuse to take a key from `old` to `new` unless the table has that way.

    Not checked: *when* a transition may happen; that is :mod:`cardsign.keys.lifecycle`'s business.

    Raises:
        StoreFault: ``keystore.illegal_transition``, naming the ways that exist.
    """
    ways = TRANSITIONS[old]
    if new not in ways:
        legal = f", only {' or '.join(ways)}" if ways else ": its state is final"
        raise StoreFault(
            "keystore.illegal_transition", f"a key that is {old} cannot become {new}{legal}"
        )


Role = Literal["root", "recovery", "card", "release"]
PrivateHalf = Literal["held", "elsewhere", "destroyed"]
Reason = Literal["compromised", "superseded", "ceased"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
PRIVATE_HALVES: Final[tuple[PrivateHalf, ...]] = get_args(PrivateHalf)
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
ROTATING: Final[frozenset[Role]] = frozenset({"card", "release"})
"""The roles of online keys, of which one a role and algorithm is active; roots may be several."""

TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
MAX_PUBLICATIONS: Final = 32  # kept to be shown; no wait is reckoned from an older one


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """When each step of a key's life was recorded: aware UTC to the second, or None.

    Attributes:
        prepublished: Since when the JWK Set that the store gives out holds it.
        seen: Since when every newest publication holds it; None again if one lacks it.
        activated: Since when it signs.
        stops_signing: Until when it signs beside its successor.
        relieved: Since when every published card is signed by its successor, and none by it.
        retired: When it left the JWK Set in good order.
        revoked: When it was revoked.
        dropped: Since when no newest publication holds it any more.
        destroyed: When its private half was destroyed.
    """

    prepublished: datetime | None = None
    seen: datetime | None = None
    activated: datetime | None = None
    stops_signing: datetime | None = None
    relieved: datetime | None = None
    retired: datetime | None = None
    revoked: datetime | None = None
    dropped: datetime | None = None
    destroyed: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key of the store.

    Attributes:
        public: The public half; its kid, alg and thumbprint are the key's.
        state: Where it stands in its life.
        roles: What it may sign.
        holder: Who holds the private half, if that is recorded; two keys of one holder
            count once.
        custody: Where the private half lies: a signer URI, a ``file:`` being relative to
            the store.
        created: When it entered the store: UTC, to the second.
        times: When the rest of its life happened.
        revoked_because: Why it was revoked; None if it was not.
        private: Whether the store holds the private half, somebody else does, or nobody.
    """

    public: PublicKey
    state: KeyState
    roles: tuple[Role, ...]
    holder: str | None
    custody: str
    created: datetime
    times: KeyTimes = field(default_factory=KeyTimes)
    revoked_because: Reason | None = None
    private: PrivateHalf = "held"

    @property
    def kid(self) -> str:
        """The published name: the thumbprint, or what an imported key brought along."""
        return self.public.kid

    @property
    def alg(self) -> str:
        """The one algorithm that the key serves."""
        return self.public.alg

    @property
    def thumbprint(self) -> str:
        """The identity inside the store (RFC 7638)."""
        return self.public.thumbprint

    @property
    def names(self) -> frozenset[str]:
        """Kid and thumbprint: no other key of the store may answer to either."""
        return frozenset({self.kid, self.thumbprint})

    @property
    def rotates(self) -> bool:
        """Whether it is an online key, which a successor replaces by the timeline."""
        return not ROTATING.isdisjoint(self.roles)

    def succeeds(self, other: KeyRecord) -> bool:
        """Whether only one of the two may be active: same algorithm, a rotating role in common."""
        shared = ROTATING.intersection(self.roles, other.roles)
        return self.thumbprint != other.thumbprint and self.alg == other.alg and bool(shared)

    def signs_at(self, now: datetime) -> bool:
        """Whether it signs: it is active, or retiring and not yet done."""
        stops = self.times.stops_signing
        still = self.state == "retiring" and stops is not None and now < stops
        return self.state == "active" or still

    def at(self, state: KeyState | None = None, **times: datetime | None) -> KeyRecord:
        """Return the record in another state, or at other times; whether it may is not asked."""
        return replace(self, state=state or self.state, times=replace(self.times, **times))


@dataclass(frozen=True, slots=True)
class PublishedCard:
    """A card of a publication.

    Attributes:
        name: Its file in the publication.
        url: The first endpoint that it names, if any.
        payload_sha256: SHA-256 of its ``served-as-is`` payload, lower-case hex.
        kids: The keys whose signatures on it verify.
    """

    name: str
    url: str | None
    payload_sha256: str
    kids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """A generation that was published with keys of this store.

    Attributes:
        generation: Its number in the publication directory; 0 for a look at a live URL.
        at: When it was published.
        max_age: Seconds for which caches were allowed to keep it.
        kids: The keys of the published JWK Set.
        cards: The cards, the public one first.
    """

    generation: int
    at: datetime
    max_age: int
    kids: tuple[str, ...]
    cards: tuple[PublishedCard, ...]

    @property
    def series(self) -> str:
        """What it is a newer version of: the endpoint of the public card."""
        return next((card.url or card.name for card in self.cards), "")


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest line of the audit log that counts: how many there are, and its SHA-256."""

    seq: int = 0
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class HeldRelease:
    """Which release the store signed last, and upon which: that one alone may have been lost.

    Attributes:
        digest: Of its payload, SHA-256 in lower-case hex.
        previous: That of the newest release kept when its number was taken, or None.
    """

    digest: str
    previous: str | None


@dataclass(frozen=True, slots=True)
class StatementsHeld:
    """How far the issuer's signed statements have gone.

    Attributes:
        keyset: The newest keyset statement, or None.
        release_seq: The highest number that a release has taken, or 0.
        release: What has taken it; None also where an older cardsign took it.
    """

    keyset: KeysetId | None = None
    release_seq: int = 0
    release: HeldRelease | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    """All that a store commits at once.

    Attributes:
        generation: The number of commits; a new store has 0.
        keys: Every key that the store ever held, oldest first.
        audit: The head of the audit log.
        publications: The newest `MAX_PUBLICATIONS`, oldest first, and the newest of each series.
        statements: The issuer's statements.
    """

    generation: int
    keys: tuple[KeyRecord, ...]
    audit: AuditHead = AuditHead()
    publications: tuple[Publication, ...] = ()
    statements: StatementsHeld = StatementsHeld()

    def active_keys(self, role: Role = "card") -> tuple[KeyRecord, ...]:
        """Return the active keys of a role, oldest first."""
        return tuple(key for key in self.keys if key.state == "active" and role in key.roles)

    def signing_keys(self, now: datetime, role: Role = "card") -> tuple[KeyRecord, ...]:
        """Return the keys that sign at `now`, the longest known to peers first."""
        signing = [key for key in self.keys if role in key.roles and key.signs_at(now)]
        return tuple(sorted(signing, key=lambda key: key.times.activated or key.created))

    def published_keys(self) -> tuple[KeyRecord, ...]:
        """Return the keys whose public halves belong in the JWK Set, oldest first.

        Card keys only: whoever reads a JWK Set would let any key of it sign a card.
        """
        return tuple(key for key in self.keys if key.state in PUBLISHED and "card" in key.roles)

    def jwks_sequence(self) -> int:
        """Return how often the JWK Set has changed, for ``cardsign_sequence``."""
        cards = [key.times for key in self.keys if "card" in key.roles and key.times.prepublished]
        return len(cards) + sum(1 for times in cards if times.retired or times.revoked)

    def ever_held_kids(self) -> frozenset[str]:
        """Return every kid that is or was ours; signatures under them are ours to replace."""
        return frozenset(key.kid for key in self.keys)

    def newest_publications(self) -> tuple[Publication, ...]:
        """Return the newest publication of each series."""
        return tuple({one.series: one for one in self.publications}.values())

    def find(self, name: str) -> KeyRecord:
        """Return the key called `name`: its kid, its thumbprint, or a beginning of either.

        Raises:
            StoreFault: ``keystore.unknown_key``: none is called so, or several begin so.
        """
        fitting = [key for key in self.keys if name in key.names] or [
            key for key in self.keys if name and any(full.startswith(name) for full in key.names)
        ]
        if not fitting:
            raise StoreFault("keystore.unknown_key", f"no key is called {name!r}")
        if len(fitting) > 1:
            kids = ", ".join(key.kid for key in fitting)
            raise StoreFault(
                "keystore.unknown_key",
                f"several keys begin with {name!r}: {kids}",
                hint="Give more of the kid.",
            )
        return fitting[0]

    def with_key(self, record: KeyRecord) -> StoreState:
        """Return the state that holds `record` as well.

        Raises:
            StoreFault: ``keystore.duplicate_key``: the store holds this key already, or
                another that answers to its kid.
        """
        for key in self.keys:
            if key.thumbprint == record.thumbprint:
                raise StoreFault(
                    "keystore.duplicate_key", f"the store holds this key already, as {key.kid!r}"
                )
            if key.names & record.names:
                raise StoreFault(
                    "keystore.duplicate_key", f"another key answers to the kid {record.kid!r}"
                )
        return replace(self, keys=(*self.keys, record))

    def replacing(self, records: Iterable[KeyRecord]) -> StoreState:
        """Return the state with these records in the places of those of the same keys."""
        new = {record.thumbprint: record for record in records}
        return replace(self, keys=tuple(new.get(key.thumbprint, key) for key in self.keys))


# Which private halves share a fate: whoever gets at one of a custody may have them all.


_TOKEN: Final = re.compile(r"(?:^|;)(?:token|serial)=([^;?]*)")  # RFC 7512 2.3


def file_custody(thumbprint: str) -> str:
    """Return the only ``file:`` URI that the key of this thumbprint may have."""
    return f"file:private/{thumbprint}.key"


def same_custody(one: KeyRecord, other: KeyRecord) -> bool:
    """Whether who got at one private half must be thought to have the other.

    Two files of one store are: that their passphrases differ cannot be seen. So are two keys
    of one scheme, unless they name different tokens (``pkcs11:``) or programs (``exec:``).
    """
    return _place(one.custody) == _place(other.custody)


def suspects(state: StoreState) -> frozenset[str]:
    """Return the thumbprints of the keys that a thief of another key may have taken as well.

    Those that lay in the custody of a compromised key when its compromise became known.
    """
    stolen = [key for key in state.keys if key.revoked_because == "compromised"]
    return frozenset(
        key.thumbprint
        for key in state.keys
        for known in stolen
        if same_custody(key, known)
        and (known.times.revoked is None or key.created <= known.times.revoked)
    )


def _place(custody: str) -> tuple[str, ...]:
    scheme, _, rest = custody.partition(":")
    if scheme == "pkcs11":
        return scheme, *sorted(_TOKEN.findall(rest))
    if scheme == "exec":
        return scheme, rest.partition("?")[0]
    return (scheme,)
