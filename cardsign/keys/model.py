"""What a key store knows of its keys, and the bytes of it: public data only.

::

    {"format": 3, "generation": 1,
     "audit": {"seq": 1, "digest": "<SHA-256>"},
     "keys": [
       {"public": {"kty": ..., "kid": ..., ...}, "state": "active", "roles": ["card"],
        "custody": "file:private/<thumbprint>.key", "private": "held",
        "created": "2026-11-21T22:00:00Z", "times": {"activated": ..., ...}}],
     "publications": [{"generation": ..., "at": ..., "max_age": ..., "kids": [...],
       "cards": [{"name": ..., "url": ..., "payload_sha256": ..., "kids": [...]}]}],
     "statements": {"keyset": {"epoch": 1, "version": 1, "digest": "<SHA-256>"},
       "release_seq": 1, "release": {"digest": "<SHA-256>", "previous": "<SHA-256>"}},
     "moved": {"to": "<place>", "at": "2026-11-21T22:00:00Z"}}

What is None is left out. The state is read as strictly as a stranger's file, since a stranger may
have edited it: first as strict JSON, then by pydantic with the annotations of this module. Public
keys are read anew, and what a state implies must be there. A member that the format does not have
is refused: a newer cardsign may have noted there that a key is revoked.

The records are plain frozen dataclasses. pydantic is imported when a state is read or written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, KeyRefused, StoreFault
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey, short_kid
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetId, keyset_id
from cardsign.times import read_stamp, stamp

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT: Final = 3
MAX_STATE_BYTES: Final = 8 * 1024 * 1024  # bytes; 32 publications of 1000 extended cards

MAX_PLACE_CHARS: Final = 1024  # of a path or URL that a message shows
MAX_PUBLICATIONS: Final = 32  # kept to be shown; no wait is computed from an older one

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:")  # RFC 3986 3.1, in lower case


# How pydantic reads the members. Each check raises ValueError and says what is wrong.


@dataclass(frozen=True, slots=True)
class _As:
    """An annotation: how pydantic reads a member, and how a state writes it.

    Where `write` is None, the member is what its type says, and `read` only checks it.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Json] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        if self.write is None:
            return core_schema.no_info_after_validator_function(self.read, handler(source))
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.write)
        )


def _read_time(untrusted: object) -> datetime:
    """A time of UTC, to the second, in one spelling."""
    try:
        return read_stamp(str(untrusted))
    except ValueError:
        raise ValueError("is not a time like 2026-11-21T22:00:00Z") from None


def _read_public(untrusted: object) -> PublicKey:
    """A public JWK, just as :meth:`PublicKey.jwk` writes it."""
    if not isinstance(untrusted, dict):
        raise ValueError("is not an object")
    try:
        public = PublicKey.from_jwk(untrusted, algorithms=SIGNING_ALGORITHMS)
    except KeyRefused as exc:
        raise ValueError(f"is refused: {exc.message}") from exc
    if public.jwk() != untrusted:
        raise ValueError("is not written as cardsign writes a public key")
    return public


def _read_keyset(untrusted: Any) -> KeysetId:
    try:
        return keyset_id(untrusted, "")
    except StatementRefused as exc:
        raise ValueError(f"{exc.path} {exc.message}") from exc


def _read_count(untrusted: object) -> int:
    """An integer from 0; pydantic alone would take ``true`` and ``"1"`` for one."""
    if type(untrusted) is not int or untrusted < 0:
        raise ValueError("is not a count")
    return untrusted


def _check_digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise ValueError("is not a SHA-256 in lower-case hex")
    return text


Count = Annotated[int, _As(_read_count, int)]
Digest = Annotated[str, _As(_check_digest)]
Time = Annotated[datetime, _As(_read_time, stamp)]

_Record = TypeVar("_Record")


def _closed(record: type[_Record]) -> type[_Record]:
    """Let pydantic refuse a member that the record does not have."""
    record.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return record


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
"""The states in which the private key is not needed any more and may be destroyed."""


