"""Places for what may take long, so that every other request finds a thread."""

from __future__ import annotations

from threading import BoundedSemaphore
from typing import Final

from werkzeug.exceptions import ServiceUnavailable

RETRY_SECONDS: Final = 5  # after which it is worth trying again


class Busy(ServiceUnavailable):
    """All places are taken."""

    def __init__(self) -> None:
        super().__init__("too many requests wait; try again later", retry_after=RETRY_SECONDS)


class Places:
    """How many requests may wait at a time for slow bodies, or for other hosts: ``with places:``.

    That is a quarter of the threads. Nobody waits for a place: who finds none gets
    :class:`Busy`, and is told to come back.

    Args:
        threads: Requests that are answered at a time.
    """

    def __init__(self, threads: int) -> None:
        self._free = BoundedSemaphore(max(1, threads // 4))

    def __enter__(self) -> None:
        if not self._free.acquire(blocking=False):
            raise Busy

    def __exit__(self, *_: object) -> None:
        self._free.release()
