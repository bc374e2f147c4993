"""What an issuer's site shows at each moment, and the caches between it and a verifier.

A moment is a number of seconds since any beginning; nobody here asks a clock.
"""

from __future__ import annotations

from bisect import bisect_right


class Site:
    """What is live at each path at each moment; the past can be asked for, as a cache would."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[list[int], list[bytes]]] = {}

    def show(self, path: str, body: bytes, since: int) -> bool:
        """Put a document up; whether that changes anything."""
        times, bodies = self._shown.setdefault(path, ([], []))
        if bodies and bodies[-1] == body:
            return False
        times.append(since)
        bodies.append(body)
        return True

    def live(self, path: str, when: int) -> bytes | None:
        """What an answer of that moment holds."""
        times, bodies = self._shown.get(path, ([], []))
        index = bisect_right(times, when)
        return bodies[index - 1] if index else None


class Copies:
    """A cache for each path, between one verifier and the site; an absence is kept as well."""

    def __init__(self, site: Site, keep: int) -> None:
        self.site, self.keep = site, keep
        self._held: dict[str, tuple[int, bytes | None]] = {}

    def get(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """An answer, and of when it is."""
        held = self._held.get(path)
        if held is None or fresh or t - held[0] >= self.keep:
            held = self._held[path] = (t, self.site.live(path, t))
        return held
