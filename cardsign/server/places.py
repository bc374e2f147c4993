"""Places for what may take long, so that every other request finds a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Final

RETRY_SECONDS: Final = 5  # after which it is worth trying again


class Busy(Exception):
    """All places are taken."""


class Places:
    """How many requests may wait at a time: a quarter of the threads for bodies, and for hosts.

    Nobody waits for a place: who finds none is told to come back.

    Args:
        threads: Requests that are answered at a time.
    """

    def __init__(self, threads: int) -> None:
        self._bodies = BoundedSemaphore(max(1, threads // 4))
        self._hosts = BoundedSemaphore(max(1, threads // 4))

    @contextmanager
    def read_body(self) -> Iterator[None]:
        """Hold a place while a body is read, which its sender may do slowly.

        Raises:
            Busy: There is none.
        """
        with _take(self._bodies):
            yield

    @contextmanager
    def ask_host(self) -> Iterator[None]:
        """Hold a place while another host is asked, or while waiting for its answer.

        Raises:
            Busy: There is none.
        """
        with _take(self._hosts):
            yield


@contextmanager
def _take(semaphore: BoundedSemaphore) -> Iterator[None]:
    if not semaphore.acquire(blocking=False):
        raise Busy("too many requests wait already")
    try:
        yield
    finally:
        semaphore.release()
