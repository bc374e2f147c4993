"""The application under ASGI: a request is handed on once its body is there.

A body that arrives slowly holds no thread here, and its time is limited, so that silent clients
delay no others.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from cardsign.server.answers import error_response
from cardsign.server.jsonrpc import MAX_REQUEST_BYTES
from cardsign.server.providers.base import RETRY_SECONDS

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

#: Status, headers and body of an answer.
_Answer: TypeAlias = tuple[int, Iterable[tuple[str, str]], bytes]
Scope: TypeAlias = Mapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Seconds for the first byte of a body and for a short one as a whole.
BODY_SECONDS: Final = 3.0
#: Bytes a second: each lets a body go on for so much longer, 4 s more for the largest.
BODY_RATE: Final = 16 * 1024
PEER_THREADS: Final = 16  # that wait for other hosts at the same time, each for some seconds
MAX_WAITING: Final = 256  # requests that wait for such a thread, or in one


class AsgiApplication:
    """Answers HTTP requests by a WSGI application that only computes.

    It is called on the event loop: an answer takes microseconds, which no thread would shorten.
    A request that may wait for other hosts is answered in a thread of :class:`PeerThreads`:
    whatever becomes of those hosts, the public card is answered.

    Args:
        application: Gets a POST with its whole body; any other method without one.
        body_seconds: For the first byte of a body.
        body_rate: Bytes a second, at least, from then on.
        may_wait: Whether the application may wait for another host to answer a request.
        in_threads: Whether every other answer may wait too, for the storage of a rate limit.
        max_bytes: Of a body. One that is longer is handed on cut off, one byte too long.
    """

    def __init__(
        self,
        application: WSGIApplication,
        *,
        body_seconds: float = BODY_SECONDS,
        body_rate: float = BODY_RATE,
        may_wait: Callable[[WSGIEnvironment], bool] = lambda _: False,
        in_threads: bool = False,
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._application = application
        self._body_seconds = body_seconds
        self._body_rate = body_rate
        self._max_bytes = max_bytes
        self._may_wait = may_wait
        self._in_threads = in_threads
        self._threads = PeerThreads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one that its client gave up gets no answer."""
        body: bytes | None = b""
        if scope["method"] == "POST":
            try:
                body = await self._received(receive)
            except TimeoutError:
                closing = ("Connection", "close")
                late = error_response(408, "the body did not arrive in time", closing)
                await _send(send, late.status_code, late.headers, late.get_data())
                return
        if body is None:
            return
        environ = environ_of(scope, body)
        threads = self._threads if self._may_wait(environ) else None
        if threads is None and self._in_threads:
            await _send(send, *await asyncio.to_thread(_answered, self._application, environ))
            return
        await answer_by_wsgi(self._application, environ, send, threads)

    async def _received(self, receive: Receive) -> bytes | None:
        """The body; None where the client has gone.

        Raises:
            TimeoutError: It came too slowly.
        """
        body = bytearray()
        async with asyncio.timeout(self._body_seconds) as limit:
            first = limit.when() or 0.0
            while len(body) <= self._max_bytes:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    break
                limit.reschedule(first + len(body) / self._body_rate)
        return bytes(body[: self._max_bytes + 1])


class PeerThreads:
    """Threads for requests that may wait for other hosts, and for no other request.

    So many may wait for a thread; who comes then is told to come back.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(PEER_THREADS, "cardsign-peers")
        self._places = BoundedSemaphore(MAX_WAITING)

    async def run(self, application: WSGIApplication, environ: WSGIEnvironment) -> _Answer:
        """What the application answers, or that there is no place."""
        if not self._places.acquire(blocking=False):
            later = ("Retry-After", str(RETRY_SECONDS))
            full = error_response(503, "too many requests wait; try again later", later)
            return _answered(full, environ)
        future = self._pool.submit(_answered, application, environ)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)


async def answer_by_wsgi(
    application: WSGIApplication,
    environ: WSGIEnvironment,
    send: Send,
    threads: PeerThreads | None = None,
) -> None:
    """Answer a request of ASGI by a WSGI application; in a thread, or here."""
    if threads is None:
        await _send(send, *_answered(application, environ))
    else:
        await _send(send, *await threads.run(application, environ))


def _answered(application: WSGIApplication, environ: WSGIEnvironment) -> _Answer:
    """The whole answer of an application (PEP 3333)."""
    told: list[tuple[str, list[tuple[str, str]]]] = []
    body: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None, /) -> Any:
        told[:] = [(status, headers)]
        return body.append

    chunks = application(environ, start_response)
    try:
        body.extend(chunks)
    finally:
        if close := getattr(chunks, "close", None):
            close()
    [(status, headers)] = told
    return int(status[:3]), headers, b"".join(body)


async def _send(send: Send, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def split_path(scope: Scope) -> tuple[str, str]:
    """Where the application is mounted, and what follows, as WSGI writes both.

    The path of ASGI is whole, `root_path` included.
    """
    raw_path = scope.get("raw_path")  # servers may leave it out
    whole = scope["path"].encode() if raw_path is None else unquote_to_bytes(raw_path)
    root = scope.get("root_path", "").encode().rstrip(b"/")
    if not whole.startswith(root + b"/"):
        root = b""
    return root.decode("latin-1"), whole[len(root) :].decode("latin-1")


def environ_of(scope: Scope, body: bytes) -> WSGIEnvironment:
    """A request of ASGI, whose body is there, as WSGI has it (PEP 3333).

    Headers with an underscore are left out, since they would pass for others.
    """
    script, path = split_path(scope)
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": script,
        "PATH_INFO": path,
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        if b"_" in raw_name:
            continue
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        key = name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"
        value = raw_value.decode("latin-1")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ
