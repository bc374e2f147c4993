"""How often one client may ask, and the log of who asked: around the application, when asked for.

A limit that cannot be counted, since its storage gives no answer, lets everybody in: the public
card must not depend on it.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cardsign.errors import UsageFault
from cardsign.server.answers import HEALTH_PATH, READY_PATH, error_response
from cardsign.server.events import to_stderr
from cardsign.server.providers.base import RETRY_SECONDS, address_of, in_networks
from cardsign.server.settings import ServerSettings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

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


class Traffic:
    """An application with a rate limit and an access log, as far as the settings ask for them.

    Probes are neither limited nor logged. The log holds no header, no query and no body.

    Args:
        application: What answers.
        settings: Its `rate`, `rate_storage`, `access_log` and `proxies`.
        now: Unix seconds.
        log: Takes a line for the operator.
        access: Takes a line of the access log: one JSON object.
    """

    def __init__(
        self,
        application: WSGIApplication,
        settings: ServerSettings,
        *,
        now: Callable[[], float],
        log: Callable[[str], None] = to_stderr,
        access: Callable[[str], None],
    ) -> None:
        self._application = application
        self._settings = settings
        self._now = now
        self._access = access
        self._limit = (
            RateLimit(settings.rate, settings.rate_storage, log) if settings.rate else None
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer, or refuse a client that asks too often."""
        if environ["PATH_INFO"] in (HEALTH_PATH, READY_PATH):
            return self._application(environ, start_response)
        client, started = client_of(environ, self._settings.proxies), self._now()
        application, told = self._application, list[str]()
        if self._limit and (seconds := self._limit.wait(client, started)) is not None:
            later = ("Retry-After", str(seconds))
            application = error_response(429, "too many requests; try again later", later)

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            told.append(status)
            return start_response(status, headers, *rest)

        chunks = application(environ, start)
        if self._settings.access_log:
            body = b"".join(chunks)  # of ours alone: no stream is behind it
            self._access(_line(environ, client, told[-1], len(body), started, self._now()))
            return [body]
        return chunks


def client_of(environ: WSGIEnvironment, proxies: tuple[str, ...]) -> str:
    """The address that a request comes from; what a client says of itself counts for nothing.

    Args:
        environ: The request.
        proxies: The networks of proxies in front, whose ``X-Forwarded-For`` counts.
    """
    address: str = environ.get("REMOTE_ADDR", "")
    said = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
    while in_networks(address, proxies) and said and (before := said.pop().strip()):
        address = _PORT.sub(r"\1", before).strip("[]")
    found = address_of(address)
    if found is None:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, _PREFIX), strict=False))
    return str(found)


def _line(
    environ: WSGIEnvironment, client: str, status: str, size: int, started: float, now: float
) -> str:
    path = (environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"])[:MAX_SHOWN]
    return json.dumps(
        {
            "time": datetime.fromtimestamp(started, UTC).isoformat(timespec="milliseconds"),
            "client": client,
            "method": environ["REQUEST_METHOD"],
            "path": path,
            "status": int(status[:3]),
            "bytes": size,
            "ms": round((now - started) * 1000, 1),
        },
        separators=(",", ":"),
    )
