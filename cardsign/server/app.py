"""The Flask application: a rule for each path, a view for each kind of answer.

Where a header comes from: of a public document `site.py`, of an extended card and an error
`a2a.py`, which also asks the providers of `providers.py` who gets an extended card. What is served:
the `Site` of `site.py`, which is exchanged when a publication changes; rules and views stay.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from flask import Flask, Response, abort, current_app, request
from pydantic import IPvAnyNetwork
from werkzeug import exceptions

from cardsign.publish.generation import ANY_ORIGIN, NO_SNIFF, public_headers
from cardsign.server import a2a
from cardsign.server.a2a import NO_STORE, Document, ExtendedCards
from cardsign.server.providers import take_place
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings, in_networks, parse_address
from cardsign.server.site import Publications, public_document
from cardsign.times import utc
from cardsign.urls import CARD_PATH, EXTENDED_PATH, LEGACY_CARD_PATH

log = logging.getLogger(__name__)

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")
#: In the environment of a request: whether its body was read, and what a mount refuses it with.
BODY_WAS_READ: Final = "cardsign.body_was_read"
REFUSAL: Final = "cardsign.refusal"
HEALTH_PATH: Final = "/healthz"
CATALOGUE_PATH: Final = "/a2a/agents"
#: Agents on one page of the catalogue; at most 25 MiB of the largest cards.
MAX_PAGE: Final = 100
PREFLIGHT: Final = (*ANY_ORIGIN, ("Access-Control-Allow-Headers", "*"), NO_SNIFF)
#: What is served at the root where there is no agent, if that is asked for. It has no signature,
#: so that nobody can take it for a card.
PLACEHOLDER: Final = b'{"name":"No agent","version":"0.0.0","supportedInterfaces":[],"skills":[]}'


def create_app(
    publication: Path | Publications, settings: ServerSettings = DEFAULT_SETTINGS
) -> Flask:
    """Return the application of one publication directory, or of a folder of them.

    It follows what is published, from the first request on.

    Args:
        publication: As ``cardsign publish`` writes it; or a folder of such directories, each
            named after its agent.
        settings: To whom it is served, and how; :class:`Publications` have theirs.

    Raises:
        ServeFault, FileFault, JsonRefused, UsageFault: As
            :class:`cardsign.server.site.Publications`.
    """
    if isinstance(publication, Path):
        publication = Publications(publication, settings)
    settings = publication.settings
    app = Flask("cardsign", static_folder=None)
    app.extensions["cardsign"] = publication
    app.url_map.merge_slashes = False  # which would redirect
    app.before_request(begin_request)
    app.after_request(finish_response)
    app.register_error_handler(exceptions.HTTPException, a2a.answer_error)
    add_rules(app, settings)
    if settings.rate:
        limit_rate(app, settings)
    if settings.metrics:
        count_requests(app, publication)
    return app


def add_rules(app: Flask, settings: ServerSettings) -> None:
    """Add a rule for each path; the last view looks up what the interfaces of a card name."""

    def add(rule: str, view: Callable[..., Response]) -> None:
        app.add_url_rule(rule, view_func=view, methods=METHODS, provide_automatic_options=False)

    below = settings.agent_path.rstrip("/").replace("{name}", "<agent_name>")
    add(HEALTH_PATH, show_probe)
    add("/readyz", show_probe)
    if settings.catalogue:
        add(CATALOGUE_PATH, show_catalogue)
    add("/.well-known/<path:name>", show_document)
    add(f"{below}/.well-known/<path:name>", show_document)
    add(f"{below}/<path:path>", answer_interface)
    add(f"{below}/", show_page)
    add("/", show_page)
    add("/<path:path>", answer_interface)


# Views.


def show_document(name: str, agent_name: str | None = None) -> Response:
    """Answer with a public document: card, key set, statement or OAuth metadata."""
    path = f"/.well-known/{name}"
    publications = find_publications()
    site = publications.site
    shown = site if agent_name is None else site.agents.get(agent_name)
    document = shown.documents.get(path) if shown else None
    is_card = path in (CARD_PATH, LEGACY_CARD_PATH) and agent_name is None
    if publications.settings.placeholder and is_card and not site.agents:
        document = public_document(PLACEHOLDER, public_headers("application/json", 60), None)
    if document is None:
        return answer_interface(path.removeprefix("/"), agent_name)
    sunset = publications.settings.sunset
    if path == LEGACY_CARD_PATH and sunset and utc(publications.now()).date() >= sunset:
        raise exceptions.Gone
    return answer_public(document)


def show_page(agent_name: str | None = None) -> Response:
    """Answer with the card as a page for people, if HTML is asked for."""
    publications = find_publications()
    site = publications.site
    agent = site.root if agent_name is None else site.agents.get(agent_name)
    wants_page = "text/html" in request.headers.get("Accept", "")
    is_shown = publications.settings.page and wants_page and request.method in ("GET", "HEAD")
    if agent is None or not agent.generation.card or not is_shown:
        return answer_interface("", agent_name)
    return agent.find_page(publications.now()).respond()


def answer_interface(path: str = "", agent_name: str | None = None) -> Response:
    """Answer at a path that an interface of a card names: extended card, or JSON-RPC."""
    site = find_publications().site
    # A card says whole paths; the application may be mounted below one.
    places = [request.root_path.rstrip("/") + request.path, request.path]
    agent = site.agents.get(agent_name) if agent_name else None
    if agent is not None:
        places.append(f"/{path}")
    else:
        agent = next(filter(None, map(site.find_interface, places)), None)
    if agent is None:
        raise exceptions.NotFound
    allowed = {method for method, paths in agent.paths.items() if not paths.isdisjoint(places)}
    if EXTENDED_PATH in places:  # of each agent, whatever its card names
        allowed |= {"GET", "HEAD"}
    if not allowed:
        raise exceptions.NotFound
    if request.method not in allowed:
        raise exceptions.MethodNotAllowed(valid_methods=sorted(allowed))
    if request.method == "POST":
        return answer_rpc(agent.extended)
    agent.extended.check_offer(request)  # GET (A2A 1.0 11.3)
    return agent.extended.find_card(agent.extended.authenticate(request)).respond()


def answer_rpc(extended: ExtendedCards) -> Response:
    """Answer a JSON-RPC call (A2A 1.0 9.4).

    The head of the request decides before any byte of its body is read: only a known caller can
    make the server wait for one.
    """
    try:
        audience = extended.authenticate(request)
    except a2a.A2AError:
        extended.check_offer(request)  # anybody may be told that, and it explains more
        raise
    call = a2a.parse_call(read_body())
    if "id" not in call:  # which must not be answered
        return Response(status=204)
    extended.check_offer(request)
    a2a.check_call(call)
    return a2a.answer_call(call, extended.find_card(audience).body)


def show_catalogue() -> Response:
    """Answer with the cards of all agents as signed, a page at a time."""
    limit, offset = (request.args.get(name, 0, int) for name in ("limit", "offset"))
    site = find_publications().site
    agents = [agent.generation for agent in site.agents.values() if agent.generation.card]
    first = max(offset, 0)
    shown = agents[first : first + (limit if 0 < limit < MAX_PAGE else MAX_PAGE)]
    cards = b",".join(generation.card for generation in shown)
    body = b'{"agents":[%b],"total":%d}' % (cards, len(agents))
    max_age = min((generation.max_age for generation in shown), default=0)
    newest = max((generation.published_at for generation in shown), default=None)
    return answer_public(public_document(body, public_headers("application/json", max_age), newest))


def show_probe() -> Response:
    """Answer that the process is alive, and at ``/readyz`` whether it has something to serve."""
    if request.method not in ("GET", "HEAD"):
        raise exceptions.MethodNotAllowed(valid_methods=("GET", "HEAD"))
    agents = find_publications().site.agents
    is_well = bool(agents) or request.path == HEALTH_PATH
    only = agents.get("")  # the only publication
    shown = {"generation": only.generation.number} if only else {"agents": len(agents)}
    status = {"status": "ok" if is_well else "no agent", **shown}
    return a2a.json_response(status, 200 if is_well else 503, NO_STORE)


# Parts of the views.


def find_publications() -> Publications:
    """Return what the application serves."""
    return cast(Publications, current_app.extensions["cardsign"])


def answer_public(document: Document) -> Response:
    """Answer GET, HEAD or a preflight of a public document, or refuse any other method."""
    if request.method == "OPTIONS":
        return Response(status=204, headers=[*PREFLIGHT])
    if request.method not in READ_METHODS:
        raise exceptions.MethodNotAllowed(valid_methods=READ_METHODS)
    if document.older and request.headers.get("A2A-Version", "").strip().startswith("0."):
        document = document.older
    return document.respond()


def read_body() -> bytes:
    """Return the body of a call; its sender may be slow, and takes a place meanwhile.

    Raises:
        a2a.A2AError: It says that it is too long.
        ServiceUnavailable: There is no place.
    """
    if (request.content_length or 0) > a2a.MAX_CALL_BYTES:
        raise a2a.A2AError(a2a.TOO_LARGE, a2a.TOO_LONG)
    with take_place(find_publications().bodies):
        body = request.stream.read(a2a.MAX_CALL_BYTES + 1)  # one more, to be told from the limit
    if len(body) <= a2a.MAX_CALL_BYTES:
        request.environ[BODY_WAS_READ] = True
    return body


# Before and after a request.


def begin_request() -> None:
    """Follow the publications from the first request on, since servers fork before it.

    A path that begins with two slashes is no other spelling of one, as werkzeug would have it.
    """
    find_publications().start_watching()
    if REFUSAL in request.environ:
        raise request.environ[REFUSAL]
    if request.environ["PATH_INFO"].startswith("//"):
        abort(404)


def finish_response(response: Response) -> Response:
    """Close the connection of a request whose body nobody read, rather than wait for it."""
    environ = request.environ
    if response.status_code in (204, 304):
        response.headers.pop("Content-Type", None)
    length = environ.get("CONTENT_LENGTH", "")
    has_body = length not in ("", "0") or "HTTP_TRANSFER_ENCODING" in environ
    # `serve` closes it, and of WSGI servers granian alone: it is not for an application to say
    # (PEP 3333), and waitress would answer 500.
    was_read = environ.get(BODY_WAS_READ, environ.get("SERVER_SOFTWARE") != "Granian")
    if has_body and not was_read:
        response.headers["Connection"] = "close"
    return response


# Rate limits and metrics, which an operator may switch on; the views know nothing of them.


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

    def answer_too_many(error: exceptions.TooManyRequests) -> Response:
        limit = limiter.current_limit
        error.retry_after = max(1, int(limit.reset_at - time.time()) + 1) if limit else 1
        return a2a.answer_error(error)

    app.before_request_funcs.setdefault(None, []).insert(0, bound_counters)
    app.register_error_handler(exceptions.TooManyRequests, answer_too_many)


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
        return Response(text, content_type=prometheus.CONTENT_TYPE_LATEST, headers=[*NO_STORE])

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
