"""Fetching JSON documents from hosts that nobody vouches for, in bounded time and size.

One GET over https, to a public address, without redirects, cookies or credentials. The document
is not looked into here. A :class:`DocumentFetcher` keeps answers in memory, as untrusted as they
were on arrival, for as long as ``max-age`` and its own ceiling allow.
"""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib import metadata
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

import httpcore

from cardsign import urls
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import CardRefused, FetchFailed
from cardsign.findings import Finding, cut
from cardsign.net import connection
from cardsign.trust.policy import Network, TrustedIssuer
from cardsign.trust.walk import FetchResult
from cardsign.urls import Headers, Origin, Url, parse_url

USER_AGENT: Final = f"cardsign/{metadata.version('cardsign')}"
# The only headers that are sent unasked.
_OF_US: Final = (("Accept", "application/json, application/*+json"), ("User-Agent", USER_AGENT))
TOTAL_SECONDS: Final = 10.0  # for all of it: as long as somebody at a terminal will wait

_Field: TypeAlias = tuple[bytes | str, bytes | str]

_JSON_TYPE: Final = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]{1,120}\+)?json")


def values(headers: Headers, name: str) -> list[str]:
    """Return each value of a header."""
    return [value for header, value in headers if header == name]


def check_json_type(headers: Headers, url: Url) -> None:
    """Refuse an answer that does not declare one media type, and that one JSON's.

    Raises:
        FetchFailed: ``fetch.content_type``.
    """
    media_type = ",".join(values(headers, "content-type")).partition(";")[0].strip().lower()
    if not _JSON_TYPE.fullmatch(media_type):
        message = f"{url} did not declare its answer as application/json or application/*+json"
        raise FetchFailed("fetch.content_type", message)


