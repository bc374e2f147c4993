"""Fetching one JSON document from a host that nobody vouches for, in bounded time and size.

One GET over https, to a public address, without redirects, cookies or credentials. The document
is not looked into here.
"""

from __future__ import annotations

import contextlib
import re
import ssl
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
    Dial,
    IPNetwork,
    Loopback,
    PinnedBackend,
    Resolver,
    Route,
    look_up,
    resolve,
    system_resolver,
    tcp_dial,
)
from cardsign.trust.policy import JwksAnchor, TrustedIssuer
from cardsign.trust.refresh import FetchResult
from cardsign.urls import Headers, Origin, Url, parse_url

MAX_HOST_LENGTH: Final = 253  # characters; DNS knows no longer name (RFC 1035 2.3.4)

_Field: TypeAlias = tuple[bytes | str, bytes | str]

_JSON_TYPE: Final = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]{1,120}\+)?json")
_REDIRECT_HINT: Final = "Redirects are not followed; give the address at which it lies."


def received(response: httpcore.Response) -> Headers:
    """The headers of an answer."""
    return tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1").strip())
        for name, value in response.headers
    )


def values(headers: Headers, name: str) -> list[str]:
    """Each value of a header."""
    return [value for header, value in headers if header == name]


def media_types(headers: Headers) -> list[str]:
    """Each media type that is declared, in lower case, without parameters."""
    return [value.partition(";")[0].strip().lower() for value in values(headers, "content-type")]


def json_type(headers: Headers, url: Url) -> str:
    """The one media type that is declared, if it is JSON's.

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
    """What our requests say of who asks; the installed version is looked up once."""
    try:
        return f"cardsign/{metadata.version('cardsign')}"
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "cardsign"


def status_hint(status: int) -> str:
    """What to do about a status that is no answer; empty where nothing special is."""
    return _REDIRECT_HINT if 300 <= status < 400 else ""


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
        """What the policy says of an issuer; None where it says nothing of the kind."""
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
        """The same, for requests to this issuer of a policy and to no other."""
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
        """What certificates are held against; the system's trust store is read every time.

        Raises:
            FetchFailed: ``fetch.tls``; the context does not check names, or there is none since
                a file that the environment names cannot be used.
        """
        given = self.ssl_context
        try:
            context = ssl.create_default_context() if given is None else given
        except OSError as exc:
            why = exc.strerror or "no reason was given"
            message = f"the system's TLS could not be set up: {why}"
            raise FetchFailed("fetch.tls", message, hint=_TLS_HINT) from exc
        if not context.check_hostname:  # which in turn cannot be without checking certificates
            raise FetchFailed("fetch.tls", "the TLS context does not check names")
        return context

    def route(self, url: Url, end: Deadline) -> Route:
        """Resolve the host and check its addresses, on the way to exactly these.

        Raises:
            FetchFailed: ``fetch.forbidden_address``, ``fetch.failed``.
            OSError: There is no address; ``TimeoutError`` where it took too long.
        """
        limit, is_plain = self.connect_timeout, url.origin.scheme == "http"
        access = self.access if self.access and url.origin in self.access.origins else None
        proxy = access.proxy if access and not is_plain else None
        by = None
        if proxy:  # the operator's, which looks up the origin's host itself
            addresses = look_up(proxy.host, resolver=self.resolver, timeout=end.remaining(limit))
            place = httpcore.URL(scheme=proxy.scheme, host=proxy.host.strip("[]"), port=proxy.port)
            by = httpcore.Proxy(
                place, ssl_context=self.trust() if proxy.scheme == "https" else None
            )
        else:
            loopback: Loopback = "allowed" if self.insecure_loopback_http else "refused"
            addresses = resolve(
                url.origin.host,
                resolver=self.resolver,
                timeout=end.remaining(limit),
                loopback="required" if is_plain else loopback,
                networks=access.networks if access else (),
            )
        return Route(addresses, dial=self.dial, connect_timeout=limit, end=end, proxy=by)


DEFAULT_SETTINGS: Final = FetchSettings()


class Exchange:
    """One request and its answer: where it goes, how long it may take, how large it may be.

    Args:
        settings: How the host is reached.
        url: What is asked.
        seconds: For everything, the last byte of the body included; they run from now.
        max_bytes: Of the body.
    """

    def __init__(
        self, settings: FetchSettings, url: Url, *, seconds: float, max_bytes: int
    ) -> None:
        self.end = Deadline(settings.clock, seconds)
        self._settings = settings
        self.url = url
        self._limits = f"{settings.connect_timeout:g} s to connect, {seconds:g} s in all"
        self._max_bytes = max_bytes
        self._counted = 0

    def route(self) -> Route:
        """The way to the host; as :meth:`FetchSettings.route`."""
        return self._settings.route(self.url, self.end)

    def request(
        self, method: str, headers: Iterable[_Field], content: Any = None, timeouts: Any = None
    ) -> httpcore.Request:
        """The request with our framing.

        Args:
            method: Of HTTP.
            headers: All others; nothing that decides where it goes or how the answer is framed.
            content: As for httpcore.
            timeouts: Shorter ones for single steps; no other extension, which could choose
                another server name for TLS, or another target.
        """
        origin = self.url.origin
        url = httpcore.URL(
            scheme=origin.scheme,
            host=origin.host.strip("[]"),
            port=origin.port,
            target=self.url.path + self.url.query,
        )
        ours: list[_Field] = [
            # The authority, without the scheme's own port (RFC 9110 7.2).
            ("Host", str(origin).partition("://")[2]),
            ("Accept-Encoding", "identity"),  # so that the limit on bytes is one on content
            ("Connection", "close"),
        ]
        extensions = {"timeout": timeouts or {}}
        return httpcore.Request(
            method, url, headers=[*ours, *headers], content=content, extensions=extensions
        )

    def send(
        self, request: httpcore.Request, context: ssl.SSLContext, held: contextlib.ExitStack
    ) -> httpcore.Response:
        """The answer's head, by a connection of its own, which `held` closes with the answer."""
        route = self.route()
        pool = httpcore.ConnectionPool(
            context, proxy=route.proxy, network_backend=PinnedBackend(route)
        )
        response = held.enter_context(pool).handle_request(request)
        held.callback(response.close)
        return response

    def check_head(self, headers: Headers, *, has_body: bool = True) -> None:
        """Refuse a body by its headers: a compressed one, and one that is declared too large.

        Raises:
            FetchFailed: ``fetch.encoding``, ``fetch.too_large``.
        """
        encodings = {encoding.lower() for encoding in values(headers, "content-encoding")}
        if not encodings <= {"", "identity"}:
            message = f"{self.url} sent a compressed answer although none was asked for"
            raise FetchFailed("fetch.encoding", message)
        if has_body:  # h11 has made sure that a declared length is a number
            self._check_size(max(map(int, values(headers, "content-length")), default=0))

    def count(self, chunk: bytes) -> bytes:
        """The next part of the body, unless it makes the body too large.

        Raises:
            FetchFailed: ``fetch.too_large``.
        """
        self._counted += len(chunk)
        self._check_size(self._counted)
        return chunk

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            message = f"{self.url} answered more than {self._max_bytes} bytes"
            raise FetchFailed("fetch.too_large", message)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Convert what httpcore, TLS and the operating system raise.

        Raises:
            FetchFailed: ``fetch.timeout``, ``fetch.tls``, ``fetch.failed``.
        """
        url = self.url
        try:
            yield
        except TimeoutError as exc:
            message = f"{url} did not answer in time ({self._limits})"
            raise FetchFailed("fetch.timeout", message) from exc
        except ssl.SSLError as exc:
            words = (exc.reason or "the handshake failed").replace("_", " ").lower()
            if isinstance(exc, ssl.SSLCertVerificationError):
                words = exc.verify_message.rstrip(".")
            message = f"{url.origin} could not be reached over TLS: {words}"
            raise FetchFailed("fetch.tls", message) from exc
        except OSError as exc:
            reason = exc.strerror or "no reason was given"
            raise FetchFailed(
                "fetch.failed", f"{cut(str(url))} could not be reached: {reason}"
            ) from exc
        except httpcore.ProxyError as exc:
            status = re.match(r"[0-9]{3}", str(exc))  # the rest is the proxy's own words
            said = f"it answered {status[0]}" if status else "its answer is no HTTP/1.1"
            message = f"the policy's proxy does not connect to {url.origin}: {said}"
            raise FetchFailed("fetch.failed", message) from exc
        except httpcore.LocalProtocolError as exc:
            raise FetchFailed(
                "fetch.failed", f"the request to {cut(str(url))} is no HTTP/1.1"
            ) from exc
        except httpcore.ProtocolError as exc:  # its text holds what the peer sent
            message = f"{cut(str(url))} gave an answer that is no HTTP/1.1"
            raise FetchFailed("fetch.failed", message) from exc


class OtherStatus(FetchFailed):
    """The peer answered, and not with 200.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, url: str, status: int) -> None:
        message = f"{url} answered {status} instead of 200"
        super().__init__("fetch.status", message, hint=status_hint(status))
        self.status = status


