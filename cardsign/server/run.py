"""Running the application under granian: its processes, and one request after another.

A request is handed on once its body is there. A body that arrives slowly holds no thread here, and
its time is limited, so that silent clients delay no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cardsign.errors import ServeFault, UsageFault
from cardsign.server.answers import MAX_REQUEST_BYTES, Answer, error_answer
from cardsign.server.events import to_stderr
from cardsign.server.host import Host
from cardsign.server.providers import RETRY_SECONDS
from cardsign.server.settings import ServerSettings
from cardsign.server.traffic import (
    FOLDER,
    Metrics,
    RateLimit,
    address_in,
    log_answer,
)

if TYPE_CHECKING:
    from multiprocessing.synchronize import Lock

    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment


#: Seconds for the first byte of a body and for a short one as a whole.
BODY_SECONDS: Final = 3.0
#: Bytes a second: each lets a body go on for so much longer, 4 s more for the largest.
BODY_RATE: Final = 16 * 1024
PEER_THREADS: Final = 16  # that wait for other hosts at the same time, each for some seconds
MAX_WAITING: Final = 256  # requests that wait for such a thread, or in one


#: May refuse a request, before anything else is done for it.
Gate: TypeAlias = Callable[[Any], Awaitable[Answer | None]]
#: Is told of a request, its answer, and the seconds that this took.
Witness: TypeAlias = Callable[[Any, Answer, float], None]


class RsgiApplication:
    """Answers HTTP requests by a WSGI application that only computes.

    It is called on the event loop: an answer takes microseconds, which no thread would shorten.
    A request that may wait for other hosts is answered in a thread of :class:`PeerThreads`:
    whatever becomes of those hosts, the public card is answered.

    Args:
        application: Gets a POST with its body, which is cut off one byte after
            :data:`MAX_REQUEST_BYTES`; any other method without one.
        body_seconds: For the first byte of a body.
        body_rate: Bytes a second, at least, from then on.
        at_once: Answers a GET where nothing has to be waited for; None where it cannot.
        may_wait: Whether the application may wait for another host to answer a request.
        gate: May refuse a request; it gets the scope of RSGI.
        witnesses: Are told of each answer once it is given.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        application: WSGIApplication,
        *,
        body_seconds: float = BODY_SECONDS,
        body_rate: float = BODY_RATE,
        at_once: Callable[[WSGIEnvironment], Answer | None] = lambda _: None,
        may_wait: Callable[[WSGIEnvironment], bool] = lambda _: False,
        gate: Gate | None = None,
        witnesses: tuple[Witness, ...] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._application = application
        self._body_seconds = body_seconds
        self._body_rate = body_rate
        self._at_once = at_once
        self._may_wait = may_wait
        self._gate = gate
        self._witnesses = witnesses
        self._clock = clock
        self._threads = PeerThreads()

    async def __rsgi__(self, scope: Any, exchange: Any) -> None:
        """Answer one request."""
        began = self._clock()
        answer = await self._gate(scope) if self._gate else None
        if answer is None:
            answer = await self._answer(scope, exchange)
        if scope.method == "HEAD":  # the server's own refusals have a body
            answer = answer._replace(body=b"")
        exchange.response_bytes(answer.status, answer.headers, answer.body)
        for witness in self._witnesses:
            witness(scope, answer, self._clock() - began)

    async def _answer(self, scope: Any, exchange: Any) -> Answer:
        """What the application answers."""
        body = b""
        if scope.method == "POST":
            try:
                body = await self._received(exchange)
            except TimeoutError:
                closing = ("Connection", "close")
                return error_answer(408, "the body did not arrive in time", closing)
        environ = _environ(scope, body)
        answer = self._at_once(environ) if scope.method == "GET" else None
        if answer is not None:
            return answer
        if self._may_wait(environ):
            return await self._threads.run(self._application, environ)
        return answered(self._application, environ)

    async def _received(self, exchange: Any) -> bytes:
        """The body; less of it where the client has gone, who gets no answer.

        Raises:
            TimeoutError: It came too slowly.
        """
        body = bytearray()
        async with asyncio.timeout(self._body_seconds) as limit:
            first = limit.when() or 0.0
            async for piece in exchange:
                body += piece
                if len(body) > MAX_REQUEST_BYTES:
                    break
                limit.reschedule(first + len(body) / self._body_rate)
        return bytes(body[: MAX_REQUEST_BYTES + 1])


