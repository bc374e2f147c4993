"""The generation that is being served, exchanged for a newer one as it is published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cardsign.errors import CardsignError
from cardsign.publish.generation import CURRENT_FILE, Generation, load_current
from cardsign.server.snapshot import Snapshot

#: Seconds between two looks at `current`: one stat call, at most, per second.
POLL_SECONDS: Final = 1.0


class LiveGeneration:
    """Holds a generation in memory and looks, when asked, whether there is a newer one.

    Whatever is wrong with a newer one, the last good one stays; a lower one is never taken,
    since a server that goes back revives withdrawn cards and keys.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Callable[[], float],
        log: Callable[[str], None],
        check: Callable[[Snapshot], Iterable[str]] = lambda _: (),
    ) -> None:
        """Load the newest generation.

        Args:
            directory: The publication directory.
            clock: Seconds, monotonic.
            log: Takes a line for the operator.
            check: Looks at each generation that is taken up, the first one too, and says what
                the operator should know of it.

        Raises:
            ServeFault, FileFault: As :func:`cardsign.publish.generation.load_current`.
            JsonRefused: The published card is not strict JSON.
        """
        self._directory = directory
        self._clock = clock
        self._log = log
        self._check = check
        self._complaint = ""
        self._looking = threading.Lock()
        self._stamp = self._current_stamp()
        self._generation = load_current(directory)
        self._snapshot = Snapshot.of(self._generation)
        self._looked_at = clock()
        self._warn()

    def snapshot(self) -> Snapshot:
        """What is to be served now."""
        is_due = self._clock() - self._looked_at >= POLL_SECONDS
        if is_due and self._looking.acquire(blocking=False):
            try:
                self._looked_at = self._clock()
                self._look()
            finally:
                self._looking.release()
        return self._snapshot

    def _look(self) -> None:
        stamp = self._current_stamp()
        if stamp is not None and stamp == self._stamp:
            return
        try:
            self._take(load_current(self._directory))
        except CardsignError as exc:
            self._complain(str(exc))
        else:
            self._stamp = stamp

    def _take(self, generation: Generation) -> None:
        held = self._generation
        if generation.number > held.number:
            self._snapshot = Snapshot.of(generation)
            self._generation = generation
            self._complaint = ""
            self._log(f"serving generation {generation.number}")
            self._warn()
        elif generation.number < held.number:
            self._complain(f"generation {generation.number} is lower and is refused")
        elif generation.files != held.files:
            self._complain(f"there is another generation {held.number} now")

    def _warn(self) -> None:
        for line in self._check(self._snapshot):
            self._log(f"warning: {line}")

    def _complain(self, problem: str) -> None:
        if problem != self._complaint:
            self._complaint = problem
            self._log(f"still serving generation {self._generation.number}: {problem}")

    def _current_stamp(self) -> tuple[int, int, int] | None:
        """What changes when `current` is replaced; None where it cannot be seen."""
        try:
            status = (self._directory / CURRENT_FILE).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
