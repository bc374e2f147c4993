"""What is held of every request and answer, whoever asks: one set of rules for all of `net`.

The text of an error names the URL that we asked and never quotes the peer.
"""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Final

import httpcore

from cardsign.errors import CardRefused, FetchFailed
from cardsign.net.freshness import Headers
from cardsign.trust.origins import Url, parse_url

MAX_HOST_LENGTH: Final = 253  # characters; DNS knows no longer name (RFC 1035 2.3.4)

_JSON_TYPE: Final = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]{1,120}\+)?json")
_REDIRECT_HINT: Final = "Redirects are not followed; give the address at which it lies."


def target(untrusted_url: str, *, insecure_loopback_http: bool) -> Url:
    """Read a URL that may be asked at all.

    Raises:
        FetchFailed: ``fetch.url``.
    """
    try:
        url = parse_url(untrusted_url)
    except CardRefused as exc:
        raise FetchFailed("fetch.url", exc.message) from exc
    if len(url.origin.host) > MAX_HOST_LENGTH:
        raise FetchFailed("fetch.url", f"the host is longer than {MAX_HOST_LENGTH} characters")
    if url.origin.scheme == "http" and not insecure_loopback_http:
        hint = "Use https; for a test server on this machine: --insecure-loopback-http."
        raise FetchFailed("fetch.url", f"{url} would be asked over plain http", hint=hint)
    return url


def request_url(url: Url) -> httpcore.URL:
    """The same URL as httpcore has it."""
    origin = url.origin
    return httpcore.URL(
        scheme=origin.scheme,
        host=origin.host.strip("[]"),
        port=origin.port,
        target=url.path + url.query,
    )


def host_header(url: Url) -> str:
    """The authority, without the scheme's own port (RFC 9110 7.2)."""
    return str(url.origin).partition("://")[2]


@contextlib.contextmanager
def foreign_errors(url: Url, *, limits: str) -> Iterator[None]:
    """Convert what httpcore, TLS and the operating system raise.

    Args:
        url: What was asked.
        limits: How long it may take, in words.

    Raises:
        FetchFailed: ``fetch.timeout``, ``fetch.tls``, ``fetch.failed``.
    """
    try:
        yield
    except TimeoutError as exc:
        raise FetchFailed("fetch.timeout", f"{url} did not answer in time ({limits})") from exc
    except ssl.SSLError as exc:
        message = f"{url.origin} could not be reached over TLS: {_tls_words(exc)}"
        raise FetchFailed("fetch.tls", message) from exc
    except OSError as exc:
        reason = exc.strerror or "no reason was given"
        raise FetchFailed("fetch.failed", f"{url} could not be asked: {reason}") from exc
    except httpcore.LocalProtocolError as exc:
        raise FetchFailed("fetch.failed", f"the request to {url} is no HTTP/1.1") from exc
    except httpcore.ProtocolError as exc:  # its text holds what the peer sent
        raise FetchFailed("fetch.failed", f"{url} gave an answer that is no HTTP/1.1") from exc


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


def user_agent() -> str:
    """What our requests say of who asks."""
    try:
        return f"cardsign/{metadata.version('cardsign')}"
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "cardsign"


def status_hint(status: int) -> str:
    """What to do about a status that is no answer; empty where nothing special is."""
    return _REDIRECT_HINT if 300 <= status < 400 else ""


def check_identity(headers: Headers, url: Url) -> None:
    """Refuse what has to be decoded first: the limit on bytes would be none on content.

    Raises:
        FetchFailed: ``fetch.encoding``.
    """
    encodings = {encoding.lower() for encoding in values(headers, "content-encoding")}
    if not encodings <= {"", "identity"}:
        message = f"{url} sent a compressed answer although none was asked for"
        raise FetchFailed("fetch.encoding", message)


class Ceiling:
    """Counts the bytes of a body.

    Args:
        url: What was asked.
        limit: Bytes.
    """

    def __init__(self, url: Url, limit: int) -> None:
        self._url = url
        self._limit = limit
        self._counted = 0

    def declared(self, headers: Headers) -> None:
        """Refuse a body by its declared length; h11 has made sure that it is a number.

        Raises:
            FetchFailed: ``fetch.too_large``.
        """
        self._check(max(map(int, values(headers, "content-length")), default=0))

    def bounded(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, until they are too many.

        Raises:
            FetchFailed: ``fetch.too_large``.
        """
        for chunk in chunks:
            self.count(chunk)
            yield chunk

    def count(self, chunk: bytes) -> None:
        """Refuse a body by what has arrived of it.

        Raises:
            FetchFailed: ``fetch.too_large``.
        """
        self._counted += len(chunk)
        self._check(self._counted)

    def _check(self, size: int) -> None:
        if size > self._limit:
            message = f"{self._url} answered more than {self._limit} bytes"
            raise FetchFailed("fetch.too_large", message)


def _tls_words(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return exc.verify_message.rstrip(".")
    return (exc.reason or "the handshake failed").replace("_", " ").lower()
