"""When a step of a key's life is lawful, and for what it waits until then.

Arithmetic over what was recorded; no wait runs from a change of state, for a state says
nothing of what others have in their caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cardsign.errors import StoreFault
from cardsign.keys.custody import suspects
from cardsign.keys.records import KeyRecord, PublishedCard, StoreState
from cardsign.keys.states import ENDED

SHOWN_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"
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
        rotate_every: How long a key is active before ``rotate --tick`` replaces it.
    """

    max_age: int = 3600
    worst_cache: int = 24 * 3600
    card_max_age: int = 3600
    skew: int = 300
    rotate_every: int = 90 * 24 * 3600

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
        """How long a key goes on signing beside its successor."""
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
        code: ``keystore.too_early``, or what must happen first: ``keystore.not_listed``,
            ``keystore.not_seen``, ``keystore.cards_unsigned``, ``keystore.same_custody``.
        what: In words, to follow "key K waits for".
        until: When the wait is over; None as long as nobody can know.
    """

    code: str
    what: str
    until: datetime | None

    def is_over(self, now: datetime) -> bool:
        """Whether the step is lawful at `now`."""
        return self.until is not None and self.until <= now

    def refuse(self, kid: str, step: str, now: datetime) -> None:
        """Refuse the step as long as it waits.

        Raises:
            StoreFault: `code`.
        """
        if not self.is_over(now):
            when = "" if self.until is None else f", until {self.until:{SHOWN_TIME}}"
            raise StoreFault(self.code, f"key {kid!r} cannot be {step} yet: {self.what}{when}")


_NOTHING: Final = Waiting("keystore.too_early", "nothing", _ALWAYS)


def until_prepublication(state: StoreState, key: KeyRecord) -> Waiting:
    """What a generated key waits for before it stands in the JWK Set: that the roots list it."""
    keyset = state.statements.keyset
    if keyset is None or not key.rotates:
        return _NOTHING
    number = f"{keyset.epoch}.{keyset.version}"
    return Waiting("keystore.not_listed", f"keyset {number} does not list it", None)


def until_activation(
    state: StoreState, key: KeyRecord, settings: TimelineSettings, *, accept_custody: bool = False
) -> Waiting:
    """What the activation of a prepublished key waits for.

    Where no key of its line is active it waits for nothing: nobody could verify anything.
    """
    if not accept_custody and key.thumbprint in suspects(state):
        what = "it lies in the custody of a compromised key"
        return Waiting("keystore.same_custody", what, None)
    if not any(other.state == "active" and other.succeeds(key) for other in state.keys):
        return _NOTHING
    if key.rotates and "card" not in key.roles:  # no JWK Set has it, and statements come at once
        return _NOTHING
    if key.times.seen is None:
        return Waiting(
            "keystore.not_seen", "not every newest publication is known to hold it", None
        )
    until = key.times.seen + settings.as_published(state).propagation
    return Waiting("keystore.too_early", "caches may not hold it", until)


def until_retirement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Waiting:
    """What a retiring key waits for before it leaves the JWK Set.

    Until it has stopped signing, and for as long as caches may hold a card that only it has
    signed, or that it has signed at all: some verifiers want every signature to be good, and
    some give up at the first one whose key they cannot find.
    """
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
            f"it signs until {stops:{SHOWN_TIME}}; from then on sign the published cards "
            f"{_named(cards)} again, so that they no longer need it"
        )
        return Waiting("keystore.cards_unsigned", what, None)
    if key.times.relieved is None:
        return Waiting("keystore.not_seen", "no publication without it is recorded", None)
    until = max(stops, key.times.relieved + settings.as_published(state).turnover)
    return Waiting("keystore.too_early", "caches may hold cards that need it", until)


def until_destruction(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Waiting:
    """What the destruction of an ended key's private half waits for."""
    if "card" not in key.roles or key.times.prepublished is None:
        return _NOTHING
    if key.times.dropped is None:
        return Waiting("keystore.not_seen", "a newest publication still holds it", None)
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
