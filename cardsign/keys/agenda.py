"""What may be done with the keys of a store, and what is due next, and when.

Pure: each function takes a state, and returns what is ahead or the events that change it. Any
number of hosts may ask at any time: the second finds the step done. Whether a key may come
into another state is checked once, where the events are folded (:mod:`cardsign.keys.ledger`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from cardsign.errors import KeyRefused, StoreFault
from cardsign.jose.jwk import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys import ledger
from cardsign.keys.ledger import ENDED, Event, KeyRecord, KeyState, Role, StoreState
from cardsign.times import second, stamp

Action = Literal["activate", "retire", "generate"]

#: One rotation ends before the next begins.
_URGENCY: Final = ("retire", "activate", "generate")
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

#: Seconds of one setting; more than ten years are a slip of the pen.
_Seconds = Annotated[int, Field(strict=True, ge=0, le=10 * 365 * 24 * 3600, description="seconds")]


@checked_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class TimelineSettings:
    """What is assumed of others' caches, in seconds: table ``[timeline]`` of cardsign.toml.

    Attributes:
        max_age: How long the JWK Set may be kept, as it is served.
        worst_cache: How long the worst consumer keeps it nevertheless.
        card_max_age: How long a card may be kept, as it is served.
        skew: By how much clocks may differ.
        rotate_every: How long a key is active before ``keys rotate`` replaces it.
    """

    max_age: _Seconds = 3600
    worst_cache: _Seconds = 24 * 3600
    card_max_age: _Seconds = 3600
    skew: _Seconds = 300
    rotate_every: _Seconds = 60 * 24 * 3600  # when a keyset of 90 days is renewed, in one visit

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
        ages = [publication.longest_max_age for publication in state.publications]
        max_age, card_max_age = max([self.max_age, *ages]), max([self.card_max_age, *ages])
        return replace(self, max_age=max_age, card_max_age=card_max_age)


DEFAULT_SETTINGS: Final = TimelineSettings()


def cards_to_sign(state: StoreState, now: datetime) -> tuple[ledger.PublishedCard, ...]:
    """Return the published cards that hold up a rotation until they are signed again.

    The successor of a retiring key has not signed them, or a key that signs no more has.
    """
    over = ("retiring", *ENDED)
    silent = {key.kid for key in state.keys if key.state in over and not key.signs_at(now)}
    retiring = [key for key in state.keys if key.state == "retiring" and key.role == "card"]
    waiting = [card for key in retiring for card in ledger.unsigned_cards(state, key)]
    waiting += [card for card in ledger.published_cards(state) if not silent.isdisjoint(card.kids)]
    return tuple(dict.fromkeys(waiting))


# What may be done.


def enter(
    state: StoreState,
    public: PublicKey,
    *,
    custody: str,
    role: Role = "card",
    holder: str | None = None,
    blob: str | None = None,
) -> list[Event]:
    """Take a key in.

    A store's first key of a role and algorithm is active at once. A later one is prepublished, or
    where there is a keyset statement only generated, until one lists it. Root and recovery keys do
    not rotate and are active at once. The default of `holder` is that of the newest key of a role
    that it has. `blob` is the digest of the sealed private key.

    Raises:
        StoreFault: ``keystore.same_custody``: it was stolen.
        KeyRefused: ``key.unsupported``: it is to sign statements, and is not for ES256 or RS256.
    """
    if public.alg not in STATEMENT_ALGORITHMS and role != "card":
        message = f"a key for {public.alg} signs cards alone; the {role} key takes ES256 or RS256"
        raise KeyRefused("key.unsupported", message)
    beside = [key for key in state.keys if key.rotates and key.role == role]
    begins = "active"
    if any(key.alg == public.alg for key in beside):
        begins = "generated" if state.keysets else "prepublished"
    holder = holder or next((key.holder for key in reversed(beside) if key.holder), None)
    if (group := ledger.custody_group(custody)) in state.stolen:
        variable = ledger.passphrase_variable(role)
        message = f"keys of this custody were stolen ({group}), so it gets no new key"
        hint = f"Set {variable} to a new passphrase of the {role} keys, or name another signer."
        raise StoreFault("keystore.same_custody", message, hint=hint)
    event = {"event": "entered", "public": public.jwk(), "roles": [role], "custody": custody}
    named = {"holder": holder, "blob": blob}
    return [event | {"state": begins} | {name: text for name, text in named.items() if text}]


def revoke(state: StoreState, name: str, *, reason: ledger.RevocationReason) -> list[Event]:
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
    taken = [other for other in state.keys if other.is_taken_with(key.groups)]
    lost = [other for other in taken if other.state not in ENDED and (is_new or other.is_stolen)]
    if key.state == "retired":
        lost.append(key)
    cards = [other for other in lost if other.role == "card"]
    ended = cards or [other for other in lost if other.role == "release"]
    groups = sorted(key.groups) if is_new else []
    theft: list[Event] = [{"event": "stolen", "custody": group} for group in groups]
    return theft + [move(other, "revoked", reason=reason) for other in ended]


def end_told_releases(state: StoreState, revoked: Collection[str]) -> list[Event]:
    """End stolen release keys once `revoked` has all revoked card keys of their custody."""
    stolen = [key for key in state.keys if key.is_stolen and key.state not in ENDED]
    releases = [key for key in stolen if key.role == "release"]
    lost = [key for key in state.keys if key.revoked_because == "compromised"]
    untold = [key for key in lost if key.thumbprint not in revoked]
    over = [key for key in releases if not any(other.is_taken_with(key.groups) for other in untold)]
    return [move(key, "revoked", reason="compromised") for key in over]


def replace_key(state: StoreState, names: Collection[str]) -> list[Event]:
    """Begin the rotation of active keys at once; of all that rotate where none is named.

    Raises:
        StoreFault: ``keystore.unknown_key``; ``keystore.illegal_transition``: it is not active.
    """
    keys = [state.find(name) for name in names]
    for key in keys:
        if key.state != "active" or not key.rotates:
            message = f"a {key.role} key that is {key.state} is not rotated"
            raise StoreFault("keystore.illegal_transition", message)
    chosen = keys or [key for key in state.keys if key.state == "active" and key.rotates]
    waiting = [key.thumbprint for key in chosen if key.times.replaced is None]
    return [{"event": "replaced", "key": name} for name in waiting]


def record_publication(
    state: StoreState,
    publication: ledger.Publication,
    *,
    replaced: ledger.Publication | None = None,
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


def list_copied(state: StoreState) -> list[KeyRecord]:
    """Return the stolen keys that stand in key sets which others hold."""
    stolen = [key for key in state.keys if key.revoked_because == "compromised"]
    given_out = [key for key in stolen if key.role == "card" and key.times.prepublished]
    return [key for key in given_out if key.times.dropped is None]


def record_key_set(state: StoreState) -> list[Event]:
    """Note that a key set without the stolen keys was written, where no publication says so."""
    is_published = state.keysets or state.publications
    gone = [] if is_published else [key.thumbprint for key in list_copied(state)]
    return [{"event": "handed-out", "without": gone}] if gone else []


def move(key: KeyRecord, to: KeyState, **more: str) -> Event:
    """Return the event that takes a key into another state."""
    return {"event": "moved", "key": key.thumbprint, "to": to, **more}


# What is ahead.


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a rotation.

    Attributes:
        action: What is to be done; ``generate``: make the next key of the role and algorithm.
        key: The key that it changes, or that a new one follows.
        why: What it waits for, or why it is due, in words.
        due: From when on; None while it waits for something that has no date.
    """

    action: Action
    key: KeyRecord
    why: str
    due: datetime | None

    @property
    def what(self) -> str:
        """What is to be done, in words: ``retire card key K``."""
        if self.action == "generate":
            return f"make the next {self.key.alg} {self.key.role} key"
        return f"{self.action} {self.key.role} key {self.key.kid}"

    def is_due(self, now: datetime) -> bool:
        """Return whether it can and should be done at `now`."""
        return self.due is not None and self.due <= now


