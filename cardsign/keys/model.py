"""What a key store knows of its keys: the records that the events of its log add up to.

Plain frozen dataclasses; public data only. :mod:`cardsign.keys.log` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, get_args

from cardsign.errors import StoreFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey, short_kid
from cardsign.statements.keyset import KeysetId

MIN_PREFIX: Final = 4  # characters of a kid or thumbprint that name a key


# The states of a key and the ways between them.


KeyState = Literal["generated", "prepublished", "active", "retiring", "retired", "revoked"]

TRANSITIONS: Final[Mapping[KeyState, tuple[KeyState, ...]]] = {
    "generated": ("prepublished", "revoked"),
    "prepublished": ("active", "revoked"),
    "active": ("retiring", "revoked"),
    "retiring": ("retired", "revoked"),
    "retired": ("revoked",),
    "revoked": (),
}

PUBLISHED: Final[frozenset[KeyState]] = frozenset({"prepublished", "active", "retiring"})
"""The states whose public keys stand in the JWK Set."""

ENDED: Final[frozenset[KeyState]] = frozenset({"retired", "revoked"})
"""The states in which the private key is not needed any more."""


Role = Literal["root", "recovery", "card", "release"]
PrivateKeyState = Literal["held", "elsewhere", "destroyed"]
RevocationReason = Literal["compromised", "superseded", "ceased"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
REVOCATION_REASONS: Final[tuple[RevocationReason, ...]] = get_args(RevocationReason)
ROTATING: Final[frozenset[Role]] = frozenset({"card", "release"})
"""The roles of online keys, of which one a role and algorithm is active; roots may be several."""


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """When each step of a key's lifecycle was recorded: aware UTC to the second, or None.

    Attributes:
        prepublished: Since when the JWK Set that the store gives out holds it.
        seen: Since when every newest publication holds it; None again if one lacks it.
        activated: Since when it signs.
        stops_signing: Until when it signs together with its successor.
        relieved: Since when every published card is signed by its successor, and none by it.
        retired: When it left the JWK Set in good order.
        revoked: When it was revoked.
        dropped: Since when no newest publication holds it any more; of a stolen key without any on
            record, since when a key set without it has been written.
        replaced: Since when a person wants another key in its place.
    """

    prepublished: datetime | None = None
    seen: datetime | None = None
    activated: datetime | None = None
    stops_signing: datetime | None = None
    relieved: datetime | None = None
    retired: datetime | None = None
    revoked: datetime | None = None
    dropped: datetime | None = None
    replaced: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key of the store.

    Attributes:
        custody: Where the private key is: a signer URI; ``file:GROUP`` for one that is sealed in
            the store, where the keys of one group have one passphrase.
        created: When it entered the store: UTC, to the second.
        holder: Who holds the private key, if that is recorded; two keys of one holder count once.
        times: When the later steps happened.
        is_stolen: A thief may have it: its custody was reported as stolen while it was there.
        blob: The SHA-256 of the sealed private key, by which the store finds it.
    """

    public: PublicKey
    state: KeyState
    roles: tuple[Role, ...]
    custody: str
    created: datetime
    holder: str | None = None
    times: KeyTimes = field(default_factory=KeyTimes)
    revoked_because: RevocationReason | None = None
    blob: str | None = None
    is_stolen: bool = False

    @property
    def group(self) -> str:
        """What is stolen together with its private key."""
        return custody_group(self.custody)

    @property
    def private(self) -> PrivateKeyState:
        """Where the private key is.

        That of a revoked online key stays, sealed: it tells a stolen or mistyped passphrase, so
        that no key in its place is made under one.
        """
        if self.blob is None:
            return "elsewhere"
        is_over = self.state == "revoked" and not self.rotates
        return "destroyed" if is_over or self.times.retired is not None else "held"

    @property
    def kid(self) -> str:
        """The published name: the thumbprint, or what an imported key brought along."""
        return self.public.kid

    @property
    def alg(self) -> str:
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
    def named(self) -> str:
        """The key as messages name it: its roles, and a short kid."""
        return f"{' and '.join(self.roles)} key {short_kid(self.kid)}"

    @property
    def rotates(self) -> bool:
        """Whether it is an online key, which a successor replaces by the timeline."""
        return not ROTATING.isdisjoint(self.roles)

    @property
    def rotating_role(self) -> Role:
        """The role in which it rotates; of a root or recovery key its first one."""
        return next((role for role in self.roles if role in ROTATING), self.roles[0])

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
        payload_sha256: Of its ``served-as-is`` payload.
        kids: The keys whose signatures on it verify.
        url: The first endpoint that it names, if any.
        since: When the first of the publications was recorded that show it up to this one.
    """

    name: str
    payload_sha256: str
    kids: tuple[str, ...]
    url: str | None = None
    since: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Publication:
    """A generation that was published with keys of this store.

    Attributes:
        generation: Its number in the publication directory.
        max_age: Seconds for which caches were allowed to keep it.
        kids: The keys of the published JWK Set.
        cards: The public one first.
        told: The longest `max_age` of it and of those before it, which caches may have kept.
    """

    generation: int
    at: datetime
    max_age: int
    kids: tuple[str, ...]
    cards: tuple[PublishedCard, ...]
    told: int = field(default=0, compare=False)

    @property
    def series(self) -> str:
        """What it is a newer version of: the endpoint of the public card."""
        return next((card.url or card.name for card in self.cards), "")


def name_roles(roles: Sequence[Role]) -> str:
    """Return the keys of some roles, for people: ``root, card and release keys``."""
    *others, last = roles
    return f"{', '.join(others)} and {last} keys" if others else f"{last} keys"


def passphrase_variable(role: Role) -> str:
    """Return the environment variable that holds the passphrase of a role's keys."""
    return f"CARDSIGN_{role.upper()}_PASSPHRASE"