# How hosts are reached.


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How hosts are reached: one value, handed down to everything that asks.

    Attributes:
        total_timeout: Seconds for everything, the last byte of the body included.
        max_bytes: Of the body.
        insecure_loopback_http: Also ask this machine's own addresses, over plain http too.
            No other private address becomes reachable.
        resolver: Turns a host's name into addresses; called at most once for a connection.
        clock: Monotonic seconds, for deadlines.
        ssl_context: Instead of the system's trust store; must check names.
        dial: Opens connections, to checked addresses only.
        origins: Those for which `networks` and `proxy` hold; see :meth:`for_issuer`.
        networks: Where the hosts of these origins may be, besides public addresses.
        proxy: What is asked, by HTTP CONNECT, to connect to them; TLS goes through it to the
            origin itself. None to connect directly.
    """

    total_timeout: float = TOTAL_SECONDS
    max_bytes: int = MAX_CARD_BYTES
    insecure_loopback_http: bool = False
    resolver: connection.Resolver = connection.system_resolver
    clock: connection.Clock = time.monotonic
    ssl_context: ssl.SSLContext | None = None
    dial: connection.Dial = connection.tcp_dial
    origins: frozenset[Origin] = frozenset()
    networks: tuple[Network, ...] = ()
    proxy: Origin | None = None

    def for_issuer(self, issuer: TrustedIssuer | None) -> FetchSettings:
        """Return the same, for requests to this issuer of a policy and to no other.

        Its private networks and its proxy (E13) hold for the origins that the policy itself names
        for it. No card, statement, redirect or environment variable can add one.
        """
        if issuer is None:
            return replace(self, origins=frozenset(), networks=(), proxy=None)
        origins = {place.origin for place in issuer.places or ()}
        if isinstance(issuer.anchor, Url):
            origins.add(issuer.anchor.origin)
        networks, proxy = issuer.networks, issuer.proxy
        return replace(self, origins=frozenset(origins), networks=networks, proxy=proxy)

    def target(self, untrusted_url: str) -> Url:
        """Read a URL that may be asked.

        Raises:
            FetchFailed: ``fetch.url``.
        """
        try:
            url = parse_url(untrusted_url)
        except CardRefused as exc:
            raise FetchFailed("fetch.url", exc.message) from exc
        if url.origin.scheme == "http" and not self.insecure_loopback_http:
            hint = "Use https; for a test server on this machine: --insecure-loopback-http."
            raise FetchFailed("fetch.url", f"{url} is plain http, which others can read", hint=hint)
        return url

    def tls_context(self) -> ssl.SSLContext:
        """Return what certificates are checked against; the system's store is read every time.

        Raises:
            FetchFailed: ``fetch.tls``; the context does not check names, or there is none since
                a file that the environment names cannot be used.
        """
        try:
            context = self.ssl_context or ssl.create_default_context()
        except OSError as exc:
            message = "the files that SSLKEYLOGFILE, SSL_CERT_FILE and SSL_CERT_DIR name"
            raise FetchFailed("fetch.tls", f"{message}: {exc.strerror}") from exc
        if not context.check_hostname:  # which in turn cannot be without checking certificates
            raise FetchFailed("fetch.tls", "the TLS context does not check names")
        return context


DEFAULT_SETTINGS: Final = FetchSettings()

# One request.


class Exchange(httpcore.NetworkBackend):
    """One request and its answer: where it goes, how long it may take, how large it may be.

    It has a connection of its own. The name is looked up once, every address is checked, and the
    connection goes to these; TLS asks for the name (SNI) and holds the certificate against it.

    Args:
        settings: How the host is reached; its time for everything runs from now.
        untrusted_url: What is asked.

    Attributes:
        url: What is asked, in its normal form.
        status: Of the answer.
        headers: Of the answer, names in lower case.

    Raises:
        FetchFailed: ``fetch.url``.
    """

    def __init__(self, settings: FetchSettings, untrusted_url: str) -> None:
        self.url = settings.target(untrusted_url)
        self._end = settings.clock() + settings.total_timeout
        self._settings = settings
        self._stream: connection.DeadlineStream | None = None
        self._open = contextlib.ExitStack()
        self._busy = threading.Lock()
        is_own = self.url.origin in settings.origins
        self._networks = settings.networks if is_own else ()
        # The operator's, which looks up the origin's host itself; plain http goes by none.
        self._proxy = settings.proxy if is_own and self.url.origin.scheme == "https" else None

    def remaining(self, at_most: float | None = None) -> float:
        """Return the seconds left for everything, or `at_most` if that is less; more than 0.

        Raises:
            TimeoutError: None are left.
        """
        seconds = self._end - self._settings.clock()
        if seconds <= 0:
            raise TimeoutError
        return seconds if at_most is None else min(seconds, at_most)

    def send(
        self, method: str, headers: Iterable[_Field], content: Any = None, timeouts: Any = None
    ) -> None:
        """Send the request with our framing, and wait for the head of the answer.

        Args:
            method: Of HTTP.
            headers: All others; nothing that decides where it goes or how the answer is framed.
            content: As for httpcore.
            timeouts: Shorter ones for single steps; no other extension, which could choose
                another server name for TLS, or another target.

        Raises:
            FetchFailed: ``fetch.forbidden_address``, ``fetch.timeout``, ``fetch.tls``,
                ``fetch.failed``.
        """
        ours: list[_Field] = [
            # The authority, without the scheme's own port (RFC 9110 7.2).
            ("Host", str(self.url.origin).partition("://")[2]),
            ("Accept-Encoding", "identity"),  # so that the limit on bytes is one on content
            ("Connection", "close"),
        ]
        fields, extensions = [*ours, *headers], {"timeout": timeouts or {}}
        request = httpcore.Request(
            method, str(self.url), headers=fields, content=content, extensions=extensions
        )
        proxy = None if self._proxy is None else httpcore.Proxy(str(self._proxy))
        context = self._settings.tls_context()
        pool = httpcore.ConnectionPool(context, proxy=proxy, network_backend=self)
        with self._at_work():
            self._answer = self._open.enter_context(pool).handle_request(request)
            self._open.callback(self._answer.close)
        self.status = self._answer.status
        self.headers: Headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1").strip())
            for name, value in self._answer.headers
        )

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *_: Any, **__: Any
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that answers, if all may be asked.

        Each gets an equal share of the time that is left.

        Raises:
            FetchFailed: ``fetch.forbidden_address``, ``fetch.failed``.
            OSError: There is no address, or none answers; ``TimeoutError`` where it took too long.
        """
        settings, seconds = self._settings, self.remaining(timeout)
        addresses = connection.resolve(host, resolver=settings.resolver, timeout=seconds)
        loopback: connection.Loopback = "allowed" if settings.insecure_loopback_http else "refused"
        if self.url.origin.scheme == "http":
            loopback = "required"
        for address in addresses if self._proxy is None else ():
            connection.check_address(address, loopback=loopback, networks=self._networks)
        failure = OSError()
        for number, address in enumerate(addresses):
            share = self.remaining(timeout) / (len(addresses) - number)
            try:
                connected = settings.dial(address, port, share)
                self._stream = connection.DeadlineStream(connected, self.remaining)
                return self._stream
            except OSError as exc:
                failure = exc
        raise failure

    def read(self) -> Iterator[bytes]:
        """Yield the body, part by part.

        Raises:
            FetchFailed: ``fetch.encoding``: it is compressed; ``fetch.too_large``, as soon as that
                is known; as :meth:`send`.
        """
        if not {*map(str.lower, values(self.headers, "content-encoding"))} <= {"", "identity"}:
            message = f"{self.url} sent a compressed answer although none was asked for"
            raise FetchFailed("fetch.encoding", message)
        # h11 has made sure that a declared length is a number.
        declared = max(map(int, values(self.headers, "content-length")), default=0)
        size, parts = 0, iter(self._answer.iter_stream())
        part: bytes | None = b""
        while part is not None:
            size += len(part)
            if max(size, declared) > self._settings.max_bytes:
                message = f"{self.url} answered more than {self._settings.max_bytes} bytes"
                raise FetchFailed("fetch.too_large", message)
            if part:
                yield part
            with self._at_work():
                part = next(parts, None)

    def close(self) -> None:
        """Close the connection, once no thread is at work on it."""
        with self._busy:
            self._open.close()

    def abort(self) -> None:
        """Let the thread that is at work on it fail at once, and then let it be closed."""
        self._end = float("-inf")
        if self._stream is not None:
            self._stream.shut_down()
        threading.Thread(target=self.close, daemon=True).start()

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Keep others from closing it, and convert what httpcore, TLS and the system raise."""
        unlogged = _UNLOGGED.set(True)
        try:
            with self._busy:
                yield
        except (OSError, httpcore.ProxyError, httpcore.ProtocolError) as exc:
            raise self._failure(exc) from exc
        finally:
            _UNLOGGED.reset(unlogged)

    def _failure(self, exc: Exception) -> FetchFailed:
        """Return our error for a foreign one. A protocol error's text holds what the peer sent."""
        url, origin, code = cut(str(self.url)), self.url.origin, "fetch.failed"
        match exc:
            case TimeoutError():
                code, message = "fetch.timeout", f"{url} did not answer in time"
            case ssl.SSLError():
                why = getattr(exc, "verify_message", exc.reason or "the handshake failed")
                code, message = "fetch.tls", f"{origin} could not be reached over TLS: {why}"
            case OSError():
                message = f"{url} could not be reached: {exc.strerror or 'no reason was given'}"
            case httpcore.ProxyError():  # whose text is the proxy's own
                message = f"the policy's proxy does not connect to {origin}"
            case _:
                message = f"the request to {url} or its answer is not HTTP/1.1"
        return FetchFailed(code, message)