class Renewal(NamedTuple):
    """When a keyset statement, or an extended card, has to be signed again.

    Attributes:
        name: The number of the next keyset as people write it; the audience of the card.
        due: From when on.
        ends: When the newest one ends.
        why: What for, in words.
    """

    name: str
    due: datetime
    ends: datetime
    why: str


def steps(state: StoreState, settings: TimelineSettings, now: datetime) -> tuple[Step, ...]:
    """Return every step ahead, the next one first; one for each key at most."""

    def order(step: Step) -> tuple[datetime, int]:
        return max(step.due or _NEVER, now), _URGENCY.index(step.action)

    return tuple(sorted(_steps(state, settings), key=order))


def take(state: StoreState, step: Step, settings: TimelineSettings, now: datetime) -> list[Event]:
    """Return the events of a step that changes a key: ``activate`` or ``retire``."""
    key = step.key
    if step.action == "retire":
        return [move(key, "retired")]
    stops = stamp(now + settings.as_published(state).drain)
    predecessors = [other for other in state.active_keys(key.role) if other.succeeds(key)]
    return [*(move(other, "retiring", stops=stops) for other in predecessors), move(key, "active")]


def find_wait(
    state: StoreState, key: KeyRecord, action: Action, settings: TimelineSettings
) -> tuple[str, datetime | None]:
    """Return what a step waits for, in words, and until when; None if nobody can know that yet."""
    times, settled, is_card = key.times, settings.as_published(state), key.role == "card"
    # A key signs as long as its successor needs, and stays in the JWK Set as long as caches may
    # hold a card that it has signed: some verifiers give up at the first key they cannot find.
    match action:
        case "activate" if is_card and any(
            other.state == "active" and other.succeeds(key) for other in state.keys
        ):  # where none is active, nobody could verify anything
            if times.seen is None:
                return "it is not published yet", None
            return "caches may not have it yet", times.seen + settled.propagation
        case "retire" if not is_card:
            return "it still signs", times.stops_signing
        case "retire" if cards := ledger.unsigned_cards(state, key):
            return f"its successor has not signed the published cards {_named(cards)}", None
        case "retire" if (cards := ledger.signed_cards(state, key)) and times.stops_signing:
            message = f"it signs until {second(times.stops_signing)}; then the published cards "
            return f"{message}{_named(cards)} have to be signed again without it", None
        case "retire" if times.relieved and times.stops_signing:
            until = max(times.stops_signing, times.relieved + settled.turnover)
            return "caches may hold cards that need it", until
        case "retire":
            return "no publication is recorded", None
    return "nothing", _ALWAYS


