"""The lifecycle of a key: every change that a store's state may undergo.

Pure: each function takes a state and returns the events that change it, or refuses and names what
is lawful. The store writes the events into its log.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cardsign.errors import KeyRefused, StoreFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys.log import (
    Event,
    check_transition,
    fold_all,
    published_cards,
    signed_cards,
    unsigned_cards,
    was_given_out,
)
from cardsign.keys.model import (
    ENDED,
    HeldStatement,
    KeyRecord,
    Publication,
    PublishedCard,
    RevocationReason,
    Role,
    StoreState,
    custody_group,
    file_custody,
)
from cardsign.times import second, stamp

# When a step of the lifecycle is lawful, and for what it waits until then.


_SHOWN: Final = 5  # cards that an error lists before "and N more"
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


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
        told = max((one.max_age for one in state.publications), default=0)
        return replace(
            self,
            max_age=max(self.max_age, told),
            card_max_age=max(self.card_max_age, told),
        )


DEFAULT_SETTINGS: Final = TimelineSettings()


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a step waits for.

    Attributes:
        code: ``keystore.too_early``, or what must happen first.
        what: In words, to follow "key K waits for".
        until: When the wait is over; None as long as nobody can know.
    """

    code: str
    what: str
    until: datetime | None

    def refuse(self, kid: str, step: str, now: datetime) -> None:
        """Refuse the step (with `code`) as long as it waits."""
        if self.until is None or self.until > now:
            when = "" if self.until is None else f"; wait until {second(self.until, now)}"
            raise StoreFault(self.code, f"key {kid!r} cannot be {step} yet: {self.what}{when}")


_NOTHING: Final = Waiting("keystore.too_early", "nothing", _ALWAYS)