# At DEBUG this logger, and no other on the way, writes every header of an answer, in which a peer
# may repeat a credential.
_UNLOGGED: Final = ContextVar("cardsign_unlogged", default=False)
logging.getLogger("httpcore.http11").addFilter(lambda _: not _UNLOGGED.get())


class OtherStatus(FetchFailed):
    """The peer answered, and not with 200.

    Args:
        url: What was asked.
        status: As the attribute.
        challenges: As the attribute.
        location: Where a redirect leads; untrusted, and empty to leave it out.

    Attributes:
        status: The HTTP status.
        challenges: What it says that it wants; untrusted.
    """

    def __init__(
        self, url: str, status: int, challenges: Iterable[str] = (), location: str = ""
    ) -> None:
        hint = ""
        if 300 <= status < 400 and status != 304:
            hint = "Redirects are not followed; give the final address"
            with contextlib.suppress(CardRefused, ValueError):
                hint += f", perhaps {parse_url(urljoin(url, location or 'no URL'))}"
        elif status in (401, 403):
            hint = "It asks who you are, and no credential is sent here. Ask its operator."
        elif status == 429 or status >= 500:
            hint = "Try again later."
        super().__init__("fetch.status", f"{url} answered {status} instead of 200", hint=hint)
        self.status, self.challenges = status, tuple(challenges)


