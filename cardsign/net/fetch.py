"""Asking a stranger for one JSON document, safely: the right host, in bounded time and size.

One GET, over https, to a public address, without redirects, proxies, cookies or credentials.
What comes back is still the stranger's: nothing here looks into it.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Final

import httpcore

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import CardRefused, FetchFailed
from cardsign.net.addresses import Loopback, Resolver, resolve, system_resolver
from cardsign.net.transport import Clock, Deadline, Dial, PinnedBackend, tcp_dial
from cardsign.trust.origins import Url, parse_url

CONNECT_SECONDS: Final = 5.0  # for the name, for each address, and for TLS: twice a slow network
TOTAL_SECONDS: Final = 10.0  # for all of it: as long as somebody at a terminal will wait
MAX_HOST_LENGTH: Final = 253  # characters; DNS knows no longer name (RFC 1035 2.3.4)

CARD_PATH: Final = "/.well-known/agent-card.json"  # A2A 1.0 8.2
LEGACY_CARD_PATH: Final = "/.well-known/agent.json"  # A2A up to 0.2

_JSON_TYPE: Final = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]{1,120}\+)?json")
_REDIRECT_HINT: Final = "Redirects are not followed; give the address at which the card lies."


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What a fetch may cost, and the one exception for test servers.

    Attributes:
        connect_timeout: Seconds for each of: the name, one address, the TLS handshake.
        total_timeout: Seconds for everything, the last byte of the body included.
        max_bytes: Of the body.
        insecure_loopback_http: Also ask this machine's own addresses, over plain http too.
            No other private address becomes reachable.
    """

    connect_timeout: float = CONNECT_SECONDS
    total_timeout: float = TOTAL_SECONDS
    max_bytes: int = MAX_CARD_BYTES
    insecure_loopback_http: bool = False


DEFAULT_POLICY: Final = FetchPolicy()


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer.

    Attributes:
        url: The URL that was asked, in its normal form.
        status: The HTTP status; always 200.
        body: The bytes as received: untrusted, and maybe no JSON at all.
        content_type: The media type in lower case, without parameters.
        address: The address that was connected to.
    """

    url: str
    status: int
    body: bytes = field(repr=False)
    content_type: str
    address: str


def fetch(
    url: str,
    *,
    policy: FetchPolicy = DEFAULT_POLICY,
    resolver: Resolver = system_resolver,
    clock: Clock = time.monotonic,
    ssl_context: ssl.SSLContext | None = None,
    dial: Dial = tcp_dial,
) -> Fetched:
    """Ask for exactly this URL.

    Args:
        url: Inside the grammar of :func:`cardsign.trust.origins.parse_url`.
        policy: Limits.
        resolver: Turns the host's name into addresses; called at most once.
        clock: Monotonic seconds, for the deadline.
        ssl_context: Instead of the system's trust store; must check names.
        dial: Opens the connection.

    Raises:
        FetchFailed: ``fetch.url``; ``fetch.forbidden_address`` (nothing was connected);
            ``fetch.timeout``; ``fetch.tls``; ``fetch.failed`` (no name, no connection, no
            HTTP); ``fetch.status`` (not 200); ``fetch.content_type`` (not declared as JSON);
            ``fetch.encoding`` (compressed); ``fetch.too_large``.
    """
    target = _target(url, policy)
    end = Deadline(clock, policy.total_timeout)
    return _Asking(policy, resolver, _trusting(ssl_context), dial, end).get(target)


def fetch_card(
    url: str,
    *,
    policy: FetchPolicy = DEFAULT_POLICY,
    resolver: Resolver = system_resolver,
    clock: Clock = time.monotonic,
    ssl_context: ssl.SSLContext | None = None,
    dial: Dial = tcp_dial,
) -> Fetched:
    """Ask for the card at a URL, or for the card of a host.

    A URL with a path or query is asked as it is. One without is asked for the canonical path
    (A2A 1.0 8.2), and only if that answers 404 for the legacy one; ``Fetched.url`` tells
    which. `policy.total_timeout` is for both together.

    Args:
        url: As for :func:`fetch`, and so for the rest.
        policy: Limits.
        resolver: Called at most once for each path.
        clock: Monotonic seconds, for the deadline.
        ssl_context: Instead of the system's trust store.
        dial: Opens the connections.

    Raises:
        FetchFailed: As :func:`fetch`.
    """
    target = _target(url, policy)
    end = Deadline(clock, policy.total_timeout)
    asking = _Asking(policy, resolver, _trusting(ssl_context), dial, end)
    if target.path != "/" or target.query:
        return asking.get(target)
    try:
        return asking.get(replace(target, path=CARD_PATH))
    except _NotFound:
        pass
    try:
        return asking.get(replace(target, path=LEGACY_CARD_PATH))
    except _NotFound as exc:
        message = f"{target.origin} answered 404 for {CARD_PATH} and for {LEGACY_CARD_PATH}"
        hint = "Give the URL of the card itself."
        raise FetchFailed("fetch.status", message, hint=hint) from exc


class _NotFound(FetchFailed):
    """The peer answered 404; the only answer after which another path is tried."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the requests of one call share, the deadline above all."""

    policy: FetchPolicy
    resolver: Resolver
    ssl_context: ssl.SSLContext
    dial: Dial
    end: Deadline

    def get(self, url: Url) -> Fetched:
        with _foreign_errors(url, self.policy), contextlib.ExitStack() as held:
            backend = self._backend(url)
            pool = httpcore.ConnectionPool(self.ssl_context, network_backend=backend)
            response = held.enter_context(
                held.enter_context(pool).stream("GET", _request_url(url), headers=_headers(url))
            )
            _check_status(response.status, url)
            content_type = _content_type(response, url)
            body = _body(response, url, self.policy.max_bytes)
        return Fetched(str(url), response.status, body, content_type, str(backend.address))

    def _backend(self, url: Url) -> PinnedBackend:
        limit = self.policy.connect_timeout
        loopback: Loopback = "allowed" if self.policy.insecure_loopback_http else "refused"
        addresses = resolve(
            url.origin.host,
            resolver=self.resolver,
            timeout=self.end.remaining(limit),
            loopback="required" if url.origin.scheme == "http" else loopback,
        )
        return PinnedBackend(addresses, dial=self.dial, connect_timeout=limit, end=self.end)


