"""Fetching one JSON document from a host that nobody vouches for, in bounded time and size.

One GET over https, to a public address, without redirects, cookies or credentials. The document
is not looked into here.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import Any, Final, TypeAlias

import httpcore

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import CardRefused, FetchFailed
from cardsign.findings import cut
from cardsign.net.connection import (
    Clock,
    Deadline,
    DeadlineStream,
    Dial,
    IPNetwork,
    Loopback,
    Resolver,
    check_address,
    resolve,
    system_resolver,
    tcp_dial,
)
from cardsign.trust.policy import JwksAnchor, TrustedIssuer
from cardsign.trust.walk import FetchResult
from cardsign.urls import Headers, Origin, Url, parse_url

MAX_HOST_LENGTH: Final = 253  # characters; DNS knows no longer name (RFC 1035 2.3.4)

_Field: TypeAlias = tuple[bytes | str, bytes | str]

_JSON_TYPE: Final = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]{1,120}\+)?json")


def values(headers: Headers, name: str) -> list[str]:
    """Return each value of a header."""
    return [value for header, value in headers if header == name]


def media_types(headers: Headers) -> list[str]:
    """Return each media type that is declared, in lower case, without parameters."""
    return [value.partition(";")[0].strip().lower() for value in values(headers, "content-type")]


def json_type(headers: Headers, url: Url) -> str:
    """Return the one media type that is declared, if it is JSON's.

    Raises:
        FetchFailed: ``fetch.content_type``.
    """
    types = media_types(headers)
    if len(types) != 1 or not _JSON_TYPE.fullmatch(types[0]):
        message = f"{url} did not declare its answer as application/json or application/*+json"
        raise FetchFailed("fetch.content_type", message)
    return types[0]


@cache
def user_agent() -> str:
    """Return what our requests say of who asks; the installed version is looked up once."""
    try:
        return f"cardsign/{metadata.version('cardsign')}"
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "cardsign"


def status_hint(status: int) -> str:
    """Return what to do about a status that is no answer."""
    if 300 <= status < 400:
        return "Redirects are not followed; give the address at which it lies."
    if status in (401, 403):
        return "It asks who you are, and no credential is sent here. Ask its operator."
    return "Try again later." if status == 429 or status >= 500 else ""


CONNECT_SECONDS: Final = 5.0  # for the name, for each address, and for TLS: twice a slow network
TOTAL_SECONDS: Final = 10.0  # for all of it: as long as somebody at a terminal will wait


_TLS_HINT: Final = "Look at the files that SSLKEYLOGFILE, SSL_CERT_FILE and SSL_CERT_DIR name."


@dataclass(frozen=True, slots=True)
class PrivateAccess:
    """How the operator's policy lets one issuer be reached on a company network (E13).

    It holds for the origins that the policy itself names for this issuer. No card, statement,
    redirect or environment variable can add one.

    Attributes:
        origins: Of the issuer, and of its `jwks` anchor's URL.
        networks: Where hosts of these origins may be, besides public addresses.
        proxy: What is asked, by HTTP CONNECT, to connect to them; TLS goes through it to the
            origin itself. None to connect directly.
    """

    origins: frozenset[Origin]
    networks: tuple[IPNetwork, ...] = ()
    proxy: Origin | None = None

    @classmethod
    def of(cls, issuer: TrustedIssuer | None) -> PrivateAccess | None:
        """Return what the policy says of an issuer; None where it says nothing of the kind."""
        if issuer is None or not (issuer.networks or issuer.proxy):
            return None
        origins = {place.origin for place in issuer.places or ()}
        if isinstance(issuer.anchor, JwksAnchor):
            origins.add(parse_url(issuer.anchor.url).origin)
        return cls(frozenset(origins), issuer.networks, issuer.proxy)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How hosts are reached: one value, handed down to everything that asks.

    Attributes:
        connect_timeout: Seconds for each of: the name, one address, the TLS handshake.
        total_timeout: Seconds for everything, the last byte of the body included.
        max_bytes: Of the body.
        insecure_loopback_http: Also ask this machine's own addresses, over plain http too.
            No other private address becomes reachable.
        resolver: Turns a host's name into addresses; called at most once for a connection.
        clock: Monotonic seconds, for deadlines.
        ssl_context: Instead of the system's trust store; must check names.
        dial: Opens connections, to checked addresses only.
        access: What the operator allows for the issuer that is asked; see :meth:`for_issuer`.
    """

    connect_timeout: float = CONNECT_SECONDS
    total_timeout: float = TOTAL_SECONDS
    max_bytes: int = MAX_CARD_BYTES
    insecure_loopback_http: bool = False
    resolver: Resolver = system_resolver
    clock: Clock = time.monotonic
    ssl_context: ssl.SSLContext | None = None
    dial: Dial = tcp_dial
    access: PrivateAccess | None = None

    def for_issuer(self, issuer: TrustedIssuer | None) -> FetchSettings:
        """Return the same, for requests to this issuer of a policy and to no other."""
        return replace(self, access=PrivateAccess.of(issuer))

    def target(self, untrusted_url: str) -> Url:
        """Read a URL that may be asked.

        Raises:
            FetchFailed: ``fetch.url``.
        """
        try:
            url = parse_url(untrusted_url)
        except CardRefused as exc:
            raise FetchFailed("fetch.url", exc.message) from exc
        if len(url.origin.host) > MAX_HOST_LENGTH:
            raise FetchFailed("fetch.url", f"the host is longer than {MAX_HOST_LENGTH} characters")
        if url.origin.scheme == "http" and not self.insecure_loopback_http:
            hint = "Use https; for a test server on this machine: --insecure-loopback-http."
            raise FetchFailed("fetch.url", f"{url} is plain http, which others can read", hint=hint)
        return url

    def trust(self) -> ssl.SSLContext:
        """Return what certificates are checked against; the system's store is read every time.

        Raises:
            FetchFailed: ``fetch.tls``; the context does not check names, or there is none since
                a file that the environment names cannot be used.
        """
        try:
            context = self.ssl_context or ssl.create_default_context()
        except OSError as exc:
            why = exc.strerror or "no reason was given"
            message = f"the system's TLS could not be set up: {why}"
            raise FetchFailed("fetch.tls", message, hint=_TLS_HINT) from exc
        if not context.check_hostname:  # which in turn cannot be without checking certificates
            raise FetchFailed("fetch.tls", "the TLS context does not check names")
        return context


