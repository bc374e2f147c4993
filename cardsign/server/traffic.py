"""How often one client may ask, the log of who asked, and metrics for Prometheus.

Each is off unless asked for. A limit that cannot be counted where it should be, since its storage
gives no answer, is counted by each process: the public card must not depend on Redis. Counters of
metrics lie in files that all workers share (the multiprocess mode of prometheus-client), so that
any worker answers for all. What is served is asked of the worker that answers.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from flask import Flask, Response, request
from pydantic import IPvAnyNetwork
from werkzeug.exceptions import TooManyRequests

from cardsign.server.a2a import NO_STORE, answer_http_error
from cardsign.server.providers import in_networks, parse_address
from cardsign.server.settings import ServerSettings

if TYPE_CHECKING:
    from cardsign.server.site import Publications

log = logging.getLogger(__name__)

MAX_SHOWN: Final = 256  # characters of a path in the log
STORAGE_SECONDS: Final = 0.25  # for one answer of a storage elsewhere: a request waits for it
#: Counters in this process, one for each client and rate.
MAX_COUNTERS: Final = 16 * 1024
#: Some proxies write the port behind the address, as URLs do.
_PORT: Final = re.compile(r"^([0-9.]+|\[[^\]]*\]):[0-9]+$")
_PREFIX: Final = 64  # bits of an IPv6 address that one client has


def limit_rate(app: Flask, settings: ServerSettings) -> None:
    """Refuse who asks too often, before anything else is done; probes do not count."""
    from flask_limiter import Limiter
    from limits.storage import MemoryStorage

    def find_client() -> str:
        return find_address(
            request.remote_addr or "", request.headers.get("X-Forwarded-For", ""), settings.proxies
        )

    limiter = Limiter(
        find_client,
        app=app,
        application_limits=[settings.rate],
        application_limits_exempt_when=is_probe,
        storage_uri=settings.rate_storage,
        storage_options={
            "socket_timeout": STORAGE_SECONDS,  # type: ignore[dict-item]
            "socket_connect_timeout": STORAGE_SECONDS,  # type: ignore[dict-item]
        },
        in_memory_fallback_enabled=True,
        swallow_errors=True,  # of requests that were under way when the storage went
    )

    def bound_counters() -> None:
        # Who has so many addresses gains nothing by it; refusing new clients would harm others.
        storage = limiter.storage
        if isinstance(storage, MemoryStorage) and len(storage.storage) >= MAX_COUNTERS:
            storage.reset()
            log.warning("rate limits are counted anew after %d counters", MAX_COUNTERS)

    def answer_too_many(error: TooManyRequests) -> Response:
        response = answer_http_error(TooManyRequests("too many requests; try again later"))
        limit = limiter.current_limit
        seconds = int(limit.reset_at - time.time()) + 1 if limit else 1
        response.headers["Retry-After"] = str(max(1, seconds))
        return response

    app.before_request_funcs.setdefault(None, []).insert(0, bound_counters)
    app.register_error_handler(TooManyRequests, answer_too_many)


def is_probe() -> bool:
    """Return whether a machine of the operator asks, by a method that opens nothing."""
    return request.method in ("GET", "HEAD") and request.endpoint in (
        "show_health",
        "show_readiness",
        "show_metrics",
    )


def find_address(peer: str, forwarded: str, proxies: tuple[IPvAnyNetwork, ...]) -> str:
    """Return the address that a request comes from; of IPv6 the network.

    Args:
        peer: Where the connection comes from.
        forwarded: What ``X-Forwarded-For`` says, which counts from proxies alone.
        proxies: Their networks.
    """
    address, addresses = peer, forwarded.split(",")
    while in_networks(address, proxies) and addresses and (nearer := addresses.pop().strip()):
        address = _PORT.sub(r"\1", nearer).strip("[]")
    parsed = parse_address(address)
    if parsed is None:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, _PREFIX), strict=False))
    return str(parsed)


class AccessLine(logging.Formatter):
    """Writes a line of granian's access log as JSON, which no path can forge; without the query."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one request."""
        request: Any = record.args
        line = {
            "time": request["time"],
            "client": request["addr"],
            "method": request["method"],
            "path": str(request["path"])[:MAX_SHOWN],
            "status": request["status"],
            "ms": round(request["dt_ms"], 1),
        }
        return json.dumps(line, separators=(",", ":"))


def count_requests(app: Flask, publications: Publications) -> None:
    """Count the answers of an application, and tell the counts of all workers at ``/metrics``.

    No label holds what a client chose: the endpoint is the view that answered.
    """
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        Counter,
        Histogram,
        generate_latest,
    )
    from prometheus_client.multiprocess import MultiProcessCollector

    own = CollectorRegistry()
    requests = Counter(
        "cardsign_requests", "Requests answered.", ("endpoint", "status"), registry=own
    )
    duration = Histogram("cardsign_request_seconds", "Time to answer.", registry=own)

    def begin() -> None:
        request.environ["cardsign.began"] = time.perf_counter()

    def count(response: Response) -> Response:
        if request.endpoint != "show_metrics":
            requests.labels(request.endpoint or "none", response.status_code).inc()
            duration.observe(time.perf_counter() - request.environ["cardsign.began"])
        return response

    def show_metrics() -> Response:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        registry.register(_Gauges(publications))
        return Response(
            generate_latest(registry), content_type=CONTENT_TYPE_LATEST, headers=NO_STORE
        )

    app.before_request_funcs.setdefault(None, []).insert(0, begin)
    app.after_request(count)
    app.add_url_rule("/metrics", view_func=show_metrics, provide_automatic_options=False)


class _Gauges:
    """What is served now, and what is wrong, by agent; the only one has no name."""

    def __init__(self, publications: Publications) -> None:
        self._publications = publications

    def collect(self) -> Iterator[Any]:
        """Yield the gauges."""
        from prometheus_client.core import GaugeMetricFamily

        def gauge(name: str, meaning: str, values: Mapping[str, float]) -> Any:
            family = GaugeMetricFamily(f"cardsign_{name}", meaning, labels=["agent"])
            for agent, value in values.items():
                family.add_metric([agent], value)
            return family

        generations = {n: a.generation for n, a in self._publications.site.agents.items()}
        numbers = {name: generation.number for name, generation in generations.items()}
        times = {name: newest.published_at.timestamp() for name, newest in generations.items()}
        counts = {name: len(lines) for name, lines in self._publications.problems.items()}
        yield gauge("generation", "The generation that is served.", numbers)
        yield gauge("published_timestamp_seconds", "When it was published.", times)
        yield gauge("problems", "What the log says is wrong with it.", counts)