def fetch_document(
    url: str,
    settings: FetchSettings = DEFAULT_SETTINGS,
    *,
    headers: Headers = (),
    body: bytes | None = None,
    content_type: str = "application/x-www-form-urlencoded",
) -> FetchResult:
    """Ask for exactly this URL: ``found``, or ``unchanged`` where a condition was sent.

    By GET; or, where there is a body, by POST.

    Args:
        url: Inside the grammar of :func:`cardsign.urls.parse_url`.
        settings: How it is reached.
        headers: More of the request, such as a condition or a credential; redirects are not
            followed, so they go nowhere else.
        body: What is posted; None for GET.
        content_type: Of the body.

    Raises:
        FetchFailed: ``fetch.url``; ``fetch.forbidden_address`` (nothing was connected);
            ``fetch.timeout``; ``fetch.tls``; ``fetch.failed`` (no name, no connection, no
            HTTP); ``fetch.status`` (not 200, as :class:`OtherStatus`);
            ``fetch.content_type`` (not declared as JSON); ``fetch.encoding`` (compressed);
            ``fetch.too_large``.
    """
    exchange = Exchange(settings, url)
    asked = str(exchange.url)
    sent: list[_Field] = [*_OF_US, *headers]
    if body is not None:
        sent += [("Content-Type", content_type), ("Content-Length", str(len(body)))]
    with contextlib.closing(exchange):
        exchange.send("GET" if body is None else "POST", sent, body)
        if exchange.status == 304 and dict(headers).get("If-None-Match"):
            return FetchResult(asked, "unchanged", headers=exchange.headers)
        if exchange.status != 200:
            challenges = values(exchange.headers, "www-authenticate")
            # A peer may repeat a credential that it was sent.
            location = "" if headers or body else " ".join(values(exchange.headers, "location"))
            raise OtherStatus(asked, exchange.status, challenges, location)
        check_json_type(exchange.headers, exchange.url)
        return FetchResult(asked, "found", b"".join(exchange.read()), headers=exchange.headers)


# Fetching what many threads want again and again.

#: Seconds after which a URL is asked again; HTTP may shorten it and never lengthen it.
REFRESH_INTERVAL: Final = 300
#: Seconds after which one that gave no answer is asked again; a failure takes up to ten.
RETRY_INTERVAL: Final = 30
COOLDOWN: Final = 60.0  # seconds between two early requests for one URL
MAX_BYTES: Final = 64 * 1024 * 1024  # of answers that are kept: those of a thousand peers and more

_SECONDS: Final = re.compile(r"[0-9]{1,10}")  # 2**31 is what RFC 9111 1.2.2 wants us to hold
# RFC 9110 8.8.3, bounded: what we store of a peer's choice we also send back to it.
_ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,256}"')