DEFAULT_SETTINGS: Final = FetchSettings()


def _httpcore_url(origin: Origin, target: str = "") -> httpcore.URL:
    host = origin.host.strip("[]")
    return httpcore.URL(scheme=origin.scheme, host=host, port=origin.port, target=target)


class Exchange(httpcore.NetworkBackend):
    """One request and its answer: where it goes, how long it may take, how large it may be.

    It has a connection of its own. The name is looked up once, every address is checked, and the
    connection goes to these; TLS asks for the name (SNI) and holds the certificate against it.

    Args:
        settings: How the host is reached.
        url: What is asked.
        seconds: For everything, the last byte of the body included; they run from now.
        max_bytes: Of the body.

    Attributes:
        status: Of the answer.
        headers: Of the answer, names in lower case.
    """

    def __init__(
        self, settings: FetchSettings, url: Url, *, seconds: float, max_bytes: int
    ) -> None:
        self.url, self.end = url, Deadline(settings.clock, seconds)
        self.status = 0
        self.headers: Headers = ()
        self._settings, self._max_bytes = settings, max_bytes
        self._limits = f"{settings.connect_timeout:g} s to connect, {seconds:g} s in all"
        self._stream: DeadlineStream | None = None
        self._open = contextlib.ExitStack()
        self._busy = threading.Lock()
        access = settings.access
        self._access = access if access and url.origin in access.origins else None

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
        """
        origin = self.url.origin
        target = self.url.path + self.url.query
        ours: list[_Field] = [
            # The authority, without the scheme's own port (RFC 9110 7.2).
            ("Host", str(origin).partition("://")[2]),
            ("Accept-Encoding", "identity"),  # so that the limit on bytes is one on content
            ("Connection", "close"),
        ]
        request = httpcore.Request(
            method,
            _httpcore_url(origin, target),
            headers=[*ours, *headers],
            content=content,
            extensions={"timeout": timeouts or {}},
        )
        context, proxy = self._settings.trust(), self._proxy
        by = None if proxy is None else httpcore.Proxy(_httpcore_url(proxy))
        pool = httpcore.ConnectionPool(context, proxy=by, network_backend=self)
        self._answer = self._open.enter_context(pool).handle_request(request)
        self._open.callback(self._answer.close)
        self.status = self._answer.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1").strip())
            for name, value in self._answer.headers
        )

    @property
    def _proxy(self) -> Origin | None:
        """The operator's, which looks up the origin's host itself; plain http goes by none."""
        return self._access.proxy if self._access and self.url.origin.scheme == "https" else None

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        """Connect to the first address of a host that answers, if all may be asked.

        Raises:
            FetchFailed: ``fetch.forbidden_address``, ``fetch.failed``.
            OSError: There is no address, or none answers; ``TimeoutError`` where it took too long.
        """
        settings, limit = self._settings, self._settings.connect_timeout
        timeout = self.end.remaining(limit)
        addresses = resolve(host, resolver=settings.resolver, timeout=timeout)
        loopback: Loopback = "allowed" if settings.insecure_loopback_http else "refused"
        for address in addresses if self._proxy is None else ():
            check_address(
                address,
                loopback="required" if self.url.origin.scheme == "http" else loopback,
                networks=self._access.networks if self._access else (),
            )
        failure = OSError()
        for address in addresses:
            timeout = self.end.remaining(limit)
            try:
                connected = settings.dial(address, port, timeout)
            except OSError as exc:
                failure = exc
                continue
            self._stream = DeadlineStream(connected, self.end, limit)
            return self._stream
        raise failure

    def check_head(self, *, has_body: bool = True) -> None:
        """Refuse a body by its headers: a compressed one, and one that is declared too large.

        Raises:
            FetchFailed: ``fetch.encoding``, ``fetch.too_large``.
        """
        encodings = {encoding.lower() for encoding in values(self.headers, "content-encoding")}
        if not encodings <= {"", "identity"}:
            message = f"{self.url} sent a compressed answer although none was asked for"
            raise FetchFailed("fetch.encoding", message)
        if has_body:  # h11 has made sure that a declared length is a number
            self._check_size(max(map(int, values(self.headers, "content-length")), default=0))

    def read(self) -> Iterator[bytes]:
        """Yield the body, part by part.

        Raises:
            FetchFailed: ``fetch.too_large``, as soon as that is known; as :meth:`errors`.
        """
        size, parts = 0, iter(self._answer.iter_stream())
        while True:
            with self.errors(), self._busy:
                part = next(parts, None)
            if part is None:
                return
            size += len(part)
            self._check_size(size)
            yield part

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            message = f"{self.url} answered more than {self._max_bytes} bytes"
            raise FetchFailed("fetch.too_large", message)

    def close(self) -> None:
        """Close the connection, once no thread reads from it."""
        with self._busy:
            self._open.close()

    def abort(self) -> None:
        """Let the thread that is at work on it fail at once."""
        self.end.stop()
        if self._stream is not None:
            self._stream.shut_down()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Convert what httpcore, TLS and the operating system raise.

        Raises:
            FetchFailed: ``fetch.timeout``, ``fetch.tls``, ``fetch.failed``.
        """
        url, origin, code = cut(str(self.url)), self.url.origin, "fetch.failed"
        try:
            yield
            return
        except TimeoutError as exc:
            code, message = "fetch.timeout", f"{url} did not answer in time ({self._limits})"
            cause: Exception = exc
        except ssl.SSLError as exc:
            why = (exc.reason or "the handshake failed").replace("_", " ").lower()
            if isinstance(exc, ssl.SSLCertVerificationError):
                why = exc.verify_message.rstrip(".")
            code, message = "fetch.tls", f"{origin} could not be reached over TLS: {why}"
            cause = exc
        except OSError as exc:
            message = f"{url} could not be reached: {exc.strerror or 'no reason was given'}"
            cause = exc
        except httpcore.ProxyError as exc:
            status = re.match(r"[0-9]{3}", str(exc))  # the rest is the proxy's own words
            why = f"it answered {status[0]}" if status else "its answer is no HTTP/1.1"
            message = f"the policy's proxy does not connect to {origin}: {why}"
            cause = exc
        except httpcore.LocalProtocolError as exc:
            message, cause = f"the request to {url} is no HTTP/1.1", exc
        except httpcore.ProtocolError as exc:  # its text holds what the peer sent
            message, cause = f"{url} gave an answer that is no HTTP/1.1", exc
        raise FetchFailed(code, message) from cause


