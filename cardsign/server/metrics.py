"""Metrics for Prometheus, where they are asked for: around the application, in every worker.

Counters live in files that all workers share (the multiprocess mode of prometheus-client), so that
any worker answers for all. What is served is asked of the worker that answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from cardsign.errors import UsageFault
from cardsign.server.answers import HEALTH_PATH, READY_PATH
from cardsign.server.host import Host
from cardsign.server.live import PAGE_PATH
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, STATEMENTS_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

METRICS_PATH: Final = "/metrics"
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


def check_installed() -> None:
    """Refuse to begin without prometheus-client.

    Raises:
        UsageFault: ``usage.not_installed``.
    """
    if find_spec("prometheus_client") is None:  # which the workers import, once FOLDER is set
        raise UsageFault(
            "usage.not_installed",
            "metrics need prometheus-client, which is not installed",
            hint="Install it: pip install 'cardsign[metrics]'.",
        )


class Metrics:
    """An application that counts its answers, and tells the counts at ``/metrics``.

    No label holds what a client chose: a route is one of eight names, and agents are the host's.

    Args:
        application: What answers.
        host: What is served.
    """

    def __init__(self, application: WSGIApplication, host: Host) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._application = application
        self._host = host
        registry = CollectorRegistry()
        self._requests = Counter(
            "cardsign_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "cardsign_request_seconds", "Time to answer.", buckets=_BUCKETS, registry=registry
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer and count, or tell."""
        if environ["PATH_INFO"] == METRICS_PATH and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._told(environ, start_response)
        began = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            self._requests.labels(_route(environ), status[:3]).inc()
            return start_response(status, headers, *rest)

        chunks = self._application(environ, start)
        self._seconds.observe(time.perf_counter() - began)
        return chunks

    def _told(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        registry.register(_Served(self._host))
        body = generate_latest(registry)
        headers = [
            ("Content-Type", CONTENT_TYPE_LATEST),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ]
        start_response("200 OK", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


class _Served:
    """What is served now, and what is wrong with it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def collect(self) -> Iterator[Any]:
        """Three gauges, by agent; the only agent has no name."""
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
        for name, live in self._host.agents.items():
            live.look()
            number.add_metric([name], live.generation.number)
            published.add_metric([name], live.generation.published_at.timestamp())
            problems.add_metric([name], live.problem_count)
        for name in self._host.broken:
            problems.add_metric([name], 1)
        yield from (number, published, problems)


def _route(environ: WSGIEnvironment) -> str:
    path = environ["PATH_INFO"]
    _, found, rest = path.partition("/.well-known/")
    path = found + rest or path
    if path.startswith(STATEMENTS_PATH):
        return "statement"
    if environ["REQUEST_METHOD"] == "POST":
        return "rpc"
    is_extended = path.endswith(("/extendedAgentCard", "/authenticatedExtendedCard", "/v1/card"))
    return "extended" if is_extended else _ROUTES.get(path, "other")