class PeerThreads:
    """Threads for requests that may wait for other hosts, and for no other request.

    So many may wait for a thread; who comes then is told to come back.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(PEER_THREADS, "cardsign-peers")
        self._places = BoundedSemaphore(MAX_WAITING)

    async def run(self, application: WSGIApplication, environ: WSGIEnvironment) -> Answer:
        """What the application answers, or that there is no place."""
        if not self._places.acquire(blocking=False):
            later = ("Retry-After", str(RETRY_SECONDS))
            return error_answer(503, "too many requests wait; try again later", later)
        future = self._pool.submit(answered, application, environ)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)


def answered(application: WSGIApplication, environ: WSGIEnvironment) -> Answer:
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
    return Answer(b"".join(body), int(status[:3]), headers)


def _environ(scope: Any, body: bytes) -> WSGIEnvironment:
    """A request of RSGI, whose path is decoded already."""
    path = "", scope.path.encode().decode("latin-1")
    headers = scope.headers.items()
    environ = make_environ(scope.method, path, scope.query_string, address_in(scope), headers, body)
    if scope.authority:  # HTTP/2, or a request line with the whole URL (RFC 9112 3.2.2)
        environ["HTTP_HOST"] = scope.authority
    return environ


def make_environ(
    method: str,
    where: tuple[str, str],
    query: str,
    client: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
) -> WSGIEnvironment:
    """A request whose body is there as WSGI has it (PEP 3333).

    Headers with an underscore are left out, since they would pass for others.
    """
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": where[0],
        "PATH_INFO": where[1],
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, value in headers:
        if "_" in raw_name:
            continue
        name = raw_name.upper().replace("-", "_")
        key = name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ


#: Seconds that requests under way are given at a shutdown.
SHUTDOWN_SECONDS: Final = 3
_START_SECONDS: Final = 30.0
_RESPAWN_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.02

# granian would talk on stdout, which is for data.
_LOG_HANDLER: Final = {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}
_LOG_CONFIG: Final[dict[str, Any]] = {
    "handlers": {"console": _LOG_HANDLER, "access": _LOG_HANDLER},
}


def serve(
    directory: Path, settings: ServerSettings, host: str, port: int, *, as_json: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT; says on stderr where, once requests are accepted.

    Args:
        directory: A publication directory, or a folder of them, one for each agent.
        settings: To whom it is served, and how.
        host: A name or address of this machine.
        port: 0 for any free one.
        as_json: Say where as one JSON object on stdout as well, for programs that start this.

    Raises:
        UsageFault: ``usage.not_installed``: metrics are wanted; ``config.malformed``: no rate, or
            no storage for it.
        ServeFault: ``serve.bind``, ``serve.worker_died``, and what
            :class:`cardsign.server.host.Host` raises.
        FileFault: A published file cannot be read.
    """
    Host(directory, settings, log=_unsaid, events=_unsaid)  # fail before listening
    if settings.rate:
        RateLimit(settings, log=_unsaid)
    with _counted(settings), _reserved(host, port) as (address, free_port):
        make = partial(Host, directory, settings)
        _run(make, address, free_port, as_json, settings.workers)