def _named(cards: tuple[ledger.PublishedCard, ...]) -> str:
    return ", ".join(dict.fromkeys(card.url or card.name for card in cards))


def _steps(state: StoreState, settings: TimelineSettings) -> Iterator[Step]:
    """Yield the next step of each key, and the keys that are to be made."""
    for key in state.keys:
        if key.state == "retiring":
            yield _step(state, "retire", key, settings)
        elif key.state == "active" and key.rotates and not key.is_stolen:
            yield from _succession(state, key, settings)
        elif _was_the_last(state, key):
            yield from _replacement(state, key, settings)


def _succession(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Iterator[Step]:
    """Yield the activation of the key after an active one, or that it is to be made.

    It is the oldest waiting one of its custody: one of another is kept for the day on which this
    custody is lost.
    """
    beside = [other for other in _find_heirs(state, key) if other.group == key.group]
    successor = min(beside, key=lambda other: other.state == "generated", default=None)
    begun = key.times.activated or key.created
    if successor is None:
        yield Step("generate", key, f"key {key.kid!r} has no successor", begun)
    elif successor.state == "prepublished":
        due = key.times.replaced or begun + timedelta(seconds=settings.rotate_every)
        step = _step(state, "activate", successor, settings)
        if step.due is not None and step.due < due:
            step = replace(step, why="the active key signs until then", due=due)
        yield step


def _replacement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Iterator[Step]:
    """Yield what puts another key in the place of one that was revoked without a successor.

    The one after it is made with it, since the roots would have to list a later one by themselves.
    """
    heirs = _find_heirs(state, key)
    if standbys := [heir for heir in heirs if heir.state == "prepublished"]:
        yield _step(state, "activate", standbys[0], settings)
    elif key.revoked_because != "ceased" and len(heirs) < 2:
        why = f"key {key.kid!r} was {'revoked' if key.times.revoked else 'stolen'}"
        yield Step("generate", key, why, key.times.revoked or _ALWAYS)


def _find_heirs(state: StoreState, key: KeyRecord) -> list[KeyRecord]:
    """Return the keys that can come to sign in the place of `key`, oldest first."""
    waiting = [other for other in state.keys if other.state in ("generated", "prepublished")]
    return [other for other in waiting if other.succeeds(key) and not other.is_stolen]


def _step(state: StoreState, action: Action, key: KeyRecord, settings: TimelineSettings) -> Step:
    return Step(action, key, *find_wait(state, key, action, settings))


def _was_the_last(state: StoreState, key: KeyRecord) -> bool:
    """Return whether the active key was revoked or stolen, and has no successor yet."""
    activated = key.times.activated
    is_over = key.state == "revoked" or (key.state == "active" and key.is_stolen)
    if not is_over or activated is None or not key.rotates:
        return False
    others = [other for other in state.keys if other.succeeds(key)]
    return all(
        other.state != "active" and (other.times.activated or activated) <= activated
        for other in others
    )
