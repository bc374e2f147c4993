"""The lifecycle of a key: every change that a store's state may undergo.

Pure: each function takes a state and gives the next one, with what happened for the audit log,
or refuses and names what is lawful. The store commits the two together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, StoreFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys.audit import AuditEvent
from cardsign.keys.model import (
    ENDED,
    MAX_PUBLICATIONS,
    KeyRecord,
    KeyTimes,
    Moved,
    PrivateKeyState,
    Publication,
    PublishedCard,
    RevocationReason,
    Role,
    StoreState,
    check_transition,
    file_custody,
    suspects,
)
from cardsign.statements.keyset import KeysetId
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


def until_activation(
    state: StoreState, key: KeyRecord, settings: TimelineSettings, *, accept_custody: bool = False
) -> Waiting:
    """What the activation of a prepublished key waits for.

    Where no key of its line is active it waits for nothing: nobody could verify anything.
    """
    if not accept_custody and key.thumbprint in suspects(state):
        what = "it is in the custody of a compromised key"
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


def unsigned_cards(state: StoreState, key: KeyRecord) -> tuple[PublishedCard, ...]:
    """Return the published cards that no active key has signed which succeeds `key`."""
    successors = {
        other.kid for other in state.keys if other.state == "active" and other.succeeds(key)
    }
    return tuple(card for card in _cards(state) if successors.isdisjoint(card.kids))


def signed_cards(state: StoreState, key: KeyRecord) -> tuple[PublishedCard, ...]:
    """Return the published cards that `key` has signed."""
    return tuple(card for card in _cards(state) if key.kid in card.kids)


def cards_to_sign(state: StoreState, now: datetime) -> tuple[PublishedCard, ...]:
    """Return the published cards that hold up a rotation until they are signed again.

    The successor of a retiring key has not signed them, or a key that signs no more has.
    """
    over = ("retiring", *ENDED)
    silent = {key.kid for key in state.keys if key.state in over and not key.signs_at(now)}
    retiring = [key for key in state.keys if key.state == "retiring" and "card" in key.roles]
    waiting = [card for key in retiring for card in unsigned_cards(state, key)]
    waiting += [card for card in _cards(state) if not silent.isdisjoint(card.kids)]
    return tuple(dict.fromkeys(waiting))


def _cards(state: StoreState) -> Iterator[PublishedCard]:
    for publication in state.newest_publications():
        yield from publication.cards


def _named(cards: tuple[PublishedCard, ...]) -> str:
    names = ", ".join(card.url or card.name for card in cards[:_SHOWN])
    return f"{names} and {len(cards) - _SHOWN} more" if len(cards) > _SHOWN else names


NewState = tuple[StoreState, tuple[AuditEvent, ...]]

_HOLDS_FILE: Final = "file:"


def enter(
    state: StoreState,
    public: PublicKey,
    *,
    now: datetime,
    roles: tuple[Role, ...] = ("card",),
    holder: str | None = None,
    custody: str | None = None,
    standby: bool = False,
) -> NewState:
    """Take a key in.

    A store's first key of a role and algorithm is active at once, unless it is to stand by; a
    later one is prepublished, or where there is a keyset statement only generated, until one
    lists it. Root and recovery keys do not rotate and are active at once. The default of `holder`
    is that of the key which it succeeds, of `custody` the key's own file of the store.

    Raises:
        StoreFault: ``keystore.duplicate_key``.
        KeyRefused: ``key.unsupported``: it is to sign statements, and is not for ES256 or RS256.
    """
    now = _second(now)
    if public.alg not in STATEMENT_ALGORITHMS and tuple(roles) != ("card",):
        raise KeyRefused(
            "key.unsupported",
            f"a key for {public.alg} signs cards alone, not as {' and '.join(roles)}",
            hint="Statements are signed with ES256 or RS256: cardsign keys generate --alg ES256.",
        )
    custody = custody or file_custody(public.thumbprint)
    private: PrivateKeyState = "held" if custody.startswith(_HOLDS_FILE) else "elsewhere"
    times = KeyTimes(prepublished=now)
    record = KeyRecord(public, "prepublished", roles, custody, now, holder, times, private=private)
    before = [key.holder for key in state.keys if record.succeeds(key)]
    if holder is None and before:
        record = replace(record, holder=before[-1])
    if not record.rotates:
        record = record.at("active", prepublished=None, activated=now)
    elif not standby and not any(record.succeeds(other) for other in state.keys):
        record = record.at("active", activated=now)
    elif state.statements.keyset is not None:
        record = record.at("generated", prepublished=None)
    details: dict[str, Json] = {
        "alg": record.alg,
        "custody": custody,
        "roles": list(roles),
        "state": record.state,
        "thumbprint": record.thumbprint,
    }
    event = AuditEvent("key-entered", record.kid, details)
    return _marked(state.with_key(record), now), (event,)


def keep_keyset(
    state: StoreState,
    keyset: KeysetId,
    listed: Collection[str],
    *,
    now: datetime,
    revoked: Collection[str] = (),
) -> NewState:
    """Note the newest keyset statement: which keys may be published now, and which are over.

    `listed` and `revoked` are thumbprints. To note it again brings along what has not come along
    before; an older one changes nothing.
    """
    now, known = _second(now), state.statements.keyset
    if known is not None and keyset < known:
        return state, ()
    events: tuple[AuditEvent, ...] = ()
    if known != keyset:
        details: dict[str, Json] = {"number": keyset.label, "digest": keyset.digest}
        events = (AuditEvent("keyset.kept", None, details),)
        state = replace(state, statements=replace(state.statements, keyset=keyset))
    shown = [
        key.at("prepublished", prepublished=now)
        for key in state.keys
        if key.state == "generated" and key.thumbprint in listed
    ]
    state, more = _changed(state, now, *shown)
    events += more
    for key in state.keys:
        if key.thumbprint in revoked and key.state not in ENDED:
            state, more = revoke(state, key.thumbprint, reason="superseded", now=now)
            events += more
    return state, events


def activate(
    state: StoreState,
    name: str,
    *,
    now: datetime,
    settings: TimelineSettings,
    same_custody_accepted: bool = False,
) -> NewState:
    """Let a prepublished key sign; the one that it succeeds becomes retiring.

    Raises:
        StoreFault: ``keystore.unknown_key``, ``keystore.illegal_transition``, or as
            :func:`until_activation`.
    """
    now, key = _second(now), state.find(name)
    check_transition(key.state, "active")
    waiting = until_activation(state, key, settings, accept_custody=same_custody_accepted)
    waiting.refuse(key.kid, "activated", now)
    stops = now + settings.as_published(state).drain
    superseded = [
        other.at("retiring", stops_signing=stops)
        for other in state.keys
        if other.state == "active" and other.succeeds(key)
    ]
    return _changed(state, now, key.at("active", activated=now), *superseded)


def retire(state: StoreState, name: str, *, now: datetime, settings: TimelineSettings) -> NewState:
    """Take a retiring key out of the JWK Set; a root or recovery key ends at once.

    Raises:
        StoreFault: ``keystore.unknown_key``, ``keystore.illegal_transition``, or as
            :func:`until_retirement`.
    """
    now, key = _second(now), state.find(name)
    if key.state == "active" and not key.rotates:
        return _changed(state, now, key.at("retired", stops_signing=now, retired=now))
    check_transition(key.state, "retired")
    until_retirement(state, key, settings).refuse(key.kid, "retired", now)
    return _changed(state, now, key.at("retired", retired=now))


def revoke(
    state: StoreState,
    name: str,
    *,
    reason: RevocationReason,
    now: datetime,
    same_custody_accepted: bool = False,
) -> NewState:
    """Revoke a key, in whatever state it is; its standby is activated at once.

    Nothing hinders the revocation itself. Where `reason` is ``compromised``, a standby of the
    same custody is activated only if that is accepted, else no key of the line is active.

    Raises:
        StoreFault: ``keystore.unknown_key`` or ``keystore.illegal_transition``.
    """
    now, key = _second(now), state.find(name)
    check_transition(key.state, "revoked")
    if reason == "compromised" and key.thumbprint not in suspects(state):
        # A key that is here was made before now, whatever another clock has said of it.
        ahead = [one for one in state.keys if one.created > now]
        state = state.replacing(replace(one, created=now) for one in ahead)
        key = state.find(key.thumbprint)
    revoked = replace(key.at("revoked", revoked=now), revoked_because=reason)
    after = state.replacing([revoked])
    successor = None
    if key.state == "active" and key.rotates:
        suspect = frozenset() if same_custody_accepted else suspects(after)
        successor = standby_of(after, revoked, but=suspect)
    started = [successor.at("active", activated=now)] if successor else []
    return _changed(state, now, revoked, *started)


def standby_of(
    state: StoreState, key: KeyRecord, *, but: frozenset[str] = frozenset()
) -> KeyRecord | None:
    """Return the key to activate when `key` is lost: of another custody if there is one."""
    candidates = [
        other
        for other in state.keys
        if other.state == "prepublished" and other.succeeds(key) and other.thumbprint not in but
    ]
    endangered = suspects(state)
    return min(candidates, key=lambda one: one.thumbprint in endangered, default=None)


def destroy(state: StoreState, name: str, *, now: datetime, settings: TimelineSettings) -> NewState:
    """Record that an ended key's private key is gone; the store then removes it.

    Raises:
        StoreFault: ``keystore.unknown_key``, ``keystore.illegal_transition``, or as
            :func:`until_destruction`.
    """
    now, key = _second(now), state.find(name)
    if key.state not in ENDED or key.private == "destroyed":
        raise StoreFault(
            "keystore.illegal_transition",
            f"this key is {key.state} and its private key {key.private}; only a private key that "
            f"is held can be destroyed, of a key that is {' or '.join(sorted(ENDED))}",
        )
    until_destruction(state, key, settings).refuse(key.kid, "destroyed", now)
    return _changed(state, now, replace(key.at(destroyed=now), private="destroyed"))


def record_publication(state: StoreState, publication: Publication) -> NewState:
    """Note what was published: all waits run from here.

    One that is recorded already, or older than its series is known to be, changes nothing.
    """
    at = _second(publication.at)
    publication = replace(publication, at=at)
    before = {one.series: one for one in state.publications}.get(publication.series)
    if before is not None and (before == publication or at < before.at):
        return state, ()
    known = [*state.publications, publication]
    newest = {id(one) for one in {one.series: one for one in known}.values()}  # of each series
    others = [id(one) for one in known if id(one) not in newest]
    room = max(0, MAX_PUBLICATIONS - len(newest))
    lasting = newest.union(others[-room:] if room else ())
    kept = tuple(one for one in known if id(one) in lasting)
    details: dict[str, Json] = {
        "at": stamp(at),
        "cards": {card.name: card.payload_sha256 for card in publication.cards},
        "generation": publication.generation,
        "kids": list(publication.kids),
        "series": publication.series,
    }
    event = AuditEvent("publication-recorded", None, details)
    after = replace(state, publications=kept)
    # As another series may have been published later, it is then that the newest had been.
    return _marked(after, max(one.at for one in after.newest_publications())), (event,)


def record_key_set(state: StoreState, *, now: datetime) -> NewState:
    """Note that a key set without the stolen keys was written, where no publication says so."""
    gone = [
        key.at(dropped=_second(now))
        for key in state.keys
        if key.times.dropped is None and _was_given_out(state, key)
    ]
    if not gone:
        return state, ()
    event = AuditEvent("key-set-written", None, {"without": [key.kid for key in gone]})
    return state.replacing(gone), (event,)


def _was_given_out(state: StoreState, key: KeyRecord) -> bool:
    """Whether a stolen key may be in key sets of which no publication is on record."""
    return (
        key.revoked_because == "compromised"
        and "card" in key.roles
        and key.times.prepublished is not None
        and state.statements.keyset is None
        and not state.publications
    )


def withdraw(state: StoreState, series: str, *, now: datetime) -> NewState:
    """Forget the publications of cards that are no longer served, so that nothing waits for them.

    `series` is :attr:`Publication.series`, the endpoint that the public card named.

    Raises:
        StoreFault: ``keystore.not_seen``: none is recorded.
    """
    kept = tuple(one for one in state.publications if one.series != series)
    if kept == state.publications:
        known = ", ".join(sorted({one.series for one in kept})) or "none"
        raise StoreFault(
            "keystore.not_seen", f"no publication of {series!r} is recorded; known are {known}"
        )
    event = AuditEvent("publication-withdrawn", None, {"series": series})
    return _marked(replace(state, publications=kept), _second(now)), (event,)


def leave(state: StoreState, to: str, *, now: datetime) -> NewState:
    """Mark a store as moved to the place `to`; once more to the same place changes nothing.

    Raises:
        StoreFault: ``keystore.moved``: it has moved to another place.
    """
    if state.moved is None:
        event = AuditEvent("store-moved", None, {"to": to})
        return replace(state, moved=Moved(to, _second(now))), (event,)
    if state.moved.to != to:
        check_not_moved(state)
    return state, ()


def arrive(state: StoreState) -> NewState:
    """Take the mark away, at the new place or because the store did not move after all."""
    if state.moved is None:
        return state, ()
    event = AuditEvent("store-arrived", None, {"to": state.moved.to})
    return replace(state, moved=None), (event,)


def check_not_moved(state: StoreState, *, where: str = "") -> None:
    """Refuse (``keystore.moved``) a store that has moved; the error names the new place."""
    if state.moved is not None:
        to, at = state.moved.to, state.moved.at
        raise StoreFault(
            "keystore.moved",
            f"this key store moved to {to} on {second(at)}; nothing is signed or changed here",
            path=where,
            hint=f"Use the new one: --keystore {to}.",
        )


def note_passphrase(state: StoreState, names: Collection[str], *, now: datetime) -> NewState:
    """Note that the private keys of these names get another passphrase."""
    kids = [state.find(name).kid for name in names]
    return state, tuple(AuditEvent("key-passphrase-changed", kid) for kid in kids)


def _changed(state: StoreState, now: datetime, *records: KeyRecord) -> NewState:
    """The state with changed keys, and one event for each."""
    events = []
    for record in records:
        details: dict[str, Json] = {"thumbprint": record.thumbprint}
        what: str = "activated" if record.state == "active" else record.state
        if record.private == "destroyed":
            what = "destroyed"
        elif record.revoked_because:
            details["reason"] = record.revoked_because
        events.append(AuditEvent(f"key-{what}", record.kid, details))
    return _marked(state.replacing(records), now), tuple(events)


def _marked(state: StoreState, at: datetime) -> StoreState:
    """Bring the marks from which waits run up to date."""
    newest = state.newest_publications()

    # A mark is the time since when something holds; it goes when that ceases to hold. Those of an
    # ended key stay as they were, but for `dropped`.
    def marked(key: KeyRecord) -> KeyRecord:
        times = key.times
        if _was_given_out(state, key):
            return key
        if key.state in ENDED:
            gone = all(key.kid not in one.kids for one in newest)
            return key.at(dropped=_since(times.dropped, gone, at))
        in_all = bool(newest) and all(key.kid in one.kids for one in newest)
        drains = bool(newest) and key.state == "retiring" and "card" in key.roles
        relieved = drains and not (unsigned_cards(state, key) or signed_cards(state, key))
        return key.at(
            seen=_since(times.seen, in_all, at), relieved=_since(times.relieved, relieved, at)
        )

    return state.replacing(marked(key) for key in state.keys)


def _since(mark: datetime | None, holds: bool, at: datetime) -> datetime | None:
    return (mark or at) if holds else None


def _second(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(microsecond=0)