def freshness(headers: Headers, ceiling: int) -> tuple[int, bool]:
    """Return what ``Cache-Control`` says; `ceiling` where it says nothing, and at most.

    With ``Expires`` alone an answer is asked for every time: dates are not reckoned with.

    Returns:
        The seconds for which the answer may be used without asking, not counting its age; and
        whether it may be used beyond that where nobody answers, which ``must-revalidate``,
        ``no-cache`` and ``no-store`` forbid.
    """
    control = ",".join(values(headers, "cache-control")).lower().replace(" ", "")
    directives = [directive.partition("=") for directive in control.split(",")]
    names = {name for name, _, _ in directives}
    unstated = 0 if values(headers, "expires") else ceiling
    ages = {age.strip('"') for name, _, age in directives if name == "max-age"} or {str(unstated)}
    stated = _only_number(ages, 0) if names.isdisjoint({"no-cache", "no-store"}) else 0
    return min(stated, ceiling), names.isdisjoint({"no-cache", "no-store", "must-revalidate"})


def _only_number(texts: Iterable[str], otherwise: int) -> int:
    text, *more = texts
    return int(text) if not more and _SECONDS.fullmatch(text) else otherwise


def _is_within(begin: datetime | None, seconds: float, now: datetime) -> bool:
    """Return whether so many seconds are not over; a clock that went back is no reason to wait."""
    return begin is not None and 0 <= (now - begin).total_seconds() < seconds


_NONE_YET: Final = FetchResult("", "absent")


@dataclass(slots=True, eq=False)
class _Page:
    """What is remembered of one URL.

    Attributes:
        guard: Held by the thread that asks; the others wait for its answer.
        good: The last good answer; its headers say how long it may be used.
        last: What the last request resulted in.
        asked_at: When that was.
        lasts: Seconds for which that is the answer.
        ended: When that ended, by the clock that nobody sets.
        hurried_at: When it was last asked early.
        size: Bytes that it counts for; 0 while it is not among those that are kept.
    """

    guard: threading.Lock = field(default_factory=threading.Lock)
    good: FetchResult = _NONE_YET
    last: FetchResult | None = None
    asked_at: datetime | None = None
    lasts: int = 0
    ended: float = float("-inf")
    hurried_at: datetime | None = None
    size: int = 0