def until_activation(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Waiting:
    """What the activation of a prepublished key waits for.

    Where no key of its line is active it waits for nothing: nobody could verify anything.
    """
    if key.is_stolen:
        what = "it was in a custody that was stolen"
        return Waiting("keystore.same_custody", what, None)
    if not any(other.state == "active" and other.succeeds(key) for other in state.keys):
        return _NOTHING
    if key.rotates and "card" not in key.roles:  # no JWK Set has it, and statements come at once
        return _NOTHING
    if key.times.seen is None:
        return Waiting(
            "keystore.not_seen", "it is not published yet: cardsign publish SIGNED -o DIR", None
        )
    until = key.times.seen + settings.as_published(state).propagation
    return Waiting("keystore.too_early", "caches may not have it yet", until)


def until_retirement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Waiting:
    """What a retiring key waits for before it leaves the JWK Set."""
    # Some verifiers want every signature to be good, and some give up at the first one whose key
    # they cannot find. So it stays as long as caches may hold a card that it has signed.
    stops = key.times.stops_signing
    if stops is None:
        return Waiting("keystore.too_early", "it has no successor", None)
    if "card" not in key.roles:
        return Waiting("keystore.too_early", "it still signs", stops)
    if not state.publications:
        return Waiting("keystore.not_seen", "no publication is recorded", None)
    if cards := unsigned_cards(state, key):
        what = f"its successor has not signed the published cards {_named(cards)}"
        return Waiting("keystore.cards_unsigned", what, None)
    if cards := signed_cards(state, key):
        what = (
            f"it signs until {second(stops)}; from then on sign the published cards "
            f"{_named(cards)} again, so that they no longer need it"
        )
        return Waiting("keystore.cards_unsigned", what, None)
    if key.times.relieved is None:
        return Waiting("keystore.not_seen", "no publication without it is recorded", None)
    until = max(stops, key.times.relieved + settings.as_published(state).turnover)
    return Waiting("keystore.too_early", "caches may hold cards that need it", until)


def until_destruction(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Waiting:
    """What the destruction of an ended key's private key waits for."""
    if "card" not in key.roles or key.times.prepublished is None:
        return _NOTHING
    if key.times.dropped is None:
        what = "a newest publication still holds it"
        if not state.publications:
            what = "no key set without it has been written: run cardsign keys jwks -o FILE"
        return Waiting("keystore.not_seen", what, None)
    until = key.times.dropped + settings.as_published(state).propagation
    return Waiting("keystore.too_early", "caches may still hold it", until)


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


def _named(cards: tuple[PublishedCard, ...]) -> str:
    names = ", ".join(card.url or card.name for card in cards[:_SHOWN])
    return f"{names} and {len(cards) - _SHOWN} more" if len(cards) > _SHOWN else names


def enter(
    state: StoreState,
    public: PublicKey,
    *,
    now: datetime,
    roles: tuple[Role, ...] = ("card",),
    holder: str | None = None,
    custody: str | None = None,
    blob: str | None = None,
) -> list[Event]:
    """Take a key in.

    A store's first key of a role and algorithm is active at once. A later one is prepublished, or
    where there is a keyset statement only generated, until one lists it. Root and recovery keys do
    not rotate and are active at once. The default of `holder` is that of the key which it
    succeeds. `blob` is the digest of the sealed private key.

    Raises:
        StoreFault: ``keystore.duplicate_key``.
        KeyRefused: ``key.unsupported``: it is to sign statements, and is not for ES256 or RS256.
    """
    if public.alg not in STATEMENT_ALGORITHMS and tuple(roles) != ("card",):
        raise KeyRefused(
            "key.unsupported",
            f"a key for {public.alg} signs cards alone, not as {' and '.join(roles)}",
            hint="Statements are signed with ES256 or RS256: cardsign keys generate --alg ES256.",
        )
    custody = custody or file_custody(blob or public.thumbprint)
    record = KeyRecord(public, "prepublished", roles, custody, now, holder)
    state.with_key(record)  # refuses one that is here
    before = [key for key in state.keys if record.succeeds(key)]
    begins = "prepublished" if state.keyset is None else "generated"
    if not record.rotates or not before:
        begins = "active"
    holder = holder or (before[-1].holder if before else None)
    if custody_group(custody) in state.stolen:
        raise StoreFault(
            "keystore.same_custody",
            f"this custody was stolen ({custody_group(custody)}), so no key is made in it",
            hint=f"Choose another passphrase for the {roles[0]} keys, or another signer.",
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
    now: datetime,
    revoked: Collection[str] = (),
) -> list[Event]:
    """Keep the newest keyset statement: which keys may be published now, and which are over.

    `listed` and `revoked` are thumbprints. Where it is kept already, what has not come along before
    comes along.
    """
    epoch, version = keyset.number
    kept = {"event": "keyset", "epoch": epoch, "version": version}
    events: list[Event] = [{**kept, "digest": keyset.digest, "blob": keyset.blob}]
    if state.keysets and keyset.number == state.keysets[-1].number:
        events = []
    events += [
        _becomes(key, "prepublished")
        for key in state.keys
        if key.state == "generated" and key.thumbprint in listed
    ]
    state = fold_all(state, events, now)
    for key in state.keys:
        if key.thumbprint in revoked and key.state not in ENDED:
            more = revoke(state, key.thumbprint, reason="superseded", now=now)
            state = fold_all(state, more, now)
            events += more
    return events


def keep_release(state: StoreState, release: HeldStatement, *, now: datetime) -> list[Event]:
    """Keep a release as the newest, and take its number.

    Raises:
        StoreFault: ``keystore.changed``: the number is taken.
    """
    (seq,) = release.number
    if state.release_seq >= seq:
        what = f"release {state.release_seq} was signed meanwhile"
        raise StoreFault("keystore.changed", what)
    kept = {"event": "release", "seq": seq, "digest": release.digest, "blob": release.blob}
    return [kept]


def activate(
    state: StoreState, name: str, *, now: datetime, settings: TimelineSettings
) -> list[Event]:
    """Let a prepublished key sign; the one that it succeeds becomes retiring.

    Raises:
        StoreFault: ``keystore.unknown_key``, ``keystore.illegal_transition``, or as
            :func:`until_activation`.
    """
    key = state.find(name)
    check_transition(key, "active")
    until_activation(state, key, settings).refuse(key.kid, "activated", now)
    stops = stamp(now + settings.as_published(state).drain)
    superseded: list[Event] = [
        {**_becomes(other, "retiring"), "stops": stops}
        for other in state.keys
        if other.state == "active" and other.succeeds(key)
    ]
    return [*superseded, _becomes(key, "activated")]


def retire(
    state: StoreState, name: str, *, now: datetime, settings: TimelineSettings
) -> list[Event]:
    """Take a retiring key out of the JWK Set; a root or recovery key ends at once.

    Raises:
        StoreFault: ``keystore.unknown_key``, ``keystore.illegal_transition``, or as
            :func:`until_retirement`.
    """
    key = state.find(name)
    check_transition(key, "retired")
    if key.rotates:
        until_retirement(state, key, settings).refuse(key.kid, "retired", now)
    return [_becomes(key, "retired")]


def revoke(state: StoreState, name: str, *, reason: RevocationReason, now: datetime) -> list[Event]:
    """Revoke a key, in whatever state it is; its standby is activated at once.

    Nothing hinders the revocation itself. A standby that may be stolen is passed over.

    Raises:
        StoreFault: ``keystore.unknown_key`` or ``keystore.illegal_transition``.
    """
    key = state.find(name)
    check_transition(key, "revoked")
    return _revoke_all(state, [key], reason, now)


def revoke_custody(state: StoreState, name: str, *, now: datetime) -> list[Event]:
    """Report that a key and all of its custody may be stolen, and revoke what can be at once.

    All card keys of the custody are revoked, standbys included. A release key of it goes on as long
    as it has to tell of them; :func:`end_told_releases` ends it then. Root and recovery keys are
    never revoked here: a keyset without them, or a recovery, ends them.

    Raises:
        StoreFault: ``keystore.unknown_key``.
    """
    key = state.find(name)
    theft: list[Event] = []
    if not key.is_stolen and key.state != "revoked":
        theft = [{"event": "stolen", "custody": key.group}]
    after = fold_all(state, theft, now)
    alive = [each for each in after.keys if each.group == key.group and each.is_stolen]
    alive = [each for each in alive if each.state not in ENDED]
    if key.state == "retired":
        alive.append(after.find(name))
    cards = [each for each in alive if "card" in each.roles]
    ended = cards or [each for each in alive if "release" in each.roles]
    return theft + _revoke_all(after, ended, "compromised", now)


def _revoke_all(
    state: StoreState, keys: Sequence[KeyRecord], reason: RevocationReason, now: datetime
) -> list[Event]:
    """Revoke keys, and let a standby take the place of each that was active."""
    events: list[Event] = [{**_becomes(key, "revoked"), "reason": reason} for key in keys]
    after = fold_all(state, events, now)
    for key in keys:
        standby = standby_of(after, key)
        if key.state == "active" and key.rotates and standby is not None:
            events.append(_becomes(standby, "activated"))
            after = fold_all(after, events[-1:], now)
    return events


def end_told_releases(state: StoreState, told: Collection[str], *, now: datetime) -> list[Event]:
    """End stolen release keys once `told` has all revoked card keys of their custody."""
    ended = [
        key
        for key in state.keys
        if key.is_stolen
        and key.state not in ENDED
        and "release" in key.roles
        and all(
            each.thumbprint in told
            for each in state.keys
            if each.group == key.group and each.revoked_because == "compromised"
        )
    ]
    return _revoke_all(state, ended, "compromised", now)


def replace_key(state: StoreState, names: Collection[str], *, now: datetime) -> list[Event]:
    """Begin the rotation of active keys at once; of all that rotate where none is named.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.illegal_transition``: it is not active.
    """
    keys = [state.find(name) for name in names]
    for key in keys:
        if key.state != "active" or not key.rotates:
            what = f"a {key.roles[0]} key that is {key.state} is not rotated"
            raise StoreFault("keystore.illegal_transition", what)
    chosen = keys or [key for key in state.keys if key.state == "active" and key.rotates]
    return [_becomes(key, "replaced") for key in chosen if key.times.replaced is None]


def standby_of(state: StoreState, key: KeyRecord) -> KeyRecord | None:
    """Return the key to activate when `key` is lost: the oldest that waits and is not stolen."""
    candidates = (
        other
        for other in state.keys
        if other.state == "prepublished" and other.succeeds(key) and not other.is_stolen
    )
    return next(candidates, None)


def destroy(
    state: StoreState, name: str, *, now: datetime, settings: TimelineSettings
) -> list[Event]:
    """Record that an ended key's private key is gone; the store then removes it.

    Raises:
        StoreFault: ``keystore.unknown_key``, ``keystore.illegal_transition``, or as
            :func:`until_destruction`.
    """
    key = state.find(name)
    if key.state not in ENDED or key.private != "held":
        raise StoreFault(
            "keystore.illegal_transition",
            f"this key is {key.state} and its private key {key.private}; only a private key that "
            f"is held can be destroyed, of a key that is {' or '.join(sorted(ENDED))}",
        )
    until_destruction(state, key, settings).refuse(key.kid, "destroyed", now)
    return [_becomes(key, "destroyed")]


def record_publication(
    state: StoreState,
    publication: Publication,
    *,
    now: datetime | None = None,
    replaced: Publication | None = None,
) -> list[Event]:
    """Note what was published: all waits run from here.

    One that is recorded already, or older than its series is known to be, changes nothing. If it
    has `replaced` the newest of another series, because the endpoint of the card has changed,
    nothing waits for that series any more.
    """
    publication = _in_seconds(publication)
    newest = {each.series: each for each in state.publications}
    before = newest.get(publication.series)
    if before is not None and (before == publication or publication.at < before.at):
        return []
    gone: list[Event] = []
    if replaced is not None and replaced.series != publication.series:
        is_newest = newest.get(replaced.series) == _in_seconds(replaced)
        gone = [{"event": "withdrawn", "series": replaced.series}] if is_newest else []
    cards = [
        {"name": card.name, "payload_sha256": card.payload_sha256, "kids": list(card.kids)}
        | ({} if card.url is None else {"url": card.url})
        for card in publication.cards
    ]
    return [
        *gone,
        {
            "event": "published",
            "at": stamp(publication.at),
            "cards": cards,
            "generation": publication.generation,
            "kids": list(publication.kids),
            "max_age": publication.max_age,
        },
    ]


def _in_seconds(publication: Publication) -> Publication:
    return replace(publication, at=publication.at.astimezone(UTC).replace(microsecond=0))


def record_key_set(state: StoreState, *, now: datetime) -> list[Event]:
    """Note that a key set without the stolen keys was written, where no publication says so."""
    gone = [
        key.thumbprint
        for key in state.keys
        if key.times.dropped is None and was_given_out(state, key)
    ]
    return [{"event": "handed-out", "without": gone}] if gone else []


def leave(state: StoreState, to: str, *, now: datetime) -> list[Event]:
    """Mark a store as moved to the place `to`; once more to the same place changes nothing.

    Raises:
        StoreFault: ``keystore.moved``: it has moved to another place.
    """
    if state.moved_to is None:
        return [{"event": "left", "to": to}]
    if state.moved_to != to:
        check_not_moved(state)
    return []


def arrive(state: StoreState, *, now: datetime) -> list[Event]:
    """Take the mark away, at the new place or because the store did not move after all."""
    return [] if state.moved_to is None else [{"event": "arrived"}]


def check_not_moved(state: StoreState, *, where: str = "") -> None:
    """Refuse (``keystore.moved``) a store that has moved; the error names the new place."""
    if state.moved_to is not None:
        raise StoreFault(
            "keystore.moved",
            f"this key store moved to {state.moved_to}; nothing is signed or changed here",
            path=where,
            hint=f"Use the new one: --keystore {state.moved_to}.",
        )


def _becomes(key: KeyRecord, event: str) -> dict[str, str]:
    return {"event": event, "key": key.thumbprint}