def private_blob(digest: str) -> str:
    """Return the name of a sealed private key, of which this is the SHA-256."""
    return f"private/{digest}.key"


def statement_blob(digest: str) -> str:
    """Return the name of a statement."""
    return f"statements/{digest}.json"


@dataclass(frozen=True, slots=True)
class HeldStatement:
    """A signed statement that the store keeps.

    Attributes:
        number: (epoch, version) of a keyset, (seq,) of a release.
        digest: Of its payload.
        blob: Of its bytes, by which the store finds them.
    """

    number: tuple[int, ...]
    digest: str
    blob: str

    @property
    def label(self) -> str:
        """Its number, as people write it."""
        return ".".join(map(str, self.number))


@dataclass(frozen=True, slots=True)
class StoreState:
    """What a key store knows.

    Attributes:
        seq: The number of lines in its log.
        head: The SHA-256 of the newest line; None for an empty log.
        keys: Every key that the store ever held, oldest first.
        publications: The newest of each series, the latest recorded last.
        keysets: Every keyset statement, oldest first.
        release: The newest release statement.
        stolen: The custodies that were reported as stolen, see :func:`custody_group`.
        moved_to: Where the store is now, if it has moved; nothing is signed here any more.
    """

    seq: int = 0
    head: str | None = None
    keys: tuple[KeyRecord, ...] = ()
    publications: tuple[Publication, ...] = ()
    keysets: tuple[HeldStatement, ...] = ()
    release: HeldStatement | None = None
    stolen: frozenset[str] = frozenset()
    moved_to: str | None = None

    @property
    def keyset(self) -> KeysetId | None:
        """The newest keyset statement."""
        if not self.keysets:
            return None
        epoch, version = self.keysets[-1].number
        return KeysetId(epoch, version, self.keysets[-1].digest)

    @property
    def release_seq(self) -> int:
        """The number of the newest release, or 0."""
        return self.release.number[0] if self.release else 0

    def private_blobs(self) -> frozenset[str]:
        """Return the names of the sealed private keys that the store must hold."""
        blobs = (key.blob for key in self.keys if key.private == "held" and key.blob)
        return frozenset(map(private_blob, blobs))

    def blobs(self) -> frozenset[str]:
        """Return the names of all that the store must hold beside its log."""
        statements = (*self.keysets, *([self.release] if self.release else ()))
        return self.private_blobs().union(
            statement_blob(statement.blob) for statement in statements
        )

    def active_keys(self, role: Role = "card") -> tuple[KeyRecord, ...]:
        """Return the active keys of a role, oldest first."""
        return tuple(key for key in self.keys if key.state == "active" and role in key.roles)

    def signing_keys(self, now: datetime) -> tuple[KeyRecord, ...]:
        """Return the card keys that sign at `now`, the longest known to peers first."""
        signing = [key for key in self.keys if "card" in key.roles and key.signs_at(now)]
        return tuple(sorted(signing, key=lambda key: key.times.activated or key.created))

    def published_keys(self) -> tuple[KeyRecord, ...]:
        """Return the keys whose public keys belong in the JWK Set, oldest first.

        Card keys only: a reader of a JWK Set would let any key of it sign a card.
        """
        return tuple(key for key in self.keys if key.state in PUBLISHED and "card" in key.roles)

    def jwks(self) -> JwkSet:
        """Return the public keys to publish, oldest first."""
        return JwkSet.of([key.public for key in self.published_keys()])

    def ever_held_kids(self) -> frozenset[str]:
        """Return every kid that is or was ours; signatures under them are ours to replace."""
        return frozenset(key.kid for key in self.keys)

    def find(self, name: str) -> KeyRecord:
        """Return the key called `name`: its kid, its thumbprint, or the first of their characters.

        At least :data:`MIN_PREFIX` characters: fewer would name a key that nobody meant.

        Raises:
            StoreFault: ``keystore.unknown_key``: none is called so, or several begin so.
        """
        fitting = [key for key in self.keys if name in key.names] or [
            key
            for key in self.keys
            if len(name) >= MIN_PREFIX and any(full.startswith(name) for full in key.names)
        ]
        if len(fitting) != 1:
            kids = ", ".join(key.kid for key in fitting)
            message = f"several keys begin with {name!r}: {kids}; give more of the kid"
            message = message if fitting else f"no key is called {name!r}"
            raise StoreFault("keystore.unknown_key", message)
        return fitting[0]

    def replacing(self, records: Iterable[KeyRecord]) -> StoreState:
        """Return the state with these records in the places of those of the same keys."""
        new = {record.thumbprint: record for record in records}
        return replace(self, keys=tuple(new.get(key.thumbprint, key) for key in self.keys))


# Which private keys can be stolen together: those of one custody.


_TOKEN: Final = re.compile(r"(?:^|;)(?:token|serial)=([^;?]*)")  # RFC 7512 2.3


def file_custody(blob: str) -> str:
    """Return the custody of a sealed key whose passphrase no other key of the store has."""
    return f"file:{blob[:8]}"


def custody_group(custody: str) -> str:
    """Return what is stolen together with the private key at a URI.

    That is all that one passphrase of the store opens, a token, a program, a variable, a key ring
    or vault, and of another service all that it holds.
    """
    scheme, _, rest = custody.partition(":")
    path = rest.partition("?")[0]
    if scheme == "pkcs11":
        return ";".join([scheme, *sorted(_TOKEN.findall(rest))])
    if scheme == "gcpkms":
        return f"{scheme}:{path.partition('/cryptoKeys/')[0]}"
    if scheme == "azurekms":
        return f"{scheme}:{path.strip('/').partition('/')[0]}"
    return f"{scheme}:{path}" if scheme in ("file", "env", "exec") else scheme