class DocumentFetcher:
    """Fetches documents for any number of threads. Its methods raise nothing of their own.

    It keeps an answer for exactly the URL that was asked, and then asks whether it has changed.
    It asks early only once in a while, so that nobody who shows us unknown keys can make us
    flood an issuer. A failure never replaces a good answer.

    Args:
        settings: How they are reached; `max_bytes` is the limit for cards.
        now: The time, aware; for caching only, deadlines run on the settings's own clock.

    Raises:
        FetchFailed: ``fetch.tls``, as :meth:`FetchSettings.tls_context`.
    """

    def __init__(self, settings: FetchSettings, *, now: Callable[[], datetime]) -> None:
        self.settings = replace(settings, ssl_context=settings.tls_context())
        self._now = now
        self._pages: dict[tuple[object, ...], _Page] = {}
        self._size = 0
        self._lock = threading.Lock()

    def fetch(
        self, url: str, *, max_bytes: int, fresh: bool = False, issuer: TrustedIssuer | None = None
    ) -> FetchResult:
        """Ask for exactly this URL, or use what is known of it.

        Args:
            url: As for :func:`fetch_document`.
            max_bytes: Of the body.
            fresh: Ask before the answer is stale, every cache on the way too, unless that was done
                within the cooldown.
            issuer: Who is asked, where the policy has said how.
        """
        came = self.settings.clock()
        settings = replace(self.settings.for_issuer(issuer), max_bytes=max_bytes)
        try:
            asked = str(settings.target(url))
        except FetchFailed as failure:
            return FetchResult(urls.without_userinfo(url), "failed", failure=failure)
        # What one issuer may reach is not shown to another.
        key = (asked, settings.origins, settings.networks, settings.proxy, max_bytes)
        with self._lock:
            page = self._pages.setdefault(key, _Page())
        with page.guard:
            now = self._now()
            fresh = fresh and not _is_within(page.hurried_at, COOLDOWN, now)
            # Also what another thread was asking for when this one came.
            is_current = page.ended > came or _is_within(page.asked_at, page.lasts, now)
            if page.last is None or fresh or not is_current:
                page.hurried_at = now if fresh else page.hurried_at
                page.last, page.lasts = self._request(asked, settings, page.good, fresh=fresh)
                page.good = page.last if page.last.outcome == "found" else page.good
                page.asked_at, page.ended = now, self.settings.clock()
                with self._lock:  # moves the page to the end; the oldest pages are dropped first
                    self._drop(key)
                    # The constant bounds the number of URLs as well.
                    self._pages[key], page.size = page, 4096 + len(page.good.untrusted_body)
                    self._size += page.size
                    while self._size > MAX_BYTES:
                        self._drop(next(iter(self._pages)))
            return page.last

    def _drop(self, key: tuple[object, ...]) -> None:
        if (page := self._pages.pop(key, None)) is not None:
            self._size, page.size = self._size - page.size, 0

    def fetch_card(
        self,
        url: str,
        *,
        fresh: bool = False,
        legacy: bool = True,
        issuer: TrustedIssuer | None = None,
    ) -> FetchResult:
        """Ask for the card at a URL, or for the card of a host (A2A 1.0 8.2).

        A URL with a path or query is asked as it is. One without is asked for the canonical path,
        and only if nothing is there for the legacy one.

        Args:
            url: As for :meth:`fetch`.
            fresh: As for :meth:`fetch`.
            legacy: Whether the legacy path may be asked at all.
            issuer: As for :meth:`fetch`.
        """
        ask = partial(self.fetch, max_bytes=self.settings.max_bytes, fresh=fresh, issuer=issuer)
        canonical = urls.card_url(url)
        result = ask(canonical)
        if result.outcome != "absent" or not legacy or canonical == str(parse_url(url)):
            return result
        legacy_result = ask(canonical.removesuffix(urls.CARD_PATH) + urls.LEGACY_CARD_PATH)
        return result if legacy_result.outcome == "absent" else legacy_result

    def _request(
        self, url: str, settings: FetchSettings, good: FetchResult, *, fresh: bool
    ) -> tuple[FetchResult, int]:
        """Return what a request results in, and the seconds for which that is the answer."""
        etags = values(good.headers, "etag")  # two where a 304 had another one
        headers: Headers = (("Cache-Control", "no-cache"),) if fresh else ()
        if len(etags) == 1 and _ETAG.fullmatch(etags[0]):
            headers = (*headers, ("If-None-Match", etags[0]))
        try:
            answer = fetch_document(url, settings, headers=headers)
        except FetchFailed as failure:
            # 404 and 410 say that there is nothing, which no other answer does.
            if isinstance(failure, OtherStatus) and failure.status in (404, 410):
                return FetchResult(url, "absent", failure=failure), REFRESH_INTERVAL
            stale = good.untrusted_body if freshness(good.headers, REFRESH_INTERVAL)[1] else b""
            return FetchResult(url, "failed", stale, failure=failure), RETRY_INTERVAL
        if answer.outcome == "unchanged":  # what was said holds, unless said anew (RFC 9111 4.3.4)
            anew = {"age", *(name for name, _ in answer.headers if name != "etag")}
            old = tuple(header for header in good.headers if header[0] not in anew)
            answer = replace(good, headers=tuple(dict.fromkeys(old + answer.headers)))
        age = _only_number(values(answer.headers, "age") or ["0"], 10**10)
        return answer, freshness(answer.headers, REFRESH_INTERVAL)[0] - age


def fetch_card(url: str, settings: FetchSettings = DEFAULT_SETTINGS) -> FetchResult:
    """Ask once for a card, as :meth:`DocumentFetcher.fetch_card` does, and keep nothing.

    Raises:
        FetchFailed: As :func:`fetch_document`.
    """
    # Nothing that is kept is used again, whatever the time.
    answer = DocumentFetcher(settings, now=lambda: datetime.min).fetch_card(url)
    if answer.failure is not None:
        raise answer.failure
    return answer


def note_legacy_path() -> Finding:
    """Return the note on a card that was found at the path of A2A up to 0.2."""
    message = f"there is no card at {urls.CARD_PATH}; this one is at {urls.LEGACY_CARD_PATH}"
    return Finding("card.legacy_path", message)
