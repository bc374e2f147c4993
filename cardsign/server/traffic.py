"""How often one client may ask, and the log of who asked: beside the answers, when asked for.

A limit that cannot be counted, since its storage gives no answer, lets everybody in: the public
card must not depend on it.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from asyncio import to_thread
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from cardsign.errors import UsageFault
from cardsign.server.answers import HEALTH_PATH, METRICS_PATH, READY_PATH, Answer, error_answer
from cardsign.server.events import to_log, to_stderr
from cardsign.server.providers.base import RETRY_SECONDS, address_of, in_networks
from cardsign.server.rsgi import address_in
from cardsign.server.settings import ServerSettings

MAX_SHOWN: Final = 256  # characters of a path in the log
STORAGE_SECONDS: Final = 0.25  # for one answer of a storage elsewhere: every request waits for it
#: Counters in this process, one for each client and rate: `limits` never drops one by itself.
MAX_COUNTERS: Final = 16 * 1024
#: Some proxies write the port behind the address, as URLs do.
_PORT: Final = re.compile(r"^([0-9.]+|\[[^\]]*\]):[0-9]+$")
_PREFIX: Final = 64  # bits of an IPv6 address that one client has


class RateLimit:
    """So many requests of one client in a time, by the library `limits`.

    In this process :data:`MAX_COUNTERS` are kept; after that, counting begins anew.

    Args:
        rate: ``100/minute``, or several with ``;`` between.
        storage: ``memory://`` for this process, or ``redis://host:6379`` for several.
        log: Takes a line for the operator.

    Raises:
        UsageFault: ``config.malformed``: no rate, or no storage that can be used.
    """

    def __init__(self, rate: str, storage: str, log: Callable[[str], None]) -> None:
        import limits
        from limits.errors import StorageError

        self._unanswered = StorageError
        self._log = log
        self._failed_at = -math.inf
        self._in_process = limits.storage.MemoryStorage
        options: dict[str, Any] = {}
        if not storage.startswith("memory:"):
            options = {
                "socket_timeout": STORAGE_SECONDS,
                "socket_connect_timeout": STORAGE_SECONDS,
            }

        def begin() -> limits.strategies.RateLimiter:
            held = limits.storage.storage_from_string(storage, wrap_exceptions=True, **options)
            return limits.strategies.MovingWindowRateLimiter(held)

        self._begin = begin
        try:
            self._rates = limits.parse_many(rate)
        except ValueError as exc:
            raise _bad("rate", rate, exc, "100/minute") from exc
        try:
            self._window = begin()
        except limits.errors.ConfigurationError as exc:
            raise _bad("rate_storage", storage, exc, "redis://HOST:6379") from exc

    def wait(self, client: str, now: float) -> int | None:
        """Seconds after which a client may ask again; None if it may now."""
        if 0 <= now - self._failed_at < RETRY_SECONDS:
            return None
        held = self._window.storage
        if isinstance(held, self._in_process) and len(held.events) >= MAX_COUNTERS:
            # Who has so many addresses gains nothing by it; refusing new clients would harm others.
            self._window = self._begin()
            self._log(f"rate limits are counted anew after {MAX_COUNTERS} counters")
        try:
            for rate in self._rates:
                if not self._window.hit(rate, client):
                    end = self._window.get_window_stats(rate, client).reset_time
                    return max(1, math.ceil(end - now))
        except self._unanswered as exc:
            self._failed_at = now
            self._log(f"rate limits are not counted: {type(exc.__cause__ or exc).__name__}")
        return None


def _bad(setting: str, value: str, cause: Exception, right: str) -> UsageFault:
    problem = f"{setting} = {value!r}: {cause}"
    return UsageFault("config.malformed", problem, hint=f'For example {setting} = "{right}".')


class RateGate:
    """Refuses a client that asks too often, before anything is done for it; never a probe.

    Args:
        settings: Its `rate`, `rate_storage` and `proxies`, and which probes are on.
        now: Unix seconds.
        log: Takes a line for the operator.

    Raises:
        UsageFault: As :class:`RateLimit`.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        now: Callable[[], float],
        log: Callable[[str], None] = to_stderr,
    ) -> None:
        self._limit = RateLimit(settings.rate, settings.rate_storage, log)
        self._is_here = settings.rate_storage.startswith("memory:")
        self._settings = settings
        self._now = now

    async def __call__(self, scope: Any) -> Answer | None:
        """The refusal, if it is one; a storage elsewhere is waited for in a thread."""
        if _is_probe(scope, self._settings):
            return None
        wait, now = self._limit.wait, self._now()
        client = client_of(scope, self._settings.proxies)
        seconds = wait(client, now) if self._is_here else await to_thread(wait, client, now)
        if seconds is None:
            return None
        later = ("Retry-After", str(seconds))
        return error_answer(429, "too many requests; try again later", later)


class AccessLog:
    """Writes who asked, and what was answered: no header, no query, no body, and no probe.

    Args:
        settings: Its `proxies`, and which probes are on.
        now: Unix seconds.
        write: Takes a line: one JSON object.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        now: Callable[[], float],
        write: Callable[[str], None] = to_log,
    ) -> None:
        self._settings = settings
        self._now = now
        self._write = write

    def __call__(self, scope: Any, answer: Answer, seconds: float) -> None:
        """Write the line of one answer."""
        if _is_probe(scope, self._settings):
            return
        began = datetime.fromtimestamp(self._now() - seconds, UTC)
        line = {
            "time": began.isoformat(timespec="milliseconds"),
            "client": client_of(scope, self._settings.proxies),
            "method": scope.method,
            "path": scope.path[:MAX_SHOWN],
            "status": answer.status,
            "bytes": len(answer.body),
            "ms": round(seconds * 1000, 1),
        }
        self._write(json.dumps(line, separators=(",", ":")))


def _is_probe(scope: Any, settings: ServerSettings) -> bool:
    """Whether a machine of the operator asks, which is neither limited nor logged.

    A card may name the same path as its interface, so no other method passes.
    """
    if scope.method not in ("GET", "HEAD"):
        return False
    if scope.path == METRICS_PATH:
        return settings.metrics
    return settings.health and scope.path in (HEALTH_PATH, READY_PATH)


def client_of(scope: Any, proxies: tuple[str, ...]) -> str:
    """The address that a request comes from; what a client says of itself counts for nothing.

    Args:
        scope: The request, as RSGI has it.
        proxies: The networks of proxies in front, whose ``X-Forwarded-For`` counts.
    """
    address: str = address_in(scope)
    if in_networks(address, proxies):
        said = ",".join(scope.headers.get_all("x-forwarded-for")).split(",")
        while in_networks(address, proxies) and said and (before := said.pop().strip()):
            address = _PORT.sub(r"\1", before).strip("[]")
    found = address_of(address)
    if found is None:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, _PREFIX), strict=False))
    return str(found)