def fetch_document(
    url: str,
    settings: FetchSettings = DEFAULT_SETTINGS,
    *,
    headers: Headers = (),
    form: bytes | None = None,
) -> FetchResult:
    """Ask for exactly this URL: ``found``, or ``unchanged`` where a condition was sent.

    By GET; or, of a server of the operator's own, by POST with a form and a credential.

    Args:
        url: Inside the grammar of :func:`cardsign.urls.parse_url`.
        settings: How it is reached.
        headers: More of the request, such as a condition or a credential; redirects are not
            followed, so they go nowhere else.
        form: What is posted; None for GET.

    Raises:
        FetchFailed: ``fetch.url``; ``fetch.forbidden_address`` (nothing was connected);
            ``fetch.timeout``; ``fetch.tls``; ``fetch.failed`` (no name, no connection, no
            HTTP); ``fetch.status`` (not 200, as :class:`OtherStatus`);
            ``fetch.content_type`` (not declared as JSON); ``fetch.encoding`` (compressed);
            ``fetch.too_large``.
    """
    asked = settings.target(url)
    context = settings.trust()
    exchange = Exchange(
        settings, asked, seconds=settings.total_timeout, max_bytes=settings.max_bytes
    )
    sent: list[_Field] = [  # all that the peer learns of us
        ("Accept", "application/json, application/*+json"),
        ("User-Agent", user_agent()),
        *headers,
    ]
    if form is not None:
        sent.append(("Content-Type", "application/x-www-form-urlencoded"))
        sent.append(("Content-Length", str(len(form))))
    request = exchange.request("GET" if form is None else "POST", sent, form)
    with exchange.errors(), contextlib.ExitStack() as held:
        response = exchange.send(request, context, held)
        said, status = received(response), response.status
        if status == 304 and dict(headers).get("If-None-Match"):
            return FetchResult(str(asked), "unchanged", headers=said)
        if status != 200:
            raise OtherStatus(str(asked), status)
        exchange.check_head(said)
        json_type(said, asked)
        body = b"".join(map(exchange.count, response.iter_stream()))
    return FetchResult(str(asked), "found", body, headers=said)