@contextlib.contextmanager
def _counted(settings: ServerSettings) -> Iterator[None]:
    """A folder for the counters of all workers, where metrics are wanted."""
    if not settings.metrics:
        yield
        return
    if find_spec("prometheus_client") is None:  # which the workers import, once FOLDER is set
        raise UsageFault(
            "usage.not_installed",
            "metrics need prometheus-client, which is not installed",
            hint="Install it: pip install 'cardsign[metrics]'.",
        )
    with tempfile.TemporaryDirectory(prefix="cardsign-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def _run(make: Callable[[], Host], address: str, port: int, as_json: bool, workers: int) -> None:
    from granian import Granian
    from granian.constants import Interfaces, Loops
    from granian.log import LogLevels

    server = Granian(
        "cardsign",
        address=address,
        port=port,
        interface=Interfaces.RSGI,
        loop=Loops.auto,
        websockets=False,
        workers=workers,
        respawn_failed_workers=workers > 1,  # if it is alone, the service ends
        respawn_interval=_RESPAWN_SECONDS,
        log_level=LogLevels.error,
        log_dictconfig=_LOG_CONFIG,
        workers_kill_timeout=SHUTDOWN_SECONDS,
    )
    try:
        unsaid = multiprocessing.Lock()  # whichever worker takes it says where; nobody releases it
        loader = partial(_load, make, (address, port), os.getpid(), as_json, unsaid)
        server.serve(target_loader=loader, wrap_loader=False)
    except SystemExit as exc:  # granian's way to say that the worker ended unasked
        raise ServeFault("serve.worker_died", "the worker process ended by itself") from exc


def _load(
    make: Callable[[], Host],
    address: tuple[str, int],
    parent: int,
    as_json: bool,
    unsaid: Lock,
) -> Any:
    """Make the RSGI application; called in the worker process, which need not be a fork."""
    live = make()
    watched = (live, address, parent, as_json, unsaid)
    threading.Thread(target=_watch, args=watched, daemon=True).start()
    settings = live.settings
    application: Host | Metrics = live
    witnesses: list[Witness] = []
    if settings.access_log:
        witnesses.append(partial(log_answer, settings))
    if settings.metrics:
        application = metrics = Metrics(live)
        witnesses.append(metrics.count)
    return RsgiApplication(
        application,
        at_once=application.at_once,
        may_wait=live.may_wait,
        gate=RateLimit(settings).refuse if settings.rate else None,
        witnesses=tuple(witnesses),
    )


def _unsaid(line: str) -> None:
    """The worker will say it."""


def _watch(live: Host, address: tuple[str, int], parent: int, as_json: bool, unsaid: Lock) -> None:
    """Say once, for all workers, when requests are accepted; end this one if its parent is killed.

    A worker left alone would go on answering at the port, and nothing would stop it.
    """
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(address, timeout=1).close()
            break
        time.sleep(_LOOK_SECONDS)
    if unsaid.acquire(block=False):
        number, count, url = live.number, len(live.agents), _url(address)
        if as_json:
            said = {"generation": number} if number else {"agents": count}
            print(json.dumps({**said, "url": url}), flush=True)
        what = f"generation {number}" if number else f"{count} agents"
        to_stderr(f"serving {what} on {url}")
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextlib.contextmanager
def _reserved(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Hold an address that no other process listens on, for granian to listen on.

    granian binds with SO_REUSEPORT, by which a second server would start without a word and
    get a share of the requests. This socket is bound without it, so that it fails beside
    anybody else; it never listens, and lets granian in afterwards.
    """
    try:
        family, _, _, _, wanted = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise ServeFault("serve.bind", f"{host} is no address of this machine: {exc}") from exc
    with held:
        try:
            _bind(held, wanted)
        except OSError as exc:
            where = _url((host, port)).removeprefix("http://")
            if exc.errno == errno.EADDRINUSE:
                raise ServeFault(
                    "serve.bind",
                    f"{where} is in use",
                    hint="Stop the other server or choose another port with --bind.",
                ) from exc
            raise ServeFault("serve.bind", f"{where} cannot be bound: {exc.strerror}") from exc
        address, free_port, *_ = held.getsockname()
        if sys.platform == "linux":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:
            held.close()  # elsewhere granian's socket would not be let in
        yield address, free_port


def _bind(held: socket.socket, address: Any) -> None:
    """Bind alone if possible, else beside the remains of closed connections (TIME_WAIT)."""
    try:
        held.bind(address)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)


def _url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