def _target(untrusted_url: str, policy: FetchPolicy) -> Url:
    try:
        url = parse_url(untrusted_url)
    except CardRefused as exc:
        raise FetchFailed("fetch.url", exc.message) from exc
    if len(url.origin.host) > MAX_HOST_LENGTH:
        raise FetchFailed("fetch.url", f"the host is longer than {MAX_HOST_LENGTH} characters")
    if url.origin.scheme == "http" and not policy.insecure_loopback_http:
        hint = "Use https; for a test server on this machine: --insecure-loopback-http."
        raise FetchFailed("fetch.url", f"{url} would be asked over plain http", hint=hint)
    return url


def _trusting(given: ssl.SSLContext | None) -> ssl.SSLContext:
    context = ssl.create_default_context() if given is None else given
    if not context.check_hostname:  # which in turn cannot be without checking certificates
        raise FetchFailed("fetch.tls", "the TLS context does not check names")
    return context


@contextlib.contextmanager
def _foreign_errors(url: Url, policy: FetchPolicy) -> Iterator[None]:
    """Convert what httpcore, TLS and the operating system raise; never quotes the peer."""
    try:
        yield
    except TimeoutError as exc:
        limits = f"{policy.connect_timeout:g} s to connect, {policy.total_timeout:g} s in all"
        raise FetchFailed("fetch.timeout", f"{url} did not answer in time ({limits})") from exc
    except ssl.SSLError as exc:
        message = f"{url.origin} could not be reached over TLS: {_tls_words(exc)}"
        raise FetchFailed("fetch.tls", message) from exc
    except OSError as exc:
        reason = exc.strerror or "no reason was given"
        raise FetchFailed("fetch.failed", f"{url} could not be asked: {reason}") from exc
    except httpcore.ProtocolError as exc:  # its text holds what the peer sent
        raise FetchFailed("fetch.failed", f"{url} gave an answer that is no HTTP/1.1") from exc


def _tls_words(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return exc.verify_message.rstrip(".")
    return (exc.reason or "the handshake failed").replace("_", " ").lower()


def _request_url(url: Url) -> httpcore.URL:
    origin = url.origin
    return httpcore.URL(
        scheme=origin.scheme,
        host=origin.host.strip("[]"),
        port=origin.port,
        target=url.path + url.query,
    )


def _headers(url: Url) -> list[tuple[bytes | str, bytes | str]]:
    """All that the peer learns of us."""
    return [
        ("Host", str(url.origin).partition("://")[2]),
        ("Accept", "application/json, application/*+json"),
        ("Accept-Encoding", "identity"),  # so that the limit on bytes is one on content
        ("Connection", "close"),
        ("User-Agent", _user_agent()),
    ]


def _user_agent() -> str:
    try:
        return f"cardsign/{metadata.version('cardsign')}"
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "cardsign"


def _check_status(status: int, url: Url) -> None:
    if status == 200:
        return
    kind = _NotFound if status == 404 else FetchFailed
    hint = _REDIRECT_HINT if 300 <= status < 400 else ""
    raise kind("fetch.status", f"{url} answered {status} instead of 200", hint=hint)


def _content_type(response: httpcore.Response, url: Url) -> str:
    """The media type, if it is JSON's and nothing has to be decoded first."""
    encodings = _values(response, "content-encoding")
    if any(encoding.lower() != "identity" for encoding in encodings):
        message = f"{url} sent a compressed answer although none was asked for"
        raise FetchFailed("fetch.encoding", message)
    types = [value.partition(";")[0].strip().lower() for value in _values(response, "content-type")]
    if len(types) != 1 or not _JSON_TYPE.fullmatch(types[0]):
        message = f"{url} did not declare its answer as application/json or application/*+json"
        raise FetchFailed("fetch.content_type", message)
    return types[0]


def _body(response: httpcore.Response, url: Url, limit: int) -> bytes:
    """The body, given up as soon as its length is known to exceed `limit`."""
    too_large = FetchFailed("fetch.too_large", f"{url} answered more than {limit} bytes")
    if any(int(length) > limit for length in _values(response, "content-length")):
        raise too_large
    body = bytearray()
    for chunk in response.iter_stream():
        body += chunk
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _values(response: httpcore.Response, name: str) -> list[str]:
    """Each value of a header; h11 has made sure that a Content-Length is a number."""
    return [
        value.decode("latin-1").strip()
        for header, value in response.headers
        if header.decode("latin-1").lower() == name
    ]