class OtherStatus(FetchFailed):
    """The peer answered, and not with 200.

    Attributes:
        status: The HTTP status.
        challenges: What it says that it wants; untrusted.
    """

    def __init__(self, url: str, status: int, challenges: Iterable[str] = ()) -> None:
        message = f"{url} answered {status} instead of 200"
        super().__init__("fetch.status", message, hint=status_hint(status))
        self.status = status
        self.challenges = tuple(challenges)


def fetch_document(
    url: str,
    settings: FetchSettings = DEFAULT_SETTINGS,
    *,
    headers: Headers = (),
    body: bytes | None = None,
) -> FetchResult:
    """Ask for exactly this URL: ``found``, or ``unchanged`` where a condition was sent.

    By GET; or, where there is a body, by POST.

    Args:
        url: Inside the grammar of :func:`cardsign.urls.parse_url`.
        settings: How it is reached.
        headers: More of the request, such as a condition or a credential; redirects are not
            followed, so they go nowhere else.
        body: What is posted: a form, if the headers name no other type; None for GET.

    Raises:
        FetchFailed: ``fetch.url``; ``fetch.forbidden_address`` (nothing was connected);
            ``fetch.timeout``; ``fetch.tls``; ``fetch.failed`` (no name, no connection, no
            HTTP); ``fetch.status`` (not 200, as :class:`OtherStatus`);
            ``fetch.content_type`` (not declared as JSON); ``fetch.encoding`` (compressed);
            ``fetch.too_large``.
    """
    exchange = Exchange(
        settings,
        settings.target(url),
        seconds=settings.total_timeout,
        max_bytes=settings.max_bytes,
    )
    asked = str(exchange.url)
    sent: list[_Field] = [  # all that the peer learns of us
        ("Accept", "application/json, application/*+json"),
        ("User-Agent", user_agent()),
        *headers,
    ]
    if body is not None:
        if "Content-Type" not in dict(headers):
            sent.append(("Content-Type", "application/x-www-form-urlencoded"))
        sent.append(("Content-Length", str(len(body))))
    with contextlib.closing(exchange):
        with exchange.errors():
            exchange.send("GET" if body is None else "POST", sent, body)
        if exchange.status == 304 and dict(headers).get("If-None-Match"):
            return FetchResult(asked, "unchanged", headers=exchange.headers)
        if exchange.status != 200:
            raise OtherStatus(asked, exchange.status, values(exchange.headers, "www-authenticate"))
        exchange.check_head()
        json_type(exchange.headers, exchange.url)
        return FetchResult(asked, "found", b"".join(exchange.read()), headers=exchange.headers)
