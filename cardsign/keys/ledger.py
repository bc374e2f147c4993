"""The log of a key store: one line a commit, and the state that its events add up to.

::

    {"actor": "ann@host", "events": [{"event": "entered", ...}, ...], "prev": "<SHA-256 of the
     line before>", "seq": 7, "time": "2026-11-21T22:00:00Z"}

The state is the fold of the events, so the log is its own audit. It holds public data only. A line
is read as strictly as a stranger's file, since a stranger may have written it. An event or a member
that this cardsign does not know is refused: a newer one may have noted there that a key is revoked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from cardsign.card.strictjson import parse_object
from cardsign.errors import CardsignError, StoreFault
from cardsign.jose.jwk import SIGNING_ALGORITHMS
from cardsign.jose.keys import JwkSet, PublicKey, short_kid
from cardsign.statements.envelope import DIGEST
from cardsign.statements.keyset import OnlineRole
from cardsign.times import read_stamp, stamp

MIN_PREFIX: Final = 4  # characters of a kid or thumbprint that name a key
MAX_LINE_BYTES: Final = 1024 * 1024  # a publication of 1000 extended cards has some 300 KiB

_LINE: Final = frozenset({"actor", "events", "prev", "seq", "time"})
_COUNTS: Final = frozenset({"generation", "max_age", "epoch", "version", "seq"})
_DIGESTS: Final = frozenset({"blob", "digest", "payload_sha256"})
_TEXTS: Final = frozenset({"name", "url", "holder", "custody", "replaces", "to"})  # or null
_LISTS: Final = frozenset({"kids", "roles", "without"})
_TIME_OF: Final = {"active": "activated", "retiring": "stops_signing"}  # else the state's own name

_IN_CONFLICT: Final = (
    "Two machines have changed the key store. Keep the log of the one that has published, "
    "with git checkout --ours or --theirs; then cardsign keys rotate does the rest again."
)
_TOKEN: Final = re.compile(r"(?:^|;)(?:token|serial)=([^;?]*)")  # RFC 7512 2.3

Event: TypeAlias = Mapping[str, Any]


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

#: The states whose public keys stand in the JWK Set.
PUBLISHED: Final[frozenset[KeyState]] = frozenset({"prepublished", "active", "retiring"})

#: The states in which the private key is not needed any more.
ENDED: Final[frozenset[KeyState]] = frozenset({"retired", "revoked"})


Role = Literal["root", "recovery", "card", "release"]
RevocationReason = Literal["compromised", "superseded", "ceased"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
REVOCATION_REASONS: Final[tuple[RevocationReason, ...]] = get_args(RevocationReason)
#: The roles of online keys, of which one a role and algorithm is active; roots may be several.
ROTATING: Final[tuple[OnlineRole, ...]] = get_args(OnlineRole)


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
        dropped: Of a stolen key, since when no newest publication holds it any more; without any
            on record, since when a key set without it has been written.
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
        earlier: The groups in which it was sealed before its passphrase changed.
    """

    public: PublicKey
    state: KeyState
    role: Role
    custody: str
    created: datetime
    holder: str | None = None
    times: KeyTimes = field(default_factory=KeyTimes)
    revoked_because: RevocationReason | None = None
    blob: str | None = None
    is_stolen: bool = False
    earlier: frozenset[str] = frozenset()

    @property
    def group(self) -> str:
        """What is stolen together with its private key."""
        return custody_group(self.custody)

    @property
    def groups(self) -> frozenset[str]:
        """Every group that it was in: a thief may have come before its passphrase changed."""
        return self.earlier | {self.group}

    def is_taken_with(self, groups: Set[str]) -> bool:
        """Return whether a thief of these groups may have this key.

        A root key that has left a group is not in it: unlike the others it is not made anew.
        """
        return self.group in groups or (self.rotates and not self.earlier.isdisjoint(groups))

    @property
    def private(self) -> Literal["held", "elsewhere", "destroyed"]:
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
        """The key as messages name it: its role, and a short kid."""
        return f"{self.role} key {short_kid(self.kid)}"

    @property
    def rotates(self) -> bool:
        """Whether it is an online key, which a successor replaces by the timeline."""
        return self.role in ROTATING

    def succeeds(self, other: KeyRecord) -> bool:
        """Return whether this is another key of the same role and algorithm."""
        is_like = (self.role, self.alg) == (other.role, other.alg)
        return is_like and self.thumbprint != other.thumbprint

    def signs_at(self, now: datetime) -> bool:
        """Return whether it signs: it is active, or retiring and not yet done."""
        stops = self.times.stops_signing
        still = self.state == "retiring" and stops is not None and now < stops
        return self.state == "active" or still

    def at(self, state: KeyState | None = None, **times: datetime | None) -> KeyRecord:
        """Return the record in another state, or at other times; whether it may is not asked."""
        if state is None and all(getattr(self.times, mark) == at for mark, at in times.items()):
            return self  # as nearly always: a key has its marks from its first publications on
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
        longest_max_age: The longest of it and of those before it, which caches may have kept.
    """

    generation: int
    at: datetime
    max_age: int
    kids: tuple[str, ...]
    cards: tuple[PublishedCard, ...]
    longest_max_age: int = field(default=0, compare=False)

    @property
    def series(self) -> str:
        """What it is a newer version of: the endpoint of the public card."""
        return next((card.url or card.name for card in self.cards), "")


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
    def release_seq(self) -> int:
        """The number of the newest release, or 0."""
        return self.release.number[0] if self.release else 0

    def private_blobs(self) -> frozenset[str]:
        """Return the names of the sealed private keys that the store must hold."""
        blobs = (key.blob for key in self.keys if key.private == "held" and key.blob)
        return frozenset(map(private_blob, blobs))

    def sealed_keys(self, role: Role) -> tuple[KeyRecord, ...]:
        """Return the keys of a role that a passphrase opens and that have not ended."""
        keys = (key for key in self.keys if key.role == role and key.state not in ENDED)
        return tuple(key for key in keys if key.private == "held")

    def active_keys(self, role: Role = "card") -> tuple[KeyRecord, ...]:
        """Return the active keys of a role, oldest first."""
        return tuple(key for key in self.keys if key.state == "active" and key.role == role)

    def signing_keys(self, now: datetime) -> tuple[KeyRecord, ...]:
        """Return the card keys that sign at `now`, the longest known to peers first."""
        signing = [key for key in self.keys if key.role == "card" and key.signs_at(now)]
        return tuple(sorted(signing, key=lambda key: key.times.activated or key.created))

    def published_keys(self) -> tuple[KeyRecord, ...]:
        """Return the keys whose public keys belong in the JWK Set, oldest first.

        Card keys only: a reader of a JWK Set would let any key of it sign a card.
        """
        return tuple(key for key in self.keys if key.state in PUBLISHED and key.role == "card")

    def jwks(self) -> JwkSet:
        """Return the public keys to publish, oldest first."""
        return JwkSet.of([key.public for key in self.published_keys()])

    def find(self, name: str) -> KeyRecord:
        """Return the key called `name`: its kid, its thumbprint, or the first of their characters.

        At least :data:`MIN_PREFIX` characters: fewer would name a key that nobody meant.

        Raises:
            StoreFault: ``keystore.unknown_key``: none is called so, or several begin so.
        """
        fitting = [key for key in self.keys if name in key.names]
        if not fitting and len(name) >= MIN_PREFIX:
            fitting = [key for key in self.keys if any(full.startswith(name) for full in key.names)]
        if len(fitting) != 1:
            problem = "several kids begin with" if fitting else "no key is called"
            raise StoreFault("keystore.unknown_key", f"{problem} {name!r}")
        return fitting[0]

    def replacing(self, records: Iterable[KeyRecord]) -> StoreState:
        """Return the state with these records in the places of those of the same keys."""
        new = {record.thumbprint: record for record in records}
        return replace(self, keys=tuple(new.get(key.thumbprint, key) for key in self.keys))


# Which private keys can be stolen together: those of one custody.


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


# The log: each of its lines, and what its events do.


def write_line(state: StoreState, events: Iterable[Event], now: datetime, actor: str) -> bytes:
    """Return the line that tells of `events` as the next after `state`, without its end."""
    place = {"seq": state.seq + 1, "prev": state.head, "time": stamp(now)}
    members = {**place, "actor": actor, "events": list(events)}
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def read_line(
    state: StoreState, untrusted_line: bytes, where: str, follower: bytes = b""
) -> StoreState:
    """Return what a line makes of the state before it; `follower` is the line after it.

    Raises:
        StoreFault: ``keystore.audit_broken``: it does not continue the log, or was edited;
            ``keystore.corrupt``; ``keystore.newer_format``.
    """
    number, head = state.seq + 1, hashlib.sha256(untrusted_line).hexdigest()
    try:
        members: Mapping[str, Any] = parse_object(untrusted_line, max_bytes=MAX_LINE_BYTES)
        if members.keys() - _LINE:
            raise _newer("it has members that are unknown here")
        if (type(members["seq"]), members["seq"], members["prev"]) != (int, number, state.head):
            raise StoreFault("keystore.audit_broken", "it does not continue the line before it")
        if not members["events"] or not isinstance(members["actor"], str):
            raise ValueError("it has no events, or no actor")
        after = fold_all(state, members["events"], read_stamp(members["time"]))
    except (CardsignError, ValueError, KeyError, TypeError, AttributeError) as exc:
        code = exc.code if isinstance(exc, StoreFault) else ""
        hint = _IN_CONFLICT if untrusted_line.startswith((b"<<<<<<<", b"=======")) else ""
        problem = f"it has no {exc}" if isinstance(exc, KeyError) else getattr(exc, "message", exc)
        if code and follower and head.encode() not in follower:
            code = "keystore.audit_broken"
            problem = f"somebody has edited it, as line {number + 1} follows another one"
        elif code not in ("keystore.audit_broken", "keystore.newer_format"):
            code = "keystore.corrupt"  # cardsign itself writes no such line
        message = f"line {number} of the log: {problem}"
        raise StoreFault(code, message, path=where, hint=hint) from exc
    return replace(after, seq=number, head=head)


def _newer(problem: str) -> StoreFault:
    return StoreFault("keystore.newer_format", f"{problem}: written by a newer cardsign")


# What each event does.


def fold_all(state: StoreState, events: Iterable[Event], at: datetime) -> StoreState:
    """Return what some events make of a state, one after the other.

    Raises:
        StoreFault: ``keystore.newer_format``, ``keystore.unknown_key``,
            ``keystore.illegal_transition``, ``keystore.duplicate_key``.
        KeyRefused, ValueError, KeyError, TypeError: One is no event that cardsign writes.
    """
    for event in events:
        name = event["event"]
        if name not in _EVENTS:
            raise _newer(f"the event {str(name)[:40]!r} is unknown here")
        members, apply = _EVENTS[name]
        if unknown := event.keys() - {"event", *members.split()}:
            raise _newer(f"`{min(unknown)[:40]}` of the event {name!r} is unknown here")
        _check_values(event)
        state = apply(state, event, at)
    return state


def _check_values(members: Mapping[str, Any]) -> None:
    for name, value in members.items():
        if name in _COUNTS and (type(value) is not int or value < 0):  # a bool is an int as well
            raise ValueError(f"`{name}`: {value!r:.40} is not a count")
        if name in _DIGESTS and not (isinstance(value, str) and DIGEST.fullmatch(value)):
            raise ValueError(f"`{name}`: {value!r:.40} is not a SHA-256 in lower-case hex")
        texts = value if name in _LISTS else [value] if name in _TEXTS else []
        if not isinstance(texts, list | tuple) or not all(
            isinstance(text, str | None) for text in texts
        ):
            raise ValueError(f"`{name}`: {value!r:.40} is not a text, or a list of them")


def _enter(state: StoreState, event: Event, at: datetime) -> StoreState:
    public = PublicKey.from_jwk(event["public"], algorithms=SIGNING_ALGORITHMS)
    roles, blob, custody = event["roles"], event.get("blob"), str(event["custody"])
    is_sealed = custody.startswith("file:")
    if is_sealed is (blob is None) or event["state"] not in ("generated", "prepublished", "active"):
        raise ValueError("`custody` or `state` is none in which a key begins")
    if roles not in ([role] for role in ROLES):
        raise ValueError(f"`roles` is not a list of one of {', '.join(ROLES)}")
    key = KeyRecord(public, event["state"], roles[0], custody, at, event.get("holder"), blob=blob)
    if key.rotates and key.state != "generated":
        key = key.at(prepublished=at)
    if key.state == "active":
        key = key.at(activated=at)
    if any(key.names & other.names for other in state.keys):
        message = f"the store has a key of this kid or thumbprint already, {key.kid!r}"
        raise StoreFault("keystore.duplicate_key", message)
    return _marked(replace(state, keys=(*state.keys, key)), at)


def _move(state: StoreState, event: Event, at: datetime) -> StoreState:
    key, to = state.find(event["key"]), event["to"]
    if to not in TRANSITIONS[key.state]:
        message = f"a key that is {key.state} cannot become {str(to)[:20]}"
        raise StoreFault("keystore.illegal_transition", message)
    time = read_stamp(event["stops"]) if to == "retiring" else at
    times: dict[str, datetime | None] = {_TIME_OF.get(to, str(to)): time}
    moved = key.at(to, **times)
    if to == "revoked":
        if event["reason"] not in REVOCATION_REASONS:
            raise ValueError("`reason` is none for a revocation")
        moved = replace(moved, revoked_because=event["reason"])
    return _marked(state.replacing([moved]), at)


def _replace(state: StoreState, event: Event, at: datetime) -> StoreState:
    return state.replacing([state.find(event["key"]).at(replaced=at)])


def _reseal(state: StoreState, event: Event, at: datetime) -> StoreState:
    key, custody = state.find(event["key"]), str(event["custody"])
    return state.replacing([replace(key, custody=custody, blob=event["blob"], earlier=key.groups)])


def _report_theft(state: StoreState, event: Event, at: datetime) -> StoreState:
    group = str(event["custody"])
    keys = [key for key in state.keys if key.is_taken_with({group}) and key.state not in ENDED]
    state = replace(state, stolen=state.stolen | {group})
    return state.replacing(replace(key, is_stolen=True) for key in keys)


def _publish(state: StoreState, event: Event, at: datetime) -> StoreState:
    begun, max_age, kids = read_stamp(event["at"]), event["max_age"], tuple(event["kids"])
    first, cards = first_published(state), list[PublishedCard]()
    for card in event["cards"]:
        _check_values(card)
        payload, signers = card["payload_sha256"], tuple(card["kids"])
        since = first.get(payload, begun)
        cards.append(PublishedCard(card["name"], payload, signers, card["url"], since))
    publication = Publication(event["generation"], begun, max_age, kids, tuple(cards))
    series = publication.series
    ages = [other.longest_max_age for other in state.publications if other.series == series]
    publication = replace(publication, longest_max_age=max([max_age, *ages]))
    gone = (series, event.get("replaces"))
    others = (other for other in state.publications if other.series not in gone)
    after = replace(state, publications=(*others, *([publication] if cards else [])))
    # As another series may have been published later, it is then that the newest had been.
    return _marked(after, max((other.at for other in after.publications), default=begun))


def _hand_out(state: StoreState, event: Event, at: datetime) -> StoreState:
    return state.replacing(state.find(name).at(dropped=at) for name in event["without"])


def _keep_keyset(state: StoreState, event: Event, at: datetime) -> StoreState:
    kept = HeldStatement((event["epoch"], event["version"]), event["digest"], event["blob"])
    _check_follows(kept, state.keysets[-1] if state.keysets else None)
    return replace(state, keysets=(*state.keysets, kept))


def _keep_release(state: StoreState, event: Event, at: datetime) -> StoreState:
    kept = HeldStatement((event["seq"],), event["digest"], event["blob"])
    _check_follows(kept, state.release)
    return replace(state, release=kept)


def _check_follows(kept: HeldStatement, newest: HeldStatement | None) -> None:
    if newest is not None and kept.number <= newest.number:
        message = f"statement {newest.label} is kept by now, so {kept.label} is not the next"
        raise StoreFault("keystore.changed", message)


def _leave(state: StoreState, event: Event, at: datetime) -> StoreState:
    return replace(state, moved_to=event["to"])


#: What each event may have besides its name, and what it does.
_EVENTS: Final[Mapping[str, tuple[str, Callable[[StoreState, Event, datetime], StoreState]]]] = {
    "entered": ("public roles custody state holder blob", _enter),
    "moved": ("key to stops reason", _move),
    "stolen": ("custody", _report_theft),
    "replaced": ("key", _replace),
    "resealed": ("key custody blob", _reseal),
    "published": ("generation at max_age kids cards replaces", _publish),
    "handed-out": ("without", _hand_out),
    "keyset": ("epoch version digest blob", _keep_keyset),
    "release": ("seq digest blob", _keep_release),
    "left": ("to", _leave),
}


# The marks from which waits run: since when something holds; they go when it ceases to hold.


def _marked(state: StoreState, at: datetime) -> StoreState:
    newest, keys = state.publications, list[KeyRecord]()
    for key in state.keys:
        is_in = [key.kid in publication.kids for publication in newest]
        if key.state not in ENDED:
            drains = bool(newest) and key.state == "retiring" and key.role == "card"
            relieved = drains and not (unsigned_cards(state, key) or signed_cards(state, key))
            seen = _since(key.times.seen, bool(newest) and all(is_in), at)
            key = key.at(seen=seen, relieved=_since(key.times.relieved, relieved, at))
        elif newest and key.revoked_because == "compromised":  # its other marks stay as they were
            key = key.at(dropped=_since(key.times.dropped, not any(is_in), at))
        keys.append(key)
    return replace(state, keys=tuple(keys))


def _since(mark: datetime | None, holds: bool, at: datetime) -> datetime | None:
    return (mark or at) if holds else None


def unsigned_cards(state: StoreState, key: KeyRecord) -> tuple[PublishedCard, ...]:
    """Return the published cards that no active key has signed which succeeds `key`."""
    successors = {other.kid for other in state.active_keys(key.role) if other.succeeds(key)}
    return tuple(card for card in published_cards(state) if successors.isdisjoint(card.kids))


def first_published(state: StoreState) -> dict[str, datetime]:
    """Return when each card that is published was first recorded so, by its payload's digest."""
    return {card.payload_sha256: card.since for card in published_cards(state) if card.since}


def signed_cards(state: StoreState, key: KeyRecord) -> tuple[PublishedCard, ...]:
    """Return the published cards that `key` has signed."""
    return tuple(card for card in published_cards(state) if key.kid in card.kids)


def published_cards(state: StoreState) -> tuple[PublishedCard, ...]:
    """Return the cards of the newest publication of each series."""
    return tuple(card for publication in state.publications for card in publication.cards)
