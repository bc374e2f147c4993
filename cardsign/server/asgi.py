"""The application under ASGI: a request is handed on once its body is there.

A body that arrives slowly holds no thread here, and its time is limited, so that silent clients
delay no others.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from werkzeug.test import run_wsgi_app

from cardsign.server.answers import error_response
from cardsign.server.jsonrpc import MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

#: When an application may wait for other hosts: to count requests, or to know a caller.
Waits: TypeAlias = Literal["never", "extended", "always"]
Scope: TypeAlias = Mapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Seconds for the first byte of a body and for a short one as a whole.
BODY_SECONDS: Final = 3.0
#: Bytes a second: each lets a body go on for so much longer, 4 s more for the largest.
BODY_RATE: Final = 16 * 1024


class AsgiApplication:
    """Answers HTTP requests by a WSGI application that only computes.

    It is called on the event loop: an answer takes microseconds, which no thread would shorten.
    Where it may ask other hosts it is called in a thread, but for the well-known paths: whatever
    becomes of those hosts, the public card is answered.

    Args:
        application: Gets a POST with its whole body; any other method without one.
        body_seconds: For the first byte of a body.
        body_rate: Bytes a second, at least, from then on.
        waits: For what the application may wait for other hosts.
        max_bytes: Of a body. One that is longer is handed on cut off, one byte too long.
    """

    def __init__(
        self,
        application: WSGIApplication,
        *,
        body_seconds: float = BODY_SECONDS,
        body_rate: float = BODY_RATE,
        waits: Waits = "never",
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._application = application
        self._body_seconds = body_seconds
        self._body_rate = body_rate
        self._max_bytes = max_bytes
        self._waits = waits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one that its client gave up gets no answer."""
        body: bytes | None = b""
        if scope["method"] == "POST":
            try:
                body = await self._received(receive)
            except TimeoutError:
                late = error_response(
                    408, "the body did not arrive in time", ("Connection", "close")
                )
                await _answer(send, late.status_code, late.headers, late.get_data())
                return
        if body is None:
            return
        may_wait = self._waits == "always" or (
            self._waits == "extended" and not scope["path"].startswith("/.well-known/")
        )
        await answer_by_wsgi(self._application, scope, body, send, may_wait=may_wait)

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


async def answer_by_wsgi(
    application: WSGIApplication, scope: Scope, body: bytes, send: Send, *, may_wait: bool = False
) -> None:
    """Answer a request of ASGI, whose body is there, by a WSGI application; in a thread or here."""
    environ = _environ(scope, body)
    if may_wait:
        answer = await asyncio.to_thread(run_wsgi_app, application, environ, True)
    else:
        answer = run_wsgi_app(application, environ, True)
    chunks, status, headers = answer
    await _answer(send, int(status[:3]), headers, b"".join(chunks))


async def _answer(send: Send, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
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


def _environ(scope: Scope, body: bytes) -> WSGIEnvironment:
    """The request as WSGI has it (PEP 3333).

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
