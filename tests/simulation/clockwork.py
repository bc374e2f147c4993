"""A virtual clock, what an issuer's site shows at each moment, and what was seen to go wrong."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from cardsign.keys.agenda import TimelineSettings
from tests.simulation.peers import Site

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600
DAY = 24 * HOUR

HOME = "https://tides.example"
CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"
_SHOWN = 60  # lines of a history that a failure prints


def at(seconds: int) -> datetime:
    """A moment of the simulation as a clock would show it."""
    return START + timedelta(seconds=seconds)


class Broken(AssertionError):
    """One of the three statements does not hold; says in which world, and what led to it."""


@dataclass(frozen=True)
class Setting:
    """How one world is: what its issuer assumes, and how he works.

    Attributes:
        timeline: What he assumes of caches.
        release_life: Seconds for which a release is believed.
        keyset_life: The same of a keyset statement.
        deploys_late: What he publishes is live only after up to this many seconds, and he looks.
        skips: How often a host skips a tick.
        ceremony: Seconds, at most, until the roots meet.
        theft: Whether there is a thief, and what he steals.
    """

    timeline: TimelineSettings
    release_life: int
    keyset_life: int
    deploys_late: int
    skips: float
    ceremony: int
    theft: str
    horizon: int = 45 * DAY

    @classmethod
    def drawn(cls, random: Random) -> Setting:
        """One at random."""
        worst = random.choice([HOUR, 6 * HOUR, DAY])
        timeline = TimelineSettings(
            max_age=random.choice([300, HOUR]),
            worst_cache=worst,
            card_max_age=random.choice([300, HOUR, 4 * HOUR]),
            skew=random.choice([60, 300]),
            rotate_every=random.randint(4 * DAY, 9 * DAY),
        )
        release_life = random.randint(2, 7) * DAY
        deploys_late = random.choice([0, 0, HOUR, 3 * DAY])
        return cls(
            timeline,
            # Whoever deploys so late that a release has ended by then is believed by nobody.
            release_life=max(release_life, 7 * DAY) if deploys_late > DAY else release_life,
            keyset_life=random.randint(20, 40) * DAY,
            deploys_late=deploys_late,
            skips=random.choice([0.0, 0.3, 0.7]),
            ceremony=random.choice([0, 6 * HOUR, 2 * DAY]),
            theft=random.choice(["none", "card", "card", "card and release"]),
        )

    @property
    def oldest_jwks(self) -> int:
        """The greatest age of a copy of the JWK Set, in seconds."""
        return max(self.timeline.max_age, self.timeline.worst_cache)

    @property
    def oldest_card(self) -> int:
        """The greatest age of a copy of a card or a statement, in seconds."""
        return self.timeline.card_max_age


class Clockwork:
    """One world: its chance, its clock and its history. Everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.setting = Setting.drawn(self.random)
        self.site = Site()
        self.history: list[tuple[int, str]] = []
        self.now = 0
        self._due: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = 0

    def plan(self, when: int, what: Callable[[int], None]) -> None:
        """Let something happen at a moment, not before what happens now."""
        self._count += 1
        heapq.heappush(self._due, (max(when, self.now), self._count, what))

    def run(self) -> None:
        """Let everything happen that was planned."""
        while self._due:
            self.now, _, what = heapq.heappop(self._due)
            what(self.now)

    def note(self, text: str, when: int | None = None) -> None:
        """Add a line to the history."""
        self.history.append((self.now if when is None else when, text))

    def broken(self, statement: int, text: str) -> Broken:
        """What to raise: the seed, the setting and the last of the history."""
        told = [f"{at(when):%d %H:%M:%S}  {line}" for when, line in self.history[-_SHOWN:]]
        head = f"statement {statement} does not hold in the world of seed {self.seed}: {text}"
        return Broken("\n".join([head, str(self.setting), *told, f"{at(self.now):%d %H:%M:%S}  *"]))

    def age(self, most: int) -> int:
        """The age of a copy: often none or the greatest, for that is where things break."""
        return self.random.choice([0, most, self.random.randint(0, most)])
