"""What may be done with the keys of a store, and what is assumed of others' caches.

Pure: each function takes a state and returns the events that change it. Whether a key may come into
another state is checked once, where the events are folded (:mod:`cardsign.keys.log`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cardsign.errors import KeyRefused, StoreFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys.log import (
    Event,
    published_cards,
    unsigned_cards,
    was_given_out,
)
from cardsign.keys.model import (
    ENDED,
    ROTATING,
    HeldStatement,
    KeyRecord,
    KeyState,
    Publication,
    PublishedCard,
    RevocationReason,
    Role,
    StoreState,
    custody_group,
    passphrase_variable,
)
from cardsign.times import stamp


@dataclass(frozen=True, slots=True)
class TimelineSettings:
    """What is assumed of others' caches, in seconds.

    Attributes:
        max_age: How long the JWK Set may be kept, as it is served.
        worst_cache: How long the worst consumer keeps it nevertheless.
        card_max_age: How long a card may be kept, as it is served.
        skew: By how much clocks may differ.
        rotate_every: How long a key is active before ``keys rotate`` replaces it.
    """

    max_age: int = 3600
    worst_cache: int = 24 * 3600
    card_max_age: int = 3600
    skew: int = 300
    rotate_every: int = 60 * 24 * 3600  # when a keyset of 90 days is renewed, in one visit

    @property
    def propagation(self) -> timedelta:
        """How long it takes until a change of the JWK Set has reached every cache."""
        return timedelta(seconds=max(self.max_age, self.worst_cache) + self.skew)

    @property
    def turnover(self) -> timedelta:
        """How long it takes until a card that was published is in every cache."""
        return timedelta(seconds=self.card_max_age + self.skew)

    @property
    def drain(self) -> timedelta:
        """How long a key goes on signing together with its successor."""
        return self.propagation + timedelta(seconds=self.card_max_age)

    def as_published(self, state: StoreState) -> TimelineSettings:
        """Return settings that wait at least as long as recorded publications told caches."""
        longest = max((publication.told for publication in state.publications), default=0)
        return replace(
            self,
            max_age=max(self.max_age, longest),
            card_max_age=max(self.card_max_age, longest),
        )


DEFAULT_SETTINGS: Final = TimelineSettings()


def cards_to_sign(state: StoreState, now: datetime) -> tuple[PublishedCard, ...]:
    """Return the published cards that hold up a rotation until they are signed again.

    The successor of a retiring key has not signed them, or a key that signs no more has.
    """
    over = ("retiring", *ENDED)
    silent = {key.kid for key in state.keys if key.state in over and not key.signs_at(now)}
    retiring = [key for key in state.keys if key.state == "retiring" and "card" in key.roles]
    waiting = [card for key in retiring for card in unsigned_cards(state, key)]
    waiting += [card for card in published_cards(state) if not silent.isdisjoint(card.kids)]
    return tuple(dict.fromkeys(waiting))


def enter(
    state: StoreState,
    public: PublicKey,
    *,
    custody: str,
    roles: tuple[Role, ...] = ("card",),
    holder: str | None = None,
    blob: str | None = None,
) -> list[Event]:
    """Take a key in.

    A store's first key of a role and algorithm is active at once. A later one is prepublished, or
    where there is a keyset statement only generated, until one lists it. Root and recovery keys do
    not rotate and are active at once. The default of `holder` is that of the key which it
    succeeds. `blob` is the digest of the sealed private key.

    Raises:
        StoreFault: ``keystore.same_custody``: it was stolen.
        KeyRefused: ``key.unsupported``: it is to sign statements, and is not for ES256 or RS256.
    """
    if public.alg not in STATEMENT_ALGORITHMS and tuple(roles) != ("card",):
        raise KeyRefused(
            "key.unsupported",
            f"a key for {public.alg} signs cards alone, not as {' and '.join(roles)}",
            hint="Statements are signed with ES256 or RS256: cardsign keys generate --alg ES256.",
        )
    predecessors = [
        key
        for key in state.keys
        if key.alg == public.alg and not ROTATING.isdisjoint({*roles}.intersection(key.roles))
    ]
    begins = "prepublished" if state.keyset is None else "generated"
    if not predecessors:
        begins = "active"
    holder = holder or (predecessors[-1].holder if predecessors else None)
    if custody_group(custody) in state.stolen:
        raise StoreFault(
            "keystore.same_custody",
            f"this custody was stolen ({custody_group(custody)}), so no key is made in it",
            hint=f"Set {passphrase_variable(roles[0])} to a new passphrase of the "
            f"{roles[0]} keys, or name another signer.",
        )
    event = {
        "event": "entered",
        "public": public.jwk(),
        "roles": list(roles),
        "custody": custody,
        "state": begins,
    }
    return [event | ({"holder": holder} if holder else {}) | ({"blob": blob} if blob else {})]


def keep_keyset(
    state: StoreState,
    keyset: HeldStatement,
    listed: Collection[str],
    *,
    revoked: Collection[str] = (),
) -> list[Event]:
    """Keep the newest keyset statement: which keys may be published now, and which are over.

    `listed` and `revoked` are thumbprints. Where it is kept already, what has not come along before
    comes along.
    """
    events: list[Event] = []
    if not state.keysets or keyset.number != state.keysets[-1].number:
        epoch, version = keyset.number
        members = {"epoch": epoch, "version": version, "digest": keyset.digest, "blob": keyset.blob}
        events.append({"event": "keyset", **members})
    events += [
        move(key, "prepublished")
        for key in state.keys
        if key.state == "generated" and key.thumbprint in listed
    ]
    over = (key for key in state.keys if key.thumbprint in revoked and key.state not in ENDED)
    return events + [move(key, "revoked", reason="superseded") for key in over]


def revoke(state: StoreState, name: str, *, reason: RevocationReason) -> list[Event]:
    """Revoke a key, in whatever state it is.

    One that is revoked already is passed over. With a compromised key all of its custody may be
    stolen: all card keys of it are revoked, standbys included. A release key of it goes on as long
    as it has to tell of them; :func:`end_told_releases` ends it then. Root and recovery keys are
    never revoked with others: a keyset without them, or a recovery, ends them.

    Raises:
        StoreFault: ``keystore.unknown_key``.
    """
    key = state.find(name)
    if reason != "compromised":
        return [] if key.state == "revoked" else [move(key, "revoked", reason=reason)]
    is_new = not key.is_stolen and key.state != "revoked"
    lost = [
        other
        for other in state.keys
        if other.group == key.group and other.state not in ENDED and (is_new or other.is_stolen)
    ]
    if key.state == "retired":
        lost.append(key)
    cards = [other for other in lost if "card" in other.roles]
    ended = cards or [other for other in lost if "release" in other.roles]
    theft: list[Event] = [{"event": "stolen", "custody": key.group}] if is_new else []
    return theft + [move(other, "revoked", reason=reason) for other in ended]


def end_told_releases(state: StoreState, revoked: Collection[str]) -> list[Event]:
    """End stolen release keys once `revoked` has all revoked card keys of their custody."""
    return [
        move(key, "revoked", reason="compromised")
        for key in state.keys
        if key.is_stolen
        and key.state not in ENDED
        and "release" in key.roles
        and all(
            other.thumbprint in revoked
            for other in state.keys
            if other.group == key.group and other.revoked_because == "compromised"
        )
    ]


def replace_key(state: StoreState, names: Collection[str]) -> list[Event]:
    """Begin the rotation of active keys at once; of all that rotate where none is named.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.illegal_transition``: it is not active.
    """
    keys = [state.find(name) for name in names]
    for key in keys:
        if key.state != "active" or not key.rotates:
            message = f"a {key.roles[0]} key that is {key.state} is not rotated"
            raise StoreFault("keystore.illegal_transition", message)
    chosen = keys or [key for key in state.keys if key.state == "active" and key.rotates]
    return [
        {"event": "replaced", "key": key.thumbprint} for key in chosen if key.times.replaced is None
    ]


def record_publication(
    state: StoreState, publication: Publication, *, replaced: Publication | None = None
) -> list[Event]:
    """Note what was published: all waits run from here.

    One that is recorded already, or older than its series is known to be, changes nothing. If it
    has `replaced` the newest of another series, because the endpoint of the card has changed or
    the card was withdrawn, nothing waits for that series any more.
    """
    newest = {noted.series: noted for noted in state.publications}
    if not publication.cards and (replaced is None or replaced.series not in newest):
        return []
    recorded = newest.get(publication.series)
    if recorded is not None and (recorded == publication or publication.at < recorded.at):
        return []
    members = {name: getattr(publication, name) for name in ("generation", "max_age", "kids")}
    shown = ("name", "payload_sha256", "kids", "url")
    cards = [{name: getattr(card, name) for name in shown} for card in publication.cards]
    is_other = replaced and replaced.series != publication.series
    if replaced and is_other and (replaced in state.publications or not publication.cards):
        members["replaces"] = replaced.series
    return [{"event": "published", "at": stamp(publication.at), "cards": cards, **members}]


def record_key_set(state: StoreState) -> list[Event]:
    """Note that a key set without the stolen keys was written, where no publication says so."""
    gone = [
        key.thumbprint
        for key in state.keys
        if key.times.dropped is None and was_given_out(state, key)
    ]
    return [{"event": "handed-out", "without": gone}] if gone else []


def move(key: KeyRecord, to: KeyState, **more: str) -> Event:
    """Return the event that takes a key into another state."""
    return {"event": "moved", "key": key.thumbprint, "to": to, **more}
