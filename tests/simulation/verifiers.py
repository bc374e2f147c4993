"""Random verifiers with a keyset anchor and a memory."""

from __future__ import annotations

from cardsign.statements.keyset import KeysetId, RootAnchor, read_keyset
from cardsign.statements.release import read_release
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from cardsign.verify.report import Report
from tests.simulation.clockwork import CARD, HOME, Clockwork, at
from tests.simulation.peers import Copies, KeysetPeer

URL = HOME + CARD
NAME = "tides"


class Rooted(KeysetPeer):
    """A verifier with a keyset anchor and a memory.

    Attributes:
        handed: He has his cards from others, who may keep them as long as any cache, and can
            only look for newer statements.
        frozen_at: From then on he gets what was live at that moment, whatever he asks.
        release_of: Of when the newest answer is that told him which release is the newest.
        forged_release: What a thief shows him instead.
    """

    def __init__(self, world: Clockwork, name: str, *, keep: int, offset: int) -> None:
        self.world, self.label, self.offset = world, name, offset
        random = world.random
        self.handed = random.random() < 0.3
        self.frozen_at: int | None = None
        self.forged_release: bytes | None = None
        first = world.site.live(KEYSET_PATH.format(epoch=1, version=1), 0) or b""
        statement = read_keyset(first)
        super().__init__(
            Copies(world.site, keep),
            HOME,
            random.choice([KeysetId(1, 1, statement.digest), RootAnchor.of(statement.root)]),
            at=lambda t: at(t + offset),
            name=NAME,
            skew=world.setting.timeline.skew,
        )
        random.random()  # once drew a cache; without it every seed would be another world

    def lose_state(self, *, lock: bool) -> None:
        """Begin anew from the anchor, with or without the floors of a lock file."""
        floor = self.remembered().floor
        self.forget({NAME: floor} if lock else {})
        self.world.note(f"{self.label} loses its state{', but has a lock' if lock else ''}")

    def meet(self, t: int, card: bytes, *, theirs: bool = True) -> Report:
        """The verdict, after one more look, uncached, where the first was none to rely on.

        Args:
            t: When.
            card: As it came.
            theirs: It came from the issuer's URL, and can be asked for again there.
        """
        report = self.examine(t, card, fresh=False)
        if report.verdict != "trusted":
            if theirs and not self.handed and self.frozen_at is None:
                card = self.world.site.live(CARD, t) or card
            report = self.examine(t, card, fresh=True)
        return report

    def answer(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """What the thief shows, what was live when it was cut off, or what a cache has."""
        if self.frozen_at is not None:
            taken, body = self.frozen_at, self.world.site.live(path, self.frozen_at)
        else:
            taken, body = super().answer(path, t, fresh=fresh)
        if path == RELEASE_PATH and self.forged_release is not None:
            return -1, self.forged_release
        return taken, body

    def knows_release_of(self) -> int:
        """The number of the release in his memory; 0 for none."""
        release = self.remembered().release
        return release.seq if release else 0


def ended(world: Clockwork, t: int, clock: int) -> bool:
    """Whether what is live has ended by that clock: nobody has signed anew in time."""
    release = world.site.live(RELEASE_PATH, t) or b""
    newest = read_release(release)
    path = KEYSET_PATH.format(epoch=newest.keyset.epoch, version=newest.keyset.version)
    keyset = read_keyset(world.site.live(path, t) or b"")
    return at(clock).timestamp() >= min(newest.exp, keyset.exp)
