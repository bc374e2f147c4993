"""Rate limits and metrics, which an operator may switch on.

They surround the views of `app.py`, which know nothing of them.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections.abc import Iterable
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, Final

from flask import Flask, Response, request
from pydantic import IPvAnyNetwork
from werkzeug.exceptions import TooManyRequests

from cardsign.server.a2a import NO_STORE, answer_error
from cardsign.server.settings import ServerSettings, in_networks, parse_address
from cardsign.server.site import Publications

log = logging.getLogger(__name__)

STORAGE_SECONDS: Final = 0.25  # for one answer of a storage elsewhere: a request waits for it
_TIMEOUTS: Final = ("socket_timeout", "socket_connect_timeout")
#: Counters in this process, one for each client and rate.
MAX_COUNTERS: Final = 16 * 1024
#: Some proxies write the port behind the address, as URLs do.
_PORT: Final = re.compile(r"^([0-9.]+|\[[^\]]*\]):[0-9]+$")
_PREFIX: Final = 64  # bits of an IPv6 address that one client has
_PROBES: Final = ("show_probe", "show_metrics")


def limit_rate(app: Flask, settings: ServerSettings) -> None:
    """Refuse clients that ask too often, before anything else is done; probes do not count."""
    from flask_limiter import Limiter
    from limits.storage import MemoryStorage

    limiter = Limiter(
        lambda: find_address(
            request.remote_addr or "", request.headers.get("X-Forwarded-For", ""), settings.proxies
        ),
        app=app,
        application_limits=[settings.rate],
        application_limits_exempt_when=lambda: (
            request.method in ("GET", "HEAD") and request.endpoint in _PROBES
        ),
        storage_uri=settings.rate_storage,
        storage_options=dict.fromkeys(_TIMEOUTS, STORAGE_SECONDS),  # type: ignore[arg-type]
        in_memory_fallback_enabled=True,
        swallow_errors=True,  # of requests that were under way when the storage went
    )

    def bound_counters() -> None:
        # A client with so many addresses gains nothing; refusing new clients would harm others.
        storage = limiter.storage
        if isinstance(storage, MemoryStorage) and len(storage.storage) >= MAX_COUNTERS:
            storage.reset()
            log.warning("rate limits are counted anew after %d counters", MAX_COUNTERS)

    def answer_too_many(error: TooManyRequests) -> Response:
        limit = limiter.current_limit
        error.retry_after = max(1, int(limit.reset_at - time.time()) + 1) if limit else 1
        return answer_error(error)

    app.before_request_funcs.setdefault(None, []).insert(0, bound_counters)
    app.register_error_handler(TooManyRequests, answer_too_many)


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
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, _PREFIX), strict=False))
    return str(parsed or "unknown")


def count_requests(app: Flask, publications: Publications) -> None:
    """Count the answers of an application, and tell the counts of all workers at ``/metrics``.

    No label holds what a client chose: the endpoint is the view that answered.
    """
    import prometheus_client as prometheus
    from prometheus_client.multiprocess import MultiProcessCollector

    own = prometheus.CollectorRegistry()
    requests = prometheus.Counter(
        "cardsign_requests", "Requests answered.", ("endpoint", "status"), registry=own
    )

    def count(response: Response) -> Response:
        if request.endpoint != "show_metrics":
            requests.labels(request.endpoint or "none", response.status_code).inc()
        return response

    def show_metrics() -> Response:
        counts = MultiProcessCollector(prometheus.CollectorRegistry())
        metrics = chain(counts.collect(), make_gauges(publications))
        text = prometheus.generate_latest(SimpleNamespace(collect=lambda: metrics))
        return Response(text, content_type=prometheus.CONTENT_TYPE_LATEST, headers=NO_STORE)

    app.after_request(count)
    app.add_url_rule("/metrics", view_func=show_metrics, provide_automatic_options=False)


def make_gauges(publications: Publications) -> Iterable[Any]:
    """Return what is served now, and what is wrong, by agent; the only one has no name."""
    from prometheus_client.core import GaugeMetricFamily

    gauge = partial(GaugeMetricFamily, labels=["agent"])
    published = gauge("cardsign_published_timestamp_seconds", "When it was published.")
    problems = gauge("cardsign_problems", "What the log says is wrong with it.")
    for name, agent in publications.site.agents.items():
        published.add_metric([name], agent.generation.published_at.timestamp())
    for name, lines in publications.problems.items():
        problems.add_metric([name], len(lines))
    return published, problems