def check_transition(old: KeyState, new: KeyState) -> None:
    """Refuse (``keystore.illegal_transition``) to take a key from `old` to `new`.

    Not checked: *when* a transition may happen; that is :mod:`cardsign.keys.lifecycle`'s business.
    """
    ways = TRANSITIONS[old]
    if new not in ways:
        legal = f", only {' or '.join(ways)}" if ways else ": its state is final"
        raise StoreFault(
            "keystore.illegal_transition", f"a key that is {old} cannot become {new}{legal}"
        )


Role = Literal["root", "recovery", "card", "release"]
PrivateKeyState = Literal["held", "elsewhere", "destroyed"]
RevocationReason = Literal["compromised", "superseded", "ceased"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
REVOCATION_REASONS: Final[tuple[RevocationReason, ...]] = get_args(RevocationReason)
ROTATING: Final[frozenset[Role]] = frozenset({"card", "release"})
"""The roles of online keys, of which one a role and algorithm is active; roots may be several."""


@_closed
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
        destroyed: When its private key was destroyed.
    """

    prepublished: Time | None = None
    seen: Time | None = None
    activated: Time | None = None
    stops_signing: Time | None = None
    relieved: Time | None = None
    retired: Time | None = None
    revoked: Time | None = None
    dropped: Time | None = None
    destroyed: Time | None = None


@_closed
@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key of the store.

    Attributes:
        custody: Where the private key is: a signer URI, a ``file:`` being relative to the store.
        created: When it entered the store: UTC, to the second.
        holder: Who holds the private key, if that is recorded; two keys of one holder count once.
        times: When the later steps happened.
    """

    public: Annotated[PublicKey, _As(_read_public, lambda public: dict(public.jwk()))]
    state: KeyState
    roles: tuple[Role, ...]
    custody: str
    created: Time
    holder: str | None = None
    times: KeyTimes = field(default_factory=KeyTimes)
    revoked_because: RevocationReason | None = None
    private: PrivateKeyState = "held"

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


@_closed
@dataclass(frozen=True, slots=True)
class PublishedCard:
    """A card of a publication.

    Attributes:
        name: Its file in the publication.
        payload_sha256: Of its ``served-as-is`` payload.
        kids: The keys whose signatures on it verify.
        url: The first endpoint that it names, if any.
    """

    name: str
    payload_sha256: Digest
    kids: tuple[str, ...]
    url: str | None = None


@_closed
@dataclass(frozen=True, slots=True)
class Publication:
    """A generation that was published with keys of this store.

    Attributes:
        generation: Its number in the publication directory; 0 for a look at a live URL.
        max_age: Seconds for which caches were allowed to keep it.
        kids: The keys of the published JWK Set.
        cards: The public one first.
    """

    generation: Count
    at: Time
    max_age: Count
    kids: tuple[str, ...]
    cards: tuple[PublishedCard, ...]

    @property
    def series(self) -> str:
        """What it is a newer version of: the endpoint of the public card."""
        return next((card.url or card.name for card in self.cards), "")


@_closed
@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest line of the audit log that counts: how many there are, and its SHA-256."""

    seq: Count = 0
    digest: Digest | None = None


@_closed
@dataclass(frozen=True, slots=True)
class HeldRelease:
    """Which release the store signed last, and upon which: that one alone may have been lost.

    `previous` is the digest of the newest release kept when its number was taken.
    """

    digest: Digest
    previous: Digest | None = None


@_closed
@dataclass(frozen=True, slots=True)
class StatementsHeld:
    """How far the issuer's signed statements have gone.

    Attributes:
        release_seq: The highest number that a release has taken, or 0.
        release: What has taken it.
    """

    keyset: Annotated[KeysetId, _As(_read_keyset, KeysetId.to_json)] | None = None
    release_seq: Count = 0
    release: HeldRelease | None = None


@_closed
@dataclass(frozen=True, slots=True)
class Moved:
    """That the store has moved to a place, and since when: nothing is signed here any more."""

    to: Annotated[str, _As(_check_place)]
    at: Time


@_closed
@dataclass(frozen=True, slots=True)
class StoreState:
    """All that a store commits at once.

    Attributes:
        generation: The number of commits; a new store has 0.
        keys: Every key that the store ever held, oldest first.
        audit: The head of the audit log.
        publications: The newest `MAX_PUBLICATIONS`, oldest first, and the newest of each series.
        moved: Where the store is now, if it has moved.
    """

    generation: Count
    keys: Annotated[tuple[Annotated[KeyRecord, _As(_check_record)], ...], _As(_check_keys)]
    audit: Annotated[AuditHead, _As(_check_head)] = AuditHead()
    publications: tuple[Publication, ...] = ()
    statements: StatementsHeld = StatementsHeld()
    moved: Moved | None = None

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
            StoreFault: ``keystore.duplicate_key``: it is held, or another answers to its kid.
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


# Which private keys can be stolen together: those of one custody.


_TOKEN: Final = re.compile(r"(?:^|;)(?:token|serial)=([^;?]*)")  # RFC 7512 2.3


def file_custody(thumbprint: str) -> str:
    """Return the only ``file:`` URI that the key of this thumbprint may have."""
    return f"file:private/{thumbprint}.key"


def same_custody(one: KeyRecord, other: KeyRecord) -> bool:
    """Whether a thief of one private key must be expected to have the other.

    Two files of one store are: that their passphrases differ cannot be seen. So are two keys
    of one scheme, unless they name different tokens (``pkcs11:``) or programs (``exec:``).
    """
    return _place(one.custody) == _place(other.custody)


def suspects(state: StoreState) -> frozenset[str]:
    """Return the thumbprints of the keys that a thief of another key may have taken as well.

    Those that lay in the custody of a compromised key when the theft became known.
    """
    thefts = _thefts(state)
    return frozenset(
        key.thumbprint
        for key in state.keys
        for stolen, known in thefts
        if same_custody(key, stolen) and key.created <= known
    )


def safe_after(state: StoreState, custody: KeyRecord) -> datetime | None:
    """The last second in which a key made next to this one would be suspect; None: there is none.

    The clock that saw the theft may have been ahead of the one that makes the key.
    """
    thefts = (known for stolen, known in _thefts(state) if same_custody(custody, stolen))
    return max(thefts, default=None)


def _thefts(state: StoreState) -> list[tuple[KeyRecord, datetime]]:
    """Each compromised key, and when its theft became known.

    Where a key is revoked that an earlier theft put under suspicion, that is the same theft.
    Otherwise each key made after a theft would come under suspicion when the next of the old keys
    is revoked.
    """
    thefts = list[tuple[KeyRecord, datetime]]()
    stolen = [key for key in state.keys if key.revoked_because == "compromised"]
    for key in sorted(stolen, key=_revoked):
        earlier = (
            known for other, known in thefts if same_custody(key, other) and key.created <= known
        )
        thefts.append((key, min(earlier, default=_revoked(key))))
    return thefts


def _revoked(key: KeyRecord) -> datetime:
    return key.times.revoked or datetime.max.replace(tzinfo=UTC)


def _place(custody: str) -> tuple[str, ...]:
    scheme, _, rest = custody.partition(":")
    if scheme == "pkcs11":
        return scheme, *sorted(_TOKEN.findall(rest))
    if scheme == "exec":
        return scheme, rest.partition("?")[0]
    return (scheme,)


# What the members of a state imply of each other.


#: For each state the times that must be there, and those that cannot be.
_LATER: Final = ("activated", "stops_signing", "retired", "revoked")
_IMPLIED: Final[Mapping[KeyState, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "generated": ((), ("prepublished", *_LATER)),
    "prepublished": (("prepublished",), _LATER),
    "active": (("activated",), _LATER[1:]),
    "retiring": (("activated", "stops_signing"), _LATER[2:]),
    "retired": (("activated", "stops_signing", "retired"), _LATER[3:]),
    "revoked": (("revoked",), ()),
}


def _check_record(key: KeyRecord) -> KeyRecord:
    """Check what the members of one record imply of each other; raises ValueError in words."""
    required, forbidden = _IMPLIED[key.state]
    for name in required:
        if getattr(key.times, name) is None:
            raise ValueError(f"has no time {name!r}, and the key is {key.state}")
    for name in forbidden:
        if getattr(key.times, name) is not None:
            raise ValueError(f"has a time {name!r}, and the key is {key.state}")
    if (key.state == "revoked") is not (key.revoked_because is not None):
        raise ValueError(f"has a `revoked_because` that does not fit a key that is {key.state}")
    if not key.roles or key.roles != tuple(role for role in ROLES if role in key.roles):
        raise ValueError(f"has `roles` that are no list in the order {', '.join(ROLES)}")
    if not _URI.match(key.custody):
        raise ValueError("has a `custody` that is not the URI of a signer")
    held = key.custody.startswith("file:")
    if held and key.custody != file_custody(key.thumbprint):
        raise ValueError("has a `custody` that is not the file of this key")
    destroyed = key.times.destroyed is not None
    if key.private != ("destroyed" if destroyed else "held" if held else "elsewhere"):
        raise ValueError("has a `private` that does not fit the custody and the times")
    if destroyed and key.state not in ENDED:
        raise ValueError(f"is destroyed, and the key is {key.state}")
    return key


def _check_head(head: AuditHead) -> AuditHead:
    """Check that a head names a line just where there are lines."""
    if (head.seq == 0) is not (head.digest is None):
        raise ValueError("has a digest without a line, or a line without one")
    return head


def _check_place(text: str) -> str:
    """Check that a place can be shown in one line."""
    if not (0 < len(text) <= MAX_PLACE_CHARS and text.isprintable()):
        raise ValueError("is not the name of a place")
    return text


def _check_keys(keys: tuple[KeyRecord, ...]) -> tuple[KeyRecord, ...]:
    """Check that no two keys are one, or claim one place."""
    state = StoreState(0, ())
    for key in keys:
        rivals = [one for one in state.keys if one.state == "active" and one.succeeds(key)]
        if key.state == "active" and rivals:
            raise ValueError(f"has two active keys, {rivals[0].kid!r} and {key.kid!r}")
        try:
            state = state.with_key(key)
        except StoreFault as exc:
            raise ValueError(f"has a key twice: {exc.message}") from exc
    return keys


# The bytes of a state.


@cache
def _adapter() -> TypeAdapter[StoreState]:
    from pydantic import TypeAdapter

    return TypeAdapter(StoreState)


def _members(state: StoreState) -> dict[str, Json]:
    members: dict[str, Json] = _adapter().dump_python(state, mode="json", exclude_none=True)
    return members


def dump_state(state: StoreState) -> bytes:
    """Return the bytes to keep; equal states give equal bytes."""
    return (json.dumps({"format": FORMAT, **_members(state)}, indent=2) + "\n").encode("ascii")


def state_digest(state: StoreState) -> str:
    """The SHA-256, in hex, of a state without the head of its log, which its line carries."""
    members = _members(replace(state, audit=AuditHead()))
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def load_state(untrusted_bytes: bytes, *, where: str) -> StoreState:
    """Read what :func:`dump_state` wrote.

    Not checked: that the audit log tells of it; see :func:`cardsign.keys.audit.check_vouched`.

    Raises:
        StoreFault: ``keystore.corrupt``, with the place, or ``keystore.newer_format``.
    """
    from pydantic import ValidationError

    try:
        document = parse_object(untrusted_bytes, max_bytes=MAX_STATE_BYTES)
    except JsonRefused as exc:
        raise StoreFault(
            "keystore.corrupt",
            f"the state is not strict JSON: {exc.message}",
            path=where,
            line=exc.line,
            column=exc.column,
        ) from exc
    version = document.pop("format", None)
    if type(version) is int and version > FORMAT:  # a bool is an int as well
        message = f"this key store is of format {version}, and this cardsign knows {FORMAT}"
        raise StoreFault("keystore.newer_format", message, path=where)
    if type(version) is not int or version != FORMAT:
        raise StoreFault("keystore.corrupt", f"`/format` is not {FORMAT}", path=where)
    try:
        return _adapter().validate_python(document)
    except ValidationError as exc:
        error = exc.errors(include_url=False, include_input=False)[0]  # nothing of it is repeated
        pointer = "".join(f"/{part}" for part in error["loc"])
        said = error.get("ctx", {}).get("error", error["msg"])
        what = f"`{pointer}` {said}" if isinstance(said, ValueError) else f"`{pointer}`: {said}"
        raise StoreFault("keystore.corrupt", what, path=where) from exc
