"""Metrics for Prometheus, where they are asked for: beside the answers of every worker.

Counters live in files that all workers share (the multiprocess mode of prometheus-client), so that
any worker answers for all. What is served is asked of the worker that answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from cardsign.errors import UsageFault
from cardsign.server.answers import HEALTH_PATH, METRICS_PATH, READY_PATH, Answer
from cardsign.server.host import Host
from cardsign.server.live import PAGE_PATH, look_at_all
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, STATEMENTS_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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
            return self._told()(environ, start_response)
        return self._host(environ, start_response)

    def at_once(self, environ: WSGIEnvironment) -> Answer | None:
        """The host's, but for what is told here."""
        return None if environ["PATH_INFO"] == METRICS_PATH else self._host.at_once(environ)

    def count(self, scope: Any, answer: Answer, seconds: float) -> None:
        """Count one answer, but for those of ``/metrics`` itself."""
        if scope.path != METRICS_PATH:
            self._requests.labels(_route(scope.method, scope.path), answer.status).inc()
            self._seconds.observe(seconds)

    def _told(self) -> Answer:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        registry.register(_Served(self._host))
        body = generate_latest(registry)
        headers = (
            ("Content-Type", CONTENT_TYPE_LATEST),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        )
        return Answer(body, 200, headers)


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
