"""How often one client may ask, the log of who asked, and metrics for Prometheus.

Each is off unless asked for. A limit that cannot be counted, since its storage
gives no answer, lets everybody in: the public card must not depend on it. Counters live in files
that all workers share (the multiprocess mode of prometheus-client), so that any worker answers
for all. What is served is asked of the worker that answers.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
import time
from asyncio import to_thread
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from cardsign.errors import UsageFault
from cardsign.server.answers import (
    HEALTH_PATH,
    METRICS_PATH,
    READY_PATH,
    UNCACHED,
    Answer,
    error_answer,
)
from cardsign.server.events import to_log, to_stderr
from cardsign.server.host import Host
from cardsign.server.live import PAGE_PATH, look_at_all
from cardsign.server.providers import RETRY_SECONDS, address_of, in_networks
from cardsign.server.settings import ServerSettings
from cardsign.times import utc
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, STATEMENTS_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MAX_SHOWN: Final = 256  # characters of a path in the log
STORAGE_SECONDS: Final = 0.25  # for one answer of a storage elsewhere: every request waits for it
#: Counters in this process, one for each client and rate: `limits` never drops one by itself.
MAX_COUNTERS: Final = 16 * 1024
#: Some proxies write the port behind the address, as URLs do.
_PORT: Final = re.compile(r"^([0-9.]+|\[[^\]]*\]):[0-9]+$")
_PREFIX: Final = 64  # bits of an IPv6 address that one client has


class RateLimit:
    """So many requests of one client in a time, by the library `limits`; probes do not count.

    In this process :data:`MAX_COUNTERS` are kept; after that, counting begins anew.

    Args:
        settings: Its `rate`, `rate_storage` and `proxies`, and which probes are on.
        now: Unix seconds.
        log: Takes a line for the operator.

    Raises:
        UsageFault: ``config.malformed``: no rate, or no storage that can be used.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        now: Callable[[], float] = time.time,
        log: Callable[[str], None] = to_stderr,
    ) -> None:
        import limits
        from limits.errors import StorageError

        rate, storage = settings.rate, settings.rate_storage
        self._settings, self._now, self._log = settings, now, log
        self._unanswered = StorageError
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

    async def refuse(self, scope: Any) -> Answer | None:
        """Return the refusal of a request, if it is one too many, before anything is done for it.

        A storage elsewhere is waited for in a thread.
        """
        if _is_probe(scope, self._settings):
            return None
        client = client_of(scope, self._settings.proxies)
        is_here = self._settings.rate_storage.startswith("memory:")
        seconds = self.wait(client) if is_here else await to_thread(self.wait, client)
        if seconds is None:
            return None
        later = ("Retry-After", str(seconds))
        return error_answer(429, "too many requests; try again later", later)

    def wait(self, client: str) -> int | None:
        """Return the seconds after which a client may ask again; None if it may now."""
        now = self._now()
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


def log_answer(
    settings: ServerSettings,
    scope: Any,
    answer: Answer,
    seconds: float,
    *,
    now: Callable[[], float] = time.time,
    write: Callable[[str], None] = to_log,
) -> None:
    """Write who asked, and what was answered: no header, no query, no body, and no probe.

    Args:
        settings: Its `proxies`, and which probes are on.
        scope: The request, as RSGI has it.
        answer: What was answered.
        seconds: How long that took.
        now: Unix seconds.
        write: Takes a line: one JSON object.
    """
    if _is_probe(scope, settings):
        return
    line = {
        "time": utc(now() - seconds).isoformat(timespec="milliseconds"),
        "client": client_of(scope, settings.proxies),
        "method": scope.method,
        "path": scope.path[:MAX_SHOWN],
        "status": answer.status,
        "bytes": len(answer.body),
        "ms": round(seconds * 1000, 1),
    }
    write(json.dumps(line, separators=(",", ":")))


def _is_probe(scope: Any, settings: ServerSettings) -> bool:
    """Whether a machine of the operator asks, which is neither limited nor logged.

    A card may name the same path as its interface, so no other method passes.
    """
    if scope.method not in ("GET", "HEAD"):
        return False
    if scope.path == METRICS_PATH:
        return settings.metrics
    return settings.health and scope.path in (HEALTH_PATH, READY_PATH)


def address_in(scope: Any) -> str:
    """The address that a request of RSGI comes from, without the port."""
    address: str = scope.client.rpartition(":")[0]
    return address.strip("[]")


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


#: Where prometheus-client keeps the counters of all workers.
FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_ROUTES: Final = {
    CARD_PATH: "card",
    LEGACY_CARD_PATH: "card",
    JWKS_PATH: "keys",
    HEALTH_PATH: "probe",
    READY_PATH: "probe",
    PAGE_PATH: "page",
}


class Metrics:
    """The answers, counted; ``/metrics`` tells the counts, all else is the host's.

    No label holds what a client chose: a route is one of eight names, and agents are the host's.

    Args:
        host: What is served.
    """

    def __init__(self, host: Host) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._host = host
        registry = CollectorRegistry()
        self._requests = Counter(
            "cardsign_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "cardsign_request_seconds", "Time to answer.", buckets=_BUCKETS, registry=registry
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Tell, or answer."""
        if environ["PATH_INFO"] == METRICS_PATH and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
            from prometheus_client.multiprocess import MultiProcessCollector

            registry = CollectorRegistry()
            MultiProcessCollector(registry)
            registry.register(self)
            body = generate_latest(registry)
            length = ("Content-Length", str(len(body)))
            headers = ("Content-Type", CONTENT_TYPE_LATEST), length, UNCACHED
            return Answer(body, 200, headers)(environ, start_response)
        return self._host(environ, start_response)

    def at_once(self, environ: WSGIEnvironment) -> Answer | None:
        """The host's, but for what is told here."""
        return None if environ["PATH_INFO"] == METRICS_PATH else self._host.at_once(environ)

    def count(self, scope: Any, answer: Answer, seconds: float) -> None:
        """Count one answer, but for those of ``/metrics`` itself."""
        if scope.path != METRICS_PATH:
            self._requests.labels(_route(scope.method, scope.path), answer.status).inc()
            self._seconds.observe(seconds)

    def collect(self) -> Iterator[Any]:
        """What is served now, and what is wrong: gauges by agent; the only one has no name."""
        from prometheus_client.core import GaugeMetricFamily

        number = GaugeMetricFamily(
            "cardsign_generation", "The generation that is served.", labels=["agent"]
        )
        published = GaugeMetricFamily(
            "cardsign_published_timestamp_seconds", "When it was published.", labels=["agent"]
        )
        problems = GaugeMetricFamily(
            "cardsign_problems", "What the log says is wrong with it.", labels=["agent"]
        )
        look_at_all(self._host.agents.values())
        for name, live in self._host.agents.items():
            number.add_metric([name], live.generation.number)
            published.add_metric([name], live.generation.published_at.timestamp())
            problems.add_metric([name], live.problem_count)
        for name in self._host.broken:
            problems.add_metric([name], 1)
        yield from (number, published, problems)


def _route(method: str, path: str) -> str:
    _, found, rest = path.partition("/.well-known/")
    path = found + rest or path
    if path.startswith(STATEMENTS_PATH):
        return "statement"
    if method == "POST":
        return "rpc"
    is_extended = path.endswith(("/extendedAgentCard", "/authenticatedExtendedCard", "/v1/card"))
    return "extended" if is_extended else _ROUTES.get(path, "other")
